"""Tables of figures in few tokens. Each row is a line of comma-separated values with three
significant digits, and a bar has only its close and volume.

Every digit costs a token, as do the quotes and brackets of JSON. A packed table can still be read
as a table: `{"columns": "stock_id,close", "rows": ["asset_0042,12.3"]}` yields the rows that were
packed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ktdeval.masking.payload_types import render_json, small_number
from ktdeval.observation.older_closes import joined_again
from ktdeval.observation.state_rows import ASSET
from ktdeval.values.documents.strict_json import loads_strict

SECTIONS = ("candidates", "holdings", "history", "intraday")
"""Tables of figures of a state. Accounts, positions and orders count, so they stay exact."""

LEFT_OUT = re.compile("(open|high|low)(_cny)?")
"""Columns that are not shown."""

DIGITS = 3
_CELL = re.compile(r'"(?:[^"\\]|\\.)*"|[^,]*')
_BARE = re.compile(r'[^\s",\\][^",\\\n\r]*')


def compact_sections(sections: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of a state's sections, with tables of figures packed."""
    packed = dict(sections)
    for name in SECTIONS:
        if name in packed:
            packed[name] = _dumps(_pack_table(loads_strict(packed[name])))

    return packed


def unpack_section(value: Any) -> Any:
    """Return a packed section as a table with rows of values. Other sections are returned
    unchanged.
    """
    if not isinstance(value, dict):
        return value
    if not isinstance(value.get("columns"), str):
        return joined_again(value)

    columns = value["columns"].split(",")
    rows = [_values_of(row, columns) for row in value["rows"]]
    return {**value, "columns": columns, "rows": rows}


def _pack_table(value: Any) -> Any:
    if not isinstance(value, dict) or "columns" not in value:
        return value

    kept = [name for name in value["columns"] if not LEFT_OUT.fullmatch(name)]
    places = [value["columns"].index(name) for name in kept]
    rows: list[str] = []
    for row in value["rows"]:
        cells = [
            _cell_text(row[place], is_label=value["columns"][place] == ASSET) for place in places
        ]
        rows.append(",".join(cells))

    return {**value, "columns": ",".join(kept), "rows": rows}


def _cell_text(value: Any, *, is_label: bool) -> str:
    """Return the text of a cell. Text that could be read as another type is quoted."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return _dumps(value)
    if not isinstance(value, str):
        return render_json(small_number(_rounded_number(value)))

    is_bare = _BARE.fullmatch(value) is not None
    if is_bare and (is_label or _value_of(value) == value):
        return value
    return _dumps(value)


def _rounded_number(value: float) -> float:
    """Return a number rounded to three significant digits, as an integer if it is whole."""
    if not value or not math.isfinite(value):
        return value

    number = round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))
    return int(number) if float(number).is_integer() else number


def _values_of(row: str, columns: Sequence[str]) -> list[Any]:
    """Return the values in a line."""
    values: list[Any] = []
    place = 0
    for name in columns:
        match = _CELL.match(row, place)
        text = "" if match is None else match[0]
        place += len(text) + 1
        if name == ASSET and text and text[0] != '"':
            values.append(text)
        else:
            values.append(_value_of(text))

    return values


def _value_of(text: str) -> Any:
    """Return the value that the text of a cell represents."""
    if not text:
        return None
    try:
        return loads_strict(text)
    except ValueError:
        return text


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
