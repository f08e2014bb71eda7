"""Figures at a year's pace of a few days are not shown, wherever a card is."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval.cards import (
    TradingCard,
    hidden_figures,
    shown_benchmark,
    shown_metric,
    shown_metrics,
)
from ktdeval.cards.reports import trading_report, trading_summary
from support.figures.card_cases import card, typed


def of_steps(steps: int) -> TradingCard:
    """A card whose episodes have this number of steps."""
    made: dict[str, Any] = card()
    for episode in made["episodes"]:
        episode["steps"] = steps
    return typed(made)


@pytest.mark.parametrize("name", ["sharpe", "information_ratio"])
def test_a_ratio_of_three_days_is_undefined_with_the_reason(name: str) -> None:
    line = shown_metrics(of_steps(3))[name]
    assert (line.value, line.n) == (None, 0)
    assert set(line.undefined) == {"3 returns are too few to annualise: 20 are needed"}
    assert shown_metrics(of_steps(20))[name].value is not None


def with_yearly(steps: int) -> TradingCard:
    """The card with a return and a volatility at a year's pace."""
    made: dict[str, Any] = card()
    for episode in made["episodes"]:
        episode["steps"] = steps
    for name, better in (("total_return", "higher"), ("max_drawdown", "lower")):
        made["metrics"][name] |= {"unit": "fraction per year", "better": better}
    return typed(made)


def test_a_return_at_a_years_pace_needs_a_year_and_a_volatility_twenty_days() -> None:
    reason = "20 of a year's 252 days: a return over less than a year is not annualised"
    short = with_yearly(20)
    assert shown_metrics(short)["total_return"].reason == reason
    assert shown_metrics(short)["max_drawdown"].value is not None
    assert shown_metrics(with_yearly(242))["total_return"].value is not None

    assert hidden_figures(short) == {"total_return": reason}
    (note,) = [note for note in trading_report(short).notes if reason in note]
    assert note == f"total_return: not shown, since {reason}"


def test_tables_of_papers_keep_their_returns_at_a_years_pace() -> None:
    shown = shown_metrics(with_yearly(20), yearly_returns=True)
    assert shown["total_return"].value is not None
    assert shown_metrics(with_yearly(3), yearly_returns=True)["total_return"].value is None


def test_figures_of_an_episode_and_of_the_benchmark_follow_the_same_rule() -> None:
    whole = of_steps(3)
    (episode, *_) = whole.episodes
    figure = shown_metric(whole, episode, "sharpe")
    assert figure is not None
    assert figure.reason == "3 returns are too few to annualise: 20 are needed"
    assert shown_metric(whole, episode, "total_return") == episode.metrics["total_return"]
    assert shown_metric(whole, episode, "no_such_metric") is None

    (held, *_) = whole.reference.benchmark_buy_and_hold.values()
    shown = shown_benchmark(whole, held.metrics.panel)
    assert shown["sharpe"].value is None
    assert shown["total_return"] == held.metrics.panel["total_return"]


def test_figures_that_are_no_estimate_of_a_year_stay() -> None:
    whole = of_steps(3)
    for name in ("total_return", "max_drawdown", "turnover"):
        assert shown_metrics(whole)[name] == whole.metrics[name]


def test_the_report_of_a_card_has_no_ratio_of_three_days() -> None:
    short = trading_report(of_steps(3))
    rows = [row for grid in short.grids for row in grid.rows]
    (sharpe,) = [row for row in rows if row[0] == "sharpe"]
    assert sharpe[1] == "-"
    (note,) = [note for note in short.notes if "3 returns are too few to annualise" in note]
    assert note.startswith("information_ratio, min_track_record, psr, sharpe")
    (row,) = trading_summary([of_steps(3)]).rows
    assert row[2] == "-"
