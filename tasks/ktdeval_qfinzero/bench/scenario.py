"""Items in action: the workspace that an item starts in, calls made in it, and the state that they leave."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ktdeval.api import DataError, JsonValue
from ktdeval_qfinzero.bench.items import Call, Item
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.stores import Dataset
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.workspace import Workspace

_REFERENCE = re.compile(r"<s(\d+)\.([A-Za-z_0-9.\[\]]+)>")
_PATH_PART = re.compile(r"([A-Za-z_]\w*)|\[(\d+)\]")
_SHOWN = 200


def open_workspace(item: Item, dataset: Dataset) -> Workspace:
    """A new workspace with the item's situation in it.

    Raises:
        DataError: a call of the setup is refused: a defect of the item.
    """
    workspace = Workspace(dataset, item.as_of_ns)
    for call, answer in zip(item.setup, run_calls(workspace, item.setup), strict=True):
        if problem := refusal_of(answer):
            raise DataError(f"{item.task.id} ({item.template}): setup: {call.tool}: {problem}")
    return workspace


def run_calls(workspace: Workspace, calls: Sequence[Call]) -> list[JsonValue]:
    """The answers to calls made one after the other, with references to earlier answers resolved.

    A refused call is answered with the error envelope, and so is one that refers to what is not there.
    """
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
    """A value with each reference replaced by what it refers to.

    Raises:
        LookupError: it refers to an answer, a key or a place that is not there.
    """
    if isinstance(value, str) and (match := _REFERENCE.fullmatch(value)):
        found = answers[int(match[1]) - 1]
        for name, place in _PATH_PART.findall(match[2]):
            found = found[name] if name else found[int(place)]
        return found
    if isinstance(value, Mapping):
        return {name: resolved(item, answers) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [resolved(item, answers) for item in value]
    return value


def end_state(workspace: Workspace) -> dict[str, JsonValue]:
    """What calls left behind: the clock, and of each account cash, positions, orders and sessions, without their ids.

    Orders that came to nothing (cancelled, expired, rejected) count too: an agent that places and cancels in vain leaves a trace.
    """
    book = workspace.broker.book
    return {
        "as_of_ts": moment_text(workspace.clock.as_of_ns),
        "accounts": [_account(workspace, account_id) for account_id in sorted(book.accounts)],
    }


def _account(workspace: Workspace, account_id: str) -> dict[str, JsonValue]:
    book = workspace.broker.book
    account = book.accounts[account_id]
    positions = {position.instrument.id: position.qty for position in account.positions.values() if position.qty}
    orders = sorted((order for order in book.orders.values() if order.account_id == account_id), key=lambda order: order.seq)
    sessions = [session for session in book.sessions.values() if session.account_id == account_id]
    return {
        "account_id": account_id,
        "type": account.type,
        "initial_cash_e4": account.initial_cash_e4,
        "cash_e4": account.cash_e4,
        "positions": dict(sorted(positions.items())),
        "orders": [_order(order) for order in orders],
        "sessions": [
            {"frequency": each.frequency, "status": each.status, "stocks": sorted(each.stocks), "options": sorted(each.options)}
            for each in sessions
        ],
    }


def _order(order: Any) -> dict[str, JsonValue]:
    names = ("side", "order_type", "qty", "limit_e4", "stop_e4", "time_in_force", "expire_ns", "status", "filled_qty")
    return {"instrument": order.instrument.id, **{name: getattr(order, name) for name in names}, "in_spread": bool(order.spread_id)}
