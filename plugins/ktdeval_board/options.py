"""Options that several commands on leaderboards share, from what was typed to values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

import click

from ktdeval.errors import UsageError
from ktdeval.fields import split_list
from ktdeval.jsonio import JsonValue, loads_strict

_SEED_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})")
_MOST_SEEDS = 10_000


def say(message: str) -> None:
    """Say on stderr what is done."""
    click.echo(f"        {message}", err=True)


def as_day(text: str | None) -> str:
    """A day as YYYY-MM-DD; today's (UTC) where none is given."""
    if text is None:
        return datetime.now(UTC).date().isoformat()
    try:
        if date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise UsageError(f"--on: expected a day as YYYY-MM-DD, was {text!r}")


def as_seeds(text: str) -> tuple[int, ...]:
    """`"0,1,2"` or `"0-2"` as `(0, 1, 2)`, ascending."""
    seeds: set[int] = set()
    for piece in split_list(text):
        if match := _SEED_RANGE.fullmatch(piece):
            first, last = int(match[1]), int(match[2])
            if last - first >= _MOST_SEEDS:
                raise UsageError(f"--seeds: {piece} are more than {_MOST_SEEDS:,}")
            seeds |= set(range(first, last + 1))
        elif piece.isascii() and piece.isdigit() and len(piece) < 10:
            seeds.add(int(piece))
        else:
            raise UsageError(f"--seeds: expected numbers such as 0,1,2 or 0-2, was {piece!r}")
    return tuple(sorted(seeds))


def as_mapping(texts: Iterable[str], option: str) -> dict[str, JsonValue]:
    """`("a=1,b=x",)` as `{"a": 1, "b": "x"}`; a text that begins with `{` is read as a JSON object."""
    found: dict[str, JsonValue] = {}
    for text in texts:
        for name, value in _pairs(text, option):
            if name in found:
                raise UsageError(f"{option}: {name!r} is given twice")
            found[name] = value
    return found


def moved_market(data: str | None, data_args: Iterable[str]) -> dict[str, JsonValue]:
    """`--data` and `--data-args` as changes of a run's config; none where no market is named."""
    return {} if data is None else {"data": data, "data_args": as_mapping(data_args, "--data-args")}


def _pairs(text: str, option: str) -> list[tuple[str, JsonValue]]:
    if text.lstrip().startswith("{"):
        value = _json(text)
        if not isinstance(value, dict):
            raise UsageError(f"{option}: is no JSON object")
        return list(value.items())
    pairs: list[tuple[str, JsonValue]] = []
    for piece in text.split(","):
        name, equals, value = piece.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option}: expected NAME=VALUE,NAME=VALUE, was {text!r}")
        scalar = _json(value.strip())
        pairs.append((name.strip(), value.strip() if scalar is None or isinstance(scalar, (dict, list)) else scalar))
    return pairs


def _json(text: str) -> Any:
    """Return the JSON value that a text is; None where it is none."""
    try:
        return loads_strict(text)
    except ValueError:
        return None
