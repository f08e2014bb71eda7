"""User input as typed: paths, `key=value` strings and lists."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ktdeval.errors import ConfigError, UsageError
from ktdeval.values.documents.strict_json import bounded_int, loads_untrusted, plain
from ktdeval.values.misfit import quote_value
from ktdeval.values.requests.secret_free_addresses import FreeArguments, faults_in

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_WORDS = {"true": True, "false": False, "null": None, "none": None}


def user_path(text: str | Path) -> Path:
    """Return the path that a user typed. `~` is expanded to a home folder if the user exists.
    Raises UsageError if the text is not a path.
    """
    if not isinstance(text, (str, Path)):
        raise UsageError(f"expected a path, was {quote_value(text)}")

    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise UsageError(
            f"expected a path, was {str(text)!a:.80}, which can't be a file name"
        ) from error

    if "\0" in str(text):
        raise UsageError(f"expected a path, was {str(text)!a:.80}, which can't be a file name")

    return Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib's own fails for an unknown user


def stored_market(data: str | Path) -> Path | None:
    """Return the folder of the stored market that the user specified; None if the input does not
    refer to a stored market.
    """
    folder = user_path(data)
    return folder if (folder / "manifest.json").is_file() else None


def lasting_data(data: str) -> str:
    """Return the market as the user specified it, except that the path of a stored market is made
    absolute, so that it is found from any working folder.
    """
    folder = stored_market(data)
    return data if folder is None else str(folder.resolve())


def working_folder() -> Path | None:
    """Return the working folder; None if it has been deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


def shown_path(path: Path) -> Path:
    """Return a path relative to the working folder if it lies below that folder; otherwise
    unchanged.
    """
    here = working_folder()
    if here is None or not path.is_relative_to(here):
        return path
    return path.relative_to(here)


def parse_scalar(text: str) -> Any:
    """Return a number, `true`, `false` or `null` if the text is exactly that; otherwise the text
    itself, as for `007` or an integer that does not fit in 64 bits.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]

    if _INTEGER.fullmatch(text):
        with contextlib.suppress(ValueError):
            return bounded_int(text)

        return text

    if _NUMBER.fullmatch(text):
        return float(text)

    return text


def check_plain(value: Any, where: str) -> None:
    """Raise ConfigError, which starts with `where`, for a value that no record can contain: NaN,
    infinity, a lone surrogate, an object, or an address with a secret.
    """
    for path, problem in faults_in(value, FreeArguments()):
        raise ConfigError(f"{where}{path}: expected {problem}")

    try:  # uses `json`, since msgspec checks nothing more and takes time to import
        json.dumps(plain(value), sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: can't be recorded as JSON: {error}") from error


def split_list(*texts: str) -> tuple[str, ...]:
    """Split `"a, b(x=1,y=2)"`, or several such strings, into `("a", "b(x=1,y=2)")`. Empty pieces
    are dropped.
    """
    pieces: list[str] = []
    for text in texts:
        pieces += [piece.strip() for piece in _outer_pieces(text)]

    return tuple(filter(None, pieces))


def parse_assignments(texts: Iterable[str], where: str) -> dict[str, Any]:
    """Parse `("a=1,b=x", "c=true")` into `{"a": 1, "b": "x", "c": True}`. A string that starts with
    `{` is read as a JSON object. A piece without `=` continues the preceding value, so that
    `dims=a,b` keeps its comma, as does `model=a/b(x=1,y=2)`. Raises UsageError if a piece is not an
    assignment or a key is repeated, and ConfigError as `check_plain` does.
    """
    result: dict[str, Any] = {}
    for text in texts:
        if text.lstrip().startswith("{"):
            pairs = _json_object(text, where)
        else:
            pairs = _key_value_pairs(text, where)

        for key, value in pairs.items():
            if key in result:
                raise UsageError(f"{where}: {key!r} is given twice")

            result[key] = value

    check_plain(result, where)
    return result


def _json_object(text: str, where: str) -> dict[str, Any]:
    try:
        value = loads_untrusted(text)
    except ValueError as error:
        raise UsageError(f"{where}: not a JSON object: {error}") from error

    if not isinstance(value, dict):
        raise UsageError(f"{where}: not a JSON object, was {quote_value(value)}")

    return value


def _outer_pieces(text: str) -> list[str]:
    """Split a string at its commas, except those inside balanced parentheses."""
    if text.count("(") != text.count(")"):
        return text.split(",")

    pieces = [""]
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += letter

    return pieces


def _key_value_pairs(text: str, where: str) -> dict[str, Any]:
    raw: dict[str, str] = {}
    last = None
    for piece in _outer_pieces(text):
        key, equals, value = piece.partition("=")
        if equals:
            last = key.strip()
            if not last:
                raise UsageError(f"{where}: a name is missing before {piece!r}")
            if last in raw:
                raise UsageError(f"{where}: given twice: {piece!r}")

            raw[last] = value
        elif last is None:
            raise UsageError(f"{where}: expected key=value,key=value, was {text!r}")
        else:
            raw[last] += f",{piece}"

    return {key: parse_scalar(value.strip()) for key, value in raw.items()}
