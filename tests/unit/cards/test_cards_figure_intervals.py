"""Intervals of a card's figures over windows, or over the days of its only episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ktdeval.cards import OVER_DAYS, OVER_WINDOWS, TradingCard, figure_interval
from support.figures.card_cases import typed
from support.figures.compare_cards import make_card


def of_sharpes(values: Sequence[float | None], steps: int = 20, seeds: int = 1) -> TradingCard:
    """A card with these Sharpe ratios, `seeds` of each window."""
    cells = [(f"A{1 + number // seeds}", number % seeds) for number in range(len(values))]
    made: dict[str, Any] = make_card(dict.fromkeys(cells, 0.01))
    for episode, value in zip(made["episodes"], values, strict=True):
        episode["steps"] = steps
        episode["metrics"]["sharpe"] = {"value": value, "n": steps}
        if value is None:
            episode["metrics"]["sharpe"]["reason"] = "no variance"
    return typed(made)


def test_two_windows_have_the_t_interval_of_their_mean() -> None:
    """Mean 9.3, standard deviation 2.6 / √2, error 1.3; t with one degree of freedom is 12.706."""
    found = figure_interval(of_sharpes((8.0, 10.6)), "sharpe")
    assert found.over == OVER_WINDOWS
    assert found.low == pytest.approx(9.3 - 12.7062 * 1.3, abs=1e-3)
    assert found.high == pytest.approx(9.3 + 12.7062 * 1.3, abs=1e-3)


def test_windows_are_medians_over_their_seeds() -> None:
    of_seeds = figure_interval(of_sharpes((7.0, 9.0, 10.0, 11.2), seeds=2), "sharpe")
    assert of_seeds == figure_interval(of_sharpes((8.0, 10.6)), "sharpe")


def test_a_window_without_the_figure_does_not_count() -> None:
    found = figure_interval(of_sharpes((8.0, None)), "sharpe")
    assert (found.low, found.reason) == (None, "a single window does not show how windows vary")


def test_a_ratio_of_too_few_days_has_the_reason_and_no_interval() -> None:
    found = figure_interval(of_sharpes((8.0, 10.6), steps=3), "sharpe")
    assert (found.low, found.high) == (None, None)
    assert found.reason == "3 returns are too few to annualise: 20 are needed"


def test_several_seeds_of_one_window_have_none_of_their_own() -> None:
    found = figure_interval(of_sharpes((8.0, 10.6), seeds=2), "sharpe")
    assert (found.over, found.low) == (OVER_DAYS, None)
    assert found.reason == "one window of several seeds, each with its own"


def test_a_metric_that_is_not_on_the_card_says_so() -> None:
    assert figure_interval(of_sharpes((8.0, 10.6)), "no_such").reason == "not on the card"
