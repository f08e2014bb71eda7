"""What a masked payload shows, read from its JSON: labels, bars, factor values, the market's figures.

A payload is what a model gets to see of one stock on one day: an object with the results of three research tools, `market_context`
(`get_market_context`), `screen` (`screen_candidates`) and `snapshot` (`get_stock_snapshot` with bars), as the lens rendered them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktdeval.errors import DataError
from ktdeval.jsonio import JsonValue

Numbers = Mapping[str, float]
"""Name -> number; what is null is left out."""

_DAY_HANDLE = re.compile(r"day_([+-][0-9]{1,6})")


@dataclass(frozen=True)
class Bar:
    """One shown bar."""

    offset: int  #: trading days from the payload's day; 0 is that day, -1 the one before
    numbers: Numbers  #: column -> number, such as `close_cny`


@dataclass(frozen=True)
class Shown:
    """One payload, read."""

    stock_id: str  #: the asset's label as shown: a code or a handle
    row: int | None  #: row of the payload's day in the public calendar, None where only a handle is shown
    since_start: int | None  #: trading days since `day_+0`; None where nothing tells
    board: str
    member: bool  #: whether the payload calls the stock a member of the index
    figures: Numbers  #: the snapshot's returns, turnover and factor values, by name
    bars: tuple[Bar, ...]  #: oldest first
    indices: tuple[Numbers, ...]  #: the figures of each index, the benchmark first
    breadth: Numbers  #: the counts and sums over all members


def read_payload(payload: Mapping[str, JsonValue], rows: Mapping[str, int]) -> Shown:
    """Read a payload.

    `rows`: ISO date -> row of the public calendar. Raises DataError: a part is missing, or not what the tools give; the message
    names it.
    """
    snapshot, context = _mapping(payload, "snapshot"), _mapping(payload, "market_context")
    day = _text(snapshot, "snapshot", "day")
    place, is_handle = _place(day, rows, "snapshot.day")
    step = _mapping(context, "calendar", "market_context.").get("step")
    return Shown(
        stock_id=_text(snapshot, "snapshot", "stock_id"),
        row=None if is_handle else place,
        since_start=step if isinstance(step, int) else place if is_handle else None,
        board=_text(snapshot, "snapshot", "board"),
        member=snapshot.get("index_member") is True,
        figures=_numbers(_mapping(snapshot, "factors", "snapshot.")),
        bars=tuple(_bars(_table(snapshot, "bars", "snapshot."), rows, place)),
        indices=tuple(_numbers(row) for row in _table(context, "indices", "market_context.")),
        breadth=_numbers(_mapping(context, "breadth", "market_context.")),
    )


def _bars(table: Sequence[Mapping[str, Any]], rows: Mapping[str, int], last: int) -> list[Bar]:
    return [Bar(_place(row.get("day"), rows, "snapshot.bars: day")[0] - last, _numbers(row)) for row in table]


def _place(day: Any, rows: Mapping[str, int], where: str) -> tuple[int, bool]:
    """Number of a day's handle, or the row of a date; and whether it is a handle."""
    if isinstance(day, str):
        if match := _DAY_HANDLE.fullmatch(day):
            return int(match[1]), True
        if day in rows:
            return rows[day], False
    raise DataError(f"payload: {where}: expected a handle such as day_+3 or a day of the public calendar, was {day!r}")


def _numbers(row: Mapping[str, Any]) -> Numbers:
    return {name: float(value) for name, value in row.items() if isinstance(value, int | float) and not isinstance(value, bool)}


def _mapping(of: Mapping[str, Any], name: str, where: str = "") -> Mapping[str, Any]:
    value = of.get(name)
    if not isinstance(value, Mapping):
        raise DataError(f"payload: {where}{name}: expected a JSON object, was {type(value).__name__}")
    return value


def _text(of: Mapping[str, Any], where: str, name: str) -> str:
    value = of.get(name)
    if not isinstance(value, str):
        raise DataError(f"payload: {where}.{name}: expected text, was {type(value).__name__}")
    return value


def _table(of: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    """Rows of `{"columns": […], "rows": [[…], …]}` as mappings."""
    table = _mapping(of, name, where)
    columns, rows = table.get("columns"), table.get("rows")
    if not isinstance(columns, list) or not isinstance(rows, list):
        raise DataError(f"payload: {where}{name}: expected a table with columns and rows")
    if any(not isinstance(row, list) or len(row) != len(columns) for row in rows):
        raise DataError(f"payload: {where}{name}: expected rows of {len(columns)} values")
    return [dict(zip(columns, row, strict=True)) for row in rows]
