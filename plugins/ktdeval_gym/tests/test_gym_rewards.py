"""Rewards of steps, computed by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from ktdeval.testing import errors_with
from ktdeval_gym.rewards import DifferentialSharpe, RewardConfig, Rewards, StepAmounts

ALL = np.ones(1, dtype=np.bool_)


def reward_of(nav: int = 110, **options: Any) -> float:
    amounts = StepAmounts(np.array([100]), np.array([nav]), np.array([50]), np.array([0.02]))
    return float(Rewards(RewardConfig(**options), np.array([0.1])).of(amounts, ALL)[0])


def test_each_reward_of_a_step_is_that_worked_by_hand() -> None:
    assert reward_of() == math.log(1.1)
    assert reward_of(nav=-5) == math.log(0.01)  # ruined: one minor unit
    assert reward_of(nav=0) == reward_of(nav=1) == math.log(0.01)
    assert reward_of(nav=2) == math.log(0.02)
    assert reward_of(name="benchmark_relative") == math.log(1.1) - 0.02
    # half of NAV was traded, at 20 basis points
    assert reward_of(name="after_costs", cost_bps=20.0) == pytest.approx(math.log(1.1) - 0.001)


def test_the_differential_sharpe_ratio_is_that_worked_by_hand() -> None:
    """eta 0.5, prior variance 0.01, returns 0.1 and -0.1.

    Step 1: A = 0, B = 0.01. dA = 0.1, dB = 0. D = 0.01 * 0.1 / 0.01^1.5 = 1. A = 0.05, B = 0.01.
    Step 2: dA = -0.15, dB = 0. D = 0.01 * -0.15 / (0.01 - 0.0025)^1.5 = -0.0015 / 0.0075^1.5.
    """
    sharpe = DifferentialSharpe(0.5, np.array([0.1]))

    assert sharpe.of(np.array([0.1]), ALL)[0] == pytest.approx(1.0)

    expected = -0.0015 / 0.0075**1.5
    assert sharpe.of(np.array([-0.1]), ALL)[0] == pytest.approx(expected)

    sharpe.reset(ALL)
    assert sharpe.of(np.array([0.1]), ALL)[0] == pytest.approx(1.0)


def test_an_account_that_is_not_active_keeps_its_moments() -> None:
    """As in the example, with a second account that is inactive in the first step."""
    sharpe = DifferentialSharpe(0.5, np.array([0.1, 0.1]))

    sharpe.of(np.array([0.1, 0.1]), np.array([True, False]))
    second = sharpe.of(np.array([-0.1, -0.1]), np.array([True, True]))

    assert second.tolist() == pytest.approx([-0.0015 / 0.0075**1.5, -1.0])


def test_an_account_that_begins_again_forgets_alone() -> None:
    sharpe = DifferentialSharpe(0.5, np.array([0.1, 0.1]))
    both = np.array([True, True])
    sharpe.of(np.array([0.1, 0.1]), both)

    sharpe.reset(np.array([True, False]))

    again = sharpe.of(np.array([-0.1, -0.1]), both)

    assert again.tolist() == pytest.approx([-1.0, -0.0015 / 0.0075**1.5])


def test_without_a_variance_the_divisor_is_that_of_the_prior() -> None:
    """With eta 1 the moments are those of only the last return."""
    sharpe = DifferentialSharpe(1.0, np.array([0.1]))
    sharpe.of(np.array([0.2]), ALL)

    # A = 0.2 and B = 0.04: no variance is left; dA = 0.1, dB = 0.05
    value = sharpe.of(np.array([0.3]), ALL)[0]

    assert value == pytest.approx((0.04 * 0.1 - 0.2 * 0.05 / 2) / 0.01**1.5)


def test_the_differential_sharpe_ratio_is_the_derivative_of_sharpes() -> None:
    """At eta near 0 the moving Sharpe ratio A / sqrt(B - A^2) changes by eta D."""
    eta = 1e-6
    first = 0.0
    second = 0.04
    value = 0.15
    sharpe = DifferentialSharpe(eta, np.array([0.2]))
    moved_first = first + eta * (value - first)
    moved_second = second + eta * (value**2 - second)
    before = first / math.sqrt(second - first**2)
    after = moved_first / math.sqrt(moved_second - moved_first**2)

    assert sharpe.of(np.array([value]), ALL)[0] == pytest.approx((after - before) / eta, rel=1e-4)


def test_an_unknown_reward_is_refused() -> None:
    assert errors_with(
        RewardConfig,
        {"name": "log_returns"},
        {"eta": 0.0},
        {"eta": 1.0},
        {"cost_bps": -1.0},
        {"cost_bps": math.nan},
        {"cost_bps": math.inf},
    ) == snapshot("""\
UsageError: reward 'log_returns' is unknown; did you mean 'log_return'?: choose log_return, after_costs, benchmark_relative, differential_sharpe
UsageError: eta is 0; choose a number between 0 and 1
UsageError: eta is 1; choose a number between 0 and 1
UsageError: cost_bps is -1; choose 0 or more
UsageError: cost_bps is nan; choose 0 or more
UsageError: cost_bps is inf; choose 0 or more
""")
