"""Tool arguments: their JSON Schema, and their conversion from a model's text to function values.
Handles become columns and rows of the snapshot. Errors never quote a value, since it may be an
identity that the mask hides.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from ktdeval.errors import KtdevalError, PluginError
from ktdeval.masking.lens import Lens
from ktdeval.masking.payload_types import Payload
from ktdeval.values.documents.strict_json import JsonValue, Schema
from ktdeval.values.documents.typed_json import convert_value
from ktdeval.values.options.option_forms import checked_hint, find_misfit


@dataclass(frozen=True, slots=True)
class Bounds:
    """Minimum and maximum of a number, inclusive.

    Example:
        days: Annotated[int, Bounds(1, 30)] = 20
    """

    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, slots=True)
class Length:
    """Minimum and maximum number of items in a list or mapping, or of characters in a string.

    Example:
        stock_ids: Annotated[list[AssetArg], Length(1, 30)]
    """

    minimum: int = 0
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class HandleKind:
    """Marks an argument that the model writes as a handle and the function receives as a column or
    row.
    """

    kind: Literal["asset", "day"]


AssetArg = Annotated[int, HandleKind("asset")]
"""A handle of an asset in the call, its snapshot column in the function. May stand inside list[...]
and as key of dict[...].
"""
#: Trading day: a handle in the call, a snapshot row in the function
DayArg = Annotated[int, HandleKind("day")]


class ToolArgumentError(KtdevalError):
    """An argument is unusable. The message gives the argument's path, such as `stock_ids[2]`. Since
    it is shown to the model as feedback, it must not quote an identity.
    """

    def __init__(self, argument: str, expected: str, kind: str = "bad_arguments") -> None:
        super().__init__(f"argument {argument}: expected {expected}")
        self.argument = argument
        self.expected = expected
        self.kind = kind

    @property
    def payload(self) -> Payload:
        """Feedback for the model."""
        return {"error": {"kind": self.kind, "argument": self.argument, "expected": self.expected}}


@dataclass(frozen=True, slots=True)
class ArgumentType:
    """A compiled annotation."""

    json: str  #: JSON type, such as `integer`
    choices: tuple[str, ...] = ()  #: allowed values of a string; empty: any string
    bounds: Bounds = Bounds()  #: bounds of a number
    length: Length = Length()  #: length of a string, list or object
    handle: Literal["asset", "day"] | None = None  #: kind of handle, if the string is a handle
    key: ArgumentType | None = None  #: type of an object's keys
    item: ArgumentType | None = None  #: type of the items in a list or of the values in an object
    is_optional: bool = False  #: True if null is also accepted

    @property
    def scalar(self) -> Any:
        """Annotation that msgspec uses to validate a string, number or boolean."""
        if self.choices:
            return Literal[self.choices]

        return checked_hint(_PYTHON[self.json], self.bounds.minimum, self.bounds.maximum)

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        schema: Schema = {"type": self.json}
        if self.choices:
            schema["enum"] = list(self.choices)

        if self.is_optional:
            # A list of types is used instead of `anyOf`, since providers accept it.
            schema["type"] = [self.json, "null"]
            if self.choices:
                schema["enum"].append(None)

        if self.json == "array":
            schema["items"] = _item_type(self).schema()
        elif self.json == "object":
            schema["additionalProperties"] = _item_type(self).schema()

        limits: Schema = {"minimum": self.bounds.minimum, "maximum": self.bounds.maximum}
        if self.json in _LENGTH_RULES:
            least, most = _LENGTH_RULES[self.json]
            limits |= {least: self.length.minimum or None, most: self.length.maximum}

        return schema | {name: limit for name, limit in limits.items() if limit is not None}


_PYTHON: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}
_SCALARS: Mapping[Any, str] = {python: json for json, python in _PYTHON.items()}
_LENGTH_RULES = {
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
    "string": ("minLength", "maxLength"),
}
_UNITS = {"array": "items", "object": "items", "string": "characters"}


def argument_type(hint: Any, where: str) -> ArgumentType:
    """Compile an annotation. Raises PluginError if the annotation has no JSON Schema."""
    try:
        return _compile(hint)
    except TypeError as error:
        raise PluginError(
            f"{where}: annotation {hint!r} has no JSON Schema ({error}); use str, int, float, bool,"
            " Literal, AssetArg, list or dict"
        ) from error


def _compile(hint: Any) -> ArgumentType:
    origin = get_origin(hint)
    args = get_args(hint)
    if hint in _SCALARS:
        return ArgumentType(_SCALARS[hint])
    if origin is Annotated:
        return _compile_marked(args[0], args[1:])
    if origin is Literal and all(isinstance(choice, str) for choice in args):
        return ArgumentType("string", choices=args)
    if origin is list:
        return ArgumentType("array", item=_compile(args[0]))

    if origin in (dict, Mapping):
        key = _compile(args[0])
        if key.json != "string" or key.is_optional:
            raise TypeError("keys of a dict must be strings")

        return ArgumentType("object", key=key, item=_compile(args[1]))

    if origin in (Union, types.UnionType):
        members = [arg for arg in args if arg is not type(None)]
        if len(members) == 1:
            return replace(_compile(members[0]), is_optional=True)

    raise TypeError("it is not a type of JSON")


def _compile_marked(hint: Any, marks: tuple[Any, ...]) -> ArgumentType:
    compiled = _compile(hint)
    for mark in marks:
        is_any_text = not compiled.choices and compiled.handle is None
        if isinstance(mark, HandleKind):
            compiled = ArgumentType("string", handle=mark.kind, is_optional=compiled.is_optional)
        elif isinstance(mark, Bounds) and compiled.json in ("integer", "number"):
            compiled = replace(compiled, bounds=mark)
        elif isinstance(mark, Length) and compiled.json in _LENGTH_RULES and is_any_text:
            compiled = replace(compiled, length=mark)

    return compiled


def holds_handle(hint: Any) -> bool:
    """Return whether an annotation contains an AssetArg or DayArg."""
    return any(isinstance(part, HandleKind) or holds_handle(part) for part in get_args(hint))


# ---- reading what a model wrote


def read_argument(declared: ArgumentType, value: JsonValue, lens: Lens, where: str) -> Any:
    """Return the value to pass to the function. Raises ToolArgumentError if the value does not
    match.
    """
    if value is None and declared.is_optional:
        return None
    if declared.handle is not None:
        return _read_handle(declared.handle, value, lens, where)
    result: Any
    if declared.json == "array":
        result = _read_list(declared, value, lens, where)
    elif declared.json == "object":
        result = _read_object(declared, value, lens, where)
    else:
        result = _read_scalar(declared, value, where)

    if declared.json in _UNITS:
        _check_length(declared, len(result), where)

    return result


def _read_scalar(declared: ArgumentType, value: JsonValue, where: str) -> Any:
    if declared.json == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has only one number type

    try:
        return convert_value(value, declared.scalar)
    except msgspec.ValidationError:
        misfit = find_misfit(declared.scalar, value, where)
        raise ToolArgumentError(where, misfit.expected + misfit.near) from None


def _read_handle(kind: Literal["asset", "day"], value: JsonValue, lens: Lens, where: str) -> int:
    """Return the column or row for a handle, as the lens translates it."""
    text = value if isinstance(value, str) else ""
    if kind == "asset":
        found = lens.parse_asset(text)
        expected = "a stock_id exactly as it was shown to you"
    else:
        found = lens.parse_day(text)
        expected = "a trading day exactly as it was shown to you"

    if found is None:
        raise ToolArgumentError(where, expected, f"unknown_{kind}")

    return found


def _read_list(declared: ArgumentType, value: JsonValue, lens: Lens, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ToolArgumentError(where, "a list")

    item_type = _item_type(declared)
    return [
        read_argument(item_type, item, lens, f"{where}[{index}]")
        for index, item in enumerate(value)
    ]


def _read_object(
    declared: ArgumentType, value: JsonValue, lens: Lens, where: str
) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise ToolArgumentError(where, "an object")

    key_type = declared.key or ArgumentType("string")
    result: dict[Any, Any] = {}
    for number, (name, member) in enumerate(value.items(), 1):
        key = read_argument(key_type, name, lens, f"{where} (key {number})")
        if key in result:  # the same asset, spelled in two ways
            raise ToolArgumentError(f"{where} (key {number})", "each key once")

        result[key] = read_argument(_item_type(declared), member, lens, f"{where} (value {number})")

    return result


def _item_type(declared: ArgumentType) -> ArgumentType:
    if declared.item is None:  # lists and objects are compiled with an item type
        raise TypeError(f"{declared.json} has no items")

    return declared.item


def _check_length(declared: ArgumentType, size: int, where: str) -> None:
    length = declared.length
    if length.minimum <= size and (length.maximum is None or size <= length.maximum):
        return

    limits = f"{length.minimum} or more"
    if length.maximum is not None:
        limits = f"{length.minimum} to {length.maximum}"

    raise ToolArgumentError(where, f"{limits} {_UNITS[declared.json]}")
