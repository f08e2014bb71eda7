"""What too few returns, or returns of which one decides, do not show."""

from __future__ import annotations

import numpy as np
import pytest

from ktdeval.stats import (
    Bootstrap,
    annualisation_problem,
    dominant_return,
    yearly_return_problem,
)


@pytest.mark.parametrize(
    ("returns", "a_year", "is_enough"),
    [
        (3, 252.0, False),
        (19, 252.0, False),
        (20, 252.0, True),
        (20, None, True),
        (5, 12.0, False),  # five months
        (6, 12.0, True),  # half a year
        (6, None, False),
        (2, 1.0, False),  # two years, but no dispersion to speak of
    ],
)
def test_twenty_returns_or_half_a_year_are_annualised(
    returns: int, a_year: float | None, is_enough: bool
) -> None:
    assert (annualisation_problem(returns, a_year) is None) is is_enough


@pytest.mark.parametrize(
    ("returns", "a_year", "is_enough"),
    [
        (10, 252.0, False),
        (126, 252.0, False),  # half a year
        (239, 252.0, False),
        (242, 252.0, True),  # a calendar year of the Chinese exchanges
        (12, 12.0, True),
        (11, 12.0, False),
        (400, None, False),
    ],
)
def test_a_return_is_taken_to_a_year_from_a_year_on(
    returns: int, a_year: float | None, is_enough: bool
) -> None:
    assert (yearly_return_problem(returns, a_year) is None) is is_enough


def test_a_return_with_more_than_a_third_of_the_squares_is_found() -> None:
    # squares: 40 of 1e-4, and one of 21e-4 or 19e-4; a third of the sum is 61e-4 / 3 = 20.3e-4
    # or 59e-4 / 3 = 19.7e-4
    returns = np.tile([0.01, -0.01], 20)
    assert dominant_return(np.append(returns, -np.sqrt(21e-4))) == 40
    assert dominant_return(np.append(returns, -np.sqrt(19e-4))) is None
    assert dominant_return(np.zeros(30)) is None


def test_a_crash_leaves_no_interval_of_the_return_and_is_named() -> None:
    returns = np.random.default_rng(1).normal(0.0005, 0.01, 120)
    returns[70] = -0.25
    days = np.busday_offset("2024-01-02", np.arange(120), roll="forward")
    series = Bootstrap(returns, days=days)
    for interval in (series.total_return(), series.ratio()):
        assert (interval.low, interval.high) == (None, None)
        assert interval.reason is not None
        assert interval.reason.startswith(f"one day ({days[70]}, -25.00 %) carries ")

    assert series.max_drawdown().low is not None


def test_a_day_without_its_date_is_counted() -> None:
    returns = np.random.default_rng(1).normal(0.0005, 0.01, 120)
    returns[70] = -0.25
    reason = Bootstrap(returns).ratio().reason
    assert reason is not None
    assert "(day 71, -25.00 %)" in reason
