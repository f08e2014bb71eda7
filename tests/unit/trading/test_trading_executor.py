"""The rules of the executor, one fact a row."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from msgspec.structs import replace

from ktdeval.errors import InvariantError
from ktdeval.market.venue import find_venue
from ktdeval.trading.executor import REJECTIONS, execute, settle
from ktdeval.trading.market_tape import MarketRules, MarketTape, TradingDay
from ktdeval.trading.terms import Terms, limits_of, terms_of
from ktdeval.trading.types import Account, Order, Outcome, Position, TradingConfig
from trading_market import CODES, make_market

CONFIG = TradingConfig()
FREE = TradingConfig(buy_fee_bps=0.0, sell_fee_bps=0.0, min_fee_cny=0.0, max_weight=1.0)
WHOLE = TradingConfig(max_weight=1.0)
BOARDS = (CODES["main2"], CODES["chinext"], CODES["main"], CODES["star"])
A, CHINEXT, B, STAR = range(4)
CASH = Account(100_000_000, {})


def day_at(*opens: float | None, previous: tuple[float, ...] = (10.0, 20.0, 50.0, 40.0), outside: int | None = None) -> TradingDay:
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


def fills(shares: int) -> tuple[str, str | None, int]:
    return ("filled", None, shares)


def cut(rule: str, shares: int) -> tuple[str, str | None, int]:
    return ("partially_filled", rule, shares)


def no(rule: str) -> tuple[str, str | None, int]:
    return ("rejected", rule, 0)


class Case(NamedTuple):
    """Orders on a day, and (status, rule, shares) of each."""

    fact: str
    account: Account
    orders: tuple[Order, ...]
    ends: list[tuple[str, str | None, int]]
    day: TradingDay = day_at()
    config: TradingConfig = CONFIG


BOTH = (buy(A, 1_000), buy(CHINEXT, 100))
PENNY = day_at(0.02, previous=(0.02, 20.0, 50.0, 40.0))
FEW = Account(100_000_000, {A: Position(100), CHINEXT: Position(100)})
FULL = held(A, 8_000, cash_minor=92_000_000)
CASES = [
    # order of execution
    Case("outcomes come in the order of the action", CASH, (buy(A, 100), sell(A, 100), buy(None, 100), buy(B, 100)),
         [fills(100), no("holding"), no("universe"), fills(100)]),
    Case("buys take the cash in their order", Account(1_100_000, {}), BOTH, [fills(1_000), no("cash")], config=FREE),
    Case("and in the other order", Account(1_100_000, {}), BOTH[::-1], [fills(100), cut("cash", 900)], config=FREE),
    Case("a rejected order stops no other", CASH, (buy(None, 100), sell(B, 100), buy(A, weight=2.0), buy(A, 100)),
         [no("universe"), no("holding"), no("schema"), fills(100)]),
    Case("two buys of one name are judged one after the other", CASH, (buy(A, weight=0.05),) * 2, [fills(5_000), no("target")]),
    Case("and two sells", held(A, 500), (sell(A, 300),) * 2, [fills(300), cut("holding", 200)]),
    # universe, holding, T+1
    Case("no asset is outside the universe", CASH, (buy(None, 100), sell(None, 100)), [no("universe")] * 2),
    Case("a name that left the index is sold but not bought", held(A, 500), (sell(A, 200), buy(A, 100)),
         [fills(200), no("universe")], day_at(outside=A)),
    Case("what is not held can't be sold", CASH, (sell(A, 100), sell(A, weight=0.0)), [no("holding")] * 2),
    Case("selling more than is held sells all", held(A, 500), (sell(A, 700),), [cut("holding", 500)]),
    Case("however many", held(A, 500), (sell(A, 10**40),), [cut("holding", 500)]),
    Case("shares bought today can't be sold", held(A, 500, 500), (sell(A, 100), sell(A, weight=0.0)), [no("t_plus_1")] * 2),
    Case("what was held overnight is sold", held(A, 500, 200), (sell(A, 300),), [fills(300)]),
    Case("and no more", held(A, 500, 200), (sell(A, 400),), [cut("t_plus_1", 300)]),
    Case("also by a target", held(A, 500, 200), (sell(A, weight=0.0),), [cut("t_plus_1", 300)]),
    # suspended, price limit
    Case("a suspended name does not trade", held(A, 500), (sell(A, 100), buy(A, 100)), [no("suspended")] * 2, day_at(None)),
    Case("limit up can't be bought", held(A, 500), (buy(A, 100), sell(A, 100)), [no("price_limit"), fills(100)], day_at(10.95)),
    Case("limit down can't be sold", held(A, 500), (buy(A, 100), sell(A, 100)), [fills(100), no("price_limit")], day_at(9.05)),
    Case("ChiNext moves further", CASH, (buy(A, 100), buy(CHINEXT, 100)), [no("price_limit"), fills(100)], day_at(10.95, 21.9)),
    # position and weight limits
    Case("a new name needs a free place", FEW, (buy(B, 100), buy(A, 100)), [no("position_limit"), fills(100)],
         config=TradingConfig(max_positions=2)),
    Case("a sell-out frees a place", held(A, 100), (buy(B, 100), sell(A, 100)), [fills(100)] * 2,
         config=TradingConfig(max_positions=1)),
    Case("a part sold frees none", held(A, 300), (buy(B, 100), sell(A, 200)), [no("position_limit"), fills(200)],
         config=TradingConfig(max_positions=1)),
    Case("a buy may reach 10 %", CASH, (buy(A, 10_000),), [fills(10_000)]),
    Case("but not exceed it", CASH, (buy(A, 10_100),), [no("weight_limit")]),
    Case("what is held counts", FULL, (buy(A, 2_100),), [no("weight_limit")]),
    Case("up to the limit", FULL, (buy(A, 2_000),), [fills(2_000)]),
    Case("a target above it is not cut", CASH, (buy(A, weight=0.12),), [no("weight_limit")]),
    Case("a holding that grew may stay", held(A, 20_000, cash_minor=0), (sell(A, 100),), [fills(100)]),
    Case("it judges before cash cuts", held(B, 10_000, cash_minor=100_000), (buy(A, 6_000),), [no("weight_limit")]),
    # targets. 500,000 + 10,000 * 51 = 1,010,000; 5 % = 50,500 = 5,050 shares at 10.00, 50 lots. Selling B first changes nothing.
    Case("a target is of the NAV at the opens before any fill", held(B, 10_000, cash_minor=50_000_000),
         (sell(B, 9_900), buy(A, weight=0.05)), [fills(9_900), fills(5_000)], day_at(10.0, 20.0, 51.0)),
    Case("a suspended holding counts at its last close", held(B, 10_000, cash_minor=50_000_000), (buy(A, weight=0.05),),
         [fills(5_000)], day_at(10.0, 20.0, None)),
    Case("a sell leaves whole lots", held(A, 5_000, cash_minor=95_000_000), (sell(A, weight=0.0333),), [fills(1_700)]),
    Case("or nothing", held(A, 5_000), (sell(A, weight=0.0),), [fills(5_000)]),
    *(
        Case("a target reached or on the other side", held(A, 5_000, cash_minor=95_000_000), (order,), [no("target")])
        for order in (buy(A, weight=0.05), sell(A, weight=0.05), buy(A, weight=0.02), sell(A, weight=0.09), buy(B, weight=0.0))
    ),
    Case("90 shares are less than a lot", CASH, (buy(A, weight=0.0009),), [no("lot")]),
    Case("150 STAR shares are one lot, and two are needed", CASH, (buy(STAR, weight=0.006),), [no("lot")]),
    Case("from an odd lot never over 500", held(A, 150, cash_minor=99_850_000), (buy(A, weight=0.0056),), [fills(300)]),
    # lots
    Case("buys are whole lots", CASH, (buy(A, 150), buy(A, 99)), [no("lot")] * 2),
    Case("the smallest STAR order is 200", CASH, (buy(STAR, 100), buy(STAR, 200)), [no("lot"), fills(200)]),
    Case("STAR shares are sold by the lot", held(STAR, 300), (sell(STAR, 100),), [fills(100)]),
    *(Case("an odd lot is sold whole", held(A, 1_030), (sell(A, shares),), [fills(shares)]) for shares in (30, 130, 1_000, 1_030)),
    Case("or not at all", held(A, 1_030), (sell(A, 20), sell(A, 1_010)), [no("lot")] * 2),
    Case("500 are left", held(A, 1_030), (sell(A, weight=0.005),), [fills(530)]),
    # cash
    Case("cash covers the fee exactly", Account(1_000_500, {}), (buy(A, 1_000),), [fills(1_000)], config=WHOLE),
    Case("a fen less is a lot less", Account(1_000_499, {}), (buy(A, 1_000),), [cut("cash", 900)], config=WHOLE),
    # 300 * 10.00 = 3,000.00 less 5.00 of the sale; a lot at 50.00 and its fee are 5,005.00, so that 2,010.00 more are needed.
    Case("sales pay for buys to the last fen", held(A, 300, cash_minor=201_000), (buy(B, 100), sell(A, 300)),
         [fills(100), fills(300)], config=WHOLE),
    Case("and not beyond", held(A, 300, cash_minor=200_999), (buy(B, 100), sell(A, 300)), [no("cash"), fills(300)], config=WHOLE),
    Case("less than the smallest order", Account(100_499, {}), (buy(A, 100),), [no("cash")], config=WHOLE),
    Case("STAR is cut to its smallest", held(B, 300, cash_minor=1_000_000), (buy(STAR, 300),), [cut("cash", 200)], config=WHOLE),
    Case("and not below", held(B, 300, cash_minor=800_499), (buy(STAR, 300),), [no("cash")], config=WHOLE),
    Case("a huge order is cut at once", CASH, (buy(A, weight=1.0),), [cut("cash", 90_900)],
         config=TradingConfig(max_weight=1.0, buy_fee_bps=1000.0)),
    Case("or refused", CASH, (buy(A, 10**40),), [no("weight_limit")]),
    Case("a sell that can't pay its fee", held(A, 100, cash_minor=299), (sell(A, 100),), [no("cash")], PENNY),
    Case("a sell that can", held(A, 100, cash_minor=300), (sell(A, 100),), [fills(100)], PENNY),
    *(
        Case("an order without legal form", held(A, 100), (order,), [no("schema")])
        for order in (
            Order(A, "BUY", 0.5, ""), Order(A, "SELL", 0.5, ""), buy(A, 100, weight=0.1), buy(A, 0), buy(A, -100),
            buy(A, 100.0), buy(A, weight=float("nan")), buy(A, weight=float("inf")), buy(A, weight=-0.1),  # type: ignore[arg-type]
            buy(A, weight=1.01), Order(A, "SHORT", 0.5, "", shares=100),  # type: ignore[arg-type]
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fact)
def test_an_order_ends_as_the_rules_say(case: Case) -> None:
    before = dict(case.account.positions)
    outcomes = execute(case.account, under(case.day, case.config), case.orders)[1]
    assert [(outcome.status, outcome.rule, outcome.shares) for outcome in outcomes] == case.ends
    assert case.account.positions == before, "the account given is not changed"


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
