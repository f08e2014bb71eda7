"""Options shared by several leaderboard commands, and their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import click

from ktdeval.cli import FilePath, flag, inherit_option
from ktdeval.errors import UsageError
from ktdeval.values import JsonValue, split_list

_SEED_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})")
_MAX_SEEDS = 10_000


# ---- options


board_argument = click.argument("board", default=".", type=FilePath(), metavar="[DIR]")


@dataclass(frozen=True, kw_only=True)
class DayOptions:
    """Option of all commands on leaderboards, before their name; `recorded_day` reads its value."""

    today: str | None = flag(
        None,
        name="--on",
        metavar="YYYY-MM-DD",
        help="day to record for this command [default: today, UTC]",
    )


@dataclass(frozen=True, kw_only=True)
class BoardOptions:
    """The board that a command writes to."""

    board: Path = flag(
        Path(), type=FilePath(), metavar="DIR", help="clone of the board [default: this folder]"
    )


@dataclass(frozen=True, kw_only=True)
class SubmitterOptions:
    """Submitter in whose name a command writes."""

    submitter: str = flag("", metavar="NAME", help="name of the submitter: a person or a team")
    contact: str = flag("", help="e-mail or https address for questions")


@dataclass(frozen=True, kw_only=True)
class KeyOptions:
    """Key with which a command signs."""

    key: Path | None = flag(
        None, type=FilePath(), metavar="FILE", help="file with your private key, for signing"
    )


@dataclass(frozen=True, kw_only=True)
class MovedOptions:
    """Location of a board's market on this machine; `moved_market` reads these values."""

    data: str | None = flag(
        None,
        metavar="DATA",
        help=(
            "the market, if it has moved since the run or is not at the location in board.yaml: a "
            "snapshot folder or data provider"
        ),
    )
    data_args: Mapping[str, JsonValue] = flag({}, help="arguments of the data provider")


@dataclass(frozen=True, kw_only=True)
class BoardMarketOptions:
    """Location of one of the board's markets on this machine."""

    data: str | None = flag(
        None,
        metavar="DATA",
        help=(
            "one of the board's markets, if it is not at the location in board.yaml: folder or "
            "provider"
        ),
    )


# ---- values


def say(message: str) -> None:
    """Print progress to stderr."""
    click.echo(f"        {message}", err=True)


def recorded_day() -> str:
    """Return the day that the running command records: the value of `--on`, or today (UTC)."""
    return as_day(inherit_option(click.get_current_context(), "today"))


def as_day(text: str | None) -> str:
    """Return a day as YYYY-MM-DD, by default today (UTC)."""
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
            if last - first >= _MAX_SEEDS:
                raise UsageError(f"--seeds: {piece} has more than {_MAX_SEEDS:,} seeds")

            seeds |= set(range(first, last + 1))
        elif piece.isascii() and piece.isdigit() and len(piece) < 10:
            seeds.add(int(piece))
        else:
            raise UsageError(f"--seeds: expected numbers such as 0,1,2 or 0-2, was {piece!r}")

    return tuple(sorted(seeds))


def moved_market(options: MovedOptions) -> dict[str, JsonValue]:
    """Return `--data` and `--data-args` as overrides of a run's config; empty if no market is
    given.
    """
    if options.data is None:
        return {}

    return {"data": options.data, "data_args": options.data_args}
