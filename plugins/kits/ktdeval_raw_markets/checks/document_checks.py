"""Checks of data that accompany the daily bars: documents and intraday bars."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ktdeval.errors import KtdevalError
from ktdeval.market import NEVER_CLOSES, DayArray, SessionHours, Venue, session_hours
from ktdeval.values import MAX_EXAMPLES, Finding
from ktdeval_raw_markets.checks.duplicates import minute_examples, minute_repeats
from ktdeval_raw_markets.checks.findings import finding_of
from ktdeval_raw_markets.sources import document_files
from ktdeval_raw_markets.sources.raw_tables import PRICE_FIELDS, PRICE_TOLERANCE, RawMarket

_HOURS_BEFORE = np.timedelta64(8 * 60, "m")


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
    yield _stamped_at_start(raw)


def _stamped_at_start(raw: RawMarket) -> Finding:
    """Find days whose bars have the times at which they begin: the first one would end at the open,
    and the last one ends before the close. If an asset has as many days with a bar that ends at the
    close, an auction before the open explains the first bar.
    """
    found: list[tuple[str, np.datetime64]] = []
    lengths: list[int] = []
    for code in raw.minutes.codes:
        venue = raw.venue(code)
        ends_at = np.unique(raw.minutes.of_code(code)["ends_at"])
        hours = _hours_of(venue, ends_at)
        if hours is None:
            continue

        first = np.searchsorted(ends_at, hours.opens)
        after = np.searchsorted(ends_at, hours.closes, side="right")
        has_bars = after > first
        begins = np.minimum(first, len(ends_at) - 1)
        at_open = has_bars & (ends_at[begins] == hours.opens)
        # no bar within the hours before the open, which data with extended hours have
        at_open &= (first == 0) | (ends_at[begins - 1] < hours.opens - _HOURS_BEFORE)
        at_close = has_bars & (ends_at[np.maximum(after, 1) - 1] == hours.closes)
        stamped = at_open & ~at_close
        if stamped.sum() > at_close.sum():
            found += [(code, day) for day in hours.days[stamped]]
            gaps = np.diff(ends_at).astype(np.int64)
            lengths.append(int(gaps.min()) if len(gaps) else 1)

    examples = (f"{code} {day}" for code, day in found)
    return finding_of(
        "minutes_stamped_at_start", len(found), examples, fix=str(min(lengths, default=1))
    )


def _hours_of(venue: Venue, ends_at: DayArray) -> SessionHours | None:
    """Return the hours of a venue's sessions on the days of bars; None if they are not known, or if
    it never closes.
    """
    if venue.calendar == NEVER_CLOSES or not len(ends_at):
        return None
    try:
        days = ends_at[[0, -1]].astype("datetime64[D]")
        return session_hours(days[0], days[1], venue.calendar)
    except KtdevalError:
        return None
