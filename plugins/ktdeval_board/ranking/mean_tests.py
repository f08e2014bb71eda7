"""Tests of a table's mean daily returns against the index and random traders, as its sentence and its
picture show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from ktdeval_board.document_types import rounded_or_none
from ktdeval_board.ranking.daily_summaries import Days, EpisodeDays, Vector, mean_by_day
from ktdeval_board.ranking.rows import ReferenceFacts
from ktdeval_board.ranking.trader_band import band_half_width
from ktdeval_board.ranking.verdicts import (
    Reference,
    ReferenceTest,
    reference_tests,
    verdict,
    verdict_figures,
)

Excess = list[float | None]
"""Mean daily excess and the ends of its interval."""

RANDOM = "random traders"
_INDEX_ROW = None  # the index has a row without a card


@dataclass(frozen=True)
class TableTests:
    """Tests of a table."""

    sentence: str = ""
    figures: str = ""
    facts: list[ReferenceFacts] = field(default_factory=list)
    #: excess over each reference, keyed by card id; that of the index is keyed by None
    excess: Mapping[str | None, list[Excess | None]] = field(default_factory=dict)
    notes: Sequence[str] = ()  #: notes for readers


@dataclass(frozen=True)
class ComparedSystems:
    """Ranked systems of a table, and what they are compared with. All have the same days."""

    labels: Mapping[str, str]  #: label of each card, keyed by card id
    days: Mapping[str, Sequence[EpisodeDays]]  #: episodes of the tested systems, keyed by card id
    left_out: int  #: number of ranked systems without daily returns
    #: episodes of the baselines in the tested windows, keyed by card id
    baselines: Mapping[str, Sequence[EpisodeDays]]
    #: episodes of the random baselines, keyed by window
    traders: Mapping[str, Sequence[EpisodeDays]]
    index_name: str
    seeds: int  #: episodes of a system in a window


def table_tests(tested: ComparedSystems, level: float) -> TableTests:
    """Return the tests of the systems against the index and random traders, if these have daily
    returns. `level` is the two-sided level of all systems together.
    """
    cards = list(tested.days)
    episodes = list(tested.days.values())
    if not cards:
        return TableTests()

    returns = mean_by_day(episodes, "returns")
    index = mean_by_day(episodes[:1], "benchmark")[:, 0]
    days = _dates(episodes[0])
    references = []
    if np.isfinite(index).all():
        references.append(Reference(f"the index ({tested.index_name})", index))

    traders = list(chain.from_iterable(tested.traders.values()))
    chance = _mean_returns(traders, days)
    if chance is not None:
        references.append(Reference(RANDOM, chance))

    labels = [tested.labels[card] for card in cards]
    tests = reference_tests(labels, returns, references, level)
    excess: dict[str | None, list[Excess | None]] = {}
    for number, card in enumerate(cards):
        excess[card] = _interval_rows(tests, number)
    for key, own in _untested_returns(tested, index, days):
        excess[key] = [_mean_row(test, own) for test in tests]

    half_width = None
    if chance is not None:
        half_width = band_half_width(tested.traders, tested.seeds, len(cards), level)

    facts = []
    for test in tests:
        band = None
        if chance is not None and half_width is not None:
            band = _band_over(test, chance, half_width)

        facts.append(_facts(test, band))

    notes = []
    if tested.left_out and tests:
        notes.append(
            f"comparison with the index and random traders: {tested.left_out} ranked "
            "without daily series took no part"
        )

    return TableTests(verdict(tests), verdict_figures(tests), facts, excess, notes)


def _dates(episodes: Sequence[EpisodeDays]) -> Days:
    return np.unique(np.concatenate([episode.days for episode in episodes]))


def _mean_returns(episodes: Sequence[EpisodeDays], days: Days) -> Vector | None:
    """Return the [days] mean daily returns of episodes; None if they do not have exactly these
    days or a return is missing.
    """
    if not episodes or not np.array_equal(_dates(episodes), days):
        return None

    means = mean_by_day([episodes], "returns")[:, 0]
    return means if np.isfinite(means).all() else None


def _untested_returns(
    tested: ComparedSystems, index: Vector, days: Days
) -> Iterator[tuple[str | None, Vector]]:
    """Yield the returns of the index and of each baseline that has all days."""
    if np.isfinite(index).all():
        yield _INDEX_ROW, index

    for card, episodes in tested.baselines.items():
        returns = _mean_returns(episodes, days)
        if returns is not None:
            yield card, returns


def _interval_rows(tests: Sequence[ReferenceTest], system: int) -> list[Excess | None]:
    rows: list[Excess | None] = []
    for test in tests:
        excess = test.excess
        if excess.reason is None:
            ends = (excess.mean[system], excess.low[system], excess.high[system])
            rows.append([rounded_or_none(float(value)) for value in ends])
        else:
            rows.append(None)

    return rows


def _mean_row(test: ReferenceTest, returns: Vector) -> Excess | None:
    """Return the excess of returns that are shown beside the tested ones."""
    if test.excess.reason is not None:
        return None

    return [rounded_or_none(float((returns - test.reference.returns).mean())), None, None]


def _facts(test: ReferenceTest, band: list[float | None] | None) -> ReferenceFacts:
    excess = test.excess
    return {
        "reference": test.reference.name,
        "systems": len(test.systems),
        "days": excess.days,
        "level": excess.level,
        "band": band if excess.reason is None else None,
        "reason": excess.reason,
    }


def _band_over(test: ReferenceTest, chance: Vector, half_width: float) -> list[float | None]:
    """Return the band of random traders as excess over a test's reference."""
    centre = float((chance - test.reference.returns).mean())
    return [rounded_or_none(centre - half_width), rounded_or_none(centre + half_width)]
