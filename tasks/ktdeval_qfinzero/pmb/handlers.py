"""What each operation of the broker does: a command or a read, and the answer made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, get_args

from ktdeval.api import JsonValue
from ktdeval_qfinzero.errors import invalid, not_found
from ktdeval_qfinzero.instruments import parse_tickers
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.operations import Arguments
from ktdeval_qfinzero.paging import read_cursor, write_cursor
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.reads import (
    Json,
    account_json,
    day_json,
    event_json,
    order_json,
    position_json,
    session_json,
    trade_json,
)
from ktdeval_qfinzero.pmb.records import Session
from ktdeval_qfinzero.pmb.reports import export_json, market_json, session_header, summary_json, to_csv
from ktdeval_qfinzero.pmb.session_commands import session_of
from ktdeval_qfinzero.pmb.types import WORKING, Account, Instrument, Order, OrderStatus
from ktdeval_qfinzero.workspace import Workspace

MOST_TICKERS = 200
STATUS_ALIASES: dict[str, tuple[OrderStatus, ...]] = {"OPEN": WORKING, "NEW": ("ACCEPTED",)}
CSV_COLUMNS = {
    "orders": (
        "order_id", "client_order_id", "created_at", "instrument", "side", "order_type", "qty", "limit_price", "stop_price",
        "time_in_force", "expire_ts", "status", "filled_qty", "avg_fill_price", "reason", "replaces", "replaced_by", "spread_id",
    ),
    "trades": ("trade_id", "ts", "order_id", "instrument", "side", "qty", "price", "value", "fee"),
    "history": ("date", "cash", "equity", "long_value", "short_value", "maintenance_requirement"),
}  # fmt: skip

Row = TypeVar("Row")


def create_account(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.account.create."""
    account_id = workspace.broker.execute("account.create", given)["account_id"]
    engine = workspace.broker.engine
    return _answer(engine, account_id=account_id, account=account_json(engine, engine.book.accounts[account_id]))


def get_account(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.account.get."""
    engine = workspace.broker.engine
    return _answer(engine, account=account_json(engine, _account(engine, given)))


def list_accounts(workspace: Workspace, given: Arguments) -> JsonValue:  # noqa: ARG001 - every handler takes both
    """PMB.account.list."""
    engine = workspace.broker.engine
    return _answer(engine, accounts=[account_json(engine, account) for account in engine.book.accounts.values()])


def positions(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.account.positions."""
    engine = workspace.broker.engine
    account, marks = _account(engine, given), engine.marks()
    held = [position for _, position in sorted(account.positions.items()) if position.qty]
    return _answer(engine, account_id=account.id, positions=[position_json(position, marks) for position in held])


def orders(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.account.orders."""
    engine = workspace.broker.engine
    account, statuses = _account(engine, given), _statuses(given.get("status_in"))
    session_id = given.get("session_id")
    chosen = (
        order
        for order in engine.book.orders.values()
        if order.account_id == account.id and session_id in (None, order.session_id) and order.status in statuses
    )
    rows, cursor = _page(chosen, given, lambda order: order.seq)
    return _answer(engine, account_id=account.id, orders=[order_json(order) for order in rows], next_cursor=cursor)


def trades(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.account.trades."""
    engine = workspace.broker.engine
    account, session_id = _account(engine, given), given.get("session_id")
    numbered = enumerate(engine.book.trades)
    chosen = (pair for pair in numbered if pair[1].account_id == account.id and session_id in (None, pair[1].session_id))
    rows, cursor = _page(chosen, given, lambda pair: pair[0])
    return _answer(engine, account_id=account.id, trades=[trade_json(trade) for _, trade in rows], next_cursor=cursor)


def history(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.account.history."""
    engine = workspace.broker.engine
    account = _account(engine, given)
    rows, cursor = _page(engine.book.days[account.id], given, lambda close: close.day.toordinal())
    return _answer(engine, account_id=account.id, history=[day_json(close) for close in rows], next_cursor=cursor)


def create_session(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.session.create."""
    session_id = workspace.broker.execute("session.create", given)["session_id"]
    return _session_answer(workspace.broker.engine, workspace.broker.book.sessions[session_id])


def get_session(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.session.get."""
    engine = workspace.broker.engine
    return _session_answer(engine, session_of(engine, given["session_id"]))


def step_session(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.session.step."""
    broker = workspace.broker
    engine = broker.engine
    before, last = engine.now_ns, len(broker.log.entries)
    broker.execute("session.step", given)
    session = engine.book.sessions[given["session_id"]]
    clock = {
        "prev_ts": moment_text(before),
        "current_ts": moment_text(engine.now_ns),
        "frequency": session.frequency,
        "status": session.status,
    }
    events = [event_json(event) for event in broker.log.events(after=last) if event.type != "CLOCK_MOVED"]
    account = account_json(engine, engine.book.accounts[session.account_id])
    return _answer(engine, session_id=session.id, clock=clock, events=events, account=account)


def stop_session(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.session.stop."""
    workspace.broker.execute("session.stop", given)
    return _session_answer(workspace.broker.engine, workspace.broker.book.sessions[given["session_id"]])


def summary(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.session.summary."""
    engine = workspace.broker.engine
    return _answer(engine, **summary_json(engine, workspace.broker.log, session_of(engine, given["session_id"])))


def export(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.session.export."""
    engine, log = workspace.broker.engine, workspace.broker.log
    session = session_of(engine, given["session_id"])
    tables = export_json(engine, session)
    shown: Json = {"format": given["format"], **session_header(engine, log, session), "summary": summary_json(engine, log, session)}
    if given["format"] == "csv":
        files = {f"{name}.csv": to_csv(rows, CSV_COLUMNS[name]) for name, rows in tables.items()}
        return _answer(engine, session_id=session.id, **shown, files=files)
    return _answer(engine, session_id=session.id, **shown, **tables)


def market(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.session.market."""
    engine = workspace.broker.engine
    session = session_of(engine, given["session_id"])
    bars, missing = market_json(engine, session)
    return _answer(engine, session_id=session.id, frequency=session.frequency, bars=bars, without_bar=missing)


def place_order(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.order.place."""
    placed = workspace.broker.execute("order.place", given)
    return _order_answer(workspace.broker.engine, placed["order_id"], idempotent=placed["idempotent"])


def get_order(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.order.get."""
    engine = workspace.broker.engine
    if given["order_id"] not in engine.book.orders:
        raise not_found("order_id", "there is no such order")
    return _order_answer(engine, given["order_id"])


def cancel_order(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.order.cancel."""
    workspace.broker.execute("order.cancel", given)
    return _order_answer(workspace.broker.engine, given["order_id"])


def modify_order(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.order.modify."""
    changed = workspace.broker.execute("order.modify", given)
    return _order_answer(
        workspace.broker.engine, changed["order_id"], old_order_id=changed["replaces"], new_order_id=changed["order_id"]
    )


def place_spread(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.spread.place."""
    placed = workspace.broker.execute("spread.place", given)
    engine = workspace.broker.engine
    legs = engine.legs_of(engine.book.orders[placed["order_id"]])
    shown = [order_json(order) for order in legs]
    return _answer(
        engine,
        spread_id=legs[0].spread_id,
        status=legs[0].status,
        reason=legs[0].reason or None,
        orders=shown,
        idempotent=placed["idempotent"],
    )


def exercise(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.option.exercise."""
    broker = workspace.broker
    engine, last = broker.engine, len(broker.log.entries)
    contract = broker.execute("option.exercise", given)["contract"]
    events = [event_json(event) for event in broker.log.events(after=last)]
    kept = (given["account_id"], contract) in engine.book.kept
    return _answer(engine, account_id=given["account_id"], contract=contract, do_not_exercise=kept, events=events)


def borrow(workspace: Workspace, given: Arguments) -> JsonValue:
    """PMB.borrow.query."""
    engine = workspace.broker.engine
    tickers = parse_tickers(given["tickers"], "tickers")
    if len(tickers) > MOST_TICKERS:
        raise invalid("tickers", f"at most {MOST_TICKERS}")
    listed = [ticker for ticker in tickers if engine.reference.listed(Instrument("STOCK", ticker), engine.now_ns)]
    rows = []
    for ticker in listed:
        row = workspace.view.borrow(ticker)
        rows.append(
            {
                "ticker": ticker,
                "available_shares": 0 if row is None else row.shares,
                "fee_bps_per_year": None if row is None else row.fee_bps_per_year,
                "known_since": None if row is None else moment_text(row.available_ns),
            }
        )
    return _answer(engine, borrow=rows, unknown=[ticker for ticker in tickers if ticker not in listed])


def _answer(engine: Engine, **parts: JsonValue) -> Json:
    return {"as_of_ts": moment_text(engine.now_ns), **parts}


def _session_answer(engine: Engine, session: Session) -> Json:
    account = account_json(engine, engine.book.accounts[session.account_id])
    shown = session_json(engine.book, session)
    return _answer(engine, session_id=session.id, account_id=session.account_id, session=shown, account=account)


def _order_answer(engine: Engine, order_id: str, **more: JsonValue) -> Json:
    order: Order = engine.book.orders[order_id]
    return _answer(
        engine,
        order_id=order.id,
        client_order_id=order.client_order_id or None,
        status=order.status,
        reason=order.reason or None,
        **more,
        order=order_json(order),
    )


def _account(engine: Engine, given: Arguments) -> Account:
    account = engine.book.accounts.get(given["account_id"])
    if account is None:
        raise not_found("account_id", "there is no such account")
    return account


def _statuses(text: str | None) -> frozenset[str]:
    known = get_args(OrderStatus)
    if text is None:
        return frozenset(known)
    chosen: set[str] = set()
    for word in text.split(","):
        name = word.strip().upper()
        if name not in STATUS_ALIASES and name not in known:
            raise invalid("status_in", f"expected words out of {', '.join((*known, *STATUS_ALIASES))}, separated by commas")
        chosen |= set(STATUS_ALIASES.get(name, (name,)))
    return frozenset(chosen)


def _page(rows: Iterable[Row], given: Arguments, key: Callable[[Row], int]) -> tuple[Sequence[Row], str | None]:
    """(rows after the cursor's key, up to the limit; where to go on, None at the end). Rows come by ascending key."""
    text = given.get("cursor")
    after = -1 if text is None else int(read_cursor(text, (int,))[0])
    found = [row for row in rows if key(row) > after]
    page = found[: given["limit"]]
    return page, write_cursor(key(page[-1])) if len(found) > len(page) else None
