"""Arguments of the broker's operations.

A command's arguments are written into the broker's log as they were given.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

from msgspec import Meta

from ktdeval_qfinzero.instruments import MAX_TICKER
from ktdeval_qfinzero.pmb.broker_types import (
    AccountType,
    Frequency,
    NamedInstrument,
    OrderStatus,
    OrderType,
    Rules,
    Side,
    TimeInForce,
)
from ktdeval_qfinzero.schemas import (
    DESCRIBED_LAST,
    Arguments,
    Paged,
    ShortText,
    make_description,
    text,
    whole,
)

MAX_SYMBOLS: Final = 500
MAX_QTY: Final = 1_000_000
MAX_PRICE: Final = 1_000_000
MAX_CASH: Final = 1_000_000_000
MAX_TICKERS: Final = 200

_STATES: Final = f"{', '.join(get_args(OrderStatus))}; OPEN: all that work; NEW: as ACCEPTED"

AccountId = Annotated[str, text("Id of the account, as its creation gave it.")]
SessionId = Annotated[str, text("Id of the session, as its creation gave it.")]
OrderId = Annotated[str, text("Id of the order, as its placement gave it.")]
ClientOrderId = Annotated[
    str,
    Meta(
        description="Your own id of the order: sent again with the same content, it gives the "
        "same order.",
        # the length is in the pattern, because some engines read only one of the two
        pattern="^[A-Za-z0-9._:-]{1,64}$",
    ),
]
Contract = Annotated[
    str,
    text("OPRA symbol of an option: O:, root, YYMMDD, C or P, strike × 1000 in eight digits.", 24),
]
Traded = Annotated[
    NamedInstrument,
    make_description("What is traded: a stock by symbol, or an option by contract."),
]
TradeSide = Annotated[Side, make_description("BUY or SELL; selling more than is held goes short.")]
Price = Annotated[float, Meta(gt=0, le=MAX_PRICE), DESCRIBED_LAST]
Qty = Annotated[int, whole("Shares or contracts.", 1, MAX_QTY)]
InForce = Annotated[
    TimeInForce,
    make_description(
        "DAY: until the close of its trading day; GTC: until cancelled; GTD: until "
        "expire_ts. All end with the session."
    ),
]
ExpireTs = Annotated[
    str,
    text("When a GTD order expires: a moment YYYY-MM-DDTHH:MM:SSZ, or a day, which is all of it."),
]
Form = Literal["json", "csv"]
ShownRules = Annotated[
    Rules,
    make_description(
        "How orders fill, what they cost, and how margin works; what is left out is as by default."
    ),
]
OneTicker = Annotated[str, text("Ticker.", MAX_TICKER)]


class NewOrder(Arguments, kw_only=True):
    """Terms of a new order.

    order_type: MARKET, LIMIT, STOP or STOP_LIMIT.
    limit_price: Worst price; of LIMIT and STOP_LIMIT orders, which need it.
    stop_price: Price that triggers; of STOP and STOP_LIMIT orders, which need it.
    take_profit_price: Bracket: each fill sends a limit order at this price that closes it, as long
        in force.
    stop_loss_price: Bracket: likewise a stop order; of the two, one cancels the other.
    oco_with: One cancels the other: a working order with equal instrument, side and open quantity.
    """

    instrument: Traded
    side: TradeSide
    order_type: OrderType
    qty: Qty
    limit_price: Price | None = None
    stop_price: Price | None = None
    time_in_force: InForce = "DAY"
    expire_ts: ExpireTs | None = None
    take_profit_price: Price | None = None
    stop_loss_price: Price | None = None
    oco_with: ShortText | None = None


class Updates(Arguments, kw_only=True):
    """Changes of an order.

    limit_price: New limit.
    stop_price: New stop.
    """

    qty: Qty | None = None
    limit_price: Price | None = None
    stop_price: Price | None = None


class Leg(Arguments, kw_only=True):
    """A leg of a spread."""

    instrument: Traded
    side: TradeSide
    ratio: Annotated[int, whole("Shares or contracts of one unit of the spread.", 1, 1000)] = 1


class Universe(Arguments, kw_only=True):
    """Symbols of a session.

    stocks: Tickers.
    options: OPRA symbols.
    """

    stocks: Annotated[list[OneTicker], Meta(max_length=MAX_SYMBOLS)] | None = None
    options: Annotated[list[Contract], Meta(max_length=MAX_SYMBOLS)] | None = None


class CreateAccount(Arguments, kw_only=True):
    """A new account.

    base_currency: Currency: the market's own, which is meant when left out.
    account_type: MARGIN may borrow and go short; CASH buys with settled cash only.
    initial_cash: Dollars paid in.
    start_date: First day of use, YYYY-MM-DD; not before the clock.
    timezone: Accepted and without effect: all moments are UTC.
    """

    base_currency: Annotated[str, Meta(min_length=1, max_length=8)] | None = None
    account_type: AccountType = "MARGIN"
    initial_cash: Annotated[float, Meta(gt=0, le=MAX_CASH)] = 100_000
    start_date: ShortText | None = None
    timezone: Annotated[str, Meta(min_length=1, max_length=64)] | None = None


class OneAccount(Arguments, kw_only=True):
    """An account by id."""

    account_id: AccountId


class AccountRows(Paged):
    """Rows of an account."""

    account_id: AccountId


class SessionRows(AccountRows):
    """Rows of an account, or of one of its sessions."""

    session_id: SessionId | None = None


class OrdersQuery(SessionRows):
    """Orders of an account."""

    status_in: (
        Annotated[str, text(f"Only these states, comma-separated: {_STATES}.", 100)] | None
    ) = None


class BorrowQuery(Arguments, kw_only=True):
    """Stocks to sell short."""

    tickers: Annotated[
        str,
        text(
            f"Tickers in capitals, comma-separated without spaces; at most {MAX_TICKERS}.",
            2400,
        ),
    ]


class MoveClock(Arguments, kw_only=True):
    """A clock that was set forward outside of the broker. No operation takes this: the broker
    writes it into its log itself.
    """

    to_ns: Annotated[int, Meta(ge=0, le=2**62 - 1)]


class CreateSession(Arguments, kw_only=True):
    """A new session.

    frequency: Ticks at each minute's or each day's end.
    start_ts: When it begins, not before the clock: a moment YYYY-MM-DDTHH:MM:SSZ, or a day.
    end_ts: When it ends, included: a moment, or a day, which is all of it.
    universe: What the session may trade; at least one.
    execution_config: How orders fill, what they cost, and how margin works; what is left out is as
        by default.
    """

    account_id: AccountId
    frequency: Frequency = "1m"
    start_ts: ShortText
    end_ts: ShortText
    universe: Universe
    execution_config: Rules | None = None


class OneSession(Arguments, kw_only=True):
    """A session by id."""

    session_id: SessionId


class Step(OneSession, kw_only=True):
    """How far a session goes forward.

    until_ts: Moment to go to, after the clock; the session's last tick where that is earlier.
    """

    step: Annotated[int, whole("Ticks; without effect where until_ts is given.", 1, 100_000)] = 1
    until_ts: ShortText | None = None


class ExportSession(OneSession, kw_only=True):
    """A session to export.

    format: Form of the tables.
    """

    format: Form = "json"


class InSession(OneSession, kw_only=True):
    """What is done for an account in a session."""

    account_id: AccountId


class PlaceOrder(InSession, kw_only=True):
    """An order for a session.

    order: The order. Prices are in whole cents; stocks below one dollar in steps of 0.0001.
    """

    order: NewOrder
    client_order_id: ClientOrderId | None = None


class OneOrder(Arguments, kw_only=True):
    """An order by id."""

    order_id: OrderId


class SentOrder(OneOrder, kw_only=True):
    """A working order of a session."""

    session_id: SessionId
    account_id: AccountId


class ModifyOrder(SentOrder, kw_only=True):
    """An order to replace, and its changes.

    updates: What changes; qty counts what is filled already.
    """

    updates: Annotated[Updates, Meta(extra_json_schema={"minProperties": 1})]


class PlaceSpread(InSession, kw_only=True):
    """A spread for a session.

    legs: Legs about one underlying; all fill on one tick, in full, or none does.
    net_limit_price: Most that a unit may cost a share, over all legs (negative: least it must
        bring); none: at market.
    """

    legs: Annotated[list[Leg], Meta(min_length=2, max_length=4)]
    qty: Annotated[int, whole("Units of the spread.", 1, 10_000)]
    net_limit_price: Annotated[float, Meta(ge=-MAX_PRICE, le=MAX_PRICE)] | None = None
    time_in_force: InForce = "DAY"
    expire_ts: ExpireTs | None = None
    client_order_id: ClientOrderId | None = None


class ExerciseOption(InSession, kw_only=True):
    """Contracts to exercise, or whose exercise at expiry is forbidden.

    contract: OPRA symbol of the option.
    qty: Contracts to exercise now.
    do_not_exercise: Instead of qty: true forbids exercise at expiry, false allows it again.
    """

    contract: Contract
    qty: Qty | None = None
    do_not_exercise: bool | None = None
