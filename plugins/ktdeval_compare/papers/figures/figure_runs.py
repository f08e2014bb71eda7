"""Runs that are used in a figure: cards for the paper's tasks, their ledgers by day, and daily
means with intervals.
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

#: minimum number of values for a mean with an interval; with only two values, Student's t has one
#: degree of freedom
FEWEST = 3
MAX_LINES = 24  #: more lines would be indistinguishable


def figure_entrants(
    paths: Sequence[Path], figure: PaperFigure, choices: FigureChoices
) -> list[EntrantCard]:
    """Return the cards to show in a figure.

    Raises UsageError or CardError if the paths have no card, or if a card's task does not belong to
    this figure's paper.
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
    """Warn of the cards' caveats. Call this function after all checks that can raise an error,
    because then only one line should be printed.
    """
    for note in card_notes(entrants):
        warn(note)


def check_one_task(entrants: Sequence[EntrantCard], figure: PaperFigure) -> None:
    """Raise CardError if cards have different tasks, masks or modes, or can't be combined in a
    figure.
    """
    tasks = sorted({entrant.card.task.name for entrant in entrants})
    if len(tasks) > 1:
        raise CardError(
            f"{figure.name} is of one task, these cards are of {', '.join(tasks)}; choose one with"
            " --tasks"
        )

    check_alike(entrants, entrants[0].path)


def origin_notes(entrants: Sequence[EntrantCard]) -> Iterator[str]:
    """Yield one line for each run from which a figure is made, then a line with the rules and
    labels of the cards.
    """
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
    """An episode's NAV relative to its first value."""

    days: tuple[str, ...]  #: ISO days starting with the first decision, [n + 1]
    ratio: Values  #: [n + 1], with value 1 on the first day
    ledger: Ledger
    entrant: EntrantCard
    episode: TradingEpisode


def daily_paths(entrant: EntrantCard) -> Iterator[DailyPath]:
    """Yield a path for each finished episode on a card.

    Raises CardError if a ledger is missing from the run folder, or if it is not the ledger from
    which the card was made.
    """
    for episode in entrant.card.episodes:
        ledger = recorded_ledger(entrant, episode.id)
        if isinstance(ledger, str):
            raise CardError(f"{entrant.path}: {ledger}; give the run folder that it was made in")

        days = tuple(str(day) for day in (ledger.base_day, *ledger.days))
        yield DailyPath(days, ledger.nav / ledger.nav[0], ledger, entrant, episode)


def markets_of(choices: FigureChoices, without: str) -> CardMarkets:
    """Return the markets on which a figure's cards were made. `without` says what can't be shown
    without a market.
    """
    return CardMarkets(without, choices.data, choices.plugins)


# -- means


@dataclass(frozen=True)
class DailyMean:
    """Mean of several paths by day. Arrays are [n + 1]."""

    days: tuple[str, ...]
    n: int
    mean: Values
    #: lower end of the mean's 95 % t interval; None if there are fewer than `FEWEST` paths
    low: Values | None
    high: Values | None
    least: Values
    most: Values


def mean_of_paths(paths: Mapping[Path, Sequence[tuple[tuple[str, ...], Values]]]) -> DailyMean:
    """Return the mean of all paths. Paths are days and values, and are given by card.

    Raises CardError if the paths cover different days.
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
    """Return both ends of the t intervals for the column means. An end is NaN if all values in the
    column are equal; in the first column, where all paths start, both ends are the common value.
    """
    if len(table) < FEWEST:
        return None, None

    ends = np.array([mean_ends(column) for column in table.T], dtype=np.float64)
    ends[0] = table[0, 0]
    return ends[:, 0], ends[:, 1]


def mean_ends(values: Values) -> tuple[float | None, float | None]:
    """Return both ends of the 95 % t interval for a mean. The ends are None if there are fewer than
    `FEWEST` values, or if all values are equal.
    """
    if len(values) < FEWEST:
        return None, None

    mean = estimate_mean(values)
    return mean.low, mean.high
