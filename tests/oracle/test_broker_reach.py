"""The executor against the slow broker where accounts are short, limits narrow, lots odd and fills at
the same close; and what the plays have reached, rule by rule.

A rule that a play never meets is not tested by it, however many plays agree. So each ending of an
order is counted by what the order met, and a pair that should occur and does not is a failure.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import product

import pytest

from ktdeval.trading.executor import settle
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Account, Charge, Order, Outcome, Position
from support.market import reference_broker as slow
from support.market.random_plays import (
    N_DAYS,
    Play,
    asked,
    number,
    random_holdings,
    random_orders,
    random_play,
    sold_short,
    with_narrow_weights,
    with_shorts,
)

PLAYS = 500
Reach = Counter[tuple[str, str]]  #: ending of an order or kind of a charge, what it met


def slow_broker(play: Play, holdings: Mapping[int, int]) -> slow.Broker:
    config = play.config
    broker = slow.Broker(
        play.series,
        play.market.days_a_year,
        Decimal(config.initial_cash),
        config.max_positions,
        number(config.max_weight),
    )
    broker.held = in_shares(play, holdings)
    return broker


def in_shares(play: Play, steps: Mapping[int, int]) -> dict[int, Decimal]:
    return {asset: Decimal(count) / play.steps[asset] for asset, count in steps.items()}


def steps_held(account: Account) -> dict[int, int]:
    return {asset: position.shares for asset, position in account.positions.items()}


def compare(seed: int, *, a_shares: bool) -> Reach:
    """Play random days in both brokers, and count what the orders met."""
    chance = random.Random(seed)
    play = random_play(chance, a_shares)
    if not a_shares:
        play = with_narrow_weights(chance, play)

    tape = MarketTape.from_snapshot(play.market, play.config)
    holdings = random_holdings(chance, play)
    if not a_shares:
        holdings = with_shorts(chance, play, holdings)

    positions = {asset: Position(steps) for asset, steps in holdings.items()}
    account = Account(play.config.initial_cash * 100, positions)
    broker = slow_broker(play, holdings)
    reach: Reach = Counter()

    for row in range(1, N_DAYS):
        action = random_orders(chance, play)
        if not a_shares:
            action = sold_short(chance, play, action)

        booked = settle(account, tape.day(row), action, row - 1)
        opened = steps_held(booked.opened)
        broker.begin(row)
        charges = [(one.kind, one.asset, one.cash_minor) for one in booked.charges]
        assert charges == [(kind, asset, cash * 100) for kind, asset, cash in broker.charges], seed
        assert in_shares(play, opened) == broker.held, (seed, row)
        reach.update(met_by_charges(list(booked.charges), steps_held(account)))

        ends = broker.trade(row, asked(play, action))
        for order, outcome, end in zip(action, booked.outcomes, ends, strict=True):
            found = outcome.status, outcome.rule, outcome.notional_minor, outcome.fee_minor
            expected = end.status, end.rule, end.notional * 100, end.fee * 100
            assert found == expected, (seed, row, order)
            reach.update(met_by_order(play, opened, order, outcome))

        account = booked.after
        assert in_shares(play, steps_held(account)) == broker.held, (seed, row)
        assert account.cash_minor == broker.cash * 100, (seed, row)
        assert booked.nav_minor == broker.worth(row, False) * 100, (seed, row)

    return reach


def met_by_order(
    play: Play, opened: Mapping[int, int], order: Order, outcome: Outcome
) -> Iterator[tuple[str, str]]:
    """Yield the ending of an order with each thing that it met."""
    if order.asset is None:
        return

    ending = f"{order.side} {outcome.rule or 'filled'}"
    house = play.series[order.asset].house
    held = opened.get(order.asset, 0)
    lot = int(house.lot * play.steps[order.asset])
    yield ending, house.fill
    if held > 0:
        yield ending, "long"
    elif held < 0:
        yield ending, "short"
    else:
        yield ending, "nothing held"
    if held < 0 < held + (order.shares or 0) and order.side == "BUY":
        yield ending, "beyond the short"
    if held % lot:
        yield ending, "odd lot"
    if house.step < 1:
        yield ending, "parts of a share"
    if any(steps < 0 for asset, steps in opened.items() if asset != order.asset):
        yield ending, "another short"
    if order.target_weight is not None and order.shares is not None:
        yield ending, "sized at the decision"


def met_by_charges(charges: list[Charge], before: Mapping[int, int]) -> Iterator[tuple[str, str]]:
    """Yield the kind of each charge with what it met."""
    shorts = sum(steps < 0 for steps in before.values())
    for charge in charges:
        closes = "a holding" if charge.shares < 0 else "a short"
        if charge.kind == "borrow":
            closes = "a short"
        yield charge.kind, closes
        if shorts > 1:
            yield charge.kind, "several shorts"
        if shorts > 1 and charge.kind == "margin_call":
            called = sum(each.kind == "margin_call" for each in charges)
            yield charge.kind, "all shorts" if called >= shorts else "some of the shorts"


def reached(rules: str, met: str) -> set[tuple[str, str]]:
    return set(product(rules.split(", "), met.split(", ")))


FILLS = "next_open, next_close, same_close"
SOLD = "SELL filled, SELL lot, SELL target, SELL suspended, SELL universe, SELL weight_limit"
BOUGHT = "BUY filled, BUY lot, BUY target, BUY suspended, BUY universe, BUY weight_limit, BUY cash"
#: names and smallest orders
SMALL = "BUY minimum, BUY position_limit, SELL minimum, SELL position_limit, SELL holding"
BEYOND = "BUY filled, BUY cash, BUY lot, BUY universe, BUY weight_limit"  #: what ends a reversal
CALLS = "a short, a holding, several shorts, some of the shorts, all shorts"
ANY_VENUE = (
    reached(f"{SOLD}, {BOUGHT}, {SMALL}, SELL margin", FILLS)
    | reached(f"{SOLD}, {BOUGHT}, SELL margin", "long, short, nothing held")
    | reached(f"{SOLD}, {BOUGHT}, SELL margin", "another short, sized at the decision")
    | reached(f"{SOLD}, {BOUGHT}", "odd lot, parts of a share")
    | reached(BEYOND, "beyond the short")
    | reached("borrow", "a short, several shorts")
    | reached("margin_call", CALLS)
)
A_SHARES = (
    reached(f"{BOUGHT}, BUY price_limit, BUY position_limit", "nothing held")
    | reached(f"{BOUGHT}, BUY price_limit", "long, odd lot, sized at the decision")
    | reached("SELL holding", "long, nothing held, odd lot, sized at the decision")
    | reached("SELL filled, SELL lot, SELL target, SELL suspended, SELL price_limit", "long")
    | reached("SELL filled, SELL lot, SELL target, SELL suspended, SELL price_limit", "odd lot")
)


@pytest.mark.parametrize(
    ("a_shares", "expected"),
    [pytest.param(False, ANY_VENUE, id="any venue"), pytest.param(True, A_SHARES, id="A-shares")],
)
def test_plays_agree_with_the_slow_broker_and_reach_every_rule(
    a_shares: bool, expected: set[tuple[str, str]]
) -> None:
    reach: Reach = Counter()
    for seed in range(PLAYS):
        reach += compare(seed, a_shares=a_shares)

    assert expected <= reach.keys(), f"never met: {sorted(expected - reach.keys())}"
