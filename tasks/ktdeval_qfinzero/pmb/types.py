"""Values of the broker. Money and prices are whole ten-thousandths of a dollar (`_e4`): sums are exact, replay bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from ktdeval_qfinzero.instruments import CONTRACT_SIZE, OptionContract, read_contract

AccountType = Literal["MARGIN", "CASH"]
Frequency = Literal["1m", "1d"]
Side = Literal["BUY", "SELL"]
OrderType = Literal["MARKET", "LIMIT", "STOP", "STOP_LIMIT"]
TimeInForce = Literal["DAY", "GTC", "GTD"]
OrderStatus = Literal["ACCEPTED", "PARTIALLY_FILLED", "FILLED", "CANCELLED", "REJECTED", "EXPIRED"]
SessionStatus = Literal["RUNNING", "FINISHED", "STOPPED"]
Kind = Literal["STOCK", "OPTION"]

WORKING: tuple[OrderStatus, ...] = ("ACCEPTED", "PARTIALLY_FILLED")
"""States of an order that may still be filled."""


@dataclass(frozen=True, slots=True, order=True)
class Instrument:
    """What is traded: a stock by ticker, or an option by OPRA symbol."""

    kind: Kind
    symbol: str

    @property
    def id(self) -> str:
        """`STOCK:AVLN`, or `OPTION:O:AVLN250221P00225000`."""
        return f"{self.kind}:{self.symbol}"

    @property
    def multiplier(self) -> int:
        """Shares that one unit is about."""
        return CONTRACT_SIZE if self.kind == "OPTION" else 1

    @property
    def contract(self) -> OptionContract | None:
        """The option's terms; None of a stock."""
        return read_contract(self.symbol) if self.kind == "OPTION" else None

    @property
    def underlying(self) -> str:
        """Ticker of the stock that it is, or is about."""
        contract = self.contract
        return self.symbol if contract is None else contract.underlying


@dataclass(frozen=True, slots=True)
class FeeRules:
    """Fees.

    Attributes:
        stock_per_share_e4: ten-thousandths of a dollar a share.
        option_per_contract_e4: of a contract.
        option_exercise_e4: of an exercised or assigned contract.
    """

    stock_per_share_e4: int = 5
    option_per_contract_e4: int = 6_500
    option_exercise_e4: int = 0


@dataclass(frozen=True, slots=True)
class FillRules:
    """How orders meet bars.

    Attributes:
        slippage_bps: what a market or triggered stop order pays beyond the reference price, always against the trader.
        option_spread_bps: bid-ask spread of options around the bar's price; a market order pays half of it.
        max_volume_pct: most of a bar's volume that all orders of an account for one instrument may take together.
    """

    slippage_bps: int = 1
    option_spread_bps: int = 100
    max_volume_pct: int = 10


@dataclass(frozen=True, slots=True)
class MarginRules:
    """Margin, shorting and financing; percentages of market value unless said otherwise.

    Attributes:
        long_initial_pct, long_maintenance_pct: of long stock.
        short_initial_pct, short_maintenance_pct: of short stock, on top of the proceeds, which stay in cash.
        short_minimum_e4: least maintenance of a share sold short.
        option_short_pct, option_short_floor_pct: an uncovered short option requires its premium and the greater of pct × underlying
            less the amount out of the money, and floor × underlying (call) or strike (put).
        call_days: trading days after which an unmet margin call is liquidated; 0 liquidates on the bar that follows.
        debit_interest_bps: a year, on borrowed cash.
    """

    long_initial_pct: int = 50
    long_maintenance_pct: int = 25
    short_initial_pct: int = 50
    short_maintenance_pct: int = 30
    short_minimum_e4: int = 50_000
    option_short_pct: int = 20
    option_short_floor_pct: int = 10
    call_days: int = 1
    debit_interest_bps: int = 700


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of a session."""

    fees: FeeRules = FeeRules()
    fills: FillRules = FillRules()
    margin: MarginRules = MarginRules()


@dataclass(slots=True)
class Position:
    """Units held of an instrument.

    Attributes:
        qty: negative when short.
        cost_e4: what the present units cost (negative: what they brought when sold short), without fees.
        realized_e4: profit of units that are gone.
    """

    instrument: Instrument
    qty: int = 0
    cost_e4: int = 0
    realized_e4: int = 0


@dataclass(slots=True)
class Account:
    """A customer's account.

    Attributes:
        id, type: what they say.
        opened_ns: when.
        initial_cash_e4, cash_e4: cash; negative when borrowed.
        positions: by instrument id; those that are flat are kept for their realized profit.
        fees_e4, interest_e4, borrow_fees_e4: paid so far, positive.
        dividends_e4: received less paid on short positions.
        unsettled: (day on which it settles, amount) of sales; CASH accounts buy only with what is settled.
        margin_call_due: trading day at whose close an unmet margin call is liquidated; None without a call.
    """

    id: str
    type: AccountType
    opened_ns: int
    initial_cash_e4: int
    cash_e4: int
    positions: dict[str, Position] = field(default_factory=dict)
    fees_e4: int = 0
    interest_e4: int = 0
    borrow_fees_e4: int = 0
    dividends_e4: int = 0
    unsettled: list[tuple[date, int]] = field(default_factory=list)
    margin_call_due: date | None = None


@dataclass(slots=True)
class Order:
    """An order and what became of it.

    Attributes:
        seq: number in order of acceptance: time priority.
        limit_e4, stop_e4: prices where the type has them.
        expire_ns: of a GTD order; of a DAY order, the close of its trading day.
        triggered: whether a stop has been reached; it stays so.
        filled_qty, filled_value_e4: so far; value is price × qty, without multiplier.
        reason: why it was rejected, cancelled or expired.
        replaces, replaced_by: ids of the order that a modification took the place of.
        spread_id: legs of one spread fill together or not at all.
        forced: whether the broker placed it to meet a margin call.
    """

    id: str
    seq: int
    account_id: str
    session_id: str
    client_order_id: str
    instrument: Instrument
    side: Side
    order_type: OrderType
    qty: int
    time_in_force: TimeInForce
    accepted_ns: int
    limit_e4: int | None = None
    stop_e4: int | None = None
    expire_ns: int | None = None
    status: OrderStatus = "ACCEPTED"
    triggered: bool = False
    filled_qty: int = 0
    filled_value_e4: int = 0
    reason: str = ""
    replaces: str = ""
    replaced_by: str = ""
    spread_id: str = ""
    forced: bool = False

    @property
    def open_qty(self) -> int:
        """Units still to be filled."""
        return self.qty - self.filled_qty


@dataclass(frozen=True, slots=True)
class Bar:
    """One instrument's bar at a tick, as the matching sees it."""

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
