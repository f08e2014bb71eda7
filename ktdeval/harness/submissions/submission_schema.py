"""Schema of a submission: `jsonschema` says what is wrong, a plain check finds at once that nothing
is.

Nearly all submissions are valid, and a large one takes `jsonschema` longer than all else in its
step. The plain check knows the keywords of our own schemas. It is sure or not; whatever it is not
sure of, `jsonschema` decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from ktdeval.harness.submissions.feedback import Problem, schema_problems
from ktdeval.values.documents.strict_json import JsonValue

Schema = Mapping[str, Any]

Check = Callable[[Any], bool]
"""Whether a value is valid for sure."""

_ANNOTATIONS = frozenset({"$schema", "$comment", "title", "description", "default", "examples"})


class SubmissionSchema:
    """A schema that submissions are held to. Create one per episode, since it is compiled."""

    def __init__(self, schema: Schema) -> None:
        self._validator = Draft202012Validator(dict(schema))
        self._is_surely_valid = sure_check(schema)

    def is_valid(self, value: JsonValue) -> bool:
        """Return whether a value conforms to the schema."""
        return self._is_surely_valid(value) or self._validator.is_valid(value)

    def problems(self, value: JsonValue) -> list[Problem]:
        """Return the path and rule of each of the first errors; empty if the value is valid."""
        if self._is_surely_valid(value):
            return []
        return schema_problems(value, self._validator)


def sure_check(schema: Schema | bool) -> Check:
    """Return a check that is True only for values that conform to a schema of draft 2020-12.

    It may be False for valid values: those of a schema with other keywords, `1.0` for an integer, and
    numbers in an `enum`. Values are as JSON is read: of no other types than its own.
    """
    if isinstance(schema, bool):
        return lambda _: schema

    checks = []
    for keyword, word in schema.items():
        if keyword in _ANNOTATIONS:
            continue
        if keyword not in _CHECKS:
            return _not_sure

        checks.append(_CHECKS[keyword](word, schema))

    return _all_of(checks)


def _not_sure(_: Any) -> bool:
    return False


def _all_of(checks: Sequence[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def are_all_met(value: Any) -> bool:
        for check in checks:  # noqa: SIM110 - a generator takes twice as long
            if not check(value):
                return False

        return True

    return are_all_met


# ---- a check by keyword


def _type(names: Any, _schema: Schema) -> Check:
    known: Mapping[str, tuple[type, ...]] = {
        "integer": (int,),
        "number": (int, float),
        "string": (str,),
        "boolean": (bool,),
        "array": (list,),
        "object": (dict,),
        "null": (type(None),),
    }
    given = [names] if isinstance(names, str) else names
    if any(name not in known for name in given):
        return _not_sure

    types = frozenset(each for name in given for each in known[name])
    # True is an int in Python alone: the exact type decides.
    return lambda value: type(value) in types


def _enum(words: Any, _schema: Schema) -> Check:
    # Numbers are left out, since 1, 1.0 and True are equal in Python.
    texts = frozenset(word for word in words if isinstance(word, str))
    return lambda value: type(value) is str and value in texts


def _number(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Schema], Check]:
    def check_of(bound: Any, _schema: Schema) -> Check:
        return lambda value: type(value) not in (int, float) or compare(value, bound)

    return check_of


def _size(
    kind: type[str | list[Any] | dict[str, Any]], compare: Callable[[int, int], bool]
) -> Callable[[Any, Schema], Check]:
    def check_of(bound: Any, _schema: Schema) -> Check:
        def fits(value: Any) -> bool:
            return type(value) is not kind or compare(len(value), bound)

        return fits

    return check_of


def _pattern(pattern: Any, _schema: Schema) -> Check:
    find = re.compile(pattern).search  # as in jsonschema
    return lambda value: type(value) is not str or find(value) is not None


def _items(schema: Any, _whole: Schema) -> Check:
    check = sure_check(schema)
    return lambda value: type(value) is not list or all(map(check, value))


def _properties(properties: Any, _schema: Schema) -> Check:
    checks = {name: sure_check(schema) for name, schema in properties.items()}

    def are_valid(value: Any) -> bool:
        if type(value) is not dict:
            return True

        for name, check in checks.items():  # noqa: SIM110 - a generator takes twice as long
            if name in value and not check(value[name]):
                return False

        return True

    return are_valid


def _additional(schema: Any, whole: Schema) -> Check:
    named = frozenset(whole.get("properties", ()))
    if schema is False:
        return lambda value: type(value) is not dict or value.keys() <= named

    check = sure_check(schema)

    def are_valid(value: Any) -> bool:
        if type(value) is not dict:
            return True
        return all(check(part) for name, part in value.items() if name not in named)

    return are_valid


def _required(names: Any, _schema: Schema) -> Check:
    wanted = frozenset(names)
    return lambda value: type(value) is not dict or value.keys() >= wanted


def _any_of(schemas: Any, _schema: Schema) -> Check:
    checks = [sure_check(schema) for schema in schemas]
    return lambda value: any(check(value) for check in checks)


_CHECKS: Mapping[str, Callable[[Any, Schema], Check]] = {
    "type": _type,
    "enum": _enum,
    "minimum": _number(lambda value, bound: value >= bound),
    "maximum": _number(lambda value, bound: value <= bound),
    "exclusiveMinimum": _number(lambda value, bound: value > bound),
    "exclusiveMaximum": _number(lambda value, bound: value < bound),
    "minLength": _size(str, lambda size, bound: size >= bound),
    "maxLength": _size(str, lambda size, bound: size <= bound),
    "pattern": _pattern,
    "minProperties": _size(dict, lambda size, bound: size >= bound),
    "maxProperties": _size(dict, lambda size, bound: size <= bound),
    "minItems": _size(list, lambda size, bound: size >= bound),
    "maxItems": _size(list, lambda size, bound: size <= bound),
    "items": _items,
    "properties": _properties,
    "additionalProperties": _additional,
    "required": _required,
    "anyOf": _any_of,
}
