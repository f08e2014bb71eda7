"""Advance the broker's clock: opens, ticks and closes in order, with their effects on accounts."""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval_qfinzero.pmb import lifecycle_rules as days
from ktdeval_qfinzero.pmb.bar_feed import require_reach, tick_at, ticks_by
from ktdeval_qfinzero.pmb.broker_types import Account, Instrument, Session
from ktdeval_qfinzero.pmb.engine_state import Engine
from ktdeval_qfinzero.pmb.holding_events import BorrowFeeCharged, InterestCharged
from ktdeval_qfinzero.pmb.margin import equity_e4, margin_state
from ktdeval_qfinzero.pmb.state_events import (
    ClockMoved,
    DayClosed,
    OrderCancelled,
    OrderExpired,
    SessionFinished,
    SessionStopped,
)
from ktdeval_qfinzero.pmb.tick_execution import expire_orders, review, run_ticks
from ktdeval_qfinzero.trading_hours import TradingHours

CONTRACT_EXPIRED = "CONTRACT_EXPIRED: the option has expired"
SESSION_OVER = "SESSION_OVER: the session has ended"
DELISTED = "DELISTED: the stock trades no more"
SPLIT = "SPLIT: the order's terms were about units from before the split"


def open_day(engine: Engine) -> None:
    """Open the engine's day. Splits and dividends come first, then delistings, and then the day's
    prices if a session is running.
    """
    engine.now_ns = int(engine.hours.open_ns[engine.day_row])
    marks = _marks_at_open(engine)
    # A dictionary keeps the order of the instruments, in which events are recorded.
    tickers = dict.fromkeys(instrument.underlying for instrument in engine.instruments())

    for ticker in tickers:
        marks = _apply_splits(engine, ticker, marks)
        _entitle(engine, ticker)

    # After all splits and dividends, since a merger may turn a stock into shares of another.
    for ticker in tickers:
        _end_delisted(engine, ticker, marks)

    engine.opened = True
    engine.load_frame(marks)


def _entitle(engine: Engine, ticker: str) -> None:
    """Record the dividends on a stock to which accounts are entitled."""
    for dividend in engine.reference.dividends_on(ticker, engine.day, engine.now_ns):
        for account in engine.state.accounts.values():
            # Booked at the open of the ex-day, when the price drops by the dividend, so equity does
            # not jump.
            due = days.entitlement(account, dividend)
            if due is not None:
                engine.emit(due)


def close_day(engine: Engine) -> None:
    """Close the engine's day, after its last tick."""
    engine.now_ns = int(engine.hours.close_ns[engine.day_row])
    # Accounts as of before option expiry, since an account that expiry leaves empty still records
    # this close.
    holders: set[str] = set()
    for account in engine.state.accounts.values():
        if _holds(account):
            holders.add(account.id)

    for account in engine.state.accounts.values():
        if account.id in holders:
            _expire_options(engine, account)
            _assign_early(engine, account)

        _finance(engine, account)

    session = engine.session
    if session is not None:
        review(engine, session, engine.now_ns, at_close=True)

    for account in engine.state.accounts.values():
        if session is not None and session.account_id == account.id:
            _record_close(engine, account, session)
        elif account.id in holders or account.unsettled:
            _record_close(engine, account, None)


def _holds(account: Account) -> bool:
    return any(position.qty for position in account.positions.values())


def _marks_at_open(engine: Engine) -> dict[str, int]:
    """Return the last marks: for stocks after the day's corporate actions, for options from before
    the open.
    """
    if engine.frame is None:
        return _visible_at_open(engine, engine.instruments())

    carried = engine.frame.marks_at(engine.done)
    for name, mark in carried.items():
        kind, _, symbol = name.partition(":")
        if kind == "STOCK":
            carried[name] = engine.reference.ex_price(symbol, mark, engine.day)

    missing = [
        instrument for instrument in engine.held_instruments() if instrument.id not in carried
    ]
    return carried | _visible_at_open(engine, missing)


def _visible_at_open(engine: Engine, instruments: Sequence[Instrument]) -> dict[str, int]:
    options = [instrument for instrument in instruments if instrument.kind == "OPTION"]
    stocks = [instrument for instrument in instruments if instrument.kind == "STOCK"]
    of_stocks = engine.visible_marks(stocks, engine.now_ns)
    return of_stocks | engine.visible_marks(options, engine.now_ns - 1)


def _apply_splits(engine: Engine, ticker: str, marks: dict[str, int]) -> dict[str, int]:
    """Apply the day's splits of a stock to orders and positions; return the marks after the
    splits.
    """
    for split in engine.reference.splits_on(ticker, engine.day):
        # Under FINRA Rule 5330, exchanges adjust some orders; here all are cancelled.
        _cancel_about(engine, ticker, SPLIT)
        for account in engine.state.accounts.values():
            for effect in days.split_effects(account, split, marks):
                engine.emit(effect)

        marks = days.marks_after_split(marks, split)

    return marks


def _cancel_about(engine: Engine, ticker: str, reason: str) -> None:
    """Cancel all working orders in a stock and its options, because their terms predate a split or
    the stock's delisting.
    """
    for order in tuple(engine.state.working.values()):
        if order.instrument.underlying == ticker:
            engine.emit(OrderCancelled(order.id, reason))


def _end_delisted(
    engine: Engine, ticker: str, marks: dict[str, int], before: tuple[str, ...] = ()
) -> None:
    """Delist a stock if its deal has taken effect: cancel its orders, and close positions in it and
    its options.

    The stock into which it converts may be delisted today too. `before`: stocks that became this
    one at this open.
    """
    if ticker in before:
        # Circular deals, which the dataset check reports.
        return

    deal = engine.reference.deal_on(ticker, engine.day, engine.now_ns)
    if deal is None:
        return

    _cancel_about(engine, ticker, DELISTED)
    if deal.into and f"STOCK:{deal.into}" not in marks:
        marks |= engine.visible_marks([Instrument("STOCK", deal.into)], engine.now_ns)

    for account in engine.state.accounts.values():
        for effect in days.deal_effects(account, deal, marks):
            engine.emit(effect)

    if deal.into:
        _end_delisted(engine, deal.into, marks, (*before, ticker))


def _expire_options(engine: Engine, account: Account) -> None:
    """Settle options that expire at this close, and earlier ones that had no price at which to
    settle.
    """
    fees = engine.rules_of(account).fees
    settles = days.settlement_day(engine.hours, engine.day).isoformat()
    for _, position in sorted(account.positions.items()):
        instrument = position.instrument
        if instrument.kind == "STOCK" or not position.qty:
            continue
        if days.settlement_session(engine.hours, instrument) > engine.day:
            continue

        stock = Instrument("STOCK", instrument.underlying)
        spot = engine.reference.visible_mark(stock, engine.now_ns)
        ending = days.EndingPosition(account.id, position, spot, fees, settles)
        is_forbidden = (account.id, instrument.symbol) in engine.state.do_not_exercise
        event = days.expiry_event(ending, do_not_exercise=is_forbidden)
        if event is not None:
            engine.emit(event)


def _expire_orders_of_contracts(engine: Engine, now_ns: int) -> None:
    """Expire working orders in contracts that expire at this close."""
    for order in tuple(engine.state.working.values()):
        # An earlier leg of the same spread may already have expired the order.
        if order.id not in engine.state.working or order.instrument.kind != "OPTION":
            continue
        if days.settlement_session(engine.hours, order.instrument) > engine.day:
            continue

        for leg in engine.legs_of(order):
            engine.emit(OrderExpired(leg.id, CONTRACT_EXPIRED), now_ns)


def _assign_early(engine: Engine, account: Account) -> None:
    """Assign short calls that their holders exercise to receive the next trading day's dividend."""
    tomorrow = days.settlement_day(engine.hours, engine.day)
    shorts = [position for position in account.positions.values() if position.qty < 0]
    dividends: dict[str, int] = {}
    for ticker in {position.instrument.underlying for position in shorts}:
        rows = engine.reference.dividends_on(ticker, tomorrow, engine.now_ns)
        amount_e4 = sum(row.amount_e4 for row in rows)
        if amount_e4:
            splits = engine.reference.splits_on(ticker, tomorrow)
            known = [split for split in splits if split.announced_ns <= engine.now_ns]
            dividends[ticker] = days.per_old_share(amount_e4, known)

    if not dividends:
        return

    fees = engine.rules_of(account).fees
    marks = engine.marks()
    for instrument in days.early_assignments(account.positions, marks, dividends):
        position = account.positions[instrument.id]
        spot = marks.get(f"STOCK:{instrument.underlying}")
        ending = days.EndingPosition(account.id, position, spot, fees, tomorrow.isoformat())
        engine.emit(days.delivery_event(ending, -position.qty))


def _finance(engine: Engine, account: Account) -> None:
    """Charge for borrowed cash and shares over the nights until the next trading day."""
    # Actual/360: a weekend has three nights.
    nights = (days.settlement_day(engine.hours, engine.day) - engine.day).days
    charges = engine.charges(account, nights)
    if charges.interest_e4:
        event = InterestCharged(account_id=account.id, days=nights, cash_e4=-charges.interest_e4)
        engine.emit(event)

    for ticker, fee_e4 in charges.fees_e4.items():
        stock = f"STOCK:{ticker}"
        charge = BorrowFeeCharged(
            account_id=account.id,
            instrument=stock,
            qty=account.positions[stock].qty,
            fee_bps=charges.fee_bps[ticker],
            days=nights,
            cash_e4=-fee_e4,
        )
        engine.emit(charge)


def _record_close(engine: Engine, account: Account, session: Session | None) -> None:
    """Record an account at this close; `session` is the account's running session, if it
    has one.
    """
    state = margin_state(account, engine.marks(), engine.rules_of(account))
    closed = DayClosed(
        account_id=account.id,
        session_id="" if session is None else session.id,
        day=engine.day.isoformat(),
        next_day=days.settlement_day(engine.hours, engine.day).isoformat(),
        cash_e4=account.cash_e4,
        equity_e4=state.equity_e4,
        long_value_e4=state.long_value_e4,
        short_value_e4=state.short_value_e4,
        maintenance_e4=state.maintenance_e4,
    )
    engine.emit(closed)


def advance(engine: Engine, to_ns: int) -> None:
    """Advance the clock to `to_ns`, processing all events until then. A running session ends after
    its last tick. Raises ServiceError `invalid_argument` if the calendar ends too soon after that
    time.
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
    """Return the time of a session's last tick."""
    count = ticks_by(hours, session.end_ns, session.frequency)
    return tick_at(hours, count, session.frequency)


def end_session(engine: Engine, session: Session, now_ns: int, *, stopped: bool) -> None:
    """End a session: let its orders expire, and record its equity."""
    for order_id in tuple(engine.state.working):
        engine.emit(OrderExpired(order_id, SESSION_OVER), now_ns)

    equity = equity_e4(engine.state.accounts[session.account_id], engine.marks())
    if stopped:
        engine.emit(SessionStopped(session.id, equity), now_ns)
    else:
        engine.emit(SessionFinished(session.id, equity), now_ns)

    engine.feed = None


def _run_session(engine: Engine, to_ns: int) -> None:
    session = engine.session
    frame = engine.frame
    if session is None or frame is None:
        return

    run_ticks(engine, session, frame, to_ns)
    if last_tick(engine.hours, session) < int(frame.tick_ns[-1]):
        _finish(engine, to_ns)


def _finish(engine: Engine, now_ns: int) -> None:
    """End the running session if its last tick is over."""
    session = engine.session
    if session is None:
        return

    last_ns = last_tick(engine.hours, session)
    if now_ns >= last_ns:
        end_session(engine, session, last_ns, stopped=False)
        if now_ns != last_ns:
            engine.frame = None


def _nothing_to_do(engine: Engine) -> bool:
    """Return whether days pass without effect, because no session is running and no account holds
    or owes anything.
    """
    if engine.session is not None:
        return False

    for account in engine.state.accounts.values():
        if _holds(account) or account.cash_e4 < 0 or account.unsettled:
            return False

    return True
