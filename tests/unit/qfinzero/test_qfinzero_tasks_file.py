"""QFinZero task files: the public format in and out, and every way a foreign file can be wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import DataError
from ktdeval_qfinzero.scoring.paper import score
from ktdeval_qfinzero.scoring.tasks_file import publish_tasks, task_from_row, task_to_row
from ktdeval_qfinzero.scoring.types import GoldCall
from qfinzero_scoring_cases import BARS, EVENTS, ORDER, RUN, load_tasks, perfect_answer, rows_of, task, tasks_of
from tables import beside, on_each_row

CALLING_ROW: dict[str, Any] = beside(__file__)["calling_row"]
FILES = [f"{suite}_tasks{names}_public.jsonl" for suite in ("calling", "planning") for names in ("", "_esp")]


def with_call(**changes: Any) -> dict[str, Any]:
    return {**CALLING_ROW, "expected_tool_calls": [{**CALLING_ROW["expected_tool_calls"][0], **changes}]}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", FILES)
def test_public_files_load_and_write_back_the_same(shared_data: Path, name: str) -> None:
    path = shared_data / "qfinzero" / name
    assert [task_to_row(one) for one in tasks_of(path).values()] == list(rows_of(path))


@pytest.mark.shared_data
@pytest.mark.parametrize("name", FILES)
def test_the_perfect_answer_of_every_public_task_earns_100_and_an_empty_one_only_a_refusal(shared_data: Path, name: str) -> None:
    for one in tasks_of(shared_data / "qfinzero" / name).values():
        best = score(one, perfect_answer(one, RUN), RUN)
        assert (best.overall, best.failure_modes) == (100, ()), one.id
        assert score(one, [], RUN).overall == (100 if one.refuse else 0), one.id


def test_a_calling_row_becomes_a_task() -> None:
    read = task_from_row(CALLING_ROW, "here")
    assert (read.suite, read.id, read.refuse, read.notes) == ("calling", "c-1", False, "Easy.")
    assert read.calls[0].required == {"tickers": "KO", "start": "2024-03-04"}
    assert task_to_row(read) == CALLING_ROW


def test_tasks_survive_the_way_to_a_file_and_to_a_published_dataset_and_back(tmp_path: Path) -> None:
    planning = replace(task(replace(BARS, step_id="s1", notes="n"), EVENTS, ORDER), truth={"a": [1, None]})
    refusal = replace(task(GoldCall("REFUSE"), suite="calling"), id="other")
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(task_to_row(one)) + "\n\n" for one in (planning, refusal)))
    assert load_tasks(path) == (planning, refusal)
    assert refusal.refuse
    both = (planning, replace(refusal, suite="planning"))
    publish_tasks(tmp_path / "made", "Two tasks", both)
    assert load_tasks(tmp_path / "made") == both


def refused(row: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n" + json.dumps(row) + "\n")
    with pytest.raises(DataError, match=message) as caught:
        load_tasks(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@on_each_row
def test_a_wrong_row_says_what_is_wrong_and_where(row: Any, call: Any, message: str, tmp_path: Path) -> None:
    refused({**with_call(**call), **row}, message, tmp_path)


def test_a_row_that_is_none_of_two_kinds_or_too_long_is_refused(tmp_path: Path) -> None:
    calls = CALLING_ROW["expected_tool_calls"]
    refused([], "expected `object`, got `array`", tmp_path)
    refused({**CALLING_ROW, "expected_steps": calls}, "either expected_tool_calls .calling. or", tmp_path)
    refused({**CALLING_ROW, "expected_tool_calls": calls * 201}, "of length <= 200", tmp_path)
    refused({**CALLING_ROW, "x" * 10_000: 1}, f"unknown field `{'x' * 60}", tmp_path)


def test_ids_are_unique_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(f"{json.dumps(CALLING_ROW)}\n{json.dumps(CALLING_ROW)}\n")
    with pytest.raises(DataError, match=":2: a second task 'c-1'"):
        load_tasks(path)


@pytest.mark.parametrize("value", [None, "<from_step_1>", "2024-03-04T09:30:00+01:00", "2024-03-04"])
def test_times_may_be_null_placeholders_or_iso(value: Any) -> None:
    assert task_from_row(with_call(time_constraints={"start": value}), "here").calls[0].times == {"start": value}
