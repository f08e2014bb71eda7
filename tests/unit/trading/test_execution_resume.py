"""An episode with carried orders, taken up after any of its steps, comes to the same bytes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from ktdeval.harness import Decision
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.venues.execution import Execution, RestRule
from ktdeval.runner.episodes.bookkeeper import Bookkeeper
from ktdeval.runner.records.ledger_file import encode_ledger, load_ledger
from ktdeval.testing import snapshot_of_days
from ktdeval.testing.ledger_fixtures import ledger_of, step_record
from ktdeval.trading.ledger import StepRecord
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Order, TradingConfig
from ktdeval.values import decode_json, encode_canonical

N_STEPS = 8


def three_shares() -> MarketSnapshot:
    """Three A-shares, each of which trades some thousand shares a day; one splits."""
    draw = np.random.default_rng(5)
    codes = ["000002.SZ", "600001.SH", "688004.SH"]
    prices = np.round(20 * np.exp(np.cumsum(draw.normal(0, 0.02, (20, 3)), axis=0)), 2)
    volume = draw.integers(4_000, 20_000, (20, 3)).astype(float)
    factor = np.ones((20, 3))
    factor[13:, 1] = 1.1
    return snapshot_of_days(codes, prices.tolist(), volume=volume.tolist(), factor=factor.tolist())


MARKET = three_shares()


def keeper(rest: RestRule) -> Bookkeeper:
    """Books of an episode from day 9 on."""
    config = TradingConfig(
        max_weight=1.0,
        execution=Execution(
            half_spread_bps=3, impact=0.6, permanent=0.5, max_participation=0.1, rest=rest
        ),
    )
    return Bookkeeper(MARKET, MarketTape.from_snapshot(MARKET, config), config, 9)


def decisions() -> list[Decision]:
    """Orders that the volume cuts, of both sides, some of them replaced later."""

    def decided(*orders: Order) -> Decision:
        return Decision(orders, "model", "")

    return [
        decided(
            Order(2, "BUY", 0.5, "second", None, 5_000), Order(0, "BUY", 0.7, "first", None, 4_000)
        ),
        decided(Order(1, "BUY", 0.5, "", 0.3)),
        decided(),
        decided(Order(0, "SELL", 0.5, "out", 0.0)),
        decided(),
        decided(Order(2, "BUY", 0.9, "again", None, 9_000)),
        decided(),
        decided(),
    ]


def booked(books: Bookkeeper, first: int) -> list[StepRecord]:
    quiet = step_record(MARKET, 0, 1)
    return [
        books.book(number, decision, quiet)
        for number, decision in enumerate(decisions())
        if number >= first
    ]


@pytest.mark.parametrize("stopped_after", range(N_STEPS - 1))
def test_episode_taken_up_after_a_step_comes_to_the_same_bytes(stopped_after: int) -> None:
    whole = booked(keeper("carry"), 0)
    journal = encode_canonical(whole[stopped_after])

    books = keeper("carry")
    books.resume(decode_json(journal, StepRecord, "step"))
    rest = booked(books, stopped_after + 1)

    assert [encode_canonical(step) for step in rest] == [
        encode_canonical(step) for step in whole[stopped_after + 1 :]
    ]


def test_carried_orders_and_rests_are_in_the_ledger_and_read_again(tmp_path: Path) -> None:
    steps = booked(keeper("carry"), 0)
    assert [len(step.carried) for step in steps] == [0, 2, 3, 1, 2, 1, 2, 1]
    assert [rest.reason for rest in steps[0].working] == ["second", "first"]

    ledger = dataclasses.replace(ledger_of(steps), spec={"task": "test"})
    (tmp_path / "ledger.parquet").write_bytes(encode_ledger(ledger))

    assert load_ledger(tmp_path / "ledger.parquet") == ledger
