"""Broker state in the form of answers: accounts, positions, orders, trades, sessions, events and
figures, with amounts in dollars and times as strings.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ktdeval.values import JsonValue
from ktdeval_qfinzero.data.rows import E4, Bars
from ktdeval_qfinzero.pmb import answers, arguments
from ktdeval_qfinzero.pmb.broker_types import (
    Account,
    Bar,
    CashKind,
    Frequency,
    Instrument,
    NamedInstrument,
    Order,
    Position,
    Session,
    Trade,
)
from ktdeval_qfinzero.pmb.engine_state import Engine
from ktdeval_qfinzero.pmb.margin import equity_e4, margin_state
from ktdeval_qfinzero.pmb.placement import reserved_e4
from ktdeval_qfinzero.pmb.state_events import BrokerEvent, BrokerState, DayClosed
from ktdeval_qfinzero.timestamps import MINUTE, day_of, moment_text
from ktdeval_qfinzero.trading_hours import TradingHours

TRADING_DAYS = {"24/7": 365}
"""Trading days per year by calendar, 252 for other calendars; used to annualise volatility and the
Sharpe ratio.
"""
_ZERO_VOLATILITY = 1e-12
"""Daily volatility below which returns count as equal. It is above the rounding error of floats and
below a cent on a billion dollars.
"""


#: (suffix of a shown name, suffix of its attribute), in lookup order
_UNITS: Final = (("", "_e4"), ("_price", "_e4"), ("_ts", "_ns"), ("", "_ns"), ("", ""))
_BAR_FIELDS: Final = ("open", "high", "low", "close", "volume")

Shown = TypeVar("Shown", bound=msgspec.Struct)


def dollars(amount_e4: int) -> float:
    """Convert ten-thousandths of a dollar to dollars."""
    return round(amount_e4 / E4, 4)


def maybe_dollars(amount_e4: int | None) -> float | None:
    """Convert ten-thousandths of a dollar to dollars; None stays None."""
    return None if amount_e4 is None else dollars(amount_e4)


def _source_of(kind: type, name: str) -> str:
    """Return the attribute from which a shown field comes: an amount (`cash` from `cash_e4`,
    `stop_price` from `stop_e4`), a time (`end_ts` from `end_ns`), the attribute of the same name,
    or else the id.
    """
    for shown, stored in _UNITS:
        attribute = name.removesuffix(shown) + stored
        if name.endswith(shown) and hasattr(kind, attribute):
            return attribute
    return "id"


def view(shape: type[Shown], value: Any, /, **own: Any) -> Shown:
    """Show a value in the form of an answer, with amounts in dollars and times as strings. Missing
    fields are null, or absent where allowed.

    `own`: fields that do not come from the value.
    """
    fields = shape.__struct_fields__
    optional = fields[len(fields) - len(shape.__struct_defaults__) :]
    for name in fields:
        if name not in own:
            source = _source_of(type(value), name)
            shown = _in_words(source, getattr(value, source))
            if shown not in (None, "") or name not in optional:
                own[name] = None if shown == "" else shown

    return shape(**own)


def _in_words(attribute: str, value: Any) -> Any:
    """Return an attribute's value in dollars, as a time string, or in the form that calls use."""
    if isinstance(value, Instrument):
        return name_instrument(value)
    if attribute.endswith("_e4"):
        return maybe_dollars(value)
    if attribute.endswith("_ns"):
        return None if value is None else moment_text(value)
    return value


def account_shown(engine: Engine, account: Account) -> answers.AccountShown:
    """Return an account at the last prices."""
    session = engine.session
    today = engine.hours.session_day(engine.now_ns + 1)
    margin = margin_state(account, engine.marks(), engine.rules_of(account), today)

    held = [position for position in account.positions.values() if position.qty]
    value_e4 = margin.long_value_e4 - margin.short_value_e4
    cost_e4 = sum(position.cost_e4 for position in held)
    realized_e4 = sum(position.realized_e4 for position in account.positions.values())
    due = account.margin_call_due
    runs = session is not None and session.account_id == account.id

    return view(
        answers.AccountShown,
        account,
        account_type=account.type,
        base_currency=engine.reference.dataset.info.currency,
        opened_at=moment_text(account.opened_ns),
        session_id=session.id if session is not None and runs else None,
        unsettled_cash=dollars(account.cash_e4 - account.settled_e4(today)),
        equity=dollars(margin.equity_e4),
        long_value=dollars(margin.long_value_e4),
        short_value=dollars(margin.short_value_e4),
        initial_requirement=dollars(margin.initial_e4),
        maintenance_requirement=dollars(margin.maintenance_e4),
        reserved=dollars(reserved_e4(engine, account.id)),
        buying_power=dollars(margin.buying_power_e4),
        margin_status="OK" if due is None else "MARGIN_CALL",
        margin_call_due=None if due is None else due.isoformat(),
        realized_pnl=dollars(realized_e4),
        unrealized_pnl=dollars(value_e4 - cost_e4),
        total_pnl=dollars(margin.equity_e4 - account.initial_cash_e4),
        num_positions=len(held),
        num_open_orders=_count_working(engine.state, "account_id", account.id),
    )


def _count_working(state: BrokerState, name: str, own_id: str) -> int:
    return sum(getattr(order, name) == own_id for order in state.working.values())


def position_shown(position: Position, mark_e4: int) -> answers.PositionShown:
    """Return a position that is not flat, at the last price."""
    instrument = position.instrument
    units = position.qty * instrument.multiplier
    value_e4 = position.value_e4(mark_e4)

    return view(
        answers.PositionShown,
        position,
        instrument_id=instrument.id,
        avg_price=round(position.cost_e4 / units / E4, 6),
        mark_price=dollars(mark_e4),
        market_value=dollars(value_e4),
        unrealized_pnl=dollars(value_e4 - position.cost_e4),
        realized_pnl=dollars(position.realized_e4),
    )


def name_instrument(instrument: Instrument) -> NamedInstrument:
    """Return an instrument in the form that calls use."""
    if instrument.kind == "STOCK":
        return NamedInstrument(instrument.kind, symbol=instrument.symbol)
    return NamedInstrument(instrument.kind, contract=instrument.symbol)


def order_shown(order: Order) -> answers.OrderShown:
    """Return an order and its outcome."""
    avg_fill_price = None
    if order.filled_qty:
        avg_fill_price = round(order.filled_value_e4 / order.filled_qty / E4, 6)

    created_at = moment_text(order.accepted_ns)
    return view(answers.OrderShown, order, created_at=created_at, avg_fill_price=avg_fill_price)


def trade_shown(trade: Trade) -> answers.TradeShown:
    """Return an execution."""
    return view(answers.TradeShown, trade, value=dollars(abs(trade.value_e4)))


def day_shown(close: DayClosed) -> answers.DayShown:
    """Return an account at the close of a day."""
    required = dollars(close.maintenance_e4)
    return view(answers.DayShown, close, date=close.day, maintenance_requirement=required)


def session_shown(state: BrokerState, session: Session) -> answers.SessionShown:
    """Return a session: its clock, state and rules."""
    return view(
        answers.SessionShown,
        session,
        current_ts=moment_text(session.clock_ns),
        universe=arguments.Universe(stocks=list(session.stocks), options=list(session.options)),
        execution_config=session.rules,
        num_orders=session.accepted + session.rejected,
        num_open_orders=_count_working(state, "session_id", session.id),
        num_rejected=session.rejected,
        num_refused_commands=session.refused,
        margin_call_count=session.margin_calls,
    )


def event_shown(event: BrokerEvent) -> answers.EventShown:
    """Return an event with amounts in dollars, times as strings, and names without units."""
    return view(answers.EventShown, event, data=_in_dollars(msgspec.to_builtins(event.data)))


def bar_shown(
    hours: TradingHours, instrument: Instrument, bars: Bars, frequency: Frequency
) -> answers.BarShown:
    """Return the bar in a one-row table."""
    start_ns = int(bars.start_ns[0])
    if frequency == "1m":
        end_ns = start_ns + MINUTE
    else:
        row = hours.row_of(day_of(start_ns))
        end_ns = hours.close_of(day_of(start_ns))
        start_ns = start_ns if row is None else int(hours.open_ns[row])

    figures = [int(bars.price_e4(name)[0]) for name in _BAR_FIELDS[:-1]]
    figures.append(int(bars.volume[0]))
    return view(
        answers.BarShown,
        Bar(*figures),
        instrument_id=instrument.id,
        instrument=name_instrument(instrument),
        start_ts=moment_text(start_ns),
        end_ts=moment_text(end_ns),
    )


def to_csv(rows: Sequence[msgspec.Struct], columns: Sequence[str]) -> str:
    """Return rows as CSV (RFC 4180) with a header line. Instruments are written as symbols, nulls
    as empty cells.
    """
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_csv_cell(getattr(row, name)) for name in columns])

    return target.getvalue()


def _csv_cell(value: object) -> object:
    if isinstance(value, NamedInstrument):
        return value.symbol or value.contract
    return "" if value is None else value


def _in_dollars(data: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an event's fields with names without units, amounts in dollars and times as
    strings.
    """
    converted: dict[str, JsonValue] = {}
    for name, value in data.items():
        if name == "order" and isinstance(value, Mapping):
            order = _in_dollars(value)
            converted[name] = {"order_id" if own == "id" else own: order[own] for own in order}
        elif name == "bar" and isinstance(value, list):
            prices = map(dollars, value[:-1])
            converted[name] = dict(zip(_BAR_FIELDS, (*prices, value[-1]), strict=True))
        else:
            shown = name.removesuffix("_e4")
            if name.endswith("_ns"):
                shown = f"{name.removesuffix('_ns')}_ts"
            converted[shown] = _in_words(name, value)

    return converted


# ---- session metrics: sums are exact, only ratios are floats


def summary_shown(engine: Engine, session: Session) -> answers.SummaryShown:
    """Return the figures of a session so far."""
    state = engine.state
    trades = [trade for trade in state.trades if trade.session_id == session.id]
    commands = engine.log.commands()
    sent = [given for _, given in commands if given.get("session_id") == session.id]
    paid = _payments(engine, session)

    facts = SessionFacts(
        session.start_equity_e4,
        _closes(engine, session),
        TRADING_DAYS.get(engine.reference.dataset.info.calendar, 252),
        traded_value_e4=sum(abs(trade.value_e4) for trade in trades),
        num_trades=len(trades),
        num_orders=session.accepted + session.rejected,
        num_rejected=session.rejected,
        num_actions=len(sent),
        num_invalid=session.refused,
        margin_call_count=session.margin_calls,
        fees_paid_e4=-paid["FEE"],
        interest_e4=-paid["INTEREST"],
        borrow_fees_e4=-paid["BORROW_FEE"],
        dividends_e4=paid["DIVIDEND"],
    )
    figures = msgspec.structs.asdict(summarise(facts))
    current_ts = moment_text(session.clock_ns)
    return view(answers.SummaryShown, session, current_ts=current_ts, **figures)


def _payments(engine: Engine, session: Session) -> Mapping[CashKind, int]:
    """Return the sum of each kind of payment during a session; negative amounts were paid out."""
    last = len(engine.log.entries) if session.last_seq is None else session.last_seq
    sums: dict[CashKind, int] = {"FEE": 0, "INTEREST": 0, "BORROW_FEE": 0, "DIVIDEND": 0}
    for entry in engine.state.cash_entries:
        is_own = entry.account_id == session.account_id
        if is_own and session.first_seq < entry.seq <= last and entry.kind in sums:
            sums[entry.kind] += entry.amount_e4

    return sums


def _closes(engine: Engine, session: Session) -> tuple[int, ...]:
    """Return the equity at the closes of the session's days. If a day is unfinished, or was
    unfinished when the session ended, its latest equity is added.
    """
    state = engine.state
    hours = engine.hours
    closes = [
        close.equity_e4
        for close in state.days[session.account_id]
        if close.session_id == session.id
    ]
    row = int(np.searchsorted(hours.close_ns, session.clock_ns))

    if int(hours.open_ns[row]) < session.clock_ns < int(hours.close_ns[row]):
        equity = session.end_equity_e4
        closes.append(
            equity_e4(state.accounts[session.account_id], engine.marks())
            if equity is None
            else equity
        )

    return tuple(closes)


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Inputs to a session's metrics. Fees and interest are amounts paid, as positive numbers.
    Dividends are amounts received less amounts paid.
    """

    start_equity_e4: int  # base of the first return
    # equity at the closes of trading days; the last may be the latest equity of an unfinished day
    closes_e4: tuple[int, ...]
    days_a_year: int = 252  # trading days per year, for annualisation
    traded_value_e4: int = 0  # sum of |price × qty × multiplier| over all trades
    num_trades: int = 0
    num_orders: int = 0  # orders sent: accepted and rejected
    num_rejected: int = 0
    num_actions: int = 0  # commands sent
    num_invalid: int = 0  # commands refused
    margin_call_count: int = 0
    fees_paid_e4: int = 0
    interest_e4: int = 0
    borrow_fees_e4: int = 0
    dividends_e4: int = 0


def summarise(facts: SessionFacts) -> answers.Figures:
    """Compute the metrics of a session.

    * total_return: final equity / start equity − 1.
    * annualised_volatility: sample standard deviation of daily returns × √(days per year).
    * sharpe: mean / sample standard deviation of daily returns × √(days per year), with a risk-free
      rate of 0.
    * max_drawdown: largest decline from a running peak, as a positive fraction of the peak; the
      start counts as a peak.
    * turnover: traded value (purchases and sales) / mean equity at the closes; not annualised.
    * reject_rate, invalid_action_rate: rejected orders / orders, refused commands / commands.

    An undefined figure is null, with the reason under `undefined`: {name: reason}.
    """
    equity = [facts.start_equity_e4, *facts.closes_e4]
    returns = _daily_returns(equity)
    figures: dict[str, float | str] = {
        "total_return": _total_return(equity),
        "annualised_volatility": _volatility(returns, facts.days_a_year),
        "sharpe": _sharpe(returns, facts.days_a_year),
        "max_drawdown": _max_drawdown(equity),
        "turnover": _turnover(facts),
        "reject_rate": _rate(facts.num_rejected, facts.num_orders, "order"),
        "invalid_action_rate": _rate(facts.num_invalid, facts.num_actions, "command"),
    }
    defined: dict[str, float | None] = dict.fromkeys(figures)
    undefined: dict[str, str] = {}
    for name, figure in figures.items():
        if isinstance(figure, str):
            undefined[name] = figure
        else:
            defined[name] = figure

    return view(
        answers.Figures,
        facts,
        final_equity=dollars(equity[-1]),
        num_days=len(facts.closes_e4),
        undefined=undefined,
        **defined,
    )


_NO_BASE = "equity was not positive at the start"


def _rate(count: int, of: int, what: str) -> float | str:
    return count / of if of else f"no {what} was sent"


def _total_return(equity: list[int]) -> float | str:
    return equity[-1] / equity[0] - 1 if equity[0] > 0 else _NO_BASE


def _daily_returns(equity: list[int]) -> npt.NDArray[np.float64] | str:
    """Return the returns from close to close, with the first from the start; or the reason why they
    are undefined.
    """
    if len(equity) < 3:
        return "there are less than two daily returns"
    if min(equity[:-1]) <= 0:
        return "equity was not positive at a close, so returns are not defined"

    levels = np.array(equity, np.float64)
    return levels[1:] / levels[:-1] - 1


def _deviation(returns: npt.NDArray[np.float64]) -> float:
    return float(np.std(returns, ddof=1))


def _volatility(returns: npt.NDArray[np.float64] | str, days_a_year: int) -> float | str:
    if isinstance(returns, str):
        return returns
    return _deviation(returns) * math.sqrt(days_a_year)


def _sharpe(returns: npt.NDArray[np.float64] | str, days_a_year: int) -> float | str:
    if isinstance(returns, str):
        return returns

    deviation = _deviation(returns)
    if deviation < _ZERO_VOLATILITY:
        return "daily returns do not vary"

    return float(np.mean(returns)) / deviation * math.sqrt(days_a_year)


def _max_drawdown(equity: list[int]) -> float | str:
    if equity[0] <= 0:
        return _NO_BASE
    levels = np.array(equity, np.float64)
    return float(np.max(1 - levels / np.maximum.accumulate(levels)))


def _turnover(facts: SessionFacts) -> float | str:
    if not facts.closes_e4:
        return "no day was closed"
    mean = sum(facts.closes_e4) / len(facts.closes_e4)
    return facts.traded_value_e4 / mean if mean > 0 else "mean equity was not positive"
