"""Letting time pass: opens, ticks and closes in order, with a session or without one."""

from __future__ import annotations

from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.lifecycle import close_day, expire_orders_of_contracts, open_day
from ktdeval_qfinzero.pmb.margin import equity_e4
from ktdeval_qfinzero.pmb.records import Session
from ktdeval_qfinzero.pmb.schedule import require_reach, tick_at, ticks_by
from ktdeval_qfinzero.pmb.ticks import expire_orders, run_ticks
from ktdeval_qfinzero.trading_hours import trading_hours

SESSION_OVER = "SESSION_OVER: the session has ended"


def advance(engine: Engine, to_ns: int) -> None:
    """Let everything happen that happens up to a moment; the running session ends after its last tick.

    Raises:
        ServiceError: `invalid_argument`: the calendar does not reach far enough beyond the moment.
    """
    require_reach(to_ns, "clock")
    hours = trading_hours()
    if engine.session is None:
        engine.frame = None
    if _nothing_to_do(engine):
        engine.place_in_calendar(to_ns)
    while True:
        if not engine.opened:
            if int(hours.open_ns[engine.day_row]) > to_ns:
                break
            open_day(engine)
        _run_session(engine, to_ns)
        close_ns = int(hours.close_ns[engine.day_row])
        if close_ns > to_ns:
            break
        if engine.session is not None:
            expire_orders_of_contracts(engine, close_ns)
        close_day(engine)
        engine.day_row += 1
        engine.opened = False
        _finish(engine, close_ns)
    engine.now_ns = to_ns
    expire_orders(engine, tuple(engine.book.working.values()), to_ns)
    if to_ns > engine.book.now_ns:
        engine.journal.emit(to_ns, "CLOCK_MOVED")


def last_tick(session: Session) -> int:
    """The session's last tick."""
    return tick_at(ticks_by(session.end_ns, session.frequency), session.frequency)


def end_session(engine: Engine, session: Session, now_ns: int, *, stopped: bool) -> None:
    """End a session: its orders expire, and its equity is written down."""
    for order_id in tuple(engine.book.working):
        engine.journal.emit(now_ns, "ORDER_EXPIRED", order_id=order_id, reason=SESSION_OVER)
    equity = equity_e4(engine.book.accounts[session.account_id], engine.marks())
    engine.journal.emit(now_ns, "SESSION_STOPPED" if stopped else "SESSION_FINISHED", session_id=session.id, equity_e4=equity)
    engine.feed = None


def _run_session(engine: Engine, to_ns: int) -> None:
    session, frame = engine.session, engine.frame
    if session is None or frame is None:
        return
    run_ticks(engine, session, frame, to_ns)
    close_ns = int(frame.tick_ns[-1])
    if last_tick(session) < close_ns:
        _finish(engine, to_ns)


def _finish(engine: Engine, now_ns: int) -> None:
    session = engine.session
    if session is not None and now_ns >= last_tick(session):
        end_session(engine, session, last_tick(session), stopped=False)
        engine.frame = engine.frame if now_ns == last_tick(session) else None


def _nothing_to_do(engine: Engine) -> bool:
    """Whether days can pass without changing anything: no session runs, and no account holds or owes anything."""
    return engine.session is None and not any(
        account.cash_e4 < 0 or account.unsettled or any(position.qty for position in account.positions.values())
        for account in engine.book.accounts.values()
    )
