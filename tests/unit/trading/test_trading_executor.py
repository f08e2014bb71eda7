"""The rules of the executor, one fact a row, and those that are known to be broken when an action is decided."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from ktdeval.errors import InvariantError
from ktdeval.market.venue import find_venue
from ktdeval.trading.constraints import known_breaches
from ktdeval.trading.executor import REJECTIONS, execute, settle
from ktdeval.trading.market_tape import MarketRules, MarketTape, TradingDay
from ktdeval.trading.terms import Terms, limits_of, terms_of
from ktdeval.trading.types import Account, Order, Outcome, Position, TradingConfig
from searching import examples
from tables import on_each_row
from trading_market import CODES, make_market

CONFIG = TradingConfig()
FREE = TradingConfig(buy_fee_bps=0.0, sell_fee_bps=0.0, min_fee_cny=0.0, max_weight=1.0)
BOARDS = (CODES["main2"], CODES["chinext"], CODES["main"], CODES["star"])
A, CHINEXT, B, STAR = range(4)
NAMES = {"A": A, "CHINEXT": CHINEXT, "B": B, "STAR": STAR}
CLOSED = (10.0, 20.0, 50.0, 40.0)
CASH = Account(100_000_000, {})


def day_at(*opens: float | None, previous: Sequence[float] = CLOSED, outside: int | None = None) -> TradingDay:
    """Fill day of four names (main, ChiNext, main, STAR) that closed at `previous`; opens default to that."""
    rows = [list(previous), [*opens, *previous[len(opens) :]]]
    member = [[True] * 4, [asset != outside for asset in range(4)]]
    return MarketTape.from_snapshot(make_market(BOARDS, rows, member=member), CONFIG).day(1)


def under(day: TradingDay, config: TradingConfig) -> TradingDay:
    """The same day for another config's costs, lots and limits."""
    return replace(day, rules=MarketRules.of(make_market(BOARDS, [[1.0] * 4] * 2), config))


def buy(asset: int | None, shares: int | None = None, *, weight: float | None = None) -> Order:
    return Order(asset, "BUY", 0.6, "because it fits", weight, shares)


def sell(asset: int | None, shares: int | None = None, *, weight: float | None = None) -> Order:
    return Order(asset, "SELL", 0.6, "because it fits", weight, shares)


def held(asset: int, shares: int, locked: int = 0, cash_minor: int = 100_000_000) -> Account:
    return Account(cash_minor, {asset: Position(shares, locked)})


def order_of(text: str) -> Order:
    """An order of a table: side, name, shares, and a weight behind its word."""
    side, name, *rest = text.split()
    weight = float(rest[-1]) if "weight" in rest else None
    shares: Any = None if not rest or rest[0] == "weight" else {"10**40": 10**40}.get(rest[0]) or json.loads(rest[0])
    return Order(NAMES.get(name), side, 0.6, "because it fits", weight, shares)  # type: ignore[arg-type]


def told(outcome: Outcome) -> str:
    word = "cut" if outcome.status == "partially_filled" else outcome.status
    return " ".join(filter(None, (word, outcome.rule, str(outcome.shares or ""))))


@on_each_row
def test_an_order_ends_as_the_rules_say(
    fact: str, account: dict[str, Any], orders: list[str], ends: list[str], more: dict[str, Any]
) -> None:
    holdings = {NAMES[name]: Position(*(one if isinstance(one, list) else [one])) for name, one in account.items() if name in NAMES}
    given, before = Account(account.get("cash", CASH.cash_minor), holdings), dict(holdings)
    config = TradingConfig(**{name: value for name, value in more.items() if name not in ("opens", "previous", "outside")})
    day = day_at(*more.get("opens", ()), previous=more.get("previous", CLOSED), outside=NAMES.get(more.get("outside", "")))
    outcomes = execute(given, under(day, config), tuple(map(order_of, orders)))[1]
    assert list(map(told, outcomes)) == ends, fact
    assert given.positions == before, "the account given is not changed"


# --- fills and costs


def test_a_fill_moves_its_notional_and_its_cost() -> None:
    account, (outcome,) = execute(CASH, day_at(10.2), (buy(A, 2_000),))
    assert outcome == Outcome("filled", None, "", 2_000, 102_000, 2_040_000, 1_020), "five basis points"
    assert account == Account(100_000_000 - 2_041_020, {A: Position(2_000, 2_000)})
    account, (outcome,) = execute(held(A, 2_000), day_at(10.2), (sell(A, 2_000),))
    assert (outcome.notional_minor, outcome.fee_minor) == (2_040_000, 3_060), "fifteen basis points"
    assert account == Account(100_000_000 + 2_040_000 - 3_060, {})
    account, (outcome,) = execute(CASH, day_at(10.0123), (buy(A, 300),))
    assert (outcome.price_ticks, outcome.notional_minor) == (100_123, 300_369), "adjusted prices trade in ten-thousandths"
    assert account.cash_minor == 100_000_000 - 300_369 - 500
    result, outcomes = execute(held(A, 1_000, cash_minor=0), under(day_at(), FREE), (buy(CHINEXT, 400), sell(A, 1_000)))
    assert [outcome.status for outcome in outcomes] == ["filled", "filled"], "sells run first and fund the buys"
    assert result == Account(200_000, {CHINEXT: Position(400, 400)})
    account = held(A, 300, 100)
    assert execute(account, day_at(), ()) == (account, []), "an empty action changes nothing"
    account, _ = execute(held(A, 500, 200), day_at(), (sell(A, weight=0.0),))
    assert account.positions == {A: Position(200, 200)}, "locked shares stay"


@pytest.mark.parametrize(
    ("order", "open_", "config", "fee_minor"),
    [
        (buy(A, 900), 10.0, CONFIG, 500), (buy(A, 1_000), 10.0, CONFIG, 500), (buy(A, 1_100), 10.0, CONFIG, 550),
        (sell(B, 100), 10.0, CONFIG, 750), (sell(B, 60), 10.0, TradingConfig(lot_shares=60), 500),
        (buy(A, 100), 10.1, TradingConfig(buy_fee_bps=1.5, min_fee_cny=0.0), 15),  # 1,010.00 * 1.5 bps = 15.15 fen
        (buy(A, 100), 10.3, TradingConfig(buy_fee_bps=1.5, min_fee_cny=0.0), 15),  # 15.45
        (buy(A, 1_000), 9.9, TradingConfig(buy_fee_bps=0.5, min_fee_cny=0.0), 50),  # 49.5
    ],
)  # fmt: skip
def test_a_small_order_costs_five_yuan_and_fees_round_half_a_fen_up(
    order: Order, open_: float, config: TradingConfig, fee_minor: int
) -> None:
    (outcome,) = execute(held(B, 100), under(day_at(open_), config), (order,))[1]
    assert outcome.fee_minor == fee_minor


def test_every_rejection_and_cut_says_why_without_identities_or_numbers() -> None:
    day = day_at(10.0, None, 55.0, outside=STAR)
    account = Account(100_000_000, {A: Position(300, 100), B: Position(300)})
    orders = (
        Order(A, "BUY", 0.5, ""), buy(STAR, 200), buy(CHINEXT, 100), buy(B, 100), buy(A, 150), buy(A, weight=0.5),
        buy(A, weight=0.0), sell(CHINEXT, 100), sell(A, 300), sell(B, 900), sell(A, 100),
    )  # fmt: skip
    outcomes = execute(account, day, orders)[1]
    rules = "schema universe suspended price_limit lot weight_limit target holding t_plus_1 holding t_plus_1"
    assert [outcome.rule for outcome in outcomes] == rules.split()
    for outcome in outcomes:
        assert outcome.rule in REJECTIONS
        assert outcome.message
        assert not any(character.isdigit() for character in outcome.message.replace("0 to 1", "").replace("at least 1", ""))


# --- a whole day


def test_a_settled_day_carries_opening_and_closing_worth() -> None:
    """Orders fill at the open, holdings are marked at the close, and a split comes before both."""
    closes, factor = [[10.0, 50.0], [10.5, 25.0]], [[1.0, 1.0], [1.0, 2.0]]
    market = make_market([CODES["main2"], CODES["main"]], [[10.0, 50.0], [10.2, 25.5]], closes, factor=factor)
    day = MarketTape.from_snapshot(market, CONFIG).day(1)
    settlement = settle(Account(1_000_000, {1: Position(100, 100)}), day, (buy(0, weight=0.1), sell(1, 100)), 0)
    assert settlement.opened == Account(1_000_000, {1: Position(200)})
    assert settlement.open_nav_minor == 1_000_000 + 200 * 2_550
    assert [(outcome.shares, outcome.price_ticks) for outcome in settlement.outcomes] == [(100, 102_000), (100, 255_000)]
    assert settlement.after.positions == {0: Position(100, 100), 1: Position(100)}
    assert settlement.holdings_minor == 100 * 1_050 + 100 * 2_500
    assert settlement.nav_minor == settlement.after.cash_minor + settlement.holdings_minor
    with pytest.raises(InvariantError, match="not before the fill"):
        settle(CASH, day_at(), (), 1)
    terms = terms_of(find_venue("a_share"), CONFIG)
    assert terms == Terms(100, 100, 100, 5_000_000, 15_000_000, 500, None, 0, True, None), "the venue and the config in integers"
    assert limits_of(CONFIG) == (20, 100_000_000)


# -- rules that are known to be broken when an action is decided


TWO = TradingConfig(max_positions=2, max_weight=0.6, constraint_feedback=True)
WORTH = {A: 1_000, CHINEXT: 2_000, B: 5_000, STAR: 4_000}  # fen a share: the closes of `day_at`
HALF = Account(50_000_000, {A: Position(50_000, 100)})
FULL = Account(0, {A: Position(50_000), CHINEXT: Position(25_000)})
ACCOUNTS = {"half": HALF, "full": FULL}


def breaches(account: Account, *action: Order, config: TradingConfig = TWO) -> list[tuple[int, str]]:
    values = {asset: held.shares * WORTH[asset] for asset, held in account.positions.items()}
    return [tuple(breach) for breach in known_breaches(account, values, action, config)]


@on_each_row
def test_an_order_breaks_a_rule_as_known_at_the_close(account: str, action: list[str], expected: list[str]) -> None:
    assert [f"{index} {rule}" for index, rule in breaches(ACCOUNTS[account], *map(order_of, action))] == expected


ORDERS = st.builds(
    lambda asset, side, weight, shares: sell(asset, shares) if shares and side == "SELL" else Order(asset, side, 0.5, "", weight),
    st.sampled_from([A, CHINEXT, B, None]),
    st.sampled_from(["BUY", "SELL"]),
    st.sampled_from([0.0, 0.1, 0.3, 0.6, 0.8, 1.0]),
    st.none() | st.integers(1, 600).map(lambda lots: lots * 100),
)


@examples(60, search=150)
@given(st.lists(ORDERS, max_size=6), st.sampled_from([HALF, FULL, Account(100_000_000, {})]))
def test_the_executor_fills_no_order_whole_that_is_known_to_break_a_rule(orders: list[Order], account: Account) -> None:
    broken = breaches(account, *orders)
    _, outcomes = execute(account, under(day_at(10.0), TWO), tuple(orders))
    assert all(outcomes[index].status != "filled" for index, _ in broken)
    if broken and broken[0][1] != "cash":  # the orders before the first are filled as they were judged
        assert outcomes[broken[0][0]].status == "rejected"
