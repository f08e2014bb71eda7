"""DeepFund: its tasks and their generated market, and its figures, worked by hand and against pandas."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import UsageError
from ktdeval.market import MarketSnapshot, sessions
from ktdeval.registry import load_plugins
from ktdeval.stats import MetricValue
from ktdeval.testing.ledgers import ledger_of, step_record
from ktdeval.trading import Ledger, Scale
from ktdeval_arena.deepfund_figures import figure
from ktdeval_data.params import TwinParams
from ktdeval_data.twins import make_twin
from searching import examples
from trading_market import make_market

CASH = 1_000_000
FREE = 0.0429


def market(prices: list[list[float | None]], index: list[float] | None = None, **more: Any) -> MarketSnapshot:
    made = make_market(("AAA", "BBB"), prices, **more)
    levels = np.array(index if index is not None else [100.0 + row for row in range(len(prices))])
    return dataclasses.replace(made, indices={"000300.SH": levels})


def position(code: str, shares: int, value: int) -> dict[str, Any]:
    return {"code": code, "shares": shares, "locked": 0, "price_ticks": 1, "value_minor": value}


def order(code: str, side: str, filled: int, notional: int, fee: int = 0) -> dict[str, Any]:
    told = {"code": code, "stock_id": None, "side": side, "confidence": 0.5, "reason": "", "target_weight": None, "shares": filled}
    done = {"status": "filled", "rule": None, "message": "", "filled_shares": filled, "price_ticks": 1}
    return {**told, **done, "notional_minor": notional, "fee_minor": fee}


def ledger(snapshot: MarketSnapshot, navs: list[int], steps: dict[int, dict[str, Any]] | None = None) -> Ledger:
    made = [
        step_record(snapshot, row, row + 1, nav_minor=nav, cash_minor=nav, **(steps or {}).get(row, {}))
        for row, nav in enumerate(navs)
    ]
    scales = {code: Scale(fill="same_close") for code in snapshot.codes}
    return dataclasses.replace(ledger_of(made), initial_cash_minor=CASH, scales=scales)


def value(name: str, of: Ledger, on: MarketSnapshot, rules: Any = "paper") -> MetricValue:
    return figure(name).compute(of, on, rules)


def test_sharpe_beta_and_alpha_by_hand() -> None:
    # NAV +2 %, -1 %, +2 %; index +1 %, -1 %, +3 %: means 1 % and 1 %, deviations (1, -2, 1) and (0, -2, 2) %.
    snapshot = market([[1.0, 1.0]] * 4, [100.0, 101.0, 99.99, 102.9897])
    made = ledger(snapshot, [1_020_000, 1_009_800, 1_029_996])
    beta = (0 + 4 + 2) / (4 + 4)
    assert value("df_beta", made, snapshot).value == pytest.approx(beta, rel=1e-9)
    daily = FREE / 252
    assert value("df_sharpe", made, snapshot).value == pytest.approx((0.01 - daily) / math.sqrt(3e-4) * math.sqrt(252), rel=1e-9)
    assert value("df_alpha", made, snapshot).value == pytest.approx(252 * (0.01 - daily) * (1 - beta), rel=1e-9)
    strict = 1.0429 ** (1 / 365) - 1
    coins = dataclasses.replace(made, days_a_year=365)
    figures = [value(name, coins, snapshot, "strict").value for name in ("df_sharpe", "df_alpha", "df_beta")]
    expected = [(0.01 - strict) / math.sqrt(3e-4) * math.sqrt(365), 365 * (0.01 - strict) * (1 - beta), beta]
    assert figures == pytest.approx(expected, rel=1e-9)


def test_the_first_days_portfolio_is_held_through_splits_and_missing_days_whatever_was_traded_later() -> None:
    # After day 1: 400,000 in cash, 500,000 in AAA, 100,000 in BBB. AAA halves by a 2:1 split and then rises by 10 %; BBB has no
    # price at the end and rose by 50 % before: 400,000 + 550,000 + 150,000. What they cost on day 0, before it, does not count.
    prices: list[list[float | None]] = [[8.0, 5.0], [10.0, 4.0], [5.0, 6.0], [5.5, None]]
    snapshot = market(prices, factor=[[1.0, 1.0], [1.0, 1.0], [2.0, 1.0], [2.0, 1.0]])
    held = {"positions": [position("AAA", 50, 500_000), position("BBB", 25, 100_000)]}
    made = ledger(snapshot, [CASH, 5, 7], {0: held})
    first = dataclasses.replace(
        made, steps=(step_record(snapshot, 0, 1, nav_minor=CASH, cash_minor=400_000, **held), *made.steps[1:])
    )
    for rules in ("paper", "strict"):
        assert value("df_buy_and_hold", first, snapshot, rules).value == pytest.approx(0.1, rel=1e-12)
    assert value("df_buy_and_hold", ledger(snapshot, [CASH] * 3), snapshot).value == 0.0  # all in cash


def test_a_win_is_a_day_in_the_paper_and_a_sale_by_strict_rules() -> None:
    snapshot = market([[1.0, 1.0]] * 6)
    buys = {"orders": [order("AAA", "BUY", 100, 1000, 10)], "positions": [position("AAA", 100, 1000)]}
    more = {"orders": [order("AAA", "BUY", 100, 2000)], "positions": [position("AAA", 200, 4000)]}  # 3010 for 200: 15.05 each
    split = {"code": "AAA", "ratio": 2.0, "shares_before": 200, "shares_after": 400, "cash_minor": 0}  # 7.525 each
    sells = {
        "corporate_actions": [split],
        "orders": [order("AAA", "SELL", 100, 753), order("AAA", "SELL", 100, 753, 1), order("BBB", "SELL", 0, 0)],
        "positions": [position("AAA", 200, 4000)],
    }
    last = {"orders": [order("AAA", "SELL", 200, 1505)]}  # at cost: no profit
    made = ledger(snapshot, [CASH, CASH + 5, CASH + 5, CASH + 4, CASH + 9], {0: buys, 1: more, 2: sells, 3: last})
    assert value("df_win_rate", made, snapshot) == MetricValue(0.4, 5)
    assert value("df_win_rate", made, snapshot, "strict") == MetricValue(1 / 3, 3)
    assert value("df_win_rate", ledger(snapshot, [CASH]), snapshot, "strict").reason == "nothing held was sold"


def test_sales_are_judged_as_they_fill_margin_calls_first_and_sells_before_buys() -> None:
    snapshot = market([[1.0, 1.0]] * 6)
    call = {"kind": "margin_call", "code": "AAA", "shares": -100, "price_ticks": 1, "cash_minor": 2000, "fee_minor": 0}
    days = {
        0: {"orders": [order("AAA", "BUY", 100, 1000)]},
        1: {"orders": [order("AAA", "BUY", 100, 3000), order("AAA", "SELL", 100, 1500)]},  # sold at 15 what had cost 10
        2: {"charges": [call]},  # at 20 what had cost 30
        3: {"orders": [order("AAA", "BUY", 100, 500)]},
        4: {"orders": [order("AAA", "SELL", 100, 600)]},  # at 6 what had cost 5, whatever was lost on what was held before
    }
    made = ledger(snapshot, [CASH] * 5, days)
    assert value("df_win_rate", made, snapshot, "strict") == MetricValue(2 / 3, 3)


def test_an_effective_order_is_followed_by_its_move() -> None:
    snapshot = market([[1.0, 5.0], [2.0, 5.0], [1.5, 5.0], [1.6, 4.0]])
    trades = [order("AAA", "BUY", 5, 5), order("BBB", "BUY", 5, 25), order("BBB", "SELL", 0, 0)]  # 1 to 2; 5 to 5
    made = ledger(snapshot, [CASH] * 3, {0: {"orders": trades}, 1: {"orders": [order("AAA", "SELL", 5, 10)]}})  # 2 to 1.5
    assert value("df_effectiveness", made, snapshot) == MetricValue(2 / 3, 3)
    assert value("df_effectiveness", ledger(snapshot, [CASH] * 3), snapshot).reason == "no filled order with a next price"


def test_what_has_no_value_says_why() -> None:
    snapshot = market([[1.0, 1.0]] * 4)
    made = ledger(snapshot, [CASH + 1, CASH + 5, CASH])
    bare = dataclasses.replace(snapshot, meta=dataclasses.replace(snapshot.meta, benchmark=""))
    flat = dataclasses.replace(snapshot, indices={"000300.SH": np.full(4, 100.0)})
    for name in ("df_beta", "df_alpha"):
        assert value(name, made, bare) == MetricValue(None, 3, "benchmark: the market has no index")
        assert value(name, made, flat).reason == "the benchmark does not vary"
        assert value(name, ledger(snapshot, [CASH]), snapshot).reason == "fewer than two days"
    assert value("df_sharpe", ledger(snapshot, [CASH] * 3), snapshot).reason == "returns have no variance"
    for name in ("df_sharpe", "df_win_rate", "df_beta", "df_alpha"):
        assert value(name, ledger(snapshot, [CASH, 0]), snapshot).reason == "a level is not positive"
    with pytest.raises(UsageError, match=r"no figure 'df_bet' of DeepFund.*df_beta"):
        figure("df_bet")


@examples(20)
@given(st.lists(st.tuples(st.floats(0.9, 1.1), st.floats(0.9, 1.1)), min_size=3, max_size=30))
def test_figures_agree_with_pandas(moves: list[tuple[float, float]]) -> None:
    own, index = (np.cumprod([1.0, *side]) for side in zip(*moves, strict=True))
    navs = [round(CASH * CASH * level) for level in own[1:]]
    snapshot = market([[1.0, 1.0]] * len(own), (100 * index).tolist())
    made = dataclasses.replace(ledger(snapshot, navs), initial_cash_minor=CASH * CASH)
    frame = pd.DataFrame({"r": [CASH * CASH, *navs], "m": index}).pct_change().dropna()
    if frame["m"].std() > 1e-6 and frame["r"].std() > 1e-6:
        beta = frame.cov().loc["r", "m"] / frame["m"].var()
        excess = frame - FREE / 252
        assert value("df_beta", made, snapshot).value == pytest.approx(beta, rel=1e-6, abs=1e-9)
        assert value("df_sharpe", made, snapshot).value == pytest.approx(
            excess["r"].mean() / excess["r"].std() * 252**0.5, rel=1e-6
        )
        alpha = 252 * (excess["r"].mean() - beta * excess["m"].mean())
        assert value("df_alpha", made, snapshot).value == pytest.approx(alpha, rel=1e-6, abs=1e-7)
    assert value("df_win_rate", made, snapshot).value == pytest.approx((frame["r"] > 0).mean())
    same = market([[1.0, 1.0]] * len(own), [CASH * CASH, *navs])  # the index itself
    if frame["r"].std() > 1e-6:
        assert value("df_beta", made, same).value == pytest.approx(1.0, rel=1e-9)
        assert value("df_alpha", made, same).value == pytest.approx(0.0, abs=1e-9)


# -- tasks and their generated market


PLUGINS = load_plugins()
TASKS = sorted(name for name, spec in PLUGINS.specs("tasks").items() if "deepfund" in spec.groups)


@pytest.mark.parametrize("name", TASKS)
def test_rules_of_a_task(name: str) -> None:
    told = PLUGINS.make_task(name).describe()
    count = len(told["assets"])
    assert told["trading"]["max_weight"] == round(2 / count * 20) / 20
    sizes = (told["trading"]["max_positions"], told["shown"], told["news"], told["harness"]["max_candidates"])
    assert sizes == (count, count, 10 * count, count)
    assert (told["trading"]["initial_cash"], told["history"], told["harness"]["schema_retries"]) == (100_000, 100, 3)
    rules = told["venue_rules"]
    assert (rules["short"], rules["fill"]) == (None, "same_close")
    assert {rules["fees"][side] for side in ("buy_bps", "sell_bps", "per_unit", "minimum")} == {0.0}


def test_the_window_has_the_returns_of_the_papers_24_days() -> None:
    live = PLUGINS.make_task("deepfund_berkshire").windows["live"]
    days = sessions("2025-03-17", "2025-04-17", "XNYS")
    assert len(days) == 24
    assert sessions(live.first, live.last, "XNYS").tolist() == days[1:].tolist()


def test_the_generated_market_has_every_asset_and_an_index() -> None:
    market = make_twin("deepfund", TwinParams(first="2025-01-02", last="2025-04-17"))
    wanted = {code for name in TASKS for code in PLUGINS.make_task(name).describe()["assets"]}
    assert set(market.codes) == wanted
    assert market.member.all()
    assert np.isfinite(market.benchmark).all()
    assert any(True for _ in market.documents)
