"""Margin of options, against figures that exchanges and brokers have published, and against the greatest loss by brute force."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings, strategies as st

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


def required(*options: OptionHolding, spot: float, shares: int = 0) -> float:
    return required_e4(margin_groups(options, shares, e4(spot), RULES)) / 10_000


def in_terms_of_equity(*options: OptionHolding, spot: float, shares: int = 0) -> float:
    """The requirement less the value of short options and with that of long ones; without that of shares."""
    return required(*options, spot=spot, shares=shares) + sum(option.qty * option.mark_e4 for option in options) / 100


def strategies(*options: OptionHolding, spot: float, shares: int = 0) -> list[str]:
    return [group.strategy for group in margin_groups(options, shares, e4(spot), RULES)]


# --- Figures published by others -------------------------------------------------------------------------------------------------


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
def test_a_published_requirement_is_met_to_the_cent(options: list[OptionHolding], spot: float, published: float) -> None:
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
def test_the_requirement_on_equity_is_that_of_the_examples_of_cboe(
    options: list[OptionHolding], shares: int, published: int
) -> None:
    """Cboe, Margin Requirement Examples for Sample Options-based Positions: IBM at $97.73, deposits after premiums."""
    assert in_terms_of_equity(*options, spot=97.73, shares=shares) == pytest.approx(published, abs=1e-6)


# --- The formula of an option that nothing offsets ------------------------------------------------------------------------------


def test_far_out_of_the_money_the_floor_is_a_tenth_of_the_underlying_for_a_call_and_of_the_strike_for_a_put() -> None:
    assert uncovered_e4(contract("C", 150), e4(0.10), e4(100), RULES) == e4(100 * (0.10 + 10.00))
    assert uncovered_e4(contract("P", 50), e4(0.10), e4(100), RULES) == e4(100 * (0.10 + 5.00))


def test_in_the_money_nothing_is_taken_off_the_twenty_percent() -> None:
    assert uncovered_e4(contract("C", 90), e4(11), e4(100), RULES) == e4(100 * (11 + 20))
    assert uncovered_e4(contract("P", 110), e4(11), e4(100), RULES) == e4(100 * (11 + 20))


def test_rates_come_from_the_rules() -> None:
    rules = MarginRules(option_short_pct=30, option_short_floor_pct=15)
    assert uncovered_e4(contract("C", 100), e4(2), e4(100), rules) == e4(100 * 32)
    assert uncovered_e4(contract("C", 200), e4(2), e4(100), rules) == e4(100 * 17)


# --- What offsets what ----------------------------------------------------------------------------------------------------------


def test_long_options_alone_have_no_group() -> None:
    assert margin_groups([held("C", 100, 5, 2), held("P", 100, 5, 2)], 0, e4(100), RULES) == ()


def test_shares_cover_calls_by_the_hundred() -> None:
    assert strategies(held("C", 110, -2, 1), spot=100, shares=200) == ["COVERED"]
    assert strategies(held("C", 110, -2, 1), spot=100, shares=199) == ["COVERED", "UNCOVERED"]
    assert required(held("C", 110, -2, 1), spot=100, shares=200) == 0


def test_a_covered_call_in_the_money_still_requires_what_the_shares_will_not_bring() -> None:
    assert required(held("C", 90, -1, 12), spot=100, shares=100) == 1_000


def test_shares_sold_short_cover_puts() -> None:
    assert strategies(held("P", 90, -1, 1), spot=100, shares=-100) == ["COVERED"]
    assert strategies(held("C", 110, -1, 1), spot=100, shares=-100) == ["UNCOVERED"]


def test_shares_go_to_the_call_that_they_save_most_on() -> None:
    groups = margin_groups([held("C", 101, -1, 4), held("C", 130, -1, 0.2)], 100, e4(100), RULES)
    assert [(group.strategy, group.legs[0][0]) for group in groups] == [
        ("COVERED", contract("C", 101)),
        ("UNCOVERED", contract("C", 130)),
    ]


def test_a_debit_spread_requires_no_more_than_was_paid() -> None:
    assert required(held("C", 95, 1, 8), held("C", 105, -1, 3), spot=100) == 0
    assert in_terms_of_equity(held("C", 95, 1, 8), held("C", 105, -1, 3), spot=100) == 500


def test_a_credit_spread_requires_its_greatest_loss() -> None:
    assert in_terms_of_equity(held("P", 95, -1, 3), held("P", 90, 1, 1), spot=100) == 500 - 200


def test_a_long_option_that_expires_first_covers_nothing() -> None:
    early, late = date(2025, 1, 17), date(2025, 2, 21)
    assert strategies(held("C", 100, -1, 3, late), held("C", 100, 1, 1, early), spot=100) == ["UNCOVERED"]
    assert strategies(held("C", 100, -1, 1, early), held("C", 100, 1, 3, late), spot=100) == ["SPREAD"]
    assert required(held("C", 100, -1, 1, early), held("C", 100, 1, 3, late), spot=100) == 0


def test_a_spread_so_wide_that_it_could_lose_more_requires_what_it_does_uncovered() -> None:
    wide = [held("P", 100, -1, 4), held("P", 20, 1, 0.01)]
    assert strategies(*wide, spot=100) == ["UNCOVERED"]
    assert required(*wide, spot=100) == 2_400


def test_a_long_butterfly_requires_only_what_was_paid() -> None:
    wings = [held("C", 50, 1, 50.5), held("C", 100, -2, 5), held("C", 150, 1, 0.1)]
    assert required(*wings, spot=100) == 0


def test_a_ratio_spread_leaves_the_rest_uncovered() -> None:
    groups = margin_groups([held("C", 100, -3, 3), held("C", 105, 1, 1.5)], 0, e4(100), RULES)
    assert [(group.strategy, group.required_e4) for group in groups] == [("SPREAD", e4(500)), ("UNCOVERED", e4(2 * 100 * (3 + 20)))]


def test_options_that_expire_apart_are_not_one_spread() -> None:
    """At each expiry the spot is another, so an iron condor of two expiries can lose on both sides."""
    near, far = date(2025, 1, 17), date(2025, 2, 21)
    both = [held("P", 95, -1, 3, near), held("P", 90, 1, 1, near), held("C", 105, -1, 3, far), held("C", 110, 1, 1, far)]
    assert required(*both, spot=100) == 1_000


def test_groups_do_not_depend_on_the_order_of_the_holdings() -> None:
    options = [held("C", 100, -2, 3), held("C", 105, 1, 1.5), held("P", 95, -1, 2), held("P", 95, 1, 2.5, date(2025, 3, 21))]
    assert margin_groups(options, 100, e4(100), RULES) == margin_groups(options[::-1], 100, e4(100), RULES)


# --- Laws ------------------------------------------------------------------------------------------------------------------------

EXPIRIES = (date(2025, 1, 17), date(2025, 2, 21))
OPTIONS = st.lists(
    st.builds(
        held,
        st.sampled_from("CP"),
        st.integers(14, 26).map(lambda step: step * 5),
        st.integers(-4, 4),
        st.integers(1, 400).map(lambda cents: cents / 10),
        st.sampled_from(EXPIRIES),
    ),
    max_size=6,
    unique_by=lambda option: option.contract,
)
SPOTS = st.integers(60, 140).map(float)


@given(OPTIONS, SPOTS, st.sampled_from((0, 100, 300, -200)))
@settings(max_examples=150)
def test_offsets_never_require_more_than_every_short_option_by_itself(
    options: list[OptionHolding], spot: float, shares: int
) -> None:
    alone = sum(
        -option.qty * uncovered_e4(option.contract, option.mark_e4, e4(spot), RULES) for option in options if option.qty < 0
    )
    assert 0 <= required_e4(margin_groups(options, shares, e4(spot), RULES)) <= alone


@given(OPTIONS, SPOTS, st.sampled_from((0, 100, 300, -200)))
@settings(max_examples=150)
def test_every_short_contract_is_in_just_one_group_and_no_long_one_in_more_than_there_are(
    options: list[OptionHolding], spot: float, shares: int
) -> None:
    used: dict[OptionContract, list[int]] = {}
    for group in margin_groups(options, shares, e4(spot), RULES):
        for terms, qty in group.legs:
            used.setdefault(terms, []).append(qty)
    for option in options:
        legs = used.get(option.contract, [])
        assert sum(legs) == option.qty if option.qty < 0 else sum(legs) <= option.qty


@given(OPTIONS, SPOTS)
@settings(max_examples=200)
def test_a_spread_requires_at_least_what_its_legs_can_lose_at_any_spot_when_the_short_ones_expire(
    options: list[OptionHolding], spot: float
) -> None:
    """Brute force over spots from 0 to twice the highest strike; long legs that live on are worth at least their exercise."""
    for group in margin_groups(options, 0, e4(spot), RULES):
        if group.strategy == "SPREAD":
            assert len({terms.expiry for terms, qty in group.legs if qty < 0}) == 1
            losses = [-sum(100 * qty * terms.intrinsic_e4(e4(at)) for terms, qty in group.legs) for at in range(261)]
            assert group.required_e4 == max(0, *losses)


@given(
    st.lists(st.tuples(st.sampled_from("CP"), st.integers(18, 22), st.integers(18, 22), st.integers(1, 3)), min_size=1, max_size=3)
)
@settings(max_examples=150)
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


# --- CASH accounts ---------------------------------------------------------------------------------------------------------------


def test_in_a_cash_account_puts_set_their_strike_aside_and_calls_need_shares() -> None:
    options = [held("P", 95, -2, 1.5), held("C", 110, -1, 1)]
    groups = cash_account_groups(options, 100, e4(100), RULES)
    assert [(group.strategy, group.required_e4) for group in groups] == [("COVERED", 0), ("CASH_SECURED", e4(19_000))]


def test_in_a_cash_account_a_long_option_offsets_nothing() -> None:
    groups = cash_account_groups([held("P", 95, -1, 1.5), held("P", 90, 1, 1)], 0, e4(100), RULES)
    assert [group.strategy for group in groups] == ["CASH_SECURED"]


def test_calls_beyond_the_shares_are_counted() -> None:
    assert uncovered_calls({contract("C", 100): -3, contract("C", 90): 5, contract("P", 90): -1}, 250) == 1
