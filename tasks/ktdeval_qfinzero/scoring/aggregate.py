"""Summaries of many scores: plain means over tasks, as the paper's Table 2, overall and in groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from ktdeval.api import DataError
from ktdeval_qfinzero.scoring.types import Scores

Graded = tuple[str, str, Scores]


@dataclass(frozen=True)
class Means:
    """Means over `count` tasks: TM, PA and TA from 0 to 1, `overall` from 0 to 100; every task weighs the same."""

    count: int
    tm: float
    pa: float
    ta: float
    overall: float


@dataclass(frozen=True)
class Summary:
    """Scores of a run, in all and by group.

    Args:
        all: over all tasks.
        categories: category -> means, names in order.
        difficulties: difficulty -> means, names in order.
        failure_modes: name -> number of tasks it was reported for, names in order.
    """

    all: Means
    categories: Mapping[str, Means]
    difficulties: Mapping[str, Means]
    failure_modes: Mapping[str, int]


def summarise(graded: Sequence[Graded]) -> Summary:
    """Summarise (category, difficulty, scores) of a run; the order does not matter.

    Raises:
        DataError: there is nothing to summarise.
    """
    if not graded:
        raise DataError("no scores to summarise: no task was scored")
    modes = Counter(mode for _, _, scores in graded for mode in set(scores.failure_modes))
    return Summary(
        all=_means([scores for _, _, scores in graded]),
        categories=_grouped((category, scores) for category, _, scores in graded),
        difficulties=_grouped((difficulty, scores) for _, difficulty, scores in graded),
        failure_modes=dict(sorted(modes.items())),
    )


def _grouped(named: Iterable[tuple[str, Scores]]) -> dict[str, Means]:
    groups: dict[str, list[Scores]] = {}
    for name, scores in named:
        groups.setdefault(name, []).append(scores)
    return {name: _means(groups[name]) for name in sorted(groups)}


def _means(scores: Sequence[Scores]) -> Means:
    count = len(scores)
    return Means(
        count=count,
        tm=fsum(one.tm for one in scores) / count,
        pa=fsum(one.pa for one in scores) / count,
        ta=fsum(one.ta for one in scores) / count,
        overall=fsum(one.overall for one in scores) / count,
    )
