"""Silence does not pay: what models without a valid answer earn in every scoring task of the
installation, and what failed calls leave open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, evaluate
from ktdeval.task_api import Score, ScoringTask, is_scoring, worst_figure
from ktdeval.task_api.qa import QATask
from ktdeval.testing import ConformanceError, check_scoring_task, not_empty

PLUGINS = load_plugins()
TASKS = [name for name in sorted(PLUGINS.specs("tasks")) if is_scoring(PLUGINS.make_task(name))]
#: names of the score that counts samples without a valid answer: ours, and the paper's of probes
COUNTS = ("unanswered", "unparsable_rate")
MODELS = {
    "silent": '" "',
    "text-only": '"I would rather not say, but four seems right."',
    "failing": "{fail: timeout}",
}
SUMS = """
from ktdeval.api import QATask, hookimpl

SAMPLES = [{"question": f"What is {number} + 1?", "gold": str(number + 1)} for number in range(3)]

@hookimpl
def ktdeval_tasks():
    return [QATask(SAMPLES, lambda answer, sample: answer == sample["gold"], name="sums").spec()]
"""


def scores_of(task: str, model: str, folder: Path) -> Mapping[str, Any]:
    """Scores on the card of a run of two samples by a model of this kind."""
    script = folder / "script.yaml"
    script.write_text(f"otherwise: {MODELS[model]}\n")
    config = RunConfig(
        model="builtin/script",
        model_args={"file": str(script)},
        tasks=(task,),
        limit=2,
        windows=("W1",) if "deanon" in task else (),
        out=str(folder / "run"),
    )
    run = evaluate(config, PLUGINS)
    (path,) = (run.folder / "cards").glob("*.json")
    scores: Mapping[str, Any] = json.loads(path.read_text())["scores"]

    return scores


@pytest.mark.parametrize("model", ["silent", "text-only"])
@pytest.mark.parametrize("task", TASKS)
def test_without_a_valid_answer_each_score_is_at_its_worst(
    task: str, model: str, tmp_path: Path
) -> None:
    scores = scores_of(task, model, tmp_path)
    counted = [scores[name] for name in COUNTS if name in scores]

    assert [line["value"] for line in counted] == [1.0]

    for name, line in scores.items():
        if name in COUNTS or not line["headline"]:
            continue

        worst = worst_figure(line["better"], line["range"], line.get("unanswered", "worst"))
        if worst is None:  # probes: an attacker that says nothing shows nothing of the mask
            assert (line["value"], line["n"]) == (None, 0), name
        else:
            assert line["value"] == worst, name


@pytest.mark.parametrize("task", TASKS)
def test_failed_calls_give_no_figure_and_are_counted(task: str, tmp_path: Path) -> None:
    scores = scores_of(task, "failing", tmp_path)
    for name, line in not_empty(list(scores.items())):
        if name in COUNTS:
            assert line["value"] == 1.0
            assert line["detail"]["by_provenance"] == {"error": 2}
        else:
            assert line["value"] is None, name
            assert line["reason"], name


# ---- comparisons


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> str:
    """File of a task of three sums; a process loads a module of this name once."""
    path = tmp_path_factory.mktemp("plugin") / "three_silent_sums.py"
    path.write_text(SUMS)
    return str(path)


def sums(plugin: str, folder: Path, name: str, script: str) -> str:
    """A run of three sums by a script; the first is answered right."""
    (folder / f"{name}.yaml").write_text(script)
    out = str(folder / name)
    words = ["--plugin", plugin, "--tasks", "sums", "--model", "builtin/script"]
    given = ["--model-args", f"file={folder / name}.yaml", "--out", out, "--quiet"]

    assert main([*words, *given]) in (0, 1)

    return out


RIGHT = "\n".join(
    ["steps:"]
    + [
        f'- {{step: {number}, replies: {{submit: {{answer: "{number + 1}"}}}}}}'
        for number in range(3)
    ]
)
ONE_RIGHT = 'steps:\n- {step: 0, replies: {submit: {answer: "1"}}}\n'


@pytest.mark.slow
def test_replies_in_plain_text_are_compared_as_wrong_answers(
    plugin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = sums(plugin, tmp_path, "right", RIGHT)
    prose = sums(plugin, tmp_path, "prose", ONE_RIGHT + 'otherwise: "I would say four."\n')
    capsys.readouterr()

    assert main(["compare", right, prose, "--json"]) == 0

    report = json.loads(capsys.readouterr().out)
    assert [(row["value"], row["n"]) for row in report["scores"]] == [
        (1.0, 3),
        (pytest.approx(1 / 3), 3),
    ]

    (test,) = report["tests"]
    assert (test["n"], test["differing"], test["value"]) == (3, 2, pytest.approx(2 / 3))
    assert "failed" not in " ".join(report["notes"])


@pytest.mark.slow
def test_a_failed_call_is_named_where_one_failed_and_bounds_the_score(
    plugin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = sums(plugin, tmp_path, "right", RIGHT)
    fails = sums(plugin, tmp_path, "fails", ONE_RIGHT + "otherwise: {fail: timeout}\n")
    capsys.readouterr()

    assert main(["compare", right, fails, "--json"]) == 0

    report = json.loads(capsys.readouterr().out)
    notes = " ".join(report["notes"])

    assert report["tests"] == []
    assert "2 model calls failed); --common compares the 1 that both have" in notes
    assert "accuracy: 2 model calls failed: over all 3 samples it lies within 0.3333 … 1" in notes
    assert main(["card", "show", fails]) == 0

    shown = " ".join(capsys.readouterr().out.split())
    assert "accuracy: 2 model calls failed: over all 3 samples it lies within 0.3333 … 1" in shown
    assert main(["card", "verify", fails, "--plugin", plugin]) == 0


class Lenient(QATask):
    """A task that takes silence for a right answer."""

    def summarise(self, records: Any) -> Mapping[str, Score]:
        summary = super().summarise(records)
        return {**summary, "accuracy": Score(1.0, len(records))}


def test_a_task_in_which_silence_pays_breaks_the_contract() -> None:
    def score(answer: str, sample: Any) -> bool:
        return answer == sample["gold"]

    samples = [{"question": "1 + 1?", "gold": "2"}]
    fair: ScoringTask = QATask(samples, score, name="fair")
    check_scoring_task(fair)

    with pytest.raises(
        ConformanceError, match=r"accuracy is 1\.0; it must be the worst figure, 0\.0"
    ):
        check_scoring_task(Lenient(samples, score, name="lenient"))
