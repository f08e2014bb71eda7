"""Forms of option classes: structs that msgspec uses to check a mapping before it becomes a
dataclass.

msgspec can read dataclasses, but ignores unknown fields and accepts numbers of any size. A form has
the same fields as a dataclass, rejects other fields, and contains the bounds of its options. If
msgspec rejects a value, the fault is located again part by part, so that the error gives the field,
its bounds and the value found.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from ktdeval.values.documents.typed_json import convert_value
from ktdeval.values.misfit import (
    MAX_INTEGER,
    MIN_INTEGER,
    Misfit,
    MissingField,
    UnknownField,
    near_matches,
    quote_value,
)

_MAX_FLOAT = sys.float_info.max
#: Marks an option's bounds. Since `typing` caches one annotation for the bounds 1 and 1.0, an
#: option's bounds would otherwise appear in the schema of a card class with equal bounds, or vice
#: versa.
_OF_OPTIONS = "of an option"
_LIMITS: Mapping[Any, tuple[float, float]] = {
    int: (MIN_INTEGER, MAX_INTEGER),
    float: (-_MAX_FLOAT, _MAX_FLOAT),
}
_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "an integer",
    list: "a list",
    str: "a string",
    tuple: "a list",
    type(None): "null",
    Mapping: "an object",
}


@cache
def form_of(cls: Any) -> type[msgspec.Struct]:
    """Return the form for a dataclass."""
    hints = get_type_hints(cls, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, None]] = []
    for field in dataclasses.fields(cls):
        minimum = field.metadata.get("minimum")
        maximum = field.metadata.get("maximum")
        hint = checked_hint(hints[field.name], minimum, maximum)
        has_default = field.default is not dataclasses.MISSING
        if has_default or field.default_factory is not dataclasses.MISSING:
            fields.append((field.name, hint, None))
        else:
            fields.append((field.name, hint))

    return msgspec.defstruct(cls.__name__, fields, forbid_unknown_fields=True, kw_only=True)


def checked_hint(hint: Any, minimum: float | None = None, maximum: float | None = None) -> Any:
    """Return an annotation in which dataclasses are replaced by forms, and numbers must be finite,
    64-bit and within bounds.
    """
    if hint in _LIMITS:
        lowest, highest = _LIMITS[hint]
        if minimum is not None:
            lowest = minimum
        if maximum is not None:
            highest = maximum
        return Annotated[hint, msgspec.Meta(ge=lowest, le=highest), _OF_OPTIONS]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return form_of(hint)

    origin = get_origin(hint)
    if origin in (None, Literal, Callable):
        return hint

    first, *others = get_args(hint)
    if origin is Annotated:
        return Annotated[(checked_hint(first, minimum, maximum), *others)]
    if origin in (Union, types.UnionType):
        members = [checked_hint(arg, minimum, maximum) for arg in get_args(hint)]
        return functools.reduce(operator.or_, members)

    return origin[tuple(checked_hint(arg) for arg in get_args(hint))]


def find_misfit(hint: Any, value: Any, where: str) -> Misfit:
    """Return the problem with a value that msgspec rejects for a checked annotation: the first part
    that does not fit, and its location.
    """
    bounds: Any = None
    if get_origin(hint) is Annotated:
        hint, *marks = get_args(hint)
        bounds = next((mark for mark in marks if isinstance(mark, msgspec.Meta)), None)
    if get_origin(hint) in (Union, types.UnionType):
        return find_misfit(_member_for(hint, value), value, where)

    if isinstance(hint, type(msgspec.Struct)):
        problem = _misfit_of_names(hint, value, where)
        if problem is not None:
            return problem

    for step, inner, part in _parts(hint, value):
        try:
            convert_value(part, inner)
        except msgspec.ValidationError:
            return find_misfit(inner, part, f"{where}{step}")

    if get_origin(hint) is Literal:
        choices = [str(choice) for choice in get_args(hint)]
        listed = ", ".join(choice or "''" for choice in choices)
        near = near_matches(value, choices) if isinstance(value, str) else ""
        return Misfit(where, f"one of {listed}", quote_value(value), near)

    return Misfit(where, _describe_valid(hint, bounds, value), quote_value(value))


def _member_for(union: Any, value: Any) -> Any:
    """Return the union member for which a value was intended: the first member whose parts the
    value has, otherwise the first member.
    """
    members = get_args(union)
    for member in members:
        if any(True for _ in _parts(member, value)):
            return member

    return members[0]


def _misfit_of_names(form: Any, value: Any, where: str) -> Misfit | None:
    names = form.__struct_fields__
    if not isinstance(value, Mapping):
        return Misfit(where, f"a mapping of fields ({', '.join(names)})", quote_value(value))

    for name in value:
        if name not in names:
            return UnknownField(where, str(name), names)

    for field in msgspec.structs.fields(form):
        if field.required and field.name not in value:
            return MissingField(where, field.name)

    return None


def _parts(hint: Any, value: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields, keys and items of a value, each with its path step and its checked
    annotation.
    """
    origin = get_origin(hint)
    if isinstance(value, Mapping) and isinstance(hint, type(msgspec.Struct)):
        for field in msgspec.structs.fields(hint):
            if field.name in value:
                yield f": {field.name}", field.type, value[field.name]
    elif isinstance(value, Mapping) and origin in (dict, Mapping):
        key_hint, item_hint = get_args(hint)
        for name, item in value.items():
            yield "", key_hint, name
            yield f".{name}", item_hint, item
    elif isinstance(value, list | tuple) and origin in (list, tuple):
        for index, item in enumerate(value):
            yield f"[{index}]", get_args(hint)[0], item


def _describe_valid(hint: Any, bounds: Any, value: Any) -> str:
    """Return a description of valid values, or the bounds if a number is out of bounds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if bounds is not None and is_number and (hint is float or isinstance(value, int)):
        return _bounds_words(hint, bounds, value)

    words = _WORDS.get(get_origin(hint) or hint)
    return f"a value of type {hint.__name__}" if words is None else words


def _bounds_words(hint: Any, bounds: Any, value: float) -> str:
    if value != value:
        return "a finite number"

    least, most = _LIMITS[hint]
    is_below = bounds.ge != least and value < bounds.ge
    is_above = bounds.le != most and value > bounds.le
    if not is_below and not is_above:
        return "an integer of 64 bits" if hint is int else "a number of ordinary size"

    lowest = _bound_text(bounds.ge)
    highest = _bound_text(bounds.le)
    if bounds.le == most:
        return f"a value of at least {lowest}"
    if bounds.ge == least:
        return f"a value of at most {highest}"

    return f"a value from {lowest} to {highest}"


def _bound_text(bound: float) -> str:
    """Return a bound as people write it: `1` instead of 1.0."""
    return str(bound).removesuffix(".0")
