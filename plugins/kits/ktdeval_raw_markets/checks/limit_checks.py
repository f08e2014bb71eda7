"""Checks of data that restrict A-share trading: listing days and the source's limit prices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktdeval.values import Finding
from ktdeval_raw_markets.checks.findings import bars_finding, finding_of
from ktdeval_raw_markets.sources.raw_tables import RawMarket

_HALF_A_FEN = 0.0051  # a limit price is in whole fen, however the source rounds it


def check_listings(raw: RawMarket) -> Iterator[Finding]:
    """Find A-shares whose first bar is taken as their listing day, and thus as the start of the
    days without a price limit.
    """
    table = raw.table
    first_rows = table.row[table.new_code]
    late = [code for code, row in zip(table.codes, first_rows.tolist(), strict=True) if row > 0]
    assumed = [code for code in late if raw.venue(code).has_boards and not raw.listed.get(code)]
    yield finding_of("listings_assumed", len(assumed), assumed)


def check_limit_prices(raw: RawMarket) -> Iterator[Finding]:
    """Find bars outside the source's limit prices for the day."""
    table = raw.table
    beyond = np.zeros(len(table.row), dtype=np.bool_)
    for name, price, sign in (("limit_up", "high", 1), ("limit_down", "low", -1)):
        if name in raw.bars.columns:
            limit = raw.bars[name].to_numpy(dtype=np.float64)[table.order]
            beyond |= (limit > 0) & (sign * (table[price] - limit) > _HALF_A_FEN)

    yield bars_finding(raw, "bar_beyond_limit_prices", beyond & table.traded)
