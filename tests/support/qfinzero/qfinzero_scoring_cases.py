"""Invented QFinZero tasks for the tests of the scorers, and the shared vectors, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ktdeval.values import loads_strict
from ktdeval_qfinzero.scoring import tasks_file
from ktdeval_qfinzero.scoring.types import GoldCall, GoldTask, with_run_ids
from ktdeval_qfinzero.scoring.values import is_placeholder, time_fields

RUN = {"session_id": "sess-dryrun-2025", "account_id": "acct-dryrun-2025"}

RATES = GoldCall("UPQ.rates.query", "/rates/query", "GET", {"tenors": "2Y,10Y"})
BARS = GoldCall(
    "UPQ.stock.daily",
    "/stock/daily",
    "GET",
    {"tickers": "KO,PEP", "start": "2024-03-04", "end": "2024-03-08"},
    times={"start": "2024-03-04", "end": "2024-03-08", "format": "date", "tolerance": "1day"},
)
NOTED = replace(BARS, notes="again", step_id="s2")
OTHER = replace(BARS, required={**BARS.required, "tickers": "MCD"})
EVENTS = GoldCall(
    "ESP.events.query",
    "/esp/events/query",
    "POST",
    {"mode": "upcoming", "horizon_minutes": 120, "event_types": ["earnings", "macro_calendar"]},
    times={"horizon_minutes": 120, "tolerance": "30min"},
)
POSITIONS = GoldCall("PMB.account.positions", "/v1/accounts/{account_id}/positions", "GET")
ORDER = GoldCall(
    "PMB.order.place",
    "/v1/orders",
    "POST",
    {
        "session_id": "{session_id}",
        "account_id": "{account_id}",
        "order": {
            "instrument": {"type": "STOCK", "symbol": "KO"},
            "side": "BUY",
            "qty": 40,
            "limit_price": 60.5,
        },
    },
)
STEP = GoldCall("PMB.session.step", "/v1/sessions/{session_id}/step", "POST", {"step": 3})


NAMED = {
    "RATES": RATES,
    "BARS": BARS,
    "NOTED": NOTED,
    "OTHER": OTHER,
    "EVENTS": EVENTS,
    "POSITIONS": POSITIONS,
    "ORDER": ORDER,
    "CANCEL": GoldCall("PMB.order.cancel", "/v1/orders/{order_id}/cancel", "POST"),
    "WAITING": GoldCall(
        "PMB.order.cancel", required={"session_id": "{session_id}", "order_id": "<from_step_1>"}
    ),
    "FOREIGN": GoldCall("NPP.timeline", "/npp/timeline", "POST", {"a": 1}),
    "REFUSAL": GoldCall("REFUSE"),
}  #: Expected calls by the names that tables give them


def gold_of(given: Any) -> GoldCall:
    """An expected call of a table: a named one, or `of` a named one with changes."""
    if isinstance(given, str):
        return NAMED[given]

    return replace(
        NAMED[given["of"]], **{name: value for name, value in given.items() if name != "of"}
    )


def calls_of(predicted: Sequence[dict[str, Any]], arguments: str) -> list[dict[str, Any]]:
    """Predicted calls of a table, whose arguments may be those that a named call requires."""
    given = [call.get(arguments, {}) for call in predicted]
    return [
        {**call, arguments: NAMED[each].required if isinstance(each, str) else each}
        for call, each in zip(predicted, given)
    ]


def task(*calls: GoldCall, suite: Any = "planning", name: str = "invented-1") -> GoldTask:
    """A task that asks for these calls."""
    return GoldTask(name, suite, "invented", "easy", "Do it.", calls)


def predicted_call(tool: Any, args: Any = None, **more: Any) -> dict[str, Any]:
    """A predicted call of the planning suite."""
    return {"tool": tool, "args": {} if args is None else args, **more}


def called(tool_name: Any, params: Any = None, **more: Any) -> dict[str, Any]:
    """A predicted call of the calling suite."""
    return {"tool_name": tool_name, "params": {} if params is None else params, **more}


@cache
def rows_of(path: Path) -> tuple[dict[str, Any], ...]:
    """The lines of a JSONL file."""
    return tuple(loads_strict(line) for line in path.read_text().splitlines())


def load_tasks(source: str | Path) -> tuple[GoldTask, ...]:
    """Tasks of a source of samples, in order."""
    return tasks_file.tasks_of(tasks_file.read_tasks(source))


@cache
def tasks_of(path: Path) -> dict[str, GoldTask]:
    """Tasks of a file by id."""
    return {one.id: one for one in load_tasks(path)}


def perfect_answer(task: GoldTask, ids: Mapping[str, str]) -> list[Any]:
    """The predicted calls that carry out a task, in the form of its suite; none where it asks for a
    refusal.
    """

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}

        if isinstance(value, list):
            return [filled(inner) for inner in value]

        if not isinstance(value, str):
            return value

        text = with_run_ids(value, ids)

        return "from-an-earlier-step" if is_placeholder(text) else text

    def call(gold: GoldCall) -> dict[str, Any]:
        times = {
            name: value for name, value in time_fields(gold.times).items() if value is not None
        }
        args = filled({**times, **gold.required})

        if task.suite == "planning":
            return {"step_id": gold.step_id, "tool": gold.tool, "args": args}

        endpoint = with_run_ids(gold.endpoint or "", ids)

        return {"tool_name": gold.tool, "method": gold.method, "endpoint": endpoint, "params": args}

    return [] if task.refuse else [call(gold) for gold in task.calls]
