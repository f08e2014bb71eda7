"""An account too small for the lots of its market is named before a run, with an account that is not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from ktdeval.runner.plans.lot_costs import lot_costs, notes_on_lots
from ktdeval.task_api.episode_spec import Window
from ktdeval.trading import TradingConfig
from support.figures.metric_cases import market

WINDOW = Window("w", "2024-01-04", "2024-01-09")


@dataclass(frozen=True)
class AnyTask:
    """What a task says of its account."""

    trading: TradingConfig
    name: str = "mine"


def account(cash: int, names: int = 2, weight: float = 1.0) -> Any:
    return AnyTask(TradingConfig(initial_cash=cash, max_positions=names, max_weight=weight))


def test_lots_are_compared_with_an_equal_part_of_the_account() -> None:
    """On 2024-01-03, the day before the window, the closes are 11 and 19: lots of 100 cost 1,100 and
    1,900. Half of 3,000 buys the first of them only.
    """
    found = lot_costs(account(3000), market(), WINDOW.first)

    assert found is not None
    assert sorted(found.costs.tolist()) == [1100.0, 1900.0]
    assert (found.part, found.share) == (1500.0, 0.5)


def test_the_largest_weight_limits_the_part() -> None:
    found = lot_costs(account(3000, names=2, weight=0.3), market(), WINDOW.first)

    assert found is not None
    assert found.part == pytest.approx(900.0)


def test_the_advised_account_buys_the_lots() -> None:
    (note,) = notes_on_lots([account(3000)], market(), [WINDOW])

    assert note == (
        "mine: CNY 3,000 in 2 names is 1,500 a name, less than the smallest lot of 50 % of the"
        " universe (median 1,500): the lot rule would reject most such orders; give the account"
        " more cash, in a task file with `extends: mine` and `trading: {initial_cash: 5000}`"
        " (docs/markets.md)"
    )
    assert list(notes_on_lots([account(5000)], market(), [WINDOW])) == []


def test_assets_outside_the_universe_and_without_a_price_do_not_count() -> None:
    made = market()
    member = made.member.copy()
    member[:, 1] = False

    found = lot_costs(account(3000), replace(made, member=member), WINDOW.first)
    assert found is not None
    assert found.costs.tolist() == [1100.0]

    closes = np.full_like(made.close, np.nan)
    assert lot_costs(account(3000), replace(made, close=closes), WINDOW.first) is None


def test_a_window_without_an_earlier_day_and_no_window_have_no_note() -> None:
    first = Window("first", "2024-01-02", "2024-01-09")

    assert list(notes_on_lots([account(3000)], market(), [first])) == []
    assert list(notes_on_lots([account(3000)], market(), [])) == []
