"""Questions that are fixed before any answer is known: the metric, the effect of interest, the
test, the windows, the error rate, and the interim looks at which the question may be settled.

A leaderboard registration contains a `Question`; the plan of a grid contains a `SequentialRule`.
The function `answer` answers both, using only differences per window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal, cast

import numpy as np
from msgspec import Meta

from ktdeval.stats import (
    Look,
    hodges_lehmann,
    looks_that_can_stop,
    mixture_variance,
    sequential_signs,
    symmetric_sequence,
)
from ktdeval.values.typed_json import Value

Windows = Annotated[int, Meta(ge=1, le=1000)]

#: sum of the normal quantiles for a two-sided test at the 5 % level with a power of 80 %
_DESIGN = 2.8015852


class SequentialRule(Value, frozen=True, kw_only=True):
    """Rule by which a comparison over windows is settled, at planned looks."""

    metric: Annotated[str, Meta(min_length=1, max_length=100)]  #: as on cards
    #: windows at each look, increasing; the last number is that of planned windows
    looks: Annotated[tuple[Windows, ...], Meta(min_length=1, max_length=100)]
    #: two-sided error over all looks together
    alpha: Annotated[float, Meta(ge=1e-6, le=0.5)] = 0.05
    #: how much of alpha the looks may use up to each point; `anytime`: an interval that is valid at
    #: all times
    spending: Literal["obrien-fleming", "pocock", "anytime"] = "obrien-fleming"
    #: statistic: ranks of differences, or the differences themselves
    test: Literal["signed-rank", "sign-flip"] = "signed-rank"
    #: smallest difference that is worth finding, in the metric's unit
    effect: Annotated[float, Meta(gt=0, le=1e9)]

    def __post_init__(self) -> None:
        if any(after <= before for before, after in pairwise(self.looks)):
            raise ValueError("looks: must increase, such as [4, 7, 10]")
        if not self.can_settle:
            raise ValueError(
                f"looks: {self.looks[-1]} windows can't settle the question at alpha"
                f" {self.alpha:g}, even if all differences have one sign; plan more windows"
            )

    @property
    def can_settle(self) -> bool:
        """True if at least one look can settle the question."""
        if self.spending == "anytime":
            return True
        return any(looks_that_can_stop(self.looks, self.spending, self.alpha))

    @property
    def words(self) -> str:
        """Description of the rule: `total_return, signed-rank test, looks at 4, 7, 10
        windows, …`.
        """
        looks = ", ".join(map(str, self.looks))
        return (
            f"{self.metric}, {self.test} test, looks at {looks} windows, {self.spending}, alpha"
            f" {self.alpha:g}, effect of interest {self.effect:g}"
        )


class Question(SequentialRule, frozen=True, kw_only=True):
    """Question that a registration fixes before its mask key is drawn."""

    #: `zero`, `benchmark` (buying the index, for total_return), or the id of a card of the board
    against: Annotated[str, Meta(pattern=r"^(zero|benchmark|[0-9a-f]{64})$(?!\n)")] = "benchmark"
    #: windows in the order in which the looks add them
    windows: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=300)], ...],
        Meta(min_length=1, max_length=1000),
    ]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.windows)) != len(self.windows):
            raise ValueError("windows: a name appears twice")
        if self.looks[-1] != len(self.windows):
            raise ValueError(
                f"looks: the last look is at {self.looks[-1]} windows, but the question has"
                f" {len(self.windows)}; the last look must include all of them"
            )
        if self.against == "benchmark" and self.metric != "total_return":
            raise ValueError(
                "against: the only metric of the benchmark is total_return; use total_return, or"
                " compare with zero or a card"
            )


class Answer(Value, frozen=True, kw_only=True):
    """Answer to a question from the windows available so far."""

    windows: int  #: number of windows whose differences were used
    #: number of the look that settled the question, from 1; null if no look did
    settled_at: int | None
    sign: Literal[-1, 0, 1]  #: sign of the settled difference; 0 if the question is not settled
    shift: float | None  #: Hodges-Lehmann estimate over the windows used
    used: float  #: type I error spent by the looks so far
    reason: str | None = None  #: why no look could be made

    @property
    def words(self) -> str:
        """Description of the answer."""
        if self.reason is not None:
            return f"not answered: {self.reason}"
        if self.settled_at is None:
            return f"not settled after {self.windows} windows"

        better = "above" if self.sign > 0 else "below"
        return f"settled at look {self.settled_at} ({self.windows} windows): {better}"


def answer(rule: SequentialRule, differences: Sequence[float]) -> Answer:
    """Answer a question from the differences [n] in its first n windows, in the question's order.

    If n is too small for the first look, the answer only states a reason. Raises ValueError if a
    difference is not finite, or if there are more differences than windows.
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < rule.looks[0]:
        return Answer(
            windows=len(values),
            settled_at=None,
            sign=0,
            shift=None,
            used=0.0,
            reason=f"the first look is at {rule.looks[0]} windows; {len(values)} are available",
        )
    if rule.spending == "anytime":
        return _anytime_answer(rule, values)

    test = sequential_signs(values, rule.looks, rule.spending, rule.alpha, rule.test)
    last = test.looks[-1]
    return _answer_at(values[: last.windows], test.settled_at, test.sign, last.used)


def _answer_at(
    values: np.typing.NDArray[np.float64], settled_at: int | None, sign: int, used: float
) -> Answer:
    """Return the answer, given the differences [n] that the last look used."""
    return Answer(
        windows=len(values),
        settled_at=settled_at,
        sign=cast("Literal[-1, 0, 1]", sign),
        shift=hodges_lehmann(values).value,
        used=used,
    )


def last_look(rule: SequentialRule, differences: Sequence[float]) -> Look | None:
    """Return the statistics of the last look that `answer` makes. None if it makes no look, or if
    the rule is `anytime`, which has no boundary.
    """
    if rule.spending == "anytime" or len(differences) < rule.looks[0]:
        return None

    values = np.asarray(differences, dtype=np.float64)
    return sequential_signs(values, rule.looks, rule.spending, rule.alpha, rule.test).looks[-1]


def _anytime_answer(rule: SequentialRule, values: np.typing.NDArray[np.float64]) -> Answer:
    """Answer using the confidence sequence for the mean (`symmetric_sequence`)."""
    # `rho` makes the sequence narrowest when the planned windows just suffice to detect the effect
    # of interest. It does not depend on any observation.
    planned = rule.looks[-1]
    deviation = rule.effect * math.sqrt(planned) / _DESIGN
    rho = mixture_variance(planned * deviation**2, 1.0 - rule.alpha)
    most = max(1.0, 1e3 * rule.effect)
    interval = symmetric_sequence(values, rho, 1.0 - rule.alpha, most)

    made = [look for look in rule.looks if look <= len(values)]
    for number, windows in enumerate(made, 1):
        low = interval.low[windows - 1]
        high = interval.high[windows - 1]
        if low > 0 or high < 0:
            sign = 1 if low > 0 else -1
            return _answer_at(values[:windows], number, sign, rule.alpha)

    return _answer_at(values[: made[-1]], None, 0, rule.alpha)


def shared_days(windows: Sequence[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the names of successive windows that share days. The differences of such windows are
    not independent, although the test requires independence.

    `windows`: name, first day and last day of each window.
    """
    ordered = sorted(windows, key=lambda window: window[1])
    for before, after in pairwise(ordered):
        if after[1] <= before[2]:
            yield before[0], after[0]
