"""Splits and dividends on positions and orders."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, strategies as st

from ktdeval_qfinzero.data.rows import DividendRow, SplitRow
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.pmb.day_events import adjusted_contract, entitlement, orders_cancelled_by_split, split_effects
from ktdeval_qfinzero.pmb.holding_events import PositionSplit
from ktdeval_qfinzero.pmb.values import Instrument, Order
from qfinzero_margin import STOCK, account, contract, e4, marks, option

EX_DAY = date(2025, 1, 21)
OTHER = Instrument("STOCK", "BRKT")


def split(new: int, old: int) -> SplitRow:
    return SplitRow("AVLN", EX_DAY, new, old, 0)


def effect(qty: int, cost: float, new: int, old: int, opening: float, instrument: Instrument = STOCK) -> PositionSplit:
    held = account(0, {instrument: qty, OTHER: 7})
    held.positions[instrument.id].cost_e4 = e4(cost)
    (found,) = split_effects(held, split(new, old), {instrument.id: e4(opening)})
    return found


def outcome(
    qty: int, cost: float, new: int, old: int, opening: float, instrument: Instrument = STOCK
) -> tuple[str, int, int, int, int]:
    """(what it becomes, units and cost after, cash and profit of what is paid out)."""
    found = effect(qty, cost, new, old, opening, instrument)
    assert (found.instrument, found.qty_before, found.new, found.old) == (instrument.id, qty, new, old)
    return found.becomes, found.qty_after, found.cost_after_e4, found.cash_e4, found.realized_e4


def test_two_for_one_doubles_the_shares_at_the_same_cost() -> None:
    assert outcome(75, 7_500, 2, 1, 50) == (STOCK.id, 150, e4(7_500), 0, 0)


def test_a_whole_split_needs_no_price() -> None:
    assert split_effects(account(0, {STOCK: 1}), split(2, 1), {})[0].qty_after == 2
    with pytest.raises(ServiceError, match="no price of STOCK:AVLN is known"):
        split_effects(account(0, {STOCK: 1}), split(3, 2), {})


def test_a_fraction_is_paid_out_at_the_opening() -> None:
    """3 for 2 on 5 shares: 7 shares, and half a share at $66 is $33. Its cost is a fifteenth of $600, so $40."""
    assert outcome(5, 600, 3, 2, 66) == (STOCK.id, 7, e4(560), e4(33), e4(33 - 40))


def test_a_reverse_split_can_leave_nothing_but_cash() -> None:
    assert outcome(3, 30, 1, 10, 100) == (STOCK.id, 0, 0, e4(30), 0)


def test_a_short_seller_pays_for_his_fraction() -> None:
    assert outcome(-5, -600, 3, 2, 66) == (STOCK.id, -7, e4(-560), e4(-33), e4(-33 + 40))


def test_cash_for_a_fraction_is_rounded_against_the_trader() -> None:
    assert effect(1, 10, 1, 3, 0.0001).cash_e4 == 0
    assert effect(-1, -10, 1, 3, 0.0001).cash_e4 == -1


@given(
    st.integers(-1_000, 1_000).filter(bool), st.integers(1, 20), st.integers(1, 20), st.integers(1, 10**7), st.integers(0, 10**9)
)
def test_a_split_makes_nobody_richer(qty: int, new: int, old: int, opening: int, cost: int) -> None:
    held = account(0, {STOCK: qty})
    held.positions[STOCK.id].cost_e4 = cost
    (found,) = split_effects(held, split(new, old), {STOCK.id: opening})
    before = qty * new * opening
    after = (found.qty_after * opening + found.cash_e4) * old
    assert before - old < after <= before
    assert found.cost_after_e4 + found.cash_e4 - found.realized_e4 == cost


def test_options_are_adjusted_by_a_split_of_a_whole_number_for_one() -> None:
    assert outcome(-3, -900, 2, 1, 5, option("C", 105)) == (option("C", 52.50).id, -6, e4(-900), 0, 0)


def test_an_adjusted_strike_is_rounded_to_the_cent_as_in_a_seven_for_one_split() -> None:
    """Seven for one (Apple, June 2014): series struck at 645 became 92.14."""
    assert adjusted_contract(contract("C", 645), split(7, 1)) == contract("C", 92.14)
    assert adjusted_contract(contract("P", 100), split(8, 2)) == contract("P", 25)


def test_options_that_a_split_leaves_no_series_for_are_closed_in_cash() -> None:
    assert outcome(2, 500, 3, 2, 4, option("C", 100)) == ("", 0, 0, e4(800), e4(300))
    assert outcome(-2, -500, 1, 10, 4, option("C", 100)) == ("", 0, 0, e4(-800), e4(-300))


def order(id: str, instrument: Instrument, status: str = "ACCEPTED") -> Order:
    return Order(id, 1, "a", "s", "", instrument, "BUY", "LIMIT", 1, "GTC", 0, status=status)  # type: ignore[arg-type]


def test_every_working_order_in_the_stock_or_its_options_is_cancelled() -> None:
    orders = [order("1", STOCK), order("2", option("C", 100), "PARTIALLY_FILLED"), order("3", OTHER), order("4", STOCK, "FILLED")]
    assert orders_cancelled_by_split(orders, split(2, 1)) == ("1", "2")


# --- Dividends -------------------------------------------------------------------------------------------------------------------

DIVIDEND = DividendRow("AVLN", date(2025, 1, 13), date(2025, 1, 31), 2_500, 0)


def test_a_holder_earns_and_a_short_seller_owes_the_dividend() -> None:
    earned, owed = entitlement(account(0, {STOCK: 100}), DIVIDEND), entitlement(account(0, {STOCK: -100}), DIVIDEND)
    assert earned is not None and owed is not None  # noqa: PT018 - one fact
    assert (earned.cash_e4, owed.cash_e4) == (e4(25), e4(-25))


def test_who_holds_nothing_or_only_options_gets_nothing() -> None:
    assert entitlement(account(0, {OTHER: 100, option("C", 100): 1}), DIVIDEND) is None
    assert entitlement(account(0, {STOCK: 0}), DIVIDEND) is None


def test_prices_of_stocks_are_named_as_everywhere() -> None:
    assert marks(AVLN=1) == {STOCK.id: 10_000}
