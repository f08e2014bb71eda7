"""The rules of the executor, one fact a row, those that are known to be broken when an action is
decided, and worked examples of shorts, fractions and closed days under any venue.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from ktdeval.errors import DataError, InvariantError
from ktdeval.market.rules.calendar import sessions
from ktdeval.market.snapshots.snapshot import Instrument, MarketSnapshot
from ktdeval.market.venues.venue import Fees, Shorting, Venue, find_venue
from ktdeval.testing import on_each_row, snapshot_of_days
from ktdeval.trading.daily_settlement import Settlement, check_step, margin_minor, open_account
from ktdeval.trading.executor import execute, settle
from ktdeval.trading.market_rules import MarketRules
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.order_outcomes import REJECTIONS
from ktdeval.trading.rule_breaches import known_breaches
from ktdeval.trading.trading_day import TradingDay
from ktdeval.trading.types import (
    Account,
    Action,
    Charge,
    CorporateAction,
    Order,
    Outcome,
    Position,
    TradingConfig,
)
from ktdeval.trading.venue_terms import Terms, limits_of, terms_of
from ktdeval.values import to_mapping
from support.market.trading_market import CODES
from support.searching import examples

CONFIG = TradingConfig()
FREE = TradingConfig(buy_fee_bps=0.0, sell_fee_bps=0.0, min_fee_cny=0.0, max_weight=1.0)
BOARDS = (CODES["main2"], CODES["chinext"], CODES["main"], CODES["star"])
A, CHINEXT, B, STAR = range(4)
NAMES = {"A": A, "CHINEXT": CHINEXT, "B": B, "STAR": STAR}
CLOSED = (10.0, 20.0, 50.0, 40.0)
CASH = Account(100_000_000, {})


def day_at(
    *opens: float | None, previous: Sequence[float] = CLOSED, outside: int | None = None
) -> TradingDay:
    """Fill day of four names (main, ChiNext, main, STAR) that closed at `previous`; opens default
    to that.
    """
    rows = [list(previous), [*opens, *previous[len(opens) :]]]
    member = [[True] * 4, [asset != outside for asset in range(4)]]

    return MarketTape.from_snapshot(snapshot_of_days(BOARDS, rows, member=member), CONFIG).day(1)


def under(day: TradingDay, config: TradingConfig) -> TradingDay:
    """The same day for another config's costs, lots and limits."""
    return replace(day, rules=MarketRules.of(snapshot_of_days(BOARDS, [[1.0] * 4] * 2), config))


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
    shares: Any = (
        None
        if not rest or rest[0] == "weight"
        else {"10**40": 10**40}.get(rest[0]) or json.loads(rest[0])
    )

    return Order(NAMES.get(name), side, 0.6, "because it fits", weight, shares)  # type: ignore[arg-type]


def ending(outcome: Outcome) -> str:
    word = "cut" if outcome.status == "partially_filled" else outcome.status
    return " ".join(filter(None, (word, outcome.rule, str(outcome.shares or ""))))


# The account has a million CNY unless its cash is given, in fen; shares of a holding, and how many of them are locked. Names
# closed at 10 (A), 20 (CHINEXT), 50 (B) and 40 (STAR), and open there unless `opens` says something else.
@on_each_row(
    "fact, account, orders, ends, more",
    # order of execution
    (
        "outcomes come in the order of the action",
        {},
        ["BUY A 100", "SELL A 100", "BUY none 100", "BUY B 100"],
        ["filled 100", "rejected holding", "rejected universe", "filled 100"],
        {},
    ),
    (
        "buys take the cash in their order",
        {"cash": 1_100_000},
        ["BUY A 1000", "BUY CHINEXT 100"],
        ["filled 1000", "rejected cash"],
        {"buy_fee_bps": 0.0, "sell_fee_bps": 0.0, "min_fee_cny": 0.0, "max_weight": 1.0},
    ),
    (
        "and in the other order",
        {"cash": 1_100_000},
        ["BUY CHINEXT 100", "BUY A 1000"],
        ["filled 100", "cut cash 900"],
        {"buy_fee_bps": 0.0, "sell_fee_bps": 0.0, "min_fee_cny": 0.0, "max_weight": 1.0},
    ),
    (
        "a rejected order stops no other",
        {},
        ["BUY none 100", "SELL B 100", "BUY A weight 2.0", "BUY A 100"],
        ["rejected universe", "rejected holding", "rejected schema", "filled 100"],
        {},
    ),
    (
        "two buys of one name are judged one after the other",
        {},
        ["BUY A weight 0.05", "BUY A weight 0.05"],
        ["filled 5000", "rejected target"],
        {},
    ),
    (
        "and two sells",
        {"A": 500},
        ["SELL A 300", "SELL A 300"],
        ["filled 300", "cut holding 200"],
        {},
    ),
    # universe, holding, T+1
    (
        "no asset is outside the universe",
        {},
        ["BUY none 100", "SELL none 100"],
        ["rejected universe", "rejected universe"],
        {},
    ),
    (
        "a name that left the index is sold but not bought",
        {"A": 500},
        ["SELL A 200", "BUY A 100"],
        ["filled 200", "rejected universe"],
        {"outside": "A"},
    ),
    (
        "what is not held can't be sold",
        {},
        ["SELL A 100", "SELL A weight 0.0"],
        ["rejected holding", "rejected holding"],
        {},
    ),
    ("selling more than is held sells all", {"A": 500}, ["SELL A 700"], ["cut holding 500"], {}),
    ("however many", {"A": 500}, ["SELL A 10**40"], ["cut holding 500"], {}),
    (
        "shares bought today can't be sold",
        {"A": [500, 500]},
        ["SELL A 100", "SELL A weight 0.0"],
        ["rejected t_plus_1", "rejected t_plus_1"],
        {},
    ),
    ("what was held overnight is sold", {"A": [500, 200]}, ["SELL A 300"], ["filled 300"], {}),
    ("and no more", {"A": [500, 200]}, ["SELL A 400"], ["cut t_plus_1 300"], {}),
    ("also by a target", {"A": [500, 200]}, ["SELL A weight 0.0"], ["cut t_plus_1 300"], {}),
    # suspended, price limit
    (
        "a suspended name does not trade",
        {"A": 500},
        ["SELL A 100", "BUY A 100"],
        ["rejected suspended", "rejected suspended"],
        {"opens": [None]},
    ),
    (
        "limit up can't be bought",
        {"A": 500},
        ["BUY A 100", "SELL A 100"],
        ["rejected price_limit", "filled 100"],
        {"opens": [10.95]},
    ),
    (
        "limit down can't be sold",
        {"A": 500},
        ["BUY A 100", "SELL A 100"],
        ["filled 100", "rejected price_limit"],
        {"opens": [9.05]},
    ),
    (
        "ChiNext moves further",
        {},
        ["BUY A 100", "BUY CHINEXT 100"],
        ["rejected price_limit", "filled 100"],
        {"opens": [10.95, 21.9]},
    ),
    # position and weight limits
    (
        "a new name needs a free place",
        {"A": 100, "CHINEXT": 100},
        ["BUY B 100", "BUY A 100"],
        ["rejected position_limit", "filled 100"],
        {"max_positions": 2},
    ),
    (
        "a sell-out frees a place",
        {"A": 100},
        ["BUY B 100", "SELL A 100"],
        ["filled 100", "filled 100"],
        {"max_positions": 1},
    ),
    (
        "a part sold frees none",
        {"A": 300},
        ["BUY B 100", "SELL A 200"],
        ["rejected position_limit", "filled 200"],
        {"max_positions": 1},
    ),
    ("a buy may reach 10 %", {}, ["BUY A 10000"], ["filled 10000"], {}),
    ("but not exceed it", {}, ["BUY A 10100"], ["rejected weight_limit"], {}),
    (
        "what is held counts",
        {"cash": 92_000_000, "A": 8000},
        ["BUY A 2100"],
        ["rejected weight_limit"],
        {},
    ),
    ("up to the limit", {"cash": 92_000_000, "A": 8000}, ["BUY A 2000"], ["filled 2000"], {}),
    ("a target above it is not cut", {}, ["BUY A weight 0.12"], ["rejected weight_limit"], {}),
    ("a holding that grew may stay", {"cash": 0, "A": 20000}, ["SELL A 100"], ["filled 100"], {}),
    (
        "it judges before cash cuts",
        {"cash": 100_000, "B": 10000},
        ["BUY A 6000"],
        ["rejected weight_limit"],
        {},
    ),
    # targets. 500,000 + 10,000 * 51 = 1,010,000; 5 % = 50,500 = 5,050 shares at 10.00, 50 lots. Selling B first changes nothing.
    (
        "a target is of the NAV at the opens before any fill",
        {"cash": 50_000_000, "B": 10000},
        ["SELL B 9900", "BUY A weight 0.05"],
        ["filled 9900", "filled 5000"],
        {"opens": [10.0, 20.0, 51.0]},
    ),
    (
        "a suspended holding counts at its last close",
        {"cash": 50_000_000, "B": 10000},
        ["BUY A weight 0.05"],
        ["filled 5000"],
        {"opens": [10.0, 20.0, None]},
    ),
    (
        "a sell leaves whole lots",
        {"cash": 95_000_000, "A": 5000},
        ["SELL A weight 0.0333"],
        ["filled 1700"],
        {},
    ),
    ("or nothing", {"A": 5000}, ["SELL A weight 0.0"], ["filled 5000"], {}),
    (
        "a target reached or on the other side",
        {"cash": 95_000_000, "A": 5000},
        [
            "BUY A weight 0.05",
            "SELL A weight 0.05",
            "BUY A weight 0.02",
            "SELL A weight 0.09",
            "BUY B weight 0.0",
        ],
        [
            "rejected target",
            "rejected target",
            "rejected target",
            "rejected target",
            "rejected target",
        ],
        {},
    ),
    ("90 shares are less than a lot", {}, ["BUY A weight 0.0009"], ["rejected lot"], {}),
    (
        "150 STAR shares are one lot, and two are needed",
        {},
        ["BUY STAR weight 0.006"],
        ["rejected lot"],
        {},
    ),
    (
        "from an odd lot never over 500",
        {"cash": 99_850_000, "A": 150},
        ["BUY A weight 0.0056"],
        ["filled 300"],
        {},
    ),
    # lots
    ("buys are whole lots", {}, ["BUY A 150", "BUY A 99"], ["rejected lot", "rejected lot"], {}),
    (
        "the smallest STAR order is 200",
        {},
        ["BUY STAR 100", "BUY STAR 200"],
        ["rejected lot", "filled 200"],
        {},
    ),
    ("STAR shares are sold by the lot", {"STAR": 300}, ["SELL STAR 100"], ["filled 100"], {}),
    ("an odd lot is sold whole", {"A": 1030}, ["SELL A 30"], ["filled 30"], {}),
    ("an odd lot is sold whole", {"A": 1030}, ["SELL A 130"], ["filled 130"], {}),
    ("an odd lot is sold whole", {"A": 1030}, ["SELL A 1000"], ["filled 1000"], {}),
    ("an odd lot is sold whole", {"A": 1030}, ["SELL A 1030"], ["filled 1030"], {}),
    (
        "or not at all",
        {"A": 1030},
        ["SELL A 20", "SELL A 1010"],
        ["rejected lot", "rejected lot"],
        {},
    ),
    ("500 are left", {"A": 1030}, ["SELL A weight 0.005"], ["filled 530"], {}),
    # cash
    (
        "cash covers the fee exactly",
        {"cash": 1_000_500},
        ["BUY A 1000"],
        ["filled 1000"],
        {"max_weight": 1.0},
    ),
    (
        "a fen less is a lot less",
        {"cash": 1_000_499},
        ["BUY A 1000"],
        ["cut cash 900"],
        {"max_weight": 1.0},
    ),
    # 300 * 10.00 = 3,000.00 less 5.00 of the sale; a lot at 50.00 and its fee are 5,005.00, so that 2,010.00 more are needed.
    (
        "sales pay for buys to the last fen",
        {"cash": 201_000, "A": 300},
        ["BUY B 100", "SELL A 300"],
        ["filled 100", "filled 300"],
        {"max_weight": 1.0},
    ),
    (
        "and not beyond",
        {"cash": 200_999, "A": 300},
        ["BUY B 100", "SELL A 300"],
        ["rejected cash", "filled 300"],
        {"max_weight": 1.0},
    ),
    (
        "less than the smallest order",
        {"cash": 100_499},
        ["BUY A 100"],
        ["rejected cash"],
        {"max_weight": 1.0},
    ),
    (
        "STAR is cut to its smallest",
        {"cash": 1_000_000, "B": 300},
        ["BUY STAR 300"],
        ["cut cash 200"],
        {"max_weight": 1.0},
    ),
    (
        "and not below",
        {"cash": 800_499, "B": 300},
        ["BUY STAR 300"],
        ["rejected cash"],
        {"max_weight": 1.0},
    ),
    (
        "a huge order is cut at once",
        {},
        ["BUY A weight 1.0"],
        ["cut cash 90900"],
        {"max_weight": 1.0, "buy_fee_bps": 1000.0},
    ),
    ("or refused", {}, ["BUY A 10**40"], ["rejected weight_limit"], {}),
    (
        "a sell that can't pay its fee",
        {"cash": 299, "A": 100},
        ["SELL A 100"],
        ["rejected cash"],
        {"opens": [0.02], "previous": [0.02, 20.0, 50.0, 40.0]},
    ),
    (
        "a sell that can",
        {"cash": 300, "A": 100},
        ["SELL A 100"],
        ["filled 100"],
        {"opens": [0.02], "previous": [0.02, 20.0, 50.0, 40.0]},
    ),
    (
        "an order without legal form",
        {"A": 100},
        ["BUY A", "SELL A", "BUY A -100 weight 0.1", "BUY A 0", "BUY A -100", "BUY A 100.0"],
        [
            "rejected schema",
            "rejected schema",
            "rejected schema",
            "rejected schema",
            "rejected schema",
            "rejected schema",
        ],
        {},
    ),
    (
        "an order sized when it was decided",
        {"A": 300},
        ["BUY A 100 weight 0.1", "SELL A 200 weight 0.0", "BUY B 0 weight 0.1"],
        ["filled 100", "filled 200", "rejected target"],
        {},
    ),
    (
        "an order sized when it was decided",
        {},
        ["BUY A 100 weight 0.11", "BUY B 37 weight 0.1"],
        ["rejected weight_limit", "rejected lot"],
        {},
    ),
    (
        "an order without legal form",
        {"A": 100},
        [
            "BUY A weight nan",
            "BUY A weight inf",
            "BUY A weight -0.1",
            "BUY A weight 1.01",
            "SHORT A 100",
        ],
        [
            "rejected schema",
            "rejected schema",
            "rejected schema",
            "rejected schema",
            "rejected schema",
        ],
        {},
    ),
)
def test_an_order_ends_by_the_rules(
    fact: str, account: dict[str, Any], orders: list[str], ends: list[str], more: dict[str, Any]
) -> None:
    holdings = {
        NAMES[name]: Position(*(one if isinstance(one, list) else [one]))
        for name, one in account.items()
        if name in NAMES
    }
    given = Account(account.get("cash", CASH.cash_minor), holdings)
    before = dict(holdings)
    config = TradingConfig(
        **{
            name: value
            for name, value in more.items()
            if name not in ("opens", "previous", "outside")
        }
    )
    day = day_at(
        *more.get("opens", ()),
        previous=more.get("previous", CLOSED),
        outside=NAMES.get(more.get("outside", "")),
    )
    outcomes = execute(given, under(day, config), tuple(map(order_of, orders)))[1]

    assert list(map(ending, outcomes)) == ends, fact
    assert given.positions == before, "the account given is not changed"


def test_a_fill_moves_its_notional_and_its_cost() -> None:
    account, (outcome,) = execute(CASH, day_at(10.2), (buy(A, 2_000),))
    assert outcome == Outcome("filled", None, "", 2_000, 102_000, 2_040_000, 1_020), (
        "five basis points"
    )
    assert account == Account(100_000_000 - 2_041_020, {A: Position(2_000, 2_000)})

    account, (outcome,) = execute(held(A, 2_000), day_at(10.2), (sell(A, 2_000),))
    assert (outcome.notional_minor, outcome.fee_minor) == (2_040_000, 3_060), "fifteen basis points"
    assert account == Account(100_000_000 + 2_040_000 - 3_060, {})

    account, (outcome,) = execute(CASH, day_at(10.0123), (buy(A, 300),))
    assert (outcome.price_ticks, outcome.notional_minor) == (
        100_123,
        300_369,
    ), "adjusted prices trade in ten-thousandths"
    assert account.cash_minor == 100_000_000 - 300_369 - 500

    result, outcomes = execute(
        held(A, 1_000, cash_minor=0), under(day_at(), FREE), (buy(CHINEXT, 400), sell(A, 1_000))
    )

    assert [outcome.status for outcome in outcomes] == [
        "filled",
        "filled",
    ], "sells run first and fund the buys"
    assert result == Account(200_000, {CHINEXT: Position(400, 400)})

    account = held(A, 300, 100)
    assert execute(account, day_at(), ()) == (account, []), "an empty action changes nothing"

    account, _ = execute(held(A, 500, 200), day_at(), (sell(A, weight=0.0),))
    assert account.positions == {A: Position(200, 200)}, "locked shares stay"


# --- fills and costs


@pytest.mark.parametrize(
    ("order", "open_", "config", "fee_minor"),
    [
        (buy(A, 900), 10.0, CONFIG, 500),
        (buy(A, 1_000), 10.0, CONFIG, 500),
        (buy(A, 1_100), 10.0, CONFIG, 550),
        (sell(B, 100), 10.0, CONFIG, 750),
        (sell(B, 60), 10.0, TradingConfig(lot_shares=60), 500),
        # 1,010.00 * 1.5 bps = 15.15 fen
        (buy(A, 100), 10.1, TradingConfig(buy_fee_bps=1.5, min_fee_cny=0.0), 15),
        (buy(A, 100), 10.3, TradingConfig(buy_fee_bps=1.5, min_fee_cny=0.0), 15),  # 15.45
        (buy(A, 1_000), 9.9, TradingConfig(buy_fee_bps=0.5, min_fee_cny=0.0), 50),  # 49.5
    ],
)
def test_a_small_order_costs_five_yuan_and_fees_round_half_a_fen_up(
    order: Order, open_: float, config: TradingConfig, fee_minor: int
) -> None:
    (outcome,) = execute(held(B, 100), under(day_at(open_), config), (order,))[1]
    assert outcome.fee_minor == fee_minor


def test_every_rejection_and_cut_has_an_anonymous_reason_without_numbers() -> None:
    day = day_at(10.0, None, 55.0, outside=STAR)
    account = Account(100_000_000, {A: Position(300, 100), B: Position(300)})
    orders = (
        Order(A, "BUY", 0.5, ""),
        buy(STAR, 200),
        buy(CHINEXT, 100),
        buy(B, 100),
        buy(A, 150),
        buy(A, weight=0.5),
        buy(A, weight=0.0),
        sell(CHINEXT, 100),
        sell(A, 300),
        sell(B, 900),
        sell(A, 100),
    )
    outcomes = execute(account, day, orders)[1]
    rules = (
        "schema universe suspended price_limit lot weight_limit target holding t_plus_1 holding"
        " t_plus_1"
    )

    assert [outcome.rule for outcome in outcomes] == rules.split()

    for outcome in outcomes:
        assert outcome.rule in REJECTIONS
        assert outcome.message
        assert not any(
            character.isdigit()
            for character in outcome.message.replace("0 to 1", "").replace("at least 1", "")
        )


# --- a whole day


def test_a_settled_day_carries_opening_and_closing_worth() -> None:
    """Orders fill at the open, holdings are marked at the close, and a split comes before both."""
    closes = [[10.0, 50.0], [10.5, 25.0]]
    factor = [[1.0, 1.0], [1.0, 2.0]]
    market = snapshot_of_days(
        [CODES["main2"], CODES["main"]], [[10.0, 50.0], [10.2, 25.5]], closes, factor=factor
    )
    day = MarketTape.from_snapshot(market, CONFIG).day(1)
    settlement = settle(
        Account(1_000_000, {1: Position(100, 100)}), day, (buy(0, weight=0.1), sell(1, 100)), 0
    )

    assert settlement.opened == Account(1_000_000, {1: Position(200)})
    assert settlement.open_nav_minor == 1_000_000 + 200 * 2_550
    assert [(outcome.shares, outcome.price_ticks) for outcome in settlement.outcomes] == [
        (100, 102_000),
        (100, 255_000),
    ]
    assert settlement.after.positions == {0: Position(100, 100), 1: Position(100)}
    assert settlement.holdings_minor == 100 * 1_050 + 100 * 2_500
    assert settlement.nav_minor == settlement.after.cash_minor + settlement.holdings_minor

    with pytest.raises(InvariantError, match="not before the fill"):
        settle(CASH, day_at(), (), 1)

    terms = terms_of(find_venue("a_share"), CONFIG)

    assert terms == Terms(100, 100, 100, 5_000_000, 15_000_000, 500, None, 0, True, None), (
        "the venue and the config in integers"
    )
    assert limits_of(CONFIG) == (20, 100_000_000)


# -- rules that are known to be broken when an action is decided


TWO = TradingConfig(max_positions=2, max_weight=0.6, constraint_feedback=True)
WORTH = {A: 1_000, CHINEXT: 2_000, B: 5_000, STAR: 4_000}  # fen a share: the closes of `day_at`
HALF = Account(50_000_000, {A: Position(50_000, 100)})
FULL = Account(0, {A: Position(50_000), CHINEXT: Position(25_000)})
ACCOUNTS = {"half": HALF, "full": FULL}


def breaches(
    account: Account, *action: Order, config: TradingConfig = TWO
) -> list[tuple[int, str]]:
    values = {asset: held.shares * WORTH[asset] for asset, held in account.positions.items()}
    return [tuple(breach) for breach in known_breaches(account, values, action, config)]


# `half`: half of the NAV in cash, the other in A; `full`: half of it in A, the other in CHINEXT. Breaches: the order's place, the rule.
@on_each_row(
    "account, action, expected",
    ("half", [], []),
    ("half", ["BUY none 100", "SELL none 100"], ["1 universe", "0 universe"]),
    ("half", ["SELL B 100", "SELL A 60000", "SELL A 100"], ["0 holding", "2 holding"]),
    # what was bought today can be sold at the next open
    ("half", ["SELL A 100"], []),
    ("half", ["BUY B weight 0.6"], []),
    ("half", ["BUY B weight 0.601"], ["0 weight_limit"]),
    # exactly 60 %
    ("half", ["BUY A 10000"], []),
    ("half", ["BUY A 10100"], ["0 weight_limit"]),
    # the price of a name that is not held is not known here
    ("half", ["BUY B 10000000"], []),
    ("half", ["BUY B weight 0.1", "BUY STAR weight 0.1"], ["1 position_limit"]),
    # sells come first
    ("half", ["BUY B weight 0.1", "BUY STAR weight 0.1", "SELL A weight 0.0"], []),
    ("half", ["BUY B weight 0.1", "BUY STAR weight 0.1", "SELL A 50000"], []),
    (
        "half",
        ["BUY B weight 0.1", "BUY STAR weight 0.1", "SELL A weight 0.01"],
        ["1 position_limit"],
    ),
    ("half", ["BUY B weight 0.5", "BUY A weight 0.6"], ["1 cash"]),
    # exactly all of it
    ("half", ["BUY B weight 0.4", "BUY A weight 0.6"], []),
    # the last is cut, not rejected
    ("half", ["BUY B weight 0.45", "BUY A weight 0.6"], []),
    ("full", ["BUY A weight 0.55"], ["0 cash"]),
    ("full", ["BUY A weight 0.55", "SELL CHINEXT weight 0.45"], []),
)
def test_an_order_breaks_a_rule_as_known_at_the_close(
    account: str, action: list[str], expected: list[str]
) -> None:
    assert [
        f"{index} {rule}" for index, rule in breaches(ACCOUNTS[account], *map(order_of, action))
    ] == expected


@pytest.mark.parametrize(
    ("weight", "expected"), [(0.6123, []), (0.6124, []), (0.6125, ["weight_limit"])]
)
def test_the_weight_of_a_holding_as_shown_is_none_beyond_its_own(
    weight: float, expected: list[str]
) -> None:
    """61.236 % of NAV are shown as 0.6124, where 60 % is the limit of a buy."""
    account = Account(38_764_000, {A: Position(10_000)})
    found = known_breaches(account, {A: 61_236_000}, (buy(A, weight=weight),), TWO)
    assert [breach.rule for breach in found] == expected


ORDERS = st.builds(
    lambda asset, side, weight, shares: (
        sell(asset, shares) if shares and side == "SELL" else Order(asset, side, 0.5, "", weight)
    ),
    st.sampled_from([A, CHINEXT, B, None]),
    st.sampled_from(["BUY", "SELL"]),
    st.sampled_from([0.0, 0.1, 0.3, 0.6, 0.8, 1.0]),
    st.none() | st.integers(1, 600).map(lambda lots: lots * 100),
)


@pytest.mark.exhaustive
@examples(60, search=150)
@given(st.lists(ORDERS, max_size=6), st.sampled_from([HALF, FULL, Account(100_000_000, {})]))
def test_the_executor_fills_no_order_whole_that_is_known_to_break_a_rule(
    orders: list[Order], account: Account
) -> None:
    broken = breaches(account, *orders)
    _, outcomes = execute(account, under(day_at(10.0), TWO), tuple(orders))

    assert all(outcomes[index].status != "filled" for index, _ in broken)

    # the orders before the first are filled as they were judged
    if broken and broken[0][1] != "cash":
        assert outcomes[broken[0][0]].status == "rejected"


# ---- any venue


ROOMY = TradingConfig(max_positions=50, max_weight=9.0)
PLAIN = dataclasses.replace(
    find_venue("us_equity"),
    name="plain",
    fees=Fees(),
    short=Shorting(borrow_pct_a_year=2.52, initial_margin_pct=50, maintenance_margin_pct=30),
)


def market_of(
    *venues: str, opens: Any, closes: Any = None, days: list[str] | None = None, **rows: Any
) -> MarketSnapshot:
    """Assets A0, A1 … of the venues named, on days of 2024 from rows of prices."""
    codes = [f"A{number}" for number in range(len(venues))]
    instruments = tuple(Instrument("stock", "USD", venue) for venue in venues)
    made = snapshot_of_days(codes, opens, closes, instruments=instruments, **rows)

    return dataclasses.replace(made, days=np.array(days or made.days, dtype="datetime64[D]"))


def order(asset: int, side: Any, shares: int | None = None, weight: float | None = None) -> Order:
    return Order(asset, side, 0.5, "", weight, shares)


def play(
    market: MarketSnapshot,
    *actions: Action,
    venue: Venue | None = PLAIN,
    config: TradingConfig = ROOMY,
) -> list[Settlement]:
    """Settle one action a day from the second day on, from 10,000 in cash."""
    config = dataclasses.replace(config, venue=venue, initial_cash=10_000)
    tape = MarketTape.from_snapshot(market, config)
    account = open_account(config, tape.rules.minor_per_unit)
    settled = []

    for row, action in enumerate(actions, start=1):
        settled.append(settle(account, tape.day(row), action, row - 1))
        account = settled[-1].after

    return settled


def ends(settlement: Settlement) -> list[tuple[str, str | None, int]]:
    return [(outcome.status, outcome.rule, outcome.shares) for outcome in settlement.outcomes]


def test_short_sale_brings_cash_costs_borrowing_and_gains_as_prices_fall() -> None:
    market = market_of(
        "us_equity",
        opens=[[50], [50], [48], [40]],
        closes=[[50], [49], [45], [40]],
        days=["2024-01-04", "2024-01-05", "2024-01-08", "2024-01-09"],
    )
    sold, over, back = play(
        market, (order(0, "SELL", 1_000_000),), (), (order(0, "BUY", weight=0.0),)
    )

    assert ends(sold) == [("filled", None, 1_000_000)], "100 shares of 10,000 steps"
    assert sold.after == Account(1_500_000, {0: Position(-1_000_000)}), (
        "10,000 and 5,000 of proceeds"
    )
    assert sold.nav_minor == 1_500_000 - 490_000
    # A day of 252 at 2.52 % on 4,900.00: 0.49, over a weekend as over a night.
    assert over.charges == (Charge("borrow", 0, -1_000_000, 490_000, -49),)
    assert over.nav_minor == 1_500_000 - 49 - 450_000
    # On 4,500.00: 0.45; then 100 shares are bought back at 40.
    assert back.charges == (Charge("borrow", 0, -1_000_000, 450_000, -45),)
    assert back.after == Account(1_500_000 - 49 - 45 - 400_000, {})


SINGLE_SHARES = dataclasses.replace(
    PLAIN,
    steps_per_unit=1,
    lot_steps=1,
    short=Shorting(borrow_pct_a_year=0, initial_margin_pct=50, maintenance_margin_pct=30),
)


@pytest.mark.parametrize(
    ("held", "cash", "is_member", "side", "shares", "end", "after"),
    [
        (2, 0, True, "SELL", 1, ("filled", None, 1), 1),
        (2, 0, False, "SELL", 1, ("filled", None, 1), 1),
        (0, 10_000, True, "SELL", 1, ("filled", None, 1), -1),
        (2, 10_000, True, "SELL", 3, ("filled", None, 3), -1),
        (-2, 15_000, True, "BUY", 1, ("filled", None, 1), -1),
        (-2, 15_000, True, "BUY", 3, ("filled", None, 3), 1),
        (-2, 14_999, True, "BUY", 3, ("rejected", "cash", 0), -2),
        (-2, 15_000, False, "BUY", 3, ("rejected", "universe", 0), -2),
        (-2, 15_000, False, "BUY", 2, ("filled", None, 2), 0),
    ],
)
def test_an_order_of_single_shares_of_50_ends_to_the_share_and_the_cent(
    held: int,
    cash: int,
    is_member: bool,
    side: str,
    shares: int,
    end: tuple[str, str | None, int],
    after: int,
) -> None:
    market = market_of("us_equity", opens=[[50], [50]], member=[[is_member]] * 2)
    config = dataclasses.replace(ROOMY, venue=SINGLE_SHARES)
    day = MarketTape.from_snapshot(market, config).day(1)
    positions = {0: Position(held)} if held else {}

    settled = settle(Account(cash, positions), day, (order(0, side, shares),), 0)

    assert ends(settled) == [end]
    assert settled.after == Account(
        cash - 5_000 * (after - held), {0: Position(after)} if after else {}
    )


@pytest.mark.parametrize(
    ("cash", "shares", "end", "cash_after"),
    [
        # two shares at 50 cost 100, and the fee is 1
        (10_100, 2, ("filled", None, 2), 0),
        (10_099, 2, ("partially_filled", "cash", 1), 4_999),
        # a buy that goes on to a holding is not cut
        (15_100, 3, ("filled", None, 3), 0),
        (15_099, 3, ("rejected", "cash", 0), 15_099),
    ],
)
def test_buying_a_short_back_pays_the_fee_out_of_the_cash(
    cash: int, shares: int, end: tuple[str, str | None, int], cash_after: int
) -> None:
    market = market_of("us_equity", opens=[[50], [50]])
    no_margin = Shorting(borrow_pct_a_year=0, initial_margin_pct=0, maintenance_margin_pct=0)
    fees = Fees(minimum=1.0, sell_levy_per_unit=0.5)  # a levy is on sales alone
    venue = dataclasses.replace(SINGLE_SHARES, fees=fees, short=no_margin)
    day = MarketTape.from_snapshot(market, dataclasses.replace(ROOMY, venue=venue)).day(1)

    settled = settle(Account(cash, {0: Position(-2)}), day, (order(0, "BUY", shares),), 0)

    assert ends(settled) == [end]
    assert settled.after.cash_minor == cash_after


@pytest.mark.parametrize(
    ("cash", "end"), [(5_100, ("filled", None, 2)), (5_099, ("rejected", "margin", 0))]
)
def test_a_short_sale_needs_cash_for_its_margin_and_its_fee(
    cash: int, end: tuple[str, str | None, int]
) -> None:
    """Two shares of 50 bring 100 less a fee of 1, and 150 must be there."""
    market = market_of("us_equity", opens=[[50], [50]])
    venue = dataclasses.replace(SINGLE_SHARES, fees=Fees(minimum=1.0))
    day = MarketTape.from_snapshot(market, dataclasses.replace(ROOMY, venue=venue)).day(1)

    settled = settle(Account(cash, {}), day, (order(0, "SELL", 2),), 0)

    assert ends(settled) == [end]


@pytest.mark.parametrize(
    ("cash", "end"), [(30_000, ("filled", None, 3)), (29_999, ("rejected", "cash", 0))]
)
def test_a_buy_beyond_a_short_leaves_the_margin_of_the_other_short(
    cash: int, end: tuple[str, str | None, int]
) -> None:
    """Three shares cost 150; the other two, sold short, keep 150."""
    market = market_of("us_equity", "us_equity", opens=[[50, 50], [50, 50]])
    day = MarketTape.from_snapshot(market, dataclasses.replace(ROOMY, venue=SINGLE_SHARES)).day(1)
    shorts = {0: Position(-2), 1: Position(-2)}

    settled = settle(Account(cash, shorts), day, (order(0, "BUY", 3),), 0)

    assert ends(settled) == [end]


@pytest.mark.parametrize(
    ("weight", "end"),
    [(-0.1, ("filled", None, 20)), (-0.11, ("rejected", "weight_limit", 0))],
)
def test_a_short_that_was_sized_at_the_decision_has_the_weight_limit_of_a_holding(
    weight: float, end: tuple[str, str | None, int]
) -> None:
    market = market_of("us_equity", opens=[[50], [50]])
    config = dataclasses.replace(ROOMY, venue=SINGLE_SHARES, max_weight=0.1)
    day = MarketTape.from_snapshot(market, config).day(1)

    settled = settle(Account(1_000_000, {}), day, (order(0, "SELL", 20, weight),), 0)

    assert ends(settled) == [end]


@pytest.mark.parametrize("largest", [0, 1])
def test_a_margin_call_closes_the_largest_short_first_and_no_more_than_it_must(
    largest: int,
) -> None:
    """Shorts of 50 and 150 keep 260 of the 250 there are; without the larger, 65 of 100."""
    market = market_of("us_equity", "us_equity", opens=[[50, 50], [50, 50]])
    day = MarketTape.from_snapshot(market, dataclasses.replace(ROOMY, venue=SINGLE_SHARES)).day(1)
    shorts = {largest: Position(-3), 1 - largest: Position(-1)}

    settled = settle(Account(25_000, shorts), day, (), 0)

    assert settled.after == Account(10_000, {1 - largest: Position(-1)})


def test_interest_is_the_same_for_every_day_after_any_number_of_nights() -> None:
    """At a price that stands, no weekend, holiday or half day shows in a charge, the cash, the NAV
    or what an order comes to.
    """
    days = sessions("2024-11-18", "2025-01-24", "XNYS")
    nights = set(np.diff(days).astype(int).tolist())

    assert nights == {
        1,
        2,
        3,
        4,
    }, "weekends, Thanksgiving, Christmas, New Year, a day of mourning, Martin Luther King Day"

    market = market_of("us_equity", opens=[[50]] * len(days), days=list(map(str, days)))
    short, *held = play(market, (order(0, "SELL", 1_000_000),), *[()] * (len(days) - 2))

    assert ends(short) == [("filled", None, 1_000_000)]
    assert {day.charges for day in held} == {(Charge("borrow", 0, -1_000_000, 500_000, -50),)}
    assert set(np.diff([day.nav_minor for day in (short, *held)]).tolist()) == {-50}

    # 10,000 at 2.52 %, a 252nd of it a day; over a year that is the rate, over these two months of
    # holidays a little less.
    by_nights = 500_000 * 0.0252 * int((days[-1] - days[1]).astype(int)) / 365
    assert by_nights * 0.94 < 50 * len(held) < by_nights


def test_a_short_needs_margin_and_a_buy_cannot_spend_it() -> None:
    market = market_of("us_equity", "us_equity", opens=[[50, 10]] * 3)
    first, second = play(
        market,
        (order(0, "SELL", 4_100_000), order(0, "SELL", 2_000_000)),
        (order(1, "BUY", 6_000_000), order(1, "BUY", weight=0.6)),
    )

    # 410 shares ask for 20,500 and 10,250 in cash; there would be 30,500. 200 shares ask for 15,000
    # of 20,000.
    assert ends(first) == [("rejected", "margin", 0), ("filled", None, 2_000_000)]
    assert ends(second) == [
        ("partially_filled", "cash", 4_999_000),
        ("rejected", "cash", 0),
    ], "5,000 are free, less a day's interest of 1.00"


def test_the_margin_of_a_short_of_any_size_rounds_half_a_cent_up() -> None:
    """Half more than 10^15 and one cent."""
    market = market_of("us_equity", opens=[[50], [50]])
    config = dataclasses.replace(ROOMY, venue=PLAIN)
    day = MarketTape.from_snapshot(market, config).day(1)
    short = {0: Position(-2 * (10**15 + 1))}

    assert margin_minor(short, day, initial=True) == 1_500_000_000_000_002


def test_margin_call_buys_back_at_the_open_and_a_ruined_account_continues() -> None:
    market = market_of("us_equity", opens=[[50], [50], [70], [70]], closes=[[50], [50], [70], [70]])
    sold, called, after = play(
        market, (order(0, "SELL", 4_000_000),), (order(0, "SELL", 100),), (order(0, "BUY", 10_000),)
    )

    assert sold.after.cash_minor == 3_000_000
    # Interest 2.00; 400 shares at 70 are 28,000 and ask for 36,400: they are bought back before the
    # day's order is judged.
    assert called.charges == (
        Charge("borrow", 0, -4_000_000, 500_000, -200),
        Charge("margin_call", 0, 4_000_000, 700_000, -2_800_000),
    )
    assert called.opened == Account(199_800, {})
    assert ends(called) == [("filled", None, 100)]
    assert after.nav_minor > 0

    crash = market_of(
        "us_equity", opens=[[50], [50], [200], [200]], closes=[[50], [50], [200], [200]]
    )
    _, ruined, still = play(
        crash, (order(0, "SELL", 4_000_000),), (order(0, "SELL", 100),), (order(0, "BUY", 10_000),)
    )

    assert ruined.after == Account(3_000_000 - 200 - 8_000_000, {})
    assert ends(ruined) == [("rejected", "weight_limit", 0)]
    assert ends(still) == [("rejected", "weight_limit", 0)]


CALLED = Charge("margin_call", 0, 4_000_000, 700_000, -2_800_000)
INTEREST = Charge("borrow", 0, -4_000_000, 500_000, -200)


@pytest.mark.parametrize(
    ("charges", "message"),
    [
        # 400 shares at 70 are 28,000: a cent more or less, a fee that was not paid, another price,
        # fewer shares, another asset.
        ((INTEREST, replace(CALLED, cash_minor=-2_800_001)), "at its price"),
        ((INTEREST, replace(CALLED, cash_minor=-2_799_999)), "at its price"),
        ((INTEREST, replace(CALLED, fee_minor=1)), "at its price"),
        ((INTEREST, replace(CALLED, price_ticks=700_001)), "at its price"),
        (
            (INTEREST, replace(CALLED, shares=3_999_900, cash_minor=-2_799_930)),
            "does not close its position",
        ),
        ((INTEREST, replace(CALLED, asset=1)), "does not close its position"),
        ((replace(INTEREST, cash_minor=1), CALLED), "is not that of a short"),
        ((replace(INTEREST, shares=4_000_000), CALLED), "is not that of a short"),
        ((replace(INTEREST, shares=0), CALLED), "is not that of a short"),
    ],
)
def test_a_charge_that_is_booked_wrongly_is_caught(
    charges: tuple[Charge, ...], message: str
) -> None:
    market = market_of("us_equity", "us_equity", opens=[[50, 10], [50, 10], [70, 10]])
    _, called = play(market, (order(0, "SELL", 4_000_000),), (order(0, "SELL", 100),))

    assert called.charges == (INTEREST, CALLED)

    tape = MarketTape.from_snapshot(
        market, dataclasses.replace(ROOMY, venue=PLAIN, initial_cash=10_000)
    )
    check_step(called, tape.day(2), decided_row=1)

    with pytest.raises(InvariantError, match=f"^fill day 2: .*{message}"):
        check_step(replace(called, charges=charges), tape.day(2), decided_row=1)


def test_a_holding_or_short_has_no_more_steps_than_a_ledger_counts() -> None:
    # 10,000 at 1e-8 are 1e20 steps of 1e-8 coins, of at most 9.2e18
    market = market_of("frictionless", opens=[[1e-8]] * 3)
    bought, sold = play(
        market,
        (order(0, "BUY", weight=0.1), order(0, "BUY", weight=0.05), order(0, "BUY", weight=0.1)),
        (order(0, "SELL", weight=-0.1), order(0, "SELL", weight=-0.09)),
        venue=find_venue("frictionless"),
    )

    assert ends(bought) == [
        ("rejected", "weight_limit", 0),
        ("filled", None, 5 * 10**18),
        ("rejected", "weight_limit", 0),
    ]
    assert ends(sold)[0] == ("rejected", "weight_limit", 0)
    assert sold.after.positions == {0: Position(-9 * 10**18)}


def test_holdings_are_sold_for_a_debt() -> None:
    market = market_of("us_equity", "us_equity", opens=[[50, 10], [50, 10], [200, 10]])
    _, called = play(market, (order(0, "SELL", 2_000_000), order(1, "BUY", 4_000_000)), ())

    assert [(charge.kind, charge.asset, charge.shares) for charge in called.charges] == [
        ("borrow", 0, -2_000_000),
        ("margin_call", 0, 2_000_000),
        ("margin_call", 1, -4_000_000),
    ]


def test_dividend_on_a_short_is_owed_and_a_fractional_split_keeps_value() -> None:
    # A factor of 1.01 is a dividend of about 1 %: as many shares more are owed. Then 3 for 1 on 0.5
    # of a share.
    market = market_of(
        "us_equity",
        "us_equity",
        opens=[[50, 30], [50, 30], [49.5049505, 10]],
        factor=[[1, 1], [1, 1], [1.01, 3]],
    )
    _, day = play(market, (order(0, "SELL", 10_200), order(1, "BUY", 5_000)), ())

    assert day.corporate_actions == (
        CorporateAction(0, 1.01, -10_200, -10_302, 0),
        CorporateAction(1, 3.0, 5_000, 15_000, 0),
    )
    assert day.after.positions == {0: Position(-10_302), 1: Position(15_000)}

    whole = dataclasses.replace(PLAIN, steps_per_unit=1)
    _, cut = play(market, (order(0, "SELL", 150),), (), venue=whole)

    # 151.5 shares would be owed: 151 are, and half of one at 49.5049… = 24.75 is paid.
    assert cut.corporate_actions == (CorporateAction(0, 1.01, -150, -151, -2475),)


def test_an_asset_with_closes_alone_trades_at_closes_and_never_at_an_open() -> None:
    market = market_of(
        "us_equity", opens=[[None], [None]], closes=[[10.5], [12]], volume=[[None], [None]]
    )
    got = {
        fill: ends(
            play(market, (order(0, "BUY", 1),), venue=dataclasses.replace(PLAIN, fill=fill))[0]
        )[0][:2]
        for fill in ("next_open", "next_close", "same_close")
    }

    assert got == {
        "next_open": ("rejected", "suspended"),
        "next_close": ("filled", None),
        "same_close": ("filled", None),
    }


def test_accounts_of_one_currency_only() -> None:
    market = market_of("us_equity", "a_share", opens=[[1, 1], [1, 1]])
    euro = dataclasses.replace(PLAIN, currency="EUR")
    mills = dataclasses.replace(
        market, rules={"a_share": dataclasses.replace(PLAIN, minor_per_unit=1000)}
    )

    for made, venue, message in (
        (
            market,
            None,
            "prices are in USD, but venue a_share uses 1/100 CNY; an account has one currency",
        ),
        (market, euro, "prices are in USD, but venue plain uses 1/100 EUR"),
        (
            mills,
            None,
            "venue plain uses 1/1000 USD; an account has one currency: choose a venue with USD",
        ),
    ):
        with pytest.raises(DataError, match=message):
            MarketTape.from_snapshot(made, dataclasses.replace(ROOMY, venue=venue))


def test_a_config_without_a_venue_of_its_own_is_written_with_null() -> None:
    assert to_mapping(ROOMY)["venue"] is None
    assert to_mapping(dataclasses.replace(ROOMY, venue=PLAIN))["venue"]["name"] == "plain"
