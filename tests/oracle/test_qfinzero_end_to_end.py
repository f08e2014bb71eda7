"""The whole benchmark without keys: every generated item under every variant, and whole runs from
command line to card.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.runner.records.episode_journal import pack_lines
from ktdeval.runner.records.run_file_names import ANSWERS
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.testing import not_empty
from ktdeval_qfinzero.benchmark.items import BenchmarkItem, open_workspace, resolve_references
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.suite.grading import RecordedCall
from ktdeval_qfinzero.suite.samples import embedded_dataset
from ktdeval_qfinzero.suite.task import SuiteTask
from support.paths import SUPPORT
from support.qfinzero.qfinzero_suite_play import (
    VARIANTS,
    Perfect,
    Silent,
    config_of,
    embedded_items_of,
    perfect_calls,
    sample_set_of,
    sit,
)

PLUGIN = str(SUPPORT / "qfinzero" / "qfinzero_suite_plugin.py")
SAMPLED = 6
NOTHING: dict[str, Any] = {"status": "done", "summary": "", "calls": []}


def task_named(variant: str) -> SuiteTask:
    return SuiteTask(variant, config_of(variant))


# ---- all items


def bare(value: Any, schema: Mapping[str, Any]) -> Any:
    """Arguments without those that are at their default."""
    if isinstance(value, list):
        return [bare(item, schema.get("items", {})) for item in value]

    if not isinstance(value, Mapping):
        return value

    parts = schema.get("properties", {})
    fields = {
        name: item
        for name, item in value.items()
        if "default" not in parts.get(name, {}) or parts[name]["default"] != item
    }

    return {name: bare(item, parts.get(name, {})) for name, item in fields.items()}


@pytest.mark.exhaustive
@pytest.mark.parametrize("suite", ["calling", "planning"])
def test_expected_calls_earn_everything_and_no_calls_nothing(
    suite: str,
) -> None:
    sample_set = sample_set_of(task_named(f"qfinzero_{suite}"))
    items = embedded_items_of(suite)
    shortened = 0

    assert len(sample_set) == len(items) >= {"calling": 300, "planning": 100}[suite]

    for number, item in enumerate(items):
        calls = perfect_calls(item)
        perfect = sample_set.score(number, {**NOTHING, "calls": calls})
        assert [perfect[f"paper_{name}"] for name in ("overall", "tm", "pa", "ta")] == [
            100.0,
            1.0,
            1.0,
            1.0,
        ], item.task.id
        assert perfect["exact"], item.task.id
        assert sample_set.score(number, NOTHING)["paper_overall"] == (
            100.0 if item.task.refuse else 0.0
        ), item.task.id
        short = [
            {
                **call,
                "arguments": bare(call["arguments"], catalogue().find(call["tool"]).parameters),
            }
            for call in calls
        ]
        shortened += short != calls
        assert short == calls or sample_set.score(number, {**NOTHING, "calls": short})["exact"], (
            item.task.id
        )

    assert shortened > 20


def made(item: BenchmarkItem) -> tuple[list[RecordedCall], Any]:
    """The expected calls with what they refer to filled in, made one after the other; and the
    workspace that they leave.
    """
    workspace = open_workspace(item, embedded_dataset(0))
    answers = []
    calls = []

    for call in item.gold:
        arguments = resolve_references(call.args, answers)
        calls.append(RecordedCall(tool=call.tool, arguments=arguments))
        answers.append(catalogue().find(call.tool).call(workspace, arguments))

    return calls, workspace


@pytest.mark.exhaustive
@pytest.mark.parametrize("suite", ["calling", "planning"])
def test_expected_calls_of_every_item_work_and_reach_its_end_state(suite: str) -> None:
    sample_set = sample_set_of(task_named(f"qfinzero_{suite}_live"))
    for number, item in enumerate(not_empty(embedded_items_of(suite))):
        environment = sample_set.sample(number).environment
        calls, environment.workspace = made(item)
        environment.calls.extend(calls)
        scores = sample_set.score(
            number, environment.complete_answer({"status": "done", "summary": ""})
        )
        assert (scores["paper_overall"], scores["end_state_match"]) == (100.0, True), item.task.id


# ---- through the sitting and the reference agent


@pytest.mark.exhaustive
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_sample_of_each_variant_goes_through_a_real_session(variant: str) -> None:
    task = task_named(variant)
    items = embedded_items_of(variant)
    numbers = range(0, len(items), len(items) // SAMPLED)
    records = sit(task, Perfect(items, live="live" in variant), numbers)
    scores = task.summarise(records)

    assert [scores[name].value for name in ("overall", "tm", "pa", "ta")] == [100.0, 1.0, 1.0, 1.0]
    assert "live" not in variant or scores["end_state_match"].value == 1.0
    assert all(record.failures == {} for record in records)

    silent = sit(task, Silent(), numbers)
    assert [record.scores["paper_overall"] for record in silent] == [
        100.0 * record.facts["refusal"] for record in silent
    ]


def test_no_question_tells_its_answer() -> None:
    """Neither prompt nor form holds the gold, a category, a difficulty or a template."""
    sample_set = sample_set_of(task_named("qfinzero_calling"))
    for number in not_empty(range(0, len(sample_set), 37)):
        sample = sample_set.sample(number)
        shown = json.dumps([sample.system, sample.user, sample.form.parameters])
        for hidden in (
            "expected_tool_calls",
            "required_params",
            sample.facts["category"],
            "difficulty",
            "REFUSE",
        ):
            assert hidden not in shown


# ---- whole runs


def run(out: Path, task: str, model: str, *more: str) -> Mapping[str, Any]:
    arguments = [
        "--plugin",
        PLUGIN,
        "--model",
        model,
        "--tasks",
        task,
        "--out",
        str(out),
        "--quiet",
        *more,
    ]

    assert main(arguments) == 0

    card: Mapping[str, Any] = json.loads((out / "cards" / f"{task}.json").read_text())

    return card


@pytest.mark.slow
def test_a_run_from_the_command_line_ends_in_a_card_that_verifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = "qfinzero_planning_live"
    out = tmp_path / "run"
    card = run(out, task, "agent/perfect_live", "--limit", "12")

    assert card["kind"] == "scoring"
    assert card["decisions"] == {"model": 12, "model_after_retry": 0, "fallback": 0, "error": 0}
    assert card["scores"]["overall"]["value"] == 100.0
    assert card["scores"]["end_state_match"]["value"] == 1.0

    material = card["task"]["config"]["material"]
    assert material["dataset"] == {
        "name": "synthetic",
        "content_id": embedded_dataset(0).info.content_id,
    }
    assert material["questions"]["count"] >= 100
    assert main(["card", "verify", "--card-only", str(out)]) == 0
    assert main(["card", "verify", str(out), "--plugin", PLUGIN]) == 0
    assert main(["card", "show", str(out)]) == 0
    assert "end_state_match" in capsys.readouterr().out
    assert main(["view", str(out), "--plugin", PLUGIN]) == 0
    assert "1 of 1 episodes" in capsys.readouterr().out

    _tamper(out)
    assert main(["card", "verify", str(out), "--plugin", PLUGIN]) == 1
    assert "answers.jsonl.zst" in capsys.readouterr().out


def _tamper(out: Path) -> None:
    """Claim a better score than was earned."""
    folder = RunFolder.load(out)
    spec = folder.manifest.specs[0]
    answers = folder.load_answers(spec)
    answers[1].scores["paper_overall"] = 12.5
    (folder.episode_path(spec) / ANSWERS).write_bytes(pack_lines(answers))


@pytest.mark.exhaustive
def test_cards_of_silent_and_chaotic_models_state_their_failures(tmp_path: Path) -> None:
    silent = run(tmp_path / "silent", "qfinzero_calling", "agent/silent", "--limit", "15")["scores"]
    assert silent["overall"]["value"] == pytest.approx(silent["overall"]["baseline"])
    assert silent["refusal_accuracy"]["detail"]["false_refusals"]["value"] == 1.0

    chaos = run(tmp_path / "chaos", "qfinzero_calling_live", "builtin/chaos", "--limit", "15")
    asked = 15 - chaos["decisions"]["error"]

    assert chaos["decisions"]["fallback"] == asked
    assert chaos["scores"]["overall"]["value"] == 0.0
    assert chaos["scores"]["overall"]["detail"]["failure_modes"] == {"no_submission": asked}
    assert chaos["scores"]["unanswered"]["detail"] == {
        "count": 15,
        "by_provenance": {"error": chaos["decisions"]["error"], "fallback": asked},
    }
    # an answer without a call earns the baseline, and is counted apart from none at all
    assert silent["overall"]["detail"]["without_call"] == 15
    assert silent["overall"]["detail"]["without_submission"] == 0
    assert chaos["scores"]["overall"]["detail"]["without_call"] == 0
    assert chaos["scores"]["overall"]["detail"]["without_submission"] == asked
