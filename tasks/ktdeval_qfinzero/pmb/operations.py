"""Operations of PMB: reads, and commands with the answer made of what they brought about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_type_hints

import msgspec

from ktdeval_qfinzero.errors import invalid, not_found
from ktdeval_qfinzero.instruments import parse_tickers
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.operations import Operation, summary_of, typed
from ktdeval_qfinzero.paging import read_cursor, write_cursor
from ktdeval_qfinzero.pmb.answers import (
    AccountAnswer,
    AccountCreated,
    Accounts,
    Borrow,
    BorrowShown,
    ClockShown,
    Exercised,
    Export,
    HistoryPage,
    Market,
    OrderAnswer,
    OrderModified,
    OrderPlaced,
    OrdersPage,
    Positions,
    SessionAnswer,
    SpreadPlaced,
    Stepped,
    SummaryAnswer,
    TradesPage,
)
from ktdeval_qfinzero.pmb.arguments import (
    MOST_TICKERS,
    BorrowQuery,
    ExportSession,
    HistoryQuery,
    Nothing,
    OneAccount,
    OneOrder,
    OneSession,
    OrdersQuery,
    TradesQuery,
)
from ktdeval_qfinzero.pmb.broker import COMMANDS, TAKES, Outcome
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.placement import session_of
from ktdeval_qfinzero.pmb.shown import (
    account_shown,
    bar_shown,
    day_shown,
    event_shown,
    order_shown,
    position_shown,
    session_shown,
    summary_shown,
    to_csv,
    trade_shown,
)
from ktdeval_qfinzero.pmb.values import WORKING, Account, Instrument, OrderStatus, Session
from ktdeval_qfinzero.schemas import Answer

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

Row = TypeVar("Row")

# ---- accounts


def account_created(engine: Engine, done: Outcome) -> AccountCreated:
    """A new account."""
    account = account_shown(engine, engine.state.accounts[done.id])
    return AccountCreated(as_of_ts=moment_text(engine.now_ns), account_id=done.id, account=account)


def get_account(engine: Engine, given: OneAccount) -> AccountAnswer:
    """An account at the last prices: cash, equity, margin and buying power."""
    return AccountAnswer(as_of_ts=moment_text(engine.now_ns), account=account_shown(engine, _account(engine, given.account_id)))


def list_accounts(engine: Engine, given: Nothing) -> Accounts:  # noqa: ARG001 - all functions of operations take both
    """All accounts of this workspace."""
    shown = [account_shown(engine, account) for account in engine.state.accounts.values()]
    return Accounts(as_of_ts=moment_text(engine.now_ns), accounts=shown)


def positions(engine: Engine, given: OneAccount) -> Positions:
    """Positions of an account at the last prices."""
    account, marks = _account(engine, given.account_id), engine.marks()
    held = [position_shown(held, marks[name]) for name, held in sorted(account.positions.items()) if held.qty]
    return Positions(as_of_ts=moment_text(engine.now_ns), account_id=account.id, positions=held)


def orders(engine: Engine, given: OrdersQuery) -> OrdersPage:
    """Orders of an account and what became of them, oldest first."""
    account, statuses = _account(engine, given.account_id), _statuses(given.status_in)
    chosen = (
        order
        for order in engine.state.orders.values()
        if order.account_id == account.id and given.session_id in (None, order.session_id) and order.status in statuses
    )
    rows, cursor = _page(chosen, given, lambda order: order.seq)
    shown = [order_shown(order) for order in rows]
    return OrdersPage(as_of_ts=moment_text(engine.now_ns), account_id=account.id, orders=shown, next_cursor=cursor)


def trades(engine: Engine, given: TradesQuery) -> TradesPage:
    """Executions of an account, oldest first."""
    account = _account(engine, given.account_id)
    numbered = enumerate(engine.state.trades)
    chosen = (pair for pair in numbered if pair[1].account_id == account.id and given.session_id in (None, pair[1].session_id))
    rows, cursor = _page(chosen, given, lambda pair: pair[0])
    shown = [trade_shown(trade) for _, trade in rows]
    return TradesPage(as_of_ts=moment_text(engine.now_ns), account_id=account.id, trades=shown, next_cursor=cursor)


def history(engine: Engine, given: HistoryQuery) -> HistoryPage:
    """An account at the close of each day on which it was in a session or held anything."""
    account = _account(engine, given.account_id)
    rows, cursor = _page(engine.state.days[account.id], given, lambda close: close.day.toordinal())
    shown = [day_shown(close) for close in rows]
    return HistoryPage(as_of_ts=moment_text(engine.now_ns), account_id=account.id, history=shown, next_cursor=cursor)


# ---- sessions


def get_session(engine: Engine, given: OneSession) -> SessionAnswer:
    """A session: its clock, state and rules."""
    return _session_answer(engine, session_of(engine, given.session_id))


def session_changed(engine: Engine, done: Outcome) -> SessionAnswer:
    """A session that was begun or ended."""
    return _session_answer(engine, engine.state.sessions[done.id])


def stepped(engine: Engine, done: Outcome) -> Stepped:
    """Outcome of a step."""
    session = engine.state.sessions[done.id]
    clock = ClockShown(
        prev_ts=moment_text(done.before_ns),
        current_ts=moment_text(engine.now_ns),
        frequency=session.frequency,
        status=session.status,
    )
    return Stepped(
        as_of_ts=moment_text(engine.now_ns),
        session_id=session.id,
        clock=clock,
        events=[event_shown(event) for event in done.events if event.type != "CLOCK_MOVED"],
        account=account_shown(engine, engine.state.accounts[session.account_id]),
    )


def summary(engine: Engine, given: OneSession) -> Answer:
    """Figures of a session so far: return, Sharpe ratio, drawdown, turnover, fees, rejections."""
    figures = msgspec.structs.asdict(summary_shown(engine, session_of(engine, given.session_id)))
    answer: Answer = SummaryAnswer(as_of_ts=moment_text(engine.now_ns), **figures)
    return answer


def export(engine: Engine, given: ExportSession) -> Export:
    """Everything of a session: orders, trades, daily equity and figures."""
    state, log, session = engine.state, engine.journal.log, session_of(engine, given.session_id)
    tables: dict[str, Sequence[Any]] = {
        "orders": [order_shown(order) for order in state.orders.values() if order.session_id == session.id],
        "trades": [trade_shown(trade) for trade in state.trades if trade.session_id == session.id],
        "history": [day_shown(close) for close in state.days[session.account_id] if close.session_id == session.id],
    }
    files = {f"{name}.csv": to_csv(rows, CSV_COLUMNS[name]) for name, rows in tables.items()} if given.format == "csv" else {}
    shown: dict[str, Any] = {"files": files} if given.format == "csv" else tables
    return Export(
        as_of_ts=moment_text(engine.now_ns),
        session_id=session.id,
        format=given.format,
        session=session_shown(state, session),
        log_lines=len(log.entries),
        log_hash=log.last_hash,
        summary=summary_shown(engine, session),
        **shown,
    )


def market(engine: Engine, given: OneSession) -> Market:
    """The last complete bar of each instrument of the session's universe."""
    session = session_of(engine, given.session_id)
    names = session.universe
    resolution: Resolution = "minute" if session.frequency == "1m" else "day"
    last = {name: engine.reference.last_bar(name, resolution, engine.now_ns) for name in names}
    return Market(
        as_of_ts=moment_text(engine.now_ns),
        session_id=session.id,
        frequency=session.frequency,
        bars=[bar_shown(name, bars, session.frequency) for name, bars in last.items() if bars is not None],
        without_bar=[name.id for name, bars in last.items() if bars is None],
    )


# ---- orders


def get_order(engine: Engine, given: OneOrder) -> OrderAnswer:
    """An order and what became of it."""
    if given.order_id not in engine.state.orders:
        raise not_found("order_id", "there is no such order")
    return OrderAnswer(**_order(engine, given.order_id))


def order_placed(engine: Engine, done: Outcome) -> OrderPlaced:
    """An order that was sent, now or before."""
    return OrderPlaced(**_order(engine, done.id), idempotent=not done.events)


def order_cancelled(engine: Engine, done: Outcome) -> OrderAnswer:
    """An order that was cancelled."""
    return OrderAnswer(**_order(engine, done.id))


def order_modified(engine: Engine, done: Outcome) -> OrderModified:
    """An order that took the place of another."""
    return OrderModified(**_order(engine, done.id), old_order_id=done.given.order_id, new_order_id=done.id)


def spread_placed(engine: Engine, done: Outcome) -> SpreadPlaced:
    """A spread that was sent, now or before."""
    legs = engine.legs_of(engine.state.orders[done.id])
    return SpreadPlaced(
        as_of_ts=moment_text(engine.now_ns),
        spread_id=legs[0].spread_id,
        status=legs[0].status,
        reason=legs[0].reason or None,
        orders=[order_shown(order) for order in legs],
        idempotent=not done.events,
    )


def exercised(engine: Engine, done: Outcome) -> Exercised:
    """Outcome for contracts."""
    return Exercised(
        as_of_ts=moment_text(engine.now_ns),
        account_id=done.given.account_id,
        contract=done.id,
        do_not_exercise=(done.given.account_id, done.id) in engine.state.kept,
        events=[event_shown(event) for event in done.events],
    )


def borrow(engine: Engine, given: BorrowQuery) -> Borrow:
    """What can be borrowed of stocks to sell them short, and what it costs."""
    tickers = parse_tickers(given.tickers, "tickers")
    if len(tickers) > MOST_TICKERS:
        raise invalid("tickers", f"at most {MOST_TICKERS}")
    listed = [ticker for ticker in tickers if engine.reference.listed(Instrument("STOCK", ticker), engine.now_ns)]
    known = {ticker: engine.reference.prices.borrow(ticker, engine.now_ns) for ticker in listed}
    rows = [
        BorrowShown(
            ticker=ticker,
            available_shares=0 if row is None else row.shares,
            fee_bps_per_year=None if row is None else row.fee_bps_per_year,
            known_since=None if row is None else moment_text(row.available_ns),
        )
        for ticker, row in known.items()
    ]
    unknown = [ticker for ticker in tickers if ticker not in known]
    return Borrow(as_of_ts=moment_text(engine.now_ns), borrow=rows, unknown=unknown)


# ---- parts of answers


def _session_answer(engine: Engine, session: Session) -> SessionAnswer:
    return SessionAnswer(
        as_of_ts=moment_text(engine.now_ns),
        session_id=session.id,
        account_id=session.account_id,
        session=session_shown(engine.state, session),
        account=account_shown(engine, engine.state.accounts[session.account_id]),
    )


def _order(engine: Engine, order_id: str) -> dict[str, Any]:
    """Fields that all answers about an order have."""
    order = engine.state.orders[order_id]
    return {
        "as_of_ts": moment_text(engine.now_ns),
        "order_id": order.id,
        "client_order_id": order.client_order_id or None,
        "status": order.status,
        "reason": order.reason or None,
        "order": order_shown(order),
    }


def _account(engine: Engine, account_id: str) -> Account:
    account = engine.state.accounts.get(account_id)
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


def _page(
    rows: Iterable[Row], given: OrdersQuery | TradesQuery | HistoryQuery, key: Callable[[Row], int]
) -> tuple[Sequence[Row], str | None]:
    """(rows after the cursor's key, up to the limit; where to go on, None at the end). Rows come by ascending key."""
    after = -1 if given.cursor is None else int(read_cursor(given.cursor, (int,))[0])
    found = [row for row in rows if key(row) > after]
    page = found[: given.limit]
    return page, write_cursor(key(page[-1])) if len(found) > len(page) else None


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
    _read("PMB.session.summary", "/v1/sessions/{session_id}/summary", summary, SummaryAnswer),
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
