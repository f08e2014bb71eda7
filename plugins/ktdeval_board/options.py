"""Options that several commands on leaderboards share, from what was typed to values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime

import click

from ktdeval.errors import UsageError
from ktdeval.fields import parse_assignments, split_list
from ktdeval.jsonio import JsonValue

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


def moved_market(data: str | None, data_args: Iterable[str]) -> dict[str, JsonValue]:
    """`--data` and `--data-args` as changes of a run's config; none where no market is named."""
    return {} if data is None else {"data": data, "data_args": parse_assignments(data_args, "--data-args")}
