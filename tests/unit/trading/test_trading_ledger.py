"""Arrays and units of a ledger, worked by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktdeval.market import Instrument
from ktdeval.testing import snapshot_of_days
from ktdeval.testing.ledger_fixtures import ledger_of, step_record
from ktdeval.trading import AccountConfig, Ledger, MarketRules, Scale, TradingConfig
from ktdeval.trading.order_outcomes import REJECTED, REJECTIONS
from support.figures.ledger_cases import short_ledger
from support.figures.metric_cases import order

MARKET = snapshot_of_days(["600001.SH"], [[10.0], [10.5], [10.5], [11.0]])


def ledger(*navs: int) -> Ledger:
    """NAVs of closes in fen, after 1,000 CNY."""
    steps = [
        step_record(MARKET, row, row + 1, nav_minor=nav, cash_minor=nav)
        for row, nav in enumerate(navs)
    ]
    return dataclasses.replace(ledger_of(steps), initial_cash_minor=100_000)


def test_navs_returns_and_days_by_hand() -> None:
    made = ledger(110_000, 99_000)
    assert made.nav.tolist() == [1000.0, 1100.0, 990.0]
    assert made.returns == pytest.approx([0.1, -0.1], abs=1e-15)
    assert made.days.astype(str).tolist() == ["1970-01-02", "1970-01-03"]
    assert str(made.base_day) == "1970-01-01"
    assert made.column("nav_minor").tolist() == [110_000, 99_000]


@pytest.mark.parametrize("name", ["nav", "returns", "days"])
def test_arrays_that_all_metrics_share_can_not_be_written(name: str) -> None:
    shared = getattr(ledger(110_000, 99_000), name)
    with pytest.raises(ValueError, match="read-only"):
        shared[0] = shared[1]


def test_return_resolution_uses_the_lowest_positive_nav() -> None:
    assert ledger(110_000, 50_000).return_resolution == pytest.approx(0.01 / 500)
    assert ledger(50_000, 0).return_resolution == pytest.approx(0.01 / 500)
    assert dataclasses.replace(ledger(0, -5), initial_cash_minor=0).return_resolution == 0.0
    assert np.isfinite(ledger(1, 0).return_resolution)


def held(code: str, value_minor: int) -> dict[str, object]:
    return {
        "code": code,
        "shares": value_minor // 1_000,
        "locked": 0,
        "price_ticks": 100_000,
        "value_minor": value_minor,
    }


def test_weights_are_fractions_of_the_nav_and_undefined_without_one() -> None:
    positions = [held("600001.SH", 30_000), held("600002.SH", -20_000)]
    step = step_record(MARKET, 0, 1, nav_minor=80_000, positions=positions)
    assert step.weights == {"600001.SH": 0.375, "600002.SH": -0.25}

    ruined = step_record(MARKET, 0, 1, nav_minor=0, positions=positions)
    assert list(ruined.weights) == ["600001.SH", "600002.SH"]
    assert np.isnan(list(ruined.weights.values())).all()


def test_units_of_a_code_are_its_own_or_default_to_a_shares() -> None:
    assert Scale() == (10_000, 1, "next_open")
    assert short_ledger().scale("TSLA") == (10_000, 10_000, "next_open")

    made = ledger(100_000)
    assert made.scale("600001.SH") == Scale()
    assert (made.fill("600001.SH"), short_ledger().fill("TSLA")) == (None, "next_open")


def test_ledger_of_another_market_is_converted_to_its_units() -> None:
    made = ledger(100_000)
    assert made.in_units_of(MARKET, MarketRules.of(MARKET, TradingConfig())) is made

    stocks = (Instrument("stock", "USD", "us_equity"), Instrument("stock", "USD", "us_equity"))
    market = snapshot_of_days(["AAA", "BBB"], [[10.0, 20.0], [10.5, 20.0]], instruments=stocks)
    market = dataclasses.replace(
        market, meta=dataclasses.replace(market.meta, benchmark=""), indices={}, index_names={}
    )
    steps = [
        step_record(
            market, 0, 1, orders=[order("BBB", "BUY", filled=10_000), order(None, "BUY", filled=0)]
        )
    ]
    rules = MarketRules.of(market, AccountConfig().rules("test"))
    converted = ledger_of(steps).in_units_of(market, rules)

    assert (converted.currency, converted.minor_per_unit, converted.days_a_year) == (
        "USD",
        100,
        252,
    )
    assert converted.scales == {"BBB": rules.scales[1]}
    assert converted.scale("BBB").steps_per_unit == 10_000


def test_a_rejected_order_has_a_rule_and_a_message_and_no_figures() -> None:
    assert set(REJECTED) == set(REJECTIONS)
    assert {
        (one.status, one.shares, one.price_ticks, one.notional_minor, one.fee_minor)
        for one in REJECTED.values()
    } == {("rejected", 0, 0, 0, 0)}
    assert [(one.rule, one.message) for one in REJECTED.values()] == list(REJECTIONS.items())
