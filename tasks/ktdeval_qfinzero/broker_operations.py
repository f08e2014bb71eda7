"""Operations of PMB. Queries read the broker's state; commands change it, and their answers are
derived from their outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import structs

from ktdeval_qfinzero.cursors import page_of, read_cursor
from ktdeval_qfinzero.errors import invalid, not_found
from ktdeval_qfinzero.instruments import parse_tickers
from ktdeval_qfinzero.operations import Operation, query, summary_of
from ktdeval_qfinzero.pmb import account_views as show, answers, arguments
from ktdeval_qfinzero.pmb.broker import COMMANDS, TAKES, CommandOutcome
from ktdeval_qfinzero.pmb.broker_types import WORKING, Account, Instrument, OrderStatus, Session
from ktdeval_qfinzero.pmb.engine_state import Engine
from ktdeval_qfinzero.pmb.placement import session_of
from ktdeval_qfinzero.schemas import Nothing
from ktdeval_qfinzero.timestamps import moment_text

if TYPE_CHECKING:
    from ktdeval_qfinzero.client_workspace import Workspace
    from ktdeval_qfinzero.data.rows import Resolution
    from ktdeval_qfinzero.operations import Plain
    from ktdeval_qfinzero.pmb.state_events import DayClosed

STATUS_ALIASES: Final[dict[str, tuple[OrderStatus, ...]]] = {"OPEN": WORKING, "NEW": ("ACCEPTED",)}
CSV_COLUMNS: Final = {
    "orders": (
        "order_id",
        "client_order_id",
        "created_at",
        "instrument",
        "side",
        "order_type",
        "qty",
        "limit_price",
        "stop_price",
        "time_in_force",
        "expire_ts",
        "status",
        "filled_qty",
        "avg_fill_price",
        "reason",
        "replaces",
        "replaced_by",
        "spread_id",
    ),
    "trades": ("trade_id", "ts", "order_id", "instrument", "side", "qty", "price", "value", "fee"),
    "history": ("date", "cash", "equity", "long_value", "short_value", "maintenance_requirement"),
}

_Row = TypeVar("_Row")


# ---- accounts


def account_created(engine: Engine, done: CommandOutcome) -> answers.AccountCreated:
    """Return the new account."""
    account = engine.state.accounts[done.id]
    return answers.AccountCreated(
        account_id=done.id,
        account=show.account_shown(engine, account),
    )


def get_account(engine: Engine, given: arguments.OneAccount) -> answers.AccountAnswer:
    """An account at the last prices: cash, equity, margin and buying power."""
    account = _account_by_id(engine, given.account_id)
    return answers.AccountAnswer(account=show.account_shown(engine, account))


def list_accounts(engine: Engine, given: Nothing) -> answers.Accounts:  # noqa: ARG001 - all functions of operations take both
    """All accounts of this workspace."""
    accounts = engine.state.accounts.values()
    return answers.Accounts(
        accounts=[show.account_shown(engine, account) for account in accounts],
    )


def positions(engine: Engine, given: arguments.OneAccount) -> answers.Positions:
    """Positions of an account at the last prices."""
    account = _account_by_id(engine, given.account_id)
    marks = engine.marks()
    open_positions = [
        show.position_shown(position, marks[name])
        for name, position in sorted(account.positions.items())
        if position.qty
    ]

    return answers.Positions(account_id=account.id, positions=open_positions)


def orders(engine: Engine, given: arguments.OrdersQuery) -> answers.OrdersPage:
    """Orders of an account and what became of them, oldest first."""
    account = _account_by_id(engine, given.account_id)
    statuses = _statuses(given.status_in)
    chosen = (
        order
        for order in engine.state.orders.values()
        if order.account_id == account.id
        and given.session_id in (None, order.session_id)
        and order.status in statuses
    )
    rows, next_cursor = _page(chosen, given, lambda order: (order.seq,))

    return answers.OrdersPage(
        account_id=account.id,
        orders=[show.order_shown(order) for order in rows],
        next_cursor=next_cursor,
    )


def trades(engine: Engine, given: arguments.SessionRows) -> answers.TradesPage:
    """Executions of an account, oldest first."""
    account = _account_by_id(engine, given.account_id)
    numbered = enumerate(engine.state.trades)
    chosen = (
        (number, trade)
        for number, trade in numbered
        if trade.account_id == account.id and given.session_id in (None, trade.session_id)
    )
    rows, next_cursor = _page(chosen, given, lambda pair: (pair[0],))

    return answers.TradesPage(
        account_id=account.id,
        trades=[show.trade_shown(trade) for _, trade in rows],
        next_cursor=next_cursor,
    )


def history(engine: Engine, given: arguments.AccountRows) -> answers.HistoryPage:
    """An account at the close of each day on which it was in a session or held anything."""
    account = _account_by_id(engine, given.account_id)
    closes = engine.state.days[account.id]
    rows, next_cursor = _page(closes, given, _number_of_day)

    return answers.HistoryPage(
        account_id=account.id,
        history=[show.day_shown(close) for close in rows],
        next_cursor=next_cursor,
    )


def _number_of_day(close: DayClosed) -> tuple[int]:
    return (date.fromisoformat(close.day).toordinal(),)


# ---- sessions


def get_session(engine: Engine, given: arguments.OneSession) -> answers.SessionAnswer:
    """A session: its clock, state and rules."""
    return _session_answer(engine, session_of(engine, given.session_id))


def session_changed(engine: Engine, done: CommandOutcome) -> answers.SessionAnswer:
    """Return the session that was begun or ended, and its account."""
    return _session_answer(engine, engine.state.sessions[done.id])


def _session_answer(engine: Engine, session: Session) -> answers.SessionAnswer:
    account = engine.state.accounts[session.account_id]
    return show.view(
        answers.SessionAnswer,
        session,
        session=show.session_shown(engine.state, session),
        account=show.account_shown(engine, account),
    )


def describe_step(engine: Engine, done: CommandOutcome) -> answers.Stepped:
    """Return the outcome of a step."""
    session = engine.state.sessions[done.id]
    account = engine.state.accounts[session.account_id]
    before, now = moment_text(done.before_ns), moment_text(engine.now_ns)
    clock = show.view(answers.ClockShown, session, prev_ts=before, current_ts=now)
    events = [show.event_shown(event) for event in done.events if event.type != "CLOCK_MOVED"]

    return answers.Stepped(
        session_id=session.id,
        clock=clock,
        events=events,
        account=show.account_shown(engine, account),
    )


def summary(engine: Engine, given: arguments.OneSession) -> answers.SummaryShown:
    """Figures of a session so far: return, Sharpe ratio, drawdown, turnover, fees, rejections."""
    session = session_of(engine, given.session_id)
    return show.summary_shown(engine, session)


def export(engine: Engine, given: arguments.ExportSession) -> answers.Export:
    """Everything of a session: orders, trades, daily equity and figures."""
    state = engine.state
    log = engine.log
    session = session_of(engine, given.session_id)
    answer = answers.Export(
        session_id=session.id,
        format=given.format,
        session=show.session_shown(state, session),
        log_lines=len(log.entries),
        log_hash=log.last_hash,
        summary=show.summary_shown(engine, session),
    )
    sent = [order for order in state.orders.values() if order.session_id == session.id]
    executed = [trade for trade in state.trades if trade.session_id == session.id]
    days = state.days[session.account_id]
    tables: dict[str, list[Any]] = {
        "orders": list(map(show.order_shown, sent)),
        "trades": list(map(show.trade_shown, executed)),
        "history": [show.day_shown(day) for day in days if day.session_id == session.id],
    }
    if given.format == "csv":
        answer.files = {
            f"{name}.csv": show.to_csv(rows, CSV_COLUMNS[name]) for name, rows in tables.items()
        }
        return answer

    return structs.replace(answer, **tables)


def market(engine: Engine, given: arguments.OneSession) -> answers.Market:
    """The last complete bar of each instrument of the session's universe."""
    session = session_of(engine, given.session_id)
    resolution: Resolution = "minute" if session.frequency == "1m" else "day"
    shown: list[answers.BarShown] = []
    without_bar: list[str] = []

    for instrument in session.universe:
        bars = engine.reference.last_bar(instrument, resolution, engine.now_ns)
        if bars is None:
            without_bar.append(instrument.id)
        else:
            shown.append(show.bar_shown(engine.hours, instrument, bars, session.frequency))

    return answers.Market(
        session_id=session.id,
        frequency=session.frequency,
        bars=shown,
        without_bar=without_bar,
    )


# ---- orders


def get_order(engine: Engine, given: arguments.OneOrder) -> answers.OrderAnswer:
    """An order and what became of it."""
    if given.order_id not in engine.state.orders:
        raise not_found("order_id", "there is no such order")
    return _order_answer(engine, given.order_id)


def order_cancelled(engine: Engine, done: CommandOutcome) -> answers.OrderAnswer:
    """Return the order that was cancelled."""
    return _order_answer(engine, done.id)


def _order_answer(engine: Engine, order_id: str) -> answers.OrderAnswer:
    order = show.order_shown(engine.state.orders[order_id])
    return show.view(answers.OrderAnswer, order, order=order)


def order_placed(engine: Engine, done: CommandOutcome) -> answers.OrderPlaced:
    """Return the order that was sent, now or in an earlier call."""
    order = show.order_shown(engine.state.orders[done.id])
    return show.view(answers.OrderPlaced, order, idempotent=not done.events, order=order)


def order_modified(engine: Engine, done: CommandOutcome) -> answers.OrderModified:
    """Return the order that replaced another."""
    order = show.order_shown(engine.state.orders[done.id])
    ids = {"old_order_id": order.replaces, "new_order_id": order.order_id}
    return show.view(answers.OrderModified, order, order=order, **ids)


def spread_placed(engine: Engine, done: CommandOutcome) -> answers.SpreadPlaced:
    """Return the spread that was sent, now or in an earlier call."""
    first = engine.state.orders[done.id]
    legs = [show.order_shown(order) for order in engine.legs_of(first)]
    return show.view(answers.SpreadPlaced, legs[0], orders=legs, idempotent=not done.events)


def describe_exercise(engine: Engine, done: CommandOutcome) -> answers.Exercised:
    """Return the outcome of an exercise, or of an instruction about exercise."""
    assert isinstance(done.given, arguments.ExerciseOption)
    account_id = done.given.account_id
    return answers.Exercised(
        account_id=account_id,
        contract=done.id,
        do_not_exercise=(account_id, done.id) in engine.state.do_not_exercise,
        events=[show.event_shown(event) for event in done.events],
    )


def borrow(engine: Engine, given: arguments.BorrowQuery) -> answers.Borrow:
    """What can be borrowed of stocks to sell them short, and what it costs."""
    tickers = parse_tickers(given.tickers, "tickers")
    if len(tickers) > arguments.MAX_TICKERS:
        raise invalid("tickers", f"at most {arguments.MAX_TICKERS}")

    rows: list[answers.BorrowShown] = []
    unknown: list[str] = []
    for ticker in tickers:
        if engine.reference.is_listed(Instrument("STOCK", ticker), engine.now_ns):
            rows.append(_locate(engine, ticker))
        else:
            unknown.append(ticker)

    return answers.Borrow(borrow=rows, unknown=unknown)


def _locate(engine: Engine, ticker: str) -> answers.BorrowShown:
    row = engine.reference.prices.borrow(ticker, engine.now_ns)
    if row is None:
        return answers.BorrowShown(
            ticker=ticker, available_shares=0, fee_bps_per_year=None, known_since=None
        )

    return answers.BorrowShown(
        ticker=ticker,
        available_shares=row.shares,
        fee_bps_per_year=row.fee_bps_per_year,
        known_since=moment_text(row.available_ns),
    )


# ---- parts of operations


def _account_by_id(engine: Engine, account_id: str) -> Account:
    account = engine.state.accounts.get(account_id)
    if account is None:
        raise not_found("account_id", "there is no such account")
    return account


def _statuses(text: str | None) -> frozenset[str]:
    """Return the states that an argument names; all states if the argument is absent. Raises
    ServiceError `invalid_argument` if a state is unknown.
    """
    names = get_args(OrderStatus)
    if text is None:
        return frozenset(names)

    chosen: set[str] = set()
    for word in text.split(","):
        name = word.strip().upper()
        if name in STATUS_ALIASES:
            chosen |= set(STATUS_ALIASES[name])
        elif name in names:
            chosen.add(name)
        else:
            known = ", ".join((*names, *STATUS_ALIASES))
            raise invalid("status_in", f"expected words out of {known}, separated by commas")

    return frozenset(chosen)


def _page(
    rows: Iterable[_Row],
    given: arguments.AccountRows,
    key: Callable[[_Row], tuple[int]],
) -> tuple[Sequence[_Row], str | None]:
    """Return the rows after the cursor's key, up to the limit, and the next cursor (None at the
    end). Rows are in ascending order of their keys.
    """
    after = (-1,) if given.cursor is None else read_cursor(given.cursor, (int,))
    later = (row for row in rows if key(row) > after)
    return page_of(later, given.limit, key)


# ---- declarations


def _command(
    name: str, path: str, answer: Callable[[Engine, CommandOutcome], msgspec.Struct]
) -> Operation:
    """Make the operation for the command of this name. Its answer is derived from the command's
    outcome.
    """
    command = name.removeprefix("PMB.")

    def handler(workspace: Workspace, given: Plain) -> msgspec.Struct:
        done = workspace.broker.execute(command, given)
        return answer(workspace.broker.engine, done)

    return Operation(
        name,
        "POST",
        path,
        summary_of(COMMANDS[command]),
        TAKES[command],
        get_type_hints(answer)["return"],
        handler,
        changes=True,
    )


OPERATIONS: tuple[Operation, ...] = (
    _command("PMB.account.create", "/v1/accounts", account_created),
    query("PMB.account.get", "/v1/accounts/{account_id}", get_account),
    query("PMB.account.list", "/v1/accounts", list_accounts),
    query("PMB.account.positions", "/v1/accounts/{account_id}/positions", positions),
    query("PMB.account.orders", "/v1/accounts/{account_id}/orders", orders),
    query("PMB.account.trades", "/v1/accounts/{account_id}/trades", trades),
    query("PMB.account.history", "/v1/accounts/{account_id}/history", history),
    _command("PMB.session.create", "/v1/sessions", session_changed),
    query("PMB.session.get", "/v1/sessions/{session_id}", get_session),
    _command("PMB.session.step", "/v1/sessions/{session_id}/step", describe_step),
    _command("PMB.session.stop", "/v1/sessions/{session_id}/stop", session_changed),
    query("PMB.session.summary", "/v1/sessions/{session_id}/summary", summary),
    query("PMB.session.export", "/v1/sessions/{session_id}/export", export),
    query("PMB.session.market", "/v1/sessions/{session_id}/market", market),
    _command("PMB.order.place", "/v1/orders", order_placed),
    query("PMB.order.get", "/v1/orders/{order_id}", get_order),
    _command("PMB.order.cancel", "/v1/orders/{order_id}/cancel", order_cancelled),
    _command("PMB.order.modify", "/v1/orders/{order_id}/modify", order_modified),
    _command("PMB.spread.place", "/v1/spreads", spread_placed),
    _command("PMB.option.exercise", "/v1/options/exercise", describe_exercise),
    query("PMB.borrow.query", "/v1/borrow", borrow),
)
"""All operations of PMB, in the order in which models see them."""
