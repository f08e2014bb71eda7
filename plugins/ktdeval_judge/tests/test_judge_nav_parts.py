"""A claimed NAV against an executed one: each planted deviation is named, and the parts add up."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.market import Instrument, MarketSnapshot, find_venue
from ktdeval.testing import snapshot_of_days
from ktdeval.trading import AccountConfig, TradingConfig
from ktdeval_judge.counterfactual import Counterfactuals, _is_on_credit
from ktdeval_judge.market_plan import market_plan
from ktdeval_judge.nav_parts import CAUSES, PRICES, Cause, Simulated, _larger, compare_navs
from ktdeval_judge.readers import ReadOptions, read_declared

A, B, C = "000002.SZ", "300003.SZ", "600001.SH"
FREE = TradingConfig(
    max_weight=1.0,
    max_positions=10,
    buy_fee_bps=0.0,
    sell_fee_bps=0.0,
    min_fee_cny=0.0,
    lot_shares=1,
)


def counterfactuals(
    folder: Path, text: str, market: MarketSnapshot, trading: TradingConfig
) -> Counterfactuals:
    path = folder / "declared.csv"
    path.write_text(text)
    declared = read_declared(path, ReadOptions())
    return Counterfactuals(market_plan(declared, market, trading), market, trading)


# ---- models


@pytest.mark.parametrize(
    ("causes", "form", "expected"),
    [
        ({"sizing"}, "weight", True),
        ({"limits"}, "weight", False),
        ({"limits"}, "orders", True),
        ({"costs"}, "orders", False),
    ],
)
def test_orders_are_on_credit_where_their_size_or_cash_is_no_limit(
    causes: set[Cause], form: str, expected: bool
) -> None:
    assert _is_on_credit(frozenset(causes), form) is expected


def test_a_larger_model_has_one_cause_more_and_one_price() -> None:
    possible = ("costs", "lots", "fill_at_open", "fill_at_close", "fill_at_declared")
    models: Any = SimpleNamespace(possible=possible, fit_causes=lambda causes: causes)
    fit: Any = SimpleNamespace(causes=frozenset({"costs", "fill_at_open"}))

    found = list(_larger(models, fit, ("fill_at_open", "fill_at_close")))

    assert found == [{"costs", "fill_at_open", "lots"}, {"costs", "fill_at_close"}]


def test_each_asset_of_two_venues_keeps_its_venue_at_another_fill_price() -> None:
    venues = [find_venue("frictionless"), find_venue("us_equity")]
    market = snapshot_of_days(
        ["A", "B"],
        [[10.0, 10.0]] * 3,
        first="2024-01-02",
        instruments=tuple(Instrument("stock", "USD", venue.name) for venue in venues),
        rules={venue.name: venue for venue in venues},
    )
    made: Any = None  # no plan is needed
    runs = Counterfactuals(made, market, TradingConfig())

    tape = runs._read_tape(frozenset({"fill_at_close"}))

    assert [(venue.name, venue.fill) for venue in tape.rules.venues] == [
        ("frictionless", "next_close"),
        ("us_equity", "next_close"),
    ]


# ---- worked by hand


def test_module_example_is_diagnosed_as_a_fill_at_the_decision_close(
    tmp_path: Path,
) -> None:
    market = snapshot_of_days(
        [C],
        opens=[[10.0], [10.5], [11.0]],
        closes=[[10.0], [11.0], [12.0]],
        first="2024-01-01",
    )
    runs = counterfactuals(tmp_path, "date,code,weight\n2024-01-01,600001.SH,1\n", market, FREE)

    executed = runs.run(frozenset()).path
    # 1,000,000 / 10.5 is 95,238 whole shares, bought on the second day
    assert executed[1] == pytest.approx(1_000_000 + 95_238 * 0.5)
    claimed = np.array([100.0, 110.0])
    found = compare_navs(claimed, runs.run, runs.possible)

    assert found.found == ("fill_at_decision",)
    assert found.looks_ahead
    assert found.first_parting == 1
    assert found.parting_cause == "fill_at_decision"
    in_all = found.claimed_return - found.executed_return
    assert math.fsum(part.value for part in found.parts) == pytest.approx(in_all, abs=1e-15)


def test_two_equal_navs_do_not_part(tmp_path: Path) -> None:
    runs = planted_market(tmp_path)
    found = compare_navs(runs.run(frozenset()).path / 7.0, runs.run, runs.possible)

    assert found.agrees
    assert found.found == ()
    assert not found.looks_ahead


def test_a_nav_that_nothing_explains_is_left_to_the_remainder(tmp_path: Path) -> None:
    runs = planted_market(tmp_path)
    executed = runs.run(frozenset()).path
    rising = executed * np.linspace(1.0, 1.5, len(executed))
    found = compare_navs(rising, runs.run, runs.possible)

    assert not found.is_explained
    remainder = found.parts[-1]
    assert remainder.cause == "remainder"
    assert abs(remainder.value) > 0.3


def test_fees_of_the_file_take_the_place_of_the_venues(tmp_path: Path) -> None:
    market = snapshot_of_days(
        [C],
        opens=[[10.0], [10.0], [12.0], [12.0]],
        closes=[[10.0], [11.0], [12.0], [12.5]],
        first="2024-01-01",
    )
    text = "date,code,side,qty,price,fee\n2024-01-02,600001.SH,buy,5000,10,700\n"
    costly = AccountConfig(initial_cash=60_000, max_weight=1.0, max_positions=10).rules("test")
    runs = counterfactuals(tmp_path, text, market, costly)
    assert "declared_fees" in runs.possible

    # 9,300 of cash after the fee, and 5,000 shares at 11
    claimed = np.array([60_000.0, 64_300.0])
    assert runs.run(frozenset({"costs", "declared_fees"})).path == pytest.approx(claimed)
    found = compare_navs(claimed, runs.run, runs.possible)
    assert set(found.found) == {"costs", "declared_fees"}
    assert found.parts[-1].value == pytest.approx(0.0, abs=1e-12)


# ---- planted on a market where each cause matters


def planted_market(folder: Path) -> Counterfactuals:
    """Sixty days of three shares: gaps at the open, a dividend, a halt, opens at the limit."""
    chance = np.random.default_rng(5)
    days = 60
    moves = chance.normal(0.001, 0.02, (days, 3))
    closes = np.round(np.array([8.0, 23.0, 61.0]) * np.exp(np.cumsum(moves, axis=0)), 2)
    opens = np.round(closes * np.exp(chance.normal(0.0, 0.012, (days, 3))), 2)
    volumes = np.full((days, 3), 1e7)

    # an open at the upper limit on a day on which the plan buys, and a halt on another one
    opens[13, 0] = round(closes[12, 0] * 1.10, 2)
    closes[13, 0] = opens[13, 0]
    volumes[25, 1] = 0.0
    volumes[27, 0] = 0.0  # of a decision, for fills at its close
    # a dividend of a tenth
    factor = np.ones((days, 3))
    factor[30:, 2] = 1.1

    market = snapshot_of_days(
        [A, B, C],
        opens=opens.tolist(),
        closes=closes.tolist(),
        volume=volumes.tolist(),
        factor=factor.tolist(),
        first="2024-01-01",
    )
    lines = ["date,code,weight"]
    for row in range(0, days - 1, 3):
        weights = chance.dirichlet(np.ones(3)) * 0.95
        for code, weight in zip((A, B, C), weights, strict=True):
            lines.append(f"{market.days[row]},{code},{weight:.4f}")

    trading = AccountConfig(initial_cash=60_000, max_weight=1.0, max_positions=10).rules("test")
    return counterfactuals(folder, "\n".join(lines) + "\n", market, trading)


PLANTED: tuple[Cause, ...] = tuple(
    cause
    for cause in CAUSES
    if cause
    not in (
        "fitted_fee",
        "declared_fees",
        "fill_at_declared",
        "fill_at_open",
        "fill_before_decision",
    )
)
PAIRS = [pair for pair in itertools.combinations(PLANTED, 2) if len(PRICES & frozenset(pair)) < 2]


@pytest.mark.parametrize("cause", PLANTED)
def test_a_deviation_planted_alone_is_named_and_nothing_else(cause: Cause, tmp_path: Path) -> None:
    runs = planted_market(tmp_path)
    found = compare_navs(runs.run(frozenset({cause})).path, runs.run, runs.possible)

    assert found.found == (cause,)
    assert found.parting_cause == cause
    assert found.remaining_gap == 0.0
    assert found.looks_ahead == (cause == "fill_at_decision")


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_deviations_planted_together_are_both_named(
    pair: tuple[Cause, Cause], tmp_path: Path
) -> None:
    runs = planted_market(tmp_path)
    found = compare_navs(runs.run(frozenset(pair)).path, runs.run, runs.possible)

    assert set(found.found) == set(pair)
    assert found.remaining_gap == 0.0
    in_all = found.claimed_return - found.executed_return
    assert math.fsum(part.value for part in found.parts) == pytest.approx(in_all, abs=1e-12)


# ---- laws

RETURNS = st.lists(st.floats(-0.05, 0.05), min_size=1, max_size=30)


@pytest.mark.exhaustive
@given(claimed=RETURNS, effects=st.lists(RETURNS, min_size=2, max_size=2))
def test_the_parts_add_up_whatever_is_claimed(
    claimed: list[float], effects: list[list[float]]
) -> None:
    days = len(claimed)

    def simulate(causes: frozenset[Cause], _fee: float) -> Simulated:
        path = np.ones(days + 1)
        for cause, effect in zip(("costs", "lots"), effects, strict=True):
            if cause in causes:
                padded = np.resize(np.array(effect), days)
                path[1:] *= np.cumprod(1.0 + padded)
        return Simulated(path, np.zeros(days + 1))

    path = np.cumprod(np.concatenate([[1.0], 1.0 + np.array(claimed)]))
    found = compare_navs(path, simulate, ("costs", "lots"))

    in_all = found.claimed_return - found.executed_return
    assert math.fsum(part.value for part in found.parts) == pytest.approx(in_all, abs=1e-12)
    assert found.remaining_gap <= found.largest_gap * 3 + 1e-12


@pytest.mark.parametrize("wrong", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, np.nan], [1.0, np.inf]])
def test_a_nav_that_is_none_is_refused(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        compare_navs(np.array(wrong), lambda *_: Simulated(np.ones(2), np.zeros(2)))
