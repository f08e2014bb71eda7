"""Ticks of a day: at which one an order can next act, what happens there, what is filled, and margin calls and what they close."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.pmb.day_events import settlement_day
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.events import OrderAccepted, OrderCancelled, OrderExpired, OrderTriggered, Traded, order_payload
from ktdeval_qfinzero.pmb.frames import NEVER, Frame
from ktdeval_qfinzero.pmb.holding_events import MarginCalled, MarginCallMet
from ktdeval_qfinzero.pmb.margin import (
    Circumstances,
    MarginState,
    Problem,
    WantedTrade,
    liquidation_plan,
    margin_state,
    order_problem,
)
from ktdeval_qfinzero.pmb.matching import Leg, capacity, match, match_spread
from ktdeval_qfinzero.pmb.placement import OrderSpec, new_order
from ktdeval_qfinzero.pmb.values import WORKING, Account, Bar, Fill, Order, OrderType, Rules, Session, Side, TimeInForce

LIQUIDATION = "LIQUIDATION: an unmet margin call is liquidated"
NO_LONGER_NEEDED = "MARGIN_CALL_MET: the margin call is met"
ONE_CANCELS_OTHER = "ONE_CANCELS_OTHER: another order of its group filled"
NOTHING_LEFT = "NOTHING_LEFT: what the order was to close is gone"


def next_look(account: Account, rules: Rules, frame: Frame, first: int) -> int:
    """First tick from `first` on at whose end the account may have a margin call or be rid of one; `NEVER` for none this day.
    An upper bound of the maintenance requirement decides, so that no call is missed; `review` then has the exact one.
    """
    held = [position for position in account.positions.values() if position.qty]
    if account.margin_call_due is not None:
        return first
    if account.cash_e4 >= 0 and all(position.qty > 0 for position in held):
        return NEVER
    if any(position.instrument.kind == "OPTION" for position in held) or account.type == "CASH":
        return first
    columns = [frame.column[position.instrument.id] for position in held]
    qty = np.array([position.qty for position in held], np.int64)
    values = frame.marks[first + 1 :, columns] * qty
    short = np.maximum(-values * rules.margin.short_maintenance_pct // 100, -qty * rules.margin.short_minimum_e4)
    needed = np.where(qty > 0, values * rules.margin.long_maintenance_pct // 100, short) + 1
    low = account.cash_e4 + (values - needed).sum(axis=1) < 0
    return _first(low, first)


def review(engine: Engine, session: Session, now_ns: int, at_close: bool) -> None:
    """Begin, end or enforce an account's margin call, at the marks after a tick."""
    account = engine.state.accounts[session.account_id]
    marks = engine.marks()
    state = margin_state(account, marks, session.rules)
    if not state.deficit_e4:
        if account.margin_call_due is not None:
            engine.emit(MarginCallMet(*_figures(session, state)), now_ns)
            for order in [order for order in engine.state.working.values() if order.forced]:
                engine.emit(OrderCancelled(order.id, NO_LONGER_NEEDED), now_ns)
        return
    if (due := account.margin_call_due) is None:
        due = engine.hours.day(engine.day_row + session.rules.margin.call_days)
        engine.emit(MarginCalled(*_figures(session, state), due.isoformat()), now_ns)
    is_due = engine.day > due or (engine.day == due and (at_close or not session.rules.margin.call_days))
    if is_due and not any(order.forced for order in engine.state.working.values()):
        _liquidate(engine, session, now_ns)


def _liquidate(engine: Engine, session: Session, now_ns: int) -> None:
    """Cancel the account's orders and send market orders that close what must be closed; they fill from the next bar on."""
    state = engine.state
    for order_id in tuple(state.working):
        engine.emit(OrderCancelled(order_id=order_id, reason=LIQUIDATION), now_ns)
    for instrument, side, qty in liquidation_plan(state.accounts[session.account_id], engine.marks(), session.rules):
        spec = OrderSpec(instrument, side, "MARKET", qty, time_in_force="GTC")
        order = new_order(engine, session, spec, accepted_ns=now_ns, forced=True)
        engine.emit(OrderAccepted(order_payload(order), reserve_e4=0), now_ns)


def _figures(session: Session, state: MarginState) -> tuple[str, str, int, int]:
    """What both events of a margin call begin with."""
    return session.account_id, session.id, state.equity_e4, state.maintenance_e4


def next_tick(order: Order, frame: Frame, first: int) -> int:
    """First tick from `first` on at which an order may trigger, fill or expire; `NEVER` where there is none this day."""
    column = frame.column.get(order.instrument.id)
    if column is None:
        return _expiry(order, frame)
    first = max(first, int(np.searchsorted(frame.start_ns, order.accepted_ns)))
    traded = frame.volume[first:, column] > 0
    reached = _reached(order, frame, first, column)
    return min(_first(traded if reached is None else traded & reached, first), _expiry(order, frame))


def next_tick_of_spread(orders: Sequence[Order], frame: Frame, first: int) -> int:
    """First tick at which all legs have a bar, or the spread expires."""
    first = max(first, int(np.searchsorted(frame.start_ns, orders[0].accepted_ns)))
    columns = [frame.column[order.instrument.id] for order in orders if order.instrument.id in frame.column]
    if len(columns) < len(orders):
        return _expiry(orders[0], frame)
    traded: npt.NDArray[np.bool_] = np.all(frame.volume[first:, columns] > 0, axis=1)
    return min(_first(traded, first), _expiry(orders[0], frame))


def _reached(order: Order, frame: Frame, first: int, column: int) -> npt.NDArray[np.bool_] | None:
    """Ticks at which the price that the order waits for is reached; None where it waits for none."""
    waits_for_stop = order.stop_e4 is not None and not order.triggered
    price = order.stop_e4 if waits_for_stop else order.limit_e4
    if price is None:
        return None
    upwards = (order.side == "BUY") == waits_for_stop
    return frame.high_e4[first:, column] >= price if upwards else frame.low_e4[first:, column] <= price


def _expiry(order: Order, frame: Frame) -> int:
    if order.expire_ns is None:
        return NEVER
    tick = int(np.searchsorted(frame.tick_ns, order.expire_ns))
    return tick if tick < len(frame.tick_ns) else NEVER


def _first(hits: npt.NDArray[np.bool_], first: int) -> int:
    index = int(hits.argmax()) if len(hits) else 0
    return first + index if len(hits) and hits[index] else NEVER


@dataclass(frozen=True, slots=True)
class Execution:
    """A fill that is about to happen to an order, and the bar that it happens on."""

    order: Order
    fill: Fill
    bar: Bar


def execute(engine: Engine, executions: Sequence[Execution], marks: Mapping[str, int], known_ns: int, now_ns: int) -> bool:
    """Fill an order, or all legs of a spread; where the account can't bear it any more, cancel instead.
    `executions`: one, or one for each leg; `marks`: before the tick; `known_ns`: the bar's start, of when locates are. Returns
    whether it was filled.
    """
    problem = None if executions[0].order.forced else _problem(engine, executions, marks, known_ns)
    if problem is not None:
        for execution in executions:
            engine.emit(OrderCancelled(execution.order.id, f"{problem.code}: {problem.words}"), now_ns)
        return False
    settles = settlement_day(engine.hours, engine.day).isoformat()
    for execution in executions:
        order, fill, bar = execution.order, execution.fill, execution.bar
        fee_e4 = engine.state.sessions[order.session_id].rules.fees.trade_e4(order.instrument, fill.qty)
        bar_values = [bar.open_e4, bar.high_e4, bar.low_e4, bar.close_e4, bar.volume]
        trade_id = f"trd-{len(engine.state.trades) + 1:06d}"
        engine.emit(Traded(trade_id, order.id, fill.qty, fill.price_e4, fee_e4, settles, bar_values), now_ns)
        for other in order.others(engine.state.working.values()) if order.group in engine.state.groups else ():
            if not other.open_qty:
                engine.emit(OrderCancelled(other.id, ONE_CANCELS_OTHER), now_ns)
    return True


def send_bracket(engine: Engine, execution: Execution, accepted_ns: int, now_ns: int) -> list[Order]:
    """Send the orders of a bracket for the units of a fill: of the two, one cancels the other. They last as their parent does."""
    parent, sent = execution.order, list[Order]()
    session = engine.state.sessions[parent.session_id]
    for limit_e4, stop_e4 in ((parent.take_profit_e4, None), (None, parent.stop_loss_e4)):
        if limit_e4 is not None or stop_e4 is not None:
            side: Side = "SELL" if parent.side == "BUY" else "BUY"
            kind: OrderType = "LIMIT" if stop_e4 is None else "STOP"
            spec = OrderSpec(parent.instrument, side, kind, execution.fill.qty, limit_e4, stop_e4, parent.time_in_force)
            group = {"parent_id": parent.id, "oco_id": sent[0].id if sent else ""}
            order = new_order(engine, session, spec, accepted_ns=accepted_ns, expire_ns=parent.expire_ns, **group)
            engine.emit(OrderAccepted(order_payload(order), reserve_e4=0), now_ns)
            sent.append(engine.state.orders[order.id])
    return sent


def _problem(engine: Engine, executions: Sequence[Execution], marks: Mapping[str, int], known_ns: int) -> Problem | None:
    order = executions[0].order
    session = engine.state.sessions[order.session_id]
    prices = {execution.order.instrument.id: execution.fill.price_e4 for execution in executions}
    trades = tuple(
        WantedTrade(order.instrument, order.side, fill.qty, fill.price_e4, session.rules.fees.trade_e4(order.instrument, fill.qty))
        for order, fill in ((execution.order, execution.fill) for execution in executions)
    )
    sold = (trade.instrument.symbol for trade in trades if trade.side == "SELL" and trade.instrument.kind == "STOCK")
    account = engine.state.accounts[order.account_id]
    circumstances = Circumstances(engine.day, engine.borrowable(account, sold, known_ns))
    return order_problem(account, trades, {**marks, **prices}, session.rules, circumstances)


_EXPIRED: Mapping[TimeInForce, str] = {"DAY": "DAY_OVER: the order was for one trading day", "GTD": "EXPIRE_TS: its time has come"}


def run_ticks(engine: Engine, session: Session, frame: Frame, until_ns: int) -> None:
    """Work through the frame's ticks up to a moment. What the close itself brings is left to `timeline`."""
    stop = int(np.searchsorted(frame.tick_ns, min(until_ns, session.end_ns), side="right"))
    account, rules = engine.state.accounts[session.account_id], session.rules
    look = next_look(account, rules, frame, engine.done) if engine.done < stop else NEVER
    _plan(engine, frame, engine.done)
    while True:
        tick = min(min(engine.due.values(), default=NEVER), look, stop)
        _pass(engine, frame, tick)
        if tick == stop:
            break
        before = len(engine.state.trades)
        _Tick(engine, session, frame, tick).run()
        engine.done = tick + 1
        if len(engine.state.trades) > before:
            look = next_look(account, rules, frame, tick)
        if look == tick:
            if tick + 1 < len(frame.tick_ns):
                review(engine, session, int(frame.tick_ns[tick]), at_close=False)
            look = next_look(account, rules, frame, tick + 1)
        _plan(engine, frame, tick + 1)
        _observe(engine, frame)


class _Tick:
    """One tick at which orders may act, first at the open of its bars, then inside them. `tick`: its index in the frame."""

    def __init__(self, engine: Engine, session: Session, frame: Frame, tick: int) -> None:
        self._engine, self._frame, self._tick = engine, frame, tick
        self._fills = session.rules.fills
        self._start_ns = int(frame.start_ns[tick])
        self._now_ns = int(frame.tick_ns[tick])
        self._sent: list[tuple[Order, Execution]] = []  # orders of brackets, and the fills that sent them
        self._taken: dict[int, int] = {}  # column -> units of its bar that fills have used up
        self._triggered: set[str] = set()  # orders whose stop was reached on these bars

    def run(self) -> None:
        """Match and expire the orders that are due."""
        for orders in self._due():
            if self._may_match(orders):
                self._match(orders, at_open=True)
        if self._sent:
            _plan(self._engine, self._frame, self._tick)
        due, self._sent = self._due(), []
        for orders in sorted(due, key=self._benefit):
            if self._may_match(orders) and not orders[0].spread_id:
                self._match(orders, at_open=False)
        for order, cause in self._sent:
            self._stop_out(order, cause)
        for orders in due:
            expire_orders(self._engine, orders, self._now_ns)
            del self._engine.due[orders[0].spread_id or orders[0].id]

    def _due(self) -> list[Sequence[Order]]:
        """Orders, and legs of spreads, that can act at this tick, in time priority."""
        due, state = self._engine.due, self._engine.state
        groups = {order.spread_id or order.id: self._engine.legs_of(order) for order in state.working.values()}
        return [orders for key, orders in groups.items() if due.get(key, NEVER) <= self._tick]

    def _may_match(self, orders: Sequence[Order]) -> bool:
        order = orders[0]
        late = order.expire_ns is not None and order.expire_ns < self._now_ns
        return order.status in WORKING and not late and order.accepted_ns <= self._start_ns

    def _benefit(self, orders: Sequence[Order]) -> int:
        """How much better than the open an order fills inside its bar, in millionths; the worst is first on the path."""
        order, column = orders[0], self._frame.column.get(orders[0].instrument.id)
        if column is None or not (bar := self._frame.bar(self._tick, column)).volume:
            return 0
        fill = match(order, bar, order.open_qty, self._fills, at_open=False).fill
        better = 0 if fill is None else bar.open_e4 - fill.price_e4
        return (better if order.side == "BUY" else -better) * 1_000_000 // bar.open_e4

    def _match(self, orders: Sequence[Order], *, at_open: bool) -> None:
        frame, tick, now_ns = self._frame, self._tick, self._now_ns
        columns = [frame.column.get(order.instrument.id, -1) for order in orders]
        if min(columns) < 0 or not frame.volume[tick, columns].all() or self._needless(orders[0]):
            return
        bars, taken = [frame.bar(tick, column) for column in columns], self._taken
        left = [capacity(bar, self._fills) - taken.get(column, 0) for bar, column in zip(bars, columns, strict=True)]
        if orders[0].spread_id:
            spread = self._engine.state.spreads[orders[0].spread_id]
            legs = [Leg(*leg) for leg in zip(orders, bars, left, strict=True)]
            fills = match_spread(legs, spread.net_limit_e4, spread.units, self._fills)
        else:
            fills = self._match_order(orders[0], bars[0], left[0], at_open=at_open)
        if fills is None:
            return
        executions = [Execution(*parts) for parts in zip(orders, fills, bars, strict=True)]
        first = dict(zip(frame.column, frame.open_e4[tick].tolist(), strict=True)) if at_open else frame.marks_at(tick + 1)
        marks = {name: mark for name, mark in first.items() if mark} | frame.marks_at(tick)  # of a first bar, what it has shown
        if execute(self._engine, executions, marks, self._start_ns, now_ns):
            for column, fill in zip(columns, fills, strict=True):
                taken[column] = taken.get(column, 0) + fill.qty
            sent = send_bracket(self._engine, executions[0], self._start_ns if at_open else now_ns, now_ns)
            self._sent += [(order, executions[0]) for order in sent]

    def _stop_out(self, order: Order, cause: Execution) -> None:
        """Fill the stop loss of what filled inside this bar where the bar reaches it: that may have been after the fill."""
        column = self._frame.column[order.instrument.id]
        since, left = replace(cause.bar, open_e4=cause.fill.price_e4), capacity(cause.bar, self._fills)
        matched = match(order, since, left - self._taken.get(column, 0), self._fills, at_open=False)
        if order.stop_e4 is None or not matched.triggered:
            return
        self._engine.emit(OrderTriggered(order.id), self._now_ns)
        if matched.fill is not None:
            marks = self._frame.marks_at(self._tick)
            executed = execute(self._engine, [Execution(order, matched.fill, cause.bar)], marks, self._start_ns, self._now_ns)
            self._taken[column] = self._taken.get(column, 0) + matched.fill.qty * executed

    def _match_order(self, order: Order, bar: Bar, left: int, *, at_open: bool) -> tuple[Fill, ...] | None:
        if order.id in self._triggered:
            return None
        matched = match(order, bar, min(left, self._most(order)), self._fills, at_open=at_open)
        if matched.triggered:
            self._engine.emit(OrderTriggered(order_id=order.id), self._now_ns)
            self._triggered.add(order.id)
        return None if matched.fill is None else (matched.fill,)

    def _most(self, order: Order) -> int:
        """Units that an order may fill, whatever its bar has; a forced one must open nothing."""
        held = self._engine.state.accounts[order.account_id].held(order.instrument.id)
        return max(0, held if order.side == "SELL" else -held) if order.forced else order.open_qty

    def _needless(self, order: Order) -> bool:
        """Take a forced order from the state when there is nothing left to close; whether it was."""
        needless = order.forced and not self._most(order)
        if needless:
            self._engine.emit(OrderCancelled(order.id, NOTHING_LEFT), self._now_ns)
        return needless


def expire_orders(engine: Engine, orders: Iterable[Order], now_ns: int) -> None:
    """Take orders whose time has come from the state."""
    for order in orders:
        if order.status in WORKING and order.expire_ns is not None and order.expire_ns <= now_ns:
            engine.emit(OrderExpired(order_id=order.id, reason=_EXPIRED[order.time_in_force]), now_ns)


def _plan(engine: Engine, frame: Frame, first: int) -> None:
    """Find out at which tick each working order can next act, where that is not known."""
    last_legs, previous = {order.spread_id or order.id: order for order in engine.state.working.values()}, engine.due
    engine.due = {key: previous[key] for key in last_legs if key in previous}
    for key, order in last_legs.items():
        if key not in previous:
            legs = engine.legs_of(order)
            engine.due[key] = next_tick_of_spread(legs, frame, first) if order.spread_id else next_tick(order, frame, first)


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
        engine.observer(engine.state, frame.marks_at(engine.done))
