"""Expiry, exercise and assignment of options."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.pmb.day_events import (
    Ending,
    delivery_event,
    early_assignments,
    exercise_problem,
    expiry_event,
    settlement_session,
)
from ktdeval_qfinzero.pmb.values import FeeRules, Instrument, Position
from qfinzero_margin import EXPIRY, STOCK, account, e4, marks, option

FEES = FeeRules(option_exercise_e4=e4(5))
CALL, PUT = option("C", 100), option("P", 100)


def expiry(instrument: Instrument, qty: int, spot: float | None, cost: float = 0, do_not_exercise: bool = False) -> Any:
    position = Position(instrument, qty, e4(cost))
    return expiry_event(ending(position, None if spot is None else e4(spot)), do_not_exercise=do_not_exercise)


def ending(position: Position, spot_e4: int | None = None) -> Ending:
    return Ending("acct-000001", position, spot_e4, FEES, "2025-02-24")


@pytest.mark.parametrize(
    ("instrument", "qty", "spot", "kind", "shares", "cash"),
    [
        (CALL, 2, 105, "OPTION_EXERCISED", 200, -20_000),
        (CALL, -2, 105, "OPTION_ASSIGNED", -200, 20_000),
        (PUT, 2, 95, "OPTION_EXERCISED", -200, 20_000),
        (PUT, -2, 95, "OPTION_ASSIGNED", 200, -20_000),
    ],
)
def test_options_in_the_money_deliver_shares_at_the_strike_long_and_short_alike(
    instrument: Instrument, qty: int, spot: float, kind: str, shares: int, cash: float
) -> None:
    event = expiry(instrument, qty, spot)
    assert (event.type, event.change, event.stock_change, event.cash_e4) == (kind, -qty, shares, e4(cash))
    assert event.stock == STOCK.id
    assert event.fee_e4 == e4(10)


@pytest.mark.parametrize(("instrument", "qty"), [(CALL, 1), (CALL, -1), (PUT, 1), (PUT, -1)])
def test_options_at_or_out_of_the_money_expire_without_delivery_or_fee(instrument: Instrument, qty: int) -> None:
    event = expiry(instrument, qty, 100, cost=3 * qty)
    assert (event.type, event.change, event.stock_change, event.cash_e4, event.fee_e4) == ("OPTION_EXPIRED", -qty, 0, 0, 0)
    assert event.cost_e4 == -event.realized_e4 == e4(3 * qty)


def test_the_threshold_is_one_cent() -> None:
    assert expiry(CALL, 1, 100.01).type == "OPTION_EXERCISED"
    assert expiry(CALL, -1, 100.01).type == "OPTION_ASSIGNED"
    assert expiry(CALL, 1, 100.0099).type == "OPTION_EXPIRED"
    assert expiry(CALL, -1, 100.0099).type == "OPTION_EXPIRED"


def test_a_holder_can_forbid_the_exercise_and_a_writer_can_not() -> None:
    assert expiry(CALL, 1, 105, do_not_exercise=True).type == "OPTION_EXPIRED"
    assert expiry(CALL, -1, 105, do_not_exercise=True).type == "OPTION_ASSIGNED"


def test_without_any_price_of_the_underlying_nothing_expires() -> None:
    assert expiry(CALL, 3, None, cost=500) is None


def test_the_premium_goes_into_the_cost_of_the_shares() -> None:
    """IRS Publication 550: the price of a call adds to what its shares cost, that of a put takes from what they bring."""
    assert expiry(CALL, 1, 105, cost=300).stock_cost_e4 == e4(10_300)
    assert expiry(CALL, -1, 105, cost=-300).stock_cost_e4 == e4(-10_300)
    assert expiry(PUT, 1, 95, cost=300).stock_cost_e4 == e4(-9_700)
    assert expiry(PUT, -1, 95, cost=-300).stock_cost_e4 == e4(9_700)


@given(st.sampled_from((CALL, PUT)), st.integers(1, 20), st.integers(50, 150))
def test_what_the_holder_gets_is_what_the_writer_gives(instrument: Instrument, qty: int, spot: int) -> None:
    holder, writer = expiry(instrument, qty, spot, cost=7 * qty), expiry(instrument, -qty, spot, cost=-7 * qty)
    assert (holder.stock_change, holder.cash_e4) == (-writer.stock_change, -writer.cash_e4)
    assert holder.stock_cost_e4 == -writer.stock_cost_e4
    assert holder.realized_e4 == -writer.realized_e4


@given(st.sampled_from((CALL, PUT)), st.integers(-20, 20).filter(bool), st.integers(50, 150))
def test_delivery_is_worth_the_intrinsic_value(instrument: Instrument, qty: int, spot: int) -> None:
    event = expiry(instrument, qty, spot)
    contract = instrument.contract
    assert contract is not None
    assert event.cash_e4 + event.stock_change * e4(spot) == qty * 100 * contract.intrinsic_e4(e4(spot))


def test_expiry_on_a_holiday_is_at_the_last_session_before() -> None:
    good_friday = date(2025, 4, 18)
    assert settlement_session(option("C", 100, good_friday)) == date(2025, 4, 17)
    assert settlement_session(CALL) == EXPIRY
    with pytest.raises(ServiceError, match="is not an option"):
        settlement_session(STOCK)


# --- Exercise by the holder ------------------------------------------------------------------------------------------------------


def test_a_part_of_a_position_can_be_exercised() -> None:
    event = delivery_event(ending(Position(CALL, 3, e4(100))), 2)
    assert (event.type, event.change, event.stock_change, event.cash_e4) == ("OPTION_EXERCISED", -2, 200, e4(-20_000))
    assert event.cost_e4 == e4(100) * 2 // 3
    assert event.stock_cost_e4 == e4(20_000) + event.cost_e4
    assert event.fee_e4 == e4(10)
    assert event.spot_e4 is None


def test_only_what_is_held_can_be_exercised_and_only_until_expiry() -> None:
    holder = account(0, {CALL: 2, PUT: -1})
    assert exercise_problem(holder, CALL, 2, EXPIRY) is None
    assert exercise_problem(holder, CALL, 3, EXPIRY) == "2 contracts are held, and from 1 to as many can be exercised"
    assert exercise_problem(holder, CALL, 0, EXPIRY) is not None
    assert exercise_problem(holder, PUT, 1, EXPIRY) == "0 contracts are held, and from 1 to as many can be exercised"
    assert exercise_problem(holder, CALL, 1, date(2025, 2, 24)) == "the option has expired"
    assert exercise_problem(holder, STOCK, 1, EXPIRY) == "only options can be exercised"


def test_a_margin_account_may_exercise_what_it_can_not_carry() -> None:
    """The shares come, and the margin call after them."""
    assert exercise_problem(account(0, {PUT: 1}), PUT, 1, EXPIRY) is None


def test_a_cash_account_exercises_only_with_the_shares_or_the_settled_cash() -> None:
    assert exercise_problem(account(10_000, {CALL: 1}, "CASH"), CALL, 1, EXPIRY) is None
    poor = account(10_000, {CALL: 1}, "CASH")
    poor.unsettled = [(date(2025, 2, 24), e4(1))]
    assert exercise_problem(poor, CALL, 1, EXPIRY) == "a CASH account must have the $10,000.00 of the strike in settled cash"
    assert exercise_problem(account(0, {PUT: 1, STOCK: 100}, "CASH"), PUT, 1, EXPIRY) is None
    assert exercise_problem(account(0, {PUT: 1, STOCK: 99}, "CASH"), PUT, 1, EXPIRY) is not None


# --- Early assignment ------------------------------------------------------------------------------------------------------------


def early(instrument: Instrument, qty: int, mark: float | None, dividend: float, spot: float = 105) -> bool:
    prices = marks(AVLN=spot) | ({} if mark is None else {instrument.id: e4(mark)})
    positions = {instrument.id: Position(instrument, qty)}
    return early_assignments(positions, prices, {"AVLN": e4(dividend)}) == (instrument,)


def test_a_short_call_is_assigned_before_a_dividend_that_is_more_than_its_time_value() -> None:
    assert early(CALL, -1, 5.20, dividend=0.25)
    assert not early(CALL, -1, 5.25, dividend=0.25)
    assert not early(CALL, -1, 5.20, dividend=0)


def test_long_calls_short_puts_and_calls_out_of_the_money_are_never_assigned_early() -> None:
    assert not early(CALL, 1, 5.20, dividend=0.25)
    assert not early(PUT, -1, 0.10, dividend=0.25)
    assert not early(CALL, -1, 0.10, dividend=0.25, spot=100)


def test_a_call_that_has_no_price_or_one_below_its_exercise_has_no_time_value() -> None:
    assert early(CALL, -1, None, dividend=0.25)
    assert early(CALL, -1, 4.80, dividend=0.25)


def test_an_early_assignment_delivers_as_expiry_does() -> None:
    event = delivery_event(ending(Position(CALL, -2, e4(-500)), e4(105)), 2)
    assert event == expiry(CALL, -2, 105, cost=-500)
