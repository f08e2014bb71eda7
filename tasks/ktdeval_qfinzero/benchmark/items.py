"""Items of the benchmark: an instruction, its situation and the calls that carry it out; the workspace that an item starts in,
calls made in it, the state that they leave, and the proof of an item.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ktdeval.errors import DataError
from ktdeval.jsonio import JsonValue
from ktdeval.typed import Value
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.rows import Dataset
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.pmb.events import BrokerState
from ktdeval_qfinzero.pmb.timeline import last_tick
from ktdeval_qfinzero.pmb.values import Account, Rules, Session
from ktdeval_qfinzero.scoring.types import GoldTask
from ktdeval_qfinzero.scoring.values import Tolerance
from ktdeval_qfinzero.trading_hours import TradingHours
from ktdeval_qfinzero.workspace import Workspace

Difficulty = Literal["easy", "medium", "hard"]

ACCOUNT, SESSION = "acct-000001", "sess-000001"  #: Ids of the first account and session of a situation: the broker numbers them


@dataclass(frozen=True, slots=True)
class Call:
    """A call that can be made."""

    tool: str  #: dotted name
    #: its arguments; a text `<s2.orders[0].order_id>` stands for that value of the answer to the second call
    args: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Step:
    """An expected call."""

    call: Call  #: as it is executed
    times: tuple[str, ...] = ()  #: which arguments are times that TA looks at
    tolerance: Tolerance = "exact"  #: of these
    may_be_empty: bool = False  #: whether nothing may come of it


@dataclass(frozen=True, slots=True)
class Draft:
    """An item before it has an id and a moment: as of `templates.Template`, with all slots filled."""

    instruction: str
    steps: tuple[Step, ...] = ()
    setup: tuple[Call, ...] = ()
    attempt: Call | None = None
    notes: str = ""


@dataclass(frozen=True)
class Item:
    """One question of the benchmark."""

    task: GoldTask  #: instruction and expected calls, as they are scored
    template: str  #: the name of what made it
    as_of_ns: int  #: where the clock of its workspace starts
    setup: tuple[Call, ...]  #: calls made before the agent starts
    gold: tuple[Call, ...]  #: the expected calls as they are executed
    free_empty: frozenset[int] = frozenset()  #: indices of the calls of `gold` whose answers may be empty
    attempt: Call | None = None  #: of an item to refuse, the call that must fail


_REFERENCE = re.compile(r"<s(\d+)\.([A-Za-z_0-9.\[\]]+)>")
_PATH_PART = re.compile(r"([A-Za-z_]\w*)|\[(\d+)\]")
_SHOWN = 200
_NOT_CONTENT = frozenset({"unknown", "adjustments", "nearest_expiries", "tickers", "releases"})


def open_workspace(item: Item, dataset: Dataset) -> Workspace:
    """A new workspace with the item's situation in it. Raises DataError: a call of the setup is refused: a defect of the item."""
    workspace = Workspace(dataset, item.as_of_ns)
    for call, answer in zip(item.setup, run_calls(workspace, item.setup), strict=True):
        if problem := refusal_of(answer):
            raise DataError(f"{item.task.id} ({item.template}): setup: {call.tool}: {problem}")
    return workspace


def run_calls(workspace: Workspace, calls: Sequence[Call]) -> list[JsonValue]:
    """Answers to calls in order, references to earlier answers resolved; a refusal or a wrong reference is an error envelope."""
    answers: list[JsonValue] = []
    for call in calls:
        try:
            arguments = resolved(call.args, answers)
        except LookupError as error:
            answers.append({"error": {"code": "invalid_argument", "message": f"refers to what is not there: {error}"}})
            continue
        answers.append(catalogue().answer(workspace, call.tool, arguments))
    return answers


def refusal_of(answer: JsonValue) -> str:
    """Why a call was refused; empty where it was not."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    return str(error.get("message"))[:_SHOWN] if isinstance(error, Mapping) else ""


def resolved(value: JsonValue, answers: Sequence[JsonValue]) -> Any:
    """A value with each reference replaced by what it refers to. Raises LookupError where that is not there."""
    if isinstance(value, str) and (match := _REFERENCE.fullmatch(value)):
        part = answers[int(match[1]) - 1]
        for name, index in _PATH_PART.findall(match[2]):
            part = part[name] if name else part[int(index)]
        return part
    if isinstance(value, Mapping):
        return {name: resolved(item, answers) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [resolved(item, answers) for item in value]
    return value


class OrderState(Value, frozen=True, omit_defaults=True):
    """An order without its id; prices in ten-thousandths of a dollar."""

    instrument: str
    side: str
    order_type: str
    qty: int
    limit_e4: int | None
    stop_e4: int | None
    time_in_force: str
    expire_ns: int | None
    status: str
    filled_qty: int
    in_spread: bool
    take_profit_e4: int | None = None
    stop_loss_e4: int | None = None
    cancels_other: bool = False  #: whether it joined a group of which one cancels the others


class SessionState(Value, frozen=True, omit_defaults=True):
    """A session without its id and its clock."""

    frequency: str
    status: str
    stocks: tuple[str, ...]
    options: tuple[str, ...]
    rules: Rules | None = None  #: where they are not the usual ones
    last_ns: int = 0  #: its last tick; of a whole state only


class AccountState(Value, frozen=True, omit_defaults=True):
    """An account with what it holds, its orders and its sessions."""

    account_id: str
    type: str
    initial_cash_e4: int
    cash_e4: int
    positions: dict[str, int]
    orders: tuple[OrderState, ...]
    sessions: tuple[SessionState, ...]
    not_exercised: tuple[str, ...] = ()  #: contracts that are to expire; of a whole state only


class EndState(Value, frozen=True):
    """State that calls left behind. Orders without a fill count too, also those that were cancelled."""

    as_of_ts: str
    accounts: tuple[AccountState, ...]


def end_state(workspace: Workspace, *, whole: bool = False) -> EndState:
    """Return the state that a workspace is in, as it is recorded; `whole`: with what is compared besides."""
    state = workspace.broker.state
    hours = workspace.dataset.info.hours if whole else None
    accounts = tuple(_account(state, state.accounts[account_id], hours) for account_id in sorted(state.accounts))
    return EndState(as_of_ts=moment_text(workspace.clock.as_of_ns), accounts=accounts)


def _account(state: BrokerState, account: Account, hours: TradingHours | None) -> AccountState:
    return AccountState(
        account_id=account.id,
        type=account.type,
        initial_cash_e4=account.initial_cash_e4,
        cash_e4=account.cash_e4,
        positions={name: held.qty for name, held in sorted(account.positions.items()) if held.qty},
        orders=tuple(_order(order) for order in state.orders.values() if order.account_id == account.id),
        sessions=tuple(_session(session, hours) for session in state.sessions.values() if session.account_id == account.id),
        not_exercised=tuple(sorted(symbol for owner, symbol in state.kept if hours and owner == account.id)),
    )


def _session(each: Session, hours: TradingHours | None) -> SessionState:
    return SessionState(
        frequency=each.frequency,
        status=each.status,
        stocks=tuple(sorted(each.stocks)),
        options=tuple(sorted(each.options)),
        rules=None if each.rules == Rules() else each.rules,
        last_ns=last_tick(hours, each) if hours else 0,
    )


def _order(order: Any) -> OrderState:
    own = {"instrument": order.instrument.id, "in_spread": bool(order.spread_id), "cancels_other": bool(order.oco_id)}
    return OrderState(**{name: getattr(order, name) for name in OrderState.__struct_fields__ if name not in own}, **own)


def prove(item: Item, dataset: Dataset) -> EndState:
    """Carry the item out; return the end state. Raises DataError where gold is refused or empty, or what must fail succeeds."""
    workspace = open_workspace(item, dataset)
    where = f"{item.task.id} ({item.template})"
    for number, (call, answer) in enumerate(zip(item.gold, run_calls(workspace, item.gold), strict=True)):
        if problem := refusal_of(answer):
            raise DataError(f"{where}: step {number + 1}, {call.tool}: {problem}")
        if number not in item.free_empty and is_empty(answer):
            raise DataError(f"{where}: step {number + 1}, {call.tool}: answers nothing")
    if item.attempt is not None:
        answer = run_calls(workspace, [item.attempt])[0]
        rejected = isinstance(answer, Mapping) and answer.get("status") == "REJECTED"
        if not (refusal_of(answer) or is_empty(answer) or rejected):
            raise DataError(f"{where}: is to be refused, but {item.attempt.tool} answers it")
    return end_state(workspace)


def is_empty(answer: JsonValue) -> bool:
    """Whether an answer is a list of something, and there is nothing in it."""
    if not isinstance(answer, Mapping):
        return not answer
    lists = [value for name, value in answer.items() if isinstance(value, list) and name not in _NOT_CONTENT]
    return bool(lists) and not any(lists)
