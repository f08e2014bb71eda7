"""Numbers that a mask shows are good orders: who sells what is shown is flat, and a limit at a shown
price does not miss that price. Whatever the venue and the mask.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from ktdeval.harness import ModelRequest, Reply
from ktdeval.keyless import Conversation
from ktdeval.market import MarketSnapshot
from ktdeval.observation import ObservedState
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_parts import EpisodeParts
from ktdeval.testing.day_markets import spec_on
from ktdeval.trading.ledger import StepRecord
from ktdeval.trading.market_tape import MarketTape
from ktdeval_builtin.react import ReactAgent
from support.market.mixed_market import mixed_market, of_each
from support.tasks.markets_scenes import task_from

STEPS = 44  # a split and a suspension are among them
MARKETS = {
    "a_share": {f"60{number:04d}.SH": "a_share" for number in range(1, 5)},
    "us_equity": of_each({"us_equity": 4}),
    "crypto_spot": of_each({"crypto_spot": 4}),
    "dust": of_each({"dust": 4}),
}
MASKS: dict[str, dict[str, Any]] = {
    "bright": {"mask": "bright"},
    "blinded": {},
    "rebased": {"rebase_prices": True},
    "rounded": {"round_digits": 3},
    "noisy": {"noise_pct": 1.0},
    "rebased and rounded": {"rebase_prices": True, "round_digits": 2},
}
#: rules that may stop an order for all that is shown
STOPPED = {"suspended", "price_limit", "margin", "minimum"}

Row = dict[str, Any]


@cache
def market_at(venue: str) -> MarketSnapshot:
    """Four random walks; coins cost from 80,000 down to 0.000005 each."""
    made = mixed_market(MARKETS[venue], first="2024-06-03", last="2025-06-30", seed=4)
    if made.kinds[0] == "stock":
        return made

    scale = np.array([1600.0, 1.0, 1e-3, 1e-7])
    grids = {name: getattr(made, name) * scale for name in ("open", "high", "low", "close")}
    return dataclasses.replace(made, id="", volume=made.volume / scale, **grids)


Close = Callable[[ObservedState], Sequence[Row]]


class Trader:
    """Opens positions of odd sizes on one day, and acts as `close` says on the days on which it has
    some. `sizes`: least and greatest part of the NAV that it opens.
    """

    def __init__(
        self, close: Close, shorts: bool = False, sizes: tuple[float, float] = (0.02, 0.2)
    ) -> None:
        self.states: list[ObservedState] = []
        self._close = close
        self._shorts = shorts
        self._least, self._most = sizes
        self._chance = random.Random(7)

    def reply(self, request: ModelRequest) -> Reply:
        conversation = Conversation(request)
        state = conversation.observed
        self.states.append(state)
        orders = self._close(state) if state.positions else self._opened(state)
        full = [{"confidence": 0.5, "reason": "to be flat again", **order} for order in orders]
        return conversation.submit(full, "one day in, one day out")

    def _opened(self, state: ObservedState) -> list[Row]:
        orders = []
        for label, asset in state.candidates.items():
            if asset.status == "trading":
                weight = self._most * (self._least / self._most) ** self._chance.random()
                side = "SELL" if self._shorts and self._chance.random() < 0.5 else "BUY"
                target = -weight if side == "SELL" else weight
                orders.append({"stock_id": label, "side": side, "target_weight": target})

        return orders


def all_of_it(state: ObservedState) -> list[Row]:
    """One order for each position, of the shares shown."""
    orders = []
    for label, held in state.positions.items():
        side = "SELL" if held.shares > 0 else "BUY"
        orders.append({"stock_id": label, "side": side, "shares": abs(held.shares)})

    return orders


def in_two_parts(state: ObservedState) -> list[Row]:
    """Two orders for each position, which together are the shares shown."""
    orders = []
    for order in all_of_it(state):
        first = round(order["shares"] * 0.4, 4)
        if isinstance(state.positions[order["stock_id"]].cells["shares"], int):
            first = order["shares"] // 200 * 100
        for part in (first, order["shares"] - first):
            if part > 0:
                orders.append({**order, "shares": part})

    return orders


def play(venue: str, trader: Trader, steps: int, **options: Any) -> list[StepRecord]:
    """The records of an episode that ends on the market's last day."""
    market = market_at(venue)
    row = len(market.days) - 1 - steps
    trading = {"initial_cash": 100_000, "max_weight": 1.0, "constraint_feedback": True}
    trading |= options.pop("trading", {})
    task, window = task_from(row, market, trading=trading, **options)
    spec = spec_on(task, window)
    tape = MarketTape.from_snapshot(market, task.trading)
    episode = TradingEpisodeRun(spec, EpisodeParts(task, (), market, tape, trader, ReactAgent()))
    return [episode.run_step(step).step for step in range(steps)]


def check_flat(records: Sequence[StepRecord], least: int, shares_are_whole: bool = False) -> None:
    """Every position is closed whole on the day after it was opened, but for what did not trade."""
    closed = 0
    held: dict[str, int] = {}
    for record in records:
        assert record.provenance == "model", (record.step, record.failures)
        stopped = {order.code for order in record.orders if order.rule in STOPPED}
        if shares_are_whole:  # an order of so many shares is one of as many after a split, too
            stopped |= {change.code for change in record.corporate_actions}

        after = {position.code: position.shares for position in record.positions}
        if held:
            assert after.keys() <= stopped & held.keys(), (record.step, held, after)
            closed += len(held) - len(after)

        held = after

    assert closed >= least


@pytest.mark.slow
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("venue", [*MARKETS, "us_equity with shorts"])
def test_who_sells_what_is_shown_is_flat(venue: str, mask: str) -> None:
    venue, _, shorts = venue.partition(" with ")
    sizes = (1e-8, 0.2) if venue == "dust" else (0.02, 0.2)
    trader = Trader(all_of_it, bool(shorts), sizes)
    records = play(venue, trader, STEPS, **MASKS[mask])
    check_flat(records, 40, shares_are_whole=venue == "a_share" and "rebased" not in mask)

    # nothing that is held is shown as nothing
    shares = [held.shares for state in trader.states for held in state.positions.values()]
    assert all(shares)
    if venue == "dust":
        assert min(map(abs, shares)) < 1e-4


@pytest.mark.parametrize("venue", MARKETS)
def test_two_orders_that_are_what_is_shown_together_leave_nothing(venue: str) -> None:
    records = play(venue, Trader(in_two_parts, venue == "us_equity"), 10)
    check_flat(records, 12)


def test_less_than_what_is_shown_is_kept() -> None:
    """Half of a position is half of it: only what is shown as the position closes it."""

    def half_of_it(state: ObservedState) -> list[Row]:
        return [{**order, "shares": order["shares"] / 2} for order in all_of_it(state)]

    first, second, *_ = play("us_equity", Trader(half_of_it), 4)
    before = {position.code: position.shares for position in first.positions}
    after = {position.code: position.shares for position in second.positions}
    assert len(before) == 4
    for code, shares in before.items():
        assert after[code] == pytest.approx(shares / 2, abs=6)


# ---- limits


@pytest.mark.parametrize("mask", ["bright", "rebased"])
@pytest.mark.parametrize("venue", ["us_equity", "dust"])
def test_a_limit_at_the_close_as_shown_fills_at_this_close(venue: str, mask: str) -> None:
    """Orders fill at the very close that is shown: no limit at it misses it, on either side."""

    def at_the_close(state: ObservedState) -> list[Row]:
        prices = state.prices
        return [{**order, "limit": prices[order["stock_id"]]} for order in all_of_it(state)]

    class Limited(Trader):
        def _opened(self, state: ObservedState) -> list[Row]:
            orders = super()._opened(state)
            return [{**order, "limit": state.prices[order["stock_id"]]} for order in orders]

    trading = {"venue": "frictionless", "limit_orders": True, "max_weight": 0.25}
    records = play(venue, Limited(at_the_close), 20, trading=trading, **MASKS[mask])
    orders = [order for record in records for order in record.orders]
    rules = {order.rule for order in orders}

    assert len(orders) > 60
    assert rules <= {None, "suspended"}
    assert all(order.limit_ticks is not None for order in orders)


def test_a_limit_apart_from_the_days_prices_is_taken_as_it_is() -> None:
    def far_above(state: ObservedState) -> list[Row]:
        return [{**order, "limit": 1e6} for order in all_of_it(state)]

    trading = {"limit_orders": True}
    _, second, *_ = play("us_equity", Trader(far_above), 3, trading=trading)
    assert {order.limit_ticks for order in second.orders} == {10_000 * 10**6}


def test_cash_as_shown_can_be_spent() -> None:
    """At the close that is shown, without costs: what display rounds up is cut, and nothing fails."""

    def spend(state: ObservedState) -> list[Row]:
        label = min(state.positions)
        cash = state.account.cash or 0.0
        if cash < 1.0:
            return []
        return [{"stock_id": label, "side": "BUY", "shares": cash / state.prices[label]}]

    records = play("us_equity", Trader(spend), 12, trading={"venue": "frictionless"})
    assert {record.provenance for record in records} == {"model"}
    assert records[1].cash_minor <= 100
    assert {order.status for order in records[1].orders} <= {"filled", "partially_filled"}


def test_a_weight_beyond_the_limit_that_is_shown_so_is_no_breach() -> None:
    """A holding that has grown beyond the largest weight: who states its weight again keeps it."""

    def as_it_is(state: ObservedState) -> list[Row]:
        orders = []
        for label, held in state.positions.items():
            orders.append({"stock_id": label, "side": "BUY", "target_weight": held.weight})

        return orders

    trading = {"max_weight": 0.12, "venue": "frictionless"}
    records = play("us_equity", Trader(as_it_is, sizes=(0.11, 0.12)), STEPS, trading=trading)
    beyond = [
        position
        for record in records
        for position in record.positions
        if position.value_minor > 0.12 * record.nav_minor
    ]

    assert len(beyond) > 20
    assert {record.provenance for record in records} == {"model"}
