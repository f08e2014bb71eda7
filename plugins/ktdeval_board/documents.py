"""JSON files of a board: read within a limit, strictly, and held against their schema. Whatever is in them may be hostile."""

from __future__ import annotations

import functools
import importlib.resources
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import orjson
from jsonschema import Draft202012Validator, FormatChecker

from ktdeval.api import CardError, JsonValue

Kind = Literal["submission", "records", "verdict", "series", "decisions", "market", "imported"]
"""Documents that have a schema of this package: `schema/<kind>-v1.json`. Cards have those of the suite."""

_SHOWN = 160
_MOST_ERRORS = 50


@functools.cache
def load_schema(kind: str) -> Mapping[str, JsonValue]:
    """The JSON Schema (draft 2020-12) of a kind of document."""
    text = importlib.resources.files("ktdeval_board").joinpath("schema", f"{kind}-v1.json").read_text(encoding="utf-8")
    schema: Mapping[str, JsonValue] = json.loads(text)
    return schema


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """A file's bytes, refused unread when it is too large, a link, or no regular file.

    Raises:
        CardError: says why it can't be read.
    """
    try:
        if path.is_symlink() or not path.is_file():
            raise CardError(f"{path}: is no regular file")
        size = path.stat().st_size
        if size > max_bytes:
            raise CardError(f"{path}: has {size:,} bytes; at most {max_bytes:,} are taken")
        return path.read_bytes()
    except OSError as error:
        raise CardError(f"{path}: can't read: {error.strerror or error}") from error


def read_text(path: Path, max_bytes: int) -> str:
    """The text of a file, as `read_bytes`.

    Raises:
        CardError: says why it can't be read.
    """
    try:
        return read_bytes(path, max_bytes).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CardError(f"{path}: is not UTF-8 text at byte {error.start}") from error


def parse_json(text: str, where: str) -> JsonValue:
    """Strict JSON: no doubled field, NaN, endless nesting or huge integer.

    Raises:
        CardError: it is not.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_bounded, parse_float=_finite)
    except RecursionError as error:
        raise CardError(f"{where}: is nested too deeply") from error
    except ValueError as error:
        raise CardError(f"{where}: is not strict JSON: {error}") from error


def read_document(path: Path, kind: Kind, max_bytes: int) -> dict[str, JsonValue]:
    """A document of the board, which follows its schema.

    Raises:
        CardError: it can't be read or does not follow it; names the file and the field.
    """
    value = parse_json(read_text(path, max_bytes), str(path))
    check_document(value, kind, str(path))
    document: dict[str, JsonValue] = value
    return document


def load_own(path: Path) -> JsonValue:
    """A document that the board's own check wrote; not held against its schema again.

    Raises:
        CardError: it can't be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CardError(f"{path}: can't read: {error.strerror or error}") from error
    return parse_own(data, path)


def parse_own(data: bytes, path: Path) -> JsonValue:
    """The same for what was read from a path already.

    Raises:
        CardError: it is no JSON.
    """
    try:
        return orjson.loads(data)
    except ValueError as error:
        raise CardError(f"{path}: is not JSON ({error}); run `ktdeval leaderboard check --all` to write it again") from error


def parse_known(data: bytes, where: str) -> JsonValue:
    """JSON of which the board's check has found before that it is strict: much quicker than `parse_json`, which looks again.

    Raises:
        CardError: it is none after all.
    """
    try:
        return orjson.loads(data)
    except ValueError as error:
        raise CardError(f"{where}: is not JSON ({error}), though it has a verdict; run `ktdeval leaderboard check`") from error


def check_document(value: JsonValue, kind: Kind, where: str) -> None:
    """Hold a JSON value against the schema of its kind.

    Raises:
        CardError: the first field that is wrong, on one line.
    """
    for problem in schema_problems(value, kind):
        raise CardError(f"{where}: {problem}")


def schema_problems(value: JsonValue, kind: Kind) -> Iterator[str]:
    """Places where a value does not follow the schema of its kind, on one line each; the first fifty that are found."""
    validator = Draft202012Validator(load_schema(kind), format_checker=FormatChecker())
    # A hostile document may have millions; those at hand are told in the order of their fields.
    errors = itertools.islice(validator.iter_errors(value), _MOST_ERRORS)
    for error in sorted(errors, key=lambda error: [str(part) for part in error.absolute_path]):
        place = ".".join(map(str, error.absolute_path)) or "document"
        message = error.message if len(error.message) <= _SHOWN else f"{error.message[: _SHOWN - 1]}…"
        yield f"{place}: {' '.join(message.split())}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        _refuse(f"field {Counter(name for name, _ in pairs).most_common(1)[0][0]!r} stands twice in one object")
    return members


def _no_constant(token: str) -> None:
    _refuse(f"{token} is no JSON number")


def _finite(token: str) -> float:
    number = float(token)
    if not math.isfinite(number):
        _refuse(f"{token[:20]} is too large for a number")
    return number


def _bounded(token: str) -> int:
    if len(token) > 19:
        _refuse(f"an integer of {len(token)} digits is too large")
    return int(token)


def _refuse(problem: str) -> None:
    raise ValueError(problem)
