"""JSON Schemas (draft 2020-12) of typed arguments and answers, the fields that all services share, and the cursors of pages.

A cursor says where a page ended, as an opaque text. The next page begins after that key, so that pages lose and repeat no row.
"""

from __future__ import annotations

import base64
import types
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from pathlib import Path
from string import Template
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, UnsetType

from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict
from ktdeval.yamlio import load_yaml
from ktdeval_qfinzero.errors import invalid

MAX_LENGTH = 500
_INT64 = 2**63
Row = TypeVar("Row")


def write_cursor(*key: str | int) -> str:
    """Cursor of a key: unpadded base64 (its URL alphabet) of the canonical JSON of its parts."""
    return base64.urlsafe_b64encode(dumps_canonical(list(key)).encode()).decode().rstrip("=")


def read_cursor(text: str, kinds: tuple[type, ...]) -> tuple[str | int, ...]:
    """Key of a cursor whose parts have these types. Raises ServiceError: `invalid_argument`: not of this operation."""
    try:
        parts = loads_strict(base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
        is_typed = isinstance(parts, list) and [type(part) for part in parts] == list(kinds)
        in_range = is_typed and all(0 <= part < _INT64 - 1 for part in parts if isinstance(part, int))
        if in_range and write_cursor(*parts) == text:
            return tuple(parts)
    except ValueError:  # ValueError: not base64, not UTF-8, not JSON
        pass
    raise invalid("cursor", "expected the next_cursor of an answer of this operation, unchanged")


def page_of(rows: Iterable[Row], limit: int, key: Callable[[Row], tuple[str | int, ...]]) -> tuple[list[Row], str | None]:
    """First rows of a sorted stream, and the cursor (of their last one's key) of the next page where there are more."""
    first_rows = list(islice(rows, limit + 1))
    return first_rows[:limit], write_cursor(*key(first_rows[limit - 1])) if len(first_rows) > limit else None


Schema = Mapping[str, JsonValue]

_SCALARS: Final[Mapping[Any, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_BOUNDS: Final[Mapping[str, str]] = {"gt": "exclusiveMinimum", "ge": "minimum", "le": "maximum", "pattern": "pattern"}
_META: Final = ("min_length", "max_length", *_BOUNDS)
_PLAIN: Final = (bool, int, float, str)
_LENGTHS: Final[Mapping[str, tuple[str, str]]] = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of an operation. A field whose default is None may be left out, and is then not null but absent."""


class Answer(msgspec.Struct):
    """An answer of an operation, as of the clock. A field that is unset by default may be absent; one that may be null says so."""

    as_of_ts: Annotated[
        str, Meta(description="The clock: nothing later is in the answer.", extra_json_schema={"format": "date-time"})
    ]  #: moment of the clock


def text(description: str, longest: int = 40, pattern: str | None = None) -> Meta:
    """A text argument of bounded length."""
    return Meta(description=description, min_length=1, max_length=longest, pattern=pattern)


def described(description: str) -> Meta:
    """Description of a field."""
    return Meta(description=description)


Day = Annotated[str, Meta(description="Day such as 2025-01-06.", extra_json_schema={"format": "date"})]
Moment = Annotated[str, Meta(description="Moment in UTC such as 2025-01-06T14:30:00Z.", extra_json_schema={"format": "date-time"})]
Ticker = Annotated[str, described("Ticker.")]
Cursor = Annotated[str, text("next_cursor of the page before, to go on after it with the same other arguments.", MAX_LENGTH)]
NextCursor = Annotated[str | None, described("Where the next page begins; null at the end.")]
Unknown = Annotated[list[str], described("What was asked for that is not listed, as of the clock.")]


_COMMON: Final[dict[str, Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "object": dict[str, Any],
    "Arguments": Arguments,
    "Answer": Answer,
    "Day": Day,
    "Moment": Moment,
    "Ticker": Ticker,
    "Cursor": Cursor,
    "NextCursor": NextCursor,
    "Unknown": Unknown,
}  #: Types that a file of types may name


def load_types(known: Mapping[str, Any], *paths: Path) -> Callable[[str], Any]:
    """Make the types of YAML files; `known`: further names for them. The result gives types by name, or raises AttributeError.

    A field is its type, or [type, description, mapping], of which each of the latter two may be absent. The mapping has bounds of
    `msgspec.Meta`, whose values may be names, further keywords of the JSON Schema, and of arguments the `default`. A field with a
    question mark may be absent. A type is a name from above, one of Python, or made of them: `list of X`, `object of X`,
    `one of a, b` and `X | null`. `Name(A, B):` has the fields of A and B as well. `Texts:` are for `$name` in descriptions.
    """
    defined: dict[str, Any] = {}
    types = ChainMap(defined, _COMMON, dict(known))
    for heading, given in chain.from_iterable(load_yaml(path).items() for path in paths):
        name, _, bases = heading.rstrip(")").partition("(")
        if name == "Texts":
            types = types.new_child(given)
        else:
            defined[name] = _struct(name, bases, given, types) if isinstance(given, Mapping) else _annotated(given, types)

    def type_of(name: str) -> Any:
        if name not in defined:
            raise AttributeError(f"{paths[-1].parent} has no type {name}")
        return defined[name]

    return type_of


def _struct(name: str, bases: str, given: Mapping[str, Any], types: Mapping[str, Any]) -> type[msgspec.Struct]:
    inherited = [types[base] for base in bases.split(", ") if base]
    fields: list[Any] = [
        (field.name, field.type) if field.required else (field.name, field.type, field.default)
        for base in inherited
        for field in msgspec.structs.fields(base)
    ]
    takes = Arguments in inherited
    for field, form in given.items():
        hint, more = _annotated(form, types), form[-1] if isinstance(form, list) else None
        if field.endswith("?"):
            fields.append((field[:-1], hint | None, None) if takes else (field[:-1], hint | UnsetType, UNSET))
        else:
            fields.append((field, hint, more["default"]) if isinstance(more, Mapping) and "default" in more else (field, hint))
    if takes:
        return msgspec.defstruct(name, fields, bases=(Arguments,), kw_only=True)
    return msgspec.defstruct(name, sorted(fields, key=len))  # required fields first


def _annotated(given: Any, types: Mapping[str, Any]) -> Any:
    if isinstance(given, str):
        return _hint(given, types)
    kind, *notes = given
    more = dict(notes.pop()) if notes and isinstance(notes[-1], Mapping) else {}
    (text,) = notes or (None,)
    description = None if text is None else Template(text).substitute(types)
    more.pop("default", None)
    bounds: dict[str, Any] = {name: types.get(bound, bound) for name in _META if (bound := more.pop(name, None)) is not None}
    return Annotated[_hint(kind, types), Meta(description=description, extra_json_schema=more or None, **bounds)]


def _hint(text: str, types: Mapping[str, Any]) -> Any:
    if text.endswith(" | null"):
        return _hint(text.removesuffix(" | null"), types) | None
    kind, _, inner = text.partition(" of ")
    if kind == "one":
        return Literal.__getitem__(tuple(inner.split(", ")))
    if not inner:
        return types[kind]
    item: Any = _hint(inner, types)
    return list[item] if kind == "list" else dict[str, item]


def whole(description: str, least: int, most: int) -> Meta:
    """A whole number within bounds."""
    return Meta(description=description, ge=least, le=most)


def schema_of(hint: Any, default: Any = NODEFAULT) -> dict[str, JsonValue]:
    """JSON Schema of a type, closed to other fields; keywords in the order of annotations, a default before the second one's."""
    inner, metas, may_be_null = _peeled(hint)
    base = _base(inner)
    schema: dict[str, JsonValue] = {"type": base.pop("type")} if base else {}
    for number, meta in enumerate(metas or (Meta(),)):
        schema |= _keywords(meta, schema.get("type"))
        if number == 0:
            schema |= {**base, "default": default} if isinstance(default, _PLAIN) else base
        schema |= meta.extra_json_schema or {}
    return {**schema, "type": [schema["type"], "null"]} if may_be_null and default is not None else schema


def properties_of(struct: type[msgspec.Struct]) -> dict[str, Schema]:
    """Return the JSON Schema of each field of a struct."""
    return {field.encode_name: schema_of(field.type, field.default) for field in msgspec.structs.fields(struct)}


def required_of(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields of a struct that are always there."""
    return tuple(field.encode_name for field in msgspec.structs.fields(struct) if field.required)


def _base(hint: Any) -> dict[str, JsonValue]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        required = list(required_of(hint))
        listed: dict[str, JsonValue] = {"required": required} if required else {}
        return {"type": "object", "properties": properties_of(hint), **listed, "additionalProperties": False}
    if get_origin(hint) is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if get_origin(hint) in (list, tuple):
        return {"type": "array", "items": schema_of(get_args(hint)[0])}
    if get_origin(hint) is dict or hint is dict:
        values = get_args(hint)[1] if get_args(hint) else Any
        return {"type": "object"} | ({} if values is Any else {"additionalProperties": schema_of(values)})
    return {} if hint is Any else {"type": _SCALARS[hint]}


def _keywords(meta: Meta, kind: str | None) -> dict[str, JsonValue]:
    keywords: dict[str, JsonValue] = {} if meta.description is None else {"description": meta.description}
    lengths = zip(("min_length", "max_length"), _LENGTHS.get(kind or "", ()), strict=False)
    for name, keyword in (*lengths, *_BOUNDS.items()):
        if (value := getattr(meta, name)) is not None:
            keywords[keyword] = value
    return keywords


def _peeled(hint: Any) -> tuple[Any, tuple[Meta, ...], bool]:
    """(type itself, annotations around it from the inside out, whether it may be null)."""
    if get_origin(hint) is Annotated:
        inner, metas, may_be_null = _peeled(hint.__origin__)
        return inner, metas + tuple(note for note in hint.__metadata__ if isinstance(note, Meta)), may_be_null
    if get_origin(hint) in (Union, types.UnionType):
        member = next(each for each in get_args(hint) if each not in (type(None), UnsetType))
        inner, metas, may_be_null = _peeled(member)
        return inner, metas, may_be_null or type(None) in get_args(hint)
    return hint, (), False
