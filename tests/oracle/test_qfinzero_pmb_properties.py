"""Laws of the broker over random histories: the state stays whole, replays bit for bit, and
shortcuts change nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ktdeval.errors import InvariantError
from ktdeval.testing import on_each_row
from ktdeval_qfinzero.pmb.bar_feed import DayFrame
from ktdeval_qfinzero.pmb.broker_types import Account, Bar, Instrument, Position, Rules
from ktdeval_qfinzero.pmb.margin import margin_state
from ktdeval_qfinzero.pmb.tick_execution import next_look
from ktdeval_qfinzero.timestamps import MINUTE
from support.qfinzero.qfinzero_broker_play import FREE, OPEN, Play, Row
from support.qfinzero.qfinzero_invariants import check_invariants

pytestmark = pytest.mark.slow

FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FEW
@given(st.integers(0, 2**32 - 1), st.sampled_from(("BUY", "SELL")))
def test_margin_call_starts_at_the_first_tick_below_maintenance(seed: int, side: str) -> None:
    """A leveraged position on a random walk, looked at after each tick."""
    close = np.round(100 * np.exp(np.cumsum(np.random.default_rng(seed).normal(0, 0.02, 200))), 2)
    rows: list[Row] = [
        (price, price, price, price, 1e9) for price in [100.0, 100.0, *close.tolist()]
    ]
    config = {**FREE, "margin": {"call_days": 5}}
    looked_at, play = (Play(rows, cash=100_000, config=config) for _ in range(2))
    for each in (looked_at, play):
        each.step()
        each.order(side, "MARKET", 1_950)

    missed = [False]
    for _ in range(201):
        looked_at.step()
        missed.append(looked_at.margin.deficit_e4 > 0)

    play.step(201)
    calls = [event.ts_ns for event in play.broker.log.events() if event.type == "MARGIN_CALL"]

    assert calls[:1] == ([OPEN + (missed.index(True) + 1) * MINUTE] if any(missed) else [])


HOLDINGS = st.lists(
    st.tuples(st.integers(-500, 500), st.integers(10_000, 2_000_000)), min_size=1, max_size=4
)


@given(
    HOLDINGS, st.integers(-(10**9), 10**9), st.lists(st.integers(1, 300), min_size=1, max_size=5)
)
def test_the_quick_look_at_margin_never_misses_a_call(
    holdings: list[tuple[int, int]], cash_e4: int, moves: list[int]
) -> None:
    stocks = [Instrument("STOCK", f"S{number}") for number in range(len(holdings))]
    account = Account("a", "MARGIN", 0, 0, cash_e4)
    account.positions = {
        stock.id: Position(stock, qty) for stock, (qty, _) in zip(stocks, holdings, strict=True)
    }
    rows = []

    for move in moves:
        rows.append([price * move // 100 + 1 for _, price in holdings])

    marks = np.array([[price for _, price in holdings], *rows], np.int64)
    ticks = OPEN + np.arange(1, len(marks), dtype=np.int64) * MINUTE
    none = np.zeros((len(ticks), len(stocks)), np.int64)
    columns = {stock.id: index for index, stock in enumerate(stocks)}
    frame = DayFrame(
        date(2025, 1, 6),
        ticks - MINUTE,
        ticks,
        tuple(stocks),
        columns,
        none,
        none,
        none,
        none,
        none,
        marks,
    )
    missed = [
        tick
        for tick in range(len(moves))
        if margin_state(account, frame.marks_at(tick + 1), Rules()).deficit_e4
    ]

    assert not missed or next_look(account, Rules(), frame, 0) <= missed[0]


# Ten shares bought at 100 on a bar with a volume of 1,000.
@on_each_row(
    "what, changes, words",
    ("account", {"cash_e4": 1}, "cash is not its movements"),
    ("account", {"fees_e4": 7}, "FEE is not the sum"),
    ("account", {"dividends_e4": 7}, "dividends are not"),
    ("account", {"positions": {}}, "not the sum of its changes"),
    ("trade", {"price_e4": 1_020_000}, "outside of its bar"),
    ("trade", {"qty": 0}, "not above 0|not the sum of its changes"),
    ("trade", {"fee_e4": 1}, "fee is not"),
    ("trade", {"bar": [1_000_000, 1_000_000, 1_000_000, 1_000_000, 9]}, "no such volume"),
    ("order", {"filled_qty": 11}, "beyond its quantity"),
)
def test_a_state_that_was_tampered_with_is_found(
    what: str, changes: dict[str, Any], words: str
) -> None:
    play = Play([(100, 100, 100, 100, 1_000)] * 3)
    play.order("BUY", "LIMIT", 10, limit_price=100.0)
    play.step()

    if what == "trade":
        changes = {name: Bar(*value) if name == "bar" else value for name, value in changes.items()}
        play.state.trades[0] = replace(play.state.trades[0], **changes)

    for name, value in changes.items() if what != "trade" else ():
        setattr(play.account if what == "account" else play.state.orders["ord-000001"], name, value)

    with pytest.raises(InvariantError, match=words):
        check_invariants(play.broker)
