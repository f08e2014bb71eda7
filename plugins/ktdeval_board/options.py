"""Options that several commands on leaderboards share, and their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from typing import Any, TypeVar

import click

from ktdeval.cli import FilePath
from ktdeval.errors import UsageError
from ktdeval.values.fields import parse_assignments, split_list
from ktdeval.values.jsonio import JsonValue

F = TypeVar("F", bound=Callable[..., Any])

_SEED_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})")
_MOST_SEEDS = 10_000


# ---- options


board_argument = click.argument("board", default=".", type=FilePath(), metavar="[DIR]")


def board_option(help_: str) -> Callable[[F], F]:
    """Return the option that names the folder of a board, this one by default."""
    return click.option(
        "--board", default=".", show_default=True, type=FilePath(), metavar="DIR", help=help_
    )


def day_option(event: str) -> Callable[[F], F]:
    """Return the option for the day of an event; `as_day` reads its value."""
    help_ = f"day of the {event} [default: today, UTC]"
    return click.option("--on", "today", metavar="YYYY-MM-DD", help=help_)


def market_options(help_: str, **data: Any) -> Callable[[F], F]:
    """Return the options that name a market; `moved_market` reads their values. `data`: settings
    of `--data`.
    """

    def decorate(function: F) -> F:
        arguments = click.option(
            "--data-args",
            multiple=True,
            metavar="NAME=VALUE,…",
            help="arguments of the data provider",
        )
        return click.option("--data", metavar="DATA", help=help_, **data)(arguments(function))

    return decorate


# ---- values


def say(message: str) -> None:
    """Print progress on stderr."""
    click.echo(f"        {message}", err=True)


def as_day(text: str | None) -> str:
    """Return a day as YYYY-MM-DD: today (UTC) if none is given."""
    if text is None:
        return datetime.now(UTC).date().isoformat()

    try:
        if date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass

    raise UsageError(f"--on: expected a day as YYYY-MM-DD, was {text!r}")


def as_seeds(text: str) -> tuple[int, ...]:
    """Return seeds in ascending order: `(0, 1, 2)` for `"0,1,2"` or `"0-2"`."""
    seeds: set[int] = set()
    for piece in split_list(text):
        match = _SEED_RANGE.fullmatch(piece)
        if match is not None:
            first = int(match[1])
            last = int(match[2])
            if last - first >= _MOST_SEEDS:
                raise UsageError(f"--seeds: {piece} are more than {_MOST_SEEDS:,}")

            seeds |= set(range(first, last + 1))
        elif piece.isascii() and piece.isdigit() and len(piece) < 10:
            seeds.add(int(piece))
        else:
            raise UsageError(f"--seeds: expected numbers such as 0,1,2 or 0-2, was {piece!r}")

    return tuple(sorted(seeds))


def moved_market(data: str | None, data_args: Iterable[str]) -> dict[str, JsonValue]:
    """Return `--data` and `--data-args` as changes of a run's config; none if no market is named."""
    if data is None:
        return {}

    return {"data": data, "data_args": parse_assignments(data_args, "--data-args")}
