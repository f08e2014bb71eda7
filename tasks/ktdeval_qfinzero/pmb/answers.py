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
from ktdeval_qfinzero.schemas import Answer, AsOf, Day, Moment, Page, Unknown, make_description

MarginStatus = Literal["OK", "MARGIN_CALL"]
Id = Annotated[str, make_description("Id.")]
Count = Annotated[int, make_description("How many.")]
ShownInstrument = Annotated[
    NamedInstrument, make_description("A stock by symbol, or an option by contract.")
]


class AccountShown(msgspec.Struct):
    """An account at the last prices."""

    account_id: Id
    account_type: Annotated[AccountType, make_description("MARGIN or CASH.")]
    base_currency: Annotated[str, make_description("Currency of the market.")]
    opened_at: Moment
    session_id: Annotated[str | None, make_description("The account's running session.")]
    initial_cash: Annotated[float, make_description("Paid in.")]
    cash: Annotated[
        float, make_description("Proceeds of short sales among it; negative: borrowed.")
    ]
    unsettled_cash: Annotated[
        float, make_description("Of sales that have not settled; CASH accounts can't buy with it.")
    ]
    equity: Annotated[float, make_description("Cash and market value of all positions.")]
    long_value: Annotated[float, make_description("Market value of long positions.")]
    short_value: Annotated[float, make_description("Market value of short positions, positive.")]
    initial_requirement: Annotated[
        float, make_description("What equity must reach to open positions.")
    ]
    maintenance_requirement: Annotated[
        float, make_description("What equity must reach to keep them.")
    ]
    reserved: Annotated[float, make_description("What working orders tie up.")]
    buying_power: Annotated[
        float,
        make_description(
            "What new long stock could be bought for, without regard to working orders."
        ),
    ]
    margin_status: Annotated[MarginStatus, make_description("Whether there is a margin call.")]
    margin_call_due: Annotated[
        str | None, make_description("Trading day at whose close an unmet call is liquidated.")
    ]
    realized_pnl: Annotated[float, make_description("Profit of what was closed, before fees.")]
    unrealized_pnl: Annotated[float, make_description("Profit of what is held.")]
    fees: Annotated[float, make_description("Paid.")]
    interest: Annotated[float, make_description("Paid on borrowed cash.")]
    borrow_fees: Annotated[float, make_description("Paid on shares sold short.")]
    dividends: Annotated[float, make_description("Received less paid on short positions.")]
    total_pnl: Annotated[float, make_description("Equity less what was paid in.")]
    num_positions: Count
    num_open_orders: Count


class PositionShown(msgspec.Struct):
    """A position that is not flat, at the last price."""

    instrument_id: Id
    instrument: ShownInstrument
    qty: Annotated[int, make_description("Negative when short.")]
    avg_price: Annotated[float, make_description("Average cost of a unit, fees aside.")]
    mark_price: Annotated[float, make_description("Last price.")]
    market_value: Annotated[float, make_description("At the last price; negative when short.")]
    cost: Annotated[float, make_description("What the units cost; negative: brought.")]
    unrealized_pnl: Annotated[float, make_description("Market value less cost.")]
    realized_pnl: Annotated[float, make_description("Of units that are gone.")]


class OrderShown(msgspec.Struct):
    """An order and what became of it."""

    order_id: Id
    client_order_id: Annotated[str | None, make_description("Null where there is none.")]
    account_id: Id
    session_id: Id
    instrument: ShownInstrument
    side: TradeSide
    order_type: Annotated[OrderType, make_description("Type.")]
    qty: Count
    limit_price: Annotated[float | None, make_description("Worst price.")]
    stop_price: Annotated[float | None, make_description("Price that triggers.")]
    time_in_force: Annotated[TimeInForce, make_description("How long it works.")]
    expire_ts: Annotated[str | None, make_description("When it expires, of DAY and GTD orders.")]
    created_at: Moment
    status: Annotated[OrderStatus, make_description("What became of it.")]
    triggered: Annotated[bool, make_description("Whether its stop was reached.")]
    filled_qty: Count
    open_qty: Count
    avg_fill_price: Annotated[float | None, make_description("Average price of its fills.")]
    reason: Annotated[str | None, make_description("Why it was rejected, cancelled or expired.")]
    replaces: Annotated[str | None, make_description("Order that it took the place of.")]
    replaced_by: Annotated[str | None, make_description("Order that took its place.")]
    spread_id: Annotated[str | None, make_description("Spread that it is a leg of.")]
    forced: Annotated[bool, make_description("Whether the broker placed it to meet a margin call.")]
    take_profit_price: Annotated[float, make_description("Of its bracket.")] | UnsetType = UNSET
    stop_loss_price: Annotated[float, make_description("Of its bracket.")] | UnsetType = UNSET
    parent_id: Annotated[str, make_description("Order whose fill sent it.")] | UnsetType = UNSET
    oco_id: (
        Annotated[
            str,
            make_description(
                "First order of its group: what fills of one is taken from the others."
            ),
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
    price: Annotated[float, make_description("Price of a unit.")]
    value: Annotated[float, make_description("Price times units times shares of a unit.")]
    fee: Annotated[float, make_description("Fee.")]


class DayShown(msgspec.Struct):
    """An account at a day's close."""

    date: Day
    session_id: Annotated[str | None, make_description("Session that was running.")]
    cash: Annotated[float, make_description("Negative: borrowed.")]
    equity: Annotated[float, make_description("Cash and market value of all positions.")]
    long_value: Annotated[float, make_description("Of long positions.")]
    short_value: Annotated[float, make_description("Of short positions, positive.")]
    maintenance_requirement: Annotated[float, make_description("What equity must reach.")]


class SessionShown(msgspec.Struct):
    """A session: its clock, state and rules."""

    session_id: Id
    account_id: Id
    frequency: Annotated[Frequency, make_description("Distance of ticks.")]
    start_ts: Moment
    end_ts: Moment
    current_ts: Moment
    status: Annotated[SessionStatus, make_description("State.")]
    universe: Annotated[Universe, make_description("What the session may trade; at least one.")]
    execution_config: ShownRules
    start_equity: Annotated[float, make_description("Equity at its creation.")]
    end_equity: Annotated[float | None, make_description("Equity at its end.")]
    num_orders: Count
    num_open_orders: Count
    num_rejected: Count
    num_refused_commands: Count
    margin_call_count: Count


class EventShown(msgspec.Struct):
    """An event: money in dollars, moments as texts, names without their units."""

    seq: Annotated[int, make_description("Number in the broker's log.")]
    ts: Moment
    type: Annotated[EventType, make_description("What happened.")]
    data: Annotated[Mapping[str, Any], make_description("What belongs to it, in dollars.")]


class ClockShown(msgspec.Struct):
    """A session's clock."""

    prev_ts: Moment
    current_ts: Moment
    frequency: Annotated[Frequency, make_description("Distance of ticks.")]
    status: Annotated[SessionStatus, make_description("State of the session.")]


class BarShown(msgspec.Struct):
    """Last complete bar of an instrument."""

    instrument_id: Id
    instrument: ShownInstrument
    start_ts: Moment
    end_ts: Moment
    open: Annotated[float, make_description("Price, in dollars.")]
    high: Annotated[float, make_description("Price, in dollars.")]
    low: Annotated[float, make_description("Price, in dollars.")]
    close: Annotated[float, make_description("Price, in dollars.")]
    volume: Annotated[int, make_description("Shares or contracts traded.")]


class BorrowShown(msgspec.Struct):
    """Locate of a stock."""

    ticker: Id
    available_shares: Annotated[
        int, make_description("Shares that can be borrowed in all; 0 where nothing is known.")
    ]
    fee_bps_per_year: Annotated[
        float | None,
        make_description("Fee a year, in hundredths of a percent of the market value."),
    ]
    known_since: Annotated[str | None, make_description("From when on this holds.")]


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


class AccountAnswer(Answer, kw_only=True):
    """An account. Own fields of a subclass come before it."""

    account: ShownAccount


class AccountCreated(AccountAnswer):
    """A new account."""

    account_id: Id


class Accounts(Answer):
    """All accounts."""

    accounts: Annotated[list[ShownAccount], make_description("Accounts, oldest first.")]


class Positions(Answer):
    """Positions of an account."""

    account_id: Id
    positions: Annotated[list[Held], make_description("Positions by instrument id.")]


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
    history: Annotated[list[Close], make_description("Closes, oldest first.")]


class SessionAnswer(AccountAnswer):
    """A session and its account."""

    session_id: Id
    account_id: Id
    session: ShownSession


class Stepped(AccountAnswer):
    """Outcome of a step."""

    session_id: Id
    clock: Annotated[ClockShown, make_description("The session's clock.")]
    events: Annotated[list[ShownEvent], make_description("What happened, in order.")]


class Market(Answer):
    """Last bars of a session's universe."""

    session_id: Id
    frequency: Annotated[Frequency, make_description("Length of the bars.")]
    bars: Annotated[list[BarShown], make_description("Last bars, stocks first.")]
    without_bar: Annotated[
        list[Id], make_description("Ids of instruments that have had no bar yet.")
    ]


class WithOrder(Answer, kw_only=True):
    """An order. Own fields of a subclass come before it."""

    order: ShownOrder


class OrderAnswer(WithOrder):
    """An order, and what became of it."""

    order_id: Id
    client_order_id: Annotated[str | None, make_description("Your own id of the order.")]
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
    orders: Annotated[list[ShownOrder], make_description("An order for each leg.")]
    idempotent: Idempotent


class Exercised(Answer):
    """Outcome for contracts."""

    account_id: Id
    contract: Id
    do_not_exercise: Annotated[bool, make_description("Whether exercise at expiry is forbidden.")]
    events: Annotated[list[ShownEvent], make_description("What happened.")]


Figure = Annotated[
    float | None, make_description("Null where it is not defined; `undefined` says why.")
]
Money = Annotated[float, make_description("Dollars.")]


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
    undefined: Annotated[dict[str, str], make_description("Figure that is null -> why.")]


class SummaryShown(Figures):
    """A session and its figures. Its own fields come before the inherited ones, which are
    keyword-only.
    """

    session_id: Id
    account_id: Id
    status: Annotated[SessionStatus, make_description("State of the session.")]
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
    status: Annotated[SessionStatus, make_description("State of the session.")]
    start_ts: Moment
    end_ts: Moment
    current_ts: Moment


class Export(Answer):
    """Everything of a session."""

    session_id: Id
    format: Annotated[Form, make_description("Form of the tables.")]
    session: ShownSession
    log_lines: Annotated[int, make_description("Lines of the broker's log so far.")]
    log_hash: Annotated[
        str, make_description("Hash of the log's last line, which stands for all lines.")
    ]
    summary: SummaryShown
    orders: (
        Annotated[list[ShownOrder], make_description("Orders, oldest first; of json.")] | UnsetType
    ) = UNSET
    trades: (
        Annotated[list[ShownTrade], make_description("Trades, oldest first; of json.")] | UnsetType
    ) = UNSET
    history: Annotated[list[Close], make_description("Closes of days; of json.")] | UnsetType = (
        UNSET
    )
    files: (
        Annotated[
            dict[str, str],
            make_description("File name -> text: orders.csv, trades.csv, history.csv; of csv."),
        ]
        | UnsetType
    ) = UNSET


class Borrow(Answer):
    """Locates of stocks."""

    borrow: Annotated[list[BorrowShown], make_description("In the order asked for.")]
    unknown: Unknown
