"""Paths to values in a card: how they are written, and the line of a file that each leads to."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

#: Keys of objects and places in arrays, from the outside
JsonPath = Sequence[str | int]

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def path_text(path: JsonPath) -> str:
    """Return a path as a string, such as `metrics.sharpe.value` or `episodes[3].steps`. Keys that
    are not plain words are quoted; the empty path becomes `card`.
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[\w-]+", part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"

    return text or "card"


def line_of(text: str, path: JsonPath) -> int:
    """Return the line number (from 1) of the value at `path` in a valid JSON string. If the value
    is missing, return the line of the nearest enclosing value.
    """
    position = _after_blank(text, 0)
    for part in path:
        member = _find(text, position, part)
        if member is None:
            break

        position = member

    return text.count("\n", 0, position) + 1


def _after_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _find(text: str, start: int, part: str | int) -> int | None:
    """Return the position of the member `part` of the object or array that starts at `start`."""
    opening = text[start]
    if opening not in "{[":
        return None

    position = _after_blank(text, start + 1)
    index = 0
    while text[position] not in "}]":
        key: str | int = index
        if opening == "{":
            key, position = _DECODER.raw_decode(text, position)
            position = _after_blank(text, _after_blank(text, position) + 1)

        if key == part:
            return position

        position = _after_blank(text, _DECODER.raw_decode(text, position)[1])
        if text[position] == ",":
            position = _after_blank(text, position + 1)

        index += 1

    return None
