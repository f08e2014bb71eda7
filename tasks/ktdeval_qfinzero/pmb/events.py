"""Events: what happened, as plain JSON. The book is what its events make of it, and the log is their list.

Payloads hold whole numbers (`_e4` ten-thousandths of a dollar, `_ns` nanoseconds), texts and lists of these, so that an event read
back from its line is the event that was written. Signed quantities (`change`) are positive when units come in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from ktdeval.api import JsonValue
from ktdeval_qfinzero.pmb.types import FeeRules, FillRules, Instrument, MarginRules, Order, Rules

EventType = Literal[
    "ACCOUNT_CREATED",  # account_id, account_type, initial_cash_e4
    "CLOCK_MOVED",  # nothing: the event's moment is the clock's
    "SESSION_CREATED",  # session_id, account_id, frequency, start_ns, end_ns, stocks, options, rules, equity_e4
    "SESSION_FINISHED",  # session_id, equity_e4: its last tick is over
    "SESSION_STOPPED",  # session_id, equity_e4: on request
    "ORDER_ACCEPTED",  # order: all its fields; reserve_e4
    "ORDER_REJECTED",  # order, with its reason
    "ORDER_TRIGGERED",  # order_id: its stop was reached
    "ORDER_CANCELLED",  # order_id, reason, replaced_by
    "ORDER_EXPIRED",  # order_id, reason
    "CLIENT_ID_USED",  # account_id, client_order_id, order_id, content
    "SPREAD_PLACED",  # spread_id, order_ids, units, net_limit_e4
    "TRADE",  # trade_id, order_id, qty, price_e4, fee_e4, settles, bar
    "OPTION_INSTRUCTED",  # account_id, contract, do_not_exercise
    "OPTION_EXERCISED",  # account_id, instrument, stock, change, cost_e4, stock_change, stock_cost_e4, realized_e4, cash_e4, fee_e4
    "OPTION_ASSIGNED",  # as above
    "OPTION_EXPIRED",  # as above
    "POSITION_SPLIT",  # account_id, instrument, becomes, new, old, qty_before, qty_after, cost_after_e4, realized_e4, cash_e4
    "DIVIDEND",  # account_id, instrument, qty, share_e4, cash_e4, settles
    "INTEREST",  # account_id, days, cash_e4
    "BORROW_FEE",  # account_id, instrument, qty, fee_bps, days, cash_e4
    "MARGIN_CALL",  # account_id, session_id, equity_e4, maintenance_e4, due
    "MARGIN_CALL_MET",  # account_id, session_id, equity_e4, maintenance_e4
    "DAY_CLOSED",  # account_id, session_id, day, next_day, cash_e4, equity_e4, long_value_e4, short_value_e4, maintenance_e4
    "COMMAND_REFUSED",  # session_id, code, message, field
]

Payload = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened.

    Attributes:
        seq: its number in the log, which commands count in too.
        ts_ns: when.
        type: what.
        data: its payload.
    """

    seq: int
    ts_ns: int
    type: EventType
    data: Payload


def order_payload(order: Order) -> dict[str, JsonValue]:
    """All fields of an order."""
    fields = {name: getattr(order, name) for name in Order.__dataclass_fields__}
    return {**fields, "instrument": order.instrument.id}


def read_order(payload: Payload) -> Order:
    """The order of a payload."""
    return Order(**{**payload, "instrument": read_instrument(payload["instrument"])})


def read_instrument(instrument_id: str) -> Instrument:
    """The instrument of an id such as `STOCK:AVLN`."""
    kind, _, symbol = instrument_id.partition(":")
    return Instrument("OPTION" if kind == "OPTION" else "STOCK", symbol)


def rules_payload(rules: Rules) -> dict[str, JsonValue]:
    """Rules as nested objects, by the names of their fields."""
    return asdict(rules)


def read_rules(payload: Payload) -> Rules:
    """Rules from nested objects; what is not named is as by default."""
    return Rules(
        FeeRules(**payload.get("fees", {})), FillRules(**payload.get("fills", {})), MarginRules(**payload.get("margin", {}))
    )
