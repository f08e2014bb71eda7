"""Checks of data that accompany the daily bars: documents and intraday bars."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ktdeval.market.checks.duplicates import (
    minute_examples,
    minute_repeats,
)
from ktdeval.market.checks.findings import finding_of
from ktdeval.market.sources import document_files
from ktdeval.market.sources.raw_tables import (
    PRICE_FIELDS,
    PRICE_TOLERANCE,
    RawMarket,
)
from ktdeval.values.findings import MAX_EXAMPLES, Finding


def check_documents(raw: RawMarket) -> Iterator[Finding]:
    """Yield faults and other notable facts about the documents."""
    yield from (
        finding_of(*fault) for fault in document_files.faults(raw.documents, frozenset(raw.codes))
    )


def check_minutes(raw: RawMarket) -> Iterator[Finding]:
    """Check intraday bars against each other and against the daily bars. An intraday bar belongs to
    the local date in its venue's time zone.
    """
    if not raw.minutes:
        return

    table = raw.table
    rows = raw.minutes.rows
    repeats = minute_repeats(raw)
    column = (pd.Index(table.codes).get_indexer(pd.Index(raw.minutes.codes)))[rows["asset"]]
    day = pd.Index(table.days).get_indexer(
        pd.Index(raw.minutes.days(lambda code: raw.venue(code).zone))
    )
    keys = table.column * np.int64(len(table.days)) + table.row
    bar = np.minimum(np.searchsorted(keys, column * len(table.days) + day), len(keys) - 1)
    has_bar = (table.column[bar] == column) & (table.row[bar] == day) & table.traded[bar]
    prices = np.stack([rows[name] for name in PRICE_FIELDS])
    wrong = ~(
        (prices > 0) & (prices <= rows["high"]) & (prices >= rows["low"]) & np.isfinite(prices)
    ).all(axis=0)
    slack = 1 + PRICE_TOLERANCE
    high = table["high"][bar]
    low = table["low"][bar]
    total = np.bincount(bar, rows["volume"], len(keys))[bar]
    volume = table["volume"][bar]
    masks = {
        "minutes": np.ones(len(rows), dtype=np.bool_),
        "minutes_without_bar": ~has_bar,
        "minutes_repeated": repeats.same,
        "minutes_impossible": wrong | (rows["volume"] < 0) | np.isinf(rows["volume"]),
        "minutes_outside_bar": (
            has_bar & ((rows["high"] > high * slack) | (rows["low"] * slack < low))
        ),
        "minutes_volume": has_bar & ((total > 2 * volume) | (10 * total < volume)),
    }

    for kind, mask in masks.items():
        examples = (
            f"{raw.minutes.codes[row['asset']]} {row['ends_at']} UTC"
            for row in rows[mask][:MAX_EXAMPLES]
        )
        yield finding_of(kind, int(mask.sum()), examples)

    yield finding_of(
        "minutes_conflicting", int(repeats.differing.sum()), minute_examples(raw, repeats)
    )
