"""Daily events: splits and dividends on positions and orders; expiry, exercise and assignment of
options.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.testing import on_each_row
from ktdeval_qfinzero.data.rows import DividendRow, SplitRow
from ktdeval_qfinzero.pmb import lifecycle_rules as days
from ktdeval_qfinzero.pmb.broker_types import FeeRules, Instrument, Position
from support.qfinzero.qfinzero_calls import refused
from support.qfinzero.qfinzero_margin import STOCK, account, contract, e4, marks, option

OTHER = Instrument("STOCK", "BRKT")
FEES = FeeRules(option_exercise_e4=e4(5))
CALL = option("C", 100)
PUT = option("P", 100)
NAMED = {
    "STOCK": STOCK,
    "CALL": CALL,
    "PUT": PUT,
    "C105": option("C", 105),
    "C52.50": option("C", 52.50),
}


# ---- splits


def split(new: int, old: int) -> SplitRow:
    return SplitRow("AVLN", date(2025, 1, 21), new, old, 0)


# Ratio as new and old; amounts are the cost after the split, cash and realized profit, in dollars.
@on_each_row(
    "name, qty, cost, ratio, opening, becomes, after, amounts",
    ("STOCK", 75, 7500, [2, 1], 50, "STOCK", 150, [7500, 0, 0]),
    # 3 for 2 on 5 shares: 7 shares, and half a share at $66 is $33. Its cost is a fifteenth of $600, so $40.
    ("STOCK", 5, 600, [3, 2], 66, "STOCK", 7, [560, 33, -7]),
    # a short seller pays for his fraction
    ("STOCK", -5, -600, [3, 2], 66, "STOCK", -7, [-560, -33, 7]),
    # a reverse split can leave nothing but cash
    ("STOCK", 3, 30, [1, 10], 100, "STOCK", 0, [0, 30, 0]),
    ("C105", -3, -900, [2, 1], 5, "C52.50", -6, [-900, 0, 0]),
    # Options that a split leaves no series for are closed in cash.
    ("CALL", 2, 500, [3, 2], 4, "", 0, [0, 800, 300]),
    ("CALL", -2, -500, [1, 10], 4, "", 0, [0, -800, -300]),
)
def test_a_split_makes_of_a_position(
    name: str,
    qty: int,
    cost: float,
    ratio: list[int],
    opening: float,
    becomes: str,
    after: int,
    amounts: list[float],
) -> None:
    """`amounts`: cost after the split, cash and realized profit."""
    instrument = NAMED[name]
    held = account(0, {instrument: qty, OTHER: 7})
    held.positions[instrument.id].cost_e4 = e4(cost)
    (effect,) = days.split_effects(held, split(*ratio), {instrument.id: e4(opening)})

    assert (effect.instrument, effect.qty_before, effect.new, effect.old) == (
        instrument.id,
        qty,
        *ratio,
    )
    assert (effect.becomes, effect.qty_after) == (NAMED[becomes].id if becomes else "", after)
    assert [effect.cost_after_e4, effect.cash_e4, effect.realized_e4] == list(map(e4, amounts))


def test_only_a_fraction_needs_a_price() -> None:
    assert days.split_effects(account(0, {STOCK: 1}), split(2, 1), {})[0].qty_after == 2
    assert "no price of STOCK:AVLN is known" in str(
        refused(days.split_effects, account(0, {STOCK: 1}), split(3, 2), {})
    )


@pytest.mark.parametrize(("qty", "cash_e4"), [(1, 0), (-1, -1)])
def test_cash_for_a_fraction_is_rounded_against_the_trader(qty: int, cash_e4: int) -> None:
    effects = days.split_effects(account(0, {STOCK: qty}), split(1, 3), {STOCK.id: 1})
    assert effects[0].cash_e4 == cash_e4


@given(
    st.integers(-1_000, 1_000).filter(bool),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 10**7),
    st.integers(0, 10**9),
)
def test_a_split_changes_no_accounts_value(
    qty: int, new: int, old: int, opening: int, cost: int
) -> None:
    held = account(0, {STOCK: qty})
    held.positions[STOCK.id].cost_e4 = cost
    (effect,) = days.split_effects(held, split(new, old), {STOCK.id: opening})
    before = qty * new * opening
    after = (effect.qty_after * opening + effect.cash_e4) * old

    assert before - old < after <= before
    assert effect.cost_after_e4 + effect.cash_e4 - effect.realized_e4 == cost


def test_last_option_prices_move_to_the_adjusted_series_or_are_dropped() -> None:
    prices = {
        STOCK.id: e4(50),
        OTHER.id: e4(7),
        CALL.id: e4(5),
        "OPTION:O:BRKT250221C00100000": e4(1),
    }
    apart = {name: price for name, price in prices.items() if name != CALL.id}

    assert days.marks_after_split(prices, split(2, 1)) == apart | {option("C", 50).id: e4(2.50)}
    assert days.marks_after_split(prices, split(3, 2)) == apart


def test_adjusted_strike_is_rounded_to_the_cent_after_a_split() -> None:
    """Seven for one (Apple, June 2014): series struck at 645 became 92.14."""
    assert days.adjusted_contract(contract("C", 645), split(7, 1)) == contract("C", 92.14)
    assert days.adjusted_contract(contract("P", 100), split(8, 2)) == contract("P", 25)


def test_holder_earns_and_short_seller_owes_the_dividend() -> None:
    dividend = DividendRow("AVLN", date(2025, 1, 13), date(2025, 1, 31), 2_500, 0)
    due = [days.entitlement(account(0, held), dividend) for held in ({STOCK: 100}, {STOCK: -100})]

    assert [each.cash_e4 for each in due if each] == [e4(25), e4(-25)]
    assert days.entitlement(account(0, {OTHER: 100, CALL: 1}), dividend) is None
    assert days.entitlement(account(0, {STOCK: 0}), dividend) is None


# ---- expiry


def ending(position: Position, spot_e4: int | None = None) -> days.EndingPosition:
    return days.EndingPosition("acct-000001", position, spot_e4, FEES, "2025-02-24")


def expiry(
    instrument: Instrument,
    qty: int,
    spot: float | None,
    cost: float = 0,
    do_not_exercise: bool = False,
) -> Any:
    position = Position(instrument, qty, e4(cost))
    return days.expiry_event(
        ending(position, None if spot is None else e4(spot)), do_not_exercise=do_not_exercise
    )


# Struck at 100; shares that come, cash, and what the shares cost, with the premium of $150 a contract.
@on_each_row(
    "name, qty, spot, kind, shares, cash, cost",
    ("CALL", 2, 105, "EXERCISED", 200, -20000, 20300),
    ("CALL", -2, 105, "ASSIGNED", -200, 20000, -20300),
    ("PUT", 2, 95, "EXERCISED", -200, 20000, -19700),
    ("PUT", -2, 95, "ASSIGNED", 200, -20000, 19700),
    # At or out of the money: without delivery or fee, and what was paid is lost.
    ("CALL", 2, 100, "EXPIRED", 0, 0, 0),
    ("CALL", -2, 100, "EXPIRED", 0, 0, 0),
    ("PUT", 2, 100, "EXPIRED", 0, 0, 0),
    ("PUT", -2, 100, "EXPIRED", 0, 0, 0),
)
def test_in_the_money_options_deliver_shares_at_strike_and_others_expire(
    name: str, qty: int, spot: float, kind: str, shares: int, cash: float, cost: float
) -> None:
    """IRS Publication 550: the price of a call adds to what its shares cost, that of a put takes
    from what they bring.
    """
    event = expiry(NAMED[name], qty, spot, cost=150 * qty)
    paid = e4(150 * qty)

    assert (event.type, event.change, event.stock_change, event.cash_e4) == (
        f"OPTION_{kind}",
        -qty,
        shares,
        e4(cash),
    )
    assert (event.stock, event.stock_cost_e4, event.cost_e4) == (STOCK.id, e4(cost), paid)
    assert (event.fee_e4, event.realized_e4) == ((e4(10), 0) if shares else (0, -paid))


@on_each_row(
    "qty, spot, forbidden, kind",
    (1, 100.01, False, "EXERCISED"),
    (-1, 100.01, False, "ASSIGNED"),
    (1, 100.0099, False, "EXPIRED"),
    (-1, 100.0099, False, "EXPIRED"),
    (1, 105, True, "EXPIRED"),
    (-1, 105, True, "ASSIGNED"),
)
def test_exercise_threshold_is_one_cent_and_only_a_holder_can_forbid_it(
    qty: int, spot: float, forbidden: bool, kind: str
) -> None:
    assert expiry(CALL, qty, spot, do_not_exercise=forbidden).type == f"OPTION_{kind}"
    assert expiry(CALL, 3, None, cost=500) is None, (
        "without any price of the underlying nothing expires"
    )


@pytest.mark.slow
@given(st.sampled_from((CALL, PUT)), st.integers(1, 20), st.integers(50, 150))
def test_holder_receives_what_the_writer_gives_at_the_intrinsic_value(
    instrument: Instrument, qty: int, spot: int
) -> None:
    holder = expiry(instrument, qty, spot, cost=7 * qty)
    writer = expiry(instrument, -qty, spot, cost=-7 * qty)
    for name in ("stock_change", "cash_e4", "stock_cost_e4", "realized_e4"):
        assert getattr(holder, name) == -getattr(writer, name)

    terms = instrument.contract

    assert terms is not None
    assert holder.cash_e4 + holder.stock_change * e4(spot) == qty * 100 * terms.intrinsic_e4(
        e4(spot)
    )


# ---- exercise and early assignment


def test_a_part_of_a_position_can_be_exercised_and_only_an_option() -> None:
    event = days.delivery_event(ending(Position(CALL, 3, e4(100))), 2)
    assert (event.type, event.change, event.stock_change, event.cash_e4) == (
        "OPTION_EXERCISED",
        -2,
        200,
        e4(-20_000),
    )
    assert (event.cost_e4, event.stock_cost_e4) == (e4(100) * 2 // 3, e4(20_000) + event.cost_e4)
    assert (event.fee_e4, event.spot_e4) == (e4(10), None)
    assert "is not an option" in str(
        refused(days.delivery_event, ending(Position(STOCK, 100, 0)), 1)
    )


# Accounts as cash, positions, type and what settles on the 24th; the options expire on February 21.
@on_each_row(
    "owner, name, qty, today, problem",
    ([0, {"CALL": 2, "PUT": -1}, "MARGIN", 0], "CALL", 2, "2025-02-21", None),
    (
        [0, {"CALL": 2, "PUT": -1}, "MARGIN", 0],
        "CALL",
        3,
        "2025-02-21",
        "2 contracts are held, and from 1 to as many can be exercised",
    ),
    (
        [0, {"CALL": 2, "PUT": -1}, "MARGIN", 0],
        "CALL",
        0,
        "2025-02-21",
        "2 contracts are held, and from 1 to as many can be exercised",
    ),
    (
        [0, {"CALL": 2, "PUT": -1}, "MARGIN", 0],
        "PUT",
        1,
        "2025-02-21",
        "0 contracts are held, and from 1 to as many can be exercised",
    ),
    ([0, {"CALL": 2, "PUT": -1}, "MARGIN", 0], "CALL", 1, "2025-02-24", "the option has expired"),
    (
        [0, {"CALL": 2, "PUT": -1}, "MARGIN", 0],
        "STOCK",
        1,
        "2025-02-21",
        "only options can be exercised",
    ),
    # of a margin account the shares come, and the margin call after them
    ([0, {"PUT": 1}, "MARGIN", 0], "PUT", 1, "2025-02-21", None),
    ([10000, {"CALL": 1}, "CASH", 0], "CALL", 1, "2025-02-21", None),
    (
        [10000, {"CALL": 1}, "CASH", 1],
        "CALL",
        1,
        "2025-02-21",
        "a CASH account must have the $10,000.00 of the strike in settled cash",
    ),
    ([0, {"PUT": 1, "STOCK": 100}, "CASH", 0], "PUT", 1, "2025-02-21", None),
    (
        [0, {"PUT": 1, "STOCK": 99}, "CASH", 0],
        "PUT",
        1,
        "2025-02-21",
        "a CASH account must hold the 100 shares of AVLN that are to be delivered",
    ),
)
def test_only_held_unexpired_options_can_be_exercised_with_enough_cash(
    owner: list[Any], name: str, qty: int, today: str, problem: str | None
) -> None:
    cash, held, type_, unsettled = owner
    who = account(cash, {NAMED[each]: units for each, units in held.items()}, type_)
    who.unsettled = [(date(2025, 2, 24), e4(unsettled))]
    assert days.exercise_problem(who, NAMED[name], qty, date.fromisoformat(today)) == problem


@on_each_row(
    "name, qty, mark, dividend, spot, assigned",
    # the dividend is more than the time value
    ("CALL", -1, 5.2, 0.25, 105, True),
    ("CALL", -1, 5.25, 0.25, 105, False),
    ("CALL", -1, 5.2, 0, 105, False),
    ("CALL", 1, 5.2, 0.25, 105, False),
    ("PUT", -1, 0.1, 0.25, 105, False),
    # out of the money
    ("CALL", -1, 0.1, 0.25, 100, False),
    # without a price, or one below its exercise, there is no time value
    ("CALL", -1, None, 0.25, 105, True),
    ("CALL", -1, 4.8, 0.25, 105, True),
)
def test_short_call_is_assigned_before_a_dividend_above_its_time_value(
    name: str, qty: int, mark: float | None, dividend: float, spot: float, assigned: bool
) -> None:
    instrument = NAMED[name]
    prices = marks(AVLN=spot) | ({} if mark is None else {instrument.id: e4(mark)})
    instruments = days.early_assignments(
        {instrument.id: Position(instrument, qty)}, prices, {"AVLN": e4(dividend)}
    )

    assert instruments == ((instrument,) if assigned else ())

    early = days.delivery_event(ending(Position(CALL, -2, e4(-500)), e4(105)), 2)
    assert early == expiry(CALL, -2, 105, cost=-500), "an early assignment delivers as expiry does"


@on_each_row(
    "ratio, dividend, old_share",
    # $2 per new share are $4 per old share, above a time value of $3: $100 a contract
    ((2, 1), 2.0, 4.0),
    ((1, 4), 2.0, 0.5),
    # a third of a ten-thousandth of a dollar more than $0.6666
    ((2, 3), 1.0, 0.6667),
)
def test_a_dividend_on_the_day_of_a_split_is_compared_per_old_share(
    ratio: tuple[int, int], dividend: float, old_share: float
) -> None:
    per_share = days.per_old_share(e4(dividend), [split(*ratio)])
    assert per_share == e4(old_share)
    assert days.per_old_share(e4(dividend), []) == e4(dividend)

    instrument = NAMED["CALL"]
    prices = marks(AVLN=105) | {instrument.id: e4(8)}
    short = {instrument.id: Position(instrument, -1)}
    is_assigned = bool(days.early_assignments(short, prices, {"AVLN": per_share}))
    assert is_assigned == (old_share > 3)


@pytest.mark.parametrize(
    ("strike", "ratio", "after"),
    [
        (100, (10, 1), 10),
        (1.01, (10, 1), 0.10),  # 10.1 cents, to the nearest cent
        (0.05, (2, 1), 0.03),  # 2.5 cents, half up
        (0.50, (100, 1), 0.01),  # half a cent
        (0.50, (1_000, 1), 0.01),  # a twentieth of a cent: a strike is never below one
        (100, (2_000, 1), 0.05),
    ],
)
def test_a_strike_after_a_large_split_is_a_whole_number_of_cents(
    strike: float, ratio: tuple[int, int], after: float
) -> None:
    assert days.adjusted_contract(contract("C", strike), split(*ratio)) == contract("C", after)


@pytest.mark.parametrize(("mark_e4", "after_e4"), [(20_000, 2_000), (19, 1), (9, 1)])
def test_option_mark_after_a_split_is_rounded_down_to_at_least_one_step(
    mark_e4: int, after_e4: int
) -> None:
    marks_after = days.marks_after_split({CALL.id: mark_e4}, split(10, 1))

    assert marks_after == {option("C", 10).id: after_e4}
