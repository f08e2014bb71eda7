"""Options: frozen dataclasses whose fields have their help and bounds, for config and parameters.

A field is defined once, by `option`. `build` turns an untrusted mapping (YAML, JSON) into the
dataclass, or says which field is wrong; `build_params` does so with parameters as a user types
them, `key=value` text that is brought to the types of the fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast

from ktdeval.errors import ConfigError
from ktdeval.values.class_fields import Record, field_kind, fields_of
from ktdeval.values.kinds import (
    CONFIG,
    Alternatives,
    Boolean,
    Choice,
    Items,
    Kind,
    LocalText,
    Nothing,
    Number,
    Text,
)
from ktdeval.values.misfit import Misfit, UnknownField, near_matches as near_matches
from ktdeval.values.rules import RANGE as RANGE, is_range as is_range
from ktdeval.values.user_input import (
    check_plain as check_plain,
    lasting_data as lasting_data,
    parse_assignments as parse_assignments,
    parse_scalar as parse_scalar,
    shown_path as shown_path,
    split_list as split_list,
    stored_market as stored_market,
    user_path as user_path,
    working_folder as working_folder,
)

T = TypeVar("T")


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    minimum: float | None = None,
    maximum: float | None = None,
    factory: Any = dataclasses.MISSING,
    is_silent: bool = False,
) -> Any:
    """Return a dataclass field with its documentation and its bounds (both ends included).
    `is_silent`: its default is left out of mappings, so that hashes of configs without it stay.

    Example:
        @dataclass(frozen=True)
        class Params:
            positions: int = option(10, help="most names held", minimum=1)
    """
    metadata = {"help": help, "minimum": minimum, "maximum": maximum, "is_silent": is_silent}
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata)

    return dataclasses.field(default=default, metadata=metadata)


def build(cls: type[T], mapping: Mapping[str, Any], where: str) -> T:
    """Build dataclass `cls` (of scalars, Literals, Optionals, tuples, dicts, dataclasses) from a
    mapping of field name to value. Raises ConfigError, which `where` starts: an unknown, missing,
    ill-typed or out-of-range field, with what was expected.
    """
    return cast("T", _read_config_value(Record(cls), mapping, where))


def convert(hint: Any, value: Any, where: str) -> Any:
    """Bring `value` to the type of a hint (int to float, list to tuple, mapping to dataclass);
    ConfigError if it does not fit.
    """
    return _read_config_value(field_kind(hint), value, where)


def _read_config_value(kind: Kind, value: Any, where: str) -> Any:
    try:
        return kind.read(value, where, CONFIG)
    except UnknownField as problem:
        advice = "" if problem.near else f"; expected {problem.expected}"
        raise ConfigError(f"{problem}{advice}") from problem
    except Misfit as problem:
        raise ConfigError(str(problem)) from problem


def to_mapping(config: Any) -> dict[str, Any]:
    """Return the plain JSON form of a config dataclass (tuples as lists, nested dataclasses as
    mappings).
    """
    mapping: dict[str, Any] = _unwrapped(config)
    return mapping


def _unwrapped(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _unwrapped_fields(value)
    if isinstance(value, Mapping):
        return {key: _unwrapped(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_unwrapped(item) for item in value]

    return value


def _unwrapped_fields(config: Any) -> dict[str, Any]:
    mapping = {}
    cls: type = type(config)
    for name, field in fields_of(cls).items():
        value = getattr(config, field.name)
        if not field.is_silent or value != field.default:
            mapping[name] = _unwrapped(value)

    return mapping


LocalPath = Annotated[str, LocalText()]
"""Type of a field with a path of this machine alone: it is used, and not recorded."""


def split_local(cls: type | None, args: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a class that are recorded, and those of this machine alone. None: a
    class without parameters.
    """
    recorded = dict(args)
    local = dict[str, Any]()
    if cls is None:
        return recorded, local

    for name, field in fields_of(cls).items():
        kind = field.kind.item if isinstance(field.kind, Items) else field.kind
        if isinstance(kind, LocalText) and name in recorded:
            local[name] = recorded.pop(name)

    return recorded, local


def build_params(cls: type, args: Mapping[str, Any], where: str) -> Any:
    """Build a params dataclass from user input: as `build`, with text brought to the field's type
    where it plainly is one.
    """
    fields = fields_of(cls)
    fitted = {
        name: _fitted(fields[name].kind, value) if name in fields else value
        for name, value in args.items()
    }
    return build(cls, fitted, where)


def _fitted(kind: Kind, value: Any) -> Any:
    """Convert a scalar to the kind of its field; one that does not plainly fit is unchanged, for
    `build` to refuse by name.
    """
    members = kind.kinds if isinstance(kind, Alternatives) else (kind,)
    if value is None:
        return _fitted_none(members)
    if any(_is_exact(member, value) for member in members):
        return value

    for member in members:
        if isinstance(member, Text) and isinstance(value, (bool, int, float)):
            return str(value).lower() if isinstance(value, bool) else str(value)
        if isinstance(member, Items) and not isinstance(value, (list, tuple)):
            return _fitted_items(member, value)
        if isinstance(member, (Number, Boolean)) and isinstance(value, str):
            return parse_scalar(value)

    return value


def _fitted_none(members: Sequence[Kind]) -> str | None:
    """Convert the word `none`, which reads as null, where a field takes the word and no null."""
    takes_null = any(isinstance(member, Nothing) for member in members)
    for member in members:
        if isinstance(member, Choice) and "none" in member.choices and not takes_null:
            return "none"

    return None


def _fitted_items(kind: Items, value: Any) -> list[Any]:
    """Split a text at its commas, and convert each piece to the kind of an item."""
    if not isinstance(value, str):
        return [_fitted(kind.item, value)]

    return [_fitted(kind.item, parse_scalar(piece.strip())) for piece in value.split(",")]


def _is_exact(kind: Kind, value: Any) -> bool:
    """Whether a scalar already has the type of its field, or is one of its choices."""
    if isinstance(kind, Choice):
        return kind.fits(value)
    if isinstance(kind, (Text, Boolean, Number)):
        return isinstance(value, kind.python) and isinstance(value, bool) is (kind.python is bool)

    return False
