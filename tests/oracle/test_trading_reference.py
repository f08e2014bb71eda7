"""The executor against an independent slow broker: identical fills, charges, positions and worths
on random markets and orders.
"""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from ktdeval.trading.daily_settlement import nav_minor, open_day
from ktdeval.trading.executor import execute, settle
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Account, Position
from support.market import reference_broker as slow
from support.market.random_plays import (
    N_DAYS,
    asked,
    limited,
    limits_of,
    number,
    random_holdings,
    random_orders,
    random_play,
    with_limits,
)
from support.searching import examples


def compare(
    seed: int, a_shares: bool, *, limits: bool = False
) -> Counter[tuple[str, str, str | None]]:
    """Play random days in both, several actions a day to make T+1 bind; returns what was met."""
    chance = random.Random(seed)
    play = random_play(chance, a_shares)
    if limits:
        play = with_limits(chance, play)

    series = play.series
    steps = play.steps
    config = play.config
    tape = MarketTape.from_snapshot(play.market, config)
    holdings = random_holdings(chance, play)
    account = Account(
        config.initial_cash * 100, {asset: Position(shares) for asset, shares in holdings.items()}
    )
    broker = slow.Broker(
        series,
        play.market.days_a_year,
        Decimal(config.initial_cash),
        config.max_positions,
        number(config.max_weight),
    )
    broker.held = {asset: Decimal(shares) / steps[asset] for asset, shares in holdings.items()}
    seen: Counter[tuple[str, str, str | None]] = Counter()

    for row in range(1, N_DAYS):
        day = tape.day(row)
        before = account
        account, changes, charges = open_day(account, day)
        broker.begin(row)
        assert [(one.kind, one.asset, one.cash_minor) for one in charges] == [
            (kind, asset, cash * 100) for kind, asset, cash in broker.charges
        ], seed
        seen.update(("charge", charge.kind, None) for charge in charges)
        for change in changes:
            seen["overnight", "short" if change.shares_before < 0 else "long", None] += 1
            seen["overnight", "odd" if change.shares_after % 100 else "even", None] += 1

        actions = [random_orders(chance, play) for _ in range(chance.choice((1, 2)))]
        if limits:
            actions = [limited(chance, play, row, action) for action in actions]

        for action in actions:
            assert (
                nav_minor(account, day.open_ticks, day.rules.units) == broker.worth(row, True) * 100
            )
            account, outcomes = execute(account, day, action)
            prices = limits_of(play, action)
            ends = broker.trade(row, asked(play, action), prices)
            for one, outcome, end, limit in zip(action, outcomes, ends, prices, strict=True):
                asset = one.asset or 0
                assert (outcome.status, outcome.rule) == (end.status, end.rule), (
                    seed,
                    row,
                    one,
                    series[asset].house,
                )
                filled = Decimal(outcome.shares) / steps[asset]
                assert (filled, outcome.notional_minor, outcome.fee_minor) == (
                    end.quantity,
                    end.notional * 100,
                    end.fee * 100,
                )
                if filled:
                    price, is_late = broker.reach(row, asset, one.side, limit)
                    assert outcome.price_ticks * series[asset].house.tick == price
                    if is_late:
                        seen[one.side, "after the open", None] += 1

                assert bool(outcome.message) == (outcome.rule is not None)
                seen[one.side, outcome.status, outcome.rule] += 1

            held = {asset: (Decimal(one.shares) / steps[asset], Decimal(one.locked) / steps[asset])
                    for asset, one in account.positions.items()}  # fmt: skip
            assert held == {
                asset: (shares, broker.fresh.get(asset, 0)) for asset, shares in broker.held.items()
            }, (seed, row)
            assert account.cash_minor == broker.cash * 100

        assert (
            nav_minor(account, day.close_ticks, day.rules.units) == broker.worth(row, False) * 100
        )
        if len(actions) == 1:  # a whole day, whose invariants are checked
            assert settle(before, day, actions[0], row - 1).after == account

    return seen


@pytest.mark.slow
@examples(60, search=120)
@given(seed=st.integers(0, 2**32), a_shares=st.booleans())
def test_random_orders_fill_as_in_the_slow_broker(seed: int, a_shares: bool) -> None:
    compare(seed, a_shares)


@pytest.mark.slow
@examples(40, search=120)
@given(seed=st.integers(0, 2**32), a_shares=st.booleans())
def test_random_orders_with_limits_fill_as_in_the_slow_broker(seed: int, a_shares: bool) -> None:
    compare(seed, a_shares, limits=True)


@pytest.mark.parametrize("seed", [23, 34, 63, 88, 118])
def test_rare_order_outcomes_match_the_slow_broker(seed: int) -> None:
    """Shorts bought back for what cash there is, cuts below the smallest order, targets that are
    none.
    """
    compare(seed, a_shares=False)


@pytest.mark.parametrize(
    ("seed", "a_shares"), [(805, True), (96, False), (240, False), (894, False)]
)
def test_sale_after_the_open_frees_cash_and_room_as_in_the_slow_broker(
    seed: int, a_shares: bool
) -> None:
    """Buys of a day that would use the cash, the name or the margin of a sale after its open."""
    compare(seed, a_shares, limits=True)


SELLS = "schema universe holding t_plus_1 suspended target lot cash"
BUYS = "schema universe suspended position_limit weight_limit target lot cash"
CUTS = {
    ("BUY", "partially_filled", "cash"),
    ("SELL", "partially_filled", "holding"),
    ("SELL", "partially_filled", "t_plus_1"),
}


def rejected(side: str, rules: str) -> set[tuple[str, str, str | None]]:
    return {(side, "rejected", rule) for rule in rules.split()}


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("a_shares", "plays", "sells", "buys"),
    [
        (True, range(1_500), f"{SELLS} price_limit", f"{BUYS} price_limit"),
        *(
            pytest.param(
                False,
                range(first, first + 2_500),
                f"{SELLS} position_limit weight_limit minimum margin",
                f"{BUYS} minimum",
                marks=[pytest.mark.exhaustive] if first else [],
            )
            for first in range(0, 10_000, 2_500)
        ),
    ],
    ids=["a_share", *(f"any venue from {first}" for first in range(0, 10_000, 2_500))],
)
def test_ten_thousand_random_plays_agree_with_the_slow_broker(
    a_shares: bool, plays: range, sells: str, buys: str
) -> None:
    seen: Counter[tuple[str, str, str | None]] = Counter()
    for seed in plays:
        seen += compare(seed, a_shares)

    expected = (
        CUTS | rejected("SELL", sells) | rejected("BUY", buys) | {("HOLD", "rejected", "schema")}
    )
    expected |= {("BUY", "filled", None), ("SELL", "filled", None)}
    expected |= {("overnight", what, None) for what in ("odd", "even", "long")}
    expected |= (
        set()
        if a_shares
        else {
            ("overnight", "short", None),
            ("charge", "borrow", None),
            ("charge", "margin_call", None),
        }
    )

    assert set(seen) == expected


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("a_shares", [True, False])
def test_a_thousand_random_plays_with_limits_agree_with_the_slow_broker(a_shares: bool) -> None:
    seen: Counter[tuple[str, str, str | None]] = Counter()
    for seed in range(1_000):
        seen += compare(seed, a_shares, limits=True)

    expected = rejected("SELL", "limit") | rejected("BUY", "limit")
    expected |= {("SELL", "after the open", None), ("BUY", "after the open", None)}
    assert expected <= set(seen), expected - set(seen)
