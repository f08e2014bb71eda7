"""Every field of a typed document, found from its type, and the values that say nothing: null, none
at all, empty, zero.

A field whose type takes at least one of them is *optional* here, whether or not it has a default.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import inspect

from ktdeval.errors import KtdevalError
from ktdeval.values import from_plain
from support.json_places import Place, put

REMOVED = "(removed)"
SILENT: Mapping[str, tuple[Any, ...]] = {
    "null": (None,),
    "absent": (REMOVED,),
    "empty": ("", [], {}),
    "zero": (0, False),
}
"""Values that say nothing, by what they are called."""

Refusal = Callable[[Any], str | None]
"""Why a changed document is refused; None where nobody minds."""


@dataclass
class Swept:
    """What became of a document's fields."""

    tried: int = 0  #: changed documents that the type takes
    optional: set[str] = field(default_factory=set)  #: fields that take a value that says nothing
    unreached: set[str] = field(default_factory=set)  #: fields of the type that no sample has
    passed: dict[str, list[str]] = field(
        default_factory=dict
    )  #: fields that nobody held against it

    @property
    def refused(self) -> set[str]:
        """Optional fields of which no change passes."""
        return self.optional - self.passed.keys()


def _members(type_: Any) -> Iterator[Any]:
    """Yield the types of a union, or the type itself, without constraints."""
    if isinstance(type_, inspect.Metadata):
        yield from _members(type_.type)
    elif isinstance(type_, inspect.UnionType):
        for each in type_.types:
            yield from _members(each)
    else:
        yield type_


def _fields(type_: Any) -> list[tuple[str, Any]] | None:
    """Fields of a record by their names in files; None of no record."""
    if isinstance(type_, inspect.StructType | inspect.DataclassType | inspect.TypedDictType):
        return [(each.encode_name, each.type) for each in type_.fields]

    return None


def type_fields(type_: Any, path: str = "", above: tuple[Any, ...] = ()) -> Iterator[str]:
    """Yield each field of a type; items of lists and tables are `#`."""
    for member in _members(type_):
        fields = _fields(member)
        if fields is not None:
            if member.cls in above:
                continue

            for name, inner in fields:
                place = f"{path}.{name}".lstrip(".")
                yield place
                yield from type_fields(inner, place, (*above, member.cls))
        elif isinstance(member, inspect.DictType):
            yield from type_fields(member.value_type, f"{path}.#", above)
        elif isinstance(member, inspect.ListType | inspect.VarTupleType):
            yield from type_fields(member.item_type, f"{path}.#", above)


def reached(
    type_: Any, value: Any, path: str = "", place: Place = ()
) -> Iterator[tuple[str, Place]]:
    """Yield each field of a type with a place of it in a document, absent ones included."""
    for member in _members(type_):
        fields = _fields(member)
        if fields is not None and isinstance(value, dict):
            names = {name for name, _ in fields}
            if not value.keys() <= names:
                continue

            for name, inner in fields:
                yield f"{path}.{name}".lstrip("."), (*place, name)
                if name in value:
                    yield from reached(
                        inner, value[name], f"{path}.{name}".lstrip("."), (*place, name)
                    )
        elif isinstance(member, inspect.DictType) and isinstance(value, dict):
            for name, item in value.items():
                yield from reached(member.value_type, item, f"{path}.#", (*place, name))
        elif isinstance(member, inspect.ListType | inspect.VarTupleType) and isinstance(
            value, list
        ):
            for number, item in enumerate(value):
                yield from reached(member.item_type, item, f"{path}.#", (*place, number))


def silent_values(document: Any, place: Place) -> Iterator[tuple[str, Any]]:
    """Yield the values that say nothing, other than the one that stands there, each with its name."""
    inside = document
    for part in place[:-1]:
        inside = inside[part]

    now = inside.get(place[-1], REMOVED) if isinstance(inside, dict) else inside[place[-1]]
    for name, values in SILENT.items():
        for new in values:
            if not (now == new and type(now) is type(new)):
                yield name, new


def sweep(type_: type, samples: Sequence[tuple[Any, Refusal]], leave: Sequence[str] = ()) -> Swept:
    """Try every field of a type in the first sample that has it. `samples`: documents, each with
    what refuses a changed one; `leave`: fields that are swept elsewhere, with all below them.
    """
    description = inspect.type_info(type_)
    found = Swept()

    def is_left(name: str) -> bool:
        return any(name == each or name.startswith(f"{each}.") for each in leave)

    found.unreached = {name for name in type_fields(description) if not is_left(name)}
    for document, refusal in samples:
        for name, place in list(reached(description, document)):
            if name not in found.unreached:
                continue

            found.unreached.discard(name)
            for silent, new in silent_values(document, place):
                _try(found, type_, document, refusal, (name, place, silent, new))

    return found


def _try(
    found: Swept, type_: type, document: Any, refusal: Refusal, what: tuple[str, Place, str, Any]
) -> None:
    name, place, silent, new = what
    changed = copy.deepcopy(document)
    if new == REMOVED:
        inside = changed
        for part in place[:-1]:
            inside = inside[part]

        inside.pop(place[-1], None)
    else:
        put(changed, place, new)

    try:
        same = from_plain(changed, type_, "document") == from_plain(document, type_, "document")
    except (KtdevalError, msgspec.ValidationError, ValueError):
        return

    if same:  # absent is how a default is written
        return

    found.tried += 1
    found.optional.add(name)
    if refusal(changed) is None:
        found.passed.setdefault(name, [])
        if silent not in found.passed[name]:
            found.passed[name].append(silent)
