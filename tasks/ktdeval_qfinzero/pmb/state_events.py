"""State of a broker, and its events. Only events change the state; the log lists them.

Fields are whole numbers (`_e4` for ten-thousandths of a dollar, `_ns` for nanoseconds), strings,
and lists of these, so that an event read back from its line equals the event that was written.
Signed quantities (`change`) are positive for units received.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, ClassVar, Final, Literal

import msgspec

from ktdeval.values import JsonValue
from ktdeval_qfinzero.pmb.broker_types import (
    BRACKET_FIELDS,
    WORKING,
    Account,
    AccountType,
    Bar,
    CashEntry,
    CashKind,
    Frequency,
    Instrument,
    Order,
    Rules,
    Session,
    Trade,
)

_TOTALS: Final[Mapping[CashKind, tuple[str, int]]] = {
    "FEE": ("fees_e4", -1),
    "INTEREST": ("interest_e4", -1),
    "BORROW_FEE": ("borrow_fees_e4", -1),
    "DIVIDEND": ("dividends_e4", 1),
}
"""Kind of payment -> field of the account in which it is summed, and its sign there."""


@dataclass(slots=True)
class BrokerState:
    """State of a broker."""

    now_ns: int = 0  # time of the last event
    seq: int = 0
    accounts: dict[str, Account] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    spreads: dict[str, SpreadPlaced] = field(default_factory=dict)
    # orders that may still fill, in time priority
    working: dict[str, Order] = field(default_factory=dict)
    # amount that a working order reserves; for a spread, stored at its first leg
    reserves: dict[str, int] = field(default_factory=dict)
    trades: list[Trade] = field(default_factory=list)  # oldest first, as in the next fields
    cash_entries: list[CashEntry] = field(default_factory=list)
    days: dict[str, list[DayClosed]] = field(default_factory=dict)  # by account id
    # by account id and client order id
    client_calls: dict[tuple[str, str], ClientIdUsed] = field(default_factory=dict)
    # ids of one-cancels-other groups
    groups: set[str] = field(default_factory=set)
    # (account id, contract) whose exercise at expiry is forbidden
    do_not_exercise: set[tuple[str, str]] = field(default_factory=set)
    running: str = ""  # id of the running session

    def pay(self, account: Account, kind: CashKind, amount_e4: int) -> None:
        """Pay money into an account; a negative amount is taken out."""
        if amount_e4:
            account.cash_e4 += amount_e4
            if kind in _TOTALS:
                name, sign = _TOTALS[kind]
                setattr(account, name, getattr(account, name) + sign * amount_e4)

            self.cash_entries.append(CashEntry(self.seq, account.id, kind, amount_e4))


EventType = Literal[
    "ACCOUNT_CREATED",
    "CLOCK_MOVED",
    "SESSION_CREATED",
    "SESSION_FINISHED",
    "SESSION_STOPPED",
    "ORDER_ACCEPTED",
    "ORDER_REJECTED",
    "ORDER_TRIGGERED",
    "ORDER_CANCELLED",
    "ORDER_EXPIRED",
    "CLIENT_ID_USED",
    "SPREAD_PLACED",
    "TRADE",
    "OPTION_INSTRUCTED",
    "OPTION_EXERCISED",
    "OPTION_ASSIGNED",
    "OPTION_EXPIRED",
    "POSITION_SPLIT",
    "POSITION_ENDED",
    "DIVIDEND",
    "INTEREST",
    "BORROW_FEE",
    "MARGIN_CALL",
    "MARGIN_CALL_MET",
    "DAY_CLOSED",
    "COMMAND_REFUSED",
]


class EventData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of an event. `type`: the event's name in the log."""

    type: ClassVar[EventType]

    def __init_subclass__(cls) -> None:
        """Add a kind of event to `EVENT_TYPES` if it has a name."""
        if "type" in cls.__dict__:
            EVENT_TYPES[cls.type] = cls

    def _apply(self, state: BrokerState) -> None:
        """Change the state, which already has the event's number and time. Raises KeyError if the
        event comes from a log that was tampered with.
        """


EVENT_TYPES: Final[dict[str, type[EventData]]] = {}
"""Name in the log -> type of the event's content. The types in `holding_events` are included once
that module is imported.
"""


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """An event. `seq`: its number in the log, which also counts commands; `data`: its content."""

    seq: int
    ts_ns: int
    data: EventData

    @property
    def type(self) -> EventType:
        """Name of the event in the log."""
        return self.data.type


def apply(state: BrokerState, event: BrokerEvent) -> None:
    """Apply an event to the state; nothing else changes the state."""
    state.seq, state.now_ns = event.seq, event.ts_ns
    if state.running:
        state.sessions[state.running].clock_ns = event.ts_ns
    event.data._apply(state)


class AccountCreated(EventData, frozen=True):
    """An account was opened."""

    type = "ACCOUNT_CREATED"
    account_id: str
    account_type: AccountType
    initial_cash_e4: int

    def _apply(self, state: BrokerState) -> None:
        cash_e4 = self.initial_cash_e4
        state.accounts[self.account_id] = Account(
            self.account_id, self.account_type, state.now_ns, cash_e4, cash_e4
        )
        state.days[self.account_id] = []


class ClockMoved(EventData, frozen=True):
    """Time passed; the clock takes the time of the event."""

    type = "CLOCK_MOVED"


# ---- sessions


class SessionCreated(EventData, frozen=True):
    """A session began."""

    type = "SESSION_CREATED"
    session_id: str
    account_id: str
    frequency: Frequency
    start_ns: int
    end_ns: int
    stocks: list[str]
    options: list[str]
    rules: Rules
    equity_e4: int

    def _apply(self, state: BrokerState) -> None:
        universe = tuple(self.stocks), tuple(self.options)
        state.sessions[self.session_id] = Session(
            self.session_id,
            self.account_id,
            self.frequency,
            self.start_ns,
            self.end_ns,
            *universe,
            self.rules,
            self.equity_e4,
            state.seq,
            state.now_ns,
        )
        state.running = self.session_id


class _SessionOver(EventData, frozen=True):
    session_id: str
    equity_e4: int

    def _apply(self, state: BrokerState) -> None:
        session = state.sessions[self.session_id]
        session.status = "FINISHED" if self.type == "SESSION_FINISHED" else "STOPPED"
        session.last_seq, session.end_equity_e4 = state.seq, self.equity_e4
        state.running = ""


class SessionFinished(_SessionOver, frozen=True):
    """The session's last tick is over."""

    type = "SESSION_FINISHED"


class SessionStopped(_SessionOver, frozen=True):
    """A session was ended on request."""

    type = "SESSION_STOPPED"


# ---- orders


class OrderAccepted(EventData, frozen=True):
    """An order works from now on. The fields are those of `Order`, with the instrument's id."""

    type = "ORDER_ACCEPTED"
    order: dict[str, JsonValue]
    reserve_e4: int

    def _apply(self, state: BrokerState) -> None:
        order = _read_order(self.order)
        state.orders[order.id] = state.working[order.id] = order
        state.reserves[order.id] = self.reserve_e4

        if order.oco_id:
            state.groups.add(order.oco_id)

        state.sessions[order.session_id].accepted += 1


class OrderRejected(EventData, frozen=True):
    """An order was refused because the account can't carry it."""

    type = "ORDER_REJECTED"
    order: dict[str, JsonValue]

    def _apply(self, state: BrokerState) -> None:
        order = _read_order(self.order)
        state.orders[order.id] = order
        state.sessions[order.session_id].rejected += 1


class OrderTriggered(EventData, frozen=True):
    """The stop of an order was reached."""

    type = "ORDER_TRIGGERED"
    order_id: str

    def _apply(self, state: BrokerState) -> None:
        state.orders[self.order_id].triggered = True


class OrderCancelled(EventData, frozen=True):
    """An order was cancelled, by its owner or by the broker."""

    type = "ORDER_CANCELLED"
    order_id: str
    reason: str
    replaced_by: str = ""

    def _apply(self, state: BrokerState) -> None:
        order = state.working.pop(self.order_id)
        del state.reserves[order.id]
        order.status, order.reason, order.replaced_by = "CANCELLED", self.reason, self.replaced_by


class OrderExpired(EventData, frozen=True):
    """An order expired."""

    type = "ORDER_EXPIRED"
    order_id: str
    reason: str

    def _apply(self, state: BrokerState) -> None:
        order = state.working.pop(self.order_id)
        del state.reserves[order.id]
        order.status, order.reason = "EXPIRED", self.reason


class ClientIdUsed(EventData, frozen=True):
    """A client's own id was assigned to an order, or to a spread's first leg. `content`: hash of
    the request.
    """

    type = "CLIENT_ID_USED"
    account_id: str
    client_order_id: str
    order_id: str
    content: str

    def _apply(self, state: BrokerState) -> None:
        state.client_calls[self.account_id, self.client_order_id] = self


class SpreadPlaced(EventData, frozen=True):
    """Orders that fill together or not at all were placed.

    `units`: number of times that the combination is traded; `net_limit_e4`: maximum cost per share
    of one unit, over all legs (negative: minimum proceeds); None at market.
    """

    type = "SPREAD_PLACED"
    spread_id: str
    order_ids: list[str]
    units: int
    net_limit_e4: int | None

    def _apply(self, state: BrokerState) -> None:
        state.spreads[self.spread_id] = self


class Traded(EventData, frozen=True):
    """Units of an order were filled. `bar`: open, high, low, close and volume; `settles`: a day."""

    type = "TRADE"
    trade_id: str
    order_id: str
    qty: int
    price_e4: int
    fee_e4: int
    settles: str
    bar: list[int]

    def _apply(self, state: BrokerState) -> None:
        order = state.orders[self.order_id]
        trade = Trade(
            self.trade_id,
            state.now_ns,
            order.id,
            order.session_id,
            order.account_id,
            order.instrument,
            order.side,
            self.qty,
            self.price_e4,
            self.fee_e4,
            Bar(*self.bar),
        )
        state.trades.append(trade)
        order.filled_qty += trade.qty
        order.filled_value_e4 += trade.qty * trade.price_e4
        order.status = "PARTIALLY_FILLED" if order.open_qty else "FILLED"

        if order.status not in WORKING:
            del state.working[order.id], state.reserves[order.id]

        for other in order.others(state.working.values()) if order.group in state.groups else ():
            left = other.qty - min(trade.qty, other.open_qty)
            # cancelled units reserve no cash
            state.reserves[other.id] = -(-state.reserves[other.id] * left // other.qty)
            other.qty = left

        account = state.accounts[order.account_id]
        account.position(order.instrument).move(trade.change, trade.value_e4)
        state.pay(account, "TRADE", -trade.value_e4)
        state.pay(account, "FEE", -trade.fee_e4)

        if trade.side == "SELL":
            account.settle_later(self.settles, -trade.value_e4)


class DayClosed(EventData, frozen=True):
    """A trading day ended for an account, after all of the day's events.

    `session_id`: the session that was running, otherwise empty. Values of long and short
    positions are both positive.
    """

    type = "DAY_CLOSED"
    account_id: str
    session_id: str
    day: str
    next_day: str
    cash_e4: int
    equity_e4: int
    long_value_e4: int
    short_value_e4: int
    maintenance_e4: int

    def _apply(self, state: BrokerState) -> None:
        account = state.accounts[self.account_id]
        next_day = date.fromisoformat(self.next_day)
        account.unsettled = [entry for entry in account.unsettled if entry[0] > next_day]
        state.days[account.id].append(self)


class CommandRefused(EventData, frozen=True):
    """A command was refused."""

    type = "COMMAND_REFUSED"
    session_id: str
    code: str
    message: str
    field: str

    def _apply(self, state: BrokerState) -> None:
        if self.session_id in state.sessions:
            state.sessions[self.session_id].refused += 1


def order_payload(order: Order) -> dict[str, JsonValue]:
    """Return all fields of an order; fields about brackets and groups are included only if set."""
    fields = {name: getattr(order, name) for name in Order.__dataclass_fields__}
    present = {name: value for name, value in fields.items() if value or name not in BRACKET_FIELDS}
    return {**present, "instrument": order.instrument.id}


def _read_order(payload: Mapping[str, JsonValue]) -> Order:
    fields: dict[str, Any] = dict(payload)
    fields["instrument"] = Instrument.of(fields["instrument"])
    return Order(**fields)
