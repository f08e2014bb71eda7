"""Records and annotations: the description of each field of a class, compiled once.

Config, `--set`, tool arguments, plugin checks and files all rest on it. `field_kind(int | None)`
compiles an annotation; `fields_of` describes the fields of a frozen dataclass (`option`) and of a
`msgspec.Struct` alike: type, bounds, help, default, name in files.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ktdeval.values.kinds import (
    Alternatives,
    Anything,
    Boolean,
    Bounds,
    Choice,
    InstanceOf,
    Integer,
    Items,
    Kind,
    Method,
    Nothing,
    Number,
    Reading,
    Schema,
    Table,
    Text,
)
from ktdeval.values.misfit import MissingField, UnknownField

if typing.TYPE_CHECKING:
    from ktdeval.values.strict_json import JsonValue


@dataclass(frozen=True)
class Field:
    """Description of one field of a record."""

    name: str  #: in code
    written_as: str  #: in files, mappings and arguments
    kind: Kind
    is_required: bool
    default: Any = None  #: None where there is none, or it is made anew for each record
    help: str = ""
    is_silent: bool = False  #: its default is left out of mappings

    @property
    def schema(self) -> Schema:
        """JSON Schema of the field, with its help and a plain default."""
        schema = self.kind.schema()
        if self.help:
            schema["description"] = self.help
        if isinstance(self.default, str | int | float):
            schema["default"] = self.default

        return schema


class Record(InstanceOf):
    """An object with declared fields: a frozen dataclass, or a `msgspec.Struct`."""

    @property
    def fields(self) -> Mapping[str, Field]:
        """Fields by their names in files."""
        return fields_of(self.python)

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        if not isinstance(value, Mapping):
            names = ", ".join(self.fields)
            raise reading.misfit(where, f"a mapping of fields ({names})", value)

        for name in value:
            if name not in self.fields:
                raise UnknownField(where, str(name), self.fields)

        values: dict[str, Any] = {}
        for name, field in self.fields.items():
            if name in value:
                values[field.name] = field.kind.read(value[name], f"{where}: {name}", reading)
            elif field.is_required:
                raise MissingField(where, name)

        return self.python(**values)

    def schema(self) -> Schema:
        return object_schema(
            {name: field.schema for name, field in self.fields.items()},
            [name for name, field in self.fields.items() if field.is_required],
        )


def object_schema(properties: Mapping[str, JsonValue], required: Sequence[str]) -> Schema:
    """Return the JSON Schema of a closed object."""
    schema: Schema = {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
    }
    if required:
        schema["required"] = list(required)

    return schema


# Annotations are text, which would be compiled at each call: half the time of building a config.
@cache
def fields_of(python: type) -> Mapping[str, Field]:
    """Return the fields of a dataclass or a `msgspec.Struct`, by their names in files."""
    hints = typing.get_type_hints(python, include_extras=True)
    if dataclasses.is_dataclass(python):
        declared = [field for field in dataclasses.fields(python) if field.init]
        described = [_field_of_dataclass(field, hints[field.name]) for field in declared]
    else:
        described = _fields_of_struct(python, hints)

    return {field.written_as: field for field in described}


def _field_of_dataclass(field: dataclasses.Field[Any], hint: Any) -> Field:
    metadata = field.metadata
    kind = field_kind(hint)
    bounds = Bounds(metadata.get("minimum"), metadata.get("maximum"))
    if bounds != Bounds():
        kind = kind.marked(bounds)

    has_default = field.default is not dataclasses.MISSING
    is_made = field.default_factory is not dataclasses.MISSING
    return Field(
        name=field.name,
        written_as=field.name,
        kind=kind,
        is_required=not has_default and not is_made,
        default=field.default if has_default else None,
        help=metadata.get("help", ""),
        is_silent=metadata.get("is_silent", False),
    )


def _fields_of_struct(python: Any, hints: Mapping[str, Any]) -> list[Field]:
    """Describe a `msgspec.Struct` by its own attributes: `msgspec` takes time to import."""
    names: Sequence[str] = python.__struct_fields__
    written: Sequence[str] = python.__struct_encode_fields__
    defaults: Sequence[Any] = python.__struct_defaults__
    first_default = len(names) - len(defaults)
    described = []
    for index, name in enumerate(names):
        is_required = index < first_default
        if not is_required:
            # keyword-only fields may be required after others: msgspec then has `NODEFAULT`
            is_required = str(defaults[index - first_default]) == "NODEFAULT"

        kind = field_kind(hints[name])
        described.append(Field(name, written[index], kind, is_required))

    return described


# ---- compiling annotations

_SCALARS: Mapping[Any, Callable[[], Kind]] = {
    str: Text,
    int: Integer,
    float: Number,
    bool: Boolean,
    type(None): Nothing,
    None: Nothing,
    Any: Anything,
}


def field_kind(hint: Any) -> Kind:
    """Compile an annotation."""
    if hint in _SCALARS:
        return _SCALARS[hint]()

    origin = get_origin(hint)
    args = get_args(hint)
    if origin is Annotated:
        kind = field_kind(args[0])
        for mark in args[1:]:
            kind = kind.marked(mark)

        return kind

    if origin is Literal:
        return Choice(args)
    if origin in (Union, types.UnionType):
        return _kind_of_union(args)
    if origin in (list, tuple, Sequence):
        return Items(field_kind(args[0]) if args else Anything(), list if origin is list else tuple)
    if origin in (dict, Mapping):
        return Table(field_kind(args[0]), field_kind(args[1]))
    if origin is Callable:
        return Method()

    if isinstance(hint, type) and origin is None:
        is_record = dataclasses.is_dataclass(hint) or hasattr(hint, "__struct_fields__")
        return Record(hint) if is_record else InstanceOf(hint)

    return Anything()


def _kind_of_union(args: tuple[Any, ...]) -> Kind:
    """Compile a union; choices of several literals become one."""
    literals = [arg for arg in args if get_origin(arg) is Literal]
    choices = tuple(choice for literal in literals for choice in get_args(literal))
    members: list[Kind] = []
    for arg in args:
        if arg not in literals:
            members.append(field_kind(arg))
        elif arg is literals[0]:
            members.append(Choice(choices))

    return members[0] if len(members) == 1 else Alternatives(members)
