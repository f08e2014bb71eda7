"""Margin of options, against figures that exchanges and brokers have published, and against the greatest loss by brute force."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, strategies as st

from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.pmb.portfolio import (
    OptionHolding,
    cash_account_groups,
    greatest_loss_e4,
    margin_groups,
    required_e4,
    uncovered_calls,
    uncovered_e4,
)
from ktdeval_qfinzero.pmb.values import MarginRules
from qfinzero_margin import contract, e4, held

RULES = MarginRules()
NEAR, FAR = date(2025, 1, 17), date(2025, 2, 21)
Options = list[OptionHolding]


def required(*options: OptionHolding, spot: float, shares: int = 0) -> float:
    return required_e4(margin_groups(options, shares, e4(spot), RULES)) / 10_000


def in_terms_of_equity(*options: OptionHolding, spot: float, shares: int = 0) -> float:
    """The requirement less the value of short options and with that of long ones; without that of shares."""
    return required(*options, spot=spot, shares=shares) + sum(option.qty * option.mark_e4 for option in options) / 100


# ---- figures published by others


@pytest.mark.parametrize(
    ("options", "spot", "published"),
    [
        # Brokers' public examples, premium included.
        ([held("C", 47, -1, 2.10)], 45, 910),
        ([held("P", 43, -1, 1.20)], 45, 820),
        ([held("C", 47, -1, 2.10), held("P", 43, -1, 1.20)], 45, 1_030),
        ([held("P", 200, -1, 1.20)], 209, 3_400),
        # Cboe Margin Manual: a short straddle.
        ([held("C", 90, -1, 7.00), held("P", 90, -1, 3.70)], 92.63, 2_922.60),
        # SEC Release 34-67752: a call spread whose greatest loss is the difference of its strikes.
        ([held("C", 60, 1, 1.00), held("C", 50, -1, 4.00)], 50, 1_000),
        # Ten iron condors 160/170/180/190: only one side can lose.
        ([held("P", 160, 10, 1), held("P", 170, -10, 2), held("C", 180, -10, 2), held("C", 190, 10, 1)], 175, 10_000),
        # Short butterflies.
        ([held("P", 75, -3, 1.50), held("P", 80, 6, 4.00), held("P", 85, -3, 6.00)], 79, 1_500),
        ([held("P", 42, -6, 0.90), held("P", 37, 12, 0.15), held("P", 32, -6, 0.05)], 42, 3_000),
    ],
)
def test_a_published_requirement_is_met_to_the_cent(options: Options, spot: float, published: float) -> None:
    assert required(*options, spot=spot) == published


@pytest.mark.parametrize(
    ("options", "shares", "published"),
    [
        ([held("C", 100, -100, 1.68)], 0, 172_760),  # short call
        ([held("P", 100, -100, 3.18)], 0, 195_460),  # short put
        ([held("C", 100, 100, 1.68), held("P", 100, -100, 3.18)], 0, 212_260),  # synthetic long
        ([held("P", 95, 100, 1.02), held("C", 105, -100, 0.40)], 0, 132_960),  # risk reversal
        ([held("C", 95, 100, 4.53), held("C", 105, -100, 0.40)], 0, 41_300),  # long call spread
        ([held("C", 100, -100, 1.68)], 10_000, 471_850 - 488_650),  # covered call, less half the value of the shares
        ([held("P", 95, 100, 1.02)], 10_000, 498_850 - 488_650),  # protective put
        ([held("P", 95, 100, 1.02), held("C", 105, -100, 0.40)], 10_000, 494_850 - 488_650),  # collar
    ],
)
def test_the_requirement_on_equity_is_that_of_the_examples_of_cboe(options: Options, shares: int, published: int) -> None:
    """Cboe, Margin Requirement Examples for Sample Options-based Positions: IBM at $97.73, deposits after premiums."""
    assert in_terms_of_equity(*options, spot=97.73, shares=shares) == pytest.approx(published, abs=1e-6)


@pytest.mark.parametrize(
    ("right", "strike", "mark", "pct", "a_share"),
    [
        ("C", 150, 0.10, (20, 10), 10.10),  # far out of the money the floor is a tenth of the underlying for a call
        ("P", 50, 0.10, (20, 10), 5.10),  # and of the strike for a put
        ("C", 90, 11, (20, 10), 31),  # in the money nothing is taken off the twenty percent
        ("P", 110, 11, (20, 10), 31),
        ("C", 100, 2, (30, 15), 32),  # rates come from the rules
        ("C", 200, 2, (30, 15), 17),
    ],
)
def test_an_option_that_nothing_offsets_requires(
    right: str, strike: float, mark: float, pct: tuple[int, int], a_share: float
) -> None:
    rules = MarginRules(option_short_pct=pct[0], option_short_floor_pct=pct[1])
    assert uncovered_e4(contract(right, strike), e4(mark), e4(100), rules) == e4(100 * a_share)  # type: ignore[arg-type]


# ---- what offsets what


@pytest.mark.parametrize(
    ("options", "shares", "strategies", "requirement"),
    [
        ([held("C", 100, 5, 2), held("P", 100, 5, 2)], 0, [], 0),  # long options alone have no group
        ([held("C", 110, -2, 1)], 200, ["COVERED"], 0),  # shares cover calls by the hundred
        ([held("C", 110, -2, 1)], 199, ["COVERED", "UNCOVERED"], 1_100),
        ([held("C", 90, -1, 12)], 100, ["COVERED"], 1_000),  # in the money: what the shares will not bring
        ([held("P", 90, -1, 1)], -100, ["COVERED"], 0),  # shares sold short cover puts
        ([held("C", 110, -1, 1)], -100, ["UNCOVERED"], 1_100),
        ([held("C", 95, 1, 8), held("C", 105, -1, 3)], 0, ["SPREAD"], 0),  # a debit spread requires no more than was paid
        ([held("P", 95, -1, 3), held("P", 90, 1, 1)], 0, ["SPREAD"], 500),  # a credit spread its greatest loss
        ([held("C", 100, -1, 3, FAR), held("C", 100, 1, 1, NEAR)], 0, ["UNCOVERED"], 2_300),  # what expires first covers nothing
        ([held("C", 100, -1, 1, NEAR), held("C", 100, 1, 3, FAR)], 0, ["SPREAD"], 0),
        ([held("P", 100, -1, 4), held("P", 20, 1, 0.01)], 0, ["UNCOVERED"], 2_400),  # so wide that it could lose more
        ([held("C", 50, 1, 50.5), held("C", 100, -2, 5), held("C", 150, 1, 0.1)], 0, ["SPREAD"], 0),  # a long butterfly
        ([held("C", 100, -3, 3), held("C", 105, 1, 1.5)], 0, ["SPREAD", "UNCOVERED"], 500 + 2 * 2_300),  # a ratio spread
        # At each expiry the spot is another, so an iron condor of two expiries can lose on both sides.
        (
            [held("P", 95, -1, 3, NEAR), held("P", 90, 1, 1, NEAR), held("C", 105, -1, 3, FAR), held("C", 110, 1, 1, FAR)],
            0,
            ["SPREAD", "SPREAD"],
            1_000,
        ),
    ],
)
def test_what_offsets_a_short_option_is_looked_for(
    options: Options, shares: int, strategies: list[str], requirement: float
) -> None:
    groups = margin_groups(options, shares, e4(100), RULES)
    assert sorted(group.strategy for group in groups) == strategies
    assert required(*options, spot=100, shares=shares) == requirement


def test_shares_go_to_the_call_that_they_save_most_on() -> None:
    groups = margin_groups([held("C", 101, -1, 4), held("C", 130, -1, 0.2)], 100, e4(100), RULES)
    found = {group.strategy: group.legs[0][0] for group in groups}
    assert found == {"COVERED": contract("C", 101), "UNCOVERED": contract("C", 130)}


def test_groups_do_not_depend_on_the_order_of_the_holdings() -> None:
    options = [held("C", 100, -2, 3), held("C", 105, 1, 1.5), held("P", 95, -1, 2), held("P", 95, 1, 2.5, date(2025, 3, 21))]
    assert margin_groups(options, 100, e4(100), RULES) == margin_groups(options[::-1], 100, e4(100), RULES)


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


@given(OPTIONS, st.integers(60, 140).map(float), st.sampled_from((0, 100, 300, -200)))
def test_every_short_contract_is_in_just_one_group_and_offsets_never_cost_more_than_none(
    options: Options, spot: float, shares: int
) -> None:
    """No long contract is used more often than it is held; a spread requires at least what its legs can lose, by brute force over
    spots from 0 to twice the highest strike (long legs that live on are worth at least their exercise).
    """
    groups = margin_groups(options, shares, e4(spot), RULES)
    alone = sum(-each.qty * uncovered_e4(each.contract, each.mark_e4, e4(spot), RULES) for each in options if each.qty < 0)
    assert 0 <= required_e4(groups) <= alone
    used: dict[OptionContract, list[int]] = {}
    for group in groups:
        for terms, qty in group.legs:
            used.setdefault(terms, []).append(qty)
        if group.strategy == "SPREAD":
            assert len({terms.expiry for terms, qty in group.legs if qty < 0}) == 1
            losses = [-sum(100 * qty * terms.intrinsic_e4(e4(at)) for terms, qty in group.legs) for at in range(261)]
            assert group.required_e4 == max(0, *losses)
    for option in options:
        legs = used.get(option.contract, [])
        assert sum(legs) == option.qty if option.qty < 0 else sum(legs) <= option.qty


@given(
    st.lists(st.tuples(st.sampled_from("CP"), st.integers(18, 22), st.integers(18, 22), st.integers(1, 3)), min_size=1, max_size=3)
)
def test_a_set_of_limited_risk_never_requires_less_than_it_can_lose_unless_that_is_the_uncovered_requirement(
    pairs: list[tuple[str, int, int, int]],
) -> None:
    """Verticals of one expiry, all marks zero, so that the loss of equity is what exercise costs."""
    legs: dict[tuple[str, int], int] = {}
    for right, sold, bought, qty in pairs:
        legs[right, sold] = legs.get((right, sold), 0) - qty
        legs[right, bought] = legs.get((right, bought), 0) + qty
    options = [held(right, strike * 5, qty, 0) for (right, strike), qty in legs.items() if qty]  # type: ignore[arg-type]
    groups = margin_groups(options, 0, e4(100), RULES)
    worst = max(-sum(option.qty * option.contract.intrinsic_e4(e4(at)) for option in options) for at in range(221)) * 100
    if all(group.strategy == "SPREAD" for group in groups):
        assert required_e4(groups) >= worst
    assert greatest_loss_e4({option.contract: option.qty for option in options}) == max(0, worst)


def test_in_a_cash_account_puts_set_their_strike_aside_calls_need_shares_and_long_options_offset_nothing() -> None:
    groups = cash_account_groups([held("P", 95, -2, 1.5), held("C", 110, -1, 1), held("P", 90, 1, 1)], 100, e4(100), RULES)
    assert [(group.strategy, group.required_e4) for group in groups] == [("COVERED", 0), ("CASH_SECURED", e4(19_000))]
    assert uncovered_calls({contract("C", 100): -3, contract("C", 90): 5, contract("P", 90): -1}, 250) == 1
