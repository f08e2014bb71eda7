"""From a model's raw text to its calls, as the public code reads it, and never an exception."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval_qfinzero.scoring import reference_calling
from ktdeval_qfinzero.scoring.reference_calling import parse_reply, score_reply, strip_fences
from qfinzero_scoring_cases import RATES, rows_of, task, tasks_of

CALL = {"tool_name": "UPQ.rates.query", "method": "GET", "endpoint": "/rates/query", "params": {"tenors": "2Y,10Y"}}
ANSWER = {"summary": "s", "assumptions": []}
PLAN = json.dumps({"tool_plan": [CALL], "final_answer": ANSWER})


@pytest.mark.shared_data
def test_all_raw_vectors_are_read_and_scored_alike(shared_data: Path) -> None:
    folder = shared_data / "qfinzero"
    tasks, rows = tasks_of(folder / "calling_tasks_esp_public.jsonl"), rows_of(folder / "calling_raw_vectors_esp_public.jsonl")
    wrong = []
    for row in rows:
        scores, reply = score_reply(tasks[row["task_id"]], row["raw_output"])
        expected = row["expected"]
        if row.get("ref_raises"):
            continue
        same = all(abs(getattr(scores, name) - expected[name]) <= 1e-6 for name in ("tm", "pa", "ta", "overall"))
        terms = {**expected["ref"]}
        modes = terms.pop("failure_modes")
        same = same and all(abs(scores.detail[name] - value) <= 1e-6 for name, value in terms.items())
        if not same or (list(scores.failure_modes), reply.json_valid, len(reply.violations)) != (
            modes,
            expected["json_valid"],
            expected["n_schema_violations"],
        ):
            wrong.append((row["task_id"], row["variant"]))
    assert len(rows) == 450
    assert wrong == []


@pytest.mark.parametrize("text", [PLAN, f"  {PLAN}\n", f"```json\n{PLAN}\n```", f"```\n{PLAN}\n```", f"```json{PLAN}```"])
def test_bare_and_fenced_plans_are_valid(text: str) -> None:
    reply = parse_reply(text)
    assert (reply.is_readable, reply.json_valid, reply.calls, reply.final_answer) == (True, True, (CALL,), ANSWER)


@pytest.mark.parametrize("text", [f"Sure:\n{PLAN}\nDone.", PLAN[:-1] + ",}", f"Note.\n```json\n{PLAN}\n```"])
def test_text_around_the_plan_or_a_surplus_comma_is_read_but_not_valid(text: str) -> None:
    reply = parse_reply(text)
    assert (reply.is_readable, reply.json_valid, reply.calls) == (True, False, (CALL,))


@pytest.mark.parametrize("text", ["", "I can't.", PLAN[:-4], f"{PLAN}\n{PLAN}", f"Sure: {PLAN[:-1]},}}", "{", "}{", "```"])
def test_the_rest_is_unreadable_and_scores_nothing(text: str) -> None:
    scores, reply = score_reply(task(RATES), text)
    assert (reply.is_readable, reply.calls, scores.overall) == (False, (), 0)
    assert reply.problem is not None
    assert reply.problem.startswith("not JSON")


@pytest.mark.parametrize("text", ["[]", "5", '"text"', "null", f"[{json.dumps(CALL)}]"])
def test_a_root_that_is_no_object_is_unreadable_though_the_public_code_raises(text: str) -> None:
    reply = parse_reply(text)
    assert reply.problem is not None
    assert "not an object" in reply.problem


@pytest.mark.parametrize("text", ['{"tool_plan": [NaN]}', '{"tool_plan": [-Infinity]}', '{"a": ' + "9" * 5000 + "}"])
def test_what_is_not_strict_json_is_unreadable(text: str) -> None:
    assert not parse_reply(text).is_readable


def test_nesting_beyond_the_parser_is_unreadable() -> None:
    reply = parse_reply("[" * 200_000)
    assert reply.problem == "the JSON is nested too deep"


def test_a_reply_beyond_the_limit_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_calling, "MAX_REPLY_CHARS", len(PLAN) - 1)
    assert parse_reply(PLAN).problem == f"the reply has {len(PLAN)} characters, more than {len(PLAN) - 1}"


@pytest.mark.parametrize(
    ("root", "calls", "violations"),
    [
        ({"thoughtless_plan": [CALL], "final_answer": ANSWER}, 1, 0),
        ({"tool_plan": [], "thoughtless_plan": [CALL], "final_answer": ANSWER}, 1, 0),
        ({"tool_plan": {"a": 1}, "final_answer": ANSWER}, 0, 1),
        ({"tool_plan": [CALL]}, 1, 1),
        ({"tool_plan": [CALL], "final_answer": "done"}, 1, 1),
        ({"tool_plan": [CALL], "final_answer": {}}, 1, 1),
        ({"tool_plan": [CALL, None], "final_answer": ANSWER}, 2, 1),
        ({"tool_plan": [{**CALL, "method": "PUT"}], "final_answer": ANSWER}, 1, 1),
        ({"tool_plan": [{"tool_name": "x"}], "final_answer": ANSWER}, 1, 3),
    ],
)
def test_departures_from_the_form_are_counted_and_make_the_reply_invalid(root: Any, calls: int, violations: int) -> None:
    reply = parse_reply(json.dumps(root))
    assert (len(reply.calls), len(reply.violations), reply.json_valid) == (calls, violations, violations == 0)


def test_fences_come_off_at_either_end_once() -> None:
    assert strip_fences("```json\nx```") == strip_fences("```x") == strip_fences("x\n```") == "x"
    assert strip_fences("``````x") == "```x"


@given(st.text(alphabet='{}[]",:`json 0\n\\') | st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    scores, reply = score_reply(task(RATES), text)
    assert reply.is_readable == (reply.problem is None)
    assert 0 <= scores.overall <= 100
