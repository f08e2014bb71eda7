"""Typed values in files: JSON decoded into classes with one-line errors, encoded canonically, and described by JSON Schema.

A value that crosses a file or a process is a `msgspec.Struct`. Reading it is decoding it: a missing field, a wrong type or an
unknown field is an error that names the file and the field, so no module reads such a value by string keys.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Mapping
from typing import Any, TypeVar, dataclass_transform

import msgspec

from ktdeval.errors import KtdevalError, StoreError
from ktdeval.jsonio import MOST_LEVELS, TOO_DEEP, JsonValue, dumps_canonical, is_nested_within, plain

T = TypeVar("T")

_LOCATION = re.compile(r" - at `(?:key in )?\$(.*)`$")
_CAPITAL = re.compile(r"^[A-Z](?![A-Z])")  # of a sentence, not of JSON
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_BUILDING = threading.Lock()
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the typed values: immutable, and strict about fields that it does not know."""


def decode_json(data: bytes | str, type_: type[T], where: str, error: type[KtdevalError] = StoreError) -> T:
    """Decode strict JSON text into a typed value; raises `error` with `WHERE: FIELD: what was expected`, on one line."""
    decoder: msgspec.json.Decoder[T] = _decoder(type_)
    try:
        value = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise error(f"{where}: {_message(problem)}") from problem
    if not is_nested_within(data if isinstance(data, str) else bytes(data), MOST_LEVELS):  # it may be a `msgspec.Raw`
        raise error(f"{where}: {TOO_DEEP}")
    return value


def from_plain(value: JsonValue, type_: type[T], where: str, error: type[KtdevalError] = StoreError) -> T:
    """Turn parsed JSON (dicts and lists) into a typed value; errors as of `decode_json`."""
    try:
        return converted(value, type_)
    except msgspec.ValidationError as problem:
        raise error(f"{where}: {_message(problem)}") from problem


def converted(value: Any, type_: type[T], from_attributes: bool = False) -> T:
    """Turn a value into a typed one. Raises msgspec.ValidationError: it does not fit."""
    _decoder(type_)  # see there
    return msgspec.convert(value, type_, from_attributes=from_attributes)


def to_plain(value: Any) -> JsonValue:
    """Return a typed value as dicts, lists and numbers."""
    return plain(_built(value))


def encode_canonical(value: Any) -> str:
    """Return compact JSON with sorted keys. NaN and infinity raise ValueError, as everywhere."""
    return dumps_canonical(_built(value))


def json_schema(type_: Any, identity: str, title: str) -> dict[str, JsonValue]:
    """Return the JSON Schema (draft 2020-12) of a typed value; `identity` is its `$id`, `title` a line for readers."""
    (schema,), definitions = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    for part in definitions.values():
        if "description" in part:  # Python takes the margin of docstrings away from 3.13 on
            part["description"] = inspect.cleandoc(part["description"])
    head: Mapping[str, JsonValue] = {"$schema": _DRAFT, "$id": identity, "title": title}
    return {**head, **schema, "$defs": definitions} if definitions else {**head, **schema}


def _built(value: Any) -> JsonValue:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_built_in)


def _built_in(value: Any) -> JsonValue:
    """Convert subclasses of JSON's own types (numpy's float64, mappings) to these, as `json` does."""
    if isinstance(value, Mapping):
        return dict(value)
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type. msgspec inspects a class at its first use; where two threads do so at once, the process dies
    (seen with 0.22), and episodes run in threads: so it is done here, by one thread at a time, before a type is used.
    """
    if type_ not in _DECODERS:
        with _BUILDING:
            if type_ not in _DECODERS:
                _DECODERS[type_] = msgspec.json.Decoder(type_)
    return _DECODERS[type_]


def _message(problem: Exception) -> str:
    """Return one line: the field first, then what was expected there."""
    text = TOO_DEEP if isinstance(problem, RecursionError) else str(problem) or type(problem).__name__
    match = _LOCATION.search(text)
    expected = _CAPITAL.sub(lambda letter: letter[0].lower(), text[: match.start()] if match else text)
    return f"{match[1].lstrip('.') or 'top level'}: {expected}" if match else expected
