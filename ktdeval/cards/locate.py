"""Where a value stands in a JSON text: errors about a card name its line, whatever its layout."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

JsonPath = Sequence[str | int]

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def path_text(path: JsonPath) -> str:
    """`metrics.sharpe.value`, `episodes[3].steps`; keys that are no plain words are quoted; `card` for the whole."""
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
    """Line (from 1) of the value at `path` in a valid JSON text; of the nearest enclosing value where the path ends early."""
    position = _skip_blank(text, 0)
    for part in path:
        found = _find(text, position, part)
        if found is None:
            break
        position = found
    return text.count("\n", 0, position) + 1


def _skip_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _find(text: str, start: int, part: str | int) -> int | None:
    """Position of the member `part` of the object or array that starts at `start`."""
    opening = text[start]
    if opening not in "{[":
        return None
    position = _skip_blank(text, start + 1)
    place = 0
    while text[position] not in "}]":
        key: str | int = place
        if opening == "{":
            key, position = _DECODER.raw_decode(text, position)
            position = _skip_blank(text, _skip_blank(text, position) + 1)
        if key == part:
            return position
        _, position = _DECODER.raw_decode(text, position)
        position = _skip_blank(text, position)
        if text[position] == ",":
            position = _skip_blank(text, position + 1)
        place += 1
    return None
