"""Proof that an item can be done: its gold is carried out on the services, and what must not work is tried."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.api import DataError, JsonValue
from ktdeval_qfinzero.bench.items import Item
from ktdeval_qfinzero.bench.scenario import end_state, open_workspace, refusal_of, run_calls
from ktdeval_qfinzero.data.stores import Dataset

_NOT_CONTENT = frozenset({"unknown", "adjustments", "nearest_expiries", "tickers", "releases"})


def prove(item: Item, dataset: Dataset) -> dict[str, JsonValue]:
    """Carry the item out.

    Returns:
        The state of its workspace afterwards.

    Raises:
        DataError: an expected call is refused, or answers nothing although it should; or a call that must fail gives something.
    """
    workspace = open_workspace(item, dataset)
    where = f"{item.task.id} ({item.template})"
    for number, (call, answer) in enumerate(zip(item.gold, run_calls(workspace, item.gold), strict=True)):
        if problem := refusal_of(answer):
            raise DataError(f"{where}: step {number + 1}, {call.tool}: {problem}")
        if number not in item.free_empty and is_empty(answer):
            raise DataError(f"{where}: step {number + 1}, {call.tool}: answers nothing")
    if item.attempt is not None:
        answer = run_calls(workspace, [item.attempt])[0]
        if not refusal_of(answer) and not is_empty(answer) and not _rejects(answer):
            raise DataError(f"{where}: is to be refused, but {item.attempt.tool} answers it")
    return end_state(workspace)


def is_empty(answer: JsonValue) -> bool:
    """Whether an answer is a list of something, and there is nothing in it."""
    if not isinstance(answer, Mapping):
        return not answer
    lists = [value for name, value in answer.items() if isinstance(value, list) and name not in _NOT_CONTENT]
    return bool(lists) and not any(lists)


def _rejects(answer: JsonValue) -> bool:
    return isinstance(answer, Mapping) and answer.get("status") == "REJECTED"
