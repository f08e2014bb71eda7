"""Declarations of the PMB operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from ktdeval_qfinzero.operations import Operation, Schema
from ktdeval_qfinzero.pmb import handlers, schemas
from ktdeval_qfinzero.pmb.schemas import ACCOUNT_ID, ORDER_ID, SESSION_ID, listed
from ktdeval_qfinzero.pmb.types import AccountType, Frequency, OrderStatus
from ktdeval_qfinzero.schema_parts import (
    CURSOR,
    MOMENT,
    NEXT_CURSOR,
    UNKNOWN,
    answer,
    choice,
    limit,
    maybe,
    number,
    row,
    rows,
    text,
)

_PAGE = {"limit": limit(1_000, 100), "cursor": CURSOR}
_BOTH = {"session_id": SESSION_ID, "account_id": ACCOUNT_ID}
_BOOLEAN: Schema = {"type": "boolean", "description": "Whether the order was known already by its client_order_id."}
_STATUS = choice("What became of the order.", get_args(OrderStatus))
_REASON: Schema = {"type": ["string", "null"], "description": "Why it was rejected, cancelled or expired."}
_ID: Schema = {"type": "string", "description": "Id."}
_MAYBE_ID: Schema = {"type": ["string", "null"], "description": "Your own id of the order."}
_FIGURE = maybe(number("Null where it is not defined; `undefined` says why."))
_MONEY = number("Dollars.")
_COUNT: Schema = {"type": "integer", "description": "How many."}

_ORDER_PARTS: Mapping[str, Schema] = {"order_id": _ID, "client_order_id": _MAYBE_ID, "status": _STATUS, "reason": _REASON}
_ORDER_ANSWER = answer(**_ORDER_PARTS, order=schemas.SHOWN_ORDER)
_SESSION_ANSWER = answer(session_id=_ID, account_id=_ID, session=schemas.SESSION, account=schemas.ACCOUNT)

_AMOUNTS = ("start_equity", "final_equity", "fees_paid", "interest", "borrow_fees", "dividends")
_RATES = ("total_return", "annualised_volatility", "sharpe", "max_drawdown", "turnover", "reject_rate", "invalid_action_rate")
_COUNTS = ("num_days", "num_orders", "num_trades", "margin_call_count")
_SUMMARY: Mapping[str, Schema] = {
    "session_id": _ID,
    "account_id": _ID,
    "status": choice("State of the session.", ("RUNNING", "FINISHED", "STOPPED")),
    "start_ts": MOMENT,
    "end_ts": MOMENT,
    "current_ts": MOMENT,
    **dict.fromkeys(_AMOUNTS, _MONEY),
    **dict.fromkeys(_RATES, _FIGURE),
    **dict.fromkeys(_COUNTS, _COUNT),
    "undefined": {"type": "object", "description": "Figure that is null -> why.", "additionalProperties": {"type": "string"}},
}
_SUMMARY_ROW = row(_SUMMARY, tuple(_SUMMARY))

_EXPORT_ALWAYS: Mapping[str, Schema] = {
    "as_of_ts": MOMENT,
    "session_id": _ID,
    "format": choice("Form of the tables.", ("json", "csv")),
    "session": schemas.SESSION,
    "log_lines": {"type": "integer", "description": "Lines of the broker's log so far."},
    "log_hash": {"type": "string", "description": "Hash of the log's last line, which stands for all lines."},
    "summary": _SUMMARY_ROW,
}
_EXPORT = row(
    {
        **_EXPORT_ALWAYS,
        "orders": listed(schemas.SHOWN_ORDER, "Orders, oldest first; of json."),
        "trades": listed(schemas.TRADE, "Trades, oldest first; of json."),
        "history": listed(schemas.DAY_CLOSE, "Closes of days; of json."),
        "files": {
            "type": "object",
            "description": "File name -> text: orders.csv, trades.csv, history.csv; of csv.",
            "additionalProperties": {"type": "string"},
        },
    },
    tuple(_EXPORT_ALWAYS),
)
_BAR = {
    "instrument_id": _ID,
    "instrument": schemas.INSTRUMENT_SHOWN,
    "start_ts": MOMENT,
    "end_ts": MOMENT,
    **{name: number("Price, in dollars.") for name in ("open", "high", "low", "close")},
    "volume": {"type": "integer", "description": "Shares or contracts traded."},
}
_BORROW = {
    "ticker": _ID,
    "available_shares": {"type": "integer", "description": "Shares that can be borrowed in all; 0 where nothing is known."},
    "fee_bps_per_year": maybe(number("Fee a year, in hundredths of a percent of the market value.")),
    "known_since": {"type": ["string", "null"], "description": "From when on this holds."},
}

_ACCOUNTS = (
    Operation(
        "PMB.account.create",
        "POST",
        "/v1/accounts",
        "Open a paper account as of the clock.",
        {
            "base_currency": choice("Currency.", ("USD",), default="USD"),
            "account_type": choice(
                "MARGIN may borrow and go short; CASH buys with settled cash only.", get_args(AccountType), default="MARGIN"
            ),
            "initial_cash": {
                "type": "number",
                "description": "Dollars paid in.",
                "exclusiveMinimum": 0,
                "maximum": schemas.MOST_CASH,
                "default": 100_000,
            },
            "start_date": text("First day of use, such as 2025-01-06; not before the clock."),
            "timezone": text("Accepted and without effect: all moments are UTC.", 64),
        },
        (),
        answer(account_id=_ID, account=schemas.ACCOUNT),
        handlers.create_account,
        changes=True,
    ),
    Operation(
        "PMB.account.get",
        "GET",
        "/v1/accounts/{account_id}",
        "An account at the last prices: cash, equity, margin and buying power.",
        {"account_id": ACCOUNT_ID},
        ("account_id",),
        answer(account=schemas.ACCOUNT),
        handlers.get_account,
    ),
    Operation(
        "PMB.account.list",
        "GET",
        "/v1/accounts",
        "All accounts of this workspace.",
        {},
        (),
        answer(accounts=listed(schemas.ACCOUNT, "Accounts, oldest first.")),
        handlers.list_accounts,
    ),
    Operation(
        "PMB.account.positions",
        "GET",
        "/v1/accounts/{account_id}/positions",
        "Positions of an account at the last prices.",
        {"account_id": ACCOUNT_ID},
        ("account_id",),
        answer(account_id=_ID, positions=listed(schemas.POSITION, "Positions by instrument id.")),
        handlers.positions,
    ),
    Operation(
        "PMB.account.orders",
        "GET",
        "/v1/accounts/{account_id}/orders",
        "Orders of an account and what became of them, oldest first.",
        {
            "account_id": ACCOUNT_ID,
            "session_id": SESSION_ID,
            "status_in": text(
                f"Only these states, comma-separated: {', '.join(get_args(OrderStatus))}; OPEN: all that work; NEW: as ACCEPTED.",
                100,
            ),
            **_PAGE,
        },
        ("account_id",),
        answer(account_id=_ID, orders=listed(schemas.SHOWN_ORDER, "Orders, oldest first."), next_cursor=NEXT_CURSOR),
        handlers.orders,
    ),
    Operation(
        "PMB.account.trades",
        "GET",
        "/v1/accounts/{account_id}/trades",
        "Executions of an account, oldest first.",
        {"account_id": ACCOUNT_ID, "session_id": SESSION_ID, **_PAGE},
        ("account_id",),
        answer(account_id=_ID, trades=listed(schemas.TRADE, "Trades, oldest first."), next_cursor=NEXT_CURSOR),
        handlers.trades,
    ),
    Operation(
        "PMB.account.history",
        "GET",
        "/v1/accounts/{account_id}/history",
        "An account at the close of each day on which it was in a session or held anything.",
        {"account_id": ACCOUNT_ID, **_PAGE},
        ("account_id",),
        answer(account_id=_ID, history=listed(schemas.DAY_CLOSE, "Closes, oldest first."), next_cursor=NEXT_CURSOR),
        handlers.history,
    ),
)

_SESSIONS = (
    Operation(
        "PMB.session.create",
        "POST",
        "/v1/sessions",
        "Begin a trading session; the one clock goes to start_ts where that is later. Only one session runs at a time.",
        {
            "account_id": ACCOUNT_ID,
            "frequency": choice("Ticks at each minute's or each day's end.", get_args(Frequency), default="1m"),
            "start_ts": text("When it begins, not before the clock: a moment such as 2025-01-06T14:30:00Z, or a day."),
            "end_ts": text("When it ends, included: a moment, or a day, which is all of it."),
            "universe": schemas.UNIVERSE,
            "execution_config": schemas.EXECUTION_CONFIG,
        },
        ("account_id", "start_ts", "end_ts", "universe"),
        _SESSION_ANSWER,
        handlers.create_session,
        changes=True,
    ),
    Operation(
        "PMB.session.get",
        "GET",
        "/v1/sessions/{session_id}",
        "A session: its clock, state and rules.",
        {"session_id": SESSION_ID},
        ("session_id",),
        _SESSION_ANSWER,
        handlers.get_session,
    ),
    Operation(
        "PMB.session.step",
        "POST",
        "/v1/sessions/{session_id}/step",
        "Let ticks pass, or time up to a moment; orders fill on the bars in between.",
        {
            "session_id": SESSION_ID,
            "step": schemas.whole("Ticks; without effect where until_ts is given.", 1, schemas.MOST_STEPS, default=1),
            "until_ts": text("Moment to go to, after the clock; the session's last tick where that is earlier."),
        },
        ("session_id",),
        answer(
            session_id=_ID,
            clock=schemas.CLOCK,
            events=listed(schemas.EVENT, "What happened, in order."),
            account=schemas.ACCOUNT,
        ),
        handlers.step_session,
        changes=True,
    ),
    Operation(
        "PMB.session.stop",
        "POST",
        "/v1/sessions/{session_id}/stop",
        "End a session now; its working orders expire, positions stay.",
        {"session_id": SESSION_ID},
        ("session_id",),
        _SESSION_ANSWER,
        handlers.stop_session,
        changes=True,
    ),
    Operation(
        "PMB.session.summary",
        "GET",
        "/v1/sessions/{session_id}/summary",
        "Figures of a session so far: return, Sharpe ratio, drawdown, turnover, fees, rejections.",
        {"session_id": SESSION_ID},
        ("session_id",),
        answer(**_SUMMARY),
        handlers.summary,
    ),
    Operation(
        "PMB.session.export",
        "GET",
        "/v1/sessions/{session_id}/export",
        "Everything of a session: orders, trades, daily equity and figures.",
        {"session_id": SESSION_ID, "format": choice("Form of the tables.", ("json", "csv"), default="json")},
        ("session_id",),
        _EXPORT,
        handlers.export,
    ),
    Operation(
        "PMB.session.market",
        "GET",
        "/v1/sessions/{session_id}/market",
        "The last complete bar of each instrument of the session's universe.",
        {"session_id": SESSION_ID},
        ("session_id",),
        answer(
            session_id=_ID,
            frequency=choice("Length of the bars.", get_args(Frequency)),
            bars=rows(_BAR, tuple(_BAR), "Last bars, stocks first."),
            without_bar=listed(_ID, "Ids of instruments that have had no bar yet."),
        ),
        handlers.market,
    ),
)

_ORDERS = (
    Operation(
        "PMB.order.place",
        "POST",
        "/v1/orders",
        "Place an order; it can fill on bars that start at or after the clock.",
        {**_BOTH, "order": schemas.ORDER, "client_order_id": schemas.CLIENT_ORDER_ID},
        ("session_id", "account_id", "order"),
        answer(**_ORDER_PARTS, idempotent=_BOOLEAN, order=schemas.SHOWN_ORDER),
        handlers.place_order,
        changes=True,
    ),
    Operation(
        "PMB.order.get",
        "GET",
        "/v1/orders/{order_id}",
        "An order and what became of it.",
        {"order_id": ORDER_ID},
        ("order_id",),
        _ORDER_ANSWER,
        handlers.get_order,
    ),
    Operation(
        "PMB.order.cancel",
        "POST",
        "/v1/orders/{order_id}/cancel",
        "Cancel a working order; of a spread, all its legs.",
        {"order_id": ORDER_ID, **_BOTH},
        ("order_id", "session_id", "account_id"),
        _ORDER_ANSWER,
        handlers.cancel_order,
        changes=True,
    ),
    Operation(
        "PMB.order.modify",
        "POST",
        "/v1/orders/{order_id}/modify",
        "Replace a working order by one with other prices or another quantity; it loses its place in time.",
        {"order_id": ORDER_ID, **_BOTH, "updates": schemas.UPDATES},
        ("order_id", "session_id", "account_id", "updates"),
        answer(**_ORDER_PARTS, old_order_id=_ID, new_order_id=_ID, order=schemas.SHOWN_ORDER),
        handlers.modify_order,
        changes=True,
    ),
    Operation(
        "PMB.spread.place",
        "POST",
        "/v1/spreads",
        "Place a spread of two to four legs: all fill at one tick's opens, as market orders do, or none does.",
        {
            **_BOTH,
            "legs": schemas.LEGS,
            "qty": schemas.whole("Units of the spread.", 1, 10_000),
            "net_limit_price": {
                "type": "number",
                "description": "Most that a unit may cost a share, over all legs (negative: least it must bring); none: at market.",
                "minimum": -schemas.MOST_PRICE,
                "maximum": schemas.MOST_PRICE,
            },
            "time_in_force": schemas.TIME_IN_FORCE,
            "expire_ts": schemas.EXPIRE_TS,
            "client_order_id": schemas.CLIENT_ORDER_ID,
        },
        ("session_id", "account_id", "legs", "qty"),
        answer(
            spread_id=_ID,
            status=_STATUS,
            reason=_REASON,
            orders=listed(schemas.SHOWN_ORDER, "An order for each leg."),
            idempotent=_BOOLEAN,
        ),
        handlers.place_spread,
        changes=True,
    ),
    Operation(
        "PMB.option.exercise",
        "POST",
        "/v1/options/exercise",
        "Exercise held contracts at once, or say that they are not to be exercised at expiry.",
        {
            **_BOTH,
            "contract": text("OPRA symbol of the option.", 24),
            "qty": schemas.whole("Contracts to exercise now.", 1, schemas.MOST_QTY),
            "do_not_exercise": {
                "type": "boolean",
                "description": "Instead of qty: true forbids exercise at expiry, false allows it again.",
            },
        },
        ("session_id", "account_id", "contract"),
        answer(
            account_id=_ID,
            contract=_ID,
            do_not_exercise={"type": "boolean", "description": "Whether exercise at expiry is forbidden."},
            events=listed(schemas.EVENT, "What happened."),
        ),
        handlers.exercise,
        changes=True,
    ),
    Operation(
        "PMB.borrow.query",
        "GET",
        "/v1/borrow",
        "What can be borrowed of stocks to sell them short, and what it costs.",
        {"tickers": text("Tickers in capitals, comma-separated, such as AVLN,BRKT; at most 200.", 2_400)},
        ("tickers",),
        answer(borrow=rows(_BORROW, tuple(_BORROW), "In the order asked for."), unknown=UNKNOWN),
        handlers.borrow,
    ),
)

OPERATIONS: tuple[Operation, ...] = (*_ACCOUNTS, *_SESSIONS, *_ORDERS)
