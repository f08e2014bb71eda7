"""Checks of a source's quotes, and a repair."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ktdeval.market import QUOTE_COLUMNS, BoolArray, FloatArray, impossible, two_sided
from ktdeval.values import Finding
from ktdeval_raw_markets.checks.findings import bars_finding
from ktdeval_raw_markets.sources.raw_tables import RawMarket

_OUTSIDE = 0.1  # fraction by which the close may lie outside bid and ask
_FAR = 2.0  # far: a bid below the close divided by this, or an ask above the close times this


@dataclass(frozen=True)
class QuoteFaults:
    """Faults in a source's quotes on days with trades; arrays are [rows]."""

    impossible: BoolArray
    one_sided: BoolArray
    far: BoolArray  #: far from the close


def source_quotes(raw: RawMarket) -> tuple[FloatArray, FloatArray] | None:
    """Return bids and asks, [rows] of the sorted table; None if the source has no quotes."""
    table = raw.table
    if not table.quotes:
        return None

    bid = ask = np.full(len(table.row), np.nan)
    if "bid" in table.quotes:
        bid = table["bid"]
    if "ask" in table.quotes:
        ask = table["ask"]
    return bid, ask


def quote_faults(raw: RawMarket) -> QuoteFaults | None:
    """Return the faults in a source's quotes; None if it has no quotes."""
    quotes = source_quotes(raw)
    if quotes is None:
        return None

    bid, ask = quotes
    traded = raw.table.traded
    close = raw.table["close"]
    are_wrong = traded & impossible(bid, ask)
    is_pair = traded & two_sided(bid, ask) & ~are_wrong
    is_outside = (close < bid * (1 - _OUTSIDE)) | (close > ask * (1 + _OUTSIDE))
    is_wide = (bid * _FAR < close) | (ask > close * _FAR)

    return QuoteFaults(
        impossible=are_wrong,
        one_sided=traded & ~are_wrong & ((bid > 0) != (ask > 0)),
        far=is_pair & (is_outside | is_wide),
    )


def drop_quotes(raw: RawMarket) -> tuple[RawMarket, int]:
    """Remove quotes that are impossible or far from the same day's close."""
    faults = quote_faults(raw)
    quotes = source_quotes(raw)
    if faults is None or quotes is None:
        return raw, 0

    wrong = faults.impossible | faults.far
    columns = {}
    for name, column in zip(QUOTE_COLUMNS, quotes, strict=True):
        columns[name] = raw.table.in_source(np.where(wrong, np.nan, column))

    return dataclasses.replace(raw, bars=raw.bars.assign(**columns)), int(wrong.sum())


def quotes_of_days(raw: RawMarket) -> Iterator[tuple[str, FloatArray]]:
    """Yield each quote field's name and its values, [rows] of the sorted table. Values are NaN on
    days without trades, when quotes date from an earlier day.
    """
    quotes = source_quotes(raw)
    if quotes is None:
        return

    for name, column in zip(QUOTE_COLUMNS, quotes, strict=True):
        yield name, np.where(raw.table.traded, column, np.nan)


def check_quotes(raw: RawMarket) -> Iterator[Finding]:
    """Find quotes that are impossible in any market or far from the close, and days with only a bid
    or only an ask.
    """
    faults = quote_faults(raw)
    if faults is not None:
        yield bars_finding(raw, "impossible_quotes", faults.impossible)
        yield bars_finding(raw, "quotes_far_from_close", faults.far)
        yield bars_finding(raw, "one_sided_quotes", faults.one_sided)
