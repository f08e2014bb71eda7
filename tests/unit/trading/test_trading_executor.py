"""The rules of the executor, one fact at a time."""

from __future__ import annotations

import pytest

from ktdeval.errors import InvariantError
from ktdeval.trading.executor import execute, integer_terms, settle
from ktdeval.trading.market_tape import MarketTape, TradingDay
from ktdeval.trading.types import RULES, Account, Order, Outcome, Position, TradingConfig
from trading_market import CODES, make_market

CONFIG = TradingConfig()
FREE = TradingConfig(buy_fee_bps=0.0, sell_fee_bps=0.0, min_fee_cny=0.0, max_weight=1.0)
BOARDS = (CODES["main2"], CODES["chinext"], CODES["main"], CODES["star"])
A, CHINEXT, B, STAR = range(4)
CASH = Account(100_000_000, {})


def day_at(
    *opens: float | None,
    previous: tuple[float, ...] = (10.0, 20.0, 50.0, 40.0),
    member: tuple[bool, ...] = (True,) * 4,
    config: TradingConfig = CONFIG,
) -> TradingDay:
    """Fill day of four names (main, ChiNext, main, STAR) that closed at `previous`; opens default to that."""
    rows = [list(previous), [*opens, *previous[len(opens) :]]]
    return MarketTape.from_snapshot(make_market(BOARDS, rows, member=[[True] * 4, list(member)]), config).day(1)


def buy(asset: int | None, *, shares: int | None = None, weight: float | None = None) -> Order:
    return Order(asset, "BUY", 0.6, "because it fits", weight, shares)


def sell(asset: int | None, *, shares: int | None = None, weight: float | None = None) -> Order:
    return Order(asset, "SELL", 0.6, "because it fits", weight, shares)


def ends(account: Account, day: TradingDay, *orders: Order, config: TradingConfig = CONFIG) -> list[tuple[str, str | None, int]]:
    """(status, rule, shares) of each order."""
    return [(outcome.status, outcome.rule, outcome.shares) for outcome in execute(account, day, orders, config)[1]]


def held(asset: int, shares: int, locked: int = 0, cash_fen: int = 100_000_000) -> Account:
    return Account(cash_fen, {asset: Position(shares, locked)})


def rejects(rule: str) -> list[tuple[str, str | None, int]]:
    return [("rejected", rule, 0)]


# --- fills and costs


def test_a_buy_costs_its_notional_and_five_basis_points() -> None:
    account, (outcome,) = execute(CASH, day_at(10.2), (buy(A, shares=2_000),), CONFIG)
    assert outcome == Outcome("filled", None, "", 2_000, 102_000, 2_040_000, 1_020)
    assert account == Account(100_000_000 - 2_041_020, {A: Position(2_000, 2_000)})


def test_a_sell_pays_its_notional_less_fifteen_basis_points() -> None:
    account, (outcome,) = execute(held(A, 2_000), day_at(10.2), (sell(A, shares=2_000),), CONFIG)
    assert (outcome.notional_fen, outcome.fee_fen) == (2_040_000, 3_060)
    assert account == Account(100_000_000 + 2_040_000 - 3_060, {})


def test_a_small_order_costs_five_yuan() -> None:
    _, outcomes = execute(held(B, 100), day_at(), (buy(A, shares=900), sell(B, shares=100)), CONFIG)
    assert [outcome.fee_fen for outcome in outcomes] == [500, 750]
    assert execute(CASH, day_at(), (buy(A, shares=1_000),), CONFIG)[1][0].fee_fen == 500
    assert execute(CASH, day_at(), (buy(A, shares=1_100),), CONFIG)[1][0].fee_fen == 550


def test_fees_round_half_a_fen_up() -> None:
    config = TradingConfig(buy_fee_bps=1.5, min_fee_cny=0.0)
    assert execute(CASH, day_at(10.1), (buy(A, shares=100),), config)[1][0].fee_fen == 15, "1,010.00 * 1.5 bps = 15.15 fen"
    assert execute(CASH, day_at(10.3), (buy(A, shares=100),), config)[1][0].fee_fen == 15, "15.45"
    assert execute(CASH, day_at(9.9), (buy(A, shares=1_000),), TradingConfig(buy_fee_bps=0.5, min_fee_cny=0.0))[1][0].fee_fen == 50


def test_orders_fill_at_the_open_and_not_at_the_close() -> None:
    market = make_market([CODES["main"]], [[10.0], [10.4]], closes=[[10.0], [9.8]])
    _, (outcome,) = execute(CASH, MarketTape.from_snapshot(market, CONFIG).day(1), (buy(0, shares=100),), CONFIG)
    assert outcome.price_ticks == 104_000


def test_adjusted_prices_trade_in_ten_thousandths_of_a_yuan() -> None:
    account, (outcome,) = execute(CASH, day_at(10.0123), (buy(A, shares=300),), CONFIG)
    assert (outcome.price_ticks, outcome.notional_fen) == (100_123, 300_369)
    assert account.cash_fen == 100_000_000 - 300_369 - 500


def test_an_empty_action_changes_nothing() -> None:
    account = held(A, 300, 100)
    assert execute(account, day_at(), (), CONFIG) == (account, [])


def test_the_account_given_is_not_changed() -> None:
    positions = {A: Position(300)}
    execute(Account(100_000_000, positions), day_at(), (sell(A, shares=300), buy(B, shares=100)), CONFIG)
    assert positions == {A: Position(300)}


# --- order of execution


def test_sells_run_before_buys_and_fund_them() -> None:
    account = held(A, 1_000, cash_fen=0)
    result, outcomes = execute(account, day_at(), (buy(CHINEXT, shares=400), sell(A, shares=1_000)), FREE)
    assert [outcome.status for outcome in outcomes] == ["filled", "filled"]
    assert result == Account(200_000, {CHINEXT: Position(400, 400)})


def test_outcomes_come_in_the_order_of_the_action() -> None:
    orders = (buy(A, shares=100), sell(A, shares=100), buy(None, shares=100), buy(B, shares=100))
    assert [rule for _, rule, _ in ends(CASH, day_at(), *orders)] == [None, "holding", "universe", None]


def test_buys_take_the_cash_in_the_order_of_the_action() -> None:
    account = Account(1_100_000, {})
    both = (buy(A, shares=1_000), buy(CHINEXT, shares=100))
    assert [rule for _, rule, _ in ends(account, day_at(), *both, config=FREE)] == [None, "cash"]
    assert ends(account, day_at(), *both[::-1], config=FREE) == [("filled", None, 100), ("partially_filled", "cash", 900)]


def test_a_rejected_order_stops_no_other() -> None:
    orders = (buy(None, shares=100), sell(B, shares=100), buy(A, weight=2.0), buy(A, shares=100))
    assert [status for status, _, _ in ends(CASH, day_at(), *orders)] == ["rejected", "rejected", "rejected", "filled"]


def test_two_orders_for_one_name_are_judged_one_after_the_other() -> None:
    assert ends(CASH, day_at(), buy(A, weight=0.05), buy(A, weight=0.05)) == [("filled", None, 5_000), *rejects("target")]
    assert ends(held(A, 500), day_at(), sell(A, shares=300), sell(A, shares=300)) == [
        ("filled", None, 300),
        ("partially_filled", "holding", 200),
    ]


# --- schema, universe, holding


@pytest.mark.parametrize(
    "order",
    [
        Order(A, "BUY", 0.5, ""),
        Order(A, "SELL", 0.5, ""),
        buy(A, shares=100, weight=0.1),
        buy(A, shares=0),
        buy(A, shares=-100),
        buy(A, shares=100.0),  # type: ignore[arg-type]
        buy(A, weight=float("nan")),
        buy(A, weight=float("inf")),
        buy(A, weight=-0.1),
        buy(A, weight=1.01),
        Order(A, "SHORT", 0.5, "", shares=100),  # type: ignore[arg-type]
    ],
)
def test_an_order_without_legal_form_breaks_the_schema_rule(order: Order) -> None:
    assert ends(held(A, 100), day_at(), order) == rejects("schema")


def test_a_stock_id_that_is_no_asset_is_outside_the_universe() -> None:
    assert ends(CASH, day_at(), buy(None, shares=100), sell(None, shares=100)) == rejects("universe") * 2


def test_a_name_that_left_the_index_can_be_sold_but_not_bought() -> None:
    day = day_at(member=(False, True, True, True))
    assert ends(held(A, 500), day, sell(A, shares=200), buy(A, shares=100)) == [("filled", None, 200), *rejects("universe")]


def test_what_is_not_held_cannot_be_sold() -> None:
    assert ends(CASH, day_at(), sell(A, shares=100), sell(A, weight=0.0)) == rejects("holding") * 2


def test_selling_more_than_is_held_sells_all_of_it() -> None:
    assert ends(held(A, 500), day_at(), sell(A, shares=700)) == [("partially_filled", "holding", 500)]
    assert ends(held(A, 500), day_at(), sell(A, shares=10**40)) == [("partially_filled", "holding", 500)]


# --- T+1


def test_shares_bought_today_cannot_be_sold_today() -> None:
    day = day_at()
    account, _ = execute(CASH, day, (buy(A, shares=500),), CONFIG)
    assert ends(account, day, sell(A, shares=100), sell(A, weight=0.0)) == rejects("t_plus_1") * 2


def test_only_what_was_held_overnight_is_sold() -> None:
    assert ends(held(A, 500, 200), day_at(), sell(A, shares=300)) == [("filled", None, 300)]
    assert ends(held(A, 500, 200), day_at(), sell(A, shares=400)) == [("partially_filled", "t_plus_1", 300)]
    account, _ = execute(held(A, 500, 200), day_at(), (sell(A, weight=0.0),), CONFIG)
    assert account.positions == {A: Position(200, 200)}


# --- suspended, price limit


def test_a_suspended_name_neither_buys_nor_sells() -> None:
    assert ends(held(A, 500), day_at(None), sell(A, shares=100), buy(A, shares=100)) == rejects("suspended") * 2


def test_limit_up_cannot_be_bought_and_limit_down_cannot_be_sold() -> None:
    up, down = day_at(10.95), day_at(9.05)
    assert ends(held(A, 500), up, buy(A, shares=100), sell(A, shares=100)) == [*rejects("price_limit"), ("filled", None, 100)]
    assert ends(held(A, 500), down, buy(A, shares=100), sell(A, shares=100)) == [("filled", None, 100), *rejects("price_limit")]


def test_a_chinext_name_may_move_further_than_a_main_board_name() -> None:
    assert ends(CASH, day_at(10.95, 21.9), buy(A, shares=100), buy(CHINEXT, shares=100)) == [
        *rejects("price_limit"),
        ("filled", None, 100),
    ]


# --- position and weight limits


def test_a_new_name_needs_a_free_place() -> None:
    config = TradingConfig(max_positions=2)
    account = Account(100_000_000, {A: Position(100), CHINEXT: Position(100)})
    orders = (buy(B, shares=100), buy(A, shares=100))
    assert ends(account, day_at(), *orders, config=config) == [*rejects("position_limit"), ("filled", None, 100)]


def test_a_sell_out_frees_a_place_on_the_same_day() -> None:
    config = TradingConfig(max_positions=1)
    assert ends(held(A, 100), day_at(), buy(B, shares=100), sell(A, shares=100), config=config) == [("filled", None, 100)] * 2


def test_a_buy_may_reach_the_largest_weight_but_not_exceed_it() -> None:
    assert ends(CASH, day_at(), buy(A, shares=10_000)) == [("filled", None, 10_000)], "exactly 10 %"
    assert ends(CASH, day_at(), buy(A, shares=10_100)) == rejects("weight_limit")
    assert ends(held(A, 8_000, cash_fen=92_000_000), day_at(), buy(A, shares=2_100)) == rejects("weight_limit")
    assert ends(held(A, 8_000, cash_fen=92_000_000), day_at(), buy(A, shares=2_000)) == [("filled", None, 2_000)]


def test_a_target_above_the_largest_weight_is_rejected_not_cut() -> None:
    assert ends(CASH, day_at(), buy(A, weight=0.12)) == rejects("weight_limit")


def test_a_holding_that_grew_beyond_the_largest_weight_may_stay() -> None:
    assert ends(held(A, 20_000, cash_fen=0), day_at(), sell(A, shares=100)) == [("filled", None, 100)]


def test_the_weight_limit_judges_the_order_before_cash_cuts_it() -> None:
    account = held(B, 10_000, cash_fen=100_000)
    assert ends(account, day_at(), buy(A, shares=6_000)) == rejects("weight_limit")


# --- target weights


def test_a_target_weight_is_a_share_of_the_nav_at_the_opens_before_any_fill() -> None:
    # 500,000 + 10,000 * 51 = 1,010,000; 5 % = 50,500 = 5,050 shares at 10.00, 50 lots. Selling B first changes nothing.
    account = held(B, 10_000, cash_fen=50_000_000)
    orders = (sell(B, shares=9_900), buy(A, weight=0.05))
    assert ends(account, day_at(10.0, 20.0, 51.0), *orders) == [("filled", None, 9_900), ("filled", None, 5_000)]


def test_a_suspended_holding_counts_at_its_last_close() -> None:
    account = held(B, 10_000, cash_fen=50_000_000)
    assert ends(account, day_at(10.0, 20.0, None), buy(A, weight=0.05)) == [("filled", None, 5_000)]


def test_a_sell_to_a_target_leaves_whole_lots() -> None:
    assert ends(held(A, 5_000, cash_fen=95_000_000), day_at(), sell(A, weight=0.0333)) == [("filled", None, 1_700)]
    assert ends(held(A, 5_000), day_at(), sell(A, weight=0.0)) == [("filled", None, 5_000)]


def test_a_target_already_reached_or_on_the_other_side_is_rejected() -> None:
    account = held(A, 5_000, cash_fen=95_000_000)
    for order in (buy(A, weight=0.05), sell(A, weight=0.05), buy(A, weight=0.02), sell(A, weight=0.09), buy(B, weight=0.0)):
        assert ends(account, day_at(), order) == rejects("target")


def test_a_target_less_than_a_lot_away_is_a_lot_matter() -> None:
    assert ends(CASH, day_at(), buy(A, weight=0.0009)) == rejects("lot"), "90 shares"
    assert ends(CASH, day_at(), buy(STAR, weight=0.006)) == rejects("lot"), "150 STAR shares: one lot, and two are needed"


def test_a_buy_to_a_target_from_an_odd_lot_never_overshoots_it() -> None:
    account = held(A, 150, cash_fen=99_850_000)
    assert ends(account, day_at(), buy(A, weight=0.0056)) == [("filled", None, 300)], "target 500, 450 held after"


# --- lots


def test_buys_are_whole_lots() -> None:
    assert ends(CASH, day_at(), buy(A, shares=150), buy(A, shares=99)) == rejects("lot") * 2


def test_the_smallest_star_order_is_two_hundred_shares() -> None:
    assert ends(CASH, day_at(), buy(STAR, shares=100), buy(STAR, shares=200)) == [*rejects("lot"), ("filled", None, 200)]


def test_star_shares_may_be_sold_a_lot_at_a_time() -> None:
    assert ends(held(STAR, 300), day_at(), sell(STAR, shares=100)) == [("filled", None, 100)]


def test_an_odd_lot_is_sold_whole_or_not_at_all() -> None:
    account = held(A, 1_030)
    assert ends(account, day_at(), sell(A, shares=30)) == [("filled", None, 30)]
    assert ends(account, day_at(), sell(A, shares=130)) == [("filled", None, 130)]
    assert ends(account, day_at(), sell(A, shares=1_000)) == [("filled", None, 1_000)]
    assert ends(account, day_at(), sell(A, shares=20), sell(A, shares=1_010)) == rejects("lot") * 2
    assert ends(account, day_at(), sell(A, weight=0.005)) == [("filled", None, 530)], "500 are left"


# --- cash


def test_a_buy_short_of_cash_takes_the_lots_that_cash_covers_with_their_fee() -> None:
    config = TradingConfig(max_weight=1.0)
    exactly = Account(1_000_500, {})
    assert ends(exactly, day_at(), buy(A, shares=1_000), config=config) == [("filled", None, 1_000)]
    a_fen_less = Account(1_000_499, {})
    assert ends(a_fen_less, day_at(), buy(A, shares=1_000), config=config) == [("partially_filled", "cash", 900)]


def test_cash_for_less_than_the_smallest_order_buys_nothing() -> None:
    config = TradingConfig(max_weight=1.0)
    assert ends(Account(100_499, {}), day_at(), buy(A, shares=100), config=config) == rejects("cash")
    order = buy(STAR, shares=300)
    assert ends(held(B, 300, cash_fen=1_000_000), day_at(), order, config=config) == [("partially_filled", "cash", 200)]
    assert ends(held(B, 300, cash_fen=800_499), day_at(), order, config=config) == rejects("cash")


def test_a_huge_order_is_cut_to_cash_at_once() -> None:
    config = TradingConfig(max_weight=1.0, buy_fee_bps=1000.0)
    assert ends(CASH, day_at(), buy(A, weight=1.0), config=config) == [("partially_filled", "cash", 90_900)]
    assert ends(CASH, day_at(), buy(A, shares=10**40)) == rejects("weight_limit")


def test_a_sell_that_cannot_pay_its_fee_is_rejected() -> None:
    day = day_at(0.02, previous=(0.02, 20.0, 50.0, 40.0))
    assert ends(held(A, 100, cash_fen=299), day, sell(A, shares=100)) == rejects("cash")
    assert ends(held(A, 100, cash_fen=300), day, sell(A, shares=100)) == [("filled", None, 100)]


# --- words


def test_every_rejection_and_cut_says_why_without_identities_or_numbers() -> None:
    day = day_at(10.0, None, 55.0, member=(True, True, True, False))
    account = Account(100_000_000, {A: Position(300, 100), B: Position(300)})
    orders = (
        Order(A, "BUY", 0.5, ""), buy(STAR, shares=200), buy(CHINEXT, shares=100), buy(B, shares=100), buy(A, shares=150),
        buy(A, weight=0.5), buy(A, weight=0.0), sell(CHINEXT, shares=100), sell(A, shares=300), sell(B, shares=900),
        sell(A, shares=100),
    )  # fmt: skip
    _, outcomes = execute(account, day, orders, CONFIG)
    rules = [outcome.rule for outcome in outcomes]
    assert rules == [
        *("schema", "universe", "suspended", "price_limit", "lot", "weight_limit", "target"),
        *("holding", "t_plus_1", "holding", "t_plus_1"),
    ]
    for outcome in outcomes:
        assert outcome.rule in RULES
        assert outcome.message
        assert not any(character.isdigit() for character in outcome.message.replace("0 to 1", "").replace("at least 1", ""))


# --- a whole day


def test_a_settled_day_carries_opening_and_closing_worth() -> None:
    market = make_market(
        [CODES["main2"], CODES["main"]],
        [[10.0, 50.0], [10.2, 25.5]],
        closes=[[10.0, 50.0], [10.5, 25.0]],
        factor=[[1.0, 1.0], [1.0, 2.0]],
    )
    day = MarketTape.from_snapshot(market, CONFIG).day(1)
    settlement = settle(Account(1_000_000, {1: Position(100, 100)}), day, (buy(0, weight=0.1), sell(1, shares=100)), CONFIG, 0)
    assert settlement.opened == Account(1_000_000, {1: Position(200)})
    assert settlement.open_nav_fen == 1_000_000 + 200 * 2_550
    assert [outcome.shares for outcome in settlement.outcomes] == [100, 100]
    assert settlement.after.positions == {0: Position(100, 100), 1: Position(100)}
    assert settlement.holdings_fen == 100 * 1_050 + 100 * 2_500
    assert settlement.nav_fen == settlement.after.cash_fen + settlement.holdings_fen


def test_a_decision_dated_on_its_fill_day_is_refused() -> None:
    with pytest.raises(InvariantError, match="not before the fill"):
        settle(CASH, day_at(), (), CONFIG, 1)


def test_terms_are_the_config_in_integers() -> None:
    assert integer_terms(CONFIG) == (5_000_000, 15_000_000, 500, 100, 20, 100_000_000)
