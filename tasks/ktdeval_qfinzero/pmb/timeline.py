"""Letting time pass: opens, ticks and closes in order, and what days bring to accounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktdeval_qfinzero.pmb import day_events as days
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.events import ClockMoved, OrderCancelled, OrderExpired, SessionFinished, SessionStopped
from ktdeval_qfinzero.pmb.frames import require_reach, tick_at, ticks_by
from ktdeval_qfinzero.pmb.holding_events import BorrowFeeCharged, DayClosed, InterestCharged
from ktdeval_qfinzero.pmb.margin import equity_e4, margin_state
from ktdeval_qfinzero.pmb.ticks import expire_orders, review, run_ticks
from ktdeval_qfinzero.pmb.values import Account, Instrument, Session
from ktdeval_qfinzero.trading_hours import TradingHours

CONTRACT_EXPIRED = "CONTRACT_EXPIRED: the option has expired"
SESSION_OVER = "SESSION_OVER: the session has ended"
DELISTED = "DELISTED: the stock trades no more"
SPLIT = "SPLIT: the order's terms were about units from before the split"


def open_day(engine: Engine) -> None:
    """Open of the engine's day: splits and dividends, then ends of stocks, then the day's frame where a session runs."""
    engine.now_ns = int(engine.hours.open_ns[engine.day_row])
    marks = _marks_at_open(engine)
    tickers = dict.fromkeys(instrument.underlying for instrument in engine.instruments())
    for ticker in tickers:
        marks = _split(engine, ticker, marks)
        for dividend in engine.reference.dividends_on(ticker, engine.day, engine.now_ns):
            for account in engine.state.accounts.values():
                if (due := days.entitlement(account, dividend)) is not None:
                    engine.emit(due)
    for ticker in tickers:
        _end(engine, ticker, marks)
    engine.opened = True
    engine.load_frame(marks)


def close_day(engine: Engine) -> None:
    """Close of the engine's day, after its last tick."""
    engine.now_ns = int(engine.hours.close_ns[engine.day_row])
    holders = {account.id for account in engine.state.accounts.values() if any(held.qty for held in account.positions.values())}
    for account in engine.state.accounts.values():
        if account.id in holders:
            _expire_options(engine, account)
            _assign_early(engine, account)
        _finance(engine, account)
    session = engine.session
    if session is not None:
        review(engine, session, engine.now_ns, at_close=True)
    for account in engine.state.accounts.values():
        own = session is not None and session.account_id == account.id
        if own or account.id in holders or account.unsettled:
            _record_close(engine, account, session if own else None)


def _marks_at_open(engine: Engine) -> dict[str, int]:
    """Last marks: of stocks as the day's corporate actions leave them, of options from before the open."""
    if engine.frame is None:
        return _visible_at_open(engine, engine.instruments())
    carried = engine.frame.marks_at(engine.done)
    for name, mark in carried.items():
        kind, _, symbol = name.partition(":")
        carried[name] = engine.reference.ex_price(symbol, mark, engine.day) if kind == "STOCK" else mark
    missing = [instrument for instrument in engine.held() if instrument.id not in carried]
    return carried | _visible_at_open(engine, missing)


def _visible_at_open(engine: Engine, instruments: Sequence[Instrument]) -> dict[str, int]:
    options = [instrument for instrument in instruments if instrument.kind == "OPTION"]
    stocks = [instrument for instrument in instruments if instrument.kind == "STOCK"]
    return engine.visible_marks(stocks, engine.now_ns) | engine.visible_marks(options, engine.now_ns - 1)


def _split(engine: Engine, ticker: str, marks: dict[str, int]) -> dict[str, int]:
    """Splits of a stock: its orders, and what is held of it. Gives the marks as they leave them."""
    for split in engine.reference.splits_on(ticker, engine.day):
        _cancel_about(engine, ticker, SPLIT)
        for account in engine.state.accounts.values():
            for effect in days.split_effects(account, split, marks):
                engine.emit(effect)
        marks = days.marks_after_split(marks, split)
    return marks


def _cancel_about(engine: Engine, ticker: str, reason: str) -> None:
    """Cancel all working orders in a stock or its options: after a split or its end their terms are of old units."""
    for order in tuple(engine.state.working.values()):
        if order.instrument.underlying == ticker:
            engine.emit(OrderCancelled(order.id, reason))


def _end(engine: Engine, ticker: str, marks: dict[str, int], before: tuple[str, ...] = ()) -> None:
    """End of a stock that trades no more: its orders are cancelled, and what is held of it and its options is closed; likewise of
    what it becomes, where that has ended too. `before`: stocks that became it at this open.
    """
    if ticker in before or (deal := engine.reference.deal_on(ticker, engine.day, engine.now_ns)) is None:
        return
    _cancel_about(engine, ticker, DELISTED)
    if deal.into and f"STOCK:{deal.into}" not in marks:
        marks |= engine.visible_marks([Instrument("STOCK", deal.into)], engine.now_ns)
    for account in engine.state.accounts.values():
        for effect in days.deal_effects(account, deal, marks):
            engine.emit(effect)
    if deal.into:
        _end(engine, deal.into, marks, (*before, ticker))


def _expire_options(engine: Engine, account: Account) -> None:
    """Settle what expires at this close, and what could not be settled before for want of a price."""
    fees, settles = engine.rules_of(account).fees, days.settlement_day(engine.hours, engine.day).isoformat()
    for _, position in sorted(account.positions.items()):
        if (
            position.instrument.kind == "STOCK"
            or not position.qty
            or days.settlement_session(engine.hours, position.instrument) > engine.day
        ):
            continue
        spot = engine.reference.visible_mark(Instrument("STOCK", position.instrument.underlying), engine.now_ns)
        kept = (account.id, position.instrument.symbol) in engine.state.kept
        if (event := days.expiry_event(days.Ending(account.id, position, spot, fees, settles), do_not_exercise=kept)) is not None:
            engine.emit(event)


def _expire_orders_of_contracts(engine: Engine, now_ns: int) -> None:
    """Take orders for contracts that expire at this close from the state."""
    for order in tuple(engine.state.working.values()):
        is_option = order.id in engine.state.working and order.instrument.kind == "OPTION"
        if is_option and days.settlement_session(engine.hours, order.instrument) <= engine.day:
            for leg in engine.legs_of(order):
                engine.emit(OrderExpired(leg.id, CONTRACT_EXPIRED), now_ns)


def _assign_early(engine: Engine, account: Account) -> None:
    """Assign short calls whose holders exercise for tomorrow's dividend."""
    tomorrow = days.settlement_day(engine.hours, engine.day)
    dividends = {
        ticker: amount
        for ticker in {position.instrument.underlying for position in account.positions.values() if position.qty < 0}
        if (amount := sum(row.amount_e4 for row in engine.reference.dividends_on(ticker, tomorrow, engine.now_ns)))
    }
    if dividends:
        fees, marks = engine.rules_of(account).fees, engine.marks()
        for instrument in days.early_assignments(account.positions, marks, dividends):
            position, spot = account.positions[instrument.id], marks.get(f"STOCK:{instrument.underlying}")
            engine.emit(days.delivery_event(days.Ending(account.id, position, spot, fees, tomorrow.isoformat()), -position.qty))


def _finance(engine: Engine, account: Account) -> None:
    """Charge what is borrowed at this close for the nights until the next trading day."""
    shorts = [held.instrument.symbol for held in account.positions.values() if held.qty < 0 and held.instrument.kind == "STOCK"]
    if account.cash_e4 >= 0 and not shorts:
        return
    nights = (days.settlement_day(engine.hours, engine.day) - engine.day).days
    bps = {ticker: row.fee_bps_per_year for ticker, row in engine.reference.lent(shorts, engine.now_ns).items()}
    interest_e4, fees = days.daily_charges(account, engine.marks(), engine.rules_of(account), bps, nights)
    if interest_e4:
        engine.emit(InterestCharged(account_id=account.id, days=nights, cash_e4=-interest_e4))
    for ticker, fee_e4 in fees.items():
        stock = f"STOCK:{ticker}"
        terms: Any = {"instrument": stock, "qty": account.positions[stock].qty, "fee_bps": bps[ticker], "days": nights}
        engine.emit(BorrowFeeCharged(account_id=account.id, cash_e4=-fee_e4, **terms))


def _record_close(engine: Engine, account: Account, session: Session | None) -> None:
    marks = engine.marks()
    state = margin_state(account, marks, engine.rules_of(account))
    values = [position.value_e4(marks[name]) for name, position in account.positions.items() if position.qty]
    engine.emit(
        DayClosed(
            account_id=account.id,
            session_id="" if session is None else session.id,
            day=engine.day.isoformat(),
            next_day=days.settlement_day(engine.hours, engine.day).isoformat(),
            cash_e4=account.cash_e4,
            equity_e4=state.equity_e4,
            long_value_e4=sum(value for value in values if value > 0),
            short_value_e4=-sum(value for value in values if value < 0),
            maintenance_e4=state.maintenance_e4,
        )
    )


def advance(engine: Engine, to_ns: int) -> None:
    """Let everything happen that happens up to a moment; the running session ends after its last tick.
    Raises ServiceError `invalid_argument`: the calendar does not reach far enough beyond the moment.
    """
    require_reach(engine.hours, to_ns, "clock")
    hours = engine.hours
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
            _expire_orders_of_contracts(engine, close_ns)
        close_day(engine)
        engine.day_row += 1
        engine.opened = False
        _finish(engine, close_ns)
    engine.now_ns = to_ns
    expire_orders(engine, tuple(engine.state.working.values()), to_ns)
    if to_ns > engine.state.now_ns:
        engine.emit(ClockMoved())


def last_tick(hours: TradingHours, session: Session) -> int:
    """Session's last tick."""
    return tick_at(hours, ticks_by(hours, session.end_ns, session.frequency), session.frequency)


def end_session(engine: Engine, session: Session, now_ns: int, *, stopped: bool) -> None:
    """End a session: its orders expire, and its equity is written down."""
    for order_id in tuple(engine.state.working):
        engine.emit(OrderExpired(order_id, SESSION_OVER), now_ns)
    equity = equity_e4(engine.state.accounts[session.account_id], engine.marks())
    engine.emit((SessionStopped if stopped else SessionFinished)(session.id, equity), now_ns)
    engine.feed = None


def _run_session(engine: Engine, to_ns: int) -> None:
    if (session := engine.session) is not None and (frame := engine.frame) is not None:
        run_ticks(engine, session, frame, to_ns)
        if last_tick(engine.hours, session) < int(frame.tick_ns[-1]):
            _finish(engine, to_ns)


def _finish(engine: Engine, now_ns: int) -> None:
    if (session := engine.session) is not None and now_ns >= last_tick(engine.hours, session):
        end_session(engine, session, last_tick(engine.hours, session), stopped=False)
        engine.frame = engine.frame if now_ns == last_tick(engine.hours, session) else None


def _nothing_to_do(engine: Engine) -> bool:
    """Whether days can pass without changing anything: no session runs, and no account holds or owes anything."""
    return engine.session is None and not any(
        account.cash_e4 < 0 or account.unsettled or any(position.qty for position in account.positions.values())
        for account in engine.state.accounts.values()
    )
