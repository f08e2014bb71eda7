"""Runs of scoring tasks set beside each other: by `compare`, in the paper's table, and as a
page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from scipy.stats import binomtest

import ktdeval
from ktdeval.cli.main import main
from ktdeval.runner import RunFolder
from ktdeval.testing import Terminal
from support.pages.report_page import check_page
from support.paths import SUPPORT
from support.runs.run_support import card_of

PLUGIN = str(SUPPORT / "qfinzero" / "qfinzero_suite_plugin.py")
TASKS = "qfinzero_calling,qfinzero_planning"
LIMIT = 20


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """One run each of a model that is always right, one that never calls, and one that fails at
    random.
    """
    folder = tmp_path_factory.mktemp("runs")
    made = {}

    for model in ("agent/perfect", "agent/silent", "builtin/chaos"):
        made[model] = folder / model.replace("/", "-")
        words = f"--model {model} --tasks {TASKS} --limit {LIMIT} --out {made[model]} --quiet"
        assert main([*words.split(), "--plugin", PLUGIN]) in (0, 1)

    return made


def exact(run: Path, task: str) -> dict[str, bool]:
    """Whether each sample's answer is exact, read from the records themselves; a failed call is
    left out.
    """
    folder = RunFolder.load(run)
    (spec,) = (spec for spec in folder.manifest.specs if spec.task == task)
    answers = (answer for answer in folder.load_answers(spec) if answer.provenance != "error")

    return {answer.sample: bool(answer.scores.get("exact", False)) for answer in answers}


def test_scores_are_compared_sample_by_sample(runs: Mapping[str, Path], terminal: Terminal) -> None:
    paths = runs.values()
    chosen = "--metric exact --common --json"
    report = json.loads(terminal.out("compare", *paths, *chosen.split()))
    assert len(report["scores"]) == len(report["tests"]) == 6

    for row in report["tests"]:
        left = exact(runs[row["first"]], row["task"])
        right = exact(runs[row["second"]], row["task"])
        shared = left.keys() & right.keys()
        better = sum(left[each] > right[each] for each in shared)
        worse = sum(left[each] < right[each] for each in shared)
        assert (row["n"], row["differing"]) == (len(shared), better + worse)
        assert row["value"] == pytest.approx((better - worse) / len(shared))
        # of signs alone: McNemar's exact test
        expected = binomtest(better, better + worse).pvalue if better + worse else 1.0
        assert row["p"] == pytest.approx(expected, abs=1e-4)
        assert row["verdict"] == (f"{row['first']} better" if row["p_holm"] <= 0.05 else "tied")

    printed = terminal.out("compare", *paths)
    assert "do not have a figure of the same samples" in printed
    assert "model calls failed)" in printed
    assert "paired by sample" in printed

    frame = ktdeval.compare(*paths, metrics="exact", common=True)
    assert frame["p"].tolist() == [row["p"] for row in report["tests"]]


def test_several_models_are_listed_in_the_papers_table(
    runs: Mapping[str, Path], terminal: Terminal
) -> None:
    paths = list(runs.values())
    shown = terminal.out("paper", "table", *reversed(paths), "--like", "qfinzero-2")
    lines = shown.splitlines()

    assert "QFinZero, Table 2" in lines[0]
    assert [line.split()[0] for line in lines[2:4]] == ["agent/perfect", "agent/silent"]
    assert lines[2].split()[1:] == ["1.00", "1.00", "1.00", "100.00"] * 2

    frame = ktdeval.table(*paths, like="qfinzero-2")
    overall = card_of(runs["agent/silent"], "qfinzero_planning")["scores"]["overall"]["value"]
    assert frame.loc["agent/silent", "planning_overall"] == overall

    figures = frame.loc["agent/silent", ["planning_tm", "planning_pa", "planning_ta"]]
    assert figures.mean() * 100 == pytest.approx(overall)


def test_a_report_draws_scores_by_model_category_and_failure(
    runs: Mapping[str, Path], tmp_path: Path, terminal: Terminal
) -> None:
    page = tmp_path / "report.html"
    terminal.out("view", "report", *runs.values(), "--out", page, "--plugin", PLUGIN)
    text = page.read_text()
    check_page(text)

    for words in (
        "6 result cards",
        "overall, points by category",
        "how answers fail",
        "overall of each card, with 95 % interval",
        "agent/perfect",
        "100.000",
    ):
        assert words in text


def test_a_board_ranks_scoring_runs_that_it_executed_again(
    tmp_path: Path, terminal: Terminal
) -> None:
    board = tmp_path / "board"
    task = "qfinzero_planning"
    plugin = ("--plugin", PLUGIN)
    new = f"init {board} --name qf --title Planning --tasks {task}"
    terminal.out("leaderboard", *new.split(), *plugin)
    who = (
        "--contact me@example.org --submitter Me --cutoff none --cutoff-source script --attempts 1"
    )

    for model in ("silent", "perfect"):
        out = tmp_path / model
        words = f"--model agent/{model} --tasks {task} --out {out} --quiet"
        terminal.out(*words.split(), *plugin)
        terminal.out("leaderboard", "submit", out, "--board", board, *who.split(), *plugin)

    checked = terminal.out("leaderboard", "check", board, *plugin)
    assert checked.count("re-executed   cards/") == 2

    terminal.out("leaderboard", "build", board, "--out", tmp_path / "site")
    table = tmp_path / "site" / "data" / "division" / "qfinzero-planning" / "all.json"
    rows = json.loads(table.read_text())["rows"]
    ranks = [(row["rank"], row["model"]) for row in rows if row["rank"]]

    assert ranks == [(1, "agent/perfect"), (2, "agent/silent")]
