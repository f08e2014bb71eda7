"""Margin of accounts: equity, requirements, what may be bought, what is refused, what a call closes; financing and settlement."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings, strategies as st

from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.pmb.day_events import (
    borrow_fee_e4,
    daily_charges,
    debit_e4,
    debit_interest_e4,
    settlement_day,
)
from ktdeval_qfinzero.pmb.margin import (
    Circumstances,
    Requirements,
    WantedTrade,
    equity_e4,
    liquidation_plan,
    margin_state,
    order_problem,
    portfolio_requirements,
    reservation_e4,
)
from ktdeval_qfinzero.pmb.portfolio import portfolio_of
from ktdeval_qfinzero.pmb.values import Account, Instrument, MarginRules, Position, Rules, Side
from qfinzero_margin import STOCK, account, e4, marks, option

RULES = Rules()


def required(held: Account, prices: dict[str, int], rules: Rules) -> Requirements:
    return portfolio_requirements(portfolio_of(held, prices), rules.margin)


OTHER = Instrument("STOCK", "BRKT")
TODAY = date(2025, 1, 6)
PLENTY = Circumstances(TODAY, {"AVLN": 10**9, "BRKT": 10**9})
CALL, PUT = option("C", 110), option("P", 90)


def wanted(side: Side, qty: int, price: float, instrument: Instrument = STOCK, fees: float = 0) -> tuple[WantedTrade, ...]:
    return (WantedTrade(instrument, side, qty, e4(price), e4(fees)),)


def refused(held: Account, trades: tuple[WantedTrade, ...], prices: dict[str, int], circumstances: Circumstances = PLENTY) -> str:
    problem = order_problem(held, trades, prices, RULES, circumstances)
    return "" if problem is None else problem.code


def trade(held: Account, prices: dict[str, int], trades: tuple[WantedTrade, ...]) -> None:
    for each in trades:
        position = held.positions.setdefault(each.instrument.id, Position(each.instrument))
        position.qty += each.change
        held.cash_e4 -= each.change * each.price_e4 * each.instrument.multiplier + each.fees_e4


# --- Equity and requirements -----------------------------------------------------------------------------------------------------


def test_equity_is_cash_and_what_everything_would_bring() -> None:
    held = account(1_000, {STOCK: 100, OTHER: -10, CALL: -2})
    assert equity_e4(held, {**marks(AVLN=100, BRKT=50), CALL.id: e4(1.5)}) == e4(1_000 + 10_000 - 500 - 300)


def test_a_position_without_a_price_is_an_error_and_not_worth_nothing() -> None:
    with pytest.raises(ServiceError, match="no price of STOCK:AVLN is known"):
        equity_e4(account(0, {STOCK: 1}), {})
    with pytest.raises(ServiceError, match="no price of AVLN is known"):
        required(account(0, {CALL: -1}), {CALL.id: e4(1)}, RULES)


def test_long_stock_requires_half_to_open_and_a_quarter_to_keep() -> None:
    assert required(account(0, {STOCK: 100}), marks(AVLN=100), RULES) == Requirements(e4(5_000), e4(2_500))


def test_short_stock_requires_half_on_top_of_its_proceeds_and_thirty_percent_to_keep() -> None:
    assert required(account(0, {STOCK: -100}), marks(AVLN=100), RULES) == Requirements(e4(5_000), e4(3_000))


def test_a_cheap_share_sold_short_requires_five_dollars_to_open_and_to_keep() -> None:
    assert required(account(0, {STOCK: -100}), marks(AVLN=4), RULES) == Requirements(e4(500), e4(500))


def test_long_options_are_paid_in_full() -> None:
    assert required(account(0, {CALL: 2}), {CALL.id: e4(3)}, RULES) == Requirements(e4(600), e4(600))


def test_a_short_option_requires_of_equity_what_the_rule_does_beyond_its_premium() -> None:
    prices = {**marks(AVLN=100), CALL.id: e4(2)}
    assert required(account(0, {CALL: -1}), prices, RULES).initial_e4 == e4(100 * (20 - 10))


def test_requirements_are_rounded_up() -> None:
    rules = Rules(margin=MarginRules(long_initial_pct=33, long_maintenance_pct=33))
    assert required(account(0, {STOCK: 1}), {STOCK.id: 1_000_001}, rules) == Requirements(330_001, 330_001)


# --- Buying power ----------------------------------------------------------------------------------------------------------------


def test_a_fresh_margin_account_buys_for_twice_its_cash_and_not_a_share_more() -> None:
    held, prices = account(100_000), marks(AVLN=100)
    assert margin_state(held, prices, RULES).buying_power_e4 == e4(200_000)
    assert refused(held, wanted("BUY", 2_000, 100), prices) == ""
    assert refused(held, wanted("BUY", 2_001, 100), prices) == "INSUFFICIENT_BUYING_POWER"
    assert refused(held, wanted("BUY", 2_000, 100, fees=1), prices) == "INSUFFICIENT_BUYING_POWER"


def test_a_loss_takes_buying_power_twice() -> None:
    assert margin_state(account(0, {STOCK: 1_000}), marks(AVLN=100), RULES).buying_power_e4 == e4(100_000)
    assert margin_state(account(-50_000, {STOCK: 1_000}), marks(AVLN=100), RULES).buying_power_e4 == 0
    assert margin_state(account(-50_000, {STOCK: 1_000}), marks(AVLN=90), RULES).buying_power_e4 == 0


def test_a_hundred_times_equity_can_not_be_sold_short() -> None:
    held, prices = account(10_000), marks(AVLN=100)
    assert refused(held, wanted("SELL", 200, 100), prices) == ""
    assert refused(held, wanted("SELL", 201, 100), prices) == "INSUFFICIENT_BUYING_POWER"
    assert refused(held, wanted("SELL", 10_000, 100), prices) == "INSUFFICIENT_BUYING_POWER"


def test_a_limit_far_below_the_market_does_not_let_shares_be_sold_short_for_free() -> None:
    assert refused(account(10_000), wanted("SELL", 10_000, 0.01), marks(AVLN=100)) == "INSUFFICIENT_BUYING_POWER"


def test_a_limit_far_below_the_market_does_not_make_a_buyer_rich() -> None:
    assert refused(account(10_000), wanted("BUY", 10_000_000, 0.01), marks(AVLN=100)) == "INSUFFICIENT_BUYING_POWER"
    assert refused(account(10_000), wanted("BUY", 210, 90), marks(AVLN=100)) == ""


def test_a_purchase_of_options_needs_all_of_its_price() -> None:
    held, prices = account(1_000), {**marks(AVLN=100), CALL.id: e4(2)}
    assert refused(held, wanted("BUY", 5, 2, CALL), prices) == ""
    assert refused(held, wanted("BUY", 6, 2, CALL), prices) == "INSUFFICIENT_BUYING_POWER"


def test_an_uncovered_option_needs_its_requirement_and_brings_its_premium() -> None:
    prices = {**marks(AVLN=100), CALL.id: e4(2)}
    assert refused(account(1_000), wanted("SELL", 1, 2, CALL), prices) == ""
    assert refused(account(999), wanted("SELL", 1, 2, CALL), prices) == "INSUFFICIENT_BUYING_POWER"


def test_an_option_whose_underlying_has_no_price_can_not_be_written() -> None:
    assert refused(account(10_000), wanted("SELL", 1, 2, CALL), {}) == "NO_MARK"
    assert refused(account(10_000), wanted("BUY", 1, 2, CALL), {}) == ""


def test_the_legs_of_a_spread_are_judged_together() -> None:
    short, long = option("P", 100), option("P", 95)
    legs = (*wanted("SELL", 1, 4, short), *wanted("BUY", 1, 2, long))
    assert refused(account(300), legs, marks(AVLN=100)) == ""
    assert refused(account(299), legs, marks(AVLN=100)) == "INSUFFICIENT_BUYING_POWER"
    assert refused(account(300), legs[:1], marks(AVLN=100)) == "INSUFFICIENT_BUYING_POWER"


def test_what_other_orders_reserve_can_not_be_used_again() -> None:
    held, prices = account(100_000), marks(AVLN=100)
    order = wanted("BUY", 1_500, 100)
    reserved = reservation_e4(held, order, prices, RULES)
    assert reserved == e4(75_000)
    busy = Circumstances(TODAY, {}, reserved)
    assert refused(held, wanted("BUY", 500, 100), prices, busy) == ""
    assert refused(held, wanted("BUY", 501, 100), prices, busy) == "INSUFFICIENT_BUYING_POWER"


def test_an_order_that_closes_reserves_nothing() -> None:
    assert reservation_e4(account(0, {STOCK: 100}), wanted("SELL", 100, 100), marks(AVLN=100), RULES) == 0


def test_a_refusal_says_what_is_short_of() -> None:
    problem = order_problem(account(100_000), wanted("BUY", 2_100, 100), marks(AVLN=100), RULES, PLENTY)
    assert problem is not None
    assert "$5,000.00 below the initial requirement" in problem.words


# --- Closing, flipping, covering -----------------------------------------------------------------------------------------------


def test_closing_is_allowed_even_under_water_and_under_a_call() -> None:
    held = account(-99_000, {STOCK: 1_000})
    held.margin_call_due = TODAY
    assert refused(held, wanted("SELL", 1_000, 99, fees=5), marks(AVLN=100)) == ""
    assert refused(held, wanted("SELL", 1_001, 99), marks(AVLN=100)) == "MARGIN_RESTRICTED"
    assert refused(held, wanted("BUY", 1, 100), marks(AVLN=100)) == "MARGIN_RESTRICTED"


def test_an_account_below_maintenance_is_restricted_before_it_is_called() -> None:
    assert refused(account(-80_000, {STOCK: 1_000}), wanted("BUY", 1, 100), marks(AVLN=100)) == "MARGIN_RESTRICTED"


def test_from_long_to_short_is_a_closing_and_an_opening() -> None:
    held, prices = account(0, {STOCK: 100}), marks(AVLN=100)
    assert refused(held, wanted("SELL", 300, 100), prices) == ""
    assert refused(held, wanted("SELL", 301, 100), prices) == "INSUFFICIENT_BUYING_POWER"
    assert refused(held, wanted("SELL", 300, 100), prices, Circumstances(TODAY, {"AVLN": 199})) == "NO_LOCATE"
    assert refused(held, wanted("SELL", 300, 100), prices, Circumstances(TODAY, {"AVLN": 200})) == ""


def test_from_short_to_long_is_a_closing_and_an_opening() -> None:
    held, prices = account(20_000, {STOCK: -100}), marks(AVLN=100)
    assert refused(held, wanted("BUY", 300, 100), prices) == ""
    assert refused(held, wanted("BUY", 301, 100), prices) == "INSUFFICIENT_BUYING_POWER"


def test_shares_that_can_not_be_borrowed_can_not_be_sold_short() -> None:
    held, prices = account(100_000, {OTHER: -60}), marks(AVLN=100, BRKT=50)
    assert refused(held, wanted("SELL", 1, 100), prices, Circumstances(TODAY, {})) == "NO_LOCATE"
    assert refused(held, wanted("SELL", 40, 50, OTHER), prices, Circumstances(TODAY, {"BRKT": 100})) == ""
    assert refused(held, wanted("SELL", 41, 50, OTHER), prices, Circumstances(TODAY, {"BRKT": 100})) == "NO_LOCATE"


def test_buying_back_needs_no_locate() -> None:
    held = account(10_000, {OTHER: -60})
    assert refused(held, wanted("BUY", 30, 50, OTHER), marks(BRKT=50), Circumstances(TODAY, {})) == ""


def test_selling_what_covers_a_short_option_is_no_closing() -> None:
    prices = {**marks(AVLN=100), CALL.id: e4(2), PUT.id: e4(1)}
    covered = account(-6_500, {STOCK: 100, CALL: -1})
    assert refused(covered, wanted("SELL", 100, 100), prices) == ""
    spread = account(300, {option("P", 90): -1, option("P", 89): 1})
    prices |= {option("P", 90).id: e4(2), option("P", 89).id: e4(1.8)}
    assert refused(spread, wanted("SELL", 1, 1.8, option("P", 89)), prices) == "INSUFFICIENT_BUYING_POWER"
    assert refused(spread, wanted("BUY", 1, 2, option("P", 90)), prices) == ""


def test_a_hedge_that_lowers_the_requirement_is_allowed_under_a_call() -> None:
    prices = {**marks(AVLN=100), CALL.id: e4(2), option("C", 115).id: e4(1)}
    held = account(100, {CALL: -1})
    assert refused(held, wanted("BUY", 1, 1, option("C", 115)), prices) == ""
    assert refused(held, wanted("BUY", 1, 9, option("C", 115)), prices) == "MARGIN_RESTRICTED"


# --- CASH accounts ---------------------------------------------------------------------------------------------------------------


def test_a_cash_account_buys_for_its_settled_cash_and_no_more() -> None:
    held, prices = account(10_000, type="CASH"), marks(AVLN=100)
    assert margin_state(held, prices, RULES).buying_power_e4 == e4(10_000)
    assert refused(held, wanted("BUY", 100, 100), prices) == ""
    assert refused(held, wanted("BUY", 100, 100, fees=0.01), prices) == "INSUFFICIENT_BUYING_POWER"


def test_a_cash_account_does_not_buy_with_sales_that_have_not_settled() -> None:
    held, prices = account(10_000, type="CASH"), marks(AVLN=100)
    held.unsettled = [(date(2025, 1, 7), e4(4_000))]
    assert margin_state(held, prices, RULES, TODAY).buying_power_e4 == e4(6_000)
    assert margin_state(held, prices, RULES, date(2025, 1, 7)).buying_power_e4 == e4(10_000)
    assert refused(held, wanted("BUY", 60, 100), prices) == ""
    assert refused(held, wanted("BUY", 61, 100), prices) == "UNSETTLED_FUNDS"
    assert refused(held, wanted("BUY", 101, 100), prices) == "INSUFFICIENT_BUYING_POWER"
    assert refused(held, wanted("BUY", 61, 100), prices, Circumstances(date(2025, 1, 7), {})) == ""


def test_a_cash_account_sells_only_what_it_holds() -> None:
    held, prices = account(10_000, {STOCK: 100}, "CASH"), marks(AVLN=100)
    assert refused(held, wanted("SELL", 100, 100, fees=1), prices) == ""
    assert refused(held, wanted("SELL", 101, 100), prices) == "SHORT_NOT_ALLOWED"


def test_a_cash_account_writes_calls_against_shares_and_keeps_those() -> None:
    held, prices = account(0, {STOCK: 100}, "CASH"), {**marks(AVLN=100), CALL.id: e4(2)}
    assert refused(held, wanted("SELL", 1, 2, CALL), prices) == ""
    assert refused(held, wanted("SELL", 2, 2, CALL), prices) == "UNCOVERED_OPTION"
    written = account(0, {STOCK: 100, CALL: -1}, "CASH")
    assert refused(written, wanted("SELL", 1, 100), prices) == "UNCOVERED_OPTION"
    assert refused(written, wanted("BUY", 1, 2, CALL), prices) == ""


def test_a_cash_account_sets_the_strike_of_a_put_aside() -> None:
    held, prices = account(9_000, type="CASH"), {**marks(AVLN=100), PUT.id: e4(1)}
    assert refused(held, wanted("SELL", 1, 1, PUT), prices) == ""
    assert refused(held, wanted("SELL", 2, 1, PUT), prices) == "INSUFFICIENT_BUYING_POWER"
    written = account(9_100, {PUT: -1}, "CASH")
    assert margin_state(written, prices, RULES).buying_power_e4 == e4(100)
    assert refused(written, wanted("BUY", 1, 100), prices) == ""
    assert refused(written, wanted("BUY", 2, 100), prices) == "INSUFFICIENT_BUYING_POWER"
    assert reservation_e4(held, wanted("SELL", 1, 1, PUT), prices, RULES) == e4(9_000)


def test_a_cash_account_that_became_short_must_buy_back() -> None:
    """Exercise of a put can bring that about: shares are delivered whether they are held or not."""
    held, prices = account(50_000, {STOCK: -100}, "CASH"), marks(AVLN=100)
    assert margin_state(held, prices, RULES).deficit_e4 == e4(10_000)
    assert liquidation_plan(held, prices, RULES) == ((STOCK, "BUY", 100),)
    assert refused(held, wanted("BUY", 100, 100), prices) == ""


# --- Margin calls ----------------------------------------------------------------------------------------------------------------


def test_the_call_comes_when_equity_falls_below_maintenance() -> None:
    held = account(-75_000, {STOCK: 1_000})
    assert margin_state(held, marks(AVLN=100), RULES).deficit_e4 == 0
    state = margin_state(held, marks(AVLN=99.99), RULES)
    assert (state.equity_e4, state.maintenance_e4, state.deficit_e4) == (e4(24_990), e4(24_997.5), e4(7.5))


def test_liquidation_sells_just_enough() -> None:
    """Each share sold at $99 lowers maintenance by $24.75 and costs $0.0104 of slippage and fee: 30.3 of them lift $750."""
    held, prices = account(-75_000, {STOCK: 1_000}), marks(AVLN=99)
    assert margin_state(held, prices, RULES).deficit_e4 == e4(24_750 - 24_000)
    assert liquidation_plan(held, prices, RULES) == ((STOCK, "SELL", 31),)
    for qty, met in ((30, False), (31, True)):
        sold = account(-75_000, {STOCK: 1_000})
        trade(sold, prices, wanted("SELL", qty, 98.9895))
        assert (margin_state(sold, prices, RULES).deficit_e4 == 0) == met


def test_liquidation_takes_the_position_that_needs_the_least_trading() -> None:
    """$2,500 are missing. BRKT lowers maintenance by $12.4945 a share; AVLN by more, but its shares cover the calls."""
    held = account(-100_000, {STOCK: 1_000, OTHER: 600, CALL: -10})
    prices = {**marks(AVLN=100, BRKT=50), CALL.id: e4(2)}
    assert margin_state(held, prices, RULES).deficit_e4 == e4(2_500)
    assert liquidation_plan(held, prices, RULES) == ((OTHER, "SELL", 201),)


def test_liquidation_closes_one_position_after_another_where_one_is_not_enough() -> None:
    held = account(-112_000, {STOCK: 1_000, OTHER: 600})
    plan = liquidation_plan(held, marks(AVLN=100, BRKT=50), RULES)
    assert [(instrument, side) for instrument, side, _ in plan] == [(STOCK, "SELL")]
    poorer = account(-129_000, {STOCK: 1_000, OTHER: 600})
    plan = liquidation_plan(poorer, marks(AVLN=100, BRKT=50), RULES)
    assert plan[0] == (STOCK, "SELL", 1_000)
    assert [(instrument, side) for instrument, side, _ in plan[1:]] == [(OTHER, "SELL")]
    assert 0 < plan[1][2] < 600


def test_liquidation_closes_everything_when_equity_is_gone() -> None:
    held = account(-200_000, {STOCK: 1_000, OTHER: 100, CALL: -1})
    plan = liquidation_plan(held, {**marks(AVLN=100, BRKT=50), CALL.id: e4(2)}, RULES)
    assert {instrument: qty for instrument, _, qty in plan} == {STOCK: 1_000, OTHER: 100, CALL: 1}


def test_liquidation_does_not_leave_a_short_option_bare_when_it_can_close_it() -> None:
    short, long = option("P", 100), option("P", 90)
    held = account(-700, {short: -1, long: 1})
    plan = liquidation_plan(held, {**marks(AVLN=95), short.id: e4(7), long.id: e4(2)}, RULES)
    assert plan[0] == (short, "BUY", 1)


def test_an_account_that_meets_its_maintenance_is_left_alone() -> None:
    assert liquidation_plan(account(-75_000, {STOCK: 1_000}), marks(AVLN=100), RULES) == ()


# --- Laws ------------------------------------------------------------------------------------------------------------------------

INSTRUMENTS = (STOCK, OTHER, option("C", 110), option("C", 120), option("P", 90), option("P", 80))
PRICES = {**marks(AVLN=100, BRKT=50), **{INSTRUMENTS[at].id: e4(price) for at, price in ((2, 2), (3, 0.8), (4, 1.5), (5, 0.4))}}
POSITIONS = st.lists(st.integers(-6, 6), min_size=6, max_size=6)
HELD = st.builds(
    lambda cash, sizes: account(cash, {i: q * (100 if i.kind == "STOCK" else 1) for i, q in zip(INSTRUMENTS, sizes, strict=True)}),
    st.integers(-60_000, 60_000),
    POSITIONS,
)


@given(HELD, st.sampled_from(INSTRUMENTS), st.sampled_from(("BUY", "SELL")), st.integers(1, 900))
@settings(max_examples=200)
def test_a_trade_that_is_allowed_leaves_an_account_sound_or_sounder(
    held: Account, instrument: Instrument, side: Side, qty: int
) -> None:
    trades = (WantedTrade(instrument, side, qty, PRICES[instrument.id]),)
    before = margin_state(held, PRICES, RULES)
    if order_problem(held, trades, PRICES, RULES, PLENTY) is None:
        trade(held, PRICES, trades)
        after = margin_state(held, PRICES, RULES)
        assert after.equity_e4 >= after.initial_e4 or after.initial_e4 <= before.initial_e4
        assert after.deficit_e4 <= before.deficit_e4


@given(HELD, st.data())
@settings(max_examples=150)
def test_closing_stock_that_covers_nothing_is_always_allowed(held: Account, data: st.DataObject) -> None:
    size = held.positions[OTHER.id].qty
    if size:
        side: Side = "SELL" if size > 0 else "BUY"
        qty = data.draw(st.integers(1, abs(size)))
        assert order_problem(held, (WantedTrade(OTHER, side, qty, e4(49), e4(1)),), PRICES, RULES, PLENTY) is None


@given(HELD)
@settings(max_examples=100)
def test_liquidation_closes_only_what_is_held_and_ends_the_deficit_of_an_account_that_can_pay(held: Account) -> None:
    plan = liquidation_plan(held, PRICES, RULES)
    sizes = {name: position.qty for name, position in held.positions.items()}
    for instrument, side, qty in plan:
        assert 0 < qty <= (sizes[instrument.id] if side == "SELL" else -sizes[instrument.id])
    assert len({instrument for instrument, _, _ in plan}) == len(plan)
    trade(held, PRICES, tuple(WantedTrade(i, side, qty, PRICES[i.id]) for i, side, qty in plan))
    state = margin_state(held, PRICES, RULES)
    assert state.deficit_e4 == 0 or not any(position.qty for position in held.positions.values())


# --- Financing and settlement ----------------------------------------------------------------------------------------------------


def test_interest_is_actual_over_360_and_rounded_up() -> None:
    assert debit_interest_e4(e4(36_000), 1, 700) == e4(7)
    assert debit_interest_e4(e4(10_000), 3, 700) == e4(5.8334)
    assert debit_interest_e4(1, 1, 1) == 1
    assert debit_interest_e4(0, 3, 700) == 0


def test_the_borrow_fee_is_that_of_a_public_example() -> None:
    """A broker's price list: $10,000 short at 1% for seven days is $1.94."""
    assert borrow_fee_e4(e4(10_000), 7, 100) == e4(1.9445)


def test_proceeds_of_short_sales_do_not_pay_for_purchases() -> None:
    held = account(30_000, {STOCK: 1_200, OTHER: -1_000})
    assert debit_e4(held, marks(AVLN=100, BRKT=50)) == e4(20_000)
    assert debit_e4(account(150_000, {OTHER: -1_000}), marks(BRKT=50)) == 0
    assert debit_e4(account(-20_000, {STOCK: 1_200}), {}) == e4(20_000)


def test_a_weekend_costs_three_days() -> None:
    held = account(-36_000 + 50_000, {STOCK: 1_200, OTHER: -1_000})
    charges = daily_charges(held, marks(BRKT=50), RULES, {"BRKT": 1_200}, 3)
    assert charges.interest_e4 == e4(7 * 3)
    assert charges.borrow_e4 == {"BRKT": e4(50_000 * 0.12 * 3 / 360)}


def test_sales_settle_on_the_next_trading_day() -> None:
    assert settlement_day(date(2025, 1, 6)) == date(2025, 1, 7)
    assert settlement_day(date(2025, 1, 8)) == date(2025, 1, 10)
    assert settlement_day(date(2025, 1, 10)) == date(2025, 1, 13)


def test_settled_cash_leaves_out_what_settles_later() -> None:
    held = account(1_000, type="CASH")
    held.unsettled = [(date(2025, 1, 6), e4(100)), (date(2025, 1, 7), e4(200))]
    assert held.settled_e4(TODAY) == e4(800)
