"""Option margin, against figures published by exchanges and brokers, and against the brute-force
maximum loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.testing import on_each_row
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.pmb.broker_types import MarginRules
from ktdeval_qfinzero.pmb.portfolio import (
    OptionHolding,
    cash_account_groups,
    greatest_loss_e4,
    margin_groups,
    required_e4,
    uncovered_calls,
    uncovered_e4,
)
from support.qfinzero.qfinzero_margin import contract, e4, held

RULES = MarginRules()
NEAR = date(2025, 1, 17)
FAR = date(2025, 2, 21)
Options = list[OptionHolding]
Rows = list[list[Any]]


def holdings(rows: Rows) -> Options:
    """Options of a table: right, strike, contracts, price, and NEAR or FAR."""
    expiries = {"NEAR": NEAR, "FAR": FAR}
    return [held(*row[:4], *map(expiries.__getitem__, row[4:])) for row in rows]


def required(*options: OptionHolding, spot: float, shares: int = 0) -> float:
    return required_e4(margin_groups(options, shares, e4(spot), RULES)) / 10_000


# ---- figures published by others


# Options as right, strike, contracts (negative: sold) and price.
@on_each_row(
    "options, spot, published",
    # Brokers' public examples, premium included.
    ([["C", 47, -1, 2.1]], 45, 910),
    ([["P", 43, -1, 1.2]], 45, 820),
    ([["C", 47, -1, 2.1], ["P", 43, -1, 1.2]], 45, 1030),
    ([["P", 200, -1, 1.2]], 209, 3400),
    # Cboe Margin Manual: a short straddle.
    ([["C", 90, -1, 7.0], ["P", 90, -1, 3.7]], 92.63, 2922.6),
    # SEC Release 34-67752: a call spread whose greatest loss is the difference of its strikes.
    ([["C", 60, 1, 1.0], ["C", 50, -1, 4.0]], 50, 1000),
    # Ten iron condors 160/170/180/190: only one side can lose.
    ([["P", 160, 10, 1], ["P", 170, -10, 2], ["C", 180, -10, 2], ["C", 190, 10, 1]], 175, 10000),
    # Short butterflies.
    ([["P", 75, -3, 1.5], ["P", 80, 6, 4.0], ["P", 85, -3, 6.0]], 79, 1500),
    ([["P", 42, -6, 0.9], ["P", 37, 12, 0.15], ["P", 32, -6, 0.05]], 42, 3000),
)
def test_a_published_requirement_is_met_to_the_cent(
    options: Rows, spot: float, published: float
) -> None:
    assert required(*holdings(options), spot=spot) == published


@on_each_row(
    "options, shares, published",
    # short call
    ([["C", 100, -100, 1.68]], 0, 172_760),
    # short put
    ([["P", 100, -100, 3.18]], 0, 195_460),
    # synthetic long
    ([["C", 100, 100, 1.68], ["P", 100, -100, 3.18]], 0, 212_260),
    # risk reversal
    ([["P", 95, 100, 1.02], ["C", 105, -100, 0.4]], 0, 132_960),
    # long call spread
    ([["C", 95, 100, 4.53], ["C", 105, -100, 0.4]], 0, 41300),
    # covered call: 471,850 less half the value of the shares, 488,650
    ([["C", 100, -100, 1.68]], 10000, -16800),
    # protective put: 498,850 less it
    ([["P", 95, 100, 1.02]], 10000, 10200),
    # collar: 494,850 less it
    ([["P", 95, 100, 1.02], ["C", 105, -100, 0.4]], 10000, 6200),
)
def test_the_requirement_on_equity_is_that_of_the_examples_of_cboe(
    options: Rows, shares: int, published: int
) -> None:
    """Cboe, Margin Requirement Examples for Sample Options-based Positions: IBM at $97.73, deposits
    after premiums.
    """
    # of long options less that of short ones
    worth = sum(option.qty * option.mark_e4 for option in holdings(options)) / 100

    assert required(*holdings(options), spot=97.73, shares=shares) + worth == pytest.approx(
        published, abs=1e-6
    )


@on_each_row(
    "right, strike, mark, pct, a_share",
    # far out of the money the floor is a tenth of the underlying for a call
    ("C", 150, 0.1, [20, 10], 10.1),
    # and of the strike for a put
    ("P", 50, 0.1, [20, 10], 5.1),
    # in the money nothing is taken off the twenty percent
    ("C", 90, 11, [20, 10], 31),
    ("P", 110, 11, [20, 10], 31),
    # rates come from the rules
    ("C", 100, 2, [30, 15], 32),
    ("C", 200, 2, [30, 15], 17),
)
def test_an_option_that_nothing_offsets_requires(
    right: str, strike: float, mark: float, pct: tuple[int, int], a_share: float
) -> None:
    rules = MarginRules(option_short_pct=pct[0], option_short_floor_pct=pct[1])
    assert uncovered_e4(contract(right, strike), e4(mark), e4(100), rules) == e4(100 * a_share)  # type: ignore[arg-type]


# ---- what offsets what


@on_each_row(
    "options, shares, strategies, requirement",
    # long options alone have no group
    ([["C", 100, 5, 2], ["P", 100, 5, 2]], 0, [], 0),
    # shares cover calls by the hundred
    ([["C", 110, -2, 1]], 200, ["COVERED"], 0),
    ([["C", 110, -2, 1]], 199, ["COVERED", "UNCOVERED"], 1100),
    # in the money: what the shares will not bring
    ([["C", 90, -1, 12]], 100, ["COVERED"], 1000),
    # shares sold short cover puts
    ([["P", 90, -1, 1]], -100, ["COVERED"], 0),
    ([["C", 110, -1, 1]], -100, ["UNCOVERED"], 1100),
    # a debit spread requires no more than was paid
    ([["C", 95, 1, 8], ["C", 105, -1, 3]], 0, ["SPREAD"], 0),
    # a credit spread its greatest loss
    ([["P", 95, -1, 3], ["P", 90, 1, 1]], 0, ["SPREAD"], 500),
    # what expires first covers nothing
    ([["C", 100, -1, 3, "FAR"], ["C", 100, 1, 1, "NEAR"]], 0, ["UNCOVERED"], 2300),
    ([["C", 100, -1, 1, "NEAR"], ["C", 100, 1, 3, "FAR"]], 0, ["SPREAD"], 0),
    # so wide that it could lose more
    ([["P", 100, -1, 4], ["P", 20, 1, 0.01]], 0, ["UNCOVERED"], 2400),
    # a long butterfly
    ([["C", 50, 1, 50.5], ["C", 100, -2, 5], ["C", 150, 1, 0.1]], 0, ["SPREAD"], 0),
    # a ratio spread
    ([["C", 100, -3, 3], ["C", 105, 1, 1.5]], 0, ["SPREAD", "UNCOVERED"], 5100),
    # At each expiry the spot is another, so an iron condor of two expiries can lose on both sides.
    (
        [
            ["P", 95, -1, 3, "NEAR"],
            ["P", 90, 1, 1, "NEAR"],
            ["C", 105, -1, 3, "FAR"],
            ["C", 110, 1, 1, "FAR"],
        ],
        0,
        ["SPREAD", "SPREAD"],
        1000,
    ),
)
def test_what_offsets_a_short_option_is_looked_for(
    options: Rows, shares: int, strategies: list[str], requirement: float
) -> None:
    groups = margin_groups(holdings(options), shares, e4(100), RULES)
    assert sorted(group.strategy for group in groups) == strategies
    assert required(*holdings(options), spot=100, shares=shares) == requirement


def test_shares_go_to_the_call_that_they_save_most_on() -> None:
    groups = margin_groups([held("C", 101, -1, 4), held("C", 130, -1, 0.2)], 100, e4(100), RULES)
    contract_of = {group.strategy: group.legs[0][0] for group in groups}
    assert contract_of == {"COVERED": contract("C", 101), "UNCOVERED": contract("C", 130)}


def test_groups_do_not_depend_on_the_order_of_the_holdings() -> None:
    options = [
        held("C", 100, -2, 3),
        held("C", 105, 1, 1.5),
        held("P", 95, -1, 2),
        held("P", 95, 1, 2.5, date(2025, 3, 21)),
    ]

    assert margin_groups(options, 100, e4(100), RULES) == margin_groups(
        options[::-1], 100, e4(100), RULES
    )


# ---- laws

OPTIONS = st.lists(
    st.builds(
        held,
        st.sampled_from("CP"),
        st.integers(14, 26).map(lambda step: step * 5),
        st.integers(-4, 4),
        st.integers(1, 400).map(lambda cents: cents / 10),
        st.sampled_from((NEAR, FAR)),
    ),
    max_size=6,
    unique_by=lambda option: option.contract,
)


def loss_of_legs(legs: Iterable[tuple[OptionContract, int]], spot: float) -> int:
    """Loss per share of contracts that are exercised at a price, in ten-thousandths of a dollar."""
    return -sum(qty * terms.intrinsic_e4(e4(spot)) for terms, qty in legs)


@pytest.mark.slow
@given(OPTIONS, st.integers(60, 140).map(float), st.sampled_from((0, 100, 300, -200)))
def test_each_short_contract_is_in_one_group_and_offsets_never_cost_more(
    options: Options, spot: float, shares: int
) -> None:
    """No long contract is used more often than it is held; a spread requires at least what its legs
    can lose, by brute force over spots from 0 to twice the highest strike (long legs that live on
    are worth at least their exercise).
    """
    groups = margin_groups(options, shares, e4(spot), RULES)
    alone = sum(
        -each.qty * uncovered_e4(each.contract, each.mark_e4, e4(spot), RULES)
        for each in options
        if each.qty < 0
    )

    assert 0 <= required_e4(groups) <= alone

    used: dict[OptionContract, list[int]] = {}

    for group in groups:
        for terms, qty in group.legs:
            used.setdefault(terms, []).append(qty)

        if group.strategy == "SPREAD":
            assert len({terms.expiry for terms, qty in group.legs if qty < 0}) == 1
            losses = [100 * loss_of_legs(group.legs, at) for at in range(261)]
            assert group.required_e4 == max(0, *losses)

    for option in options:
        legs = used.get(option.contract, [])
        assert sum(legs) == option.qty if option.qty < 0 else sum(legs) <= option.qty


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from("CP"), st.integers(18, 22), st.integers(18, 22), st.integers(1, 3)
        ),
        min_size=1,
        max_size=3,
    )
)
def test_limited_risk_set_requires_at_least_its_greatest_loss(
    pairs: list[tuple[str, int, int, int]],
) -> None:
    """Verticals of one expiry, all marks zero, so that the loss of equity is what exercise
    costs.
    """
    legs: dict[tuple[str, int], int] = {}

    for right, sold, bought, qty in pairs:
        legs[right, sold] = legs.get((right, sold), 0) - qty
        legs[right, bought] = legs.get((right, bought), 0) + qty

    options = [held(right, strike * 5, qty, 0) for (right, strike), qty in legs.items() if qty]  # type: ignore[arg-type]
    groups = margin_groups(options, 0, e4(100), RULES)
    contracts = [(option.contract, option.qty) for option in options]
    worst = 100 * max(loss_of_legs(contracts, at) for at in range(221))

    if all(group.strategy == "SPREAD" for group in groups):
        assert required_e4(groups) >= worst

    assert greatest_loss_e4({option.contract: option.qty for option in options}) == max(0, worst)


def test_cash_account_secures_short_puts_by_cash_and_calls_by_shares() -> None:
    groups = cash_account_groups(
        [held("P", 95, -2, 1.5), held("C", 110, -1, 1), held("P", 90, 1, 1)], 100, e4(100), RULES
    )

    assert [(group.strategy, group.required_e4) for group in groups] == [
        ("COVERED", 0),
        ("CASH_SECURED", e4(19_000)),
    ]
    assert (
        uncovered_calls({contract("C", 100): -3, contract("C", 90): 5, contract("P", 90): -1}, 250)
        == 1
    )
