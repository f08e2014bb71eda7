"""Answers of the broker's operations, in dollars and moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ktdeval_qfinzero.pmb.arguments import Form, ShownRules, TradeSide, Universe
from ktdeval_qfinzero.pmb.broker_types import (
    AccountType,
    Frequency,
    NamedInstrument,
    OrderStatus,
    OrderType,
    SessionStatus,
    TimeInForce,
)
from ktdeval_qfinzero.pmb.state_events import EventType
from ktdeval_qfinzero.schemas import Answer, AsOf, Day, Moment, Page, Unknown, described

MarginStatus = Literal["OK", "MARGIN_CALL"]
Id = Annotated[str, described("Id.")]
Count = Annotated[int, described("How many.")]
ShownInstrument = Annotated[
    NamedInstrument, described("A stock by symbol, or an option by contract.")
]


class AccountShown(msgspec.Struct):
    """An account at the last prices."""

    account_id: Id
    account_type: Annotated[AccountType, described("MARGIN or CASH.")]
    base_currency: Annotated[str, described("Currency of the market.")]
    opened_at: Moment
    session_id: Annotated[str | None, described("The account's running session.")]
    initial_cash: Annotated[float, described("Paid in.")]
    cash: Annotated[float, described("Proceeds of short sales among it; negative: borrowed.")]
    unsettled_cash: Annotated[
        float, described("Of sales that have not settled; CASH accounts can't buy with it.")
    ]
    equity: Annotated[float, described("Cash and market value of all positions.")]
    long_value: Annotated[float, described("Market value of long positions.")]
    short_value: Annotated[float, described("Market value of short positions, positive.")]
    initial_requirement: Annotated[float, described("What equity must reach to open positions.")]
    maintenance_requirement: Annotated[float, described("What equity must reach to keep them.")]
    reserved: Annotated[float, described("What working orders tie up.")]
    buying_power: Annotated[
        float,
        described("What new long stock could be bought for, without regard to working orders."),
    ]
    margin_status: Annotated[MarginStatus, described("Whether there is a margin call.")]
    margin_call_due: Annotated[
        str | None, described("Trading day at whose close an unmet call is liquidated.")
    ]
    realized_pnl: Annotated[float, described("Profit of what was closed, before fees.")]
    unrealized_pnl: Annotated[float, described("Profit of what is held.")]
    fees: Annotated[float, described("Paid.")]
    interest: Annotated[float, described("Paid on borrowed cash.")]
    borrow_fees: Annotated[float, described("Paid on shares sold short.")]
    dividends: Annotated[float, described("Received less paid on short positions.")]
    total_pnl: Annotated[float, described("Equity less what was paid in.")]
    num_positions: Count
    num_open_orders: Count


class PositionShown(msgspec.Struct):
    """A position that is not flat, at the last price."""

    instrument_id: Id
    instrument: ShownInstrument
    qty: Annotated[int, described("Negative when short.")]
    avg_price: Annotated[float, described("Average cost of a unit, fees aside.")]
    mark_price: Annotated[float, described("Last price.")]
    market_value: Annotated[float, described("At the last price; negative when short.")]
    cost: Annotated[float, described("What the units cost; negative: brought.")]
    unrealized_pnl: Annotated[float, described("Market value less cost.")]
    realized_pnl: Annotated[float, described("Of units that are gone.")]


class OrderShown(msgspec.Struct):
    """An order and what became of it."""

    order_id: Id
    client_order_id: Annotated[str | None, described("Null where there is none.")]
    account_id: Id
    session_id: Id
    instrument: ShownInstrument
    side: TradeSide
    order_type: Annotated[OrderType, described("Type.")]
    qty: Count
    limit_price: Annotated[float | None, described("Worst price.")]
    stop_price: Annotated[float | None, described("Price that triggers.")]
    time_in_force: Annotated[TimeInForce, described("How long it works.")]
    expire_ts: Annotated[str | None, described("When it expires, of DAY and GTD orders.")]
    created_at: Moment
    status: Annotated[OrderStatus, described("What became of it.")]
    triggered: Annotated[bool, described("Whether its stop was reached.")]
    filled_qty: Count
    open_qty: Count
    avg_fill_price: Annotated[float | None, described("Average price of its fills.")]
    reason: Annotated[str | None, described("Why it was rejected, cancelled or expired.")]
    replaces: Annotated[str | None, described("Order that it took the place of.")]
    replaced_by: Annotated[str | None, described("Order that took its place.")]
    spread_id: Annotated[str | None, described("Spread that it is a leg of.")]
    forced: Annotated[bool, described("Whether the broker placed it to meet a margin call.")]
    take_profit_price: Annotated[float, described("Of its bracket.")] | UnsetType = UNSET
    stop_loss_price: Annotated[float, described("Of its bracket.")] | UnsetType = UNSET
    parent_id: Annotated[str, described("Order whose fill sent it.")] | UnsetType = UNSET
    oco_id: (
        Annotated[
            str, described("First order of its group: what fills of one is taken from the others.")
        ]
        | UnsetType
    ) = UNSET


class TradeShown(msgspec.Struct):
    """An execution."""

    trade_id: Id
    ts: Moment
    order_id: Id
    account_id: Id
    session_id: Id
    instrument: ShownInstrument
    side: TradeSide
    qty: Count
    price: Annotated[float, described("Price of a unit.")]
    value: Annotated[float, described("Price times units times shares of a unit.")]
    fee: Annotated[float, described("Fee.")]


class DayShown(msgspec.Struct):
    """An account at a day's close."""

    date: Day
    session_id: Annotated[str | None, described("Session that was running.")]
    cash: Annotated[float, described("Negative: borrowed.")]
    equity: Annotated[float, described("Cash and market value of all positions.")]
    long_value: Annotated[float, described("Of long positions.")]
    short_value: Annotated[float, described("Of short positions, positive.")]
    maintenance_requirement: Annotated[float, described("What equity must reach.")]


class SessionShown(msgspec.Struct):
    """A session: its clock, state and rules."""

    session_id: Id
    account_id: Id
    frequency: Annotated[Frequency, described("Distance of ticks.")]
    start_ts: Moment
    end_ts: Moment
    current_ts: Moment
    status: Annotated[SessionStatus, described("State.")]
    universe: Annotated[Universe, described("What the session may trade; at least one.")]
    execution_config: ShownRules
    start_equity: Annotated[float, described("Equity at its creation.")]
    end_equity: Annotated[float | None, described("Equity at its end.")]
    num_orders: Count
    num_open_orders: Count
    num_rejected: Count
    num_refused_commands: Count
    margin_call_count: Count


class EventShown(msgspec.Struct):
    """An event: money in dollars, moments as texts, names without their units."""

    seq: Annotated[int, described("Number in the broker's log.")]
    ts: Moment
    type: Annotated[EventType, described("What happened.")]
    data: Annotated[Mapping[str, Any], described("What belongs to it, in dollars.")]


class ClockShown(msgspec.Struct):
    """A session's clock."""

    prev_ts: Moment
    current_ts: Moment
    frequency: Annotated[Frequency, described("Distance of ticks.")]
    status: Annotated[SessionStatus, described("State of the session.")]


class BarShown(msgspec.Struct):
    """Last complete bar of an instrument."""

    instrument_id: Id
    instrument: ShownInstrument
    start_ts: Moment
    end_ts: Moment
    open: Annotated[float, described("Price, in dollars.")]
    high: Annotated[float, described("Price, in dollars.")]
    low: Annotated[float, described("Price, in dollars.")]
    close: Annotated[float, described("Price, in dollars.")]
    volume: Annotated[int, described("Shares or contracts traded.")]


class BorrowShown(msgspec.Struct):
    """Locate of a stock."""

    ticker: Id
    available_shares: Annotated[
        int, described("Shares that can be borrowed in all; 0 where nothing is known.")
    ]
    fee_bps_per_year: Annotated[
        float | None, described("Fee a year, in hundredths of a percent of the market value.")
    ]
    known_since: Annotated[str | None, described("From when on this holds.")]


ShownAccount = Annotated[AccountShown, described("An account at the last prices.")]
ShownOrder = Annotated[OrderShown, described("An order.")]
ShownSession = Annotated[SessionShown, described("A session.")]
Orders = Annotated[list[ShownOrder], described("Orders, oldest first.")]
ShownTrade = Annotated[TradeShown, described("An execution.")]
Trades = Annotated[list[ShownTrade], described("Trades, oldest first.")]
ShownEvent = Annotated[EventShown, described("An event.")]
Status = Annotated[OrderStatus, described("What became of the order.")]
Reason = Annotated[str | None, described("Why it was rejected, cancelled or expired.")]
Idempotent = Annotated[
    bool, described("Whether the order was known already by its client_order_id.")
]
Close = Annotated[DayShown, described("The account at a day's close.")]
Held = Annotated[PositionShown, described("A position.")]


class AccountAnswer(Answer, kw_only=True):
    """An account. Own fields of a subclass come before it."""

    account: ShownAccount


class AccountCreated(AccountAnswer):
    """A new account."""

    account_id: Id


class Accounts(Answer):
    """All accounts."""

    accounts: Annotated[list[ShownAccount], described("Accounts, oldest first.")]


class Positions(Answer):
    """Positions of an account."""

    account_id: Id
    positions: Annotated[list[Held], described("Positions by instrument id.")]


class OrdersPage(Page):
    """A page of orders."""

    account_id: Id
    orders: Orders


class TradesPage(Page):
    """A page of trades."""

    account_id: Id
    trades: Trades


class HistoryPage(Page):
    """A page of closes."""

    account_id: Id
    history: Annotated[list[Close], described("Closes, oldest first.")]


class SessionAnswer(AccountAnswer):
    """A session and its account."""

    session_id: Id
    account_id: Id
    session: ShownSession


class Stepped(AccountAnswer):
    """Outcome of a step."""

    session_id: Id
    clock: Annotated[ClockShown, described("The session's clock.")]
    events: Annotated[list[ShownEvent], described("What happened, in order.")]


class Market(Answer):
    """Last bars of a session's universe."""

    session_id: Id
    frequency: Annotated[Frequency, described("Length of the bars.")]
    bars: Annotated[list[BarShown], described("Last bars, stocks first.")]
    without_bar: Annotated[list[Id], described("Ids of instruments that have had no bar yet.")]


class WithOrder(Answer, kw_only=True):
    """An order. Own fields of a subclass come before it."""

    order: ShownOrder


class OrderAnswer(WithOrder):
    """An order, and what became of it."""

    order_id: Id
    client_order_id: Annotated[str | None, described("Your own id of the order.")]
    status: Status
    reason: Reason


class OrderPlaced(OrderAnswer):
    """An order that was sent."""

    idempotent: Idempotent


class OrderModified(OrderAnswer):
    """An order that took the place of another."""

    old_order_id: Id
    new_order_id: Id


class SpreadPlaced(Answer):
    """A spread that was sent."""

    spread_id: Id
    status: Status
    reason: Reason
    orders: Annotated[list[ShownOrder], described("An order for each leg.")]
    idempotent: Idempotent


class Exercised(Answer):
    """Outcome for contracts."""

    account_id: Id
    contract: Id
    do_not_exercise: Annotated[bool, described("Whether exercise at expiry is forbidden.")]
    events: Annotated[list[ShownEvent], described("What happened.")]


Figure = Annotated[float | None, described("Null where it is not defined; `undefined` says why.")]
Money = Annotated[float, described("Dollars.")]


class Figures(msgspec.Struct, kw_only=True):
    """Figures of a session: money in dollars, rates as fractions."""

    start_equity: Money
    final_equity: Money
    total_return: Figure
    annualised_volatility: Figure
    sharpe: Figure
    max_drawdown: Figure
    turnover: Figure
    reject_rate: Figure
    invalid_action_rate: Figure
    fees_paid: Money
    interest: Money
    borrow_fees: Money
    dividends: Money
    num_days: Count
    num_orders: Count
    num_trades: Count
    margin_call_count: Count
    undefined: Annotated[dict[str, str], described("Figure that is null -> why.")]


class SummaryShown(Figures):
    """A session and its figures. Its own fields come before the inherited ones, which are
    keyword-only.
    """

    session_id: Id
    account_id: Id
    status: Annotated[SessionStatus, described("State of the session.")]
    start_ts: Moment
    end_ts: Moment
    current_ts: Moment


class SummaryAnswer(Figures):
    """An answer with the fields of `SummaryShown`. It repeats them, because as_of_ts comes first
    and structs can't inherit fields of two classes.
    """

    as_of_ts: AsOf
    session_id: Id
    account_id: Id
    status: Annotated[SessionStatus, described("State of the session.")]
    start_ts: Moment
    end_ts: Moment
    current_ts: Moment


class Export(Answer):
    """Everything of a session."""

    session_id: Id
    format: Annotated[Form, described("Form of the tables.")]
    session: ShownSession
    log_lines: Annotated[int, described("Lines of the broker's log so far.")]
    log_hash: Annotated[str, described("Hash of the log's last line, which stands for all lines.")]
    summary: SummaryShown
    orders: Annotated[list[ShownOrder], described("Orders, oldest first; of json.")] | UnsetType = (
        UNSET
    )
    trades: Annotated[list[ShownTrade], described("Trades, oldest first; of json.")] | UnsetType = (
        UNSET
    )
    history: Annotated[list[Close], described("Closes of days; of json.")] | UnsetType = UNSET
    files: (
        Annotated[
            dict[str, str],
            described("File name -> text: orders.csv, trades.csv, history.csv; of csv."),
        ]
        | UnsetType
    ) = UNSET


class Borrow(Answer):
    """Locates of stocks."""

    borrow: Annotated[list[BorrowShown], described("In the order asked for.")]
    unknown: Unknown
