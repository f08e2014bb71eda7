"""Types of the broker: rules, instruments, accounts, orders, trades and sessions.

Money and prices are whole ten-thousandths of a dollar (`_e4`), so sums are exact and a replay is
bit-for-bit identical.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from ktdeval_qfinzero.instruments import CONTRACT_SIZE, MAX_TICKER, OptionContract, read_contract
from ktdeval_qfinzero.schemas import text, whole

_BPS: Final = (0, 10_000)


class FeeRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fees."""

    stock_per_share_e4: Annotated[int, whole("Ten-thousandths of a dollar a share.", 0, 10_000)] = 5
    option_per_contract_e4: Annotated[
        int, whole("Ten-thousandths of a dollar a contract.", 0, 1_000_000)
    ] = 6_500
    option_exercise_e4: Annotated[
        int, whole("Ten-thousandths of a dollar an exercised or assigned contract.", 0, 1_000_000)
    ] = 0

    def trade_e4(self, instrument: Instrument, qty: int) -> int:
        """Return the fee for a trade."""
        return qty * (
            self.stock_per_share_e4 if instrument.kind == "STOCK" else self.option_per_contract_e4
        )


class FillRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How orders meet bars. Slippage and half the spread are always against the trader."""

    slippage_bps: Annotated[
        int, whole("What a market or triggered stop order pays beyond the reference price.", *_BPS)
    ] = 1
    option_spread_bps: Annotated[
        int,
        whole(
            "Bid-ask spread of options around the bar's price; a market order pays half of it.",
            *_BPS,
        ),
    ] = 100
    max_volume_pct: Annotated[
        int,
        whole(
            "Most of a bar's volume that all orders for an instrument may take together.", 1, 100
        ),
    ] = 10

    def half_bps(self, instrument: Instrument) -> int:
        """Return how far from the reference price a market order fills: slippage and half the
        spread, in halves of a basis point.
        """
        return 2 * self.slippage_bps + (
            self.option_spread_bps if instrument.kind == "OPTION" else 0
        )


class MarginRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Margin, shorting and financing; percentages of market value unless said otherwise.

    An uncovered short option requires its premium and the greater of `option_short_pct` ×
    underlying less the amount out of the money, and `option_short_floor_pct` × underlying (call) or
    strike (put).
    """

    # Regulation T, 12 CFR 220.12(a)
    long_initial_pct: Annotated[int, whole("Initial requirement of long stock.", 1, 100)] = 50
    # FINRA Rule 4210(c)(1)
    long_maintenance_pct: Annotated[
        int, whole("Maintenance requirement of long stock.", 1, 100)
    ] = 25
    # Regulation T, 12 CFR 220.12(c)
    short_initial_pct: Annotated[
        int, whole("Initial requirement of short stock, beside the proceeds.", 1, 1_000)
    ] = 50
    # FINRA Rule 4210(c)(3), also for the next: $5 a share
    short_maintenance_pct: Annotated[
        int, whole("Maintenance requirement of short stock, beside the proceeds.", 1, 1_000)
    ] = 30
    short_minimum_e4: Annotated[
        int,
        whole(
            "Least maintenance of a share sold short, in ten-thousandths of a dollar.",
            0,
            10_000_000,
        ),
    ] = 50_000
    # FINRA Rule 4210(f)(2)(E)–(H), also for the next
    option_short_pct: Annotated[
        int,
        whole(
            "Uncovered short options: of the underlying, less the amount out of the money.",
            1,
            1_000,
        ),
    ] = 20
    option_short_floor_pct: Annotated[
        int,
        whole(
            "Uncovered short options: at least this of the underlying (call) or the strike (put).",
            1,
            1_000,
        ),
    ] = 10
    call_days: Annotated[
        int,
        whole(
            "Trading days after which an unmet margin call is liquidated; 0: on the bar that"
            " follows.",
            0,
            30,
        ),
    ] = 1
    debit_interest_bps: Annotated[int, whole("Interest a year on borrowed cash.", *_BPS)] = 700


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rules of a session."""

    fees: Annotated[FeeRules, Meta(description="Rules of fees.")] = FeeRules()
    fills: Annotated[FillRules, Meta(description="Rules of fills.")] = FillRules()
    margin: Annotated[MarginRules, Meta(description="Rules of margin.")] = MarginRules()


AccountType = Literal["MARGIN", "CASH"]
Frequency = Literal["1m", "1d"]
Side = Literal["BUY", "SELL"]
OrderType = Literal["MARKET", "LIMIT", "STOP", "STOP_LIMIT"]
TimeInForce = Literal["DAY", "GTC", "GTD"]
OrderStatus = Literal["ACCEPTED", "PARTIALLY_FILLED", "FILLED", "CANCELLED", "REJECTED", "EXPIRED"]
SessionStatus = Literal["RUNNING", "FINISHED", "STOPPED"]
Kind = Literal["STOCK", "OPTION"]
CashKind = Literal[
    "TRADE", "FEE", "EXERCISE", "SPLIT", "DEAL", "DIVIDEND", "INTEREST", "BORROW_FEE"
]

WORKING: tuple[OrderStatus, ...] = ("ACCEPTED", "PARTIALLY_FILLED")
"""States of an order that may still be filled."""


@dataclass(frozen=True, slots=True, order=True)
class Instrument:
    """A traded instrument: a stock by ticker, or an option by OPRA symbol."""

    kind: Kind
    symbol: str

    @property
    def id(self) -> str:
        """Id such as `STOCK:AVLN` or `OPTION:O:AVLN250221P00225000`."""
        return f"{self.kind}:{self.symbol}"

    @property
    def multiplier(self) -> int:
        """Number of shares per unit."""
        return CONTRACT_SIZE if self.kind == "OPTION" else 1

    @property
    def contract(self) -> OptionContract | None:
        """Terms of the option; None for a stock."""
        return read_contract(self.symbol) if self.kind == "OPTION" else None

    @classmethod
    def of(cls, instrument_id: str) -> Instrument:
        """Return the instrument with an id such as `STOCK:AVLN`."""
        kind, _, symbol = instrument_id.partition(":")
        return cls("OPTION" if kind == "OPTION" else "STOCK", symbol)

    @property
    def underlying(self) -> str:
        """Ticker of the stock, or of the option's underlying."""
        contract = self.contract
        return self.symbol if contract is None else contract.underlying


class NamedInstrument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An instrument as calls name it.

    type: STOCK or OPTION.
    """

    type: Kind
    symbol: Annotated[str, text("Ticker of a stock, in capitals.", MAX_TICKER)] | None = None
    contract: (
        Annotated[
            str,
            text(
                "OPRA symbol of an option: O:, root, YYMMDD, C or P, strike × 1000 in eight digits.",
                24,
            ),
        ]
        | None
    ) = None


@dataclass(slots=True)
class Position:
    """Holding in one instrument."""

    instrument: Instrument
    qty: int = 0  # negative when short
    # cost of the present units (negative: proceeds of a short sale), without fees
    cost_e4: int = 0
    realized_e4: int = 0  # profit on closed units

    def value_e4(self, mark_e4: int) -> int:
        """Return the market value; negative when short."""
        return self.qty * mark_e4 * self.instrument.multiplier

    def move(self, change: int, value_e4: int) -> None:
        """Add units (negative: remove units) for a value paid (negative: received). Removed units
        take their average cost with them, rounded down; the last units take the remainder.
        """
        closed = min(abs(change), abs(self.qty)) if self.qty * change < 0 else 0
        if closed:
            closed_value = value_e4 * closed // abs(change)
            closed_cost = self.cost_e4 * closed // abs(self.qty)
            self.realized_e4 -= closed_value + closed_cost
            self.cost_e4 -= closed_cost
            value_e4 -= closed_value

        self.cost_e4 += value_e4
        self.qty += change


@dataclass(slots=True)
class Account:
    """A customer's account.

    `positions`: by instrument id; flat positions are kept for their realized profit. `unsettled`:
    (settlement day, amount) of sales. CASH accounts buy only with settled cash.
    """

    id: str
    type: AccountType
    opened_ns: int
    initial_cash_e4: int  # amounts of cash; the current amount is negative when borrowed
    cash_e4: int
    positions: dict[str, Position] = field(default_factory=dict)
    fees_e4: int = 0  # paid so far, positive, as are the next two
    interest_e4: int = 0
    borrow_fees_e4: int = 0
    dividends_e4: int = 0  # dividends received less dividends paid on short positions
    unsettled: list[tuple[date, int]] = field(default_factory=list)
    # trading day at whose close an unmet margin call is liquidated; None without a call
    margin_call_due: date | None = None

    def position(self, instrument: Instrument) -> Position:
        """Return the position in an instrument; a flat position is added if it is missing."""
        return self.positions.setdefault(instrument.id, Position(instrument))

    def count_units(self, instrument_id: str) -> int:
        """Return the units held of an instrument; negative when short."""
        return self.positions[instrument_id].qty if instrument_id in self.positions else 0

    def settle_later(self, day: str, amount_e4: int) -> None:
        """Record that money settles on a later day, which matters only for CASH accounts."""
        if self.type == "CASH":
            self.unsettled.append((date.fromisoformat(day), amount_e4))

    def settled_e4(self, today: date | None) -> int:
        """Return cash without the proceeds of sales that settle after today. Without `today`, all
        sales in `unsettled` are excluded.
        """
        return self.cash_e4 - sum(
            amount for day, amount in self.unsettled if today is None or day > today
        )


@dataclass(slots=True)
class Order:
    """An order and its outcome."""

    id: str
    seq: int  # number in order of acceptance, which gives time priority
    account_id: str
    session_id: str
    client_order_id: str
    instrument: Instrument
    side: Side
    order_type: OrderType
    qty: int
    time_in_force: TimeInForce
    accepted_ns: int
    limit_e4: int | None = None  # limit and stop price, if the type has them
    stop_e4: int | None = None
    # expiry of a GTD order; for a DAY order, the close of its trading day
    expire_ns: int | None = None
    status: OrderStatus = "ACCEPTED"
    triggered: bool = False  # whether the stop has been reached; stays True
    filled_qty: int = 0  # filled so far; the value is price × qty, without the multiplier
    filled_value_e4: int = 0
    reason: str = ""  # why the order was rejected, cancelled or expired
    replaces: str = ""  # ids of the orders before and after a modification
    replaced_by: str = ""
    spread_id: str = ""  # legs of one spread fill together or not at all
    forced: bool = False  # whether the broker placed the order to meet a margin call
    # limit and stop of the closing orders that each fill sends
    take_profit_e4: int | None = None
    stop_loss_e4: int | None = None
    parent_id: str = ""  # order whose fill sent this one
    oco_id: str = ""  # first order of the group, in which fills of one order reduce the others

    @property
    def group(self) -> str:
        """Id of the order's one-cancels-other group; its own id if it started a group or is in no
        group.
        """
        return self.oco_id or self.id

    def others(self, orders: Iterable[Order]) -> list[Order]:
        """Return the other orders of its group among `orders`."""
        return [order for order in orders if order.group == self.group and order is not self]

    @property
    def open_qty(self) -> int:
        """Units still to be filled."""
        return self.qty - self.filled_qty


BRACKET_FIELDS = ("take_profit_e4", "stop_loss_e4", "parent_id", "oco_id")
"""Fields of an order that logs and answers contain only if they are set."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One instrument's bar at a tick, in the form that matching uses."""

    open_e4: int
    high_e4: int
    low_e4: int
    close_e4: int
    volume: int


@dataclass(frozen=True, slots=True)
class Fill:
    """Units filled at one price."""

    qty: int
    price_e4: int


@dataclass(frozen=True, slots=True)
class Trade:
    """An execution. `bar`: the bar on which it happened."""

    id: str
    ts_ns: int
    order_id: str
    session_id: str
    account_id: str
    instrument: Instrument
    side: Side
    qty: int
    price_e4: int
    fee_e4: int
    bar: Bar

    @property
    def change(self) -> int:
        """Units added; negative if removed."""
        return self.qty if self.side == "BUY" else -self.qty

    @property
    def value_e4(self) -> int:
        """Amount paid for the units, without fees; negative if received."""
        return self.change * self.price_e4 * self.instrument.multiplier


@dataclass(frozen=True, slots=True)
class CashEntry:
    """One movement of an account's cash, and the number of the event that caused it."""

    seq: int
    account_id: str
    kind: CashKind
    amount_e4: int


@dataclass(slots=True)
class Session:
    """A period in which an account trades."""

    id: str  # as created, as are the fields up to `options`
    account_id: str
    frequency: Frequency
    start_ns: int
    end_ns: int
    stocks: tuple[str, ...]  # symbols in the universe
    options: tuple[str, ...]
    rules: Rules
    # equity of the account when the session was created; `end_equity_e4` is its equity at the end
    start_equity_e4: int
    # sequence number of the event that began the session; `last_seq` is that of its end
    first_seq: int
    clock_ns: int  # latest time of the session
    last_seq: int | None = None
    end_equity_e4: int | None = None
    status: SessionStatus = "RUNNING"  # only one session of a broker is RUNNING
    # numbers of margin calls, accepted orders, rejected orders and refused commands
    margin_calls: int = 0
    accepted: int = 0
    rejected: int = 0
    refused: int = 0

    @property
    def universe(self) -> tuple[Instrument, ...]:
        """Instruments of the session: stocks, then options."""
        return (
            *(Instrument("STOCK", symbol) for symbol in self.stocks),
            *(Instrument("OPTION", symbol) for symbol in self.options),
        )
