"""State as callers see it: accounts, positions, orders, trades, sessions, events and figures, in dollars and moments."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.data.rows import E4, Bars
from ktdeval_qfinzero.moments import MINUTE, day_of, moment_text
from ktdeval_qfinzero.pmb import types
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.events import BrokerState, Event
from ktdeval_qfinzero.pmb.holding_events import DayClosed
from ktdeval_qfinzero.pmb.margin import equity_e4, margin_state
from ktdeval_qfinzero.pmb.placement import reserved_e4
from ktdeval_qfinzero.pmb.values import Account, Frequency, Instrument, NamedInstrument, Order, Position, Session, Trade
from ktdeval_qfinzero.trading_hours import TradingHours

TRADING_DAYS = {"24/7": 365}
"""Trading days of a year by calendar, 252 of others, by which volatility and Sharpe ratio are annualised."""
_ZERO_VOLATILITY = 1e-12
"""Daily volatility below which returns count as equal: above the rounding of floats, below a cent on a billion dollars."""

_Row = TypeVar("_Row", bound=msgspec.Struct)


def dollars(amount_e4: int) -> float:
    """Ten-thousandths of a dollar as dollars."""
    return round(amount_e4 / E4, 4)


def maybe_dollars(amount_e4: int | None) -> float | None:
    """Dollars, or null."""
    return None if amount_e4 is None else dollars(amount_e4)


def _row(kind: type[_Row], source: object, **given: object) -> _Row:
    """A row of a type: what is given, and of the same names what the source has, amounts (`NAME_e4`) in dollars."""
    for name in kind.__struct_fields__:
        if name not in given:
            is_amount = hasattr(source, f"{name}_e4")
            given[name] = maybe_dollars(getattr(source, f"{name}_e4")) if is_amount else getattr(source, name)
    return kind(**given)


def account_shown(engine: Engine, account: Account) -> types.AccountShown:
    """An account at the last prices."""
    marks, session = engine.marks(), engine.session
    today = engine.hours.session_day(engine.now_ns + 1)
    margin = margin_state(account, marks, engine.rules_of(account), today)
    held = [position for position in account.positions.values() if position.qty]
    values = [position.value_e4(marks[position.instrument.id]) for position in held]
    due = account.margin_call_due
    return _row(
        types.AccountShown,
        account,
        account_id=account.id,
        account_type=account.type,
        base_currency=engine.reference.dataset.info.currency,
        opened_at=moment_text(account.opened_ns),
        session_id=session.id if session is not None and session.account_id == account.id else None,
        unsettled_cash=dollars(account.cash_e4 - account.settled_e4(today)),
        equity=dollars(margin.equity_e4),
        long_value=dollars(sum(value for value in values if value > 0)),
        short_value=dollars(-sum(value for value in values if value < 0)),
        initial_requirement=dollars(margin.initial_e4),
        maintenance_requirement=dollars(margin.maintenance_e4),
        reserved=dollars(reserved_e4(engine, account.id)),
        buying_power=dollars(margin.buying_power_e4),
        margin_status="OK" if due is None else "MARGIN_CALL",
        margin_call_due=None if due is None else due.isoformat(),
        realized_pnl=dollars(sum(position.realized_e4 for position in account.positions.values())),
        unrealized_pnl=dollars(sum(values) - sum(position.cost_e4 for position in held)),
        total_pnl=dollars(margin.equity_e4 - account.initial_cash_e4),
        num_positions=len(held),
        num_open_orders=sum(order.account_id == account.id for order in engine.state.working.values()),
    )


def position_shown(position: Position, mark_e4: int) -> types.PositionShown:
    """A position that is not flat, at the last price."""
    value_e4 = position.value_e4(mark_e4)
    return _row(
        types.PositionShown,
        position,
        instrument_id=position.instrument.id,
        instrument=named(position.instrument),
        avg_price=round(position.cost_e4 / (position.qty * position.instrument.multiplier) / E4, 6),
        mark_price=dollars(mark_e4),
        market_value=dollars(value_e4),
        unrealized_pnl=dollars(value_e4 - position.cost_e4),
        realized_pnl=dollars(position.realized_e4),
    )


def named(instrument: Instrument) -> NamedInstrument:
    """An instrument as calls name it."""
    return NamedInstrument(instrument.kind, **{"symbol" if instrument.kind == "STOCK" else "contract": instrument.symbol})


def order_shown(order: Order) -> types.OrderShown:
    """An order and what became of it."""
    texts = ("client_order_id", "reason", "replaces", "replaced_by", "spread_id")
    bracket = {"take_profit_price": maybe_dollars(order.take_profit_e4), "stop_loss_price": maybe_dollars(order.stop_loss_e4)}
    sometimes = {**bracket, "parent_id": order.parent_id, "oco_id": order.oco_id}
    return _row(
        types.OrderShown,
        order,
        order_id=order.id,
        instrument=named(order.instrument),
        limit_price=maybe_dollars(order.limit_e4),
        stop_price=maybe_dollars(order.stop_e4),
        expire_ts=None if order.expire_ns is None else moment_text(order.expire_ns),
        created_at=moment_text(order.accepted_ns),
        avg_fill_price=round(order.filled_value_e4 / order.filled_qty / E4, 6) if order.filled_qty else None,
        **{name: getattr(order, name) or None for name in texts},
        **{name: value or UNSET for name, value in sometimes.items()},
    )


def trade_shown(trade: Trade) -> types.TradeShown:
    """An execution."""
    terms = {"trade_id": trade.id, "ts": moment_text(trade.ts_ns), "instrument": named(trade.instrument)}
    return _row(types.TradeShown, trade, **terms, value=dollars(abs(trade.value_e4)))


def day_shown(close: DayClosed) -> types.DayShown:
    """An account at the close of a day."""
    required, session_id = dollars(close.maintenance_e4), close.session_id or None
    return _row(types.DayShown, close, date=close.day, session_id=session_id, maintenance_requirement=required)


def session_shown(state: BrokerState, session: Session) -> types.SessionShown:
    """A session."""
    return _row(
        types.SessionShown,
        session,
        **_span(session),
        universe=types.Universe(stocks=list(session.stocks), options=list(session.options)),
        execution_config=session.rules,
        num_orders=session.accepted + session.rejected,
        num_open_orders=sum(order.session_id == session.id for order in state.working.values()),
        num_rejected=session.rejected,
        num_refused_commands=session.refused,
        margin_call_count=session.margin_calls,
    )


def _span(session: Session) -> dict[str, str]:
    moments = {"start_ts": session.start_ns, "end_ts": session.end_ns, "current_ts": session.clock_ns}
    return {"session_id": session.id, **{name: moment_text(ns) for name, ns in moments.items()}}


def event_shown(event: Event) -> types.EventShown:
    """An event: money in dollars, moments as texts, names without their units."""
    return _row(types.EventShown, event, ts=moment_text(event.ts_ns), data=_in_dollars(msgspec.to_builtins(event.data)))


def bar_shown(hours: TradingHours, instrument: Instrument, bars: Bars, frequency: Frequency) -> types.BarShown:
    """Bar of a table of one row."""
    start_ns = int(bars.start_ns[0])
    if frequency == "1m":
        end_ns = start_ns + MINUTE
    else:
        row, end_ns = hours.row_of(day_of(start_ns)), hours.close_of(day_of(start_ns))
        start_ns = start_ns if row is None else int(hours.open_ns[row])
    return types.BarShown(
        instrument_id=instrument.id,
        instrument=named(instrument),
        start_ts=moment_text(start_ns),
        end_ts=moment_text(end_ns),
        volume=int(bars.volume[0]),
        **{name: dollars(int(getattr(bars, f"{name}_e4")[0])) for name in ("open", "high", "low", "close")},
    )


def to_csv(rows: Sequence[msgspec.Struct], columns: Sequence[str]) -> str:
    """Rows as CSV (RFC 4180) with a line of names; an instrument is its symbol, null is empty."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(getattr(row, name)) for name in columns] for row in rows)
    return target.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, NamedInstrument):
        return value.symbol or value.contract
    return "" if value is None else value


def _in_dollars(data: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    converted: dict[str, JsonValue] = {}
    for name, value in data.items():
        if name == "order":
            converted[name] = {("order_id" if key == "id" else key): part for key, part in _in_dollars(value).items()}
        elif name == "bar":
            prices = zip(("open", "high", "low", "close"), value)
            converted[name] = {key: dollars(price) for key, price in prices} | {"volume": value[4]}
        elif name.endswith("_e4"):
            converted[name.removesuffix("_e4")] = maybe_dollars(value)
        elif name.endswith("_ns"):
            converted[name.removesuffix("_ns") + "_ts"] = None if value is None else moment_text(value)
        else:
            converted[name] = value
    return converted


# ---- figures of a session: sums are exact, only ratios of them are floats


def summary_shown(engine: Engine, session: Session) -> Any:
    """Figures of a session so far."""
    state, log = engine.state, engine.log
    trades = [trade for trade in state.trades if trade.session_id == session.id]
    last = len(log.entries) if session.last_seq is None else session.last_seq
    paid = {"FEE": 0, "INTEREST": 0, "BORROW_FEE": 0, "DIVIDEND": 0}
    for entry in state.cash_entries:
        if entry.account_id == session.account_id and session.first_seq < entry.seq <= last and entry.kind in paid:
            paid[entry.kind] += entry.amount_e4
    facts = SessionFacts(
        session.start_equity_e4,
        _closes(engine, session),
        TRADING_DAYS.get(engine.reference.dataset.info.calendar, 252),
        traded_value_e4=sum(abs(trade.value_e4) for trade in trades),
        num_trades=len(trades),
        num_orders=session.accepted + session.rejected,
        num_rejected=session.rejected,
        num_actions=sum(given.get("session_id") == session.id for _, given in log.commands()),
        num_invalid=session.refused,
        margin_call_count=session.margin_calls,
        fees_paid_e4=-paid["FEE"],
        interest_e4=-paid["INTEREST"],
        borrow_fees_e4=-paid["BORROW_FEE"],
        dividends_e4=paid["DIVIDEND"],
    )
    figures = msgspec.structs.asdict(summarise(facts))
    return types.SummaryShown(account_id=session.account_id, status=session.status, **_span(session), **figures)


def _closes(engine: Engine, session: Session) -> tuple[int, ...]:
    """Equity at the closes of the session's days; at last that of a day which is not over, or was not when it ended."""
    state, hours = engine.state, engine.hours
    closes = [close.equity_e4 for close in state.days[session.account_id] if close.session_id == session.id]
    row = int(np.searchsorted(hours.close_ns, session.clock_ns))
    if int(hours.open_ns[row]) < session.clock_ns < int(hours.close_ns[row]):
        equity = session.end_equity_e4
        closes.append(equity_e4(state.accounts[session.account_id], engine.marks()) if equity is None else equity)
    return tuple(closes)


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Facts that a session's figures are made of. Fees and interest are paid ones, positive; dividends received less paid."""

    start_equity_e4: int  # base of the first return
    closes_e4: tuple[int, ...]  # equity at the closes of trading days; the last may be an unfinished day's latest
    days_a_year: int = 252  # trading days, by which figures are annualised
    traded_value_e4: int = 0  # sum of |price × qty × multiplier| of all trades
    num_trades: int = 0
    num_orders: int = 0  # sent: accepted and rejected
    num_rejected: int = 0
    num_actions: int = 0  # commands sent
    num_invalid: int = 0  # commands refused
    margin_call_count: int = 0
    fees_paid_e4: int = 0
    interest_e4: int = 0
    borrow_fees_e4: int = 0
    dividends_e4: int = 0


def summarise(facts: SessionFacts) -> types.Figures:
    """Work out the figures.

    * total_return: final equity / equity at the start − 1.
    * annualised_volatility: sample standard deviation of daily returns × √days a year.
    * sharpe: mean / sample standard deviation of daily returns × √days a year, over a rate of 0.
    * max_drawdown: greatest fall from a running peak, as a positive fraction of the peak; the start counts as a peak.
    * turnover: traded value (purchases and sales) / mean equity at the closes; not annualised.
    * reject_rate, invalid_action_rate: rejected orders / orders, refused commands / commands.

    A figure that is not defined is null, with its reason under `undefined`: {name: words}.
    """
    equity = [facts.start_equity_e4, *facts.closes_e4]
    returns, no_base = _daily_returns(equity), "equity was not positive at the start"
    figures: dict[str, float | str] = {
        "total_return": equity[-1] / equity[0] - 1 if equity[0] > 0 else no_base,
        "annualised_volatility": returns if isinstance(returns, str) else _deviation(returns) * math.sqrt(facts.days_a_year),
        "sharpe": _sharpe(returns, facts.days_a_year),
        "max_drawdown": _max_drawdown(equity) if equity[0] > 0 else no_base,
        "turnover": _turnover(facts),
        "reject_rate": facts.num_rejected / facts.num_orders if facts.num_orders else "no order was sent",
        "invalid_action_rate": facts.num_invalid / facts.num_actions if facts.num_actions else "no command was sent",
    }
    return _row(
        types.Figures,
        facts,
        final_equity=dollars(equity[-1]),
        **{name: None if isinstance(figure, str) else figure for name, figure in figures.items()},
        num_days=len(facts.closes_e4),
        undefined={name: figure for name, figure in figures.items() if isinstance(figure, str)},
    )


def _daily_returns(equity: list[int]) -> npt.NDArray[np.float64] | str:
    """Returns from close to close, the first from the start; or why there are none."""
    if len(equity) < 3:
        return "there are less than two daily returns"
    if min(equity[:-1]) <= 0:
        return "equity was not positive at a close, so returns are not defined"
    levels = np.array(equity, np.float64)
    return levels[1:] / levels[:-1] - 1


def _deviation(returns: npt.NDArray[np.float64]) -> float:
    return float(np.std(returns, ddof=1))


def _sharpe(returns: npt.NDArray[np.float64] | str, days_a_year: int) -> float | str:
    if isinstance(returns, str):
        return returns
    if (deviation := _deviation(returns)) < _ZERO_VOLATILITY:
        return "daily returns do not vary"
    return float(np.mean(returns)) / deviation * math.sqrt(days_a_year)


def _max_drawdown(equity: list[int]) -> float:
    levels = np.array(equity, np.float64)
    return float(np.max(1 - levels / np.maximum.accumulate(levels)))


def _turnover(facts: SessionFacts) -> float | str:
    if not facts.closes_e4:
        return "no day was closed"
    mean = sum(facts.closes_e4) / len(facts.closes_e4)
    return facts.traded_value_e4 / mean if mean > 0 else "mean equity was not positive"
