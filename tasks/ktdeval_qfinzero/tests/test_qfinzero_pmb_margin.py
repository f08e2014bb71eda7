"""Account margin: equity, requirements, buying power, refusals, liquidations after a margin call;
financing and settlement.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.testing import on_each_row
from ktdeval_qfinzero.pmb.broker_types import (
    Account,
    AccountType,
    Instrument,
    MarginRules,
    Position,
    Rules,
    Side,
)
from ktdeval_qfinzero.pmb.lifecycle_rules import (
    daily_charges,
    debit_e4,
    debit_interest_e4,
    settlement_day,
)
from ktdeval_qfinzero.pmb.margin import (
    MarginRequirements,
    TradeCircumstances,
    TradeProblem,
    WantedTrade,
    equity_e4,
    liquidation_plan,
    margin_state,
    order_problem,
    portfolio_requirements,
    reservation_e4,
)
from ktdeval_qfinzero.pmb.portfolio import Holding, after_trades, portfolio_of
from ktdeval_qfinzero.trading_hours import trading_hours
from support.qfinzero.qfinzero_calls import refused
from support.qfinzero.qfinzero_margin import STOCK, account, e4, marks, option

RULES = Rules()
OTHER = Instrument("STOCK", "BRKT")
TODAY = date(2025, 1, 6)
TOMORROW = date(2025, 1, 7)
PLENTY = TradeCircumstances(TODAY, {"AVLN": 10**9, "BRKT": 10**9})
CALL = option("C", 110)
PUT = option("P", 90)
PUT89 = option("P", 89)
CALL115 = option("C", 115)
PUT100 = option("P", 100)
PUT95 = option("P", 95)
AT_100 = marks(AVLN=100, BRKT=50) | {
    CALL.id: e4(2),
    PUT.id: e4(2),
    PUT89.id: e4(1.8),
    CALL115.id: e4(1),
}
Trades = tuple[WantedTrade, ...]
NAMED = {
    "STOCK": STOCK,
    "CALL": CALL,
    "PUT": PUT,
    "PUT89": PUT89,
    "CALL115": CALL115,
    "PUT100": PUT100,
    "PUT95": PUT95,
}


def account_of(
    cash: float, positions: dict[str, int] | None = None, type: AccountType = "MARGIN"
) -> Account:
    """An account of a table, whose instruments have names."""
    return account(cash, {NAMED[name]: qty for name, qty in (positions or {}).items()}, type)


def required(held: Account, prices: dict[str, int], rules: Rules = RULES) -> MarginRequirements:
    return portfolio_requirements(portfolio_of(held, prices), rules.margin)


def wanted(
    side: Side, qty: int, price: float, instrument: Instrument = STOCK, fees: float = 0
) -> Trades:
    return (WantedTrade(instrument, side, qty, e4(price), e4(fees)),)


def code_of(
    held: Account,
    trades: Trades,
    prices: dict[str, int] = AT_100,
    circumstances: TradeCircumstances = PLENTY,
) -> str:
    """Code of the problem of an order; nothing where there is none."""
    problem = order_problem(held, trades, prices, RULES, circumstances)
    return "" if problem is None else problem.code


def trade(held: Account, prices: dict[str, int], trades: Trades) -> None:
    for each in trades:
        position = held.positions.setdefault(each.instrument.id, Position(each.instrument))
        position.qty += each.change
        held.cash_e4 -= each.change * each.price_e4 * each.instrument.multiplier + each.fees_e4


# ---- equity and requirements


def test_equity_is_cash_plus_liquidation_value_and_needs_every_price() -> None:
    assert equity_e4(account(1_000, {STOCK: 100, OTHER: -10, CALL: -2}), AT_100) == e4(
        1_000 + 10_000 - 500 - 400
    )
    assert "no price of STOCK:AVLN is known" in str(refused(equity_e4, account(0, {STOCK: 1}), {}))
    assert "no price of AVLN is known" in str(
        refused(required, account(0, {CALL: -1}), {CALL.id: e4(1)})
    )


@on_each_row(
    "held, price, initial, maintenance",
    # half to open and a quarter to keep
    ({"STOCK": 100}, 100, 5000, 2500),
    # on top of the proceeds
    ({"STOCK": -100}, 100, 5000, 3000),
    # a cheap share: five dollars to open and to keep
    ({"STOCK": -100}, 4, 500, 500),
    # long options are paid in full
    ({"CALL": 2}, 100, 400, 400),
    # beyond its premium
    ({"CALL": -1}, 100, 1000, 1000),
)
def test_a_position_requires_of_equity(
    held: dict[str, int], price: float, initial: float, maintenance: float
) -> None:
    assert required(account_of(0, held), {**AT_100, **marks(AVLN=price)}) == MarginRequirements(
        e4(initial), e4(maintenance)
    )


def test_requirements_are_rounded_up() -> None:
    rules = Rules(margin=MarginRules(long_initial_pct=33, long_maintenance_pct=33))
    assert required(account(0, {STOCK: 1}), {STOCK.id: 1_000_001}, rules) == MarginRequirements(
        330_001, 330_001
    )


# ---- what is refused

NO_POWER = "INSUFFICIENT_BUYING_POWER"
CALLED = "MARGIN_RESTRICTED"
NO_LOCATE = "NO_LOCATE"


# Accounts as cash, positions and type; trades as side, quantity, price, instrument and fees.
@on_each_row(
    "held, trades, code",
    # A fresh account buys for twice its cash and not a share more.
    ([100_000], [["BUY", 2000, 100]], ""),
    ([100_000], [["BUY", 2001, 100]], "INSUFFICIENT_BUYING_POWER"),
    ([100_000], [["BUY", 2000, 100, "STOCK", 1]], "INSUFFICIENT_BUYING_POWER"),
    # Opening sales are checked too, and a limit far from the market makes nobody rich.
    ([10000], [["SELL", 200, 100]], ""),
    ([10000], [["SELL", 201, 100]], "INSUFFICIENT_BUYING_POWER"),
    ([10000], [["SELL", 10000, 0.01]], "INSUFFICIENT_BUYING_POWER"),
    ([10000], [["BUY", 10_000_000, 0.01]], "INSUFFICIENT_BUYING_POWER"),
    ([10000], [["BUY", 210, 90]], ""),
    # Options: a purchase needs all of its price, an uncovered sale its requirement less the premium.
    ([1000], [["BUY", 5, 2, "CALL"]], ""),
    ([1000], [["BUY", 6, 2, "CALL"]], "INSUFFICIENT_BUYING_POWER"),
    ([1000], [["SELL", 1, 2, "CALL"]], ""),
    ([999], [["SELL", 1, 2, "CALL"]], "INSUFFICIENT_BUYING_POWER"),
    # The legs of a spread are judged together.
    ([300], [["SELL", 1, 4, "PUT100"], ["BUY", 1, 2, "PUT95"]], ""),
    ([299], [["SELL", 1, 4, "PUT100"], ["BUY", 1, 2, "PUT95"]], "INSUFFICIENT_BUYING_POWER"),
    ([300], [["SELL", 1, 4, "PUT100"]], "INSUFFICIENT_BUYING_POWER"),
    # An account below maintenance is restricted before it is called.
    ([-80000, {"STOCK": 1000}], [["BUY", 1, 100]], "MARGIN_RESTRICTED"),
    # Through zero is a closing and an opening.
    ([0, {"STOCK": 100}], [["SELL", 300, 100]], ""),
    ([0, {"STOCK": 100}], [["SELL", 301, 100]], "INSUFFICIENT_BUYING_POWER"),
    ([20000, {"STOCK": -100}], [["BUY", 300, 100]], ""),
    ([20000, {"STOCK": -100}], [["BUY", 301, 100]], "INSUFFICIENT_BUYING_POWER"),
    # Selling what covers a short option is no closing.
    ([-6500, {"STOCK": 100, "CALL": -1}], [["SELL", 100, 100]], ""),
    ([300, {"PUT": -1, "PUT89": 1}], [["SELL", 1, 1.8, "PUT89"]], "INSUFFICIENT_BUYING_POWER"),
    ([300, {"PUT": -1, "PUT89": 1}], [["BUY", 1, 2, "PUT"]], ""),
    # A hedge that lowers the requirement is allowed below maintenance, unless it costs more.
    ([100, {"CALL": -1}], [["BUY", 1, 1, "CALL115"]], ""),
    ([100, {"CALL": -1}], [["BUY", 1, 9, "CALL115"]], "MARGIN_RESTRICTED"),
    # A CASH account buys for its settled cash, sells what it holds, and covers what it writes.
    ([10000, {}, "CASH"], [["BUY", 100, 100]], ""),
    ([10000, {}, "CASH"], [["BUY", 100, 100, "STOCK", 0.01]], "INSUFFICIENT_BUYING_POWER"),
    ([10000, {"STOCK": 100}, "CASH"], [["SELL", 100, 100, "STOCK", 1]], ""),
    ([10000, {"STOCK": 100}, "CASH"], [["SELL", 101, 100]], "SHORT_NOT_ALLOWED"),
    ([0, {"STOCK": 100}, "CASH"], [["SELL", 1, 2, "CALL"]], ""),
    ([0, {"STOCK": 100}, "CASH"], [["SELL", 2, 2, "CALL"]], "UNCOVERED_OPTION"),
    ([0, {"STOCK": 100, "CALL": -1}, "CASH"], [["SELL", 1, 100]], "UNCOVERED_OPTION"),
    ([0, {"STOCK": 100, "CALL": -1}, "CASH"], [["BUY", 1, 2, "CALL"]], ""),
    ([9000, {}, "CASH"], [["SELL", 1, 1, "PUT"]], ""),
    ([9000, {}, "CASH"], [["SELL", 2, 1, "PUT"]], "INSUFFICIENT_BUYING_POWER"),
    ([9100, {"PUT": -1}, "CASH"], [["BUY", 1, 100]], ""),
    ([9100, {"PUT": -1}, "CASH"], [["BUY", 2, 100]], "INSUFFICIENT_BUYING_POWER"),
    ([50000, {"STOCK": -100}, "CASH"], [["BUY", 100, 100]], ""),
)
def test_an_order_is_judged_by_what_the_account_has_after_it(
    held: list[Any], trades: list[list[Any]], code: str
) -> None:
    orders = [
        wanted(*order[:3], *map(NAMED.__getitem__, order[3:4]), *order[4:]) for order in trades
    ]
    assert code_of(account_of(*held), sum(orders, ())) == code


def test_closing_is_allowed_even_under_water_and_under_a_call() -> None:
    held = account(-99_000, {STOCK: 1_000})
    held.margin_call_due = TODAY

    assert code_of(held, wanted("SELL", 1_000, 99, fees=5)) == ""
    assert (
        code_of(held, wanted("SELL", 1_001, 99)) == code_of(held, wanted("BUY", 1, 100)) == CALLED
    )


@pytest.mark.parametrize(
    ("trades", "lent", "code"),
    [
        (wanted("SELL", 1, 100), {}, NO_LOCATE),
        (wanted("SELL", 40, 50, OTHER), {"BRKT": 100}, ""),
        (wanted("SELL", 41, 50, OTHER), {"BRKT": 100}, NO_LOCATE),
        (wanted("BUY", 30, 50, OTHER), {}, ""),
    ],
    ids=["none to borrow", "the last to borrow", "one too many", "buying back"],
)
def test_unborrowable_shares_cannot_be_sold_short_but_can_be_bought_back(
    trades: Trades, lent: dict[str, int], code: str
) -> None:
    held = account(100_000, {OTHER: -60})
    assert code_of(held, trades, circumstances=TradeCircumstances(TODAY, lent)) == code


@pytest.mark.parametrize(("lent", "code"), [(199, NO_LOCATE), (200, "")])
def test_a_sale_through_zero_needs_a_locate_for_what_is_sold_short(lent: int, code: str) -> None:
    through_zero = account(0, {STOCK: 100}), wanted("SELL", 300, 100), AT_100
    assert code_of(*through_zero, TradeCircumstances(TODAY, {"AVLN": lent})) == code


def test_an_option_whose_underlying_has_no_price_can_not_be_written() -> None:
    assert code_of(account(10_000), wanted("SELL", 1, 2, CALL), {}) == "NO_MARK"
    assert code_of(account(10_000), wanted("BUY", 1, 2, CALL), {}) == ""


def test_reserved_funds_cannot_be_used_again_and_closings_reserve_nothing() -> None:
    held = account(100_000)
    reserved = reservation_e4(held, wanted("BUY", 1_500, 100), AT_100, RULES)

    assert reserved == e4(75_000)

    busy = TradeCircumstances(TODAY, {}, reserved)
    assert code_of(held, wanted("BUY", 500, 100), circumstances=busy) == ""
    assert code_of(held, wanted("BUY", 501, 100), circumstances=busy) == NO_POWER
    assert reservation_e4(account(0, {STOCK: 100}), wanted("SELL", 100, 100), AT_100, RULES) == 0

    cash = account(9_000, type="CASH")
    assert reservation_e4(cash, wanted("SELL", 1, 1, PUT), AT_100, RULES) == e4(9_000), (
        "the strike of a put is set aside"
    )


def test_a_refusal_names_the_missing_amount() -> None:
    problem = order_problem(account(100_000), wanted("BUY", 2_100, 100), AT_100, RULES, PLENTY)
    assert problem is not None
    assert "$5,000.00 below the initial requirement" in problem.words


def test_a_cash_account_does_not_buy_with_sales_that_have_not_settled() -> None:
    held = account(10_000, type="CASH")
    held.unsettled = [(TOMORROW, e4(4_000))]

    assert margin_state(held, AT_100, RULES, TODAY).buying_power_e4 == e4(6_000)
    assert margin_state(held, AT_100, RULES, TOMORROW).buying_power_e4 == e4(10_000)
    assert code_of(held, wanted("BUY", 60, 100)) == ""
    assert code_of(held, wanted("BUY", 61, 100)) == "UNSETTLED_FUNDS"
    assert code_of(held, wanted("BUY", 101, 100)) == NO_POWER
    assert (
        code_of(held, wanted("BUY", 61, 100), circumstances=TradeCircumstances(TOMORROW, {})) == ""
    )


@on_each_row(
    "held, price, power",
    ([100_000], 100, 200_000),
    ([0, {"STOCK": 1000}], 100, 100_000),
    ([-50000, {"STOCK": 1000}], 100, 0),
    # a loss takes it twice, but never below nothing
    ([-50000, {"STOCK": 1000}], 90, 0),
    ([10000, {}, "CASH"], 100, 10000),
    ([9100, {"PUT": -1}, "CASH"], 100, 100),
)
def test_buying_power_is_what_new_long_stock_could_be_bought_for(
    held: list[Any], price: float, power: float
) -> None:
    assert margin_state(
        account_of(*held), {**AT_100, **marks(AVLN=price)}, RULES
    ).buying_power_e4 == e4(power)


# ---- margin calls


def test_the_call_comes_when_equity_falls_below_maintenance() -> None:
    held = account(-75_000, {STOCK: 1_000})
    assert margin_state(held, AT_100, RULES).deficit_e4 == 0
    assert liquidation_plan(held, AT_100, RULES, e4(100)) == (), (
        "an account that meets its maintenance is left alone, with and without a cushion"
    )

    state = margin_state(held, marks(AVLN=99.99), RULES)
    assert (state.equity_e4, state.maintenance_e4, state.deficit_e4) == (
        e4(24_990),
        e4(24_997.5),
        e4(7.5),
    )


@pytest.mark.parametrize(("qty", "is_met"), [(30, False), (31, True)])
def test_liquidation_sells_just_enough(qty: int, is_met: bool) -> None:
    """Each share sold at $99 lowers maintenance by $24.75 and costs $0.0104 of slippage and fee:
    30.3 of them lift $750.
    """
    held = account(-75_000, {STOCK: 1_000})
    prices = marks(AVLN=99)

    assert margin_state(held, prices, RULES).deficit_e4 == e4(24_750 - 24_000)
    assert liquidation_plan(held, prices, RULES) == ((STOCK, "SELL", 31),)
    # $1,000 are missing with a cushion of $250: 40.4 shares
    assert liquidation_plan(held, prices, RULES, e4(250)) == ((STOCK, "SELL", 41),)

    trade(held, prices, wanted("SELL", qty, 98.9895))
    assert (margin_state(held, prices, RULES).deficit_e4 == 0) == is_met


def test_liquidation_takes_the_position_that_needs_the_least_trading() -> None:
    """$2,500 are missing. BRKT lowers maintenance by $12.4945 a share; AVLN by more, but its shares
    cover the calls.
    """
    held = account(-100_000, {STOCK: 1_000, OTHER: 600, CALL: -10})

    assert margin_state(held, AT_100, RULES).deficit_e4 == e4(2_500)
    assert liquidation_plan(held, AT_100, RULES) == ((OTHER, "SELL", 201),)


def test_liquidation_closes_positions_in_turn_and_all_if_equity_is_gone() -> None:
    plan = liquidation_plan(account(-112_000, {STOCK: 1_000, OTHER: 600}), AT_100, RULES)
    assert [(instrument, side) for instrument, side, _ in plan] == [(STOCK, "SELL")]

    first, (instrument, side, qty) = liquidation_plan(
        account(-129_000, {STOCK: 1_000, OTHER: 600}), AT_100, RULES
    )

    assert (first, instrument, side) == ((STOCK, "SELL", 1_000), OTHER, "SELL")
    assert 0 < qty < 600

    gone = liquidation_plan(account(-200_000, {STOCK: 1_000, OTHER: 100, CALL: -1}), AT_100, RULES)
    assert {instrument: qty for instrument, _, qty in gone} == {STOCK: 1_000, OTHER: 100, CALL: 1}


def test_liquidation_closes_the_short_option_before_its_hedge() -> None:
    held = account(-700, {PUT100: -1, PUT: 1})
    prices = {**marks(AVLN=95), PUT100.id: e4(7), PUT.id: e4(2)}
    assert liquidation_plan(held, prices, RULES)[0] == (PUT100, "BUY", 1)


def test_a_cash_account_that_became_short_must_buy_back() -> None:
    """Exercise of a put can bring that about: shares are delivered whether they are held or not."""
    held = account(50_000, {STOCK: -100}, "CASH")
    assert margin_state(held, AT_100, RULES).deficit_e4 == e4(10_000)
    assert liquidation_plan(held, AT_100, RULES) == ((STOCK, "BUY", 100),)


# ---- laws

INSTRUMENTS = (STOCK, OTHER, option("C", 110), option("C", 120), option("P", 90), option("P", 80))
PRICES = {
    **marks(AVLN=100, BRKT=50),
    **{INSTRUMENTS[at].id: e4(price) for at, price in ((2, 2), (3, 0.8), (4, 1.5), (5, 0.4))},
}
HELD = st.builds(
    lambda cash, sizes: account(
        cash,
        {i: q * (100 if i.kind == "STOCK" else 1) for i, q in zip(INSTRUMENTS, sizes, strict=True)},
    ),
    st.integers(-60_000, 60_000),
    st.lists(st.integers(-6, 6), min_size=6, max_size=6),
)


@pytest.mark.slow
@given(
    HELD,
    st.sampled_from(INSTRUMENTS),
    st.sampled_from(("BUY", "SELL")),
    st.integers(1, 900),
    st.data(),
)
def test_allowed_trade_never_worsens_margin_and_a_pure_closing_is_allowed(
    held: Account, instrument: Instrument, side: Side, qty: int, data: st.DataObject
) -> None:
    if size := held.positions[OTHER.id].qty:
        closing = wanted(
            "SELL" if size > 0 else "BUY", data.draw(st.integers(1, abs(size))), 49, OTHER, fees=1
        )
        assert code_of(held, closing, PRICES) == ""

    trades = (WantedTrade(instrument, side, qty, PRICES[instrument.id]),)
    before = margin_state(held, PRICES, RULES)
    if not code_of(held, trades, PRICES):
        trade(held, PRICES, trades)
        after = margin_state(held, PRICES, RULES)
        assert after.equity_e4 >= after.initial_e4 or after.initial_e4 <= before.initial_e4
        assert after.deficit_e4 <= before.deficit_e4


@pytest.mark.slow
@given(HELD)
def test_liquidation_only_closes_and_ends_a_solvent_accounts_deficit(
    held: Account,
) -> None:
    plan = liquidation_plan(held, PRICES, RULES)
    sizes = {name: position.qty for name, position in held.positions.items()}
    for instrument, side, qty in plan:
        assert 0 < qty <= (sizes[instrument.id] if side == "SELL" else -sizes[instrument.id])

    assert len({instrument for instrument, _, _ in plan}) == len(plan)

    trade(held, PRICES, tuple(WantedTrade(i, side, qty, PRICES[i.id]) for i, side, qty in plan))
    assert margin_state(held, PRICES, RULES).deficit_e4 == 0 or not any(
        position.qty for position in held.positions.values()
    )


# ---- financing and settlement


@pytest.mark.parametrize(
    ("debit", "days", "rate_bps", "interest"),
    [
        (36_000, 1, 700, 7),
        (10_000, 3, 700, 5.8334),
        (0.0001, 1, 700, 0.0001),
        (0, 3, 700, 0),
        # a broker's price list: $10,000 short at 1% for seven days is $1.94
        (10_000, 7, 100, 1.9445),
    ],
)
def test_interest_is_actual_over_360_and_rounded_up(
    debit: float, days: int, rate_bps: int, interest: float
) -> None:
    assert debit_interest_e4(e4(debit), days, rate_bps) == e4(interest)


def test_short_proceeds_fund_no_purchases_and_weekends_cost_three_days() -> None:
    assert debit_e4(account(30_000, {STOCK: 1_200, OTHER: -1_000}), AT_100) == e4(20_000)
    assert debit_e4(account(150_000, {OTHER: -1_000}), AT_100) == 0
    assert debit_e4(account(-20_000, {STOCK: 1_200}), {}) == e4(20_000)

    interest, fees = daily_charges(
        account(14_000, {STOCK: 1_200, OTHER: -1_000}), marks(BRKT=50), RULES, {"BRKT": 1_200}, 3
    )

    assert (interest, fees) == (e4(7 * 3), {"BRKT": e4(50_000 * 0.12 * 3 / 360)})


# the 9th is no trading day, the 11th a Saturday
@pytest.mark.parametrize(("sold", "settled"), [(6, 7), (8, 10), (10, 13)])
def test_sales_settle_on_the_next_trading_day(sold: int, settled: int) -> None:
    assert settlement_day(trading_hours(), date(2025, 1, sold)) == date(2025, 1, settled)


def test_what_has_not_settled_is_no_settled_cash() -> None:
    held = account(1_000, type="CASH")
    held.unsettled = [(TODAY, e4(100)), (TOMORROW, e4(200))]
    assert held.settled_e4(TODAY) == e4(800)


# ---- an account after trades, valued with caution


@pytest.mark.parametrize(
    ("held_qty", "side", "qty", "price", "cash", "mark"),
    [
        # AVLN is at 100. An opened position is marked at the trade's price …
        (0, "BUY", 10, 50, -500, 50),
        (0, "SELL", 10, 150, 1_500, 150),
        (0, "SELL", 10, 50, 500, 100),  # … a short one at the market, if that is higher.
        # Closed units are paid at the worse of price and mark.
        (-30, "BUY", 10, 50, -1_000, 100),
        (-30, "BUY", 10, 150, -1_500, 100),
        (30, "SELL", 10, 150, 1_000, 100),
        (30, "SELL", 10, 50, 500, 100),
        # An enlarged position is marked at its mean: 30 at 100, and 10 more.
        (30, "BUY", 10, 60, -600, 90),
        (-30, "SELL", 10, 140, 1_400, 110),
        (-30, "SELL", 10, 60, 600, 100),
        # The mean is rounded against the trader: 7 at 100 and 2 at 50 are 800 / 9.
        (7, "BUY", 2, 50, -100, 88.8888),
        (-7, "SELL", 2, 150, 300, 111.1112),
        # From long to short: 30 are closed at the mark, 10 opened at the price.
        (30, "SELL", 40, 150, 3_000 + 1_500, 150),
        (-30, "BUY", 40, 50, -3_000 - 500, 50),
    ],
)
def test_a_limit_far_from_the_market_does_not_improve_the_account(
    held_qty: int, side: Side, qty: int, price: float, cash: float, mark: float
) -> None:
    held = {STOCK: held_qty} if held_qty else {}
    before = portfolio_of(account(0, held), marks(AVLN=100))

    after = after_trades(before, [WantedTrade(STOCK, side, qty, e4(price))])

    change = qty if side == "BUY" else -qty

    assert after.cash_e4 == e4(cash)
    assert after.holdings == {STOCK.id: Holding(STOCK, held_qty + change, e4(mark))}


def test_a_trade_that_closes_a_position_leaves_none_and_pays_its_fees() -> None:
    before = portfolio_of(account(0, {STOCK: 10}), marks(AVLN=100))

    after = after_trades(before, [WantedTrade(STOCK, "SELL", 10, e4(100), fees_e4=e4(3))])

    assert after.holdings == {}
    assert after.cash_e4 == e4(997)
    assert after.equity_e4 == e4(997)


# ---- what a CASH account sets aside


@pytest.mark.parametrize(
    ("trade", "reserved"),
    [
        (WantedTrade(STOCK, "BUY", 3, e4(20), fees_e4=e4(1)), 61),
        (WantedTrade(CALL, "BUY", 3, e4(2), fees_e4=e4(1)), 601),  # 300 shares
        (WantedTrade(PUT, "SELL", 2, e4(2), fees_e4=e4(1)), 18_001),  # 200 shares at 90
        (WantedTrade(STOCK, "SELL", 3, e4(150), fees_e4=e4(1)), 0),  # only closes
    ],
)
def test_an_order_of_a_cash_account_reserves_what_it_pays_or_secures(
    trade: WantedTrade, reserved: float
) -> None:
    holder = account(100_000, {STOCK: 3}, "CASH")

    assert reservation_e4(holder, [trade], AT_100, RULES) == e4(reserved)


@pytest.mark.parametrize(("cash", "code"), [(601, None), (600.99, "INSUFFICIENT_BUYING_POWER")])
def test_an_option_costs_a_cash_account_100_times_its_price(cash: float, code: Any) -> None:
    trade = WantedTrade(CALL, "BUY", 3, e4(2), fees_e4=e4(1))

    problem = order_problem(account(cash, {}, "CASH"), [trade], AT_100, RULES, PLENTY)

    expected = None

    if code is not None:
        expected = TradeProblem(
            code, "settled cash not set aside is $0.01 short of what this needs"
        )

    assert problem == expected
