"""Strict JSON: one string per value, no duplicate fields, no NaN, bounded depth."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

if TYPE_CHECKING:
    import msgspec

if TYPE_CHECKING:
    JsonValue: TypeAlias = (
        "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
    )
else:
    # msgspec and `get_type_hints` evaluate annotations, and can't resolve a recursive alias.
    JsonValue = Any

JsonObject = Mapping[str, JsonValue]
Schema = dict[str, Any]  #: a JSON Schema, whose rules have values of many types
TOO_DEEP = "it is nested too deeply"  #: message for JSON that is nested too deeply
MAX_DEPTH = 64  #: maximum nesting depth of JSON written by a model
MAX_LEVELS = 150  #: maximum depth of a card or record, since code recurses at each level
MAX_PARSED_LEVELS = 600  #: maximum depth of any JSON; Python's own limit depends on its version
_LIST_SIGNS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)).difference(b'[]{}"'))
_TEXT = frozenset({str})
_EXACT = frozenset({str, int, bool, type(None)})
_SCALARS = _EXACT | {float}
_NESTED = frozenset({dict, list, tuple})


def dumps_canonical(value: JsonValue) -> str:
    """Return compact JSON with sorted keys, so that equal values give equal strings. Raises
    ValueError for NaN and infinity.
    """
    return dumps_compact(value, sort_keys=True)


def dumps_compact(value: JsonValue, sort_keys: bool = False) -> str:
    """Return compact JSON, exactly as `json` writes it. Raises ValueError for NaN and infinity."""
    try:
        if _is_usual(value):
            return str(_encoder(sort_keys).encode(value), "utf-8")
    except (UnicodeEncodeError, RecursionError):  # a lone surrogate, or too deep
        pass
    return json.dumps(
        value, sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _is_usual(value: JsonValue) -> bool:
    """Return whether msgspec, which is several times faster, encodes a value exactly as `json`
    does. The two differ in numbers with an exponent, in NaN, and in values that are not strict
    JSON.
    """
    kind = type(value)
    items: Iterable[Any]
    if isinstance(value, dict) and kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            return False

        items = value.values()
    elif isinstance(value, list | tuple) and kind in _NESTED:
        items = value
    else:
        items = (value,)

    # checked in C if all numbers are whole and nothing is nested, as in most objects
    if _EXACT.issuperset(map(type, items)):
        return True

    for item in items:
        kind = type(item)
        if kind is float:
            if not (1e-4 <= abs(item) < 1e16 or item == 0.0):
                return False
        elif kind not in _EXACT and not (kind in _NESTED and _is_usual(item)):
            return False

    return True


@cache
def _encoder(sort_keys: bool) -> msgspec.json.Encoder:
    import msgspec  # noqa: PLC0415 - `ktdeval --help` writes no JSON

    return msgspec.json.Encoder(order="sorted" if sort_keys else None)


def dumps_pretty(value: JsonValue) -> str:
    """Return indented JSON with sorted keys and a final newline, for files that people read."""
    import msgspec  # noqa: PLC0415 - `ktdeval --help` writes no JSON

    # Gives the same result as `json.dumps(indent=1)`, which is four times slower because its C
    # encoder does not indent.
    return msgspec.json.format(dumps_canonical(value), indent=1) + "\n"


def plain(value: Any) -> JsonValue:
    """Convert mappings to dicts and sequences to lists, recursively. Other values are unchanged, so
    that JSON encoding rejects them.
    """
    if isinstance(value, list | tuple):
        return [item if type(item) in _SCALARS else plain(item) for item in value]
    # dict comes first because isinstance with an abstract class is slow
    if isinstance(value, (dict, Mapping)):
        return {key: item if type(item) in _SCALARS else plain(item) for key, item in value.items()}

    other: JsonValue = value
    return other


def reject_constant(token: str) -> NoReturn:
    """Raise ValueError for `NaN` and infinities. For use as a `parse_constant` of `json`."""
    raise ValueError(f"{token} is not a JSON number")


class DoubledFieldError(ValueError):
    """An object has the same field twice."""


def unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raise DoubledFieldError if an object contains the same field twice. For use as an
    `object_pairs_hook` of `json`.
    """
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise DoubledFieldError(
            f"field {next(name for name in names if names.count(name) > 1)[:80]!r} appears twice in"
            " one object"
        )
    return members


def bounded_int(token: str) -> int:
    """Raise ValueError if an integer exceeds 64 bits. For use as a `parse_int` of `json`."""
    if len(token) > 20 or not -(1 << 63) <= (number := int(token)) < 1 << 63:
        raise ValueError(f"an integer of {len(token)} digits does not fit 64 bits")
    return number


def _finite(token: str) -> float:
    number = float(token)
    if number - number != 0:
        raise ValueError(f"{token[:20]} is too large for a number")
    return number


def loads_strict(text: str | bytes) -> JsonValue:
    """Parse JSON. Raises ValueError for `NaN`, `Infinity`, `-Infinity` and excessive nesting, as
    for any other malformed text.
    """
    return _parse_json(text, _STRICT)


def loads_unique(text: str) -> JsonValue:
    """Parse JSON like `loads_strict`, but reject duplicate fields. Raises ValueError, or
    DoubledFieldError for a duplicate field.
    """
    return _parse_json(text, _UNIQUE)


def loads_untrusted(text: str | bytes, levels: int = MAX_PARSED_LEVELS) -> JsonValue:
    """Parse untrusted JSON like `loads_strict`, but also reject duplicate fields, huge integers and
    infinite numbers. Raises ValueError if the text is not strict JSON, or is nested deeper than
    `levels`.
    """
    return _parse_json(text, _UNTRUSTED, levels)


def loads_data(text: str | bytes) -> JsonValue:
    r"""Parse JSON data like `loads_untrusted`, but also require that all its texts can be written
    as UTF-8, which `"\ud800"`, half a surrogate pair, can't. Raises ValueError.
    """
    value = loads_untrusted(text)
    if not isinstance(text, str) or "\\u" in text:
        refuse_half_pairs(value)
    return value


def refuse_half_pairs(value: JsonValue) -> None:
    """Raise UnicodeEncodeError, a ValueError, if a string contains an unpaired surrogate."""
    dumps_canonical(value).encode()


_STRICT = json.JSONDecoder(parse_constant=reject_constant)
_UNIQUE = json.JSONDecoder(parse_constant=reject_constant, object_pairs_hook=unique_fields)
_UNTRUSTED = json.JSONDecoder(
    parse_constant=reject_constant,
    object_pairs_hook=unique_fields,
    parse_float=_finite,
    parse_int=bounded_int,
)


def _parse_json(
    text: str | bytes, decoder: json.JSONDecoder, levels: int = MAX_PARSED_LEVELS
) -> JsonValue:
    if not isinstance(text, str):
        text = text.decode(json.detect_encoding(text), "surrogatepass")  # as `json.loads` does

    if text.startswith("\ufeff"):
        raise ValueError("begins with a byte order mark; save it as UTF-8 without one")

    try:
        value: JsonValue = decoder.decode(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None

    if not is_nested_within(text, levels):
        raise ValueError(TOO_DEEP)

    return value


def is_flat(value: JsonValue, levels: int) -> bool:
    """Return whether lists and objects are nested at most `levels` deep. Does not recurse."""
    level = [value]
    for _ in range(levels):
        containers = [item for item in level if isinstance(item, Mapping | list)]
        level = [
            inner
            for item in containers
            for inner in (item.values() if isinstance(item, Mapping) else item)
        ]
        if not level:
            return True

    return False


def is_nested_within(text: str | bytes, levels: int) -> bool:
    """Return whether lists and objects in JSON text (or UTF-8 bytes) are nested at most `levels`
    deep. In text that is not JSON, unclosed brackets add to the depth. The check takes only a
    fraction of the time of parsing.
    """
    if isinstance(text, str):
        if text.count("[") + text.count("{") <= levels:
            return True

        text = text.encode("utf-8", "surrogatepass")

    if text.count(b"[") + text.count(b"{") <= levels:
        return True

    signs = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_LIST_SIGNS, _NO_BRACKETS)
    brackets = b"".join(signs.replace(b'""', b"").split(b'"')[::2])  # brackets outside strings
    for level in range(levels + 1):
        left = brackets.replace(b"[]", b"")  # the innermost level
        if len(left) == len(brackets):
            return level + left.count(b"[") <= levels

        brackets = left

    return False
