"""From a model's raw text to its calls, as the public code reads it, and never an exception."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import qfinzero_reply
from qfinzero_reply import parse_reply, score_reply, strip_fences
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
        found = {name: getattr(scores, name) for name in ("tm", "pa", "ta", "overall")} | dict(scores.detail)
        terms = {name: expected[name] for name in ("tm", "pa", "ta", "overall")} | expected["ref"]
        modes = terms.pop("failure_modes")
        told = (list(scores.failure_modes), reply.json_valid, len(reply.violations))
        wanted = (modes, expected["json_valid"], expected["n_schema_violations"])
        if told != wanted or any(abs(found[name] - value) > 1e-6 for name, value in terms.items()):
            wrong.append((row["task_id"], row["variant"]))
    assert len(rows) == 450
    assert wrong == []


FENCED = [f"```json\n{PLAN}\n```", f"```\n{PLAN}\n```", f"```json{PLAN}```"]
AROUND = [f"Sure:\n{PLAN}\nDone.", PLAN[:-1] + ",}", f"Note.\n```json\n{PLAN}\n```"]


@pytest.mark.parametrize("text", [PLAN, f"  {PLAN}\n", *FENCED, *AROUND])
def test_plans_are_read_and_valid_without_text_around_them_and_surplus_commas(text: str) -> None:
    reply = parse_reply(text)
    assert (reply.is_readable, reply.json_valid, reply.calls, reply.final_answer) == (True, text not in AROUND, (CALL,), ANSWER)


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["", "I can't.", PLAN[:-4], f"{PLAN}\n{PLAN}", f"Sure: {PLAN[:-1]},}}", "{", "}{", "```"], "not JSON"),
        (["[]", "5", '"text"', "null", f"[{json.dumps(CALL)}]"], "the root of the reply is"),  # the public code raises
        (['{"tool_plan": [NaN]}', '{"tool_plan": [-Infinity]}', '{"a": ' + "9" * 5000 + "}"], "not JSON"),
        (["[" * 200_000], "the JSON is nested too deep"),
    ],
)
def test_the_rest_is_unreadable_and_scores_nothing(texts: list[str], problem: str) -> None:
    for text in texts:
        scores, reply = score_reply(task(RATES), text)
        assert (reply.is_readable, reply.calls, scores.overall) == (False, (), 0)
        assert str(reply.problem).startswith(problem)


def test_a_reply_beyond_the_limit_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qfinzero_reply, "MAX_REPLY_CHARS", len(PLAN) - 1)
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
