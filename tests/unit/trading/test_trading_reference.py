"""The executor against an independent slow simulator: identical fills, cash and positions on random markets and orders."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import reference_executor as reference
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.trading.account import nav_minor, open_day
from ktdeval.trading.executor import execute, settle
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Account, Action, Order, Position, TradingConfig
from trading_market import make_market

CODES = ("000002.SZ", "300003.SZ", "600001.SH", "600006.SH", "688004.SH", "830005.BJ")
BOARDS = ("main", "chinext", "main", "main", "star", "bse")
N_DAYS = 6
MOVES = (
    *("-0.3", "-0.295", "-0.2", "-0.195", "-0.1", "-0.095", "-0.0949", "0.0949", "0.095", "0.1", "0.195", "0.295", "0.3"),
    *("-0.03", "-0.01", "0", "0.01", "0.03") * 6,
)
RATIOS = ("1", "1", "1", "1", "1", "1", "1.000004", "1.00002", "1.0131", "1.3", "2", "0.1", "0.003")


def _round(price: Decimal, decimals: int) -> Decimal:
    return max(price, Decimal(1).scaleb(-decimals)).quantize(Decimal(1).scaleb(-decimals))


def make_asset(chance: random.Random, board: str) -> reference.Asset:
    """A random history: moves that sit on and around the limits, factor changes, suspensions, membership changes."""
    decimals = chance.choice((2, 2, 2, 4))
    close = Decimal(chance.choice(("0.02", "0.9", "7.31", "12.5", "88.88", "1405")))
    factor = Decimal(chance.choice(("1", "3.7", "0.5")))
    bars = []
    listed_on = chance.choice((0, 0, 0, 0, 2))
    for day in range(N_DAYS):
        ratio = Decimal(chance.choice(RATIOS if close < 10_000 else ("1", "2")))
        factor *= ratio
        open_ = _round(close / ratio * (1 + Decimal(chance.choice(MOVES))), decimals)
        close = _round(open_ * (1 + Decimal(chance.choice(("-0.02", "0", "0.015")))), decimals)
        member = chance.random() < 0.9
        kind = chance.choice(("bar",) * 12 + ("suspended", "no volume"))
        if kind == "suspended" or day < listed_on:
            bars.append(reference.Bar(None, None, 0, factor, member))
        else:
            bars.append(reference.Bar(open_, close, 0 if kind == "no volume" else 1000, factor, member))
    return reference.Asset(board, bars)


def make_config(chance: random.Random) -> TradingConfig:
    return TradingConfig(
        initial_cash=chance.choice((1, 8, 21, 3_000, 150_000, 1_000_000)),
        buy_fee_bps=chance.choice((5.0, 0.0, 2.5, 100.0)),
        sell_fee_bps=chance.choice((15.0, 0.0, 8.5)),
        min_fee_cny=chance.choice((5.0, 5.0, 0.0, 0.01)),
        lot_shares=chance.choice((100, 100, 1, 30)),
        star_min_shares=chance.choice((200, 1, 250)),
        limit_buffer_pct=chance.choice((0.5, 0.0, 0.51)),
        max_positions=chance.choice((20, 20, 2)),
        max_weight=chance.choice((0.1, 0.3, 1.0, 1.0)),
    )


def reference_rules(config: TradingConfig) -> reference.Rules:
    return reference.Rules(
        buy_bps=Decimal(str(config.buy_fee_bps)),
        sell_bps=Decimal(str(config.sell_fee_bps)),
        min_fee=Decimal(str(config.min_fee_cny)),
        lot=config.lot_shares,
        star_min=config.star_min_shares,
        buffer=Decimal(str(config.limit_buffer_pct)) / 100,
        max_positions=config.max_positions,
        max_weight=Decimal(str(config.max_weight)),
    )


def snapshot_of(market: list[reference.Asset]) -> MarketSnapshot:
    def rows(name: str) -> list[list[float | None]]:
        return [[getattr(asset.bars[day], name) for asset in market] for day in range(N_DAYS)]

    return make_market(CODES, rows("open"), rows("close"), factor=rows("factor"), volume=rows("volume"), member=rows("member"))


def random_order(chance: random.Random) -> Order:
    """Sensible and senseless orders in like measure."""
    asset = chance.choice((None, *range(len(CODES)), *range(len(CODES)), *range(len(CODES))))
    side = chance.choice(("BUY", "BUY", "SELL"))
    if chance.random() < 0.5:
        weight = chance.choice((0.0, 1e-9, 0.0003, 0.05, 0.0999, 0.1, 0.1001, 0.25, 0.5, 1.0, chance.randrange(10**6) / 10**6))
        return Order(asset, side, 0.5, "", target_weight=weight)
    if chance.random() < 0.03:
        form = chance.choice(((None, None), (0.1, 100), (float("nan"), None), (1.5, None), (None, 0), ("HOLD", 100)))
        if form[0] == "HOLD":
            return Order(asset, "HOLD", 0.5, "", shares=100)  # type: ignore[arg-type]
        return Order(asset, side, 0.5, "", *form)  # type: ignore[arg-type]
    shares = chance.choice((1, 30, 60, 99, 100, 101, 130, 200, 260, 300, 1_000, 5_000, 10**30, chance.randrange(1, 2_000)))
    return Order(asset, side, 0.5, "", shares=shares)


def instructions(action: Action) -> list[reference.Instruction]:
    weights = [None if order.target_weight is None else Decimal(str(order.target_weight)) for order in action]
    return [reference.Instruction(one.asset, one.side, weight, one.shares) for one, weight in zip(action, weights, strict=True)]


def random_holdings(chance: random.Random, market: list[reference.Asset]) -> dict[int, int]:
    """Shares held at the start, odd lots among them; only of names that have had a price."""
    sizes = (0, 0, 1, 30, 100, 130, 200, 2_450, 10_000)
    holdings = {number: chance.choice(sizes) for number, asset in enumerate(market) if asset.bars[0].close is not None}
    return {number: shares for number, shares in holdings.items() if shares}


def check_same(
    market: list[reference.Asset], config: TradingConfig, holdings: dict[int, int], days: list[list[Action]]
) -> Counter[tuple[str, str, str | None]]:
    """Trade `days` (several actions a day, to make T+1 bind) on both; returns how orders ended."""
    tape, rules = MarketTape.from_snapshot(snapshot_of(market), config), reference_rules(config)
    account = Account(config.initial_cash * 100, {asset: Position(shares) for asset, shares in holdings.items()})
    parcels = {asset: [reference.Parcel(shares, bought_on=0)] for asset, shares in holdings.items()}
    book = reference.BrokerState(Decimal(config.initial_cash), parcels)
    seen: Counter[tuple[str, str, str | None]] = Counter()
    for row, actions in enumerate(days, start=1):
        day = tape.day(row)
        account, changes, _ = open_day(account, day)
        reference.overnight(book, market, row)
        seen.update(("overnight", "odd" if change.shares_after % 100 else "even", None) for change in changes)
        for action in actions:
            assert (
                nav_minor(account, day.open_ticks, day.rules.units)
                == reference.net_asset_value(book, market, row, at_open=True) * 100
            )
            account, outcomes = execute(account, day, action)
            expected = reference.trade(book, market, row, instructions(action), rules)
            for order, outcome, result in zip(action, outcomes, expected, strict=True):
                assert (outcome.status, outcome.rule) == (result.status, result.rule), (row, order)
                assert outcome.shares == result.shares
                assert (outcome.notional_minor, outcome.fee_minor) == (result.notional * 100, result.fee * 100)
                assert outcome.price_ticks == result.price * 10_000
                assert bool(outcome.message) == (outcome.rule is not None)
                seen[(order.side, outcome.status, outcome.rule)] += 1
            held = {
                asset: (reference.held_shares(book, asset), reference.sellable_shares(book, asset, row)) for asset in book.parcels
            }
            assert {asset: (shares, shares - locked) for asset, (shares, locked) in account.positions.items()} == held
            assert account.cash_minor == book.cash * 100
        assert (
            nav_minor(account, day.close_ticks, day.rules.units)
            == reference.net_asset_value(book, market, row, at_open=False) * 100
        )
    return seen


def play(seed: int) -> Counter[tuple[str, str, str | None]]:
    chance = random.Random(seed)
    market = [make_asset(chance, board) for board in BOARDS]
    days = [
        [tuple(random_order(chance) for _ in range(chance.randrange(6))) for _ in range(chance.choice((1, 2)))]
        for _ in range(N_DAYS - 1)
    ]
    return check_same(market, make_config(chance), random_holdings(chance, market), days)


ORDERS = st.one_of(
    st.builds(
        Order,
        asset=st.one_of(st.none(), st.integers(0, len(CODES) - 1)),
        side=st.sampled_from(("BUY", "SELL")),
        confidence=st.just(0.5),
        reason=st.just(""),
        target_weight=st.integers(0, 10_000).map(lambda weight: weight / 10_000),
    ),
    st.builds(
        Order,
        asset=st.one_of(st.none(), st.integers(0, len(CODES) - 1)),
        side=st.sampled_from(("BUY", "SELL")),
        confidence=st.just(0.5),
        reason=st.just(""),
        shares=st.one_of(st.integers(1, 50).map(lambda lots: lots * 100), st.integers(1, 10**40)),
    ),
)
DAYS = st.lists(st.lists(st.lists(ORDERS, max_size=8).map(tuple), min_size=1, max_size=2), min_size=1, max_size=N_DAYS - 1)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), days=DAYS)
def test_random_orders_fill_as_in_the_slow_reference(seed: int, days: list[list[Action]]) -> None:
    chance = random.Random(seed)
    market = [make_asset(chance, board) for board in BOARDS]
    check_same(market, make_config(chance), random_holdings(chance, market), days)


@pytest.mark.slow
def test_seeded_random_play_agrees_with_the_reference_and_reaches_every_rule() -> None:
    seen: Counter[tuple[str, str, str | None]] = Counter()
    for seed in range(1500):
        seen += play(seed)
    buy_rules = ("schema", "universe", "suspended", "price_limit", "position_limit", "weight_limit", "target", "lot", "cash")
    sell_rules = ("schema", "universe", "holding", "t_plus_1", "suspended", "price_limit", "target", "lot", "cash")
    expected = {("BUY", "rejected", rule) for rule in buy_rules} | {("SELL", "rejected", rule) for rule in sell_rules}
    expected |= {("BUY", "filled", None), ("SELL", "filled", None), ("BUY", "partially_filled", "cash")}
    expected |= {("SELL", "partially_filled", "holding"), ("SELL", "partially_filled", "t_plus_1"), ("HOLD", "rejected", "schema")}
    expected |= {("overnight", "odd", None), ("overnight", "even", None)}
    assert set(seen) == expected


@pytest.mark.parametrize("seed", range(100))
def test_settled_days_pass_their_invariants_on_random_markets(seed: int) -> None:
    chance = random.Random(1_000 + seed)
    config = make_config(chance)
    market = [make_asset(chance, board) for board in BOARDS]
    tape = MarketTape.from_snapshot(snapshot_of(market), config)
    account = Account(50_000_000, {asset: Position(shares) for asset, shares in random_holdings(chance, market).items()})
    for row in range(1, N_DAYS):
        settlement = settle(account, tape.day(row), tuple(random_order(chance) for _ in range(8)), row - 1)
        again = settle(account, tape.day(row), settlement.action, row - 1)
        assert settlement == again
        account = settlement.after
