"""Figures at a year's pace of a few days are not shown, wherever a card is."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval.cards import TradingCard, shown_metrics
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
