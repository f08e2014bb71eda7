"""Arguments as strict JSON, in whatever way they came."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.errors import invalid

_DEEPEST = 32  #: Levels of nesting that arguments may have

_EXACT_INTEGERS = 2**53  #: From here on a float is no exact integer


_LONGEST_BITS = 1024  #: Of an integer; nobody needs more, and Python refuses to write much longer ones


def plain_json(value: JsonValue) -> JsonValue:
    """A value as strict JSON has it: no NaN, infinity or lone surrogates, not without end; `5.0` is the integer 5. JSON does not
    tell 5.0 from 5, and neither does a schema of type integer, but Python does. Raises ServiceError: `invalid_argument`, with the
    argument's place.
    """
    return _plain(value, "", _DEEPEST)


def _plain(value: JsonValue, place: str, depth: int) -> JsonValue:
    if depth == 0:
        raise invalid("arguments", f"nested more than {_DEEPEST} levels deep")
    if isinstance(value, Mapping):
        for name in value:
            _check_text(name, place)
        return {name: _plain(item, f"{place}.{name}" if place else name, depth - 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, f"{place}[{number}]", depth - 1) for number, item in enumerate(value)]
    if isinstance(value, str):
        _check_text(value, place)
    if isinstance(value, int) and value.bit_length() > _LONGEST_BITS:
        raise invalid(place or "arguments", "expected a number of fewer digits")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise invalid(place or "arguments", "expected a number, not NaN or Infinity")
        return int(value) if abs(value) < _EXACT_INTEGERS and value.is_integer() else value
    return value


def _check_text(text: JsonValue, place: str) -> None:
    if not isinstance(text, str) or any("\ud800" <= character <= "\udfff" for character in text):
        raise invalid(place or "arguments", "expected text without halves of surrogate pairs")
