"""What days bring to accounts: corporate actions at the open; expiry, assignment, financing and margin at the close."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktdeval_qfinzero.pmb import margin_calls
from ktdeval_qfinzero.pmb.actions import entitlement, marks_after_split, orders_cancelled_by_split, split_effects
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.events import EventType
from ktdeval_qfinzero.pmb.financing import daily_charges, settlement_day
from ktdeval_qfinzero.pmb.margin import margin_state
from ktdeval_qfinzero.pmb.option_life import (
    LifeEvent,
    LifeKind,
    assignment_event,
    early_assignments,
    expiry_event,
    settlement_session,
)
from ktdeval_qfinzero.pmb.records import Session
from ktdeval_qfinzero.pmb.types import Account, Instrument
from ktdeval_qfinzero.trading_hours import trading_hours

_LIFE_EVENTS: Mapping[LifeKind, EventType] = {
    "EXERCISED": "OPTION_EXERCISED",
    "ASSIGNED": "OPTION_ASSIGNED",
    "EXPIRED": "OPTION_EXPIRED",
}
CONTRACT_EXPIRED = "CONTRACT_EXPIRED: the option has expired"
SPLIT = "SPLIT: the order's terms were about units from before the split"


def open_day(engine: Engine) -> None:
    """The open of the engine's day: splits and dividends, then the day's frame where a session runs."""
    now_ns = engine.now_ns = int(trading_hours().open_ns[engine.day_row])
    marks = _marks_at_open(engine)
    for ticker in dict.fromkeys(instrument.underlying for instrument in engine.instruments()):
        marks = _split(engine, ticker, marks, now_ns)
        _pay_dividends(engine, ticker, now_ns)
    engine.opened = True
    engine.load_frame(marks)


def close_day(engine: Engine) -> None:
    """The close of the engine's day, after its last tick."""
    now_ns = engine.now_ns = int(trading_hours().close_ns[engine.day_row])
    holders = {account.id for account in engine.book.accounts.values() if any(held.qty for held in account.positions.values())}
    for account in engine.book.accounts.values():
        if account.id in holders:
            _expire_options(engine, account, now_ns)
            _assign_early(engine, account, now_ns)
        _finance(engine, account, now_ns)
    session = engine.session
    if session is not None:
        margin_calls.review(engine, session, now_ns, at_close=True)
    for account in engine.book.accounts.values():
        own = session is not None and session.account_id == account.id
        if own or account.id in holders or account.unsettled:
            _record_close(engine, account, session if own else None, now_ns)


def life_event(engine: Engine, account: Account, event: LifeEvent, now_ns: int) -> None:
    """Write down what became of contracts."""
    engine.journal.emit(
        now_ns,
        _LIFE_EVENTS[event.kind],
        account_id=account.id,
        instrument=event.instrument.id,
        stock=event.stock.id,
        change=event.option_qty,
        cost_e4=event.option_cost_e4,
        stock_change=event.stock_qty,
        stock_cost_e4=event.stock_cost_e4,
        realized_e4=event.realized_e4,
        cash_e4=event.cash_e4,
        fee_e4=event.fee_e4,
        spot_e4=event.spot_e4,
        settles=settlement_day(engine.day).isoformat(),
    )


def _marks_at_open(engine: Engine) -> dict[str, int]:
    """The last marks: of stocks as the day's corporate actions leave them, of options from before the open."""
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


def _split(engine: Engine, ticker: str, marks: dict[str, int], now_ns: int) -> dict[str, int]:
    """Splits of a stock: its orders, and what is held of it. Gives the marks as they leave them."""
    for split in engine.reference.splits_on(ticker, engine.day):
        for order_id in orders_cancelled_by_split(engine.book.working.values(), split):
            engine.journal.emit(now_ns, "ORDER_CANCELLED", order_id=order_id, reason=SPLIT, replaced_by="")
        for account in engine.book.accounts.values():
            for effect in split_effects(account, split, marks):
                before, after = effect.before, effect.after
                engine.journal.emit(
                    now_ns,
                    "POSITION_SPLIT",
                    account_id=account.id,
                    instrument=before.id,
                    becomes=after.id if after is not None else "",
                    new=split.new,
                    old=split.old,
                    qty_before=account.positions[before.id].qty,
                    qty_after=effect.qty_after,
                    cost_after_e4=effect.cost_after_e4,
                    realized_e4=effect.realized_e4,
                    cash_e4=effect.cash_e4,
                )
        marks = marks_after_split(marks, split)
    return marks


def _pay_dividends(engine: Engine, ticker: str, now_ns: int) -> None:
    for dividend in engine.reference.dividends_on(ticker, engine.day, now_ns):
        for account in engine.book.accounts.values():
            due = entitlement(account, dividend)
            if due is not None:
                engine.journal.emit(
                    now_ns,
                    "DIVIDEND",
                    account_id=account.id,
                    instrument=f"STOCK:{ticker}",
                    qty=due.qty,
                    share_e4=dividend.amount_e4,
                    cash_e4=due.amount_e4,
                    settles=due.pay_day.isoformat(),
                )


def _expire_options(engine: Engine, account: Account, now_ns: int) -> None:
    """Settle what expires at this close, and what could not be settled before for want of a price."""
    fees = engine.rules_of(account).fees
    for name in sorted(account.positions):
        position = account.positions[name]
        if position.instrument.kind == "STOCK" or not position.qty or settlement_session(position.instrument) > engine.day:
            continue
        spot = engine.reference.visible_mark(Instrument("STOCK", position.instrument.underlying), now_ns)
        event = expiry_event(position, spot, fees, (account.id, position.instrument.symbol) in engine.book.kept)
        if event.kind != "PENDING":
            life_event(engine, account, event, now_ns)


def expire_orders_of_contracts(engine: Engine, now_ns: int) -> None:
    """Take orders for contracts that expire at this close from the book."""
    for order in tuple(engine.book.working.values()):
        if (
            order.id in engine.book.working
            and order.instrument.kind == "OPTION"
            and settlement_session(order.instrument) <= engine.day
        ):
            for leg in engine.legs_of(order):
                engine.journal.emit(now_ns, "ORDER_EXPIRED", order_id=leg.id, reason=CONTRACT_EXPIRED)


def _assign_early(engine: Engine, account: Account, now_ns: int) -> None:
    """Assign short calls whose holders exercise for tomorrow's dividend."""
    tickers = {position.instrument.underlying for position in account.positions.values() if position.qty < 0}
    tomorrow = settlement_day(engine.day)
    dividends = {
        ticker: sum(row.amount_e4 for row in engine.reference.dividends_on(ticker, tomorrow, now_ns)) for ticker in sorted(tickers)
    }
    dividends = {ticker: amount for ticker, amount in dividends.items() if amount}
    if dividends:
        fees, marks = engine.rules_of(account).fees, engine.marks()
        for instrument in early_assignments(account.positions, marks, dividends):
            position = account.positions[instrument.id]
            spot = marks.get(f"STOCK:{instrument.underlying}")
            life_event(engine, account, assignment_event(position, -position.qty, spot, fees), now_ns)


def _finance(engine: Engine, account: Account, now_ns: int) -> None:
    """Charge what is borrowed at this close for the nights until the next trading day."""
    shorts = [
        position.instrument.symbol
        for position in account.positions.values()
        if position.qty < 0 and position.instrument.kind == "STOCK"
    ]
    if account.cash_e4 >= 0 and not shorts:
        return
    days = (settlement_day(engine.day) - engine.day).days
    bps = engine.reference.borrow_bps(shorts, now_ns)
    charges = daily_charges(account, engine.marks(), engine.rules_of(account), bps, days)
    if charges.interest_e4:
        engine.journal.emit(now_ns, "INTEREST", account_id=account.id, days=days, cash_e4=-charges.interest_e4)
    for ticker, fee_e4 in charges.borrow_e4.items():
        stock = f"STOCK:{ticker}"
        qty = account.positions[stock].qty
        engine.journal.emit(
            now_ns, "BORROW_FEE", account_id=account.id, instrument=stock, qty=qty, fee_bps=bps[ticker], days=days, cash_e4=-fee_e4
        )


def _record_close(engine: Engine, account: Account, session: Session | None, now_ns: int) -> None:
    marks = engine.marks()
    state = margin_state(account, marks, engine.rules_of(account))
    values = [margin_calls.value_e4(position, marks[name]) for name, position in account.positions.items() if position.qty]
    engine.journal.emit(
        now_ns,
        "DAY_CLOSED",
        account_id=account.id,
        session_id="" if session is None else session.id,
        day=engine.day.isoformat(),
        next_day=settlement_day(engine.day).isoformat(),
        cash_e4=account.cash_e4,
        equity_e4=state.equity_e4,
        long_value_e4=sum(value for value in values if value > 0),
        short_value_e4=-sum(value for value in values if value < 0),
        maintenance_e4=state.maintenance_e4,
    )
