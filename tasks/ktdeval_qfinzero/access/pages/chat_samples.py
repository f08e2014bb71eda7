"""Save a chat turn as a user-defined item: a row of a tasks file in the public format, and the task
file that asks these rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from ktdeval.values import dumps_canonical, make_folder, read_plain, write_atomic
from ktdeval_qfinzero.benchmark.item_generation import expected_call
from ktdeval_qfinzero.benchmark.items import refusal_of
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.errors import ServiceError, conflict, invalid
from ktdeval_qfinzero.scoring.tasks_file import task_from_row, task_to_row
from ktdeval_qfinzero.scoring.types import REFUSE, GoldCall, GoldTask, Suite
from ktdeval_qfinzero.scoring.values import instant_of
from ktdeval_qfinzero.suite.environment import make_calls
from ktdeval_qfinzero.suite.grading import RecordedCall

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MAX_BYTES: Final = 16 << 20
SUITES: Final[tuple[Suite, ...]] = ("calling", "planning")


def gold_task(item_id: str, suite: Suite, instruction: str, calls: Sequence[GoldCall]) -> GoldTask:
    """Return an item. Without calls, the expected answer is a refusal."""
    expected = tuple(calls) or (GoldCall(REFUSE),)
    if suite == "planning":
        expected = tuple(
            replace(call, step_id=f"s{number}") for number, call in enumerate(expected, 1)
        )

    return GoldTask(
        id=item_id,
        suite=suite,
        category="chat",
        difficulty="medium",
        instruction=instruction,
        calls=expected,
        notes="from a chat of the playground",
    )


def gold_calls(workspace: Workspace, calls: Sequence[RecordedCall]) -> list[GoldCall]:
    """Make recorded calls again and return the successful ones as expected calls. Arguments that
    are times or days are compared as times, to the second.
    """
    answers = make_calls(workspace, calls)
    expected = []
    for call, answer in zip(calls, answers, strict=True):
        if refusal_of(answer) or not isinstance(call.arguments, dict):
            continue

        times = [
            name
            for name, value in call.arguments.items()
            if isinstance(value, str) and instant_of(value) is not None
        ]
        expected.append(expected_call(call.tool, call.arguments, times))

    return expected


def add_sample(folder: Path, task: GoldTask) -> Path:
    """Append an item to the tasks file of its suite in a folder, and write the task file that asks
    all items in it. Return the path of the task file. Raises ServiceError if the id is malformed or
    already exists, or if the file is full.
    """
    if not _ID.fullmatch(task.id):
        raise invalid("item_id", "expected 1 to 64 letters, digits, `_`, `.` and `-`")

    make_folder(folder, "choose another --chats")
    rows = folder / f"{task.suite}.jsonl"
    before = read_plain(rows, _MAX_BYTES) if rows.exists() else b""
    row = task_to_row(task)
    task_from_row(row, "the new item")  # written records must be readable
    for line in before.decode().splitlines():
        if f'"id":{dumps_canonical(task.id)}' in line:
            raise conflict(f"there is an item {task.id} already; choose another id", "item_id")

    content = before + dumps_canonical(row).encode() + b"\n"
    if len(content) > _MAX_BYTES:
        raise ServiceError("too_large", f"{rows} is full; move it away")

    write_atomic(rows, content)
    path = folder / f"my_{task.suite}.yaml"
    write_atomic(path, _task_file(task.suite, rows))
    return path


def _task_file(suite: Suite, rows: Path) -> str:
    variant: dict[str, Any] = {
        "extends": f"qfinzero_{suite}",
        "summary": f"Items of my own, made of chats ({suite})",
        "tasks_file": str(rows.resolve()),
    }
    content = {
        "family": "my_items",
        "version": "1",
        "variants": {f"my_{suite}": variant},
    }
    return yaml.safe_dump(content, sort_keys=False)
