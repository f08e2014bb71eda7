"""Config as dataclasses: a field's type, default, help and validation are defined once.

`build` turns an untrusted mapping (YAML, JSON) into a frozen dataclass or says which field is wrong; `build_params` does so with
parameters as a user types them, `key=value` text that is brought to the types of the fields.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import json
import math
import os
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from ktdeval.errors import ConfigError, UsageError
from ktdeval.jsonio import bounded_int, loads_untrusted, plain

T = TypeVar("T")

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_WORDS = {"true": True, "false": False, "null": None, "none": None}


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    minimum: float | None = None,
    maximum: float | None = None,
    factory: Any = dataclasses.MISSING,
    leave_out_null: bool = False,
) -> Any:
    """Return a dataclass field with its documentation and its bounds (both ends included). `leave_out_null`: None is not written by
    `to_mapping`, so that configs from before the field was there keep their hash.
    """
    metadata = {"help": help, "minimum": minimum, "maximum": maximum, "leave_out_null": leave_out_null}
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def written_as(name: str, field: Any) -> Any:
    """Return an option that has another name in mappings than in code, so that configs from before its renaming keep their hash."""
    return dataclasses.field(default=field.default, metadata={**field.metadata, "written_as": name})


def near_matches(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'a' or 'b'?`, or an empty string when nothing is near."""
    matches = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(repr(match) for match in matches)}?" if matches else ""


def build(cls: type[T], mapping: Mapping[str, Any], where: str) -> T:
    """Build dataclass `cls` (of scalars, Literals, Optionals, tuples, dicts, dataclasses) from a mapping of field name to value.
    Raises ConfigError, which `where` starts: an unknown, missing, ill-typed or out-of-range field, with what was expected.
    """
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"{where}: expected a mapping of fields, was {_kind(mapping)}")
    hints = _type_hints(cls)  # type: ignore[arg-type]
    fields = {_mapping_name(field): field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    for name in mapping:
        if name not in fields:
            raise ConfigError(f"{where}: unknown field {name!r}{near_matches(str(name), fields)}")
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in mapping:
            values[field.name] = convert(hints[field.name], mapping[name], f"{where}: {name}")
            _check_bounds(values[field.name], field.metadata, f"{where}: {name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{where}: field {name!r} is missing")
    return cls(**values)


@functools.cache  # annotations are text, which is compiled at each call otherwise: half the time of building a task's config
def _type_hints(cls: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


def _mapping_name(field: dataclasses.Field[Any]) -> str:
    return field.metadata.get("written_as") or field.name


def convert(hint: Any, value: Any, where: str) -> Any:
    """Bring `value` to the type of a hint (int to float, list to tuple, mapping to dataclass); ConfigError if it does not fit."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(args, value, where)
    if origin is Literal:
        if value not in args:
            names, near = ", ".join(map(str, args)), near_matches(str(value)[:80], map(str, args))
            raise ConfigError(f"{where}: expected one of {names}, was {value!r:.80}{near}")
        return value
    if dataclasses.is_dataclass(hint):
        return build(typing.cast("type[Any]", hint), value, where)
    if origin in (tuple, list, Sequence):
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise ConfigError(f"{where}: expected a list, was {_kind(value)}")
        return tuple(convert(args[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}: expected a mapping, was {_kind(value)}")
        return {convert(args[0], key, where): convert(args[1], item, f"{where}.{key}") for key, item in value.items()}
    return _convert_scalar(hint, value, where)


def _convert_union(args: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in args:
        return None
    problems = []
    for member in args:
        try:
            if member is not type(None):
                return convert(member, value, where)
        except ConfigError as error:
            problems.append(error)
    raise problems[0]


def _convert_scalar(hint: Any, value: Any, where: str) -> Any:
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:  # no card and no ledger holds it
        raise ConfigError(f"{where}: expected a number of 64 bits, was one of {value.bit_length()}")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, float) and value - value != 0:
        raise ConfigError(f"{where}: expected a finite number, was {value!r}")
    if _is_of(hint, value):
        return value
    raise ConfigError(f"{where}: expected {hint.__name__}, was {_kind(value)} {value!r:.80}")


def _is_of(hint: Any, value: Any) -> bool:
    return isinstance(value, hint) and not (isinstance(value, bool) and hint is not bool)


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

    def unwrapped(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {
                _mapping_name(field): unwrapped(getattr(value, field.name))
                for field in dataclasses.fields(value)
                if getattr(value, field.name) is not None or not field.metadata.get("leave_out_null")
            }
        if isinstance(value, Mapping):
            return {key: unwrapped(item) for key, item in value.items()}
        return [unwrapped(item) for item in value] if isinstance(value, (tuple, list)) else value

    result: dict[str, Any] = unwrapped(config)
    return result


# ---- input of users


def user_path(text: str | Path) -> Path:
    """Return the path of a user's text: `~` is a home folder, where there is such a user. Raises UsageError: it is no path."""
    if not isinstance(text, (str, Path)):
        raise UsageError(f"expected a path, was {_kind(text)} {text!r:.80}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise UsageError(f"expected a path, was {str(text)!a:.80}, which no file can be called") from error
    return Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib's own fails for a user that there is not


def stored_market(data: str | Path) -> Path | None:
    """Return the folder of the stored market that the user named; None if it is not one."""
    folder = user_path(data)
    return folder if (folder / "manifest.json").is_file() else None


def lasting_data(data: str) -> str:
    """Return what was named as the market, a stored one by its absolute path, so that it is found from any working folder."""
    folder = stored_market(data)
    return data if folder is None else str(folder.resolve())


def working_folder() -> Path | None:
    """Return the working folder; None where it has been deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


def shown_path(path: Path) -> Path:
    """Return a path as seen from the working folder, where it lies below that."""
    here = working_folder()
    return path.relative_to(here) if here is not None and path.is_relative_to(here) else path


def paths_of_runs(runs: Iterable[Any]) -> list[Path]:
    """Return paths of runs given one by one or as lists: texts, paths, or objects with a `folder`; UsageError for others."""
    nested = [paths_of_runs(run) if isinstance(run, (list, tuple)) else [user_path(getattr(run, "folder", run))] for run in runs]
    return [path for paths in nested for path in paths]


def build_params(cls: type, args: Mapping[str, Any], where: str) -> Any:
    """Build a params dataclass from user input: as `build`, with text brought to the field's type where it plainly is one."""
    hints = _type_hints(cls)
    names = {field.name for field in dataclasses.fields(cls)}
    return build(cls, {key: _fit(hints[key], value) if key in names else value for key, value in args.items()}, where)


def _fit(hint: Any, value: Any) -> Any:
    """Convert a scalar to the type of its field; one that does not plainly fit is unchanged, for `build` to refuse by name."""
    is_union = get_origin(hint) in (Union, types.UnionType)
    members = tuple(arg for arg in get_args(hint) if arg is not type(None)) if is_union else (hint,)
    if value is None or any(_accepts(member, value) for member in members):
        return value
    for member in members:
        if member is str and isinstance(value, (bool, int, float)):
            return str(value).lower() if isinstance(value, bool) else str(value)
        if get_origin(member) in (tuple, list, Sequence) and not isinstance(value, (list, tuple)):
            item = get_args(member)[0]
            pieces = value.split(",") if isinstance(value, str) else [value]
            return [_fit(item, parse_scalar(piece.strip()) if isinstance(piece, str) else piece) for piece in pieces]
        if member in (int, float, bool) and isinstance(value, str):
            return parse_scalar(value)
    return value


def _accepts(hint: Any, value: Any) -> bool:
    return value in get_args(hint) if get_origin(hint) is Literal else isinstance(hint, type) and _is_of(hint, value)


def parse_scalar(text: str) -> Any:
    """Return a number, `true`, `false` or `null` where the text is exactly that, else the text: `007`, and what no 64 bits hold."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        with contextlib.suppress(ValueError):
            return bounded_int(text)
        return text
    return float(text) if _NUMBER.fullmatch(text) else text


RANGE = "a pair such as (0.0, 1.0), the lower end first, None where there is no bound"


def is_range(value: object) -> bool:
    """Whether a value is a range of numbers: see `RANGE`."""
    known = [end for end in value if end is not None] if isinstance(value, tuple) and len(value) == 2 else [math.nan]
    return all(type(end) in (int, float) and math.isfinite(end) for end in known) and known == sorted(known)


def check_plain(value: Any, where: str) -> None:
    """Raise ConfigError, which `where` starts, for a value that no record can hold: NaN, infinity, a lone surrogate, an object."""
    try:  # by `json`: msgspec, which checks nothing that this does not, takes time to import
        json.dumps(plain(value), sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: can't be recorded as JSON: {error}") from error


def split_list(*texts: str) -> tuple[str, ...]:
    """Split `"a, b"`, or several such texts, into `("a", "b")`; empty pieces are dropped."""
    return tuple(piece.strip() for text in texts for piece in text.split(",") if piece.strip())


def parse_assignments(texts: Iterable[str], where: str) -> dict[str, Any]:
    """Parse `("a=1,b=x", "c=true")` into `{"a": 1, "b": "x", "c": True}`; a text that starts with `{` is read as a JSON object. A
    piece without `=` continues the value before it, so that `dims=a,b` keeps its comma. Raises UsageError for a piece that is no
    assignment, or a key given twice; ConfigError as of `check_plain`.
    """
    result: dict[str, Any] = {}
    for text in texts:
        pairs = _json_object(text, where) if text.lstrip().startswith("{") else _pairs(text, where)
        for key, value in pairs.items():
            if key in result:
                raise UsageError(f"{where}: {key!r} is given twice")
            result[key] = value
    check_plain(result, where)
    return result


def _json_object(text: str, where: str) -> dict[str, Any]:
    try:
        return dict(loads_untrusted(text))
    except ValueError as error:
        raise UsageError(f"{where}: not a JSON object: {error}") from error


def _pairs(text: str, where: str) -> dict[str, Any]:
    raw: dict[str, str] = {}
    last = None
    for piece in text.split(","):
        key, equals, value = piece.partition("=")
        if equals:
            last = key.strip()
            if not last or last in raw:
                raise UsageError(f"{where}: {'a name is missing before' if not last else 'given twice:'} {piece!r}")
            raw[last] = value
        elif last is None:
            raise UsageError(f"{where}: expected key=value,key=value, was {text!r}")
        else:
            raw[last] += f",{piece}"
    return {key: parse_scalar(value.strip()) for key, value in raw.items()}
