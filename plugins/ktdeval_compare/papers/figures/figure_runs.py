"""Runs of a figure: cards of the paper's tasks, their ledgers by day, and daily means with
intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ktdeval.cards import TradingEpisode, count, label_word, system_labels
from ktdeval.cli import warn
from ktdeval.errors import CardError
from ktdeval.stats import estimate_mean
from ktdeval.trading import Ledger
from ktdeval_compare.pairs.card_markets import CardMarkets
from ktdeval_compare.pairs.compared_cards import (
    EntrantCard,
    Values,
    card_notes,
    load_entrants,
    recorded_ledger,
)
from ktdeval_compare.papers.figures.definitions import FigureChoices, PaperFigure
from ktdeval_compare.papers.paper_tables import check_alike

#: minimum number of values for a mean with an interval; with two values, Student's t has one degree
#: of freedom
FEWEST = 3
MAX_LINES = 24  #: more lines can't be distinguished


def figure_entrants(
    paths: Sequence[Path], figure: PaperFigure, choices: FigureChoices
) -> list[EntrantCard]:
    """Return the cards of a figure.

    Raises UsageError or CardError if the paths have no card, or if one belongs to another paper's
    tasks.
    """
    loaded = load_entrants(paths, choices.tasks)
    names = system_labels(entrant.system for entrant in loaded)
    entrants = [replace(entrant, label=names[entrant.system]) for entrant in loaded]
    family = figure.settings["family"]
    for entrant in entrants:
        task = entrant.card.task
        if task.config.get("family") != family:
            raise CardError(
                f"{entrant.path}: {task.name} is not a task of {family}, which {figure.name} "
                f"needs; give runs of {family}, or choose their tasks with --tasks"
            )

    return entrants


def warn_of_cards(entrants: Sequence[EntrantCard]) -> None:
    """Warn of the cards' caveats. Call it after all checks that can refuse the cards, because a
    refusal prints only one line.
    """
    for note in card_notes(entrants):
        warn(note)


def check_one_task(entrants: Sequence[EntrantCard], figure: PaperFigure) -> None:
    """Refuse cards of several tasks, masks or modes, and cards that can't be combined in a figure.
    Raises CardError.
    """
    tasks = sorted({entrant.card.task.name for entrant in entrants})
    if len(tasks) > 1:
        raise CardError(
            f"{figure.name} is of one task, these cards are of {', '.join(tasks)}; choose one with"
            " --tasks"
        )

    check_alike(entrants, entrants[0].path)


def origin_notes(entrants: Sequence[EntrantCard]) -> Iterator[str]:
    """Yield the runs that a figure is made from, and the labels of their cards, one line each."""
    tasks: dict[tuple[str, str], list[str]] = {}
    labels: dict[str, None] = {}
    for entrant in entrants:
        card = entrant.card
        seeds = len({episode.seed for episode in card.episodes})
        words = f"{card.agent.name}, {card.model.name}, {count(seeds, 'seed')}"
        tasks.setdefault((entrant.run_folder.name, words), []).append(card.task.name)
        labels.update(dict.fromkeys(map(label_word, card.labels)))

    for (run, words), names in tasks.items():
        yield f"run {run}: {', '.join(names)} by {words}"

    rules = sorted({entrant.card.rules for entrant in entrants})
    marks = f"; labels: {', '.join(labels)}" if labels else ""
    yield f"{' and '.join(rules)} rules{marks}"


# -- ledgers


@dataclass(frozen=True)
class DailyPath:
    """NAV of one episode relative to its first value."""

    days: tuple[str, ...]  #: ISO days from the first decision on, [n + 1]
    ratio: Values  #: [n + 1], 1 on the first day
    ledger: Ledger
    entrant: EntrantCard
    episode: TradingEpisode


def daily_paths(entrant: EntrantCard) -> Iterator[DailyPath]:
    """Yield the path of each finished episode of a card.

    Raises CardError if a ledger is missing from the run folder, or is not the one that the card was
    made from.
    """
    for episode in entrant.card.episodes:
        ledger = recorded_ledger(entrant, episode.id)
        if isinstance(ledger, str):
            raise CardError(f"{entrant.path}: {ledger}; give the run folder that it was made in")

        days = tuple(str(day) for day in (ledger.base_day, *ledger.days))
        yield DailyPath(days, ledger.nav / ledger.nav[0], ledger, entrant, episode)


def markets_of(choices: FigureChoices, without: str) -> CardMarkets:
    """Return the markets of a figure's cards. `without`: what can't be shown without a market."""
    return CardMarkets(without, choices.data, choices.plugins)


# -- means


@dataclass(frozen=True)
class DailyMean:
    """Mean of several paths by day; arrays are [n + 1]."""

    days: tuple[str, ...]
    n: int
    mean: Values
    #: lower end of a 95 % t interval of the mean; None for fewer than `FEWEST` paths
    low: Values | None
    high: Values | None
    least: Values
    most: Values


def mean_of_paths(paths: Mapping[Path, Sequence[tuple[tuple[str, ...], Values]]]) -> DailyMean:
    """Return the mean of paths (days and values), given by card.

    Raises CardError if they cover different days.
    """
    days: tuple[str, ...] = ()
    first: Path | None = None
    values: list[Values] = []
    for card, of_card in paths.items():
        for own_days, own_values in of_card:
            if first is None:
                first, days = card, own_days
            elif own_days != days:
                raise CardError(
                    f"{card}: its ledgers cover other days than those of {first}; give runs of the"
                    " same windows and limit"
                )
            values.append(own_values)

    table = np.array(values)
    low, high = _interval_ends(table)
    return DailyMean(
        days, len(table), table.mean(axis=0), low, high, table.min(axis=0), table.max(axis=0)
    )


def _interval_ends(table: Values) -> tuple[Values | None, Values | None]:
    """Return both ends of the t intervals of the column means; NaN if all values are equal. In the
    first column, where all paths start, both ends are the common value.
    """
    if len(table) < FEWEST:
        return None, None

    ends = np.array([mean_ends(column) for column in table.T], dtype=np.float64)
    ends[0] = table[0, 0]
    return ends[:, 0], ends[:, 1]


def mean_ends(values: Values) -> tuple[float | None, float | None]:
    """Return both ends of the 95 % t interval of a mean; None for fewer than `FEWEST` values, or if
    all values are equal.
    """
    if len(values) < FEWEST:
        return None, None

    mean = estimate_mean(values)
    return mean.low, mean.high
