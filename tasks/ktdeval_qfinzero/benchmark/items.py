"""Items of the benchmark: an instruction, calls that prepare its workspace, and the expected calls.
Functions open an item's workspace, run calls in it, record the resulting state, and prove an item.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ktdeval.errors import DataError
from ktdeval.values import JsonValue, Value
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.pmb.broker_types import Account, Rules, Session
from ktdeval_qfinzero.pmb.clock_advance import last_tick
from ktdeval_qfinzero.pmb.state_events import BrokerState
from ktdeval_qfinzero.scoring.types import GoldTask
from ktdeval_qfinzero.scoring.values import Tolerance
from ktdeval_qfinzero.timestamps import moment_text
from ktdeval_qfinzero.trading_hours import TradingHours

Difficulty = Literal["easy", "medium", "hard"]

#: Ids of an item's first account and session, since the broker counts from 1
ACCOUNT = "acct-000001"
SESSION = "sess-000001"


@dataclass(frozen=True, slots=True)
class ItemCall:
    """Call of a tool."""

    tool: str  #: dotted name
    #: a string `<s2.orders[0].order_id>` refers to this value in the answer to the second call
    args: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class GoldStep:
    """An expected call."""

    call: ItemCall
    times: tuple[str, ...] = ()  #: names of the arguments that the TA score compares as times
    tolerance: Tolerance = "exact"  #: tolerance of the times
    may_be_empty: bool = False  #: whether the answer may be empty


@dataclass(frozen=True, slots=True)
class ItemDraft:
    """A template (`item_generation.Template`) with all slots filled, which has no id and no point
    in time yet.
    """

    instruction: str
    steps: tuple[GoldStep, ...] = ()
    setup: tuple[ItemCall, ...] = ()
    attempt: ItemCall | None = None
    notes: str = ""


@dataclass(frozen=True)
class BenchmarkItem:
    """One question of the benchmark."""

    task: GoldTask  #: instruction and expected calls, in the form that is scored
    template: str  #: name of the template
    as_of_ns: int  #: start of the workspace's clock
    setup: tuple[ItemCall, ...]  #: calls made before the agent starts
    gold: tuple[ItemCall, ...]  #: expected calls, in the form that is executed
    #: indices of the calls in `gold` whose answers may be empty
    free_empty: frozenset[int] = frozenset()
    attempt: ItemCall | None = None  #: for items that should be refused: a call that must fail


_REFERENCE = re.compile(r"<s(\d+)\.([A-Za-z_0-9.\[\]]+)>")
_PATH_PART = re.compile(r"([A-Za-z_]\w*)|\[(\d+)\]")
_SHOWN = 200  #: Maximum number of characters of a message

#: Lists that describe the request rather than answer it
_NOT_CONTENT = frozenset({"unknown", "adjustments", "nearest_expiries", "tickers", "releases"})


def open_workspace(item: BenchmarkItem, dataset: Dataset) -> Workspace:
    """Open a workspace and make the calls of the item's setup in it. Raises DataError if a call is
    refused, which is a defect of the item.
    """
    workspace = Workspace(dataset, item.as_of_ns)
    answers = run_calls(workspace, item.setup)
    for call, answer in zip(item.setup, answers, strict=True):
        problem = refusal_of(answer)
        if problem:
            raise DataError(f"{item.task.id} ({item.template}): setup: {call.tool}: {problem}")

    return workspace


def run_calls(workspace: Workspace, calls: Sequence[ItemCall]) -> list[JsonValue]:
    """Make calls in order and return their answers. References are replaced by values from earlier
    answers. A refused call, or a reference to nothing, gives an error envelope.
    """
    answers: list[JsonValue] = []
    for call in calls:
        try:
            arguments = resolve_references(call.args, answers)
        except LookupError as error:
            message = f"refers to what is not there: {error}"
            answers.append({"error": {"code": "invalid_argument", "message": message}})
            continue

        answers.append(catalogue().answer(workspace, call.tool, arguments))

    return answers


def refusal_of(answer: JsonValue) -> str:
    """Return why a call was refused, or an empty string."""
    if not isinstance(answer, Mapping):
        return ""

    error = answer.get("error")
    if not isinstance(error, Mapping):
        return ""
    return str(error.get("message"))[:_SHOWN]


def resolve_references(value: JsonValue, answers: Sequence[JsonValue]) -> Any:
    """Replace each reference in a value. Raises LookupError if an answer has no such value."""
    if isinstance(value, str):
        match = _REFERENCE.fullmatch(value)
        if match is None:
            return value
        return _value_at(answers[int(match[1]) - 1], match[2])

    if isinstance(value, Mapping):
        return {name: resolve_references(item, answers) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [resolve_references(item, answers) for item in value]

    return value


def _value_at(answer: Any, path: str) -> Any:
    """Return the value at a path such as `orders[0].order_id`."""
    value = answer
    for name, index in _PATH_PART.findall(path):
        if name:
            value = value[name]
        else:
            value = value[int(index)]

    return value


class OrderState(Value, frozen=True, omit_defaults=True):
    """An order without its id, with prices in ten-thousandths of a dollar."""

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
    cancels_other: bool = False  #: whether the order is in a one-cancels-other group


class SessionState(Value, frozen=True, omit_defaults=True):
    """A session without its id and its clock. `last_ns` is included only in whole states."""

    frequency: str
    status: str
    stocks: tuple[str, ...]
    options: tuple[str, ...]
    rules: Rules | None = None  #: None for the default rules
    last_ns: int = 0  #: time of the session's last tick


class AccountState(Value, frozen=True, omit_defaults=True):
    """An account with its positions, orders and sessions."""

    account_id: str
    type: str
    initial_cash_e4: int
    cash_e4: int
    positions: dict[str, int]
    orders: tuple[OrderState, ...]
    sessions: tuple[SessionState, ...]
    #: options that are not to be exercised at expiry; only in whole states
    not_exercised: tuple[str, ...] = ()


class EndState(Value, frozen=True):
    """State of the broker after some calls, including unfilled and cancelled orders."""

    as_of_ts: str
    accounts: tuple[AccountState, ...]


def end_state(workspace: Workspace, *, whole: bool = False) -> EndState:
    """Return the state of a workspace's broker.

    `whole` adds the fields that are compared with an expected state but not recorded.
    """
    state = workspace.broker.state
    hours: TradingHours | None = None
    if whole:
        hours = workspace.dataset.info.hours

    accounts: list[AccountState] = []
    for account_id in sorted(state.accounts):
        accounts.append(_account_state(state, state.accounts[account_id], hours))

    return EndState(as_of_ts=moment_text(workspace.clock.as_of_ns), accounts=tuple(accounts))


def _account_state(
    state: BrokerState, account: Account, hours: TradingHours | None
) -> AccountState:
    """Return the state of an account. With trading hours, return the whole state."""
    positions = {
        name: position.qty for name, position in sorted(account.positions.items()) if position.qty
    }
    orders = [_order_state(each) for each in state.orders.values() if each.account_id == account.id]
    sessions = [each for each in state.sessions.values() if each.account_id == account.id]
    not_exercised: list[str] = []
    if hours is not None:
        not_exercised = [symbol for owner, symbol in state.do_not_exercise if owner == account.id]

    return AccountState(
        account_id=account.id,
        type=account.type,
        initial_cash_e4=account.initial_cash_e4,
        cash_e4=account.cash_e4,
        positions=positions,
        orders=tuple(orders),
        sessions=tuple(_session(each, hours) for each in sessions),
        not_exercised=tuple(sorted(not_exercised)),
    )


def _session(each: Session, hours: TradingHours | None) -> SessionState:
    rules: Rules | None = None
    if each.rules != Rules():
        rules = each.rules

    last_ns = 0
    if hours is not None:
        last_ns = last_tick(hours, each)

    return SessionState(
        frequency=each.frequency,
        status=each.status,
        stocks=tuple(sorted(each.stocks)),
        options=tuple(sorted(each.options)),
        rules=rules,
        last_ns=last_ns,
    )


def _order_state(order: Any) -> OrderState:
    derived = {
        "instrument": order.instrument.id,
        "in_spread": bool(order.spread_id),
        "cancels_other": bool(order.oco_id),
    }
    copied = {
        name: getattr(order, name) for name in OrderState.__struct_fields__ if name not in derived
    }
    return OrderState(**copied, **derived)


def prove(item: BenchmarkItem, dataset: Dataset) -> EndState:
    """Make an item's expected calls and return the resulting state. Raises DataError if a call is
    refused or finds nothing, or if the attempt succeeds in an item that should be refused.
    """
    workspace = open_workspace(item, dataset)
    where = f"{item.task.id} ({item.template})"
    answers = run_calls(workspace, item.gold)
    for index, (call, answer) in enumerate(zip(item.gold, answers, strict=True)):
        problem = refusal_of(answer)
        if not problem and is_empty(answer) and index not in item.free_empty:
            problem = "answers nothing"
        if problem:
            raise DataError(f"{where}: step {index + 1}, {call.tool}: {problem}")

    if item.attempt is not None:
        answer = run_calls(workspace, [item.attempt])[0]
        is_rejected = isinstance(answer, Mapping) and answer.get("status") == "REJECTED"
        if not (refusal_of(answer) or is_empty(answer) or is_rejected):
            raise DataError(f"{where}: is to be refused, but {item.attempt.tool} answers it")

    return end_state(workspace)


def is_empty(answer: JsonValue) -> bool:
    """Return whether an answer's contents are lists and all of them are empty."""
    if not isinstance(answer, Mapping):
        return not answer

    lists = [
        value
        for name, value in answer.items()
        if isinstance(value, list) and name not in _NOT_CONTENT
    ]
    return bool(lists) and not any(lists)
