"""The book: accounts, sessions, orders and trades. `apply` is the only thing that changes it, one event at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date

from ktdeval_qfinzero.pmb.events import Event, EventType, Payload, read_instrument, read_order, read_rules
from ktdeval_qfinzero.pmb.records import CashEntry, CashKind, ClientCall, DayClose, Session, Spread, Trade, UnitEntry, UnitKind
from ktdeval_qfinzero.pmb.types import WORKING, Account, Bar, Instrument, Order, Position


@dataclass(slots=True)
class Book:
    """The state of a broker.

    Attributes:
        now_ns: moment of the last event.
        accounts, sessions, orders, spreads: by id.
        working: orders that may still fill, by id, in time priority.
        reserves: id of a working order -> what it tied up when it was accepted; a spread's stand at its first leg.
        trades: executions, oldest first.
        cash_entries, unit_entries: movements of cash and of units, oldest first.
        days: account id -> closes of days, oldest first.
        client_calls: (account id, client order id) -> what it stands for.
        kept: (account id, contract) of options that are not to be exercised at expiry.
        running: id of the running session; empty without one.
    """

    now_ns: int = 0
    accounts: dict[str, Account] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    spreads: dict[str, Spread] = field(default_factory=dict)
    working: dict[str, Order] = field(default_factory=dict)
    reserves: dict[str, int] = field(default_factory=dict)
    trades: list[Trade] = field(default_factory=list)
    cash_entries: list[CashEntry] = field(default_factory=list)
    unit_entries: list[UnitEntry] = field(default_factory=list)
    days: dict[str, list[DayClose]] = field(default_factory=dict)
    client_calls: dict[tuple[str, str], ClientCall] = field(default_factory=dict)
    kept: set[tuple[str, str]] = field(default_factory=set)
    running: str = ""


def apply(book: Book, event: Event) -> None:
    """Change the book by an event.

    Raises:
        KeyError: the event is about something that the book does not hold, which a log that was not tampered with never does.
    """
    book.now_ns = event.ts_ns
    if book.running:
        book.sessions[book.running].clock_ns = event.ts_ns
    _APPLY[event.type](book, event)


def move(position: Position, change: int, value_e4: int) -> None:
    """Bring units into a position (negative: take out) for a value paid (negative: received).

    Units that go out take their average cost with them, rounded down; the last ones take what is left.
    """
    held = position.qty
    closed = min(abs(change), abs(held)) if held * change < 0 else 0
    if closed:
        closed_value = value_e4 * closed // abs(change)
        closed_cost = position.cost_e4 * closed // abs(held)
        position.realized_e4 -= closed_value + closed_cost
        position.cost_e4 -= closed_cost
        value_e4 -= closed_value
    position.cost_e4 += value_e4
    position.qty += change


def _account_created(book: Book, event: Event) -> None:
    data = event.data
    cash_e4 = data["initial_cash_e4"]
    account = Account(data["account_id"], data["account_type"], event.ts_ns, cash_e4, cash_e4)
    book.accounts[account.id] = account
    book.days[account.id] = []


def _clock_moved(book: Book, event: Event) -> None:
    """The moment of any event is the clock's."""


def _session_created(book: Book, event: Event) -> None:
    data = event.data
    session = Session(
        data["session_id"], data["account_id"], data["frequency"], data["start_ns"], data["end_ns"],
        tuple(data["stocks"]), tuple(data["options"]), read_rules(data["rules"]), data["equity_e4"], event.seq, event.ts_ns,
    )  # fmt: skip
    book.sessions[session.id] = session
    book.running = session.id


def _session_over(book: Book, event: Event) -> None:
    session = book.sessions[event.data["session_id"]]
    session.status = "FINISHED" if event.type == "SESSION_FINISHED" else "STOPPED"
    session.last_seq = event.seq
    session.end_equity_e4 = event.data["equity_e4"]
    book.running = ""


def _order_accepted(book: Book, event: Event) -> None:
    order = read_order(event.data["order"])
    book.orders[order.id] = order
    book.working[order.id] = order
    book.reserves[order.id] = event.data["reserve_e4"]
    book.sessions[order.session_id].accepted += 1


def _order_rejected(book: Book, event: Event) -> None:
    order = read_order(event.data["order"])
    book.orders[order.id] = order
    book.sessions[order.session_id].rejected += 1


def _order_triggered(book: Book, event: Event) -> None:
    book.orders[event.data["order_id"]].triggered = True


def _order_over(book: Book, event: Event) -> None:
    order = book.orders[event.data["order_id"]]
    _remove(book, order)
    order.status = "CANCELLED" if event.type == "ORDER_CANCELLED" else "EXPIRED"
    order.reason = event.data["reason"]
    order.replaced_by = event.data.get("replaced_by", "")


def _client_id_used(book: Book, event: Event) -> None:
    data = event.data
    book.client_calls[data["account_id"], data["client_order_id"]] = ClientCall(data["order_id"], data["content"])


def _spread_placed(book: Book, event: Event) -> None:
    data = event.data
    book.spreads[data["spread_id"]] = Spread(data["spread_id"], tuple(data["order_ids"]), data["units"], data["net_limit_e4"])


def _trade(book: Book, event: Event) -> None:
    data = event.data
    order = book.orders[data["order_id"]]
    trade = Trade(
        data["trade_id"], event.ts_ns, order.id, order.session_id, order.account_id, order.instrument, order.side,
        data["qty"], data["price_e4"], data["fee_e4"], Bar(*data["bar"]),
    )  # fmt: skip
    book.trades.append(trade)
    order.filled_qty += trade.qty
    order.filled_value_e4 += trade.qty * trade.price_e4
    order.status = "PARTIALLY_FILLED" if order.open_qty else "FILLED"
    if order.status not in WORKING:
        _remove(book, order)
    account = book.accounts[order.account_id]
    move(_position(account, order.instrument), trade.change, trade.value_e4)
    _count(book, event, account, order.instrument.id, "TRADE", trade.change)
    _pay(book, event, "TRADE", -trade.value_e4)
    _fee(book, event, trade.fee_e4, account)
    if trade.side == "SELL":
        _settle_later(account, data["settles"], -trade.value_e4)


def _option_instructed(book: Book, event: Event) -> None:
    key = (event.data["account_id"], event.data["contract"])
    if event.data["do_not_exercise"]:
        book.kept.add(key)
    else:
        book.kept.discard(key)


def _option_over(book: Book, event: Event) -> None:
    data = event.data
    account = book.accounts[data["account_id"]]
    option = account.positions[data["instrument"]]
    option.qty += data["change"]
    option.cost_e4 -= data["cost_e4"]
    option.realized_e4 += data["realized_e4"]
    _count(book, event, account, data["instrument"], "EXERCISE", data["change"])
    if data["stock_change"]:
        _count(book, event, account, data["stock"], "EXERCISE", data["stock_change"])
        move(_position(account, read_instrument(data["stock"])), data["stock_change"], data["stock_cost_e4"])
    _pay(book, event, "EXERCISE", data["cash_e4"])
    _fee(book, event, data["fee_e4"], account)
    if data["cash_e4"] > 0:
        _settle_later(account, data["settles"], data["cash_e4"])


def _position_split(book: Book, event: Event) -> None:
    data = event.data
    account = book.accounts[data["account_id"]]
    before = account.positions[data["instrument"]]
    key = (account.id, before.instrument.symbol)
    if data["becomes"] and key in book.kept:
        book.kept.remove(key)
        book.kept.add((account.id, read_instrument(data["becomes"]).symbol))
    _count(book, event, account, data["instrument"], "SPLIT", -before.qty)
    before.qty = before.cost_e4 = 0
    after = _position(account, read_instrument(data["becomes"] or data["instrument"]))
    _count(book, event, account, after.instrument.id, "SPLIT", data["qty_after"])
    after.qty += data["qty_after"]
    after.cost_e4 += data["cost_after_e4"]
    after.realized_e4 += data["realized_e4"]
    _pay(book, event, "SPLIT", data["cash_e4"])


def _dividend(book: Book, event: Event) -> None:
    account = book.accounts[event.data["account_id"]]
    amount_e4 = event.data["cash_e4"]
    account.dividends_e4 += amount_e4
    _pay(book, event, "DIVIDEND", amount_e4)
    if amount_e4 > 0:
        _settle_later(account, event.data["settles"], amount_e4)


def _interest(book: Book, event: Event) -> None:
    book.accounts[event.data["account_id"]].interest_e4 -= event.data["cash_e4"]
    _pay(book, event, "INTEREST", event.data["cash_e4"])


def _borrow_fee(book: Book, event: Event) -> None:
    book.accounts[event.data["account_id"]].borrow_fees_e4 -= event.data["cash_e4"]
    _pay(book, event, "BORROW_FEE", event.data["cash_e4"])


def _margin_call(book: Book, event: Event) -> None:
    book.accounts[event.data["account_id"]].margin_call_due = date.fromisoformat(event.data["due"])
    book.sessions[event.data["session_id"]].margin_calls += 1


def _margin_call_met(book: Book, event: Event) -> None:
    book.accounts[event.data["account_id"]].margin_call_due = None


def _day_closed(book: Book, event: Event) -> None:
    data = event.data
    day = date.fromisoformat(data["day"])
    account = book.accounts[data["account_id"]]
    next_day = date.fromisoformat(data["next_day"])
    account.unsettled = [entry for entry in account.unsettled if entry[0] > next_day]
    amounts = (data[name] for name in ("cash_e4", "equity_e4", "long_value_e4", "short_value_e4", "maintenance_e4"))
    book.days[account.id].append(DayClose(day, data["session_id"], *amounts))


def _command_refused(book: Book, event: Event) -> None:
    session = book.sessions.get(event.data["session_id"])
    if session is not None:
        session.refused += 1


def _position(account: Account, instrument: Instrument) -> Position:
    return account.positions.setdefault(instrument.id, Position(instrument))


def _remove(book: Book, order: Order) -> None:
    """Take an order from those that work."""
    del book.working[order.id]
    del book.reserves[order.id]


def _count(book: Book, event: Event, account: Account, instrument_id: str, kind: UnitKind, change: int) -> None:
    book.unit_entries.append(UnitEntry(event.seq, account.id, instrument_id, kind, change))


def _pay(book: Book, event: Event, kind: CashKind, amount_e4: int) -> None:
    """Money that comes into an account."""
    if amount_e4:
        account_id = _account_of(book, event.data)
        book.accounts[account_id].cash_e4 += amount_e4
        book.cash_entries.append(CashEntry(event.seq, account_id, kind, amount_e4))


def _fee(book: Book, event: Event, fee_e4: int, account: Account) -> None:
    account.fees_e4 += fee_e4
    _pay(book, event, "FEE", -fee_e4)


def _account_of(book: Book, data: Payload) -> str:
    account_id: str = data["account_id"] if "account_id" in data else book.orders[data["order_id"]].account_id
    return account_id


def _settle_later(account: Account, settles: str, amount_e4: int) -> None:
    if account.type == "CASH":
        account.unsettled.append((date.fromisoformat(settles), amount_e4))


_APPLY: Mapping[EventType, Callable[[Book, Event], None]] = {
    "ACCOUNT_CREATED": _account_created,
    "CLOCK_MOVED": _clock_moved,
    "SESSION_CREATED": _session_created,
    "SESSION_FINISHED": _session_over,
    "SESSION_STOPPED": _session_over,
    "ORDER_ACCEPTED": _order_accepted,
    "ORDER_REJECTED": _order_rejected,
    "ORDER_TRIGGERED": _order_triggered,
    "ORDER_CANCELLED": _order_over,
    "ORDER_EXPIRED": _order_over,
    "CLIENT_ID_USED": _client_id_used,
    "SPREAD_PLACED": _spread_placed,
    "TRADE": _trade,
    "OPTION_INSTRUCTED": _option_instructed,
    "OPTION_EXERCISED": _option_over,
    "OPTION_ASSIGNED": _option_over,
    "OPTION_EXPIRED": _option_over,
    "POSITION_SPLIT": _position_split,
    "DIVIDEND": _dividend,
    "INTEREST": _interest,
    "BORROW_FEE": _borrow_fee,
    "MARGIN_CALL": _margin_call,
    "MARGIN_CALL_MET": _margin_call_met,
    "DAY_CLOSED": _day_closed,
    "COMMAND_REFUSED": _command_refused,
}
