"""Tasks in the public format of both suites, as rows of a file or a dataset. They come from third
parties, so everything is checked.

A row with `expected_tool_calls` is a calling task, and a row with `expected_steps` a planning task.
Unknown keys are refused, because most of them are misspelled and the task would lose their
contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from ktdeval.errors import DataError
from ktdeval.values import JsonValue, Value, from_plain
from ktdeval_qfinzero.scoring.sample_files import SampleRows, read_samples, write_samples
from ktdeval_qfinzero.scoring.types import GoldCall, GoldTask
from ktdeval_qfinzero.scoring.values import (
    EXACT,
    TOLERANCE_SECONDS,
    instant_of,
    is_placeholder,
    time_fields,
)

MAX_CALLS: Final = 200

COLUMNS: Final[Mapping[str, str]] = {
    "id": "unique name of the task",
    "category": "group that summaries are given for",
    "difficulty": "easy, medium or hard",
    "natural_language_instruction": "instruction to the agent",
    "expected_tool_calls": "calling suite: expected calls as JSON; absent in the planning suite",
    "expected_steps": "planning suite: expected calls as JSON; absent in the calling suite",
    "grading_notes": "remark of the author",
    "ground_truth": "facts that no metric reads, as JSON",
}
"""Columns of a published dataset of tasks."""

_JSON_COLUMNS: Final = ("expected_tool_calls", "expected_steps", "ground_truth")
_MINUTES_SUFFIX: Final = "_minutes"
_MAX_SHOWN_CHARS: Final = 60
_MAX_MESSAGE_CHARS: Final = 300
_NO_TEXT: Final = "`str` matching regex '\\\\S'"

_Text = Annotated[str, Meta(pattern=r"\S")]
_Object = dict[str, Any]


class _CallRow(Value, frozen=True):
    tool_name: _Text
    endpoint: str | None = None
    method: Literal["GET", "POST"] | None = None
    required_params: _Object = field(default_factory=dict)
    optional_params: _Object = field(default_factory=dict)
    time_constraints: _Object = field(default_factory=dict)
    step_id: str | None = None
    grading_notes: str = ""

    def gold(self, where: str) -> GoldCall:
        _check_times(self.time_constraints, f"{where}.time_constraints")
        terms = (
            self.required_params,
            self.optional_params,
            self.time_constraints,
            self.step_id,
            self.grading_notes,
        )
        return GoldCall(self.tool_name, self.endpoint, self.method, *terms)


_Calls = Annotated[tuple[_CallRow, ...], Meta(min_length=1, max_length=MAX_CALLS)]


class _TaskRow(Value, frozen=True):
    id: _Text
    category: _Text
    difficulty: _Text
    natural_language_instruction: _Text
    expected_tool_calls: _Calls | None = None
    expected_steps: _Calls | None = None
    grading_notes: str = ""
    ground_truth: _Object = field(default_factory=dict)


def read_tasks(source: str | Path) -> SampleRows:
    """Read the rows of a source of samples (`sample_files`), in order. Raises
    DataError if the source can't be read.
    """
    return read_samples(str(source), _JSON_COLUMNS)


def tasks_of(rows: SampleRows) -> tuple[GoldTask, ...]:
    """Check rows and turn them into tasks. Raises DataError if a row is malformed or repeats an id;
    the message names the source, the row and the problem.
    """
    tasks: dict[str, GoldTask] = {}
    for row in rows.rows:
        task = task_from_row(row.value, row.where)
        if task.id in tasks:
            raise DataError(
                f"{row.where}: a second task {_shown_value(task.id)}; ids are unique in a file"
            )

        tasks[task.id] = task

    return tuple(tasks.values())


def publish_tasks(folder: Path, title: str, tasks: tuple[GoldTask, ...]) -> None:
    """Write tasks as a folder that `datasets` and `read_tasks` can read. Raises UsageError if the
    folder is not empty; DataError if it can't be written.
    """
    rows = [task_to_row(task) for task in tasks]
    used = {name: meaning for name, meaning in COLUMNS.items() if any(name in row for row in rows)}
    write_samples(folder, rows, title, used)


def task_from_row(row: JsonValue, where: str) -> GoldTask:
    """Check one row and turn it into a task; null is treated as absent.

    `row`: parsed JSON; `where`: file and line, for messages. Raises DataError if the row does not
    have the public format; the message names the field and the problem.
    """
    try:
        read = from_plain(_without_nulls(row), _TaskRow, where, DataError)
    except DataError as error:
        raise DataError(
            f"{where}: {_plain_words(str(error).removeprefix(f'{where}: '))}"
        ) from error

    if (read.expected_tool_calls is None) == (read.expected_steps is None):
        raise DataError(
            f"{where}: a task has either expected_tool_calls (calling) or expected_steps (planning)"
        )

    key = "expected_steps" if read.expected_tool_calls is None else "expected_tool_calls"
    calls = read.expected_tool_calls or read.expected_steps or ()
    return GoldTask(
        id=read.id,
        suite="planning" if read.expected_tool_calls is None else "calling",
        category=read.category,
        difficulty=read.difficulty,
        instruction=read.natural_language_instruction,
        calls=tuple(call.gold(f"{where}: {key}[{index}]") for index, call in enumerate(calls)),
        notes=read.grading_notes,
        truth=read.ground_truth,
    )


def task_to_row(task: GoldTask) -> dict[str, JsonValue]:
    """Return the row that `task_from_row` reads back as an equal task."""
    is_planning = task.suite == "planning"
    row: dict[str, JsonValue] = {
        "id": task.id,
        "category": task.category,
        "difficulty": task.difficulty,
        "natural_language_instruction": task.instruction,
        "expected_steps" if is_planning else "expected_tool_calls": [
            _call_row(call) for call in task.calls
        ],
        "grading_notes": task.notes,
    }
    return {**row, "ground_truth": dict(task.truth)} if is_planning or task.truth else row


def _call_row(call: GoldCall) -> dict[str, JsonValue]:
    row: dict[str, JsonValue] = {
        "tool_name": call.tool,
        "endpoint": call.endpoint,
        "method": call.method,
        "required_params": dict(call.required),
        "optional_params": dict(call.optional),
        "time_constraints": dict(call.times),
    }
    if call.step_id is not None:
        row = {"step_id": call.step_id, **row}
    return {**row, "grading_notes": call.notes} if call.notes else row


def _without_nulls(row: JsonValue) -> JsonValue:
    """Return a row without null fields in the row and in its calls; null values within parameters
    stay.
    """
    if not isinstance(row, dict):
        return row

    kept = {name: value for name, value in row.items() if value is not None}
    for name in ("expected_tool_calls", "expected_steps"):
        if isinstance(kept.get(name), list):
            kept[name] = [_without_nulls(call) for call in kept[name]]

    return kept


def _plain_words(message: str) -> str:
    message = message.replace(_NO_TEXT, "a text that is not empty")
    return (
        f"{message[:_MAX_MESSAGE_CHARS]}{'; give GET or POST' if 'enum value' in message else ''}"
    )


def _check_times(times: Mapping[str, JsonValue], where: str) -> None:
    tolerance = times.get("tolerance", EXACT)
    if not isinstance(tolerance, str) or tolerance not in TOLERANCE_SECONDS:
        raise DataError(
            f"{where}: unknown tolerance {_shown_value(tolerance)}; give one of"
            f" {', '.join(TOLERANCE_SECONDS)}"
        )

    for name, value in time_fields(times).items():
        if not _is_time(name, value):
            form = (
                "date or time, a placeholder, null, or a number of minutes for a name that ends in"
                f" {_MINUTES_SUFFIX}"
            )
            raise DataError(
                f"{where}.{name[:_MAX_SHOWN_CHARS]} is {_shown_value(value)}; give an ISO 8601 {form}"
            )


def _is_time(name: str, value: JsonValue) -> bool:
    if value is None or is_placeholder(value):
        return True
    if isinstance(value, str):
        return instant_of(value) is not None
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and name.endswith(_MINUTES_SUFFIX)
    )


def _shown_value(value: JsonValue) -> str:
    """Return a value in the form shown in messages, which is short whatever the file contains."""
    return repr(value)[:_MAX_SHOWN_CHARS]
