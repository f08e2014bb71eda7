"""Older bars in a history that show only the close. They are stored separately from its rows, which
takes a third of the tokens.

In a table, each row repeats the label and the day, and has a null for each missing price. When bars
are stored separately, assets that traded on the same days share the list of days:

    {"columns": [...], "rows": [...],
     "earlier": [{"days": ["day_-9", "day_-8"], "closes": {"asset_0042": [12.3, 12.5]}}]}

Such a table is read as the rows from which it was made.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ktdeval.masking.payload_types import render_json
from ktdeval.observation.state_rows import ASSET
from ktdeval.values.documents.strict_json import loads_strict

HISTORY = "history"
_EARLIER = "earlier"
_DAY = "day"
_CLOSE = "close"
_ALWAYS = (ASSET, _DAY, _CLOSE)

Table = Mapping[str, Any]
Row = Sequence[Any]


def with_older_apart(sections: Mapping[str, str]) -> Mapping[str, str]:
    """Return the texts of a state's sections, with the older closes in its history stored
    separately.
    """
    if HISTORY not in sections:
        return sections

    shown: Any = loads_strict(sections[HISTORY])
    apart = older_apart(shown)
    if apart is shown:
        return sections
    return {**sections, HISTORY: render_json(apart)}


def older_apart(history: Table) -> Table:
    """Return a history in which the leading rows of each asset are stored separately, as long as
    they show only a close. An asset's last row always stays. If no row is moved, the history itself
    is returned.
    """
    columns = history["columns"]
    if not set(_ALWAYS) < set(columns):  # in a market with only closes, rows are short anyway
        return history

    label, day, close = (columns.index(name) for name in _ALWAYS)
    rows: list[Row] = []
    groups: dict[tuple[str, ...], dict[str, list[Any]]] = {}
    for asset, of_asset in itertools.groupby(history["rows"], key=lambda row: row[label]):
        bars = list(of_asset)
        older = list(itertools.takewhile(_has_close_alone(columns), bars[:-1]))
        rows += bars[len(older) :]
        if older:
            days = tuple(row[day] for row in older)
            groups.setdefault(days, {})[asset] = [row[close] for row in older]

    if not groups:
        return history

    earlier = [{"days": list(days), "closes": closes} for days, closes in groups.items()]
    return {**history, "rows": rows, _EARLIER: earlier}


def shows_older_apart(sections: Mapping[str, str]) -> bool:
    """Return whether a state's history has rows that are stored separately."""
    return f'"{_EARLIER}":[' in sections.get(HISTORY, "")


def joined_again(history: Table) -> Table:
    """Return a table with its separately stored rows merged back in. Any other table is returned
    unchanged.
    """
    if not _has_rows_apart(history):
        return history

    older: dict[str, list[Row]] = {}
    columns = history["columns"]
    for group in history[_EARLIER]:
        for asset, closes in group["closes"].items():
            older[asset] = [
                _row_of(columns, asset, day, close)
                for day, close in zip(group["days"], closes, strict=True)
            ]

    rows: list[Row] = []
    label = columns.index(ASSET)
    for row in history["rows"]:
        rows += older.pop(row[label], [])
        rows.append(row)

    whole = {name: value for name, value in history.items() if name != _EARLIER}
    return {**whole, "rows": rows}


def _has_rows_apart(value: Table) -> bool:
    """Return whether a value has the form of a table with separately stored rows. The check is
    needed because the value may be untrusted input.
    """
    groups = value.get(_EARLIER)
    if not isinstance(value.get("columns"), list) or not isinstance(groups, list):
        return False

    for group in groups:
        if not isinstance(group, dict) or not isinstance(group.get("closes"), dict):
            return False

        lists = [group.get("days"), *group["closes"].values()]
        if not all(isinstance(one, list) for one in lists) or len({*map(len, lists)}) != 1:
            return False

    return ASSET in value["columns"]


def _row_of(columns: Sequence[str], asset: str, day: str, close: Any) -> Row:
    cells = {ASSET: asset, _DAY: day, _CLOSE: close}
    return [cells.get(name) for name in columns]


def _has_close_alone(columns: Sequence[str]) -> Callable[[Row], bool]:
    """Return a function that tests whether a row has a close but no other figures."""
    close = columns.index(_CLOSE)
    others = [place for place, name in enumerate(columns) if name not in _ALWAYS]

    def has_close_alone(row: Row) -> bool:
        return row[close] is not None and all(row[place] is None for place in others)

    return has_close_alone
