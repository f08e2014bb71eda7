"""Typed values in files: JSON is decoded into classes with one-line errors, encoded canonically,
and described by JSON Schema.

A value that crosses a file or process boundary is a `msgspec.Struct`, and is read by decoding it. A
missing field, a wrong type or an unknown field is an error that gives the file and the field, so no
module reads such a value by string keys. `msgspec` decodes in a fraction of the time of any
pure-Python reader, and writes the schema with the `$defs` that records share. Errors are those of
`ktdeval.values.misfit`, as everywhere.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeVar, dataclass_transform

import msgspec

from ktdeval.errors import KtdevalError, StoreError
from ktdeval.values.documents.strict_json import (
    MAX_LEVELS,
    TOO_DEEP,
    JsonValue,
    dumps_canonical,
    is_nested_within,
    plain,
)
from ktdeval.values.misfit import Misfit, MissingField, UnknownField
from ktdeval.values.requests.secret_free_addresses import faults_in, holds_addresses

T = TypeVar("T")

_LOCATION = re.compile(r" - at `(?:key in )?\$(.*)`$")
_STEP = re.compile(r"\[[^\]]*\]|[^.\[]+")  # an index or a name
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_MISMATCH = re.compile(r"Expected (.*), got (.*)", re.DOTALL)
_CAPITAL = re.compile(r"^[A-Z](?![A-Z])")  # start of a sentence, but not of the word JSON
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_BUILDING = threading.Lock()
_KEYS = "propertyNames"
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_LINE_BREAK = re.compile(r"\n\s*(?![*-] )")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the typed values: immutable, and strict about fields that it does not know."""


def decode_json(
    data: bytes | str, type_: type[T], where: str, error: type[KtdevalError] = StoreError
) -> T:
    """Decode strict JSON text into a typed value. Raises `error` with a one-line message `WHERE:
    FIELD: what was expected`.
    """
    decoder: msgspec.json.Decoder[T] = _decoder(type_)
    try:
        value = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise error(str(_misfit(problem, type_, where))) from problem

    # `data` may be a `msgspec.Raw`
    if not is_nested_within(data if isinstance(data, str) else bytes(data), MAX_LEVELS):
        raise error(f"{where}: {TOO_DEEP}")

    _check_addresses(value, type_, where, error)
    return value


def from_plain(
    value: JsonValue, type_: type[T], where: str, error: type[KtdevalError] = StoreError
) -> T:
    """Turn parsed JSON (dicts and lists) into a typed value. Raises as `decode_json` does."""
    try:
        made = convert_value(value, type_)
    except msgspec.ValidationError as problem:
        raise error(str(_misfit(problem, type_, where))) from problem
    except UnicodeEncodeError as problem:
        raise error(
            f"{where}: a name of a field has half a surrogate pair, which is not text"
        ) from problem

    _check_addresses(made, type_, where, error)
    return made


def convert_value(value: Any, type_: type[T], from_attributes: bool = False) -> T:
    """Turn a value into a typed value. Raises msgspec.ValidationError if the value does not fit."""
    _decoder(type_)  # builds the decoder in one thread at a time; see `_decoder`
    return msgspec.convert(value, type_, from_attributes=from_attributes)


def to_plain(value: Any) -> JsonValue:
    """Return a typed value as dicts, lists and numbers."""
    return plain(to_builtins(value))


def to_object(value: Any) -> dict[str, JsonValue]:
    """Return the JSON object of a typed value. Raises TypeError if its JSON is not an object."""
    built = to_plain(value)
    if not isinstance(built, dict):
        raise TypeError(f"a {type(value).__name__} is not a JSON object")
    return built


def encode_canonical(value: Any) -> str:
    """Return compact JSON with sorted keys. Raises ValueError for NaN and infinity."""
    return dumps_canonical(to_builtins(value))


def json_schema(type_: Any, identity: str, title: str) -> dict[str, JsonValue]:
    """Return the JSON Schema (draft 2020-12) of a typed value. `identity` is the schema's `$id`,
    and `title` a one-line title for readers.
    """
    (schema,), definitions = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    for part in definitions.values():
        if "description" in part:  # from Python 3.13 on, docstrings have no indentation
            part["description"] = joined_lines(part["description"])

    head: Mapping[str, JsonValue] = {"$schema": _DRAFT, "$id": identity, "title": title}
    whole = {**head, **schema}
    if definitions:
        whole["$defs"] = definitions
    _drop_additions(whole)
    return whole


def _drop_additions(schema: Any) -> None:
    """Remove what msgspec adds to JSON Schema: OpenAPI's discriminator of a union, whose branches
    name their own constant, and the enumeration of an object's keys, which it writes from version
    0.23 on only.
    """
    if isinstance(schema, list):
        for part in schema:
            _drop_additions(part)
    elif isinstance(schema, dict):
        if "enum" in schema.get(_KEYS, {}):
            del schema[_KEYS]
        if "anyOf" in schema:
            schema.pop("discriminator", None)
        for part in schema.values():
            _drop_additions(part)


def joined_lines(docstring: str) -> str:
    """Return a docstring without its indentation, with each paragraph on one line.

    Text that is made from a docstring, such as a prompt or a schema, then does not change when the
    source is wrapped differently. A line that begins with a bullet remains a separate line.
    """
    paragraphs = inspect.cleandoc(docstring).strip().split("\n\n")
    return "\n\n".join(_LINE_BREAK.sub(" ", paragraph) for paragraph in paragraphs)


def to_builtins(value: Any) -> JsonValue:
    """Return a typed value as `to_plain` does, but keep tuples, so that nothing is copied twice."""
    built: JsonValue = msgspec.to_builtins(value, str_keys=True, enc_hook=_built_in)
    return built


def _built_in(value: Any) -> JsonValue:
    """Convert subclasses of JSON's own types (numpy's float64, mappings) to these types, as `json`
    does.
    """
    if isinstance(value, Mapping):
        return dict(value)

    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)

    raise TypeError(f"a {type(value).__name__} is not JSON")


def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type. msgspec inspects a class on first use; if two threads do so at
    the same time, the process crashes (seen with 0.22), and episodes run in threads. The inspection
    is therefore done here, by one thread at a time, before a type is used.
    """
    if type_ not in _DECODERS:
        with _BUILDING:
            if type_ not in _DECODERS:
                _DECODERS[type_] = msgspec.json.Decoder(type_)
    return _DECODERS[type_]


def _check_addresses(value: Any, type_: Any, where: str, error: type[KtdevalError]) -> None:
    """Raise `error` if an address contains a secret, which `msgspec` can't detect."""
    if _has_addresses(type_):
        for path, problem in faults_in(value):
            raise error(str(Misfit(f"{where}: {path.lstrip('.')}", problem)))


@cache
def _has_addresses(type_: Any) -> bool:
    return holds_addresses(type_)


def _misfit(problem: Exception, type_: Any, where: str) -> Misfit | str:
    """Return the problem described in a `msgspec` message: the field, and what was expected."""
    text = str(problem) or type(problem).__name__
    if isinstance(problem, RecursionError):
        text = TOO_DEEP

    location = _LOCATION.search(text)
    path = ""
    if location is not None:
        path = location[1].lstrip(".") or "top level"
        where = f"{where}: {path}"
        text = text[: location.start()]

    unknown = _UNKNOWN.fullmatch(text)
    if unknown is not None:
        return UnknownField(where, unknown[1], _names_at(type_, path))

    missing = _MISSING.fullmatch(text)
    if missing is not None:
        return MissingField(where, missing[1])

    mismatch = _MISMATCH.fullmatch(text)
    if mismatch is not None:
        return Misfit(where, mismatch[1], mismatch[2])

    words = _CAPITAL.sub(lambda letter: letter[0].lower(), text)
    return f"{where}: {words}"


def _names_at(type_: Any, path: str) -> list[str]:
    """Return the names of the fields that an object at a path may have."""
    nodes = [msgspec.inspect.type_info(type_)]
    for step in _STEP.findall(path):
        below: list[Any] = []
        for node in nodes:
            below += _inner_nodes(node, step)

        nodes = below

    names: list[str] = []
    for node in nodes:
        for record in _members_of(node):
            names += [field.encode_name for field in getattr(record, "fields", ())]

    return names


def _inner_nodes(node: Any, name: str) -> Iterator[Any]:
    """Yield the types of the value under a name in an object, or at an index in a list."""
    for member in _members_of(node):
        for field in getattr(member, "fields", ()):
            if field.encode_name == name:
                yield field.type

        for items in ("item_type", "value_type"):
            if hasattr(member, items):
                yield getattr(member, items)


def _members_of(node: Any) -> Iterator[Any]:
    """Yield the types that a value may have, with marks removed and unions expanded."""
    if isinstance(node, msgspec.inspect.Metadata):
        yield from _members_of(node.type)
    elif isinstance(node, msgspec.inspect.UnionType):
        for member in node.types:
            yield from _members_of(member)
    else:
        yield node
