"""Settlement of many accounts at once, compared with the executor and with worked examples. Skipped
if the extra `gym` is not installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs gymnasium: pip install '.[gym]'")

from ktdeval.harness import StanceRule, Standing
from ktdeval.market import Instrument, Shorting, Venue
from ktdeval.registry import load_plugins
from ktdeval.trading import Account, Order, Position, Side, settle
from ktdeval_gym.fill_kernel import Kernel, KernelAccounts, KernelOrders
from ktdeval_gym.policy import DECISIONS
from ktdeval_gym.single_asset_simulation import AssetMarket
from support.market.trading_market import make_market
from support.tasks.gym_worlds import asset_market

A_SHARE = "600001.SH"
STAR = "688004.SH"
SPLIT = 4  #: fill row on which the number of shares doubles
SUSPENDED = 5
LIMIT_UP = 6
LIMIT_DOWN = 7
NO_MEMBER = 8
JUMP = 9  #: fill row that opens 50 % higher
LAST = 10
OPENS = [20.0, 20.1, 20.3, 19.9, 10.1, None, 11.11, 9.99, 10.03, 15.04, 15.21]
CLOSES = [20.0, 20.2, 20.4, 20.0, 10.1, None, 11.1, 10.0, 10.02, 15.2, 15.37]


@dataclass(frozen=True)
class Settled:
    """State of an account after a step, and the amount that it traded, in minor units and steps."""

    cash: int
    held: int
    nav: int
    traded: int


def market_at(code: str, venue: str | None = None, scale: float = 1.0, **more: Any) -> AssetMarket:
    """A market with one kind of event after another."""
    opens = [[None if price is None else price * scale] for price in OPENS]
    closes = [[None if price is None else price * scale] for price in CLOSES]

    if venue is not None:
        more["instruments"] = (Instrument("coin", "USD", venue),)

    return asset_market(
        make_market(
            [code],
            opens,
            closes,
            factor=[[1.0 if row < SPLIT else 2.0] for row in range(len(OPENS))],
            member=[[row != NO_MEMBER] for row in range(len(OPENS))],
            first="2024-03-04",
            **more,
        )
    )


def strict_rules() -> dict[str, Venue]:
    """US shares with a minimum order of USD 2,010, and shorts that need their full value in
    cash.
    """
    usual = load_plugins().venues()["us_equity"]
    short = Shorting(borrow_pct_a_year=0.5, initial_margin_pct=100.0, maintenance_margin_pct=30.0)
    return {"us_equity": replace(usual, minimum_notional=2010.0, short=short)}


MARKETS = {
    "A-shares": market_at(A_SHARE),
    "STAR": market_at(STAR),
    "US shares": market_at("AAPL", "us_equity"),
    "strict shares": market_at("AAPL", "us_equity", rules=strict_rules()),
    "coins": market_at("BTC", "crypto_spot"),
}
UNIT = {
    "A-shares": 1,
    "STAR": 1,
    "US shares": 10_000,
    "strict shares": 10_000,
    "coins": 10**8,
}
"""Steps in a share or coin."""


def test_the_days_of_the_market_are_what_they_are_called() -> None:
    tape = MARKETS["A-shares"].tape

    assert sorted(tape.events) == [SPLIT]
    assert np.flatnonzero(~tape.tradable[:, 0]).tolist() == [SUSPENDED]
    assert LIMIT_UP in np.flatnonzero(tape.limit_up[:, 0])
    assert LIMIT_DOWN in np.flatnonzero(tape.limit_down[:, 0])
    assert np.flatnonzero(~tape.member[:, 0]).tolist() == [NO_MEMBER]
    assert tape.open_ticks[JUMP, 0] / tape.close_ticks[JUMP - 1, 0] > 1.5


def settled_by_kernel(
    kernel: Kernel, accounts: KernelAccounts, row: int, orders: KernelOrders
) -> list[Settled]:
    rows = np.full(len(accounts.cash), row)
    after, traded = kernel.settle(accounts, rows, orders)
    columns = [each.tolist() for each in (after.cash, after.held, after.nav, traded)]
    return [Settled(*figures) for figures in zip(*columns, strict=True)]


def settled_by_executor(
    market: AssetMarket, cash: int, held: int, order: tuple[Side, float] | None, row: int
) -> Settled:
    action: tuple[Order, ...] = ()
    if order is not None:
        side, weight = order
        action = (Order(0, side, 0.5, "", weight),)

    positions = {0: Position(held)} if held else {}
    settled = settle(Account(cash, positions), market.tape.day(row + 1), action, row)
    position = settled.after.positions.get(0)

    return Settled(
        cash=settled.after.cash_minor,
        held=0 if position is None else position.shares,
        nav=settled.nav_minor,
        traded=sum(outcome.notional_minor for outcome in settled.outcomes),
    )


def accounts_of(cash: Sequence[int], held: Sequence[int], nav: Sequence[int]) -> KernelAccounts:
    columns = [np.array(each, dtype=np.int64) for each in (cash, held, nav)]
    return KernelAccounts(*columns)


def orders_of(given: Sequence[tuple[Side, float] | None]) -> KernelOrders:
    return KernelOrders(
        given=np.array([order is not None for order in given]),
        buys=np.array([order is not None and order[0] == "BUY" for order in given]),
        weight=np.array([0.0 if order is None else order[1] for order in given]),
    )


def orders_for(market: AssetMarket) -> list[tuple[Side, float] | None]:
    """Orders of each kind: none, to nothing, to parts, to almost all."""
    given: list[tuple[Side, float] | None] = [None, ("SELL", 0.0), ("SELL", 0.3), ("SELL", 1.0)]
    given += [("BUY", 0.0), ("BUY", 0.0013), ("BUY", 0.55), ("BUY", 0.9985), ("BUY", 1.0)]

    if market.rule.shorts:
        given += [("SELL", -0.0007), ("SELL", -0.4), ("SELL", -1.0)]

    return given


def holdings_of(name: str) -> list[int]:
    """Positions in steps: whole and odd lots, parts of a share, shorts."""
    unit = UNIT[name]
    held = [0, 1, 37 * unit, 100 * unit, 150 * unit, 300 * unit, 2300 * unit]

    if MARKETS[name].rule.shorts:
        held += [-1, -37 * unit, -100 * unit, -1234 * unit]

    return held


@pytest.mark.parametrize("row", range(LAST))
@pytest.mark.parametrize("name", MARKETS)
def test_many_accounts_are_settled_as_the_executor_settles_each(name: str, row: int) -> None:
    market = MARKETS[name]
    cash: list[int] = []
    held: list[int] = []
    given: list[tuple[Side, float] | None] = []

    for order in orders_for(market):
        for steps in holdings_of(name):
            for amount in (0, 700, 4_321_000, 100_000_000):
                cash.append(amount)
                held.append(steps)
                given.append(order)

    got = settled_by_kernel(Kernel(market), accounts_of(cash, held, cash), row, orders_of(given))

    expected = [
        settled_by_executor(market, *account, row)
        for account in zip(cash, held, given, strict=True)
    ]

    assert got == expected


# ---- decisions


@pytest.mark.sampled(60)
@pytest.mark.parametrize("nav", [-5, 0, 900_000, 1_000_000, 1_300_000])
@pytest.mark.parametrize("held", [-200, 0, 200])
@pytest.mark.parametrize("hold", ["keep", "flat"])
@pytest.mark.parametrize("sell_closes", [False, True])
@pytest.mark.parametrize("name", ["A-shares", "US shares", "coins"])
def test_decisions_come_to_the_orders_of_the_stance_rule(
    name: str, sell_closes: bool, hold: Any, held: int, nav: int
) -> None:
    rule = replace(MARKETS[name].rule, weight=0.8, hold=hold, sell_closes=sell_closes)
    market = replace(MARKETS[name], rule=rule)
    accounts = accounts_of([1_000_000] * 3, [held] * 3, [nav] * 3)

    orders = Kernel(market).orders(np.arange(3), accounts)

    fees = market.tape.rules.venues[0].fees
    exposure = abs(nav - 1_000_000) / nav if nav > 0 else 0.0
    standing = Standing(StanceRule.compute_invested(fees, exposure))
    now = int(np.sign(held))

    for action, decision in enumerate(DECISIONS):
        expected = rule.trade(rule.side(decision, now), now, standing)
        assert orders.given[action] == (expected is not None)
        if expected is not None:
            assert ("BUY" if orders.buys[action] else "SELL", orders.weight[action]) == expected


def test_an_order_leaves_what_its_costs_need() -> None:
    """10 basis points of a coin's fill: 1 / 1.001 of the NAV can be invested, rounded down."""
    orders = Kernel(MARKETS["coins"]).orders(
        np.array([2]), accounts_of([1_000_000], [0], [1_000_000])
    )

    assert orders.given.tolist() == [True]
    assert orders.buys.tolist() == [True]
    assert orders.weight[0] == pytest.approx((1 - 1e-6) / 1.001, rel=1e-12)


# ---- worked figures


def test_a_buy_of_a_shares_is_whole_lots_with_commission_and_transfer_fee() -> None:
    """40% of CNY 100,000 at 20.10 are 1990 shares, so 1900: CNY 38,190. 5 bps are 19.095, and the
    transfer fee of 0.1 bp is 0.38. The close is 20.20.
    """
    (got,) = settled_by_kernel(
        Kernel(MARKETS["A-shares"]),
        accounts_of([10_000_000], [0], [10_000_000]),
        0,
        orders_of([("BUY", 0.4)]),
    )

    cash = 10_000_000 - 3_819_000 - 1_910 - 38

    assert got == Settled(cash, 1900, cash + 3_838_000, 3_819_000)


def test_a_sell_of_us_shares_pays_commission_and_both_levies() -> None:
    """100 shares at 20.10: USD 2,010. Commission is 0.5 cents a share, at least USD 1, so 1; SEC's
    fee of 0.08 bp 1.608 cents, rounded up to 2; FINRA's 0.0166 cents a share 1.66, so 2.
    """
    (got,) = settled_by_kernel(
        Kernel(MARKETS["US shares"]),
        accounts_of([50_000], [1_000_000], [250_000]),
        0,
        orders_of([("SELL", 0.0)]),
    )

    cash = 50_000 + 201_000 - 100 - 2 - 2

    assert got == Settled(cash, 0, cash, 201_000)


@pytest.mark.parametrize(("shares", "paid", "value"), [(100, 4, 202_000), (110, 5, 222_200)])
def test_a_short_pays_the_days_interest_before_anything_else(
    shares: int, paid: int, value: int
) -> None:
    """100 shares short at the close of 20.00 are USD 2,000; 0.5% a year over 252 days are 3.97
    cents, so 4. 110 are USD 2,200: 4.37 cents, rounded up.
    """
    (got,) = settled_by_kernel(
        Kernel(MARKETS["US shares"]),
        accounts_of([1_000_000], [-10_000 * shares], [800_000]),
        0,
        orders_of([None]),
    )

    cash = 1_000_000 - paid
    assert got == Settled(cash, -10_000 * shares, cash - value, 0)


@pytest.mark.parametrize(
    ("name", "cash", "order", "traded"),
    [
        # 5% of USD 100.00 are 0.24875621 coins at 20.10, for 5.00 rounded up: the smallest order
        ("coins", 10_000, ("BUY", 0.05), 500),
        ("coins", 10_000, ("BUY", 0.0499), 0),
        # 100 shares at 20.10
        ("strict shares", 10_000_000, ("BUY", 0.0201), 201_000),
        ("strict shares", 10_000_000, ("BUY", 0.02), 0),
        ("strict shares", 10_000_000, ("SELL", -0.0201), 201_000),
        ("strict shares", 10_000_000, ("SELL", -0.02), 0),
        # a short of USD 2,010.00 whose costs are 1.04 needs 2,011.04 before it
        ("strict shares", 201_104, ("SELL", -0.999482856), 201_000),
        ("strict shares", 201_103, ("SELL", -0.999487826), 0),
    ],
)
def test_an_order_at_the_border_of_a_rule_is_filled(
    name: str, cash: int, order: tuple[Side, float], traded: int
) -> None:
    kernel = Kernel(MARKETS[name])

    (got,) = settled_by_kernel(kernel, accounts_of([cash], [0], [cash]), 0, orders_of([order]))

    assert got == settled_by_executor(MARKETS[name], cash, 0, order, 0)
    assert (got.traded, kernel.settled_one_by_one) == (traded, 0)


# ---- what the executor settles itself


def one_by_one(
    name: str,
    row: int,
    cash: Sequence[int],
    held: Sequence[int],
    given: Sequence[tuple[Side, float] | None],
) -> int:
    """Number of accounts that the executor itself settles."""
    kernel = Kernel(MARKETS[name])
    settled_by_kernel(kernel, accounts_of(cash, held, cash), row, orders_of(given))
    return kernel.settled_one_by_one


HOLD: list[tuple[Side, float] | None] = [None]
RICH = 10**9


@pytest.mark.parametrize(
    ("name", "fill_row", "cash", "held", "expected"),
    [
        ("A-shares", SPLIT, RICH, 100, 1),
        ("A-shares", SPLIT, RICH, 0, 0),
        ("A-shares", SPLIT - 1, RICH, 100, 0),
        ("A-shares", SPLIT + 1, RICH, 100, 0),
        ("US shares", SPLIT, RICH, -1, 1),
        ("US shares", 1, 0, 10_000, 0),
        ("US shares", 1, -1, 10_000, 1),
        # 100 shares short at 20.10 need 130% of USD 2,010, after 4 cents of interest
        ("US shares", 1, 261_300 + 4, -1_000_000, 0),
        ("US shares", 1, 261_300 + 3, -1_000_000, 1),
        # an account with no value at the opens
        ("US shares", 1, 0, 0, 1),
        ("US shares", 1, 1, 0, 0),
        ("A-shares", 1, 0, 0, 1),
        # NAV beyond the 62 bits available for a product
        ("US shares", 1, 1 << 62, 0, 0),
        ("US shares", 1, (1 << 62) + 1, 0, 1),
    ],
)
def test_an_account_is_settled_by_the_executor_only_where_its_day_is_rare(
    name: str, fill_row: int, cash: int, held: int, expected: int
) -> None:
    assert one_by_one(name, fill_row - 1, [cash], [held], HOLD) == expected


def test_a_buy_that_cash_cuts_is_settled_by_the_executor() -> None:
    """1000 shares at 20.10 cost CNY 20,100, 10.05 of commission and 0.20 of transfer fee. The NAV
    is all cash, so a weight of 100% needs more than the available cash.
    """
    worth = 2_010_000
    cost = 1_005 + 20
    cash = [worth + cost, worth + cost - 1]
    orders: list[tuple[Side, float] | None] = [("BUY", 1.0), ("BUY", 1.0)]

    assert one_by_one("A-shares", 0, cash, [0, 0], orders) == 1


def test_prices_that_need_more_bits_are_settled_by_the_executor_alone() -> None:
    """Coins worth USD 20 million that trade in whole coins, and ticks of 1e-8."""
    rules = replace(load_plugins().venues()["crypto_spot"], steps_per_unit=1)
    market = market_at("BTC", "crypto_spot", scale=1e6, rules={"crypto_spot": rules})
    kernel = Kernel(market)
    cash = [10**10, 10**11]
    given: list[tuple[Side, float] | None] = [None, ("BUY", 0.5)]

    got = settled_by_kernel(kernel, accounts_of(cash, [7, 0], cash), 0, orders_of(given))

    assert not kernel.is_native
    assert kernel.settled_one_by_one == 2
    assert got == [
        settled_by_executor(market, cash[0], 7, given[0], 0),
        settled_by_executor(market, cash[1], 0, given[1], 0),
    ]
    assert got[1].held == 24


@pytest.mark.parametrize("name", MARKETS)
def test_usual_prices_are_settled_at_once(name: str) -> None:
    assert Kernel(MARKETS[name]).is_native
