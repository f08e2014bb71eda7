"""Compare what was recorded with what its records give, and name the first place that differs, by line and field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

import msgspec

from ktdeval.jsonio import JsonValue, dumps_pretty
from ktdeval.trading.ledger import StepRecord
from ktdeval.typed import to_plain

JsonPath = Sequence[str | int]

UNVERIFIED = frozenset({"provenance"})  #: Fields of a card that two equal runs may give differently; a comparison passes over them

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_ENCODER = msgspec.msgpack.Encoder(order="sorted")
_ABSENT = object()
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12  # far above the last bits of a sum, far below what a card is read for
_Same = Callable[[object, object], bool]


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
    position = _after_blank(text, 0)
    for part in path:
        if (found := _find(text, position, part)) is None:
            break
        position = found
    return text.count("\n", 0, position) + 1


def _after_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _find(text: str, start: int, part: str | int) -> int | None:
    """Position of the member `part` of the object or array that starts at `start`."""
    opening = text[start]
    if opening not in "{[":
        return None
    position, place = _after_blank(text, start + 1), 0
    while text[position] not in "}]":
        key: str | int = place
        if opening == "{":
            key, position = _DECODER.raw_decode(text, position)
            position = _after_blank(text, _after_blank(text, position) + 1)
        if key == part:
            return position
        position = _after_blank(text, _DECODER.raw_decode(text, position)[1])
        if text[position] == ",":
            position = _after_blank(text, position + 1)
        place += 1
    return None


# ---- differences


def first_difference(recorded: JsonValue, recomputed: JsonValue, text: str | None = None) -> str | None:
    """First value, in the order of the file, that differs, as `line 12: metrics.sharpe.value: recorded 1.9, recomputed 0.9`. Values
    are equal when their JSON is: `1` and `1.0` differ, as do `0.0` and `-0.0`. `text` is what `recorded` was read from; by default
    its `dumps_pretty` form, which is how cards are written. None when all is equal.
    """
    return _difference(recorded, recomputed, text, _is_same)


def _difference(recorded: JsonValue, recomputed: JsonValue, text: str | None, is_same: _Same) -> str | None:
    if (found := _first_path(recorded, recomputed, (), is_same)) is None:
        return None
    path, contrast = found
    return f"line {line_of(dumps_pretty(recorded) if text is None else text, path)}: {path_text(path)}: {contrast}"


def card_difference(recorded: Mapping[str, JsonValue], recomputed: Mapping[str, JsonValue], text: str | None = None) -> str | None:
    """`first_difference` of two cards, passing over what is not verifiable (`UNVERIFIED`) and the last bits of figures, which
    another processor's sums may give differently.
    """
    kept = {name: recorded[name] for name in UNVERIFIED & recorded.keys()}
    others = {name: value for name, value in recomputed.items() if name not in UNVERIFIED}
    return _difference(recorded, {**others, **kept}, text, _is_close)


def value_difference(recorded: object, recomputed: object) -> str | None:
    """First value that differs in two typed values or JSON, without a line: `exchanges[0].sent[1].content: recorded "…", recomputed
    "…"`.
    """
    if _is_written_alike(recorded, recomputed):
        return None
    found = _first_path(to_plain(recorded), to_plain(recomputed), ())
    return None if found is None else f"{path_text(found[0]) if found[0] else 'entry'}: {found[1]}"


def steps_difference(recorded: Sequence[StepRecord], recomputed: Sequence[StepRecord]) -> str | None:
    """First step record of a ledger that differs; step k stands on line k + 1 of a JSONL file and in row k of a table. Returns one
    line such as `line 18 (step 17, 2024-04-26): orders[0].filled_shares: recorded 100, recomputed 200`.
    """
    for place, (old, new) in enumerate(zip(recorded, recomputed, strict=False)):
        if not _is_written_alike(old, new) and (found := _first_path(to_plain(old), to_plain(new), ())) is not None:
            path, contrast = found
            return f"line {place + 1} (step {place}, {old.filled_on}): {path_text(path) if path else 'record'}: {contrast}"
    if len(recorded) != len(recomputed):
        return f"line {min(len(recorded), len(recomputed)) + 1}: recorded {len(recorded)} steps, recomputed {len(recomputed)}"
    return None


def _first_path(
    left: object, right: object, path: tuple[str | int, ...], is_same: _Same | None = None
) -> tuple[JsonPath, str] | None:
    """Place of the first difference, and `recorded …, recomputed …`."""
    if not path and _is_written_alike(left, right):
        return None
    pairs: list[tuple[str | int, object, object]]
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        # Files are written with sorted keys, so this is their order.
        pairs = [(key, left.get(key, _ABSENT), right.get(key, _ABSENT)) for key in sorted({*left, *right})]
    elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        pairs = [(place, old, new) for place, (old, new) in enumerate(zip_longest(left, right, fillvalue=_ABSENT))]
    else:
        return None if (is_same or _is_same)(left, right) else (path, f"recorded {_shown(left)}, recomputed {_shown(right)}")
    found = (_first_path(old, new, (*path, key), is_same) for key, old, new in pairs)
    return next((difference for difference in found if difference is not None), None)


def _is_written_alike(left: object, right: object) -> bool:
    """Whether two values are the same JSON: most are, and packing both takes far less than walking through them. MessagePack tells
    apart what JSON does, 1 from 1.0 and 0.0 from -0.0, and knows NaN.
    """
    try:
        return _ENCODER.encode(left) == _ENCODER.encode(right)
    except (TypeError, ValueError, OverflowError):  # not all of it is plain
        return False


def _is_same(left: object, right: object) -> bool:
    if left is _ABSENT or right is _ABSENT:
        return left is right
    # As written: tells 1 from 1.0 and from true, and 0.0 from -0.0.
    if type(left) is type(right):
        return repr(left) == repr(right) if isinstance(left, float) else left == right
    return json.dumps(left) == json.dumps(right)


def _is_close(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return _is_same(left, right)


def _shown(value: object) -> str:
    if value is _ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 80 else f"{text[:77]}…"
