"""What a book keeps beside accounts and orders: sessions, trades, closes of days, and every movement of cash and units."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from ktdeval_qfinzero.pmb.types import Bar, Frequency, Instrument, Rules, SessionStatus, Side

CashKind = Literal["TRADE", "FEE", "EXERCISE", "SPLIT", "DIVIDEND", "INTEREST", "BORROW_FEE"]
UnitKind = Literal["TRADE", "EXERCISE", "SPLIT"]


@dataclass(frozen=True, slots=True)
class Trade:
    """An execution.

    Attributes:
        id, ts_ns, order_id, session_id, account_id, instrument, side, qty, price_e4, fee_e4: what they say.
        bar: the bar that it happened on.
    """

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
        """Units that came in; negative: went out."""
        return self.qty if self.side == "BUY" else -self.qty

    @property
    def value_e4(self) -> int:
        """What was paid for the units, fees aside; negative: received."""
        return self.change * self.price_e4 * self.instrument.multiplier


@dataclass(frozen=True, slots=True)
class DayClose:
    """An account at the close of a trading day, after everything that the day brought.

    Attributes:
        day: trading day.
        session_id: the session that was running; empty outside of sessions.
        cash_e4, equity_e4: negative cash is borrowed.
        long_value_e4, short_value_e4: market values of long and short positions, both positive.
        maintenance_e4: maintenance requirement.
    """

    day: date
    session_id: str
    cash_e4: int
    equity_e4: int
    long_value_e4: int
    short_value_e4: int
    maintenance_e4: int


@dataclass(frozen=True, slots=True)
class CashEntry:
    """One movement of an account's cash, and the number of the event that made it."""

    seq: int
    account_id: str
    kind: CashKind
    amount_e4: int


@dataclass(frozen=True, slots=True)
class UnitEntry:
    """One change of an account's units of an instrument, and the number of the event that made it."""

    seq: int
    account_id: str
    instrument_id: str
    kind: UnitKind
    change: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Orders that fill together or not at all.

    Attributes:
        id, order_ids: of itself and its legs.
        units: how often the combination is traded.
        net_limit_e4: most that one unit may cost a share, over all legs (negative: least that it must bring); None at market.
    """

    id: str
    order_ids: tuple[str, ...]
    units: int
    net_limit_e4: int | None


@dataclass(frozen=True, slots=True)
class ClientCall:
    """What a client's own order id stands for: the order (a spread's first leg), and a hash of what was asked for."""

    order_id: str
    content: str


@dataclass(slots=True)
class Session:
    """A stretch of time in which an account trades.

    Attributes:
        id, account_id, frequency, start_ns, end_ns, rules: as created.
        stocks, options: symbols of the universe.
        start_equity_e4, end_equity_e4: the account's equity at its creation and its end (None until then).
        first_seq, last_seq: numbers of the events that began and ended it.
        status: what it says; only one session of a book is RUNNING.
        clock_ns: its last moment.
        margin_calls, accepted, rejected, refused: how many calls, orders, rejections and refused commands there were.
    """

    id: str
    account_id: str
    frequency: Frequency
    start_ns: int
    end_ns: int
    stocks: tuple[str, ...]
    options: tuple[str, ...]
    rules: Rules
    start_equity_e4: int
    first_seq: int
    clock_ns: int
    last_seq: int | None = None
    end_equity_e4: int | None = None
    status: SessionStatus = "RUNNING"
    margin_calls: int = 0
    accepted: int = 0
    rejected: int = 0
    refused: int = 0
