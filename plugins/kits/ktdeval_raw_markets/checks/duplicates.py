"""Rows with the same code and day. Identical rows are distinguished from differing rows, which are
dropped only by a repair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from ktdeval.market import BAR_FIELDS, MINUTE_FIELDS, BoolArray, MinuteBars
from ktdeval_raw_markets.sources.raw_tables import BarTable, RawMarket
from ktdeval_tables.row_places import place


@dataclass(frozen=True)
class RepeatedRows:
    """Rows whose key occurs more than once; arrays are [rows], ordered by key."""

    same: BoolArray  #: equal to an earlier row with the same key
    differing: BoolArray  #: different from an earlier row with the same key
    first: BoolArray  #: the first row of a key whose rows differ
    last: BoolArray  #: the last row of a key whose rows differ


def bar_repeats(raw: RawMarket) -> RepeatedRows:
    """Find repeated bars, in table order."""
    table = raw.table
    again = table.find_duplicates()
    shared = np.flatnonzero(again | np.append(again[1:], False))
    if not len(shared):
        return _repeats(len(again), shared, pd.DataFrame(), [])

    return _repeats(len(again), shared, bar_values(table, shared), ["column", "row"])


def bar_values(table: BarTable, rows: np.ndarray) -> pd.DataFrame:
    """Return the keys and values of the given bars."""
    values = {name: table[name][rows] for name in _bar_fields(table)}
    return pd.DataFrame({"column": table.column[rows], "row": table.row[rows], **values})


def _bar_fields(table: BarTable) -> list[str]:
    fields = [*BAR_FIELDS, *table.quotes]
    if table.has_flags:
        fields.append("traded")
    return fields


def index_repeats(raw: RawMarket) -> RepeatedRows:
    """Find repeated index levels, in row order."""
    rows = raw.indices[["date", "code", "close"]].reset_index(drop=True)
    shared = np.flatnonzero(rows.duplicated(["date", "code"], keep=False))
    return _repeats(len(rows), shared, rows.iloc[shared], ["date", "code"])


def minute_repeats(raw: RawMarket) -> RepeatedRows:
    """Find repeated intraday bars, in row order."""
    rows = raw.minutes.rows
    keys = rows[["asset", "ends_at"]]
    again = np.zeros(0, dtype=np.bool_)
    if len(rows):
        again = np.append(False, keys[1:] == keys[:-1])

    before_again = np.append(again[1:], False)[: len(again)]
    shared = np.flatnonzero(again | before_again)
    return _repeats(len(rows), shared, pd.DataFrame(rows[shared]), ["asset", "ends_at"])


def _repeats(size: int, shared: np.ndarray, rows: pd.DataFrame, key: list[str]) -> RepeatedRows:
    """Compare rows that share their key with another row. `shared`: row numbers of these rows."""
    names = ("same", "differing", "first", "last")
    masks = {name: np.zeros(size, dtype=np.bool_) for name in names}
    if len(shared):
        own = rows.reset_index(drop=True)
        later = own.duplicated(key)
        same = own.duplicated()
        differs = (later & ~same).groupby([own[name] for name in key]).transform("any")

        masks["same"][shared] = same
        masks["differing"][shared] = later & ~same
        masks["first"][shared] = differs & ~later
        masks["last"][shared] = differs & ~own.duplicated(key, keep="last")

    return RepeatedRows(**masks)


def differing_keys(repeats: RepeatedRows) -> Iterator[tuple[int, int]]:
    """Yield the first row of each key whose rows differ, and the first row that differs from it."""
    starts = np.flatnonzero(repeats.first)
    others = np.flatnonzero(repeats.differing)
    for start, other in zip(starts, np.searchsorted(others, starts), strict=True):
        yield int(start), int(others[other])


# ---- messages


def bar_examples(raw: RawMarket, repeats: RepeatedRows) -> Iterator[str]:
    """Yield, for each code and day with differing rows, both rows with their values."""
    if not repeats.first.any():  # avoids the sort, which is slow
        return

    table = raw.table
    positions = np.arange(len(table.row))[table.order]
    for pair in differing_keys(repeats):
        both = bar_values(table, np.array(pair)).to_dict("records")
        places = [place(raw.bars, int(positions[row])) for row in pair]
        yield f"{table.label(pair[0])}: {_both(both, places, _bar_fields(table))}"


def index_examples(raw: RawMarket, repeats: RepeatedRows) -> Iterator[str]:
    """Yield, for each index and day with differing levels, both rows."""
    rows = raw.indices
    order = _by_key(rows)
    for pair in differing_keys(_in_order(repeats, order)):
        positions = [int(order[row]) for row in pair]
        both = rows.iloc[positions].to_dict("records")
        places = [place(rows, position) for position in positions]
        yield f"{both[0]['code']} {both[0]['date']:%Y-%m-%d}: {_both(both, places, ['close'])}"


def minute_examples(raw: RawMarket, repeats: RepeatedRows) -> Iterator[str]:
    """Yield, for each asset and minute with differing rows, both rows."""
    rows = raw.minutes.rows
    for pair in differing_keys(repeats):
        both = []
        for row in pair:
            both.append({name: rows[row][name] for name in MINUTE_FIELDS})

        first = rows[pair[0]]
        label = f"{raw.minutes.codes[first['asset']]} {first['ends_at']} UTC"
        yield f"{label}: {_both(both, ['one row', 'another'], MINUTE_FIELDS)}"


def _both(rows: Sequence[Mapping[Any, Any]], places: list[str], names: Sequence[str]) -> str:
    """Describe two rows, omitting fields that are missing in both.

    For example, `line 2 of bars.csv has open 10, close 11; line 5 of bars.csv has open 10, close
    12`.
    """
    shown = [name for name in names if any(row[name] == row[name] for row in rows)]
    parts = []
    for where, row in zip(places, rows, strict=True):
        values = ", ".join(f"{name} {row[name]:.10g}" for name in shown)
        parts.append(f"{where} has {values}")

    return "; ".join(parts)


def _by_key(rows: pd.DataFrame) -> np.ndarray:
    """Return row numbers, stably sorted by code and day."""
    numbered = rows[["code", "date"]].reset_index(drop=True)
    return numbered.sort_values(["code", "date"], kind="stable").index.to_numpy()


def _in_order(repeats: RepeatedRows, order: np.ndarray) -> RepeatedRows:
    return RepeatedRows(
        same=repeats.same[order],
        differing=repeats.differing[order],
        first=repeats.first[order],
        last=repeats.last[order],
    )


# ---- repairs


def drop_duplicates(raw: RawMarket) -> tuple[RawMarket, int]:
    """Keep one of several identical rows with the same code and day."""
    bars, indices, minutes = _all_repeats(raw)
    return _without_rows(raw, bars.same, indices.same, minutes.same)


def keep_first(raw: RawMarket) -> tuple[RawMarket, int]:
    """Keep the first of several differing rows with the same code and day."""
    return _keep(raw, "first")


def keep_last(raw: RawMarket) -> tuple[RawMarket, int]:
    """Keep the last of several differing rows with the same code and day."""
    return _keep(raw, "last")


def _keep(raw: RawMarket, which: Literal["first", "last"]) -> tuple[RawMarket, int]:
    bars, indices, minutes = _all_repeats(raw)
    table = raw.table
    keys = table.column * np.int64(len(table.days)) + table.row
    levels = pd.MultiIndex.from_frame(raw.indices[["date", "code"]]).factorize()[0]
    ends = raw.minutes.rows[["asset", "ends_at"]]
    moments = np.empty(0, dtype=np.int64)

    if len(ends):
        moments = np.unique(ends, return_inverse=True)[1].ravel()

    dropped = []
    for repeats, key in ((bars, keys), (indices, levels), (minutes, moments)):
        chosen = repeats.first if which == "first" else repeats.last
        shares_key = np.isin(key, key[chosen])
        dropped.append(shares_key & ~chosen)

    return _without_rows(raw, *dropped)


def _all_repeats(raw: RawMarket) -> tuple[RepeatedRows, RepeatedRows, RepeatedRows]:
    return bar_repeats(raw), index_repeats(raw), minute_repeats(raw)


def _without_rows(
    raw: RawMarket,
    bars: BoolArray,
    indices: BoolArray,
    minutes: BoolArray,
) -> tuple[RawMarket, int]:
    """Return the market without the given rows, and the number of rows dropped. `bars` is in table
    order.
    """
    dropped = int(bars.sum() + indices.sum() + minutes.sum())
    if not dropped:
        return raw, 0

    minute_bars = raw.minutes
    if minutes.any():
        rows = raw.minutes.rows[~minutes]
        rows.setflags(write=False)
        minute_bars = MinuteBars(raw.minutes.codes, rows)

    changed = dataclasses.replace(
        raw,
        bars=raw.bars.loc[~raw.table.in_source(bars)],
        indices=raw.indices.loc[~indices],
        minutes=minute_bars,
    )
    return changed, dropped
