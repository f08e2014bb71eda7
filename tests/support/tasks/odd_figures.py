"""Figures that no model should be shown: money with an exponent, raw floats, columns without any
value, figures of two numbers that name none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_MONEY = r"cash|nav|net_value|market_value|value|equity|balance|budget|profit|charges?|fees?"
_EXPONENT = r"-?\d+(?:\.\d+)?[eE]\d+"
_PATTERNS = {
    "exponent of a raw float": re.compile(r"\d[eE][+]\d"),
    "digits of a raw float": re.compile(r"\d\.\d{9,}"),
    "money with an exponent": re.compile(
        rf"\b(?:{_MONEY})\b[\"']?[ :=of]{{0,6}}{_EXPONENT}|{_EXPONENT} (?:CNY|USD|fen|yuan|dollars?)\b",
        re.IGNORECASE,
    ),
    "no number": re.compile(r"\b(?:NaN|-?Infinity)\b|[:=] (?:nan|None)\b"),
    "figure of two numbers": re.compile(
        r"\b\d+/\d+[ -](?:day|days|average|averages|mean|ma)\b", re.IGNORECASE
    ),
}
_START = re.compile(r"(?:^|[:\n ])\s*(?=[\[{])")
_DECODER = json.JSONDecoder()


def odd_figures(text: str) -> Iterator[str]:
    """Yield what is odd in a text that a model is shown, each with its place."""
    for kind, pattern in _PATTERNS.items():
        for found in pattern.finditer(text):
            around = text[max(0, found.start() - 40) : found.end() + 20]
            yield f"{kind}: {' '.join(around.split())}"

    for value in _json_in(text):
        yield from _null_columns(value)


def _json_in(text: str) -> Iterator[Any]:
    """Yield the JSON values that stand in a text, the outermost of each."""
    end = 0
    for start in _START.finditer(text):
        if start.end() < end:
            continue

        try:
            value, end = _DECODER.raw_decode(text, start.end())
        except ValueError:
            continue

        yield value


def _null_columns(value: Any, where: str = "") -> Iterator[str]:
    """Yield the columns of tables, by rows of names or of places, that have no value at all."""
    if isinstance(value, Mapping):
        columns = value.get("columns")
        rows = value.get("rows")
        if isinstance(columns, Sequence) and isinstance(rows, Sequence):
            value = {**value, "rows": [dict(zip(columns, row, strict=False)) for row in rows]}

        for name, part in value.items():
            yield from _null_columns(part, f"{where}/{name}")

        return

    if not isinstance(value, list):
        return

    tables = [row for row in value if isinstance(row, Mapping)]
    if len(tables) > 1 and len(tables) == len(value):
        for name in tables[0]:
            if all(name in row and row[name] is None for row in tables):
                yield f"column without a value: {where}/{name} of {len(tables)} rows"

    for part in value:
        yield from _null_columns(part, where)
