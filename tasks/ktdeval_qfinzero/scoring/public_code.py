"""Rules that the public code of both suites shares: means, the best score of any call, and call
order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Final, TypeVar

from ktdeval_qfinzero.scoring.types import GoldCall

OTHER_TOOL_SCORE: Final = 0.5
FIRST_SEGMENT_SCORE: Final = 0.3

Call = TypeVar("Call")
ScoreCall = Callable[[Call, GoldCall], float]


def mean_or_zero(values: Iterable[float]) -> float:
    """Return the mean of values; 0 without values."""
    values = list(values)
    return math.fsum(values) / (len(values) or 1)


def best_score(calls: Iterable[Call], gold: GoldCall, score: ScoreCall[Call]) -> float:
    """Return the best score of any call for an expected call; 0 without calls."""
    return max((score(call, gold) for call in calls), default=0.0)


def fitting_calls(calls: Sequence[Call], gold: GoldCall, score: ScoreCall[Call]) -> list[Call]:
    """Return the calls with a score above zero, which call the expected tool or another tool of its
    family.
    """
    return [call for call in calls if score(call, gold) > 0]


def taken_positions(
    calls: Sequence[Call], golds: Sequence[GoldCall], fits: Callable[[Call, GoldCall], bool]
) -> list[int]:
    """Return, for each expected call in turn, the first position of a fitting call that is not
    taken yet. Expected calls without such a position are omitted.
    """
    taken: list[int] = []
    for gold in golds:
        for index, call in enumerate(calls):
            if index not in taken and fits(call, gold):
                taken.append(index)
                break

    return taken


def inverted_share(positions: Sequence[int]) -> float:
    """Return the fraction of inverted pairs among at least two positions."""
    pairs = list(combinations(positions, 2))
    return sum(first > second for first, second in pairs) / len(pairs)
