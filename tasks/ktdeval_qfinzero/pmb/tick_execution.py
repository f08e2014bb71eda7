"""Execution of a day's ticks: find the next tick at which an order can act, fill orders, and start,
end and enforce margin calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.pmb.bar_feed import NEVER, DayFrame
from ktdeval_qfinzero.pmb.broker_types import (
    WORKING,
    Account,
    Bar,
    Fill,
    Order,
    OrderType,
    Rules,
    Session,
    Side,
    TimeInForce,
)
from ktdeval_qfinzero.pmb.engine_state import Engine
from ktdeval_qfinzero.pmb.holding_events import MarginCalled, MarginCallMet
from ktdeval_qfinzero.pmb.lifecycle_rules import settlement_day
from ktdeval_qfinzero.pmb.margin import (
    MarginState,
    TradeCircumstances,
    TradeProblem,
    WantedTrade,
    liquidation_plan,
    margin_state,
    order_problem,
)
from ktdeval_qfinzero.pmb.matching import SpreadLeg, capacity, match, match_spread
from ktdeval_qfinzero.pmb.placement import OrderSpec, new_order
from ktdeval_qfinzero.pmb.state_events import (
    OrderAccepted,
    OrderCancelled,
    OrderExpired,
    OrderTriggered,
    Traded,
    order_payload,
)

LIQUIDATION = "LIQUIDATION: an unmet margin call is liquidated"
NO_LONGER_NEEDED = "MARGIN_CALL_MET: the margin call is met"
ONE_CANCELS_OTHER = "ONE_CANCELS_OTHER: another order of its group filled"
NOTHING_LEFT = "NOTHING_LEFT: what the order was to close is gone"
CUSHION_NIGHTS = 30
"""Number of nights whose charges a liquidation leaves equity to cover; otherwise the charges at the
next close would cause the next call.
"""


def next_look(account: Account, rules: Rules, frame: DayFrame, first: int) -> int:
    """Return the first tick, from `first` onwards, after which a margin call may begin or end;
    `NEVER` if no tick of this day qualifies.

    An upper bound on the maintenance requirement is used, so that no call is missed; `review`
    computes the exact requirement.
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
    percent_of_short = -values * rules.margin.short_maintenance_pct // 100
    short = np.maximum(percent_of_short, -qty * rules.margin.short_minimum_e4)
    long = values * rules.margin.long_maintenance_pct // 100
    # One more, since the division rounds down.
    needed = np.where(qty > 0, long, short) + 1
    is_low = account.cash_e4 + (values - needed).sum(axis=1) < 0

    return _first(is_low, first)


def review(engine: Engine, session: Session, now_ns: int, at_close: bool) -> None:
    """Begin, end or enforce an account's margin call, at the marks after a tick."""
    account = engine.state.accounts[session.account_id]
    marks = engine.marks()
    state = margin_state(account, marks, session.rules)

    if not state.deficit_e4:
        if account.margin_call_due is not None:
            engine.emit(MarginCallMet(*_margin_call_fields(session, state)), now_ns)
            for order in tuple(engine.state.working.values()):
                if order.forced:
                    engine.emit(OrderCancelled(order.id, NO_LONGER_NEEDED), now_ns)

        return

    due = account.margin_call_due
    if due is None:
        due = engine.hours.day(engine.day_row + session.rules.margin.call_days)
        engine.emit(MarginCalled(*_margin_call_fields(session, state), due.isoformat()), now_ns)

    ends_today = at_close or not session.rules.margin.call_days
    is_due = engine.day > due or (engine.day == due and ends_today)
    is_enforced = any(order.forced for order in engine.state.working.values())
    if is_due and not is_enforced:
        _liquidate(engine, session, now_ns)


def _liquidate(engine: Engine, session: Session, now_ns: int) -> None:
    """Cancel the account's orders, and send market orders that meet the margin call and leave a
    cushion for charges. These orders fill from the next bar onwards.
    """
    state = engine.state
    for order_id in tuple(state.working):
        engine.emit(OrderCancelled(order_id=order_id, reason=LIQUIDATION), now_ns)

    account = state.accounts[session.account_id]
    cushion_e4 = engine.charges(account, CUSHION_NIGHTS).total_e4
    plan = liquidation_plan(account, engine.marks(), session.rules, cushion_e4)
    for instrument, side, qty in plan:
        spec = OrderSpec(instrument, side, "MARKET", qty, time_in_force="GTC")
        order = new_order(engine, session, spec, accepted_ns=now_ns, forced=True)
        engine.emit(OrderAccepted(order_payload(order), reserve_e4=0), now_ns)


def _margin_call_fields(session: Session, state: MarginState) -> tuple[str, str, int, int]:
    """Return the fields that events about a margin call begin with."""
    return session.account_id, session.id, state.equity_e4, state.maintenance_e4


def next_tick(orders: Sequence[Order], frame: DayFrame, first: int) -> int:
    """Return the first tick, from `first` onwards, at which an order may trigger, fill or expire,
    or at which all legs of a spread have a bar; `NEVER` if no tick of this day qualifies.
    """
    order = orders[0]
    expiry = NEVER
    if order.expire_ns is not None:
        # If the time lies after the last tick, this is the number of ticks, which no tick reaches.
        expiry = int(np.searchsorted(frame.tick_ns, order.expire_ns))

    columns = [frame.column.get(leg.instrument.id, -1) for leg in orders]
    if min(columns) < 0:
        return expiry

    first = max(first, int(np.searchsorted(frame.start_ns, order.accepted_ns)))
    can_act = np.all(frame.volume[first:, columns] > 0, axis=1)
    reached = _find_reached(order, frame, first, columns[0])
    if reached is not None:
        can_act &= reached

    return min(_first(can_act, first), expiry)


def _find_reached(
    order: Order, frame: DayFrame, first: int, column: int
) -> npt.NDArray[np.bool_] | None:
    """Return [n] whether each tick reaches the order's price; None if the order waits for
    no price.
    """
    waits_for_stop = order.stop_e4 is not None and not order.triggered
    price = order.limit_e4
    if waits_for_stop:
        price = order.stop_e4
    if price is None:
        return None

    # A stop to buy and a limit to sell wait for a price at or above their own.
    upwards = (order.side == "BUY") == waits_for_stop
    if upwards:
        return frame.high_e4[first:, column] >= price

    return frame.low_e4[first:, column] <= price


def _first(hits: npt.NDArray[np.bool_], first: int) -> int:
    """Return the tick of the first hit, if the first element is tick `first`; `NEVER` if it is
    missing.
    """
    if not hits.any():
        return NEVER
    return first + int(hits.argmax())


@dataclass(frozen=True, slots=True)
class PendingExecution:
    """A fill of an order that is not recorded yet, and the bar that its price comes from."""

    order: Order
    fill: Fill
    bar: Bar


def execute(
    engine: Engine,
    executions: Sequence[PendingExecution],
    marks: Mapping[str, int],
    known_ns: int,
    now_ns: int,
) -> bool:
    """Fill an order or all legs of a spread, or cancel it if the account can no longer carry it.
    Return whether it was filled.

    `executions`: one for each leg; `marks`: the marks before the tick; `known_ns`: start of the
    bar, which determines the shares that can be borrowed.
    """
    problem: TradeProblem | None = None
    if not executions[0].order.forced:
        problem = _fills_problem(engine, executions, marks, known_ns)

    if problem is not None:
        reason = f"{problem.code}: {problem.words}"
        for execution in executions:
            engine.emit(OrderCancelled(execution.order.id, reason), now_ns)

        return False

    settles = settlement_day(engine.hours, engine.day).isoformat()
    for execution in executions:
        order = execution.order
        fill = execution.fill
        bar = execution.bar
        fees = engine.state.sessions[order.session_id].rules.fees
        fee_e4 = fees.trade_e4(order.instrument, fill.qty)
        bar_values = [bar.open_e4, bar.high_e4, bar.low_e4, bar.close_e4, bar.volume]
        trade_id = f"trd-{len(engine.state.trades) + 1:06d}"
        traded = Traded(trade_id, order.id, fill.qty, fill.price_e4, fee_e4, settles, bar_values)
        engine.emit(traded, now_ns)
        if order.group in engine.state.groups:
            _cancel_filled_by_others(engine, order, now_ns)

    return True


def _cancel_filled_by_others(engine: Engine, order: Order, now_ns: int) -> None:
    """Cancel the orders of a group that have no open units left after a fill of another order."""
    for other in order.others(engine.state.working.values()):
        if not other.open_qty:
            engine.emit(OrderCancelled(other.id, ONE_CANCELS_OTHER), now_ns)


def send_bracket(
    engine: Engine, execution: PendingExecution, accepted_ns: int, now_ns: int
) -> list[Order]:
    """Send the orders of a bracket for the units of a fill. The two orders cancel each other, and
    expire when their parent does.
    """
    parent = execution.order
    session = engine.state.sessions[parent.session_id]
    side: Side = "SELL" if parent.side == "BUY" else "BUY"
    terms: list[tuple[OrderType, int | None, int | None]] = []
    if parent.take_profit_e4 is not None:
        terms.append(("LIMIT", parent.take_profit_e4, None))
    if parent.stop_loss_e4 is not None:
        terms.append(("STOP", None, parent.stop_loss_e4))

    sent: list[Order] = []
    for order_type, limit_e4, stop_e4 in terms:
        spec = OrderSpec(
            instrument=parent.instrument,
            side=side,
            order_type=order_type,
            qty=execution.fill.qty,
            limit_e4=limit_e4,
            stop_e4=stop_e4,
            time_in_force=parent.time_in_force,
        )
        order = new_order(
            engine,
            session,
            spec,
            accepted_ns=accepted_ns,
            expire_ns=parent.expire_ns,
            parent_id=parent.id,
            oco_id=sent[0].id if sent else "",
        )
        engine.emit(OrderAccepted(order_payload(order), reserve_e4=0), now_ns)
        sent.append(engine.state.orders[order.id])

    return sent


def _fills_problem(
    engine: Engine, executions: Sequence[PendingExecution], marks: Mapping[str, int], known_ns: int
) -> TradeProblem | None:
    """Return why the account can't carry the fills; None if it can."""
    order = executions[0].order
    session = engine.state.sessions[order.session_id]
    at_fills = dict(marks)
    trades: list[WantedTrade] = []
    sold: list[str] = []
    for execution in executions:
        instrument = execution.order.instrument
        side = execution.order.side
        fill = execution.fill
        fee_e4 = session.rules.fees.trade_e4(instrument, fill.qty)
        trades.append(WantedTrade(instrument, side, fill.qty, fill.price_e4, fee_e4))
        at_fills[instrument.id] = fill.price_e4
        if side == "SELL" and instrument.kind == "STOCK":
            sold.append(instrument.symbol)

    account = engine.state.accounts[order.account_id]
    circumstances = TradeCircumstances(engine.day, engine.borrowable(account, sold, known_ns))

    return order_problem(account, trades, at_fills, session.rules, circumstances)


_EXPIRED: Mapping[TimeInForce, str] = {
    "DAY": "DAY_OVER: the order was for one trading day",
    "GTD": "EXPIRE_TS: its time has come",
}


def run_ticks(engine: Engine, session: Session, frame: DayFrame, until_ns: int) -> None:
    """Run the frame's ticks up to a point in time; `clock_advance` handles the close itself. Ticks
    at which no order can act and no margin call begins or ends are skipped.
    """
    stop = int(np.searchsorted(frame.tick_ns, min(until_ns, session.end_ns), side="right"))
    account = engine.state.accounts[session.account_id]
    rules = session.rules
    look = NEVER
    if engine.done < stop:
        look = next_look(account, rules, frame, engine.done)

    _plan(engine, frame, engine.done)

    while True:
        next_due = min(engine.due.values(), default=NEVER)
        tick = min(next_due, look, stop)
        engine.done = tick
        if tick == stop:
            break

        before = len(engine.state.trades)
        _FrameTick(engine, session, frame, tick).run()
        engine.done = tick + 1

        if len(engine.state.trades) > before:
            look = next_look(account, rules, frame, tick)

        if look == tick:
            if tick + 1 < len(frame.tick_ns):
                review(engine, session, int(frame.tick_ns[tick]), at_close=False)

            look = next_look(account, rules, frame, tick + 1)

        _plan(engine, frame, tick + 1)


class _FrameTick:
    """One tick, by its index in the frame. Orders act first at the open of the tick's bars, then
    inside the bars.
    """

    def __init__(self, engine: Engine, session: Session, frame: DayFrame, tick: int) -> None:
        self._engine = engine
        self._frame = frame
        self._tick = tick
        self._fills = session.rules.fills
        self._start_ns = int(frame.start_ns[tick])
        self._now_ns = int(frame.tick_ns[tick])
        #: bracket orders, each with the fill that sent it
        self._sent: list[tuple[Order, PendingExecution]] = []
        self._taken: dict[int, int] = {}  #: column -> units of its bar that fills have used
        self._triggered: set[str] = set()  #: ids of orders whose stop was reached on these bars

    def run(self) -> None:
        """Match the due orders, then expire orders whose time is over."""
        for orders in self._due():
            if self._may_match(orders):
                self._match(orders, at_open=True)

        # Bracket orders that were sent at the open may act inside the same bar.
        if self._sent:
            _plan(self._engine, self._frame, self._tick)

        due = self._due()
        self._sent = []
        for orders in sorted(due, key=self._benefit):
            if self._may_match(orders) and not orders[0].spread_id:
                self._match(orders, at_open=False)

        for order, cause in self._sent:
            self._stop_out(order, cause)

        for orders in due:
            expire_orders(self._engine, orders, self._now_ns)
            del self._engine.due[orders[0].spread_id or orders[0].id]

    def _due(self) -> list[Sequence[Order]]:
        """Return the orders that can act at this tick in time priority, with the legs of a spread
        together.
        """
        engine = self._engine
        due: dict[str, Sequence[Order]] = {}
        for order in engine.state.working.values():
            key = order.spread_id or order.id
            if engine.due.get(key, NEVER) <= self._tick:
                due[key] = engine.legs_of(order)

        return list(due.values())

    def _may_match(self, orders: Sequence[Order]) -> bool:
        """Return whether the orders are working, were accepted before the bar began, and have not
        expired.
        """
        order = orders[0]
        if order.status not in WORKING or order.accepted_ns > self._start_ns:
            return False
        return order.expire_ns is None or order.expire_ns >= self._now_ns

    def _benefit(self, orders: Sequence[Order]) -> int:
        """Return how much better than the open an order fills inside its bar, in millionths of the
        open. A price moves away from the open step by step, so it reaches the worst fill first.
        """
        order = orders[0]
        column = self._frame.column.get(orders[0].instrument.id)
        if column is None:
            return 0

        bar = self._frame.bar(self._tick, column)
        if not bar.volume:
            return 0

        fill = match(order, bar, order.open_qty, self._fills, at_open=False).fill
        if fill is None:
            return 0

        better_e4 = bar.open_e4 - fill.price_e4
        if order.side == "SELL":
            better_e4 = -better_e4
        return better_e4 * 1_000_000 // bar.open_e4

    def _match(self, orders: Sequence[Order], *, at_open: bool) -> None:
        """Fill an order, or all legs of a spread, as far as the bars allow."""
        frame = self._frame
        tick = self._tick
        now_ns = self._now_ns
        columns = [frame.column.get(order.instrument.id, -1) for order in orders]
        if min(columns) < 0 or not frame.volume[tick, columns].all() or self._needless(orders[0]):
            return

        bars = [frame.bar(tick, column) for column in columns]
        left: list[int] = []
        for bar, column in zip(bars, columns, strict=True):
            left.append(self._count_units_left(bar, column))

        if orders[0].spread_id:
            spread = self._engine.state.spreads[orders[0].spread_id]
            legs = [SpreadLeg(*leg) for leg in zip(orders, bars, left, strict=True)]
            fills = match_spread(legs, spread.net_limit_e4, spread.units, self._fills)
        else:
            fills = self._match_order(orders[0], bars[0], left[0], at_open=at_open)

        if fills is None:
            return

        executions = [PendingExecution(*parts) for parts in zip(orders, fills, bars, strict=True)]
        marks = self._known_marks(at_open=at_open)
        if not execute(self._engine, executions, marks, self._start_ns, now_ns):
            return

        for column, fill in zip(columns, fills, strict=True):
            self._take(column, fill.qty)

        accepted_ns = now_ns
        if at_open:
            accepted_ns = self._start_ns
        for order in send_bracket(self._engine, executions[0], accepted_ns, now_ns):
            self._sent.append((order, executions[0]))

    def _known_marks(self, *, at_open: bool) -> dict[str, int]:
        """Return the marks before the tick. An instrument without a mark takes one from its first
        bar: the open at the open, the close inside the bar.
        """
        frame = self._frame
        if at_open:
            first = dict(zip(frame.column, frame.open_e4[self._tick].tolist(), strict=True))
        else:
            first = frame.marks_at(self._tick + 1)

        shown = {name: mark for name, mark in first.items() if mark}
        return shown | frame.marks_at(self._tick)

    def _count_units_left(self, bar: Bar, column: int) -> int:
        """Return the units of a bar that fills may still use."""
        return capacity(bar, self._fills) - self._taken.get(column, 0)

    def _take(self, column: int, qty: int) -> None:
        self._taken[column] = self._taken.get(column, 0) + qty

    def _stop_out(self, order: Order, cause: PendingExecution) -> None:
        """Fill a stop-loss order that was sent by a fill inside this bar, if the bar reaches the
        stop. Whether the fill or the stop came first is unknown; the worse case, fill first, is
        assumed.
        """
        column = self._frame.column[order.instrument.id]
        since = replace(cause.bar, open_e4=cause.fill.price_e4)
        left = self._count_units_left(cause.bar, column)
        matched = match(order, since, left, self._fills, at_open=False)
        if order.stop_e4 is None or not matched.triggered:
            return

        self._engine.emit(OrderTriggered(order.id), self._now_ns)
        if matched.fill is None:
            return

        execution = PendingExecution(order, matched.fill, cause.bar)
        marks = self._frame.marks_at(self._tick)
        if execute(self._engine, [execution], marks, self._start_ns, self._now_ns):
            self._take(column, matched.fill.qty)

    def _match_order(
        self, order: Order, bar: Bar, left: int, *, at_open: bool
    ) -> tuple[Fill, ...] | None:
        """Return an order's fill on a bar, and record whether its stop is reached."""
        if order.id in self._triggered:
            return None

        matched = match(order, bar, min(left, self._most(order)), self._fills, at_open=at_open)
        if matched.triggered:
            self._engine.emit(OrderTriggered(order_id=order.id), self._now_ns)
            self._triggered.add(order.id)

        if matched.fill is None:
            return None
        return (matched.fill,)

    def _most(self, order: Order) -> int:
        """Return the maximum number of units that an order may fill. Forced orders only close
        positions.
        """
        if not order.forced:
            return order.open_qty

        held = self._engine.state.accounts[order.account_id].count_units(order.instrument.id)
        closable = held if order.side == "SELL" else -held
        return max(0, closable)

    def _needless(self, order: Order) -> bool:
        """Cancel a forced order if its position is already closed, and return whether it was
        cancelled.
        """
        if not order.forced or self._most(order):
            return False

        self._engine.emit(OrderCancelled(order.id, NOTHING_LEFT), self._now_ns)
        return True


def expire_orders(engine: Engine, orders: Iterable[Order], now_ns: int) -> None:
    """Expire working orders whose time is up."""
    for order in orders:
        is_over = order.expire_ns is not None and order.expire_ns <= now_ns
        if is_over and order.status in WORKING:
            reason = _EXPIRED[order.time_in_force]
            engine.emit(OrderExpired(order_id=order.id, reason=reason), now_ns)


def _plan(engine: Engine, frame: DayFrame, first: int) -> None:
    """Find the next tick for each working order that lacks one, and drop the ticks of orders that
    no longer work.
    """
    due: dict[str, int] = {}
    for order in engine.state.working.values():
        key = order.spread_id or order.id
        if key in engine.due:
            due[key] = engine.due[key]
        elif key not in due:
            due[key] = next_tick(engine.legs_of(order), frame, first)

    engine.due = due
