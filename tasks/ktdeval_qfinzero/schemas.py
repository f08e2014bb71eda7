"""JSON Schemas (draft 2020-12) of typed arguments and answers, and the fields that all services
share.

Field descriptions are in the class docstring, after the first paragraph: `name: text`, one per
line, with continuation lines indented. Types shared by several fields have their own description.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeGuard,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import UNSET, Meta

from ktdeval.values import JsonValue
from ktdeval_qfinzero.cursors import MAX_LENGTH

Schema = Mapping[str, JsonValue]

_PLAIN: Final = (bool, int, float, str)  #: Types of defaults that a schema shows
_IS_DESCRIBED_LAST: Final = "x-described-last"
#: A field and its description in a docstring
_DESCRIBED_FIELD: Final = re.compile(r"^(\w+): (.+(?:\n +.+)*)", re.MULTILINE)
#: Keywords in output order; all others follow
_KEYWORDS: Final = (
    "type",
    "description",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "exclusiveMinimum",
    "minimum",
    "maximum",
    "pattern",
    "enum",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "default",
)
#: Numeric bounds. Integral bounds are written as integers: `typing` caches equal annotations, so
#: depending on import order, 0 may be replaced by another package's 0.0
_BOUNDS: Final = ("exclusiveMinimum", "minimum", "exclusiveMaximum", "maximum")


# ---- fields


def text(description: str, longest: int = 40, pattern: str | None = None) -> Meta:
    """Describe a string argument of bounded length."""
    return Meta(description=description, min_length=1, max_length=longest, pattern=pattern)


def whole(description: str, least: int, most: int) -> Meta:
    """Describe an integer argument within bounds."""
    return Meta(description=description, ge=least, le=most)


def make_description(description: str) -> Meta:
    """Describe a field."""
    return Meta(description=description)


DESCRIBED_LAST: Final = Meta(extra_json_schema={_IS_DESCRIBED_LAST: True})
"""Mark of a type whose description is written after all other keywords in its schema."""
ShortText = Annotated[str, Meta(min_length=1, max_length=40)]
AsOf = Annotated[
    str,
    Meta(
        description="The clock: nothing later is in the answer.",
        extra_json_schema={"format": "date-time"},
    ),
]
Day = Annotated[str, Meta(description="Day, YYYY-MM-DD.", extra_json_schema={"format": "date"})]
Moment = Annotated[
    str,
    Meta(
        description="Moment in UTC, YYYY-MM-DDTHH:MM:SSZ.",
        extra_json_schema={"format": "date-time"},
    ),
]
Ticker = Annotated[str, make_description("Ticker.")]
Cursor = Annotated[
    str,
    text(
        "next_cursor of the page before, to go on after it with the same other arguments.",
        MAX_LENGTH,
    ),
]
NextCursor = Annotated[str | None, make_description("Where the next page begins; null at the end.")]
Unknown = Annotated[
    list[str], make_description("What was asked for that is not listed, as of the clock.")
]


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of an operation. A field whose default is None may be left out, and is then not
    null but absent.
    """


class Nothing(Arguments):
    """No arguments."""


class Paged(Arguments, kw_only=True):
    """Arguments of an operation that answers in pages. Subclasses are not keyword-only, so that
    their own arguments come before these.
    """

    limit: Annotated[int, whole("Most rows of one answer.", 1, 1000)] = 100
    cursor: Cursor | None = None


class Page(msgspec.Struct, kw_only=True):
    """Part of a long answer. Own fields of a subclass come before the cursor, which is
    keyword-only.
    """

    next_cursor: NextCursor


# ---- schemas


def schema_of(hint: object) -> dict[str, JsonValue]:
    """Return the JSON Schema of a type, converted from msgspec's into a form that all models and
    engines read: without references or additional properties, with null and choices next to a type,
    and in a fixed keyword order.
    """
    (schema,), parts = msgspec.json.schema_components([hint], ref_template="{name}")
    hints = list(_hints_in(hint))
    described = {each.__name__: _descriptions(each) for each in hints if _has_fields(each)}
    for part in parts.values():
        for name, text in described.get(part["title"], {}).items():
            part["properties"][name]["description"] = text

    literals = [get_args(each) for each in hints if get_origin(each) is Literal]
    choices = {frozenset(literal): list(literal) for literal in literals}
    return _Rewriter(parts, choices).rewritten(schema)


def _hints_in(hint: object) -> Iterator[object]:
    """Yield a type and all types inside it."""
    yield hint
    if get_origin(hint) is Literal:
        return

    inner: list[object] = list(get_args(hint))
    if _has_fields(hint):
        inner += get_type_hints(hint, include_extras=True).values()
    for each in inner:
        yield from _hints_in(each)


def _has_fields(hint: object) -> TypeGuard[type]:
    return isinstance(hint, type) and (is_typeddict(hint) or issubclass(hint, msgspec.Struct))


def _descriptions(kind: type) -> dict[str, str]:
    """Read the descriptions of fields from the docstrings of a class and its base classes."""
    described: dict[str, str] = {}
    for base in reversed(_bases(kind)):
        names = vars(base).get("__annotations__", ())
        text = inspect.cleandoc(base.__doc__ or "")
        for name, description in _DESCRIBED_FIELD.findall(text):
            if name in names:
                described[name] = " ".join(description.split())

    return described


def _bases(kind: type) -> Sequence[type]:
    """Return the base classes of a class, starting with the class itself.

    A TypedDict does not record its bases. They are taken to be the classes in its module whose
    fields it contains.
    """
    if not is_typeddict(kind):
        return kind.__mro__

    fields = kind.__annotations__.items()
    of_module = vars(sys.modules[kind.__module__]).values()
    return [
        each for each in of_module if is_typeddict(each) and each.__annotations__.items() <= fields
    ]


@dataclass(frozen=True, slots=True)
class _Rewriter:
    """Converter that inlines the structs and the choices of literals to which a schema refers."""

    parts: Mapping[str, dict[str, Any]]
    choices: Mapping[frozenset[str], list[JsonValue]]

    def rewritten(self, made: Mapping[str, Any]) -> dict[str, JsonValue]:
        """Return one of msgspec's schemas, or a part of it, in the common form."""
        schema = self._without_reference(made)
        is_union = "anyOf" in schema
        if is_union:
            inner, null = schema.pop("anyOf")
            assert null == {"type": "null"}
            schema = self._without_reference(inner) | schema

        if "enum" in schema:
            schema |= {"type": "string", "enum": self.choices[frozenset(schema["enum"])]}
        if "properties" in schema:
            schema |= self._close_object(schema)
        for keyword in ("items", "additionalProperties"):
            if isinstance(schema.get(keyword), dict):
                schema[keyword] = self.rewritten(schema[keyword])

        # an argument whose default is None may be absent, but not null
        if is_union and schema.get("default", UNSET) is not None:
            schema["type"] = [schema["type"], "null"]
            if "enum" in schema:
                schema["enum"] = [*schema["enum"], None]

        if not isinstance(schema.get("default"), _PLAIN):
            schema.pop("default", None)
        if schema.get("required") == []:
            del schema["required"]
        return _in_order(schema)

    def _without_reference(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """Replace a reference by the schema of the struct, without its name and docstring."""
        schema = dict(made)
        if "$ref" not in schema:
            return schema

        part = self.parts[schema.pop("$ref")]
        own = {name: value for name, value in part.items() if name not in ("title", "description")}
        return own | schema

    def _close_object(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Forbid additional properties of an object and put required ones first, since some
        constrained-decoding engines need this order.
        """
        required = schema["required"]
        names = sorted(schema["properties"], key=lambda name: name not in required)
        properties = {name: self.rewritten(schema["properties"][name]) for name in names}
        return {"properties": properties, "additionalProperties": False}


def _in_order(schema: dict[str, Any]) -> dict[str, JsonValue]:
    """Sort keywords, since their order is part of the tools shown to models. Integral bounds become
    integers.
    """
    for keyword in _BOUNDS:
        bound = schema.get(keyword)
        if isinstance(bound, float) and bound.is_integer():
            schema[keyword] = int(bound)

    is_described_last = schema.pop(_IS_DESCRIBED_LAST, False)
    known = {keyword: schema[keyword] for keyword in _KEYWORDS if keyword in schema}
    ordered = known | schema
    if is_described_last:
        ordered["description"] = ordered.pop("description")
    return ordered
