"""Parameters as a user types them: `key=value` text to the types that a params dataclass declares."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from ktdeval.errors import UsageError
from ktdeval.fields import build

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None, "none": None}


def parse_assignments(texts: Iterable[str], where: str) -> dict[str, Any]:
    """`("a=1,b=x", "c=true")` to `{"a": 1, "b": "x", "c": True}`; a text that starts with `{` is read as a JSON object.

    A piece without `=` continues the value before it, so that `dims=a,b` keeps its comma.

    Raises:
        UsageError: a piece that is no assignment, or a key given twice.
    """
    result: dict[str, Any] = {}
    for text in texts:
        pairs = _json_object(text, where) if text.lstrip().startswith("{") else _pairs(text, where)
        for key, value in pairs.items():
            if key in result:
                raise UsageError(f"{where}: {key!r} is given twice")
            result[key] = value
    return result


def _json_object(text: str, where: str) -> dict[str, Any]:
    import json  # noqa: PLC0415 - rarely needed, and this module is on the way of every command

    try:
        value = json.loads(text, parse_constant=_reject_constant)
    except ValueError as error:
        raise UsageError(f"{where}: not a JSON object: {error}") from error
    return dict(value)


def _reject_constant(token: str) -> None:
    raise ValueError(f"{token} is not JSON")


def _pairs(text: str, where: str) -> dict[str, Any]:
    raw: dict[str, str] = {}
    last = None
    for piece in text.split(","):
        key, equals, value = piece.partition("=")
        if equals:
            last = key.strip()
            if not last or last in raw:
                raise UsageError(f"{where}: {'a name is missing before' if not last else 'given twice:'} {piece!r}")
            raw[last] = value
        elif last is None:
            raise UsageError(f"{where}: expected key=value,key=value, was {text!r}")
        else:
            raw[last] += f",{piece}"
    return {key: parse_scalar(value.strip()) for key, value in raw.items()}


def split_list(text: str) -> tuple[str, ...]:
    """`"a, b"` to `("a", "b")`; empty pieces vanish."""
    return tuple(piece.strip() for piece in text.split(",") if piece.strip())


def parse_scalar(text: str) -> Any:
    """Return a number, `true`, `false` or `null` where the text is exactly that (`007` stays text), else the text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def build_params(cls: type, args: Mapping[str, Any], where: str) -> Any:
    """Build a params dataclass from user input; a value typed as text is brought to the field's type where it plainly is one.

    Raises:
        ConfigError: an unknown, missing, ill-typed or out-of-range parameter.
    """
    hints = typing.get_type_hints(cls)
    known = {field.name for field in dataclasses.fields(cls)}
    return build(cls, {key: _fit(hints[key], value) if key in known else value for key, value in args.items()}, where)


def _fit(hint: Any, value: Any) -> Any:
    """Bring a scalar to the type of its field; what does not plainly fit stays as it is, for `build` to refuse by name."""
    members = (
        tuple(arg for arg in get_args(hint) if arg is not type(None)) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    )
    if value is None or any(_accepts(member, value) for member in members):
        return value
    for member in members:
        if member is str and isinstance(value, (bool, int, float)):
            return str(value).lower() if isinstance(value, bool) else str(value)
        if get_origin(member) in (tuple, list, Sequence) and not isinstance(value, (list, tuple)):
            item = get_args(member)[0]
            pieces = value.split(",") if isinstance(value, str) else [value]
            return [_fit(item, parse_scalar(piece.strip()) if isinstance(piece, str) else piece) for piece in pieces]
        if member in (int, float, bool) and isinstance(value, str):
            return parse_scalar(value)
    return value


def _accepts(hint: Any, value: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    return isinstance(hint, type) and isinstance(value, hint) and not (isinstance(value, bool) and hint is not bool)
