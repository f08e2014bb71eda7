"""Files of ranks: one table an entrant and day, best name first, with the days of entry and exit."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval.values import loads_untrusted
from ktdeval_published.clone import Clone
from ktdeval_published.recipe import BoardRecipe


@dataclass(frozen=True)
class RankDay:
    """Rank of one entrant on one day."""

    path: str  #: of the table, inside the clone
    day: str  #: day whose close the rank uses, ISO
    symbols: tuple[str, ...]  #: best first
    entry: str | None  #: day at whose close the money starts
    exit: str | None


def iso_day(text: str, where: Path | str) -> str:
    """Return a day as ISO text, from 20260401 or 2026-04-01."""
    plain = text.replace("-", "")
    if len(plain) != 8 or not plain.isdigit():
        raise DataError(f"{where}: {text!r} is not a day")
    return f"{plain[:4]}-{plain[4:6]}-{plain[6:]}"


def read_rank_days(recipe: BoardRecipe, clone: Clone) -> Mapping[str, list[RankDay]]:
    """Return the ranks of each entrant by day, sorted. Raises DataError for a file without the
    columns of the recipe, and if no file matches.
    """
    matches = clone.matches(recipe.entrants.glob)
    if not matches:
        raise DataError(f"{clone.root}: no file matches {recipe.entrants.glob}")

    found: dict[str, list[RankDay]] = {}
    for inside, places in matches:
        entry, exit_ = _entry_and_exit(recipe, clone, inside)
        one = RankDay(
            path=inside,
            day=iso_day(places["day"], inside),
            symbols=_read_symbols(recipe, clone, inside),
            entry=entry,
            exit=exit_,
        )
        found.setdefault(places["entrant"], []).append(one)

    for days in found.values():
        days.sort(key=lambda one: one.day)
    return found


def _read_symbols(recipe: BoardRecipe, clone: Clone, inside: str) -> tuple[str, ...]:
    reader = csv.DictReader(io.StringIO(clone.read(inside).decode("utf-8-sig")))
    columns = recipe.columns
    for name in (columns.symbol, columns.rank):
        if name not in (reader.fieldnames or ()):
            raise DataError(
                f"{clone.root / inside}: has no column {name!r}; its columns are"
                f" {', '.join(reader.fieldnames or ())}"
            )

    by_rank: dict[str, str] = {}
    for row in reader:
        if row[columns.rank] in by_rank:
            raise DataError(f"{clone.root / inside}: two names have the rank {row[columns.rank]}")
        by_rank[row[columns.rank]] = row[columns.symbol]

    ranks = [str(rank) for rank in range(1, len(by_rank) + 1)]
    if not ranks or set(ranks) != set(by_rank):
        raise DataError(f"{clone.root / inside}: {columns.rank} is not 1, 2, … without gaps")
    symbols = tuple(by_rank[rank] for rank in ranks)
    if len(set(symbols)) != len(symbols):
        raise DataError(f"{clone.root / inside}: ranks a name twice")
    return symbols


def _entry_and_exit(
    recipe: BoardRecipe, clone: Clone, inside: str
) -> tuple[str | None, str | None]:
    """Return the days of entry and exit from the file beside a rank, if it states them."""
    beside = inside.removesuffix(".csv") + ".meta.json"
    try:
        document = loads_untrusted(clone.read(beside))
    except ValueError as error:
        raise DataError(f"{clone.root / beside}: is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DataError(f"{clone.root / beside}: expected a JSON object")

    days = []
    for role, default in (("entry", "entry_date"), ("exit", "exit_date")):
        stated = document.get(recipe.columns.other.get(role, default))
        days.append(iso_day(str(stated), beside) if stated else None)
    return days[0], days[1]
