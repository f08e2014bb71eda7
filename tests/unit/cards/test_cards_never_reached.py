"""Medians of figures that some episodes never reach: never is later than any number, and not
missing.
"""

from __future__ import annotations

import math
import statistics
from itertools import permutations

import msgspec
import pytest

from ktdeval.cards.fields.returns.medians import EpisodeMetric, aggregate
from ktdeval.stats import NEVER, is_never

NO_TRACK = f"{NEVER}the Sharpe ratio is not positive"
MISSING = "fewer than three days"


def metric(value: float | str) -> EpisodeMetric:
    """A metric of one episode; a text is the reason why there is none."""
    if isinstance(value, str):
        return EpisodeMetric(value=None, n=0, reason=value)

    return EpisodeMetric(value=value, n=1)


@pytest.mark.parametrize(
    ("episodes", "value", "n", "never", "reason"),
    [
        ((30.0, 50.0, NO_TRACK, NO_TRACK, NO_TRACK), None, 5, 3, "never in 3 of 5 episodes"),
        ((30.0, 50.0, 70.0, NO_TRACK, NO_TRACK), 70.0, 5, 2, None),
        ((30.0, NO_TRACK), None, 2, 1, "never in 1 of 2 episodes"),  # half-way to never is never
        ((30.0, 50.0, NO_TRACK, MISSING), 50.0, 3, 1, None),
        ((NO_TRACK, MISSING), None, 1, 1, "never in 1 of 1 episodes"),
        ((MISSING, MISSING), None, 0, None, MISSING),
        ((30.0, 50.0), 40.0, 2, None, None),
        # a reason of another meaning
        ((30.0, "never traded", "never traded"), 30.0, 1, None, None),
    ],
)
def test_never_counts_as_later_than_any_number(
    episodes: tuple[float | str, ...],
    value: float | None,
    n: int,
    never: int | None,
    reason: str | None,
) -> None:
    for order in list(permutations(episodes))[:24]:
        line = aggregate(map(metric, order))
        assert (line.value, line.n) == (value, n)
        assert (None if line.never is msgspec.UNSET else line.never) == never
        assert (None if line.reason is msgspec.UNSET else line.reason) == reason
        assert n + sum(line.undefined.values()) == len(episodes)


def test_quartiles_are_given_as_far_as_they_are_reached() -> None:
    reached = aggregate(map(metric, (1.0, 2.0, 3.0, 4.0, 5.0, NO_TRACK)))
    assert (reached.quartiles.low, reached.quartiles.high) == (2.25, 4.75)

    lost = aggregate(map(metric, (1.0, 2.0, 3.0, NO_TRACK)))
    assert (lost.value, lost.quartiles.low, lost.quartiles.high) == (2.5, None, None)
    assert lost.quartiles.reason == "never in 1 of 4 episodes"


def test_quartiles_of_finite_values_equal_the_standard_library_exactly() -> None:
    values = [math.sin(number) / 3 for number in range(2, 40)]
    for count in range(2, len(values)):
        line = aggregate(map(metric, values[:count]))
        low, _, high = statistics.quantiles(values[:count], n=4, method="inclusive")
        assert (line.quartiles.low, line.quartiles.high) == (low, high)


def test_a_never_reached_line_sorts_last() -> None:
    assert aggregate([metric(30.0), metric(NO_TRACK)]).ordered == math.inf
    assert metric(NO_TRACK).ordered == math.inf
    assert metric(MISSING).ordered is None
    assert not is_never("never traded")
