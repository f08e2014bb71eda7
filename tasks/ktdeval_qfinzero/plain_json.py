"""Arguments as strict JSON, in whatever way they came."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.api import JsonValue, dumps_canonical
from ktdeval_qfinzero.errors import invalid

_DEEPEST = 32
"""Levels of nesting that arguments may have."""

_EXACT_INTEGERS = 2**53
"""From here on a float is no exact integer."""


def plain_json(value: JsonValue) -> JsonValue:
    """A value as strict JSON has it: no NaN, infinity or lone surrogates, not nested without end; `5.0` is the integer 5.

    JSON does not tell 5.0 from 5, and neither does a schema of type integer, but Python does.

    Raises:
        ServiceError: `invalid_argument`.
    """
    whole = _whole_numbers(value, _DEEPEST)
    try:
        dumps_canonical(whole).encode()
    except ValueError as error:  # that text can't be encoded is one as well
        raise invalid("arguments", "expected JSON without NaN, Infinity or halves of surrogate pairs") from error
    return whole


def _whole_numbers(value: JsonValue, depth: int) -> JsonValue:
    if depth == 0:
        raise invalid("arguments", f"nested more than {_DEEPEST} levels deep")
    if isinstance(value, Mapping):
        return {name: _whole_numbers(item, depth - 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item, depth - 1) for item in value]
    if isinstance(value, float) and abs(value) < _EXACT_INTEGERS and value.is_integer():
        return int(value)
    return value
