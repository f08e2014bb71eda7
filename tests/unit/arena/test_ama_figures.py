"""Figures of Agent Market Arena: worked by hand, and against the public code's steps in pandas."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.harness import HarnessConfig, StanceForm, StanceRule, Standing
from ktdeval.market import Fees, Instrument, MarketSnapshot
from ktdeval.masking import Lens, MaskConfig
from ktdeval.stats import MetricValue
from ktdeval.testing.ledgers import ledger_of, step_record
from ktdeval.trading import AccountConfig, Ledger, MarketTape
from ktdeval.trading.account import open_account
from ktdeval.trading.executor import settle
from ktdeval.trading.ledger import ChargeRecord
from ktdeval_arena.ama_figures import FIGURES, figure
from metric_cases import order
from searching import examples
from trading_market import make_market

COIN, STOCK = Instrument("crypto", "USD", "crypto_spot"), Instrument("stock", "USD", "us_equity")
CASH = 10_000_000  # cents
SIDES = {"BUY": 1, "SELL": -1, "HOLD": 0}


def market(*prices: float | None, instrument: Instrument = COIN, others: bool = False) -> MarketSnapshot:
    rows = [[price, 5.0] if others else [price] for price in prices]
    return make_market(("AAA", "BBB")[: 1 + others], rows, first="2025-08-01", instruments=(instrument,) * (1 + others))


def ledger(snapshot: MarketSnapshot, *steps: tuple[float, ...]) -> Ledger:
    """Steps as side held after the trades, NAV before them, what they cost, the NAV at the next close, and the worth of what is
    held there (unless given, the NAV), in units of money.
    """
    made, code = [], "AAA"
    for row, (side, before, fee, after, *worth) in enumerate(steps):
        value = round((worth[0] if worth else after) * 100) * int(side)
        held = [{"code": code, "shares": int(side), "locked": 0, "price_ticks": 1, "value_minor": value}] if side else []
        trade = order(code, filled=1, notional_minor=round(fee * 200_000), fee_minor=round(fee * 100))
        money = {"open_nav_minor": round(before * 100), "nav_minor": round(after * 100)}
        made.append(
            step_record(
                snapshot, row, row + 1, positions=held, orders=[trade] if fee else [], cash_minor=money["nav_minor"] - value,
                holdings_minor=value, **money,
            )
        )  # fmt: skip
    return dataclasses.replace(ledger_of(made), initial_cash_minor=CASH)


def values(of: Ledger, on: MarketSnapshot, rules: Any = "paper") -> dict[str, MetricValue]:
    return {name.removeprefix("ama_"): figure(name).compute(of, on, rules) for name in FIGURES}


# Long from 100 to 110, short from there to 99, then nothing while the price goes to 108. 100,000 in cash, 5 bps a side.
PRICES = (100.0, 110.0, 99.0, 108.0)
STEPS = ((1, 100_000, 50, 109_950), (-1, 109_950, 110, 120_840), (0, 120_840, 60, 120_780))


@pytest.mark.parametrize(("instrument", "year"), [(COIN, 365), (STOCK, 252)])
def test_a_holding_then_a_short_then_nothing_worked_by_hand(instrument: Instrument, year: int) -> None:
    snapshot = market(*PRICES, instrument=instrument)
    figures = values(ledger(snapshot, *STEPS), snapshot)
    path = [99_950, 109_840, 120_780, 120_780]  # after the trades of each close
    growth, first, second = 120_780 / 99_950, 109_840 / 99_950 - 1, 120_780 / 109_840 - 1
    returns = [0, first, second, 0] if year == 365 else [first, second]  # a stock's day without a move is no day
    mean = sum(returns) / len(returns)
    spread = math.sqrt(sum((one - mean) ** 2 for one in returns) / (len(returns) - 1))
    held = [1.0, 1.1, 0.99, 1.08 * 0.9995]
    gaps = [own / 99_950 - other for own, other in zip(path[1:], held[1:], strict=True)]
    told = {
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
        name: pytest.approx(one, rel=1e-9) for name, one in told.items()
    }
    assert figures["sharpe"].n == len(returns)
    strict = values(ledger(snapshot, *STEPS), snapshot, "strict")
    assert strict["cumulative_return"].value == pytest.approx(0.2078, rel=1e-12)  # of 100,000
    assert strict["annualised_return"].value == pytest.approx(1.2078 ** (year / 3) - 1, rel=1e-9)
    returns = [109_840 / 100_000 - 1, second, 0.0]
    assert strict["sharpe"].value == pytest.approx(np.mean(returns) / np.std(returns, ddof=1) * math.sqrt(year), rel=1e-9)
    # By strict rules Buy & Hold pays for its purchase too.
    gaps = [own / 100_000 - other / 1.0005 for own, other in zip(path[1:], held[1:], strict=True)]
    assert strict["gap_to_buy_and_hold"].value == pytest.approx(sum(gaps) / 3, rel=1e-9)


def test_the_last_position_is_closed_at_the_runs_cost_and_its_gain_counts_after_costs_under_strict() -> None:
    snapshot = market(100.0, 100.08)
    held = ledger(snapshot, (1, 100_000, 50, 100_030))
    paper, strict = values(held, snapshot), values(held, snapshot, "strict")
    assert paper["cumulative_return"].value == pytest.approx(100_030 * 0.9995 / 99_950 - 1, rel=1e-9)
    assert strict["cumulative_return"].value == pytest.approx(100_030 * 0.9995 / 100_000 - 1, rel=1e-9)
    assert (paper["win_rate"].value, strict["win_rate"].value) == (1.0, 0.0)  # 8 bps up, 10 bps of costs
    fallen = market(100.0, 110.0, 90.0)
    kept = values(ledger(fallen, (1, 100_000, 50, 109_945), (1, 109_945, 0, 89_955)), fallen)
    assert kept["win_rate"] == MetricValue(0.0, 1)  # what it was worth at the last close counts, not at the best


def test_days_on_which_the_exchange_is_closed_count_under_neither_rule_for_stocks() -> None:
    steps = STEPS[:2]
    gap = ((1, 100_000, 50, 100_000 - 50), (1, 99_950, 0, 109_950), STEPS[1])
    whole, weekend = market(*PRICES[:3], instrument=STOCK), market(100.0, None, *PRICES[1:3], instrument=STOCK)
    for rules in ("paper", "strict"):
        gapped, closed = values(ledger(weekend, *gap), weekend, rules), values(ledger(whole, *steps), whole, rules)
        assert {name: (figure.value, figure.n) for name, figure in gapped.items() if name != "max_drawdown"} == {
            name: (pytest.approx(figure.value, rel=1e-12), figure.n) for name, figure in closed.items() if name != "max_drawdown"
        }


def test_a_window_that_ends_on_a_closed_day_still_pays_for_closing() -> None:
    whole, longer = market(100.0, 110.0, instrument=STOCK), market(100.0, 110.0, None, instrument=STOCK)
    steps = ((1, 100_000, 50, 109_945), (1, 109_945, 0, 109_945))
    for rules in ("paper", "strict"):
        one, two = values(ledger(whole, steps[0]), whole, rules), values(ledger(longer, *steps), longer, rules)
        assert two["cumulative_return"].value == one["cumulative_return"].value
        assert two["gap_to_buy_and_hold"].value == pytest.approx(one["gap_to_buy_and_hold"].value, abs=3e-4)


def test_an_asset_without_a_price_after_the_first_pays_for_opening_and_closing() -> None:
    alone = market(100.0, None, instrument=STOCK)
    figures = values(ledger(alone, (1, 100_000, 50, 99_950)), alone, "strict")
    assert figures["cumulative_return"].value == pytest.approx(99_950 * 0.9995 / 100_000 - 1, rel=1e-9)
    assert (figures["win_rate"], figures["days_above_buy_and_hold"].n) == (MetricValue(0.0, 1), 1)


def test_the_cost_of_closing_is_that_of_orders_whatever_a_margin_call_traded() -> None:
    snapshot = market(*PRICES)
    plain = ledger(snapshot, *STEPS[:2])
    call = ChargeRecord("margin_call", "BBB", -1, 1, 50_000_000, 0)
    called = dataclasses.replace(plain, steps=(msgspec.structs.replace(plain.steps[0], charges=(call,)), *plain.steps[1:]))
    assert values(called, snapshot) == values(plain, snapshot)


def test_what_has_no_value_says_why() -> None:
    two = market(*PRICES[:3], others=True)
    idle = values(ledger(two, (0, 100_000, 0, 100_000), (0, 100_000, 0, 100_000)), two)
    assert idle["cumulative_return"].value == 0.0
    assert idle["sharpe"].reason == "the returns do not vary"
    assert idle["win_rate"].reason == "no position was held"
    assert "is not known: several, or none, were traded" in str(idle["gap_to_buy_and_hold"].reason)
    first, second = ledger(two, STEPS[0], STEPS[2]).steps
    orders = (msgspec.structs.replace(second.orders[0], code="BBB"),)
    both = dataclasses.replace(ledger(two, STEPS[0]), steps=(first, msgspec.structs.replace(second, orders=orders)))
    assert values(both, two)["win_rate"].reason == "several assets were traded: their positions have no common side"
    lost = values(ledger(two, (1, 100_000, 50, 0), (1, 0, 0, 0)), two)
    assert {one.reason for one in lost.values()} == {"the account is worth nothing on a step"}
    one = market(*PRICES[:3])
    alone = values(ledger(one, (0, 100_000, 0, 100_000), (0, 100_000, 0, 100_000)), one)
    assert alone["gap_to_buy_and_hold"].value == pytest.approx(((1 - 1.1) + (1 - 0.99 * 0.9995)) / 2, rel=1e-9)


def public(prices: list[float], sides: list[int], year: int) -> dict[str, float]:
    """The public code's figures, in pandas, of an account that is on these sides from each close on."""
    capital, side, entry, path = 100_000.0, 0, 1.0, []
    for price, now in zip(prices, [*sides, sides[-1]], strict=True):
        if now != side:
            capital *= (1 + side * (price / entry - 1)) * (1 - 5e-4) ** (abs(side) + abs(now))
            side, entry = now, price
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


@examples(20)
@given(
    moves=st.lists(st.floats(0.93, 1.08).filter(lambda move: abs(move - 1) > 1e-3), min_size=4, max_size=30),
    decisions=st.lists(st.sampled_from(["BUY", "SELL", "HOLD"]), min_size=30, max_size=30),
    instrument=st.sampled_from([COIN, STOCK]),
)
def test_figures_of_any_decisions_are_those_of_the_public_code(
    moves: list[float], decisions: list[str], instrument: Instrument
) -> None:
    prices = [round(float(price), 6) for price in np.cumprod([100.0, *moves])]
    said = ["BUY", *decisions[1 : len(moves)]]
    snapshot = market(*prices, instrument=instrument)
    config = AccountConfig(venue="frictionless", fees=Fees(buy_bps=5, sell_bps=5), max_positions=1, max_weight=1.0).rules("test")
    tape, lens = MarketTape.from_snapshot(snapshot, config), Lens(MaskConfig("bright"), 1, snapshot, 0)
    lens.asset_handle(0)
    form = StanceForm(HarnessConfig(), lens, StanceRule(1.0, "flat", True))
    account, nav, made = open_account(config), CASH / 100, []
    for row, decision in enumerate(said):
        worth = abs(account.positions[0].shares) * prices[row] / 1e8 / nav if account.positions else 0.0
        form.today((0,), account.positions, None, {0: Standing(StanceRule.invested(Fees(buy_bps=5, sell_bps=5), worth), worth)})
        item = {"stock_id": "AAA", "decision": decision, "confidence": 0.6, "reason": "because it fits"}
        orders = form.read(json.dumps({"decisions": [item], "overall_reason": "so"})).submission.action
        assert orders is not None
        day = settle(account, tape.day(row + 1), orders, row)
        assert [outcome.status for outcome in day.outcomes] == ["filled"] * len(orders)
        account, nav = day.after, day.nav_minor / 100
        shares = account.positions[0].shares if account.positions else 0
        assert np.sign(shares) == SIDES[decision]
        fee = sum(one.fee_minor for one in day.outcomes) / 100
        made.append((SIDES[decision], day.open_nav_minor / 100, fee, nav, abs(shares) * prices[row + 1] / 1e8))
    figures = values(ledger(snapshot, *made), snapshot)
    theirs = public(prices, [SIDES[one] for one in said], 365 if instrument is COIN else 252)
    # Theirs takes 5 bps of the account, ours of the notional, which differ for a short by its gain or loss since it was opened.
    a_day = 5e-4 * 0.12
    volatility = 2 * math.sqrt(365) * a_day
    # A Sharpe ratio of few returns moves with each of them.
    sharpe = max(0.05, (365 * a_day + volatility * abs(theirs["sharpe"])) / theirs["volatility"])
    for name, value in theirs.items():
        loose = {"sharpe": sharpe, "volatility": volatility}.get(name, max(1e-4, a_day * len(moves)))
        if math.isnan(value):  # of one return there is no standard deviation
            assert figures[name].value is None, name
        else:
            assert figures[name].value == pytest.approx(value, rel=2e-3, abs=loose), name
