"""The loop over a day's ticks: it goes from one tick at which something can happen to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ktdeval_qfinzero.pmb import margin_calls
from ktdeval_qfinzero.pmb.candidates import NEVER, next_tick, next_tick_of_spread
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.fills import Execution, execute
from ktdeval_qfinzero.pmb.frames import Frame
from ktdeval_qfinzero.pmb.matching import Leg, capacity, match, match_spread
from ktdeval_qfinzero.pmb.records import Session
from ktdeval_qfinzero.pmb.types import WORKING, Order, TimeInForce

_EXPIRED: Mapping[TimeInForce, str] = {"DAY": "DAY_OVER: the order was for one trading day", "GTD": "EXPIRE_TS: its time has come"}


def run_ticks(engine: Engine, session: Session, frame: Frame, until_ns: int) -> None:
    """Work through the frame's ticks up to a moment. What the close itself brings is the lifecycle's part."""
    stop = int(np.searchsorted(frame.tick_ns, min(until_ns, session.end_ns), side="right"))
    account, rules = engine.book.accounts[session.account_id], session.rules
    look = margin_calls.next_look(account, rules, frame, engine.done) if engine.done < stop else NEVER
    _plan(engine, frame, engine.done)
    while engine.done < stop:
        tick = min(min(engine.due.values(), default=NEVER), look, stop)
        _pass(engine, frame, tick)
        if tick == stop:
            return
        before = len(engine.book.trades)
        _Tick(engine, session, frame, tick).run()
        engine.done = tick + 1
        if len(engine.book.trades) > before:
            look = margin_calls.next_look(account, rules, frame, tick)
        if look == tick:
            if tick + 1 < len(frame.tick_ns):
                margin_calls.review(engine, session, int(frame.tick_ns[tick]), at_close=False)
            look = margin_calls.next_look(account, rules, frame, tick + 1)
        _plan(engine, frame, tick + 1)
        _observe(engine, frame)


class _Tick:
    """One tick at which orders may act.

    Args:
        engine, session, frame: of the broker.
        tick: its place in the frame.
    """

    def __init__(self, engine: Engine, session: Session, frame: Frame, tick: int) -> None:
        self._engine, self._frame, self._tick = engine, frame, tick
        self._fills = session.rules.fills
        self._now_ns = int(frame.tick_ns[tick])
        self._taken: dict[int, int] = {}

    def run(self) -> None:
        """Match and expire the orders that are due, in time priority."""
        due, book = self._engine.due, self._engine.book
        for order in tuple(book.working.values()):
            key = order.spread_id or order.id
            if order.id not in book.working or due.get(key, NEVER) > self._tick:
                continue
            orders = self._engine.legs_of(order)
            late = order.expire_ns is not None and order.expire_ns < self._now_ns
            if not late and order.accepted_ns <= self._frame.start_ns[self._tick]:
                self._match(orders)
            expire_orders(self._engine, orders, self._now_ns)
            del due[key]

    def _match(self, orders: Sequence[Order]) -> None:
        frame, tick = self._frame, self._tick
        columns = [frame.column.get(order.instrument.id, -1) for order in orders]
        if min(columns) < 0 or not frame.volume[tick, columns].all() or self._needless(orders[0]):
            return
        bars = [frame.bar(tick, column) for column in columns]
        left = [capacity(bar, self._fills) - self._taken.get(column, 0) for bar, column in zip(bars, columns, strict=True)]
        if orders[0].spread_id:
            spread = self._engine.book.spreads[orders[0].spread_id]
            legs = [Leg(*leg) for leg in zip(orders, bars, left, strict=True)]
            fills = match_spread(legs, spread.net_limit_e4, spread.units, self._fills)
        else:
            found = match(orders[0], bars[0], min(left[0], self._most(orders[0])), self._fills)
            if found.triggered:
                self._engine.journal.emit(self._now_ns, "ORDER_TRIGGERED", order_id=orders[0].id)
            fills = None if found.fill is None else (found.fill,)
        if fills is None:
            return
        executions = [Execution(*parts) for parts in zip(orders, fills, bars, strict=True)]
        marks = frame.marks_at(tick + 1) | frame.marks_at(tick)  # before the tick; of what has its first bar now, after it
        if execute(self._engine, executions, marks, self._now_ns):
            for column, fill in zip(columns, fills, strict=True):
                self._taken[column] = self._taken.get(column, 0) + fill.qty

    def _most(self, order: Order) -> int:
        """Units that an order may fill, whatever its bar has."""
        return margin_calls.closable(self._engine.book.accounts[order.account_id], order) if order.forced else order.open_qty

    def _needless(self, order: Order) -> bool:
        """Take a forced order from the book when there is nothing left to close; whether it was."""
        needless = order.forced and not self._most(order)
        if needless:
            reason = margin_calls.NOTHING_LEFT
            self._engine.journal.emit(self._now_ns, "ORDER_CANCELLED", order_id=order.id, reason=reason, replaced_by="")
        return needless


def expire_orders(engine: Engine, orders: Iterable[Order], now_ns: int) -> None:
    """Take orders whose time has come from the book."""
    for order in orders:
        if order.status in WORKING and order.expire_ns is not None and order.expire_ns <= now_ns:
            engine.journal.emit(now_ns, "ORDER_EXPIRED", order_id=order.id, reason=_EXPIRED[order.time_in_force])


def _plan(engine: Engine, frame: Frame, first: int) -> None:
    """Find out at which tick each working order can next act, where that is not known."""
    book = engine.book
    legs = {order.spread_id or order.id: order for order in book.working.values()}
    known = engine.due
    engine.due = {key: known[key] if key in known else _next(engine, order, frame, first) for key, order in legs.items()}


def _next(engine: Engine, order: Order, frame: Frame, first: int) -> int:
    legs = engine.legs_of(order)
    return next_tick_of_spread(legs, frame, first) if order.spread_id else next_tick(order, frame, first)


def _pass(engine: Engine, frame: Frame, stop: int) -> None:
    """Let ticks go by at which nothing happens."""
    if engine.observer is None:
        engine.done = stop
        return
    while engine.done < stop:
        engine.done += 1
        _observe(engine, frame)


def _observe(engine: Engine, frame: Frame) -> None:
    if engine.observer is not None:
        engine.observer(engine.book, frame.marks_at(engine.done))
