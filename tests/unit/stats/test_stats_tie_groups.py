"""Studentised differences of agents' mean returns, as the tie groups of a board take them."""

from __future__ import annotations

import numpy as np
import pytest

from ktdeval.stats.confidence_set import _StudentisedDifferences, block_length, tie_groups


def errors_of(contest: _StudentisedDifferences, means: np.ndarray) -> np.ndarray:
    """Standard errors of the differences of means, [pairs], from what is observed."""
    upper, lower = np.triu_indices(len(means), 1)
    return np.asarray((means[lower] - means[upper]) / contest.observed[upper, lower])


@pytest.mark.parametrize("days", [20, 43])
def test_the_squared_error_of_independent_days_is_right_on_average(days: int) -> None:
    """Of days that are independent, a difference of means has the variance 2 s^2 / n, whatever the
    length of the blocks.
    """
    returns = np.random.default_rng(3).normal(0.0, 0.01, (days, 200))
    contest = _StudentisedDifferences(returns, 2, 0)

    assert (errors_of(contest, returns.mean(axis=0)) ** 2).mean() == pytest.approx(
        2 * 0.01**2 / days, rel=0.05
    )


def test_the_error_is_that_of_means_of_blocks_around_the_end_by_hand() -> None:
    one = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])
    other = np.zeros(8)

    assert block_length(8) == 2

    contest = _StudentisedDifferences(np.column_stack([one, other]), 10, 0)
    around = [(one[at] + one[(at + 1) % 8]) / 2 - one.mean() for at in range(8)]
    variance = sum(mean * mean for mean in around) / 8 * 2 / (8 - 2)

    assert contest.observed[1, 0] == pytest.approx(one.mean() / np.sqrt(variance))
    assert contest.observed[0, 1] == -contest.observed[1, 0]
    assert contest.observed.diagonal().tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("days", "block"), [(1, 2), (27, 2), (43, 2), (125, 2), (216, 3), (343, 4), (548, 4), (1000, 5)]
)
def test_blocks_are_half_the_cube_root_of_the_days_and_two_at_least(days: int, block: int) -> None:
    assert block_length(days) == block


def test_who_is_best_has_a_p_value_of_one_and_a_worse_one_a_smaller_value() -> None:
    returns = np.random.default_rng(1).normal(0.0, 0.01, (100, 2)) + np.array([0.01, 0.0])
    ties = tie_groups(returns)

    assert ties.p is not None
    assert ties.group == (1, 2)
    assert ties.p[0] == 1.0
    assert ties.p[1] < 0.05
