"""Margin calls: when an account must be looked at, what a call brings, and closing what it does not meet."""

from __future__ import annotations

import numpy as np

from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.events import OrderAccepted, OrderCancelled, order_payload
from ktdeval_qfinzero.pmb.frames import NEVER, Frame
from ktdeval_qfinzero.pmb.holding_events import MarginCalled, MarginCallMet
from ktdeval_qfinzero.pmb.margin import MarginState, liquidation_plan, margin_state
from ktdeval_qfinzero.pmb.rules import Rules
from ktdeval_qfinzero.pmb.values import Account, Order, Session
from ktdeval_qfinzero.trading_hours import trading_hours

LIQUIDATION = "LIQUIDATION: an unmet margin call is liquidated"
NO_LONGER_NEEDED = "MARGIN_CALL_MET: the margin call is met"
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
    place = int(low.argmax()) if len(low) else 0
    return first + place if len(low) and low[place] else NEVER


def review(engine: Engine, session: Session, now_ns: int, at_close: bool) -> None:
    """Begin, end or enforce an account's margin call, at the marks after a tick."""
    account = engine.state.accounts[session.account_id]
    marks = engine.marks()
    state = margin_state(account, marks, session.rules)
    if not state.deficit_e4:
        if account.margin_call_due is not None:
            _met(engine, session, state, now_ns)
        return
    due = account.margin_call_due
    if due is None:
        due = trading_hours().day(engine.day_row + session.rules.margin.call_days)
        engine.journal.emit(now_ns, MarginCalled(*_figures(session, state), due.isoformat()))
    forced = any(order.forced for order in engine.state.working.values())
    if (
        due is not None
        and not forced
        and (engine.day > due or (engine.day == due and (at_close or not session.rules.margin.call_days)))
    ):
        _liquidate(engine, session, now_ns)


def closable(account: Account, order: Order) -> int:
    """Units that a forced order may still fill: what is held on the other side, for it must open nothing."""
    position = account.positions.get(order.instrument.id)
    held = 0 if position is None else position.qty
    return max(0, held if order.side == "SELL" else -held)


def _met(engine: Engine, session: Session, state: MarginState, now_ns: int) -> None:
    engine.journal.emit(now_ns, MarginCallMet(*_figures(session, state)))
    for order in [order for order in engine.state.working.values() if order.forced]:
        engine.journal.emit(now_ns, OrderCancelled(order_id=order.id, reason=NO_LONGER_NEEDED))


def _liquidate(engine: Engine, session: Session, now_ns: int) -> None:
    """Cancel the account's orders and send market orders that close what must be closed; they fill from the next bar on."""
    state = engine.state
    for order_id in tuple(state.working):
        engine.journal.emit(now_ns, OrderCancelled(order_id=order_id, reason=LIQUIDATION))
    for instrument, side, qty in liquidation_plan(state.accounts[session.account_id], engine.marks(), session.rules):
        number = len(state.orders) + 1
        order = Order(
            f"ord-{number:06d}",
            number,
            session.account_id,
            session.id,
            "",
            instrument,
            side,
            "MARKET",
            qty,
            "GTC",
            now_ns,
            forced=True,
        )
        engine.journal.emit(now_ns, OrderAccepted(order=order_payload(order), reserve_e4=0))


def _figures(session: Session, state: MarginState) -> tuple[str, str, int, int]:
    """What both events of a margin call begin with."""
    return session.account_id, session.id, state.equity_e4, state.maintenance_e4
