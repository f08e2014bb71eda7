"""Figures of InvestorBench, worked by hand."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.market import Instrument, MarketSnapshot
from ktdeval.stats import MetricValue
from ktdeval.testing.ledgers import ledger_of, step_record
from ktdeval.trading import Ledger
from ktdeval_investorbench.figures import figure
from searching import examples
from trading_market import make_market

NAMES = ("ib_cumulative_return", "ib_sharpe", "ib_volatility", "ib_max_drawdown")
COIN, STOCK = Instrument("crypto", "USD", "crypto_spot"), Instrument("stock", "USD", "us_equity")


def market(*prices: float | None, instrument: Instrument = COIN) -> MarketSnapshot:
    return make_market(("AAA", "BBB"), [[price, 5.0] for price in prices], first="2023-04-03", instruments=(instrument,) * 2)


def ledger(snapshot: MarketSnapshot, sides: tuple[int, ...], navs: tuple[int, ...] | None = None, code: str = "AAA") -> Ledger:
    """One step a day from the second on; positions of a share of either sign, or none."""
    steps = []
    for place, side in enumerate(sides):
        held = [{"code": code, "shares": side, "locked": 0, "price_ticks": 1, "value_minor": side}] if side else []
        nav = 1_000_000 if navs is None else navs[place]
        money = {"positions": held, "cash_minor": nav - side, "holdings_minor": side, "nav_minor": nav}
        steps.append(step_record(snapshot, place, place + 1, **money))
    return dataclasses.replace(ledger_of(steps), initial_cash_minor=1_000_000)


def values(of: Ledger, on: MarketSnapshot, rules: Any = "paper") -> dict[str, MetricValue]:
    return {name: figure(name).compute(of, on, rules) for name in NAMES}


@pytest.mark.parametrize(("instrument", "days"), [(COIN, 365), (STOCK, 252)])
def test_a_holding_then_a_short_worked_by_hand(instrument: Instrument, days: int) -> None:
    # Held from 100 to 110, short from 110 to 121, out to 60: log returns +0.09531, -0.09531, 0.
    snapshot = market(100.0, 110.0, 121.0, 60.0, instrument=instrument)
    found = values(ledger(snapshot, (1, -1, 0)), snapshot)
    up = math.log(1.1)
    assert found["ib_cumulative_return"].value == pytest.approx(0.0, abs=1e-15)
    assert found["ib_volatility"].value == pytest.approx(up * math.sqrt(days), rel=1e-12)  # sd of (x, -x, 0) is x
    assert found["ib_sharpe"].value == pytest.approx(0.0, abs=1e-12)
    assert found["ib_max_drawdown"].value == pytest.approx(up, rel=1e-12)  # 1, 1 + x, (1 + x)(1 - x)
    held = values(ledger(snapshot, (1, 1, 1)), snapshot)
    returns = [up, up, math.log(60 / 121)]
    mean = sum(returns) / 3
    sd = math.sqrt(sum((one - mean) ** 2 for one in returns) / 2)
    assert held["ib_cumulative_return"].value == pytest.approx(math.log(0.6), rel=1e-12)
    assert held["ib_sharpe"].value == pytest.approx(math.log(0.6) / (4 / 252) / (sd * math.sqrt(days)), rel=1e-12)
    assert [one.n for one in held.values()] == [3] * 4


def test_a_day_without_a_price_is_skipped_and_counts_no_return() -> None:
    whole, gap = market(100.0, 110.0, 130.0), market(100.0, 110.0, None, 130.0)
    found = values(ledger(gap, (1, 1, 1)), gap)
    assert {name: one.value for name, one in found.items()} == {
        name: pytest.approx(one.value, rel=1e-12) for name, one in values(ledger(whole, (1, 1)), whole).items()
    }


def test_strict_figures_are_those_of_the_nav() -> None:
    snapshot = market(100.0, 110.0, 121.0, 60.0)
    found = values(ledger(snapshot, (1, 1, 0), (1_100_000, 1_050_000, 1_050_000)), snapshot, "strict")
    returns = np.array([math.log(1.1), math.log(1.05 / 1.1), 0.0])
    assert found["ib_cumulative_return"].value == pytest.approx(math.log(1.05), rel=1e-12)
    assert found["ib_max_drawdown"].value == pytest.approx(1 - 1.05 / 1.1, rel=1e-12)
    sd = float(np.std(returns, ddof=1)) * math.sqrt(365)
    assert found["ib_sharpe"].value == pytest.approx(math.log(1.05) / (3 / 365) / sd, rel=1e-12)


def test_what_has_no_value_says_why() -> None:
    snapshot = market(100.0, 110.0, 121.0)
    none = values(ledger(snapshot, (0, 0)), snapshot)
    assert [none[name].value for name in NAMES] == [0.0, None, 0.0, 0.0]
    assert none["ib_sharpe"].reason == "the returns do not vary"
    steady = values(ledger(snapshot, (1, 1)), snapshot)  # 10 % twice: equal but for rounding
    assert steady["ib_sharpe"].reason == "the returns do not vary"
    lost = values(ledger(snapshot, (1, 1), (100, 0)), snapshot, "strict")
    assert {one.reason for one in lost.values()} == {"the NAV is not positive on a step"}


def test_figures_of_a_portfolio_are_of_its_nav_with_the_conventions_of_the_paper() -> None:
    snapshot = market(100.0, 110.0, 121.0, instrument=STOCK)
    navs = (1_100_000, 1_050_000)
    first, second = ledger(snapshot, (1, 1), navs).steps[0], ledger(snapshot, (1, -1), navs, code="BBB").steps[1]
    both = dataclasses.replace(ledger(snapshot, (1, 1)), steps=(first, second))
    found, strict = values(both, snapshot), values(both, snapshot, "strict")
    up, down = math.log(1.1), math.log(1.05 / 1.1)
    volatility = abs(up - down) / math.sqrt(2) * math.sqrt(252)
    assert [found[name].value for name in NAMES] == [
        pytest.approx(value, rel=1e-12)
        for value in (math.log(1.05), math.log(1.05) / (3 / 252) / volatility, volatility, -down)  # N is prices: 3
    ]
    assert strict["ib_sharpe"].value == pytest.approx(math.log(1.05) / (2 / 252) / volatility, rel=1e-12)
    assert strict["ib_max_drawdown"].value == pytest.approx(1 - 1.05 / 1.1, rel=1e-12)


@examples(40)
@given(st.lists(st.floats(0.5, 2.0), min_size=3, max_size=30))
def test_buy_and_hold_sums_to_the_log_of_the_whole_and_a_short_to_its_negative(moves: list[float]) -> None:
    prices = np.cumprod([100.0, *moves]).tolist()
    snapshot, sides = market(*prices), (1,) * len(moves)
    long, short = values(ledger(snapshot, sides), snapshot), values(ledger(snapshot, tuple(-side for side in sides)), snapshot)
    assert long["ib_cumulative_return"].value == pytest.approx(math.log(prices[-1] / prices[0]), abs=1e-9)
    assert short["ib_cumulative_return"].value == pytest.approx(-math.log(prices[-1] / prices[0]), abs=1e-9)
    assert long["ib_volatility"].value == pytest.approx(short["ib_volatility"].value, abs=1e-12)
