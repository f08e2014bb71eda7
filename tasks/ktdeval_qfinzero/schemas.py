"""JSON Schemas (draft 2020-12) of typed arguments and answers, and the fields that all services
share.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, UnsetType

from ktdeval.values.jsonio import JsonValue
from ktdeval_qfinzero.cursors import MAX_LENGTH

Schema = Mapping[str, JsonValue]

_SCALARS: Final[Mapping[object, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}
_BOUNDS: Final[Mapping[str, str]] = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "le": "maximum",
    "pattern": "pattern",
}
_LENGTHS: Final[Mapping[str, Mapping[str, str]]] = {
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
}
_ANYTHING: Final = (object, Any)  #: Types whose values no schema restricts
_PLAIN: Final = (bool, int, float, str)  #: Types of defaults that a schema shows


# ---- fields


def text(description: str, longest: int = 40, pattern: str | None = None) -> Meta:
    """A text argument of bounded length."""
    return Meta(description=description, min_length=1, max_length=longest, pattern=pattern)


def whole(description: str, least: int, most: int) -> Meta:
    """A whole number within bounds."""
    return Meta(description=description, ge=least, le=most)


def described(description: str) -> Meta:
    """Description of a field."""
    return Meta(description=description)


#: An annotation before the description of a field whose schema gives the default and the choices
#: first. The order of keywords is part of the tools that models are shown.
DEFAULT_FIRST: Final = Meta()

AsOf = Annotated[
    str,
    Meta(
        description="The clock: nothing later is in the answer.",
        extra_json_schema={"format": "date-time"},
    ),
]
Day = Annotated[
    str, Meta(description="Day such as 2025-01-06.", extra_json_schema={"format": "date"})
]
Moment = Annotated[
    str,
    Meta(
        description="Moment in UTC such as 2025-01-06T14:30:00Z.",
        extra_json_schema={"format": "date-time"},
    ),
]
Ticker = Annotated[str, described("Ticker.")]
Cursor = Annotated[
    str,
    text(
        "next_cursor of the page before, to go on after it with the same other arguments.",
        MAX_LENGTH,
    ),
]
NextCursor = Annotated[str | None, described("Where the next page begins; null at the end.")]
Unknown = Annotated[list[str], described("What was asked for that is not listed, as of the clock.")]


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of an operation. A field whose default is None may be left out, and is then not
    null but absent.
    """


class Answer(msgspec.Struct):
    """An answer of an operation, as of the clock. A field that is unset by default may be absent;
    one that may be null says so.
    """

    as_of_ts: AsOf  #: moment of the clock


# ---- schemas


class _Field(NamedTuple):
    """A field of a struct or of a typed dictionary."""

    name: str
    hint: object
    default: object  #: NODEFAULT or UNSET without one
    is_required: bool


class _Hint(NamedTuple):
    """A type and what stands around it."""

    inner: Any  #: the type itself
    metas: tuple[Meta, ...]  #: its annotations, from the inside out
    may_be_null: bool


def schema_of(hint: object, default: object = NODEFAULT) -> dict[str, JsonValue]:
    """JSON Schema of a type, closed to other fields. Keywords come in the order of annotations; the
    default and the type's own keywords follow those of the first annotation.
    """
    inner, metas, may_be_null = _peeled(hint)
    own = _own_keywords(inner)
    schema: dict[str, JsonValue] = {}
    if own:
        schema["type"] = own.pop("type")
    if isinstance(default, _PLAIN):
        own["default"] = default

    first, *others = metas or (Meta(),)
    schema |= _keywords(first, schema.get("type"))
    schema |= own
    schema |= first.extra_json_schema or {}
    for meta in others:
        schema |= _keywords(meta, schema.get("type"))
        schema |= meta.extra_json_schema or {}

    # an argument whose default is None may be absent, but not null
    if may_be_null and default is not None:
        schema["type"] = [schema["type"], "null"]
    return schema


def properties_of(struct: type) -> dict[str, Schema]:
    """Return the JSON Schema of each field of a struct, those that are required first: some engines
    that constrain a reply want them in that order, whatever the schema's own.
    """
    fields = sorted(_fields_of(struct), key=lambda field: not field.is_required)
    return {field.name: schema_of(field.hint, field.default) for field in fields}


def required_of(struct: type) -> tuple[str, ...]:
    """Return the fields of a struct that are always there."""
    return tuple(field.name for field in _fields_of(struct) if field.is_required)


def _fields_of(kind: type) -> list[_Field]:
    """Fields of a struct or of a typed dictionary, in order."""
    if issubclass(kind, msgspec.Struct):
        return [
            _Field(field.encode_name, field.type, field.default, field.required)
            for field in msgspec.structs.fields(kind)
        ]

    hints = get_type_hints(kind, include_extras=True)
    required: frozenset[str] = vars(kind)["__required_keys__"]
    return [_Field(name, hint, UNSET, name in required) for name, hint in hints.items()]


def _own_keywords(hint: Any) -> dict[str, JsonValue]:
    """Keywords that follow from a type, without its annotations; none where it may be anything."""
    origin = get_origin(hint)
    if hint in _ANYTHING:
        return {}
    if origin is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if origin in (list, tuple):
        return {"type": "array", "items": schema_of(get_args(hint)[0])}
    if origin is Mapping or origin is dict:
        return _mapping_keywords(get_args(hint)[1])
    if is_typeddict(hint) or issubclass(hint, msgspec.Struct):
        return _object_keywords(hint)

    return {"type": _SCALARS[hint]}


def _mapping_keywords(values: object) -> dict[str, JsonValue]:
    keywords: dict[str, JsonValue] = {"type": "object"}
    if values not in _ANYTHING:
        keywords["additionalProperties"] = schema_of(values)
    return keywords


def _object_keywords(kind: type) -> dict[str, JsonValue]:
    keywords: dict[str, JsonValue] = {"type": "object", "properties": properties_of(kind)}
    required = required_of(kind)
    if required:
        keywords["required"] = list(required)

    keywords["additionalProperties"] = False
    return keywords


def _keywords(meta: Meta, kind: JsonValue) -> dict[str, JsonValue]:
    """Keywords of an annotation; `kind`: type of JSON, which decides what a length bounds."""
    keywords: dict[str, JsonValue] = {}
    if meta.description is not None:
        keywords["description"] = meta.description

    bounds = {**_LENGTHS.get(str(kind), {}), **_BOUNDS}
    for name, keyword in bounds.items():
        value = getattr(meta, name)
        if value is not None:
            keywords[keyword] = value

    return keywords


def _peeled(hint: object) -> _Hint:
    """Take the annotations and the alternatives null and unset off a type."""
    origin = get_origin(hint)
    if origin is Annotated:
        wrapped, *notes = get_args(hint)
        inner, metas, may_be_null = _peeled(wrapped)
        own = tuple(note for note in notes if isinstance(note, Meta))
        return _Hint(inner, metas + own, may_be_null)

    if origin in (Union, types.UnionType):
        members = get_args(hint)
        member = next(each for each in members if each not in (type(None), UnsetType))
        inner, metas, may_be_null = _peeled(member)
        return _Hint(inner, metas, may_be_null or type(None) in members)

    return _Hint(hint, (), False)
