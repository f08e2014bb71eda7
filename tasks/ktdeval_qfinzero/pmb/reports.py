"""A session as a whole: its figures, its export, and the last bars of its universe."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import date

import numpy as np

from ktdeval.api import JsonValue
from ktdeval_qfinzero.data.rows import Bars, Resolution
from ktdeval_qfinzero.moments import MINUTE, day_of, moment_text
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.log import EventLog
from ktdeval_qfinzero.pmb.margin import equity_e4
from ktdeval_qfinzero.pmb.reads import Json, day_json, dollars, instrument_json, order_json, session_json, trade_json
from ktdeval_qfinzero.pmb.records import Session
from ktdeval_qfinzero.pmb.summary import SessionFacts, summarise
from ktdeval_qfinzero.pmb.types import Frequency, Instrument
from ktdeval_qfinzero.trading_hours import trading_hours


def summary_json(engine: Engine, log: EventLog, session: Session) -> Json:
    """Figures of a session so far."""
    book = engine.book
    trades = [trade for trade in book.trades if trade.session_id == session.id]
    last = len(log.entries) if session.last_seq is None else session.last_seq
    paid = {"FEE": 0, "INTEREST": 0, "BORROW_FEE": 0, "DIVIDEND": 0}
    for entry in book.cash_entries:
        if entry.account_id == session.account_id and session.first_seq < entry.seq <= last and entry.kind in paid:
            paid[entry.kind] += entry.amount_e4
    commands = [entry for entry in log.entries if entry.kind == "command" and entry.data.get("session_id") == session.id]
    facts = SessionFacts(
        session.start_equity_e4,
        _closes(engine, session),
        sum(abs(trade.value_e4) for trade in trades),
        len(trades),
        session.accepted + session.rejected,
        session.rejected,
        len(commands),
        session.refused,
        session.margin_calls,
        -paid["FEE"],
        -paid["INTEREST"],
        -paid["BORROW_FEE"],
        paid["DIVIDEND"],
    )
    span = {"start_ts": moment_text(session.start_ns), "end_ts": moment_text(session.end_ns)}
    names = {"session_id": session.id, "account_id": session.account_id, "status": session.status, **span}
    return {**names, "current_ts": moment_text(session.clock_ns), **summarise(facts)}


def export_json(engine: Engine, session: Session) -> dict[str, list[Json]]:
    """Orders, trades and closes of days of a session."""
    book = engine.book
    return {
        "orders": [order_json(order) for order in book.orders.values() if order.session_id == session.id],
        "trades": [trade_json(trade) for trade in book.trades if trade.session_id == session.id],
        "history": [day_json(close) for close in book.days[session.account_id] if close.session_id == session.id],
    }


def to_csv(rows: Sequence[Mapping[str, JsonValue]], columns: Sequence[str]) -> str:
    """Rows as CSV (RFC 4180) with a line of names; an instrument is its id, null is empty."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in columns])
    return target.getvalue()


def market_json(engine: Engine, session: Session) -> tuple[list[Json], list[str]]:
    """(last complete bar of each instrument of the universe, ids of those that have had none), as of the clock."""
    bars, missing = [], []
    instruments = [Instrument("STOCK", symbol) for symbol in session.stocks]
    instruments += [Instrument("OPTION", symbol) for symbol in session.options]
    for instrument in instruments:
        resolution: Resolution = "minute" if session.frequency == "1m" else "day"
        found = engine.reference.last_bar(instrument, resolution, engine.now_ns)
        if found is None:
            missing.append(instrument.id)
        else:
            bars.append(
                {"instrument_id": instrument.id, "instrument": instrument_json(instrument), **_bar(found, session.frequency)}
            )
    return bars, missing


def session_header(engine: Engine, log: EventLog, session: Session) -> Json:
    """A session, and the hash of the broker's log so far."""
    lines = log.to_lines()
    return {"session": session_json(engine.book, session), "log_lines": len(lines), "log_hash": log.last_hash}


def _closes(engine: Engine, session: Session) -> tuple[tuple[date, int], ...]:
    """Equity at the closes of the session's days; at last that of a day which is not over, or was not when it ended."""
    book, hours = engine.book, trading_hours()
    closes = [(close.day, close.equity_e4) for close in book.days[session.account_id] if close.session_id == session.id]
    row = int(np.searchsorted(hours.close_ns, session.clock_ns))
    if int(hours.open_ns[row]) < session.clock_ns < int(hours.close_ns[row]):
        equity = session.end_equity_e4
        if equity is None:
            equity = equity_e4(book.accounts[session.account_id], engine.marks())
        closes.append((hours.day(row), equity))
    return tuple(closes)


def _bar(bars: Bars, frequency: Frequency) -> Json:
    start = int(bars.start_ns[0])
    hours = trading_hours()
    if frequency == "1d":
        row = hours.row_of(day_of(start))
        span = (start, hours.close_of(day_of(start))) if row is None else (int(hours.open_ns[row]), int(hours.close_ns[row]))
    else:
        span = (start, start + MINUTE)
    prices = {name: dollars(int(getattr(bars, f"{name}_e4")[0])) for name in ("open", "high", "low", "close")}
    return {"start_ts": moment_text(span[0]), "end_ts": moment_text(span[1]), **prices, "volume": int(bars.volume[0])}


def _cell(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping):
        return value.get("symbol") or value.get("contract")
    return "" if value is None else value
