"""Arguments of a tool: JSON Schema of annotations, and conversion of JSON values to a function's arguments."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ktdeval.errors import KtdevalError, PluginError
from ktdeval.fields import near_matches
from ktdeval.jsonio import JsonValue
from ktdeval.masking.lens import Lens


@dataclass(frozen=True, slots=True)
class Bounds:
    """Smallest and largest value of a number, both included: `Annotated[int, Bounds(1, 30)]`."""

    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, slots=True)
class Length:
    """Fewest and most items of a list or mapping, or characters of a text: `Annotated[list[AssetArg], Length(1, 30)]`."""

    minimum: int = 0
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Handle:
    """Marks an argument that the model writes as a handle and the function gets as a column or row."""

    kind: Literal["asset", "day"]


AssetArg = Annotated[int, Handle("asset")]
"""A handle of an asset in the call, its snapshot column in the function. May stand inside list[...] and as key of dict[...]."""
DayArg = Annotated[int, Handle("day")]  #: A handle of a trading day in the call, its snapshot row in the function


class ToolArgumentError(KtdevalError):
    """An argument (with its path: `stock_ids[2]`) is unusable: feedback to the model, so it must quote no identity."""

    def __init__(self, argument: str, expected: str, kind: str = "bad_arguments") -> None:
        super().__init__(f"argument {argument}: expected {expected}")
        self.argument = argument
        self.expected = expected
        self.kind = kind


Converter = Callable[[JsonValue, Lens, str], Any]  #: (value, lens, where) -> the function's argument; raises ToolArgumentError


def compile_annotation(hint: Any, where: str) -> tuple[dict[str, JsonValue], Converter]:
    """Return an annotation's JSON Schema, and the converter of its JSON values. Raises PluginError where it has no schema."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _compile_annotated(args[0], args[1:], where)
    if origin is Literal and all(isinstance(arg, str) for arg in args):
        return {"type": "string", "enum": list(args)}, _choice(args)
    if origin in (Union, types.UnionType) and type(None) in args and len(args) == 2:
        schema, convert = compile_annotation(next(arg for arg in args if arg is not type(None)), where)
        optional = {**schema, "type": [schema["type"], "null"]} | ({"enum": [*schema["enum"], None]} if "enum" in schema else {})
        return optional, lambda value, lens, path: None if value is None else convert(value, lens, path)
    if origin is list:
        item_schema, item = compile_annotation(args[0], where)
        return {"type": "array", "items": item_schema}, _list_of(item)
    if origin is dict:
        key_schema, key = compile_annotation(args[0], where)
        value_schema, value_of = compile_annotation(args[1], where)
        if key_schema["type"] != "string":
            raise PluginError(f"{where}: keys of a dict must be AssetArg, DayArg or str")
        return {"type": "object", "additionalProperties": value_schema}, _dict_of(key, value_of)
    if hint in _SCALARS:
        name, convert = _SCALARS[hint]
        return {"type": name}, convert
    raise PluginError(
        f"{where}: annotation {hint!r} has no JSON Schema; use str, int, float, bool, Literal, AssetArg, list or dict"
    )


def _compile_annotated(hint: Any, marks: tuple[Any, ...], where: str) -> tuple[dict[str, JsonValue], Converter]:
    for mark in marks:
        if isinstance(mark, Handle):
            return {"type": "string"}, _asset if mark.kind == "asset" else _day
    schema, convert = compile_annotation(hint, where)
    for mark in marks:
        if isinstance(mark, Bounds):
            schema |= _without_none({"minimum": mark.minimum, "maximum": mark.maximum})
            convert = _bounded(convert, mark)
        elif isinstance(mark, Length):
            kind = schema["type"]
            low, high = _LENGTH_WORDS[kind[0] if isinstance(kind, list) else kind]
            schema |= _without_none({low: mark.minimum or None, high: mark.maximum})
            convert = _measured(convert, mark)
    return schema, convert


_LENGTH_WORDS = {
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
    "string": ("minLength", "maxLength"),
}


def holds_handle(hint: Any) -> bool:
    """Whether an annotation holds an AssetArg or DayArg."""
    return any(isinstance(part, Handle) or holds_handle(part) for part in get_args(hint))


def _without_none(mapping: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in mapping.items() if value is not None}


def _text(value: JsonValue, _lens: Lens, where: str) -> str:
    if not isinstance(value, str):
        raise ToolArgumentError(where, "a string")
    return value


def _integer(value: JsonValue, _lens: Lens, where: str) -> int:
    if isinstance(value, float) and value.is_integer():  # JSON has one kind of number: 20.0 is the integer 20
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ToolArgumentError(where, "an integer")
    return value


def _number(value: JsonValue, _lens: Lens, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ToolArgumentError(where, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):  # 1e999 is legal JSON
        raise ToolArgumentError(where, "a number of ordinary size")
    return number


def _boolean(value: JsonValue, _lens: Lens, where: str) -> bool:
    if not isinstance(value, bool):
        raise ToolArgumentError(where, "true or false")
    return value


_SCALARS: Mapping[Any, tuple[str, Converter]] = {
    str: ("string", _text),
    int: ("integer", _integer),
    float: ("number", _number),
    bool: ("boolean", _boolean),
}


def _asset(value: JsonValue, lens: Lens, where: str) -> int:
    asset = lens.parse_asset(value) if isinstance(value, str) else None
    if asset is None:
        raise ToolArgumentError(where, "a stock_id exactly as it was shown to you", "unknown_asset")
    return asset


def _day(value: JsonValue, lens: Lens, where: str) -> int:
    row = lens.parse_day(value) if isinstance(value, str) else None
    if row is None:
        raise ToolArgumentError(where, "a trading day exactly as it was shown to you", "unknown_day")
    return row


def _choice(names: tuple[str, ...]) -> Converter:
    def convert(value: JsonValue, _lens: Lens, where: str) -> str:
        if value not in names or not isinstance(value, str):
            near = near_matches(value[:100], names) if isinstance(value, str) else ""
            raise ToolArgumentError(where, f"one of {', '.join(names)}{near}")
        return value

    return convert


def _list_of(item: Converter) -> Converter:
    def convert(value: JsonValue, lens: Lens, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise ToolArgumentError(where, "a list")
        return [item(member, lens, f"{where}[{index}]") for index, member in enumerate(value)]

    return convert


def _dict_of(key: Converter, item: Converter) -> Converter:
    def convert(value: JsonValue, lens: Lens, where: str) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise ToolArgumentError(where, "an object")
        result: dict[Any, Any] = {}
        for number, (name, member) in enumerate(value.items(), 1):
            column = key(name, lens, f"{where} (key {number})")
            if column in result:  # one asset in two spellings
                raise ToolArgumentError(f"{where} (key {number})", "each key once")
            result[column] = item(member, lens, f"{where} (value {number})")
        return result

    return convert


def _bounded(convert: Converter, bounds: Bounds) -> Converter:
    low, high = bounds.minimum, bounds.maximum
    words = f"of at least {low}" if high is None else f"of at most {high}" if low is None else f"from {low} to {high}"

    def checked(value: JsonValue, lens: Lens, where: str) -> Any:
        number = convert(value, lens, where)
        if number is not None and ((low is not None and number < low) or (high is not None and number > high)):
            raise ToolArgumentError(where, f"a value {words}")
        return number

    return checked


def _measured(convert: Converter, length: Length) -> Converter:
    words = f"{length.minimum} to {length.maximum}" if length.maximum is not None else f"{length.minimum} or more"

    def checked(value: JsonValue, lens: Lens, where: str) -> Any:
        sized = convert(value, lens, where)
        if sized is not None and (len(sized) < length.minimum or (length.maximum is not None and len(sized) > length.maximum)):
            raise ToolArgumentError(where, f"{words} {'characters' if isinstance(sized, str) else 'items'}")
        return sized

    return checked
