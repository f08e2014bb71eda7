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
from ktdeval_qfinzero.schemas import Day, Moment, Page, Unknown, make_description

# Fields are written in the order in which they stand here, and a base class's fields come first.
# Answers whose shared fields stand in another order therefore repeat them (DayShown, TradeShown).
MarginStatus = Literal["OK", "MARGIN_CALL"]
Id = Annotated[str, make_description("Id.")]
Count = Annotated[int, make_description("How many.")]
ShownInstrument = Annotated[
    NamedInstrument, make_description("A stock by symbol, or an option by contract.")
]


class AccountShown(msgspec.Struct):
    """An account at the last prices.

    account_type: MARGIN or CASH.
    base_currency: Currency of the market.
    session_id: The account's running session.
    initial_cash: Paid in.
    cash: Proceeds of short sales among it; negative: borrowed.
    unsettled_cash: Of sales that have not settled; CASH accounts can't buy with it.
    equity: Cash and market value of all positions.
    long_value: Market value of long positions.
    short_value: Market value of short positions, positive.
    initial_requirement: What equity must reach to open positions.
    maintenance_requirement: What equity must reach to keep them.
    reserved: What working orders tie up.
    buying_power: What new long stock could be bought for, without regard to working orders.
    margin_status: Whether there is a margin call.
    margin_call_due: Trading day at whose close an unmet call is liquidated.
    realized_pnl: Profit of what was closed, before fees.
    unrealized_pnl: Profit of what is held.
    fees: Paid.
    interest: Paid on borrowed cash.
    borrow_fees: Paid on shares sold short.
    dividends: Received less paid on short positions.
    total_pnl: Equity less what was paid in.
    """

    account_id: Id
    account_type: AccountType
    base_currency: str
    opened_at: Moment
    session_id: str | None
    initial_cash: float
    cash: float
    unsettled_cash: float
    equity: float
    long_value: float
    short_value: float
    initial_requirement: float
    maintenance_requirement: float
    reserved: float
    buying_power: float
    margin_status: MarginStatus
    margin_call_due: str | None
    realized_pnl: float
    unrealized_pnl: float
    fees: float
    interest: float
    borrow_fees: float
    dividends: float
    total_pnl: float
    num_positions: Count
    num_open_orders: Count


class PositionShown(msgspec.Struct):
    """A position that is not flat, at the last price.

    qty: Negative when short.
    avg_price: Average cost of a unit, fees aside.
    mark_price: Last price.
    market_value: At the last price; negative when short.
    cost: What the units cost; negative: brought.
    unrealized_pnl: Market value less cost.
    realized_pnl: Of units that are gone.
    """

    instrument_id: Id
    instrument: ShownInstrument
    qty: int
    avg_price: float
    mark_price: float
    market_value: float
    cost: float
    unrealized_pnl: float
    realized_pnl: float


class OrderShown(msgspec.Struct):
    """An order and what became of it.

    client_order_id: Null where there is none.
    order_type: Type.
    limit_price: Worst price.
    stop_price: Price that triggers.
    time_in_force: How long it works.
    expire_ts: When it expires, of DAY and GTD orders.
    status: What became of it.
    triggered: Whether its stop was reached.
    avg_fill_price: Average price of its fills.
    reason: Why it was rejected, cancelled or expired.
    replaces: Order that it took the place of.
    replaced_by: Order that took its place.
    spread_id: Spread that it is a leg of.
    forced: Whether the broker placed it to meet a margin call.
    take_profit_price: Of its bracket.
    stop_loss_price: Of its bracket.
    parent_id: Order whose fill sent it.
    oco_id: First order of its group: what fills of one is taken from the others.
    """

    order_id: Id
    client_order_id: str | None
    account_id: Id
    session_id: Id
    instrument: ShownInstrument
    side: TradeSide
    order_type: OrderType
    qty: Count
    limit_price: float | None
    stop_price: float | None
    time_in_force: TimeInForce
    expire_ts: str | None
    created_at: Moment
    status: OrderStatus
    triggered: bool
    filled_qty: Count
    open_qty: Count
    avg_fill_price: float | None
    reason: str | None
    replaces: str | None
    replaced_by: str | None
    spread_id: str | None
    forced: bool
    take_profit_price: float | UnsetType = UNSET
    stop_loss_price: float | UnsetType = UNSET
    parent_id: str | UnsetType = UNSET
    oco_id: str | UnsetType = UNSET


class TradeShown(msgspec.Struct):
    """An execution.

    price: Price of a unit.
    value: Price times units times shares of a unit.
    fee: Fee.
    """

    trade_id: Id
    ts: Moment
    order_id: Id
    account_id: Id
    session_id: Id
    instrument: ShownInstrument
    side: TradeSide
    qty: Count
    price: float
    value: float
    fee: float


class DayShown(msgspec.Struct):
    """An account at a day's close.

    session_id: Session that was running.
    cash: Negative: borrowed.
    equity: Cash and market value of all positions.
    long_value: Of long positions.
    short_value: Of short positions, positive.
    maintenance_requirement: What equity must reach.
    """

    date: Day
    session_id: str | None
    cash: float
    equity: float
    long_value: float
    short_value: float
    maintenance_requirement: float


class SessionShown(msgspec.Struct):
    """A session: its clock, state and rules.

    frequency: Distance of ticks.
    status: State.
    universe: What the session may trade; at least one.
    start_equity: Equity at its creation.
    end_equity: Equity at its end.
    """

    session_id: Id
    account_id: Id
    frequency: Frequency
    start_ts: Moment
    end_ts: Moment
    current_ts: Moment
    status: SessionStatus
    universe: Universe
    execution_config: ShownRules
    start_equity: float
    end_equity: float | None
    num_orders: Count
    num_open_orders: Count
    num_rejected: Count
    num_refused_commands: Count
    margin_call_count: Count


class EventShown(msgspec.Struct):
    """An event: money in dollars, moments as texts, names without their units.

    seq: Number in the broker's log.
    type: What happened.
    data: What belongs to it, in dollars.
    """

    seq: int
    ts: Moment
    type: EventType
    data: Mapping[str, Any]


class ClockShown(msgspec.Struct):
    """A session's clock.

    frequency: Distance of ticks.
    status: State of the session.
    """

    prev_ts: Moment
    current_ts: Moment
    frequency: Frequency
    status: SessionStatus


class BarShown(msgspec.Struct):
    """Last complete bar of an instrument.

    open: Price, in dollars.
    high: Price, in dollars.
    low: Price, in dollars.
    close: Price, in dollars.
    volume: Shares or contracts traded.
    """

    instrument_id: Id
    instrument: ShownInstrument
    start_ts: Moment
    end_ts: Moment
    open: float
    high: float
    low: float
    close: float
    volume: int


class BorrowShown(msgspec.Struct):
    """Locate of a stock.

    available_shares: Shares that can be borrowed in all; 0 where nothing is known.
    fee_bps_per_year: Fee a year, in hundredths of a percent of the market value.
    known_since: From when on this holds.
    """

    ticker: Id
    available_shares: int
    fee_bps_per_year: float | None
    known_since: str | None


ShownAccount = Annotated[AccountShown, make_description("An account at the last prices.")]
ShownOrder = Annotated[OrderShown, make_description("An order.")]
ShownSession = Annotated[SessionShown, make_description("A session.")]
Orders = Annotated[list[ShownOrder], make_description("Orders, oldest first.")]
ShownTrade = Annotated[TradeShown, make_description("An execution.")]
Trades = Annotated[list[ShownTrade], make_description("Trades, oldest first.")]
ShownEvent = Annotated[EventShown, make_description("An event.")]
Status = Annotated[OrderStatus, make_description("What became of the order.")]
Reason = Annotated[str | None, make_description("Why it was rejected, cancelled or expired.")]
Idempotent = Annotated[
    bool, make_description("Whether the order was known already by its client_order_id.")
]
Close = Annotated[DayShown, make_description("The account at a day's close.")]
Held = Annotated[PositionShown, make_description("A position.")]


class AccountAnswer(msgspec.Struct, kw_only=True):
    """An account. Own fields of a subclass come before it."""

    account: ShownAccount


class AccountCreated(AccountAnswer):
    """A new account."""

    account_id: Id


class Accounts(msgspec.Struct):
    """All accounts.

    accounts: Accounts, oldest first.
    """

    accounts: list[ShownAccount]


class Positions(msgspec.Struct):
    """Positions of an account.

    positions: Positions by instrument id.
    """

    account_id: Id
    positions: list[Held]


class OrdersPage(Page):
    """A page of orders."""

    account_id: Id
    orders: Orders


class TradesPage(Page):
    """A page of trades."""

    account_id: Id
    trades: Trades


class HistoryPage(Page):
    """A page of closes.

    history: Closes, oldest first.
    """

    account_id: Id
    history: list[Close]


class SessionAnswer(AccountAnswer):
    """A session and its account."""

    session_id: Id
    account_id: Id
    session: ShownSession


class Stepped(AccountAnswer):
    """Outcome of a step.

    clock: The session's clock.
    events: What happened, in order.
    """

    session_id: Id
    clock: ClockShown
    events: list[ShownEvent]


class Market(msgspec.Struct):
    """Last bars of a session's universe.

    frequency: Length of the bars.
    bars: Last bars, stocks first.
    without_bar: Ids of instruments that have had no bar yet.
    """

    session_id: Id
    frequency: Frequency
    bars: list[BarShown]
    without_bar: list[Id]


class WithOrder(msgspec.Struct, kw_only=True):
    """An order. Own fields of a subclass come before it."""

    order: ShownOrder


class OrderAnswer(WithOrder):
    """An order, and what became of it.

    client_order_id: Your own id of the order.
    """

    order_id: Id
    client_order_id: str | None
    status: Status
    reason: Reason


class OrderPlaced(OrderAnswer):
    """An order that was sent."""

    idempotent: Idempotent


class OrderModified(OrderAnswer):
    """An order that took the place of another."""

    old_order_id: Id
    new_order_id: Id


class SpreadPlaced(msgspec.Struct):
    """A spread that was sent.

    orders: An order for each leg.
    """

    spread_id: Id
    status: Status
    reason: Reason
    orders: list[ShownOrder]
    idempotent: Idempotent


class Exercised(msgspec.Struct):
    """Outcome for contracts.

    do_not_exercise: Whether exercise at expiry is forbidden.
    events: What happened.
    """

    account_id: Id
    contract: Id
    do_not_exercise: bool
    events: list[ShownEvent]


Figure = Annotated[
    float | None, make_description("Null where it is not defined; `undefined` says why.")
]
Money = Annotated[float, make_description("Dollars.")]


class Figures(msgspec.Struct, kw_only=True):
    """Figures of a session: money in dollars, rates as fractions.

    undefined: Figure that is null -> why.
    """

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
    undefined: dict[str, str]


class SummaryShown(Figures):
    """A session and its figures. Its own fields come before the inherited ones, which are
    keyword-only.

    status: State of the session.
    """

    session_id: Id
    account_id: Id
    status: SessionStatus
    start_ts: Moment
    end_ts: Moment
    current_ts: Moment


class Export(msgspec.Struct):
    """Everything of a session.

    format: Form of the tables.
    log_lines: Lines of the broker's log so far.
    log_hash: Hash of the log's last line, which stands for all lines.
    orders: Orders, oldest first; of json.
    trades: Trades, oldest first; of json.
    history: Closes of days; of json.
    files: File name -> text: orders.csv, trades.csv, history.csv; of csv.
    """

    session_id: Id
    format: Form
    session: ShownSession
    log_lines: int
    log_hash: str
    summary: SummaryShown
    orders: list[ShownOrder] | UnsetType = UNSET
    trades: list[ShownTrade] | UnsetType = UNSET
    history: list[Close] | UnsetType = UNSET
    files: dict[str, str] | UnsetType = UNSET


class Borrow(msgspec.Struct):
    """Locates of stocks.

    borrow: In the order asked for.
    """

    borrow: list[BorrowShown]
    unknown: Unknown
