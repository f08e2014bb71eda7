"""State as callers see it: accounts, positions, orders, trades, sessions and events, in dollars and moments."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import msgspec
import numpy as np

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.data.rows import E4, Bars
from ktdeval_qfinzero.moments import MINUTE, day_of, moment_text
from ktdeval_qfinzero.pmb.answers import (
    AccountShown,
    BarShown,
    DayShown,
    EventShown,
    OrderShown,
    PositionShown,
    SessionShown,
    SummaryShown,
    TradeShown,
)
from ktdeval_qfinzero.pmb.arguments import NamedInstrument, Universe
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.events import BrokerState, Event
from ktdeval_qfinzero.pmb.margin import equity_e4, margin_state
from ktdeval_qfinzero.pmb.placement import reserved_e4
from ktdeval_qfinzero.pmb.summary import SessionFacts, summarise
from ktdeval_qfinzero.pmb.values import Account, DayClose, Frequency, Instrument, Order, Position, Session, Trade
from ktdeval_qfinzero.trading_hours import trading_hours


def dollars(amount_e4: int) -> float:
    """Ten-thousandths of a dollar as dollars."""
    return round(amount_e4 / E4, 4)


def maybe_dollars(amount_e4: int | None) -> float | None:
    """Dollars, or null."""
    return None if amount_e4 is None else dollars(amount_e4)


def account_shown(engine: Engine, account: Account) -> AccountShown:
    """An account at the last prices."""
    marks = engine.marks()
    today = trading_hours().session_day(engine.now_ns + 1)
    margin = margin_state(account, marks, engine.rules_of(account), today)
    held = [position for position in account.positions.values() if position.qty]
    values = [position.value_e4(marks[position.instrument.id]) for position in held]
    session = engine.session
    return AccountShown(
        account_id=account.id,
        account_type=account.type,
        base_currency="USD",
        opened_at=moment_text(account.opened_ns),
        session_id=session.id if session is not None and session.account_id == account.id else None,
        initial_cash=dollars(account.initial_cash_e4),
        cash=dollars(account.cash_e4),
        unsettled_cash=dollars(account.cash_e4 - account.settled_e4(today)),
        equity=dollars(margin.equity_e4),
        long_value=dollars(sum(value for value in values if value > 0)),
        short_value=dollars(-sum(value for value in values if value < 0)),
        initial_requirement=dollars(margin.initial_e4),
        maintenance_requirement=dollars(margin.maintenance_e4),
        reserved=dollars(reserved_e4(engine, account.id)),
        buying_power=dollars(margin.buying_power_e4),
        margin_status="OK" if account.margin_call_due is None else "MARGIN_CALL",
        margin_call_due=None if account.margin_call_due is None else account.margin_call_due.isoformat(),
        realized_pnl=dollars(sum(position.realized_e4 for position in account.positions.values())),
        unrealized_pnl=dollars(sum(values) - sum(position.cost_e4 for position in held)),
        fees=dollars(account.fees_e4),
        interest=dollars(account.interest_e4),
        borrow_fees=dollars(account.borrow_fees_e4),
        dividends=dollars(account.dividends_e4),
        total_pnl=dollars(margin.equity_e4 - account.initial_cash_e4),
        num_positions=len(held),
        num_open_orders=sum(order.account_id == account.id for order in engine.state.working.values()),
    )


def position_shown(position: Position, mark_e4: int) -> PositionShown:
    """A position that is not flat, at the last price."""
    value_e4 = position.value_e4(mark_e4)
    return PositionShown(
        instrument_id=position.instrument.id,
        instrument=named(position.instrument),
        qty=position.qty,
        avg_price=round(position.cost_e4 / (position.qty * position.instrument.multiplier) / E4, 6),
        mark_price=dollars(mark_e4),
        market_value=dollars(value_e4),
        cost=dollars(position.cost_e4),
        unrealized_pnl=dollars(value_e4 - position.cost_e4),
        realized_pnl=dollars(position.realized_e4),
    )


def named(instrument: Instrument) -> NamedInstrument:
    """An instrument as calls name it."""
    if instrument.kind == "STOCK":
        return NamedInstrument(instrument.kind, symbol=instrument.symbol)
    return NamedInstrument(instrument.kind, contract=instrument.symbol)


def order_shown(order: Order) -> OrderShown:
    """An order and what became of it."""
    return OrderShown(
        order_id=order.id,
        client_order_id=order.client_order_id or None,
        account_id=order.account_id,
        session_id=order.session_id,
        instrument=named(order.instrument),
        side=order.side,
        order_type=order.order_type,
        qty=order.qty,
        limit_price=maybe_dollars(order.limit_e4),
        stop_price=maybe_dollars(order.stop_e4),
        time_in_force=order.time_in_force,
        expire_ts=None if order.expire_ns is None else moment_text(order.expire_ns),
        created_at=moment_text(order.accepted_ns),
        status=order.status,
        triggered=order.triggered,
        filled_qty=order.filled_qty,
        open_qty=order.open_qty,
        avg_fill_price=round(order.filled_value_e4 / order.filled_qty / E4, 6) if order.filled_qty else None,
        reason=order.reason or None,
        replaces=order.replaces or None,
        replaced_by=order.replaced_by or None,
        spread_id=order.spread_id or None,
        forced=order.forced,
    )


def trade_shown(trade: Trade) -> TradeShown:
    """An execution."""
    return TradeShown(
        trade_id=trade.id,
        ts=moment_text(trade.ts_ns),
        order_id=trade.order_id,
        account_id=trade.account_id,
        session_id=trade.session_id,
        instrument=named(trade.instrument),
        side=trade.side,
        qty=trade.qty,
        price=dollars(trade.price_e4),
        value=dollars(abs(trade.value_e4)),
        fee=dollars(trade.fee_e4),
    )


def day_shown(close: DayClose) -> DayShown:
    """An account at a day's close."""
    return DayShown(
        date=close.day.isoformat(),
        session_id=close.session_id or None,
        cash=dollars(close.cash_e4),
        equity=dollars(close.equity_e4),
        long_value=dollars(close.long_value_e4),
        short_value=dollars(close.short_value_e4),
        maintenance_requirement=dollars(close.maintenance_e4),
    )


def session_shown(state: BrokerState, session: Session) -> SessionShown:
    """A session."""
    return SessionShown(
        session_id=session.id,
        account_id=session.account_id,
        frequency=session.frequency,
        start_ts=moment_text(session.start_ns),
        end_ts=moment_text(session.end_ns),
        current_ts=moment_text(session.clock_ns),
        status=session.status,
        universe=Universe(list(session.stocks), list(session.options)),
        execution_config=session.rules,
        start_equity=dollars(session.start_equity_e4),
        end_equity=maybe_dollars(session.end_equity_e4),
        num_orders=session.accepted + session.rejected,
        num_open_orders=sum(order.session_id == session.id for order in state.working.values()),
        num_rejected=session.rejected,
        num_refused_commands=session.refused,
        margin_call_count=session.margin_calls,
    )


def event_shown(event: Event) -> EventShown:
    """An event: money in dollars, moments as texts, names without their units."""
    return EventShown(
        seq=event.seq, ts=moment_text(event.ts_ns), type=event.type, data=_in_dollars(msgspec.to_builtins(event.data))
    )


def summary_shown(engine: Engine, session: Session) -> Any:
    """Figures of a session so far."""
    state, log = engine.state, engine.journal.log
    trades = [trade for trade in state.trades if trade.session_id == session.id]
    last = len(log.entries) if session.last_seq is None else session.last_seq
    paid = {"FEE": 0, "INTEREST": 0, "BORROW_FEE": 0, "DIVIDEND": 0}
    for entry in state.cash_entries:
        if entry.account_id == session.account_id and session.first_seq < entry.seq <= last and entry.kind in paid:
            paid[entry.kind] += entry.amount_e4
    facts = SessionFacts(
        session.start_equity_e4,
        _closes(engine, session),
        sum(abs(trade.value_e4) for trade in trades),
        len(trades),
        session.accepted + session.rejected,
        session.rejected,
        sum(given.get("session_id") == session.id for _, given in log.commands()),
        session.refused,
        session.margin_calls,
        -paid["FEE"],
        -paid["INTEREST"],
        -paid["BORROW_FEE"],
        paid["DIVIDEND"],
    )
    return SummaryShown(
        session_id=session.id,
        account_id=session.account_id,
        status=session.status,
        start_ts=moment_text(session.start_ns),
        end_ts=moment_text(session.end_ns),
        current_ts=moment_text(session.clock_ns),
        **msgspec.structs.asdict(summarise(facts)),
    )


def bar_shown(instrument: Instrument, bars: Bars, frequency: Frequency) -> BarShown:
    """Bar of a table of one row."""
    start_ns, hours = int(bars.start_ns[0]), trading_hours()
    if frequency == "1m":
        span = (start_ns, start_ns + MINUTE)
    else:
        row = hours.row_of(day_of(start_ns))
        close_ns = hours.close_of(day_of(start_ns))
        span = (start_ns if row is None else int(hours.open_ns[row]), close_ns)
    return BarShown(
        instrument_id=instrument.id,
        instrument=named(instrument),
        start_ts=moment_text(span[0]),
        end_ts=moment_text(span[1]),
        open=dollars(int(bars.open_e4[0])),
        high=dollars(int(bars.high_e4[0])),
        low=dollars(int(bars.low_e4[0])),
        close=dollars(int(bars.close_e4[0])),
        volume=int(bars.volume[0]),
    )


def to_csv(rows: Sequence[msgspec.Struct], columns: Sequence[str]) -> str:
    """Rows as CSV (RFC 4180) with a line of names; an instrument is its symbol, null is empty."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(getattr(row, name)) for name in columns])
    return target.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, NamedInstrument):
        return value.symbol or value.contract
    return "" if value is None else value


def _closes(engine: Engine, session: Session) -> tuple[tuple[date, int], ...]:
    """Equity at the closes of the session's days; at last that of a day which is not over, or was not when it ended."""
    state, hours = engine.state, trading_hours()
    closes = [(close.day, close.equity_e4) for close in state.days[session.account_id] if close.session_id == session.id]
    row = int(np.searchsorted(hours.close_ns, session.clock_ns))
    if int(hours.open_ns[row]) < session.clock_ns < int(hours.close_ns[row]):
        equity = session.end_equity_e4
        if equity is None:
            equity = equity_e4(state.accounts[session.account_id], engine.marks())
        closes.append((hours.day(row), equity))
    return tuple(closes)


def _in_dollars(data: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for name, value in data.items():
        if name == "order":
            found[name] = {("order_id" if key == "id" else key): part for key, part in _in_dollars(value).items()}
        elif name == "bar":
            prices = zip(("open", "high", "low", "close"), value)
            found[name] = {key: dollars(price) for key, price in prices} | {"volume": value[4]}
        elif name.endswith("_e4"):
            found[name.removesuffix("_e4")] = maybe_dollars(value)
        elif name.endswith("_ns"):
            found[name.removesuffix("_ns") + "_ts"] = None if value is None else moment_text(value)
        else:
            found[name] = value
    return found
