"""With equal rules the executor's NAV is that of a plain backtest, to 1e-9 on every day."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ktdeval.market import Fees, FillRule, MarketSnapshot
from ktdeval.testing import snapshot_of_days
from ktdeval.trading import AccountConfig
from ktdeval_judge.counterfactual import Counterfactuals
from ktdeval_judge.market_plan import market_plan
from ktdeval_judge.readers import ReadOptions, read_declared

CODES = ["000002.SZ", "300003.SZ", "600001.SH"]
CASH = 1_000_000_000  #: so that a cent is 1e-11 of the account


def a_market(days: int = 50) -> MarketSnapshot:
    chance = np.random.default_rng(11)
    closes = np.array([8.0, 23.0, 61.0]) * np.exp(
        np.cumsum(chance.normal(0.0, 0.02, (days, 3)), axis=0)
    )
    opens = closes * np.exp(chance.normal(0.0, 0.01, (days, 3)))
    return snapshot_of_days(
        CODES, np.round(opens, 2).tolist(), np.round(closes, 2).tolist(), first="2024-01-01"
    )


def plain_backtest(
    market: MarketSnapshot, weights: dict[int, np.ndarray], fill: FillRule, bps: float
) -> np.ndarray:
    """NAV of fractional shares rebalanced to weights, costs in basis points of what is traded.
    Independent of the executor: floats, no account, no orders.
    """
    cash = 1.0
    shares = np.zeros(3)
    navs = [1.0]
    for row in range(len(market.days) - 1):
        if row in weights:
            at = {"next_open": market.open[row + 1], "next_close": market.close[row + 1]}
            prices = at.get(fill, market.close[row])
            value = cash + float(shares @ prices)
            goal = weights[row] * value / prices
            traded = float(np.abs(goal - shares) @ prices)
            cash = value - float(goal @ prices) - traded * bps / 1e4
            shares = goal
        navs.append(cash + float(shares @ market.close[row + 1]))
    return np.array(navs)


@pytest.mark.parametrize("bps", [0.0, 7.5])
@pytest.mark.parametrize("fill", ["next_open", "next_close", "same_close"])
def test_the_nav_of_equal_rules_is_that_of_a_plain_backtest(
    fill: FillRule, bps: float, tmp_path: Path
) -> None:
    market = a_market()
    chance = np.random.default_rng(3)
    weights = {row: chance.dirichlet(np.ones(3)) * 0.9 for row in range(0, 45, 4)}
    lines = ["date,code,weight"]
    for row, own in weights.items():
        lines += [f"{market.days[row]},{code},{own[i]:.17g}" for i, code in enumerate(CODES)]

    path = tmp_path / "weights.csv"
    path.write_text("\n".join(lines))
    account = AccountConfig(
        initial_cash=CASH,
        venue="unrestricted_cny",
        fill=fill,
        fees=Fees(buy_bps=bps, sell_bps=bps),
        max_weight=1.0,
        max_positions=10,
    )
    trading = account.rules("test")
    made = market_plan(read_declared(path, ReadOptions()), market, trading)
    nav = Counterfactuals(made, market, trading).run(frozenset()).path / CASH

    expected = plain_backtest(market, weights, fill, bps)[: len(nav)]
    assert np.abs(nav / expected - 1.0).max() < 1e-9
