"""Metrics of Agent Market Arena and DeepFund: computed by hand, and checked against the public
code's steps or pandas.
"""

from __future__ import annotations

import dataclasses
import json
import math
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import UsageError
from ktdeval.harness import HarnessConfig, StanceForm, StanceRule, Standing
from ktdeval.market import Fees, Instrument, MarketSnapshot, sessions
from ktdeval.masking import Lens, MaskConfig
from ktdeval.registry import load_plugins
from ktdeval.stats import MetricValue
from ktdeval.testing import snapshot_of_days
from ktdeval.testing.ledger_fixtures import ledger_of, step_record
from ktdeval.trading import AccountConfig, Ledger, MarketTape, Scale
from ktdeval.trading.daily_settlement import open_account
from ktdeval.trading.executor import settle
from ktdeval.trading.ledger import ChargeRecord
from ktdeval_arena.ama_figures import FIGURES, figure
from ktdeval_arena.deepfund_figures import figure as fund_figure
from ktdeval_data.params import TwinParams
from ktdeval_data.synthetic_us_crypto import make_twin
from support.figures.metric_cases import order
from support.searching import examples

COIN = Instrument("crypto", "USD", "crypto_spot")
STOCK = Instrument("stock", "USD", "us_equity")
CASH = 10_000_000  # cents
SIDES = {"BUY": 1, "SELL": -1, "HOLD": 0}


def market(
    *prices: float | None, instrument: Instrument = COIN, others: bool = False
) -> MarketSnapshot:
    rows = [[price, 5.0] if others else [price] for price in prices]
    return snapshot_of_days(
        ("AAA", "BBB")[: 1 + others],
        rows,
        first="2025-08-01",
        instruments=(instrument,) * (1 + others),
    )


def ledger(snapshot: MarketSnapshot, *steps: tuple[float, ...]) -> Ledger:
    """Steps as side held after the trades, NAV before them, what they cost, the NAV at the next
    close, and the worth of what is held there (unless given, the NAV), in units of money.
    """
    made = []
    code = "AAA"

    for row, (side, before, fee, after, *worth) in enumerate(steps):
        value = round((worth[0] if worth else after) * 100) * int(side)
        held = (
            [
                {
                    "code": code,
                    "shares": int(side),
                    "locked": 0,
                    "price_ticks": 1,
                    "value_minor": value,
                }
            ]
            if side
            else []
        )
        trade = order(
            code, filled=1, notional_minor=round(fee * 200_000), fee_minor=round(fee * 100)
        )
        money = {"open_nav_minor": round(before * 100), "nav_minor": round(after * 100)}
        made.append(
            step_record(
                snapshot,
                row,
                row + 1,
                positions=held,
                orders=[trade] if fee else [],
                cash_minor=money["nav_minor"] - value,
                holdings_minor=value,
                **money,
            )
        )

    return dataclasses.replace(ledger_of(made), initial_cash_minor=CASH)


def values(of: Ledger, on: MarketSnapshot, rules: Any = "paper") -> dict[str, MetricValue]:
    return {name.removeprefix("ama_"): figure(name).compute(of, on, rules) for name in FIGURES}


# Long from 100 to 110, short from there to 99, then nothing while the price goes to 108. 100,000 in
# cash, 5 bps a side.
PRICES = (100.0, 110.0, 99.0, 108.0)
STEPS = ((1, 100_000, 50, 109_950), (-1, 109_950, 110, 120_840), (0, 120_840, 60, 120_780))


@pytest.mark.parametrize(("instrument", "year"), [(COIN, 365), (STOCK, 252)])
def test_a_holding_then_a_short_then_nothing_worked_by_hand(
    instrument: Instrument, year: int
) -> None:
    snapshot = market(*PRICES, instrument=instrument)
    figures = values(ledger(snapshot, *STEPS), snapshot)
    path = [99_950, 109_840, 120_780, 120_780]  # after the trades of each close
    growth = 120_780 / 99_950
    first = 109_840 / 99_950 - 1
    second = 120_780 / 109_840 - 1
    # a stock's day without a move is no day
    returns = [0, first, second, 0] if year == 365 else [first, second]
    mean = sum(returns) / len(returns)
    spread = math.sqrt(sum((one - mean) ** 2 for one in returns) / (len(returns) - 1))
    held = [1.0, 1.1, 0.99, 1.08 * 0.9995]
    gaps = [own / 99_950 - other for own, other in zip(path[1:], held[1:], strict=True)]
    shown = {
        "cumulative_return": growth - 1,
        "annualised_return": growth ** (year / len(returns)) - 1,
        "volatility": spread * math.sqrt(year),
        "sharpe": mean / spread * math.sqrt(year),
        "max_drawdown": 0.0,
        "win_rate": 1.0,
        "days_above_buy_and_hold": 2 / 3,  # on the second day, two fees of 5 bps below
        "gap_to_buy_and_hold": sum(gaps) / 3,
    }

    assert {name: value.value for name, value in figures.items()} == {
        name: pytest.approx(one, rel=1e-9) for name, one in shown.items()
    }
    assert figures["sharpe"].n == len(returns)

    strict = values(ledger(snapshot, *STEPS), snapshot, "strict")
    assert strict["cumulative_return"].value == pytest.approx(0.2078, rel=1e-12)  # of 100,000
    assert strict["annualised_return"].value == pytest.approx(1.2078 ** (year / 3) - 1, rel=1e-9)

    returns = [109_840 / 100_000 - 1, second, 0.0]
    assert strict["sharpe"].value == pytest.approx(
        np.mean(returns) / np.std(returns, ddof=1) * math.sqrt(year), rel=1e-9
    )

    # By strict rules Buy & Hold pays for its purchase too.
    gaps = [own / 100_000 - other / 1.0005 for own, other in zip(path[1:], held[1:], strict=True)]
    assert strict["gap_to_buy_and_hold"].value == pytest.approx(sum(gaps) / 3, rel=1e-9)


def test_the_last_position_is_closed_at_cost_and_strict_gains_are_net() -> None:
    snapshot = market(100.0, 100.08)
    held = ledger(snapshot, (1, 100_000, 50, 100_030))
    paper = values(held, snapshot)
    strict = values(held, snapshot, "strict")

    assert paper["cumulative_return"].value == pytest.approx(
        100_030 * 0.9995 / 99_950 - 1, rel=1e-9
    )
    assert strict["cumulative_return"].value == pytest.approx(
        100_030 * 0.9995 / 100_000 - 1, rel=1e-9
    )
    # 8 bps up, 10 bps of costs
    assert (paper["win_rate"].value, strict["win_rate"].value) == (1.0, 0.0)

    fallen = market(100.0, 110.0, 90.0)
    result = values(ledger(fallen, (1, 100_000, 50, 109_945), (1, 109_945, 0, 89_955)), fallen)

    # what it was worth at the last close counts, not at the best
    assert result["win_rate"] == MetricValue(0.0, 1)


@pytest.mark.parametrize(
    ("prices", "gap"),
    [
        (
            (100.0, None, *PRICES[1:3]),
            ((1, 100_000, 50, 100_000 - 50), (1, 99_950, 0, 109_950), STEPS[1]),
        ),
        (
            (None, None, *PRICES[:3]),
            ((0, 100_000, 0, 100_000), (0, 100_000, 0, 100_000), *STEPS[:2]),
        ),
    ],
    ids=["between", "before the first price"],
)
def test_closed_days_of_a_stock_count_under_neither_rule(prices: Any, gap: Any) -> None:
    whole = market(*PRICES[:3], instrument=STOCK)
    weekend = market(*prices, instrument=STOCK)
    for rules in ("paper", "strict"):
        gapped = values(ledger(weekend, *gap), weekend, rules)
        closed = values(ledger(whole, *STEPS[:2]), whole, rules)
        assert {
            name: (figure.value, figure.n)
            for name, figure in gapped.items()
            if name != "max_drawdown"
        } == {
            name: (pytest.approx(figure.value, rel=1e-12), figure.n)
            for name, figure in closed.items()
            if name != "max_drawdown"
        }


@pytest.mark.parametrize("rules", ["paper", "strict"])
def test_a_window_that_ends_on_a_closed_day_still_pays_for_closing(rules: str) -> None:
    whole = market(100.0, 110.0, instrument=STOCK)
    longer = market(100.0, 110.0, None, instrument=STOCK)
    steps = ((1, 100_000, 50, 109_945), (1, 109_945, 0, 109_945))
    one = values(ledger(whole, steps[0]), whole, rules)
    two = values(ledger(longer, *steps), longer, rules)

    assert two["cumulative_return"].value == one["cumulative_return"].value
    assert two["gap_to_buy_and_hold"].value == pytest.approx(
        one["gap_to_buy_and_hold"].value, abs=3e-4
    )


def test_the_cost_of_closing_counts_orders_and_not_margin_calls() -> None:
    snapshot = market(*PRICES)
    plain = ledger(snapshot, *STEPS[:2])
    call = ChargeRecord("margin_call", "BBB", -1, 1, 50_000_000, 0)
    called = dataclasses.replace(
        plain, steps=(msgspec.structs.replace(plain.steps[0], charges=(call,)), *plain.steps[1:])
    )

    assert values(called, snapshot) == values(plain, snapshot)


def test_asset_without_later_prices_still_pays_opening_and_closing_costs() -> None:
    alone = market(100.0, None, instrument=STOCK)
    figures = values(ledger(alone, (1, 100_000, 50, 99_950)), alone, "strict")

    assert figures["cumulative_return"].value == pytest.approx(
        99_950 * 0.9995 / 100_000 - 1, rel=1e-9
    )
    assert (figures["win_rate"], figures["days_above_buy_and_hold"].n) == (MetricValue(0.0, 1), 1)


def test_figures_without_a_value_have_a_reason() -> None:
    two = market(*PRICES[:3], others=True)
    idle = values(ledger(two, (0, 100_000, 0, 100_000), (0, 100_000, 0, 100_000)), two)

    assert idle["cumulative_return"].value == 0.0
    assert idle["sharpe"].reason == "the returns do not vary"
    assert idle["win_rate"].reason == "no position was held"
    assert "several assets, or none, were traded" in str(idle["gap_to_buy_and_hold"].reason)

    first, second = ledger(two, STEPS[0], STEPS[2]).steps
    orders = (msgspec.structs.replace(second.orders[0], code="BBB"),)
    both = dataclasses.replace(
        ledger(two, STEPS[0]), steps=(first, msgspec.structs.replace(second, orders=orders))
    )

    assert (
        values(both, two)["win_rate"].reason
        == "several assets were traded, so positions have no common side"
    )

    lost = values(ledger(two, (1, 100_000, 50, 0), (1, 0, 0, 0)), two)
    assert {one.reason for one in lost.values()} == {
        "the account's value is zero or negative on a step"
    }

    one = market(*PRICES[:3])
    alone = values(ledger(one, (0, 100_000, 0, 100_000), (0, 100_000, 0, 100_000)), one)

    assert alone["gap_to_buy_and_hold"].value == pytest.approx(
        ((1 - 1.1) + (1 - 0.99 * 0.9995)) / 2, rel=1e-9
    )


def public(prices: list[float], sides: list[int], year: int) -> dict[str, float]:
    """The public code's figures, in pandas, of an account that is on these sides from each close
    on.
    """
    capital = 100_000.0
    side = 0
    entry = 1.0
    path = []

    for price, now in zip(prices, [*sides, sides[-1]], strict=True):
        if now != side:
            capital *= (1 + side * (price / entry - 1)) * (1 - 5e-4) ** (abs(side) + abs(now))
            side = now
            entry = price

        path.append(capital * (1 + side * (price / entry - 1)))

    path[-1] *= (1 - 5e-4) ** abs(side)
    series = pd.Series(path)
    returns = series.pct_change().fillna(0)
    returns = returns[returns != 0] if year == 252 and (returns != 0).any() else returns
    held = pd.Series(prices) / prices[0]
    held.iloc[-1] *= 1 - 5e-4
    gap = (series / series.iloc[0] - held).iloc[1:]

    return {
        "cumulative_return": path[-1] / path[0] - 1,
        "volatility": returns.std() * math.sqrt(year),
        "sharpe": returns.mean() / returns.std() * math.sqrt(year),
        "max_drawdown": -((series - series.expanding().max()) / series.expanding().max()).min(),
        "gap_to_buy_and_hold": gap.mean(),
    }


@pytest.mark.slow
@examples(20)
@given(
    moves=st.lists(
        st.floats(0.93, 1.08).filter(lambda move: abs(move - 1) > 1e-3), min_size=4, max_size=30
    ),
    decisions=st.lists(st.sampled_from(["BUY", "SELL", "HOLD"]), min_size=30, max_size=30),
    instrument=st.sampled_from([COIN, STOCK]),
)
def test_figures_of_any_decisions_match_the_public_code(
    moves: list[float], decisions: list[str], instrument: Instrument
) -> None:
    prices = [round(float(price), 6) for price in np.cumprod([100.0, *moves])]
    sides = ["BUY", *decisions[1 : len(moves)]]
    snapshot = market(*prices, instrument=instrument)
    config = AccountConfig(
        venue="frictionless", fees=Fees(buy_bps=5, sell_bps=5), max_positions=1, max_weight=1.0
    ).rules("test")
    tape = MarketTape.from_snapshot(snapshot, config)
    lens = Lens(MaskConfig("bright"), 1, snapshot, 0)
    lens.asset_handle(0)
    form = StanceForm(HarnessConfig(), lens, StanceRule(1.0, "flat", True))
    account = open_account(config)
    nav = CASH / 100
    made = []

    for row, decision in enumerate(sides):
        worth = (
            abs(account.positions[0].shares) * prices[row] / 1e8 / nav if account.positions else 0.0
        )
        form.today(
            (0,),
            account.positions,
            None,
            {0: Standing(StanceRule.compute_invested(Fees(buy_bps=5, sell_bps=5), worth), worth)},
        )
        item = {
            "stock_id": "AAA",
            "decision": decision,
            "confidence": 0.6,
            "reason": "because it fits",
        }
        orders = form.read(
            json.dumps({"decisions": [item], "overall_reason": "so"})
        ).submission.action
        assert orders is not None
        day = settle(account, tape.day(row + 1), orders, row)
        assert [outcome.status for outcome in day.outcomes] == ["filled"] * len(orders)
        account = day.after
        nav = day.nav_minor / 100
        shares = account.positions[0].shares if account.positions else 0
        assert np.sign(shares) == SIDES[decision]
        fee = sum(one.fee_minor for one in day.outcomes) / 100
        made.append(
            (
                SIDES[decision],
                day.open_nav_minor / 100,
                fee,
                nav,
                abs(shares) * prices[row + 1] / 1e8,
            )
        )

    figures = values(ledger(snapshot, *made), snapshot)
    theirs = public(prices, [SIDES[one] for one in sides], 365 if instrument is COIN else 252)
    # Theirs takes 5 bps of the account, ours of the notional, which differ for a short by its gain
    # or loss since it was opened.
    a_day = 5e-4 * 0.12
    volatility = 2 * math.sqrt(365) * a_day
    # A Sharpe ratio of few returns moves with each of them.
    sharpe = max(0.05, (365 * a_day + volatility * abs(theirs["sharpe"])) / theirs["volatility"])

    for name, value in theirs.items():
        loose = {"sharpe": sharpe, "volatility": volatility}.get(
            name, max(1e-4, a_day * len(moves))
        )
        if math.isnan(value):  # of one return there is no standard deviation
            assert figures[name].value is None, name
        else:
            assert figures[name].value == pytest.approx(value, rel=2e-3, abs=loose), name


# ---- DeepFund


FUND_CASH = 1_000_000
FREE = 0.0429


def fund_market(
    prices: list[list[float | None]], index: list[float] | None = None, **more: Any
) -> MarketSnapshot:
    made = snapshot_of_days(("AAA", "BBB"), prices, **more)
    levels = np.array(index if index is not None else [100.0 + row for row in range(len(prices))])
    return dataclasses.replace(made, indices={"000300.SH": levels})


def position(code: str, shares: int, value: int) -> dict[str, Any]:
    return {"code": code, "shares": shares, "locked": 0, "price_ticks": 1, "value_minor": value}


def trade(code: str, side: str, filled: int, notional: int, fee: int = 0) -> dict[str, Any]:
    fields = {
        "code": code,
        "stock_id": None,
        "side": side,
        "confidence": 0.5,
        "reason": "",
        "target_weight": None,
        "shares": filled,
    }
    done = {
        "status": "filled",
        "rule": None,
        "message": "",
        "filled_shares": filled,
        "price_ticks": 1,
    }
    return {**fields, **done, "notional_minor": notional, "fee_minor": fee}


def fund_ledger(
    snapshot: MarketSnapshot, navs: list[int], steps: dict[int, dict[str, Any]] | None = None
) -> Ledger:
    made = [
        step_record(
            snapshot, row, row + 1, nav_minor=nav, cash_minor=nav, **(steps or {}).get(row, {})
        )
        for row, nav in enumerate(navs)
    ]
    scales = {code: Scale(fill="same_close") for code in snapshot.codes}
    return dataclasses.replace(ledger_of(made), initial_cash_minor=FUND_CASH, scales=scales)


def value(name: str, of: Ledger, on: MarketSnapshot, rules: Any = "paper") -> MetricValue:
    return fund_figure(name).compute(of, on, rules)


def test_sharpe_beta_and_alpha_by_hand() -> None:
    # NAV +2 %, -1 %, +2 %; index +1 %, -1 %, +3 %: means 1 % and 1 %, deviations (1, -2, 1) and (0,
    # -2, 2) %.
    snapshot = fund_market([[1.0, 1.0]] * 4, [100.0, 101.0, 99.99, 102.9897])
    made = fund_ledger(snapshot, [1_020_000, 1_009_800, 1_029_996])
    beta = (0 + 4 + 2) / (4 + 4)

    assert value("df_beta", made, snapshot).value == pytest.approx(beta, rel=1e-9)

    daily = FREE / 252
    assert value("df_sharpe", made, snapshot).value == pytest.approx(
        (0.01 - daily) / math.sqrt(3e-4) * math.sqrt(252), rel=1e-9
    )
    assert value("df_alpha", made, snapshot).value == pytest.approx(
        252 * (0.01 - daily) * (1 - beta), rel=1e-9
    )

    strict = 1.0429 ** (1 / 365) - 1
    coins = dataclasses.replace(made, days_a_year=365)
    figures = [
        value(name, coins, snapshot, "strict").value
        for name in ("df_sharpe", "df_alpha", "df_beta")
    ]
    expected = [
        (0.01 - strict) / math.sqrt(3e-4) * math.sqrt(365),
        365 * (0.01 - strict) * (1 - beta),
        beta,
    ]

    assert figures == pytest.approx(expected, rel=1e-9)


def test_buy_and_hold_keeps_the_first_portfolio_through_splits_and_gaps() -> None:
    # After day 1: 400,000 in cash, 500,000 in AAA, 100,000 in BBB. AAA halves by a 2:1 split and
    # then rises by 10 %; BBB has no price at the end and rose by 50 % before: 400,000 + 550,000 +
    # 150,000. What they cost on day 0, before it, does not count.
    prices: list[list[float | None]] = [[8.0, 5.0], [10.0, 4.0], [5.0, 6.0], [5.5, None]]
    snapshot = fund_market(prices, factor=[[1.0, 1.0], [1.0, 1.0], [2.0, 1.0], [2.0, 1.0]])
    held = {"positions": [position("AAA", 50, 500_000), position("BBB", 25, 100_000)]}
    made = fund_ledger(snapshot, [FUND_CASH, 5, 7], {0: held})
    first = dataclasses.replace(
        made,
        steps=(
            step_record(snapshot, 0, 1, nav_minor=FUND_CASH, cash_minor=400_000, **held),
            *made.steps[1:],
        ),
    )

    for rules in ("paper", "strict"):
        assert value("df_buy_and_hold", first, snapshot, rules).value == pytest.approx(
            0.1, rel=1e-12
        )

    # all in cash
    assert value("df_buy_and_hold", fund_ledger(snapshot, [FUND_CASH] * 3), snapshot).value == 0.0


def test_a_win_is_a_day_in_the_paper_and_a_sale_by_strict_rules() -> None:
    snapshot = fund_market([[1.0, 1.0]] * 6)
    buys = {
        "orders": [trade("AAA", "BUY", 100, 1000, 10)],
        "positions": [position("AAA", 100, 1000)],
    }
    # 3010 for 200: 15.05 each
    more = {"orders": [trade("AAA", "BUY", 100, 2000)], "positions": [position("AAA", 200, 4000)]}
    # 7.525 each
    split = {
        "code": "AAA",
        "ratio": 2.0,
        "shares_before": 200,
        "shares_after": 400,
        "cash_minor": 0,
    }
    sells = {
        "corporate_actions": [split],
        "orders": [
            trade("AAA", "SELL", 100, 753),
            trade("AAA", "SELL", 100, 753, 1),
            trade("BBB", "SELL", 0, 0),
        ],
        "positions": [position("AAA", 200, 4000)],
    }
    last = {"orders": [trade("AAA", "SELL", 200, 1505)]}  # at cost: no profit
    made = fund_ledger(
        snapshot,
        [FUND_CASH, FUND_CASH + 5, FUND_CASH + 5, FUND_CASH + 4, FUND_CASH + 9],
        {0: buys, 1: more, 2: sells, 3: last},
    )

    assert value("df_win_rate", made, snapshot) == MetricValue(0.4, 5)
    assert value("df_win_rate", made, snapshot, "strict") == MetricValue(1 / 3, 3)
    assert (
        value("df_win_rate", fund_ledger(snapshot, [FUND_CASH]), snapshot, "strict").reason
        == "nothing held was sold"
    )


def test_win_rate_judges_sales_in_order_of_margin_calls_sells_and_buys() -> None:
    snapshot = fund_market([[1.0, 1.0]] * 6)
    call = {
        "kind": "margin_call",
        "code": "AAA",
        "shares": -100,
        "price_ticks": 1,
        "cash_minor": 2000,
        "fee_minor": 0,
    }
    days = {
        0: {"orders": [trade("AAA", "BUY", 100, 1000)]},
        # sold at 15 what had cost 10
        1: {"orders": [trade("AAA", "BUY", 100, 3000), trade("AAA", "SELL", 100, 1500)]},
        2: {"charges": [call]},  # at 20 what had cost 30
        3: {"orders": [trade("AAA", "BUY", 100, 500)]},
        # at 6 what had cost 5, whatever was lost on what was held before
        4: {"orders": [trade("AAA", "SELL", 100, 600)]},
    }
    made = fund_ledger(snapshot, [FUND_CASH] * 5, days)

    assert value("df_win_rate", made, snapshot, "strict") == MetricValue(2 / 3, 3)


def test_an_effective_order_is_followed_by_its_move() -> None:
    snapshot = fund_market([[1.0, 5.0], [2.0, 5.0], [1.5, 5.0], [1.6, 4.0]])
    # 1 to 2; 5 to 5
    trades = [trade("AAA", "BUY", 5, 5), trade("BBB", "BUY", 5, 25), trade("BBB", "SELL", 0, 0)]
    # 2 to 1.5
    made = fund_ledger(
        snapshot,
        [FUND_CASH] * 3,
        {0: {"orders": trades}, 1: {"orders": [trade("AAA", "SELL", 5, 10)]}},
    )

    assert value("df_effectiveness", made, snapshot) == MetricValue(2 / 3, 3)
    assert (
        value("df_effectiveness", fund_ledger(snapshot, [FUND_CASH] * 3), snapshot).reason
        == "no filled order with a next price"
    )


def test_a_figure_of_deepfund_without_a_value_has_a_reason() -> None:
    snapshot = fund_market([[1.0, 1.0]] * 4)
    made = fund_ledger(snapshot, [FUND_CASH + 1, FUND_CASH + 5, FUND_CASH])
    bare = dataclasses.replace(snapshot, meta=dataclasses.replace(snapshot.meta, benchmark=""))
    flat = dataclasses.replace(snapshot, indices={"000300.SH": np.full(4, 100.0)})

    for name in ("df_beta", "df_alpha"):
        assert value(name, made, bare) == MetricValue(None, 3, "benchmark: the market has no index")
        assert value(name, made, flat).reason == "the benchmark does not vary"
        assert (
            value(name, fund_ledger(snapshot, [FUND_CASH]), snapshot).reason
            == "fewer than two days"
        )

    assert (
        value("df_sharpe", fund_ledger(snapshot, [FUND_CASH] * 3), snapshot).reason
        == "returns have no variance"
    )

    for name in ("df_sharpe", "df_win_rate", "df_beta", "df_alpha"):
        assert (
            value(name, fund_ledger(snapshot, [FUND_CASH, 0]), snapshot).reason
            == "a level is not positive"
        )

    with pytest.raises(UsageError, match=r"unknown figure 'df_bet' of DeepFund.*df_beta"):
        fund_figure("df_bet")


@pytest.mark.slow
@examples(20)
@given(st.lists(st.tuples(st.floats(0.9, 1.1), st.floats(0.9, 1.1)), min_size=3, max_size=30))
def test_figures_agree_with_pandas(moves: list[tuple[float, float]]) -> None:
    own, index = (np.cumprod([1.0, *side]) for side in zip(*moves, strict=True))
    navs = [round(FUND_CASH * FUND_CASH * level) for level in own[1:]]
    snapshot = fund_market([[1.0, 1.0]] * len(own), (100 * index).tolist())
    made = dataclasses.replace(
        fund_ledger(snapshot, navs), initial_cash_minor=FUND_CASH * FUND_CASH
    )
    frame = pd.DataFrame({"r": [FUND_CASH * FUND_CASH, *navs], "m": index}).pct_change().dropna()

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

    same = fund_market([[1.0, 1.0]] * len(own), [FUND_CASH * FUND_CASH, *navs])  # the index itself
    if frame["r"].std() > 1e-6:
        assert value("df_beta", made, same).value == pytest.approx(1.0, rel=1e-9)
        assert value("df_alpha", made, same).value == pytest.approx(0.0, abs=1e-9)


# -- tasks and their generated market


PLUGINS = load_plugins()
TASKS = sorted(name for name, spec in PLUGINS.specs("tasks").items() if "deepfund" in spec.groups)


def test_the_window_has_the_returns_of_the_papers_24_days() -> None:
    live = PLUGINS.make_task("deepfund_berkshire").windows["live"]
    days = sessions("2025-03-17", "2025-04-17", "XNYS")
    assert len(days) == 24
    assert sessions(live.first, live.last, "XNYS").tolist() == days[1:].tolist()


def test_the_generated_market_has_every_asset_and_an_index() -> None:
    market = make_twin("deepfund", TwinParams(first="2025-01-02", last="2025-04-17"))
    tasks = map(PLUGINS.make_task, TASKS)
    wanted = set(chain.from_iterable(task.describe()["assets"] for task in tasks))

    assert set(market.codes) == wanted
    assert market.member.all()
    assert np.isfinite(market.benchmark).all()
    assert any(True for _ in market.documents)
