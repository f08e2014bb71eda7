"""Options for configs and parameters: frozen dataclasses whose fields include their help and
bounds.

Each field is defined in one place, by `option`. `build` turns an untrusted mapping (YAML, JSON)
into the dataclass, or reports which field is wrong. `build_params` does the same for parameters
typed by a user, converting `key=value` strings to the types of the fields.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from ktdeval.errors import ConfigError
from ktdeval.values.misfit import Misfit, UnknownField, near_matches as near_matches
from ktdeval.values.options.user_input import (
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
from ktdeval.values.requests.secret_free_addresses import faults_in

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
    """Return a dataclass field with its documentation and its inclusive bounds. With `is_silent`,
    mappings omit the field if it has its default value, so that hashes of configs without the field
    do not change.

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
    """Build the dataclass `cls` (made of scalars, Literals, Optionals, tuples, dicts, dataclasses)
    from a mapping of field names to values. Raises ConfigError if a field is unknown, missing,
    ill-typed or out of range. The message starts with `where` and says what was expected.
    """
    return cast("T", convert(cls, mapping, where))


def convert(hint: Any, value: Any, where: str) -> Any:
    """Convert `value` to the type given by a hint (int to float, list to tuple, mapping to
    dataclass). Raises ConfigError if the value does not fit.
    """
    import msgspec  # noqa: PLC0415 - it takes time to import, and `ktdeval --help` reads no options

    from ktdeval.values.documents.typed_json import convert_value  # noqa: PLC0415
    from ktdeval.values.options.option_forms import checked_hint, find_misfit  # noqa: PLC0415

    checked = checked_hint(hint)
    try:
        form = convert_value(value, checked)
    except msgspec.ValidationError as problem:
        raise ConfigError(_line_of(find_misfit(checked, value, where))) from problem

    # checked before the dataclass is built, since its own checks may quote a value
    for path, expected in faults_in(form):
        raise ConfigError(str(Misfit(f"{where}: {path.lstrip('.')}", expected)))

    try:
        return convert_value(value, hint)
    except msgspec.ValidationError as problem:
        # a ValueError raised by the dataclass's own checks
        raise (problem.__cause__ or problem) from None


def _line_of(misfit: Misfit) -> str:
    """Return the error message on one line, with the known fields if no similar name was found."""
    if isinstance(misfit, UnknownField) and not misfit.near:
        return f"{misfit}; expected {misfit.expected}"

    return str(misfit)


def to_mapping(config: Any) -> dict[str, Any]:
    """Return the plain JSON form of a config dataclass: tuples as lists, nested dataclasses as
    mappings.
    """
    mapping: dict[str, Any] = _unwrap_value(config)
    return mapping


def _unwrap_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _unwrapped_fields(value)
    if isinstance(value, Mapping):
        return {key: _unwrap_value(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_unwrap_value(item) for item in value]

    return value


def _unwrapped_fields(config: Any) -> dict[str, Any]:
    mapping = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if not field.metadata.get("is_silent") or value != field.default:
            mapping[field.name] = _unwrap_value(value)

    return mapping


@dataclasses.dataclass(frozen=True)
class LocalText:
    """Marks a string that is valid only on this machine, such as a user's path. It is used but not
    recorded.
    """


LocalPath = Annotated[str, LocalText()]
"""Type of a field with a path on this machine, which is used and not recorded."""


def split_local(cls: type | None, args: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the parameters of a class into those that are recorded and those that apply only to
    this machine. If `cls` is None, the class has no parameters.
    """
    recorded = dict(args)
    local = dict[str, Any]()
    if cls is None:
        return recorded, local

    for name, hint in get_type_hints(cls, include_extras=True).items():
        if name in recorded and _is_local(hint):
            local[name] = recorded.pop(name)

    return recorded, local


def _is_local(hint: Any) -> bool:
    return isinstance(hint, LocalText) or any(map(_is_local, get_args(hint)))


def build_params(cls: type, args: Mapping[str, Any], where: str) -> Any:
    """Build a dataclass of parameters from user input. Works like `build`, except that a string is
    converted to the field's type if it is clearly a value of that type.
    """
    hints = get_type_hints(cls)
    fitted = {
        name: _fit(hints[name], value) if name in hints else value for name, value in args.items()
    }
    return build(cls, fitted, where)


def _fit(hint: Any, value: Any) -> Any:
    """Convert a scalar to its field's type. A scalar that does not clearly fit is returned
    unchanged, so that `build` rejects it and names the field.
    """
    is_union = get_origin(hint) in (Union, types.UnionType)
    members = get_args(hint) if is_union else (hint,)
    if value is None:
        return _fit_none(members)
    if any(_is_exact(member, value) for member in members):
        return value

    for member in members:
        if member is str and isinstance(value, (bool, int, float)):
            return str(value).lower() if isinstance(value, bool) else str(value)
        if get_origin(member) in (list, tuple) and not isinstance(value, (list, tuple)):
            return _fit_items(get_args(member)[0], value)
        if member in (int, float, bool) and isinstance(value, str):
            return parse_scalar(value)

    return value


def _fit_none(members: Sequence[Any]) -> str | None:
    """Convert null back to the word `none`, from which it was parsed, for a field that accepts the
    word but not null.
    """
    if type(None) in members:
        return None

    return "none" if any("none" in get_args(member) for member in members) else None


def _fit_items(hint: Any, value: Any) -> list[Any]:
    """Split a string at its commas, and convert each piece to the item type."""
    if not isinstance(value, str):
        return [_fit(hint, value)]

    return [_fit(hint, parse_scalar(piece.strip())) for piece in value.split(",")]


def _is_exact(hint: Any, value: Any) -> bool:
    """Return whether a scalar already has its field's type, or is one of the field's choices."""
    if get_origin(hint) is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(hint))

    return type(value) is hint
