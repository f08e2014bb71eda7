"""Types of the members of plugin objects: checks that a Python object fits an annotation, and
descriptions of annotations.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ktdeval.values.options.rules import Rule, mismatch
from ktdeval.values.requests.secret_free_addresses import is_record

_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    float: "a number",
    int: "an integer",
    list: "a list",
    str: "a string",
    tuple: "a tuple",
    type(None): "None",
    Callable: "a method",
    Mapping: "a mapping",
    Sequence: "a tuple",
    dict: "a mapping",
}
_PYTHON: Mapping[Any, Any] = {float: int | float, Sequence: tuple, dict: Mapping}
"""Type in an annotation -> Python types of objects that fit it, if these differ from the type."""


@dataclass(frozen=True, slots=True)
class Method:
    """Type of a member that must be callable with the given positional arguments."""

    arguments: tuple[str, ...]


def fits(hint: Any, value: object) -> bool:
    """Return whether an object fits an annotation. List items are not checked."""
    if isinstance(hint, Method):
        return callable(value) and not mismatch(value, hint.arguments)

    origin = get_origin(hint)
    args = get_args(hint)
    if origin is Annotated:
        rules = [mark for mark in args[1:] if isinstance(mark, Rule)]
        return fits(args[0], value) and all(rule.holds(value) for rule in rules)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in args)
    if origin in (Union, types.UnionType):
        return any(fits(arg, value) for arg in args)
    if origin is Callable:
        return callable(value)

    python = origin or hint
    if python is Any or not isinstance(python, type):
        return True
    if isinstance(value, bool) and python in (int, float):
        return False
    if not isinstance(value, _PYTHON.get(python, python)):
        return False

    return not isinstance(value, Mapping) or not args or _fit_all(args[1], value)


def _fit_all(hint: Any, members: Mapping[Any, Any]) -> bool:
    return all(fits(hint, member) for member in members.values())


def record_in_mapping(hint: Any) -> Any:
    """Return the class of the records that a mapping contains; None for any other annotation."""
    if get_origin(hint) not in (dict, Mapping):
        return None

    item = get_args(hint)[1]
    return item if is_record(item) else None


def describe_type(hint: Any) -> str:
    """Return a description of the values that fit an annotation."""
    if isinstance(hint, Method):
        return f"a method of {', '.join(hint.arguments)}" if hint.arguments else "a method"

    origin = get_origin(hint)
    args = get_args(hint)
    if origin is Annotated:
        rules = [mark.words for mark in args[1:] if isinstance(mark, Rule)]
        return rules[-1] if rules else describe_type(args[0])
    if origin is Literal:
        return f"one of {', '.join(map(str, args))}"
    if origin in (Union, types.UnionType):
        return " or ".join(map(describe_type, args))

    record = record_in_mapping(hint)
    if record is not None:
        return f"a mapping of {record.__name__}"
    if (origin or hint) in _WORDS:
        return _WORDS[origin or hint]
    if hint is Any or not isinstance(hint, type):
        return "a value"

    article = "an" if hint.__name__[0] in "AEIOU" else "a"
    return f"{article} {hint.__name__}"
