"""Operations of PMB: reads, and commands with the answer made of what they brought about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_type_hints

import msgspec

from ktdeval_qfinzero.errors import invalid, not_found
from ktdeval_qfinzero.instruments import parse_tickers
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.operations import Operation, summary_of, typed
from ktdeval_qfinzero.pmb import shown as show, types
from ktdeval_qfinzero.pmb.broker import COMMANDS, TAKES, Outcome
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.placement import session_of
from ktdeval_qfinzero.pmb.values import WORKING, Account, Instrument, OrderStatus, Session
from ktdeval_qfinzero.schemas import Answer, page_of, read_cursor

if TYPE_CHECKING:
    from ktdeval_qfinzero.data.rows import Resolution
    from ktdeval_qfinzero.operations import Plain
    from ktdeval_qfinzero.workspace import Workspace

STATUS_ALIASES: Final[dict[str, tuple[OrderStatus, ...]]] = {"OPEN": WORKING, "NEW": ("ACCEPTED",)}
CSV_COLUMNS: Final = {
    "orders": (
        "order_id", "client_order_id", "created_at", "instrument", "side", "order_type", "qty", "limit_price", "stop_price",
        "time_in_force", "expire_ts", "status", "filled_qty", "avg_fill_price", "reason", "replaces", "replaced_by", "spread_id",
    ),
    "trades": ("trade_id", "ts", "order_id", "instrument", "side", "qty", "price", "value", "fee"),
    "history": ("date", "cash", "equity", "long_value", "short_value", "maintenance_requirement"),
}  # fmt: skip

_Row = TypeVar("_Row")
_Given = TypeVar("_Given", bound=Answer)


def _answer(kind: type[_Given], engine: Engine, **fields: object) -> _Given:
    """An answer as of the clock."""
    return kind(as_of_ts=moment_text(engine.now_ns), **fields)


# ---- accounts


def account_created(engine: Engine, done: Outcome) -> types.AccountCreated:
    """A new account."""
    account = show.account_shown(engine, engine.state.accounts[done.id])
    return _answer(types.AccountCreated, engine, account_id=done.id, account=account)


def get_account(engine: Engine, given: types.OneAccount) -> types.AccountAnswer:
    """An account at the last prices: cash, equity, margin and buying power."""
    return _answer(types.AccountAnswer, engine, account=show.account_shown(engine, _account(engine, given.account_id)))


def list_accounts(engine: Engine, given: types.Nothing) -> types.Accounts:  # noqa: ARG001 - all functions of operations take both
    """All accounts of this workspace."""
    accounts = engine.state.accounts.values()
    return _answer(types.Accounts, engine, accounts=[show.account_shown(engine, account) for account in accounts])


def positions(engine: Engine, given: types.OneAccount) -> types.Positions:
    """Positions of an account at the last prices."""
    account, marks = _account(engine, given.account_id), engine.marks()
    held = [show.position_shown(held, marks[name]) for name, held in sorted(account.positions.items()) if held.qty]
    return _answer(types.Positions, engine, account_id=account.id, positions=held)


def orders(engine: Engine, given: types.OrdersQuery) -> types.OrdersPage:
    """Orders of an account and what became of them, oldest first."""
    account, statuses = _account(engine, given.account_id), _statuses(given.status_in)
    chosen = (
        order
        for order in engine.state.orders.values()
        if order.account_id == account.id and given.session_id in (None, order.session_id) and order.status in statuses
    )
    rows, cursor = _page(chosen, given, lambda order: (order.seq,))
    sent = [show.order_shown(order) for order in rows]
    return _answer(types.OrdersPage, engine, account_id=account.id, orders=sent, next_cursor=cursor)


def trades(engine: Engine, given: types.TradesQuery) -> types.TradesPage:
    """Executions of an account, oldest first."""
    account = _account(engine, given.account_id)
    numbered = enumerate(engine.state.trades)
    chosen = (pair for pair in numbered if pair[1].account_id == account.id and given.session_id in (None, pair[1].session_id))
    rows, cursor = _page(chosen, given, lambda pair: (pair[0],))
    executions = [show.trade_shown(trade) for _, trade in rows]
    return _answer(types.TradesPage, engine, account_id=account.id, trades=executions, next_cursor=cursor)


def history(engine: Engine, given: types.HistoryQuery) -> types.HistoryPage:
    """An account at the close of each day on which it was in a session or held anything."""
    account = _account(engine, given.account_id)
    rows, cursor = _page(engine.state.days[account.id], given, lambda close: (date.fromisoformat(close.day).toordinal(),))
    closes = [show.day_shown(close) for close in rows]
    return _answer(types.HistoryPage, engine, account_id=account.id, history=closes, next_cursor=cursor)


# ---- sessions


def get_session(engine: Engine, given: types.OneSession) -> types.SessionAnswer:
    """A session: its clock, state and rules."""
    return _session_answer(engine, session_of(engine, given.session_id))


def session_changed(engine: Engine, done: Outcome) -> types.SessionAnswer:
    """A session that was begun or ended."""
    return _session_answer(engine, engine.state.sessions[done.id])


def _session_answer(engine: Engine, session: Session) -> types.SessionAnswer:
    account = show.account_shown(engine, engine.state.accounts[session.account_id])
    ids = {"session_id": session.id, "account_id": session.account_id}
    return _answer(types.SessionAnswer, engine, **ids, session=show.session_shown(engine.state, session), account=account)


def stepped(engine: Engine, done: Outcome) -> types.Stepped:
    """Outcome of a step."""
    session = engine.state.sessions[done.id]
    clock = types.ClockShown(moment_text(done.before_ns), moment_text(engine.now_ns), session.frequency, session.status)
    happened = [show.event_shown(event) for event in done.events if event.type != "CLOCK_MOVED"]
    account = show.account_shown(engine, engine.state.accounts[session.account_id])
    return _answer(types.Stepped, engine, session_id=session.id, clock=clock, events=happened, account=account)


def summary(engine: Engine, given: types.OneSession) -> Answer:
    """Figures of a session so far: return, Sharpe ratio, drawdown, turnover, fees, rejections."""
    figures = msgspec.structs.asdict(show.summary_shown(engine, session_of(engine, given.session_id)))
    answer: Answer = _answer(types.SummaryAnswer, engine, **figures)
    return answer


def export(engine: Engine, given: types.ExportSession) -> types.Export:
    """Everything of a session: orders, trades, daily equity and figures."""
    state, log, session = engine.state, engine.log, session_of(engine, given.session_id)
    tables: dict[str, Sequence[Any]] = {
        "orders": [show.order_shown(order) for order in state.orders.values() if order.session_id == session.id],
        "trades": [show.trade_shown(trade) for trade in state.trades if trade.session_id == session.id],
        "history": [show.day_shown(close) for close in state.days[session.account_id] if close.session_id == session.id],
    }
    files = {f"{name}.csv": show.to_csv(rows, CSV_COLUMNS[name]) for name, rows in tables.items()} if given.format == "csv" else {}
    return _answer(
        types.Export,
        engine,
        session_id=session.id,
        format=given.format,
        session=show.session_shown(state, session),
        log_lines=len(log.entries),
        log_hash=log.last_hash,
        summary=show.summary_shown(engine, session),
        **({"files": files} if given.format == "csv" else tables),
    )


def market(engine: Engine, given: types.OneSession) -> types.Market:
    """The last complete bar of each instrument of the session's universe."""
    session = session_of(engine, given.session_id)
    resolution: Resolution = "minute" if session.frequency == "1m" else "day"
    last = {name: engine.reference.last_bar(name, resolution, engine.now_ns) for name in session.universe}
    bars = [show.bar_shown(engine.hours, name, bars, session.frequency) for name, bars in last.items() if bars is not None]
    without_bar = [name.id for name, bars in last.items() if bars is None]
    return _answer(types.Market, engine, session_id=session.id, frequency=session.frequency, bars=bars, without_bar=without_bar)


# ---- orders


def get_order(engine: Engine, given: types.OneOrder) -> types.OrderAnswer:
    """An order and what became of it."""
    if given.order_id not in engine.state.orders:
        raise not_found("order_id", "there is no such order")
    return _order_answer(types.OrderAnswer, engine, given.order_id)


def order_placed(engine: Engine, done: Outcome) -> types.OrderPlaced:
    """An order that was sent, now or before."""
    return _order_answer(types.OrderPlaced, engine, done.id, idempotent=not done.events)


def order_cancelled(engine: Engine, done: Outcome) -> types.OrderAnswer:
    """An order that was cancelled."""
    return _order_answer(types.OrderAnswer, engine, done.id)


def order_modified(engine: Engine, done: Outcome) -> types.OrderModified:
    """An order that replaced another."""
    return _order_answer(types.OrderModified, engine, done.id, old_order_id=done.given.order_id, new_order_id=done.id)


def _order_answer(kind: type[_Given], engine: Engine, order_id: str, **more: object) -> _Given:
    order = show.order_shown(engine.state.orders[order_id])
    common = {name: getattr(order, name) for name in ("order_id", "client_order_id", "status", "reason")}
    return _answer(kind, engine, **common, order=order, **more)


def spread_placed(engine: Engine, done: Outcome) -> types.SpreadPlaced:
    """A spread that was sent, now or before."""
    legs = [show.order_shown(order) for order in engine.legs_of(engine.state.orders[done.id])]
    common = {name: getattr(legs[0], name) for name in ("spread_id", "status", "reason")}
    return _answer(types.SpreadPlaced, engine, **common, orders=legs, idempotent=not done.events)


def exercised(engine: Engine, done: Outcome) -> types.Exercised:
    """Outcome for contracts."""
    account_id, happened = done.given.account_id, [show.event_shown(event) for event in done.events]
    kept = (account_id, done.id) in engine.state.kept
    return _answer(types.Exercised, engine, account_id=account_id, contract=done.id, do_not_exercise=kept, events=happened)


def borrow(engine: Engine, given: types.BorrowQuery) -> types.Borrow:
    """What can be borrowed of stocks to sell them short, and what it costs."""
    tickers = parse_tickers(given.tickers, "tickers")
    if len(tickers) > types.MOST_TICKERS:
        raise invalid("tickers", f"at most {types.MOST_TICKERS}")
    listed = [ticker for ticker in tickers if engine.reference.listed(Instrument("STOCK", ticker), engine.now_ns)]
    rates = {ticker: engine.reference.prices.borrow(ticker, engine.now_ns) for ticker in listed}
    rows = [
        types.BorrowShown(ticker, 0, None, None)
        if row is None
        else types.BorrowShown(ticker, row.shares, row.fee_bps_per_year, moment_text(row.available_ns))
        for ticker, row in rates.items()
    ]
    return _answer(types.Borrow, engine, borrow=rows, unknown=[ticker for ticker in tickers if ticker not in rates])


# ---- parts of operations


def _account(engine: Engine, account_id: str) -> Account:
    account = engine.state.accounts.get(account_id)
    if account is None:
        raise not_found("account_id", "there is no such account")
    return account


def _statuses(text: str | None) -> frozenset[str]:
    names = get_args(OrderStatus)
    if text is None:
        return frozenset(names)
    chosen: set[str] = set()
    for word in text.split(","):
        name = word.strip().upper()
        if name not in STATUS_ALIASES and name not in names:
            raise invalid("status_in", f"expected words out of {', '.join((*names, *STATUS_ALIASES))}, separated by commas")
        chosen |= set(STATUS_ALIASES.get(name, (name,)))
    return frozenset(chosen)


def _page(
    rows: Iterable[_Row], given: types.OrdersQuery | types.TradesQuery | types.HistoryQuery, key: Callable[[_Row], tuple[int]]
) -> tuple[Sequence[_Row], str | None]:
    """(rows after the cursor's key, up to the limit; where to go on, None at the end). Rows come by ascending key."""
    after = (-1,) if given.cursor is None else read_cursor(given.cursor, (int,))
    return page_of((row for row in rows if key(row) > after), given.limit, key)


# ---- declarations


def _read(name: str, path: str, function: Callable[[Engine, Any], Answer], gives: type[Answer] | None = None) -> Operation:
    return Operation(name, "GET", path, summary_of(function), *typed(function, lambda workspace: workspace.broker.engine, gives))


def _command(name: str, path: str, command: str, answer: Callable[[Engine, Outcome], Answer]) -> Operation:
    def handler(workspace: Workspace, given: Plain) -> Answer:
        done = workspace.broker.execute(command, given)
        return answer(workspace.broker.engine, done)

    gives = get_type_hints(answer)["return"]
    return Operation(name, "POST", path, summary_of(COMMANDS[command]), TAKES[command], gives, handler, changes=True)


OPERATIONS: tuple[Operation, ...] = (
    _command("PMB.account.create", "/v1/accounts", "account.create", account_created),
    _read("PMB.account.get", "/v1/accounts/{account_id}", get_account),
    _read("PMB.account.list", "/v1/accounts", list_accounts),
    _read("PMB.account.positions", "/v1/accounts/{account_id}/positions", positions),
    _read("PMB.account.orders", "/v1/accounts/{account_id}/orders", orders),
    _read("PMB.account.trades", "/v1/accounts/{account_id}/trades", trades),
    _read("PMB.account.history", "/v1/accounts/{account_id}/history", history),
    _command("PMB.session.create", "/v1/sessions", "session.create", session_changed),
    _read("PMB.session.get", "/v1/sessions/{session_id}", get_session),
    _command("PMB.session.step", "/v1/sessions/{session_id}/step", "session.step", stepped),
    _command("PMB.session.stop", "/v1/sessions/{session_id}/stop", "session.stop", session_changed),
    _read("PMB.session.summary", "/v1/sessions/{session_id}/summary", summary, types.SummaryAnswer),
    _read("PMB.session.export", "/v1/sessions/{session_id}/export", export),
    _read("PMB.session.market", "/v1/sessions/{session_id}/market", market),
    _command("PMB.order.place", "/v1/orders", "order.place", order_placed),
    _read("PMB.order.get", "/v1/orders/{order_id}", get_order),
    _command("PMB.order.cancel", "/v1/orders/{order_id}/cancel", "order.cancel", order_cancelled),
    _command("PMB.order.modify", "/v1/orders/{order_id}/modify", "order.modify", order_modified),
    _command("PMB.spread.place", "/v1/spreads", "spread.place", spread_placed),
    _command("PMB.option.exercise", "/v1/options/exercise", "option.exercise", exercised),
    _read("PMB.borrow.query", "/v1/borrow", borrow),
)
"""All of them, in the order in which models see them."""
