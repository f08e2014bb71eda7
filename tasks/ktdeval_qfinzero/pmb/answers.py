"""Answers of the broker: accounts, positions, orders, trades and sessions in dollars and moments."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ktdeval_qfinzero.pmb.arguments import NamedInstrument, TradeSide, Universe
from ktdeval_qfinzero.pmb.events import EventType
from ktdeval_qfinzero.pmb.values import AccountType, Frequency, OrderStatus, OrderType, Rules, SessionStatus, TimeInForce
from ktdeval_qfinzero.schemas import Answer, Day, Moment, NextCursor, Row, Shown, Unknown, joined, said

Id = Annotated[str, said("Id.")]
Count = Annotated[int, said("How many.")]
ShownInstrument = Annotated[NamedInstrument, said("A stock by symbol, or an option by contract.")]
ShownRules = Annotated[Rules, said("How orders fill, what they cost, and how margin works; what is left out is as by default.")]


class AccountShown(Row):
    """An account at the last prices."""

    account_id: Id
    account_type: Annotated[AccountType, said("MARGIN or CASH.")]
    base_currency: Annotated[str, said("Currency of the market.")]
    opened_at: Moment
    session_id: Annotated[str | None, said("The account's running session.")]
    initial_cash: Annotated[float, said("Paid in.")]
    cash: Annotated[float, said("Proceeds of short sales among it; negative: borrowed.")]
    unsettled_cash: Annotated[float, said("Of sales that have not settled; CASH accounts can't buy with it.")]
    equity: Annotated[float, said("Cash and market value of all positions.")]
    long_value: Annotated[float, said("Market value of long positions.")]
    short_value: Annotated[float, said("Market value of short positions, positive.")]
    initial_requirement: Annotated[float, said("What equity must reach to open positions.")]
    maintenance_requirement: Annotated[float, said("What equity must reach to keep them.")]
    reserved: Annotated[float, said("What working orders tie up.")]
    buying_power: Annotated[float, said("What new long stock could be bought for, without regard to working orders.")]
    margin_status: Annotated[Literal["OK", "MARGIN_CALL"], said("Whether there is a margin call.")]
    margin_call_due: Annotated[str | None, said("Trading day at whose close an unmet call is liquidated.")]
    realized_pnl: Annotated[float, said("Profit of what was closed, before fees.")]
    unrealized_pnl: Annotated[float, said("Profit of what is held.")]
    fees: Annotated[float, said("Paid.")]
    interest: Annotated[float, said("Paid on borrowed cash.")]
    borrow_fees: Annotated[float, said("Paid on shares sold short.")]
    dividends: Annotated[float, said("Received less paid on short positions.")]
    total_pnl: Annotated[float, said("Equity less what was paid in.")]
    num_positions: Count
    num_open_orders: Count


class PositionShown(Row):
    """A position that is not flat, at the last price."""

    instrument_id: Id
    instrument: ShownInstrument
    qty: Annotated[int, said("Negative when short.")]
    avg_price: Annotated[float, said("Average cost of a unit, fees aside.")]
    mark_price: Annotated[float, said("Last price.")]
    market_value: Annotated[float, said("At the last price; negative when short.")]
    cost: Annotated[float, said("What the units cost; negative: brought.")]
    unrealized_pnl: Annotated[float, said("Market value less cost.")]
    realized_pnl: Annotated[float, said("Of units that are gone.")]


class OrderShown(Row):
    """An order and what became of it."""

    order_id: Id
    client_order_id: Annotated[str | None, said("Null where there is none.")]
    account_id: Id
    session_id: Id
    instrument: ShownInstrument
    side: TradeSide
    order_type: Annotated[OrderType, said("Type.")]
    qty: Count
    limit_price: Annotated[float | None, said("Worst price.")]
    stop_price: Annotated[float | None, said("Price that triggers.")]
    time_in_force: Annotated[TimeInForce, said("How long it works.")]
    expire_ts: Annotated[str | None, said("When it expires, of DAY and GTD orders.")]
    created_at: Moment
    status: Annotated[OrderStatus, said("What became of it.")]
    triggered: Annotated[bool, said("Whether its stop was reached.")]
    filled_qty: Count
    open_qty: Count
    avg_fill_price: Annotated[float | None, said("Average price of its fills.")]
    reason: Annotated[str | None, said("Why it was rejected, cancelled or expired.")]
    replaces: Annotated[str | None, said("Order that it took the place of.")]
    replaced_by: Annotated[str | None, said("Order that took its place.")]
    spread_id: Annotated[str | None, said("Spread that it is a leg of.")]
    forced: Annotated[bool, said("Whether the broker placed it to meet a margin call.")]
    take_profit_price: Annotated[float, said("Of its bracket.")] | UnsetType = UNSET
    stop_loss_price: Annotated[float, said("Of its bracket.")] | UnsetType = UNSET
    parent_id: Annotated[str, said("Order whose fill sent it.")] | UnsetType = UNSET
    oco_id: Annotated[str, said("First order of its group: what fills of one is taken from the others.")] | UnsetType = UNSET


class TradeShown(Row):
    """An execution."""

    trade_id: Id
    ts: Moment
    order_id: Id
    account_id: Id
    session_id: Id
    instrument: ShownInstrument
    side: TradeSide
    qty: Count
    price: Annotated[float, said("Price of a unit.")]
    value: Annotated[float, said("Price times units times shares of a unit.")]
    fee: Annotated[float, said("Fee.")]


class DayShown(Row):
    """An account at a day's close."""

    date: Day
    session_id: Annotated[str | None, said("Session that was running.")]
    cash: Annotated[float, said("Negative: borrowed.")]
    equity: Annotated[float, said("Cash and market value of all positions.")]
    long_value: Annotated[float, said("Of long positions.")]
    short_value: Annotated[float, said("Of short positions, positive.")]
    maintenance_requirement: Annotated[float, said("What equity must reach.")]


class SessionShown(Row):
    """A session: its clock, state and rules."""

    session_id: Id
    account_id: Id
    frequency: Annotated[Frequency, said("Distance of ticks.")]
    start_ts: Moment
    end_ts: Moment
    current_ts: Moment
    status: Annotated[SessionStatus, said("State.")]
    universe: Annotated[Universe, said("What the session may trade; at least one.")]
    execution_config: ShownRules
    start_equity: Annotated[float, said("Equity at its creation.")]
    end_equity: Annotated[float | None, said("Equity at its end.")]
    num_orders: Count
    num_open_orders: Count
    num_rejected: Count
    num_refused_commands: Count
    margin_call_count: Count


class EventShown(Row):
    """An event: money in dollars, moments as texts, names without their units."""

    seq: Annotated[int, said("Number in the broker's log.")]
    ts: Moment
    type: Annotated[EventType, said("What happened.")]
    data: Annotated[dict[str, Any], said("What belongs to it, in dollars.")]


class ClockShown(Row):
    """A session's clock."""

    prev_ts: Moment
    current_ts: Moment
    frequency: Annotated[Frequency, said("Distance of ticks.")]
    status: Annotated[SessionStatus, said("State of the session.")]


class BarShown(Row):
    """Last complete bar of an instrument."""

    instrument_id: Id
    instrument: ShownInstrument
    start_ts: Moment
    end_ts: Moment
    open: Annotated[float, said("Price, in dollars.")]
    high: Annotated[float, said("Price, in dollars.")]
    low: Annotated[float, said("Price, in dollars.")]
    close: Annotated[float, said("Price, in dollars.")]
    volume: Annotated[int, said("Shares or contracts traded.")]


class BorrowShown(Row):
    """Locate of a stock."""

    ticker: Id
    available_shares: Annotated[int, said("Shares that can be borrowed in all; 0 where nothing is known.")]
    fee_bps_per_year: Annotated[float | None, said("Fee a year, in hundredths of a percent of the market value.")]
    known_since: Annotated[str | None, said("From when on this holds.")]


# ---- whole answers

ShownAccount = Annotated[AccountShown, said("An account at the last prices.")]
ShownOrder = Annotated[OrderShown, said("An order.")]
ShownSession = Annotated[SessionShown, said("A session.")]
Orders = Annotated[list[ShownOrder], said("Orders, oldest first.")]
ShownTrade = Annotated[TradeShown, said("An execution.")]
Trades = Annotated[list[ShownTrade], said("Trades, oldest first.")]
ShownEvent = Annotated[EventShown, said("An event.")]
Status = Annotated[OrderStatus, said("What became of the order.")]
Reason = Annotated[str | None, said("Why it was rejected, cancelled or expired.")]
Idempotent = Annotated[bool, said("Whether the order was known already by its client_order_id.")]
Closes = list[Annotated[DayShown, said("The account at a day's close.")]]


class AccountCreated(Answer):
    """A new account."""

    account_id: Id
    account: ShownAccount


class AccountAnswer(Answer):
    """An account."""

    account: ShownAccount


class Accounts(Answer):
    """All accounts."""

    accounts: Annotated[list[ShownAccount], said("Accounts, oldest first.")]


class Positions(Answer):
    """Positions of an account."""

    account_id: Id
    positions: Annotated[list[Annotated[PositionShown, said("A position.")]], said("Positions by instrument id.")]


class OrdersPage(Answer):
    """A page of orders."""

    account_id: Id
    orders: Orders
    next_cursor: NextCursor


class TradesPage(Answer):
    """A page of trades."""

    account_id: Id
    trades: Trades
    next_cursor: NextCursor


class HistoryPage(Answer):
    """A page of closes."""

    account_id: Id
    history: Annotated[Closes, said("Closes, oldest first.")]
    next_cursor: NextCursor


class SessionAnswer(Answer):
    """A session and its account."""

    session_id: Id
    account_id: Id
    session: ShownSession
    account: ShownAccount


class Stepped(Answer):
    """Outcome of a step."""

    session_id: Id
    clock: Annotated[ClockShown, said("The session's clock.")]
    events: Annotated[list[ShownEvent], said("What happened, in order.")]
    account: ShownAccount


class Market(Answer):
    """Last bars of a session's universe."""

    session_id: Id
    frequency: Annotated[Frequency, said("Length of the bars.")]
    bars: Annotated[list[BarShown], said("Last bars, stocks first.")]
    without_bar: Annotated[list[Id], said("Ids of instruments that have had no bar yet.")]


class OrderAnswer(Answer):
    """An order."""

    order_id: Id
    client_order_id: Annotated[str | None, said("Your own id of the order.")]
    status: Status
    reason: Reason
    order: ShownOrder


class OrderPlaced(Answer):
    """An order that was sent."""

    order_id: Id
    client_order_id: Annotated[str | None, said("Your own id of the order.")]
    status: Status
    reason: Reason
    idempotent: Idempotent
    order: ShownOrder


class OrderModified(Answer):
    """An order that took the place of another."""

    order_id: Id
    client_order_id: Annotated[str | None, said("Your own id of the order.")]
    status: Status
    reason: Reason
    old_order_id: Id
    new_order_id: Id
    order: ShownOrder


class SpreadPlaced(Answer):
    """A spread that was sent."""

    spread_id: Id
    status: Status
    reason: Reason
    orders: Annotated[list[ShownOrder], said("An order for each leg.")]
    idempotent: Idempotent


class Exercised(Answer):
    """Outcome for contracts."""

    account_id: Id
    contract: Id
    do_not_exercise: Annotated[bool, said("Whether exercise at expiry is forbidden.")]
    events: Annotated[list[ShownEvent], said("What happened.")]


class _SessionSpan(Row):
    """A session that figures are of."""

    session_id: Id
    account_id: Id
    status: Annotated[SessionStatus, said("State of the session.")]
    start_ts: Moment
    end_ts: Moment
    current_ts: Moment


_Figure = Annotated[float | None, said("Null where it is not defined; `undefined` says why.")]
_Money = Annotated[float, said("Dollars.")]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a session: money in dollars, rates as fractions."""

    start_equity: _Money
    final_equity: _Money
    total_return: _Figure
    annualised_volatility: _Figure
    sharpe: _Figure
    max_drawdown: _Figure
    turnover: _Figure
    reject_rate: _Figure
    invalid_action_rate: _Figure
    fees_paid: _Money
    interest: _Money
    borrow_fees: _Money
    dividends: _Money
    num_days: Count
    num_orders: Count
    num_trades: Count
    margin_call_count: Count
    undefined: Annotated[dict[str, str], said("Figure that is null -> why.")]


SummaryShown: Final = joined("SummaryShown", _SessionSpan, Figures)
"""Figures of a session."""
SummaryAnswer: Final = joined("SummaryAnswer", Answer, SummaryShown)


class Export(Answer):
    """Everything of a session."""

    session_id: Id
    format: Annotated[Literal["json", "csv"], said("Form of the tables.")]
    session: ShownSession
    log_lines: Annotated[int, said("Lines of the broker's log so far.")]
    log_hash: Annotated[str, said("Hash of the log's last line, which stands for all lines.")]
    summary: Annotated[Any, Shown(SummaryShown, listed=False)]
    orders: Annotated[list[ShownOrder], said("Orders, oldest first; of json.")] | UnsetType = UNSET
    trades: Annotated[list[ShownTrade], said("Trades, oldest first; of json.")] | UnsetType = UNSET
    history: Annotated[Closes, said("Closes of days; of json.")] | UnsetType = UNSET
    files: Annotated[dict[str, str], said("File name -> text: orders.csv, trades.csv, history.csv; of csv.")] | UnsetType = UNSET


class Borrow(Answer):
    """Locates of stocks."""

    borrow: Annotated[list[BorrowShown], said("In the order asked for.")]
    unknown: Unknown
