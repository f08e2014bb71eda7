"""Contracts for objects that plugins make. A contract consists of the members that a `Task`, a
`Model` and so on must have, as declared by Protocols and dataclasses, and of the traits that such
objects may declare.

Contracts are imported when an object of their kind is made, so listings do not import any.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any, get_type_hints

from ktdeval.registry.member_types import Method, describe_type, fits, record_in_mapping
from ktdeval.values.misfit import near_names

CONTRACTS = {
    "tasks": "ktdeval.api.Task",
    "scoring tasks": "ktdeval.api.ScoringTask",
    "models": "ktdeval.api.Model",
    "models behind a network": "ktdeval.api.RemoteModel",
    "agents": "ktdeval.api.Agent",
    "tools": "ktdeval.api.Tool",
    "metrics": "ktdeval.api.Metric",
    "data": "ktdeval.api.MarketSnapshot",
    "venues": "ktdeval.market.Venue",
    "cards": "ktdeval.cards.CardKind",
    "tables": "ktdeval.registry.paper_tables.PaperTable",
    "runners": "ktdeval.task_api.Runner",
    "commands": "click.Command",
}
"""Kind of object that plugins make -> public name of the class that declares its members"""

TRAITS = {
    "tasks": "ktdeval.api.TaskTraits",
    "scoring tasks": "ktdeval.api.TaskTraits",
    "models": "ktdeval.api.ModelTraits",
    "models behind a network": "ktdeval.api.ModelTraits",
    "agents": "ktdeval.api.AgentTraits",
}
"""Kind of object that plugins make -> public name of the class of its `traits`"""


@dataclass(frozen=True, slots=True)
class PluginContract:
    """Requirements for objects of one kind."""

    name: str  #: public name of the class that declares the members
    members: Mapping[str, Any]  #: annotations of attributes and methods, by name
    #: class of which the object must be an instance, if that class declares no members
    python: type | None


def _import_class(name: str) -> type:
    """Return the class with this public name."""
    module, _, class_name = name.rpartition(".")
    python: type = getattr(importlib.import_module(module), class_name)
    return python


@cache
def contract_of(kind: str) -> PluginContract:
    """Return the contract for a kind in `CONTRACTS`."""
    name = CONTRACTS[kind]
    python = _import_class(name)
    members = dict(_members_of(python))
    return PluginContract(name, members, None if members else python)


def _members_of(python: Any) -> Iterator[tuple[str, Any]]:
    """Yield the members that an object must have.

    For a dataclass, these are its fields without a default. For a Protocol, these are the
    attributes, followed by the methods, of the Protocol and its bases.
    """
    if dataclasses.is_dataclass(python) and isinstance(python, type):
        for field in dataclasses.fields(python):
            if (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            ):
                yield field.name, _hint_of_member(python, field.name, field.type)

        return

    protocols = [base for base in reversed(python.__mro__) if vars(base).get("_is_protocol")]
    for base in protocols:
        for name, annotation in inspect.get_annotations(base).items():
            yield name, _hint_of_member(base, name, annotation)

    for base in protocols:
        for name, member in vars(base).items():
            if isinstance(member, FunctionType) and not name.startswith("_"):
                _, *arguments = inspect.signature(member).parameters
                yield name, Method(tuple(arguments))


def _hint_of_member(python: type, name: str, annotation: Any) -> Any:
    holder = SimpleNamespace(__annotations__={name: annotation})
    names = vars(sys.modules[python.__module__])
    try:
        return get_type_hints(holder, globalns=names, include_extras=True)[name]
    except NameError:  # the type is only imported for type checkers
        return Any


@dataclass(frozen=True, slots=True)
class MemberFault:
    """Member that violates its contract."""

    path: str  #: path of the member, such as `scores['accuracy'].better`
    expected: str
    value: Any


def fault_of(hint: Any, value: Any, path: str) -> MemberFault | None:
    """Return how a member violates its annotation; None if it does not. If the member maps names to
    records, such as score definitions, the records' fields are checked too.
    """
    if not fits(hint, value):
        return MemberFault(path, describe_type(hint), value)

    record = record_in_mapping(hint)
    if record is None:
        return None

    hints = get_type_hints(record, include_extras=True)
    for name, item in value.items():
        for field_name, field_hint in hints.items():
            member = f"{path}[{name!r}].{field_name}"
            fault = fault_of(field_hint, getattr(item, field_name), member)
            if fault is not None:
                return fault

    return None


@cache
def _hints_of_traits(record: Any) -> Mapping[str, Any]:
    """Return the annotation of each field in a traits record."""
    return {
        field.name: _hint_of_member(record, field.name, field.type)
        for field in dataclasses.fields(record)
    }


def traits_problem(kind: str, instance: Any) -> str:
    """Return what is wrong with an object's traits; empty if they are valid.

    The traits may have the wrong class, a trait may have a value of the wrong type, or the object
    may set a trait as an attribute of its own, where it is ignored.
    """
    if kind not in TRAITS:
        return ""

    own = type(instance).__name__
    record = _import_class(TRAITS[kind])
    stated = getattr(instance, "traits", None)
    if stated is not None and not isinstance(stated, record):
        return f"traits of {own} must be a {TRAITS[kind]}, was {type(stated).__name__}"

    fields = _hints_of_traits(record)
    if stated is not None:
        for name, hint in fields.items():
            fault = fault_of(hint, getattr(stated, name), name)
            if fault is not None:
                return f"{name} of {own}'s traits must be {fault.expected}, was {fault.value!r:.60}"

    for name in dir(instance):
        if name in fields:
            return (
                f"{own} has {name!r}, which only its traits can say: traits ="
                f" {record.__name__}({name}=…)"
            )

    return ""


def near_trait_problem(kind: str, instance: Any) -> str:
    """Return a message about an ignored attribute whose name looks like a misspelt trait; empty if
    no attribute does.
    """
    if kind not in TRAITS:
        return ""

    own = type(instance).__name__
    record = _import_class(TRAITS[kind])
    fields = _hints_of_traits(record)
    known = contract_of(kind).members.keys() | fields.keys() | {"traits"}
    for name in dir(instance):
        if name.startswith("_") or name in known:
            continue

        near = near_names(name, ["traits", *fields], min_likeness=0.8)
        if near[:1] == ["traits"]:
            return f"{own} has {name!r}, which nothing reads: did you mean 'traits'?"
        if near:
            return (
                f"{own} has {name!r}, which nothing reads: did you mean traits ="
                f" {record.__name__}({near[0]}=…)?"
            )

    return ""
