"""Compare what was recorded with what its records give, and name the first place that differs, by line and field."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from ktdeval.jsonio import JsonValue, dumps_pretty
from ktdeval.trading.ledger import StepRecord
from ktdeval.typed import to_plain

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


# ---- differences

UNVERIFIED = frozenset({"provenance"})
"""Fields of a card that two equal runs may give differently; a comparison passes over them."""

_ABSENT = object()


def first_difference(recorded: JsonValue, recomputed: JsonValue, text: str | None = None) -> str | None:
    """First value, in the order of the file, that differs; None when all is equal.

    Values are equal when their JSON is: `1` and `1.0` differ, as do `0.0` and `-0.0`.

    Args:
        recorded: what was read.
        recomputed: what it should be.
        text: the text that `recorded` was read from; by default its `dumps_pretty` form, which is how cards are written.

    Returns:
        One line such as `line 12: metrics.sharpe.value: recorded 1.9, recomputed 0.9`.
    """
    return _report(_first_path(recorded, recomputed, ()), recorded, text)


def card_difference(recorded: Mapping[str, JsonValue], recomputed: Mapping[str, JsonValue], text: str | None = None) -> str | None:
    """`first_difference` of two cards, passing over what is not verifiable (`UNVERIFIED`)."""
    found = _first_path(
        {name: value for name, value in recorded.items() if name not in UNVERIFIED},
        {name: value for name, value in recomputed.items() if name not in UNVERIFIED},
        (),
    )
    return _report(found, recorded, text)


def value_difference(recorded: JsonValue, recomputed: JsonValue) -> str | None:
    """First value that differs, without a line: `exchanges[0].sent[1].content: recorded "…", recomputed "…"`."""
    found = _first_path(recorded, recomputed, ())
    return None if found is None else f"{path_text(found[0]) if found[0] else 'entry'}: {_contrast(found[1], found[2])}"


def steps_difference(recorded: Sequence[StepRecord], recomputed: Sequence[StepRecord]) -> str | None:
    """First step record of a ledger that differs; step k stands on line k + 1 of a JSONL file and in row k of a table.

    Returns:
        One line such as `line 18 (step 17, 2024-04-26): orders[0].filled_shares: recorded 100, recomputed 200`.
    """
    for place, (old, new) in enumerate(zip(recorded, recomputed, strict=False)):
        found = _first_path(to_plain(old), to_plain(new), ())
        if found is not None:
            path, left, right = found
            line = f"line {place + 1} (step {place}, {old.filled_on})"
            return f"{line}: {path_text(path) if path else 'record'}: {_contrast(left, right)}"
    if len(recorded) != len(recomputed):
        return f"line {min(len(recorded), len(recomputed)) + 1}: recorded {len(recorded)} steps, recomputed {len(recomputed)}"
    return None


_Difference = tuple[JsonPath, object, object]


def _report(found: _Difference | None, recorded: JsonValue, text: str | None) -> str | None:
    if found is None:
        return None
    path, left, right = found
    line = line_of(dumps_pretty(recorded) if text is None else text, path)
    return f"line {line}: {path_text(path)}: {_contrast(left, right)}"


def _contrast(left: object, right: object) -> str:
    return f"recorded {_shown(left)}, recomputed {_shown(right)}"


def _shown(value: object) -> str:
    if value is _ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _first_path(left: object, right: object, path: tuple[str | int, ...]) -> _Difference | None:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        # Files are written with sorted keys, so this is their order.
        pairs = [(key, left.get(key, _ABSENT), right.get(key, _ABSENT)) for key in sorted({*left, *right})]
    elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        longest = max(len(left), len(right))
        pairs = [(k, left[k] if k < len(left) else _ABSENT, right[k] if k < len(right) else _ABSENT) for k in range(longest)]
    else:
        return None if _same_scalar(left, right) else (path, left, right)
    for key, old, new in pairs:
        found = _first_path(old, new, (*path, key))
        if found is not None:
            return found
    return None


def _same_scalar(left: object, right: object) -> bool:
    if left is _ABSENT or right is _ABSENT:
        return left is right
    if type(left) is type(right) and not isinstance(left, float):
        return left == right
    # As written: tells 1 from 1.0 and from true, and 0.0 from -0.0.
    return json.dumps(left) == json.dumps(right)
