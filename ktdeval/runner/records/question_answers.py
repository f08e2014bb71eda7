"""Answers to questions that were fixed before any answer was known, at the looks made so far."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, cast

import numpy as np

from ktdeval.runner.records.registered_question import SequentialRule
from ktdeval.stats import (
    Look,
    hodges_lehmann,
    mixture_variance,
    sequential_signs,
    symmetric_sequence,
)
from ktdeval.values.documents.typed_json import Value

#: sum of the normal quantiles for a two-sided test at the 5 % level with a power of 80 %
_DESIGN = 2.8015852


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
