"""Task files: one JSON object a line, in the public format of both suites. Files are foreign: everything is checked on the way in.

A row with `expected_tool_calls` is a calling task, one with `expected_steps` a planning task. Both have `id`, `category`,
`difficulty`, `natural_language_instruction` and perhaps `grading_notes` and `ground_truth`. A call has `tool_name`, and perhaps
`endpoint`, `method`, `required_params`, `optional_params`, `time_constraints`, `step_id` and `grading_notes`.
Keys beyond these are refused: most often they are misspelled, and a task would lose what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ktdeval.api import DataError, JsonValue, loads_strict, near_matches
from ktdeval_qfinzero.scoring.times import EXACT, TOLERANCE_SECONDS, instant_of, time_fields
from ktdeval_qfinzero.scoring.types import GoldCall, GoldTask
from ktdeval_qfinzero.scoring.values import is_placeholder

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_LINE_CHARS: Final = 1_000_000
MAX_TASKS: Final = 100_000
MAX_CALLS: Final = 200
MAX_DEPTH: Final = 32

_CALLS_KEY: Final = "expected_tool_calls"
_STEPS_KEY: Final = "expected_steps"
_TASK_KEYS: Final = frozenset(
    {"id", "category", "difficulty", "natural_language_instruction", "grading_notes", "ground_truth", _CALLS_KEY, _STEPS_KEY}
)
_CALL_KEYS: Final = frozenset(
    {
        "tool_name",
        "endpoint",
        "method",
        "required_params",
        "optional_params",
        "time_constraints",
        "step_id",
        "grading_notes",
    }
)
_MINUTES_SUFFIX: Final = "_minutes"
_MAX_SHOWN_CHARS: Final = 60


def load_tasks(path: Path) -> tuple[GoldTask, ...]:
    """Read the tasks of a file in order; blank lines are passed over.

    Raises:
        DataError: the file can't be read, is too large, or a line is no task; names file, line and what is wrong.
    """
    tasks: dict[str, GoldTask] = {}
    for number, line in enumerate(_text_of(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            task = task_from_row(_row_of(line))
            if task.id in tasks:
                raise DataError(f"a second task {_shown(task.id)}; ids are unique in a file")
        except DataError as error:
            raise DataError(f"{path}:{number}: {error}") from error
        tasks[task.id] = task
        if len(tasks) > MAX_TASKS:
            raise DataError(f"{path}: more than {MAX_TASKS} tasks; split the file")
    if not tasks:
        raise DataError(f"{path}: no task in it; give a file with one JSON object a line")
    return tuple(tasks.values())


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise DataError(f"{path}: more than {MAX_FILE_BYTES} bytes; split the file")
        return data.decode("utf-8")
    except OSError as error:
        raise DataError(f"{path}: can't read tasks: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from error


def _row_of(line: str) -> JsonValue:
    if len(line) > MAX_LINE_CHARS:
        raise DataError(f"{len(line)} characters in one line, more than {MAX_LINE_CHARS}")
    try:
        row = loads_strict(line)
    except RecursionError as error:
        raise DataError("the JSON is nested too deep") from error
    except ValueError as error:
        raise DataError(f"not JSON: {error}") from error
    if not _is_flat_enough(row):
        raise DataError(f"the JSON is nested deeper than {MAX_DEPTH} levels")
    return row


def _is_flat_enough(value: JsonValue) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        containers = [item for item in level if isinstance(item, dict | list)]
        level = [inner for item in containers for inner in (item.values() if isinstance(item, dict) else item)]
        if not level:
            return True
    return False


def task_from_row(row: JsonValue) -> GoldTask:
    """Check one row and make it a task.

    Raises:
        DataError: the row is not of the public format; says which field and what is wrong.
    """
    if not isinstance(row, dict):
        raise DataError(f"a task is an object, not {type(row).__name__}")
    _check_keys(row, _TASK_KEYS, "the task")
    if (_CALLS_KEY in row) == (_STEPS_KEY in row):
        raise DataError(f"a task has either {_CALLS_KEY} (calling) or {_STEPS_KEY} (planning)")
    key = _CALLS_KEY if _CALLS_KEY in row else _STEPS_KEY
    calls = row[key]
    if not isinstance(calls, list) or not 1 <= len(calls) <= MAX_CALLS:
        raise DataError(f"{key} is a list of 1 to {MAX_CALLS} calls")
    return GoldTask(
        id=_text(row, "id", "the task"),
        suite="calling" if key == _CALLS_KEY else "planning",
        category=_text(row, "category", "the task"),
        difficulty=_text(row, "difficulty", "the task"),
        instruction=_text(row, "natural_language_instruction", "the task"),
        calls=tuple(_call_of(call, f"{key}[{index}]") for index, call in enumerate(calls)),
        notes=_optional_text(row, "grading_notes", "the task") or "",
        truth=_object(row, "ground_truth", "the task"),
    )


def task_to_row(task: GoldTask) -> dict[str, JsonValue]:
    """The row that `task_from_row` reads back as an equal task."""
    is_planning = task.suite == "planning"
    row: dict[str, JsonValue] = {
        "id": task.id,
        "category": task.category,
        "difficulty": task.difficulty,
        "natural_language_instruction": task.instruction,
        _STEPS_KEY if is_planning else _CALLS_KEY: [_call_row(call) for call in task.calls],
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


def _call_of(call: JsonValue, where: str) -> GoldCall:
    if not isinstance(call, dict):
        raise DataError(f"{where} is an object, not {type(call).__name__}")
    _check_keys(call, _CALL_KEYS, where)
    times = _object(call, "time_constraints", where)
    _check_times(times, where)
    return GoldCall(
        tool=_text(call, "tool_name", where),
        endpoint=_optional_text(call, "endpoint", where),
        method=_method(call, where),
        required=_object(call, "required_params", where),
        optional=_object(call, "optional_params", where),
        times=times,
        step_id=_optional_text(call, "step_id", where),
        notes=_optional_text(call, "grading_notes", where) or "",
    )


def _method(call: Mapping[str, JsonValue], where: str) -> str | None:
    method = _optional_text(call, "method", where)
    if method not in (None, "GET", "POST"):
        raise DataError(f"{where}: method is GET or POST, not {_shown(method)}")
    return method


def _check_times(times: Mapping[str, JsonValue], where: str) -> None:
    tolerance = times.get("tolerance", EXACT)
    if not isinstance(tolerance, str) or tolerance not in TOLERANCE_SECONDS:
        raise DataError(f"{where}: unknown tolerance {_shown(tolerance)}; give one of {', '.join(TOLERANCE_SECONDS)}")
    for name, value in time_fields(times).items():
        if not _is_time(name, value):
            wanted = (
                f"an ISO 8601 date or time, a placeholder, null, or a number of minutes for a name that ends in {_MINUTES_SUFFIX}"
            )
            raise DataError(f"{where}: time_constraints.{name[:_MAX_SHOWN_CHARS]} is {_shown(value)}; give {wanted}")


def _is_time(name: str, value: JsonValue) -> bool:
    if value is None or is_placeholder(value):
        return True
    if isinstance(value, str):
        return instant_of(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool) and name.endswith(_MINUTES_SUFFIX)


def _shown(value: JsonValue) -> str:
    """A value in an error message, short whatever the file holds."""
    return repr(value)[:_MAX_SHOWN_CHARS]


def _check_keys(row: Mapping[str, JsonValue], known: frozenset[str], where: str) -> None:
    for key in row:
        if key not in known:
            shown = key[:_MAX_SHOWN_CHARS]
            raise DataError(f"{where} has an unknown key {shown!r}{near_matches(shown, sorted(known))}")


def _text(row: Mapping[str, JsonValue], key: str, where: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}: {key} is a text that is not empty")
    return value


def _optional_text(row: Mapping[str, JsonValue], key: str, where: str) -> str | None:
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{where}: {key} is a text, not {type(value).__name__}")
    return value


def _object(row: Mapping[str, JsonValue], key: str, where: str) -> Mapping[str, JsonValue]:
    value = row.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DataError(f"{where}: {key} is an object, not {type(value).__name__}")
    return value
