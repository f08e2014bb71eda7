"""Config as dataclasses: one place where a field's type, default, help and validation live.

`build` turns an untrusted mapping (YAML, JSON, `key=value` arguments) into a frozen dataclass or says which field is wrong.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from ktdeval.errors import ConfigError

T = TypeVar("T")


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    minimum: float | None = None,
    maximum: float | None = None,
    factory: Any = dataclasses.MISSING,
) -> Any:
    """Return a dataclass field with its documentation and its bounds (both ends included)."""
    metadata = {"help": help, "minimum": minimum, "maximum": maximum}
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def near_matches(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'a' or 'b'?`, or an empty string when nothing is near."""
    matches = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(repr(match) for match in matches)}?" if matches else ""


def build(cls: type[T], mapping: Mapping[str, Any], where: str) -> T:
    """Build dataclass `cls` from `mapping`; nested dataclasses take nested mappings.

    Args:
        cls: a dataclass whose annotations are scalars, Literals, Optionals, tuples, dicts or dataclasses.
        mapping: field name -> value.
        where: prefix of error messages, such as `tasks.yaml: blinded_open_research`.

    Raises:
        ConfigError: an unknown, missing, ill-typed or out-of-range field, named with what was expected.
    """
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"{where}: expected a mapping of fields, was {_kind(mapping)}")
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    for name in mapping:
        if name not in fields:
            raise ConfigError(f"{where}: unknown field {name!r}{near_matches(str(name), fields)}")
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in mapping:
            value = convert(hints[name], mapping[name], f"{where}: {name}")
            _check_bounds(value, field.metadata, f"{where}: {name}")
            values[name] = value
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{where}: field {name!r} is missing")
    return cls(**values)


def convert(hint: Any, value: Any, where: str) -> Any:
    """Check `value` against a type hint and bring it to that type (int to float, list to tuple, mapping to dataclass).

    Raises:
        ConfigError: it does not fit; the message says what was expected.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(args, value, where)
    if origin is Literal:
        if value not in args:
            names = [str(arg) for arg in args]
            raise ConfigError(f"{where}: expected one of {', '.join(names)}, was {value!r}{near_matches(str(value), names)}")
        return value
    if dataclasses.is_dataclass(hint):
        return build(typing.cast("type[Any]", hint), value, where)
    if origin in (tuple, list, Sequence):
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise ConfigError(f"{where}: expected a list, was {_kind(value)}")
        return tuple(convert(args[0], item, f"{where}[{place}]") for place, item in enumerate(value))
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}: expected a mapping, was {_kind(value)}")
        return {convert(args[0], key, where): convert(args[1], item, f"{where}.{key}") for key, item in value.items()}
    return _convert_scalar(hint, value, where)


def _convert_union(args: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in args:
        return None
    members = [arg for arg in args if arg is not type(None)]
    problems = []
    for member in members:
        try:
            return convert(member, value, where)
        except ConfigError as error:
            problems.append(error)
    raise problems[0]


def _convert_scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, float) and value - value != 0:
        raise ConfigError(f"{where}: expected a finite number, was {value!r}")
    if isinstance(value, hint) and not (isinstance(value, bool) and hint is not bool):
        return value
    raise ConfigError(f"{where}: expected {hint.__name__}, was {_kind(value)} {value!r}")


def _check_bounds(value: Any, metadata: Mapping[str, Any], where: str) -> None:
    minimum, maximum = metadata.get("minimum"), metadata.get("maximum")
    if value is None or isinstance(value, (str, tuple, dict)):
        return
    if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
        bounds = f"{'-∞' if minimum is None else minimum} … {'∞' if maximum is None else maximum}"
        raise ConfigError(f"{where}: expected a value in {bounds}, was {value!r}")


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def to_mapping(config: Any) -> dict[str, Any]:
    """Return the plain JSON form of a config dataclass (tuples as lists, nested dataclasses as mappings)."""

    def plain(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        if isinstance(value, Mapping):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            return [plain(item) for item in value]
        return value

    result: dict[str, Any] = plain(config)
    return result
