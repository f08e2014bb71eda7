"""JSON Schemas (draft 2020-12) of the broker's arguments and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import get_args

from ktdeval.api import JsonValue
from ktdeval_qfinzero.operations import Schema
from ktdeval_qfinzero.pmb.events import EventType
from ktdeval_qfinzero.pmb.types import (
    AccountType,
    FeeRules,
    FillRules,
    Frequency,
    Kind,
    MarginRules,
    OrderStatus,
    OrderType,
    SessionStatus,
    Side,
    TimeInForce,
)
from ktdeval_qfinzero.schema_parts import DAY, MOMENT, choice, maybe, number, row, text

MOST_SYMBOLS = 500
MOST_QTY = 1_000_000
MOST_PRICE = 1_000_000
MOST_CASH = 1_000_000_000
MOST_STEPS = 100_000

_BPS = (0, 10_000)
_RULES: Mapping[str, Mapping[str, tuple[str, int, int]]] = {
    "fees": {
        "stock_per_share_e4": ("Ten-thousandths of a dollar a share.", 0, 10_000),
        "option_per_contract_e4": ("Ten-thousandths of a dollar a contract.", 0, 1_000_000),
        "option_exercise_e4": ("Ten-thousandths of a dollar an exercised or assigned contract.", 0, 1_000_000),
    },
    "fills": {
        "slippage_bps": ("What a market or triggered stop order pays beyond the reference price.", *_BPS),
        "option_spread_bps": ("Bid-ask spread of options around the bar's price; a market order pays half of it.", *_BPS),
        "max_volume_pct": ("Most of a bar's volume that all orders for an instrument may take together.", 1, 100),
    },
    "margin": {
        "long_initial_pct": ("Initial requirement of long stock.", 1, 100),
        "long_maintenance_pct": ("Maintenance requirement of long stock.", 1, 100),
        "short_initial_pct": ("Initial requirement of short stock, beside the proceeds.", 1, 1_000),
        "short_maintenance_pct": ("Maintenance requirement of short stock, beside the proceeds.", 1, 1_000),
        "short_minimum_e4": ("Least maintenance of a share sold short, in ten-thousandths of a dollar.", 0, 10_000_000),
        "option_short_pct": ("Uncovered short options: of the underlying, less the amount out of the money.", 1, 1_000),
        "option_short_floor_pct": (
            "Uncovered short options: at least this of the underlying (call) or the strike (put).",
            1,
            1_000,
        ),
        "call_days": ("Trading days after which an unmet margin call is liquidated; 0: on the bar that follows.", 0, 30),
        "debit_interest_bps": ("Interest a year on borrowed cash.", *_BPS),
    },
}
"""Group and field of `Rules` -> (description, least, most)."""


def whole(description: str, least: int, most: int, **more: JsonValue) -> Schema:
    """A bounded whole number."""
    return {"type": "integer", "description": description, "minimum": least, "maximum": most, **more}


def _rules(group: type, name: str) -> Schema:
    defaults = {each.name: each.default for each in fields(group)}
    properties = {field: whole(*rule, default=defaults[field]) for field, rule in _RULES[name].items()}
    return {"type": "object", "description": f"Rules of {name}.", "properties": properties, "additionalProperties": False}


_GROUPS: Mapping[str, type] = {"fees": FeeRules, "fills": FillRules, "margin": MarginRules}
EXECUTION_CONFIG: Schema = {
    "type": "object",
    "description": "How orders fill, what they cost, and how margin works; what is left out is as by default.",
    "properties": {name: _rules(group, name) for name, group in _GROUPS.items()},
    "additionalProperties": False,
}

ACCOUNT_ID = text("Id of the account, such as acct-000001.")
SESSION_ID = text("Id of the session, such as sess-000001.")
ORDER_ID = text("Id of the order, such as ord-000001.")
CLIENT_ORDER_ID = text(
    "Your own id of the order: sent again with the same content, it gives the same order.", 64, pattern="^[A-Za-z0-9._:-]+$"
)
_CONTRACT = text("OPRA symbol of an option, such as O:AVLN250221P00225000.", 24)
SIDE = choice("BUY or SELL; selling more than is held goes short.", get_args(Side))
PRICE = {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_PRICE}
QTY = whole("Shares or contracts.", 1, MOST_QTY)
TIME_IN_FORCE = choice(
    "DAY: until the close of its trading day; GTC: until cancelled; GTD: until expire_ts. All end with the session.",
    get_args(TimeInForce),
    default="DAY",
)
EXPIRE_TS = text("When a GTD order expires: a moment such as 2025-01-10T20:00:00Z, or a day, which is all of it.")
INSTRUMENT: Schema = {
    "type": "object",
    "description": "What is traded: a stock by symbol, or an option by contract.",
    "properties": {
        "type": choice("STOCK or OPTION.", get_args(Kind)),
        "symbol": text("Ticker of a stock, such as AVLN.", 10),
        "contract": _CONTRACT,
    },
    "required": ["type"],
    "additionalProperties": False,
}
ORDER: Schema = {
    "type": "object",
    "description": "The order. Prices are in whole cents; stocks below one dollar in steps of 0.0001.",
    "properties": {
        "instrument": INSTRUMENT,
        "side": SIDE,
        "order_type": choice("MARKET, LIMIT, STOP or STOP_LIMIT.", get_args(OrderType)),
        "qty": QTY,
        "limit_price": {**PRICE, "description": "Worst price; of LIMIT and STOP_LIMIT orders, which need it."},
        "stop_price": {**PRICE, "description": "Price that triggers; of STOP and STOP_LIMIT orders, which need it."},
        "time_in_force": TIME_IN_FORCE,
        "expire_ts": EXPIRE_TS,
    },
    "required": ["instrument", "side", "order_type", "qty"],
    "additionalProperties": False,
}
UPDATES: Schema = {
    "type": "object",
    "description": "What changes; qty counts what is filled already.",
    "properties": {
        "qty": QTY,
        "limit_price": {**PRICE, "description": "New limit."},
        "stop_price": {**PRICE, "description": "New stop."},
    },
    "minProperties": 1,
    "additionalProperties": False,
}
LEGS: Schema = {
    "type": "array",
    "description": "Legs about one underlying; all fill on one tick, in full, or none does.",
    "minItems": 2,
    "maxItems": 4,
    "items": {
        "type": "object",
        "properties": {
            "instrument": INSTRUMENT,
            "side": SIDE,
            "ratio": whole("Shares or contracts of one unit of the spread.", 1, 1_000, default=1),
        },
        "required": ["instrument", "side"],
        "additionalProperties": False,
    },
}
UNIVERSE: Schema = {
    "type": "object",
    "description": "What the session may trade; at least one.",
    "properties": {
        "stocks": {"type": "array", "description": "Tickers.", "items": text("Ticker.", 10), "maxItems": MOST_SYMBOLS},
        "options": {"type": "array", "description": "OPRA symbols.", "items": _CONTRACT, "maxItems": MOST_SYMBOLS},
    },
    "additionalProperties": False,
}

_ID: Schema = {"type": "string", "description": "Id."}
_COUNT: Schema = {"type": "integer", "description": "How many."}
_MAYBE_TEXT: Schema = {"type": ["string", "null"], "description": "Null where there is none."}


def _whole(properties: Mapping[str, Schema], description: str) -> Schema:
    """An object of an answer that always has all its properties."""
    return {**row(properties, tuple(properties)), "description": description}


def money(names: Mapping[str, str]) -> dict[str, Schema]:
    """Amounts in dollars, by name and meaning."""
    return {name: number(words) for name, words in names.items()}


INSTRUMENT_SHOWN: Schema = {**INSTRUMENT, "description": "A stock by symbol, or an option by contract."}
ACCOUNT = _whole(
    {
        "account_id": _ID,
        "account_type": choice("MARGIN or CASH.", get_args(AccountType)),
        "base_currency": {"type": "string", "description": "USD."},
        "opened_at": MOMENT,
        "session_id": {**_MAYBE_TEXT, "description": "The account's running session."},
        "margin_status": choice("Whether there is a margin call.", ("OK", "MARGIN_CALL")),
        "margin_call_due": {**_MAYBE_TEXT, "description": "Trading day at whose close an unmet call is liquidated."},
        "num_positions": _COUNT,
        "num_open_orders": _COUNT,
        **money(
            {
                "initial_cash": "Paid in.",
                "cash": "Proceeds of short sales among it; negative: borrowed.",
                "unsettled_cash": "Of sales that have not settled; CASH accounts can't buy with it.",
                "equity": "Cash and market value of all positions.",
                "long_value": "Market value of long positions.",
                "short_value": "Market value of short positions, positive.",
                "initial_requirement": "What equity must reach to open positions.",
                "maintenance_requirement": "What equity must reach to keep them.",
                "reserved": "What working orders tie up.",
                "buying_power": "What new long stock could be bought for, without regard to working orders.",
                "realized_pnl": "Profit of what was closed, before fees.",
                "unrealized_pnl": "Profit of what is held.",
                "fees": "Paid.",
                "interest": "Paid on borrowed cash.",
                "borrow_fees": "Paid on shares sold short.",
                "dividends": "Received less paid on short positions.",
                "total_pnl": "Equity less what was paid in.",
            }
        ),
    },
    "An account at the last prices.",
)
POSITION = _whole(
    {
        "instrument_id": _ID,
        "instrument": INSTRUMENT_SHOWN,
        "qty": {"type": "integer", "description": "Negative when short."},
        **money(
            {
                "avg_price": "Average cost of a unit, fees aside.",
                "mark_price": "Last price.",
                "market_value": "At the last price; negative when short.",
                "cost": "What the units cost; negative: brought.",
                "unrealized_pnl": "Market value less cost.",
                "realized_pnl": "Of units that are gone.",
            }
        ),
    },
    "A position.",
)
SHOWN_ORDER = _whole(
    {
        "order_id": _ID,
        "client_order_id": _MAYBE_TEXT,
        "account_id": _ID,
        "session_id": _ID,
        "instrument": INSTRUMENT_SHOWN,
        "side": SIDE,
        "order_type": choice("Type.", get_args(OrderType)),
        "qty": _COUNT,
        "limit_price": maybe(number("Worst price.")),
        "stop_price": maybe(number("Price that triggers.")),
        "time_in_force": choice("How long it works.", get_args(TimeInForce)),
        "expire_ts": {**_MAYBE_TEXT, "description": "When it expires, of DAY and GTD orders."},
        "created_at": MOMENT,
        "status": choice("What became of it.", get_args(OrderStatus)),
        "triggered": {"type": "boolean", "description": "Whether its stop was reached."},
        "filled_qty": _COUNT,
        "open_qty": _COUNT,
        "avg_fill_price": maybe(number("Average price of its fills.")),
        "reason": {**_MAYBE_TEXT, "description": "Why it was rejected, cancelled or expired."},
        "replaces": {**_MAYBE_TEXT, "description": "Order that it took the place of."},
        "replaced_by": {**_MAYBE_TEXT, "description": "Order that took its place."},
        "spread_id": {**_MAYBE_TEXT, "description": "Spread that it is a leg of."},
        "forced": {"type": "boolean", "description": "Whether the broker placed it to meet a margin call."},
    },
    "An order.",
)
TRADE = _whole(
    {
        "trade_id": _ID,
        "ts": MOMENT,
        "order_id": _ID,
        "account_id": _ID,
        "session_id": _ID,
        "instrument": INSTRUMENT_SHOWN,
        "side": SIDE,
        "qty": _COUNT,
        **money({"price": "Price of a unit.", "value": "Price times units times shares of a unit.", "fee": "Fee."}),
    },
    "An execution.",
)
DAY_CLOSE = _whole(
    {
        "date": DAY,
        "session_id": {**_MAYBE_TEXT, "description": "Session that was running."},
        **money(
            {
                "cash": "Negative: borrowed.",
                "equity": "Cash and market value of all positions.",
                "long_value": "Of long positions.",
                "short_value": "Of short positions, positive.",
                "maintenance_requirement": "What equity must reach.",
            }
        ),
    },
    "The account at a day's close.",
)
SESSION = _whole(
    {
        "session_id": _ID,
        "account_id": _ID,
        "frequency": choice("Distance of ticks.", get_args(Frequency)),
        "start_ts": MOMENT,
        "end_ts": MOMENT,
        "current_ts": MOMENT,
        "status": choice("State.", get_args(SessionStatus)),
        "universe": UNIVERSE,
        "execution_config": EXECUTION_CONFIG,
        "start_equity": number("Equity at its creation."),
        "end_equity": maybe(number("Equity at its end.")),
        "num_orders": _COUNT,
        "num_open_orders": _COUNT,
        "num_rejected": _COUNT,
        "num_refused_commands": _COUNT,
        "margin_call_count": _COUNT,
    },
    "A session.",
)
EVENT = _whole(
    {
        "seq": {"type": "integer", "description": "Number in the broker's log."},
        "ts": MOMENT,
        "type": choice("What happened.", get_args(EventType)),
        "data": {"type": "object", "description": "What belongs to it, in dollars."},
    },
    "An event.",
)
CLOCK = _whole(
    {
        "prev_ts": MOMENT,
        "current_ts": MOMENT,
        "frequency": choice("Distance of ticks.", get_args(Frequency)),
        "status": choice("State of the session.", get_args(SessionStatus)),
    },
    "The session's clock.",
)


def listed(items: Schema, description: str) -> Schema:
    """A list of an answer."""
    return {"type": "array", "items": items, "description": description}
