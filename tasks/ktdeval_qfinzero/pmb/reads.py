"""What the broker answers: accounts, positions, orders, trades, sessions and events as JSON, in dollars and moments."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.api import JsonValue
from ktdeval_qfinzero.data.rows import E4
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.pmb.book import Book
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.events import Event, rules_payload
from ktdeval_qfinzero.pmb.margin import margin_state
from ktdeval_qfinzero.pmb.placement import reserved_e4
from ktdeval_qfinzero.pmb.records import DayClose, Session, Trade
from ktdeval_qfinzero.pmb.types import Account, Instrument, Order, Position
from ktdeval_qfinzero.trading_hours import trading_hours

Json = dict[str, JsonValue]


def dollars(amount_e4: int) -> float:
    """Ten-thousandths of a dollar as dollars."""
    return round(amount_e4 / E4, 4)


def maybe_dollars(amount_e4: int | None) -> float | None:
    """The same, or null."""
    return None if amount_e4 is None else dollars(amount_e4)


def account_json(engine: Engine, account: Account) -> Json:
    """An account at the last prices."""
    marks = engine.marks()
    today = trading_hours().session_day(engine.now_ns + 1)
    state = margin_state(account, marks, engine.rules_of(account), today)
    held = [position for position in account.positions.values() if position.qty]
    values = [position.qty * position.instrument.multiplier * marks[position.instrument.id] for position in held]
    unrealized = sum(values) - sum(position.cost_e4 for position in held)
    session = engine.session
    return {
        "account_id": account.id,
        "account_type": account.type,
        "base_currency": "USD",
        "opened_at": moment_text(account.opened_ns),
        "session_id": session.id if session is not None and session.account_id == account.id else None,
        "initial_cash": dollars(account.initial_cash_e4),
        "cash": dollars(account.cash_e4),
        "unsettled_cash": dollars(sum(amount for day, amount in account.unsettled if day > today)),
        "equity": dollars(state.equity_e4),
        "long_value": dollars(sum(value for value in values if value > 0)),
        "short_value": dollars(-sum(value for value in values if value < 0)),
        "initial_requirement": dollars(state.initial_e4),
        "maintenance_requirement": dollars(state.maintenance_e4),
        "reserved": dollars(reserved_e4(engine, account.id)),
        "buying_power": dollars(state.buying_power_e4),
        "margin_status": "OK" if account.margin_call_due is None else "MARGIN_CALL",
        "margin_call_due": None if account.margin_call_due is None else account.margin_call_due.isoformat(),
        "realized_pnl": dollars(sum(position.realized_e4 for position in account.positions.values())),
        "unrealized_pnl": dollars(unrealized),
        "fees": dollars(account.fees_e4),
        "interest": dollars(account.interest_e4),
        "borrow_fees": dollars(account.borrow_fees_e4),
        "dividends": dollars(account.dividends_e4),
        "total_pnl": dollars(state.equity_e4 - account.initial_cash_e4),
        "num_positions": len(held),
        "num_open_orders": sum(order.account_id == account.id for order in engine.book.working.values()),
    }


def position_json(position: Position, marks: Mapping[str, int]) -> Json:
    """A position that is not flat, at the last price."""
    size = position.qty * position.instrument.multiplier
    mark = marks[position.instrument.id]
    return {
        "instrument_id": position.instrument.id,
        "instrument": instrument_json(position.instrument),
        "qty": position.qty,
        "avg_price": round(position.cost_e4 / size / E4, 6),
        "mark_price": dollars(mark),
        "market_value": dollars(size * mark),
        "cost": dollars(position.cost_e4),
        "unrealized_pnl": dollars(size * mark - position.cost_e4),
        "realized_pnl": dollars(position.realized_e4),
    }


def instrument_json(instrument: Instrument) -> Json:
    """An instrument as calls name it."""
    return {"type": instrument.kind, ("symbol" if instrument.kind == "STOCK" else "contract"): instrument.symbol}


def order_json(order: Order) -> Json:
    """An order and what became of it."""
    average = round(order.filled_value_e4 / order.filled_qty / E4, 6) if order.filled_qty else None
    return {
        "order_id": order.id,
        "client_order_id": order.client_order_id or None,
        "account_id": order.account_id,
        "session_id": order.session_id,
        "instrument": instrument_json(order.instrument),
        "side": order.side,
        "order_type": order.order_type,
        "qty": order.qty,
        "limit_price": maybe_dollars(order.limit_e4),
        "stop_price": maybe_dollars(order.stop_e4),
        "time_in_force": order.time_in_force,
        "expire_ts": None if order.expire_ns is None else moment_text(order.expire_ns),
        "created_at": moment_text(order.accepted_ns),
        "status": order.status,
        "triggered": order.triggered,
        "filled_qty": order.filled_qty,
        "open_qty": order.open_qty,
        "avg_fill_price": average,
        "reason": order.reason or None,
        "replaces": order.replaces or None,
        "replaced_by": order.replaced_by or None,
        "spread_id": order.spread_id or None,
        "forced": order.forced,
    }


def trade_json(trade: Trade) -> Json:
    """An execution."""
    return {
        "trade_id": trade.id,
        "ts": moment_text(trade.ts_ns),
        "order_id": trade.order_id,
        "account_id": trade.account_id,
        "session_id": trade.session_id,
        "instrument": instrument_json(trade.instrument),
        "side": trade.side,
        "qty": trade.qty,
        "price": dollars(trade.price_e4),
        "value": dollars(abs(trade.value_e4)),
        "fee": dollars(trade.fee_e4),
    }


def day_json(close: DayClose) -> Json:
    """An account at a day's close."""
    return {
        "date": close.day.isoformat(),
        "session_id": close.session_id or None,
        "cash": dollars(close.cash_e4),
        "equity": dollars(close.equity_e4),
        "long_value": dollars(close.long_value_e4),
        "short_value": dollars(close.short_value_e4),
        "maintenance_requirement": dollars(close.maintenance_e4),
    }


def session_json(book: Book, session: Session) -> Json:
    """A session."""
    return {
        "session_id": session.id,
        "account_id": session.account_id,
        "frequency": session.frequency,
        "start_ts": moment_text(session.start_ns),
        "end_ts": moment_text(session.end_ns),
        "current_ts": moment_text(session.clock_ns),
        "status": session.status,
        "universe": {"stocks": list(session.stocks), "options": list(session.options)},
        "execution_config": rules_payload(session.rules),
        "start_equity": dollars(session.start_equity_e4),
        "end_equity": maybe_dollars(session.end_equity_e4),
        "num_orders": session.accepted + session.rejected,
        "num_open_orders": sum(order.session_id == session.id for order in book.working.values()),
        "num_rejected": session.rejected,
        "num_refused_commands": session.refused,
        "margin_call_count": session.margin_calls,
    }


def event_json(event: Event) -> Json:
    """An event: money in dollars, moments as texts, names without their units."""
    return {"seq": event.seq, "ts": moment_text(event.ts_ns), "type": event.type, "data": _plain(event.data)}


def _plain(data: Mapping[str, JsonValue]) -> Json:
    found: Json = {}
    for name, value in data.items():
        if name == "order":
            order = _plain(value)
            found[name] = {("order_id" if key == "id" else key): part for key, part in order.items()}
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
