"""Runs of scoring tasks set beside each other: by `compare`, in the paper's table, and as a
page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest

import ktdeval
from ktdeval.cli.main import main
from ktdeval.runner import RunFolder
from support.pages.report_page import check_page
from support.paths import SUPPORT

PLUGIN = str(SUPPORT / "qfinzero" / "qfinzero_suite_plugin.py")
TASKS = "qfinzero_calling,qfinzero_planning"
LIMIT = 20


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """One run each of a model that is always right, one that never calls, and one that fails at
    random.
    """
    folder = tmp_path_factory.mktemp("runs")
    made = {
        name: folder / name.replace("/", "-")
        for name in ("agent/perfect", "agent/silent", "builtin/chaos")
    }

    for model, out in made.items():
        words = [
            "--plugin",
            PLUGIN,
            "--model",
            model,
            "--tasks",
            TASKS,
            "--limit",
            str(LIMIT),
            "--out",
            str(out),
            "--quiet",
        ]
        assert main(words) in (0, 1)

    return made


def exact(run: Path, task: str) -> dict[str, bool]:
    """Whether each sample's answer is exact, read from the records themselves; a failed call is
    left out.
    """
    folder = RunFolder.load(run)
    (spec,) = (spec for spec in folder.manifest.specs if spec.task == task)
    answers = (answer for answer in folder.load_answers(spec) if answer.provenance != "error")

    return {answer.sample: bool(answer.scores.get("exact", False)) for answer in answers}


@pytest.mark.exhaustive
def test_scores_are_compared_sample_by_sample(
    runs: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    paths = [str(path) for path in runs.values()]

    assert main(["compare", *paths, "--metric", "exact", "--common", "--json"]) == 0

    report: dict[str, Any] = json.loads(capsys.readouterr().out)
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

    assert main(["compare", *paths]) == 0

    printed = capsys.readouterr().out
    assert "do not have a figure of the same samples" in printed
    assert "model calls failed)" in printed
    assert "paired by sample" in printed

    frame = ktdeval.compare(*runs.values(), metrics="exact", common=True)
    assert frame["p"].tolist() == [row["p"] for row in report["tests"]]


@pytest.mark.exhaustive
def test_several_models_are_listed_in_the_papers_table(
    runs: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    paths = [str(path) for path in runs.values()]

    assert main(["paper", "table", *reversed(paths), "--like", "qfinzero-2"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert "QFinZero, Table 2" in lines[0]
    assert lines[1].split() == [
        "Model",
        "Calling",
        "TM",
        "PA",
        "TA",
        "Overall",
        "Planning",
        "TM",
        "PA",
        "TA",
        "Overall",
    ]
    assert [line.split()[0] for line in lines[2:4]] == ["agent/perfect", "agent/silent"]
    assert lines[2].split()[1:] == ["1.00", "1.00", "1.00", "100.00"] * 2

    frame = ktdeval.table(*runs.values(), like="qfinzero-2")
    card = json.loads((runs["agent/silent"] / "cards" / "qfinzero_planning.json").read_text())

    assert frame.loc["agent/silent", "planning_overall"] == card["scores"]["overall"]["value"]

    figures = frame.loc["agent/silent", ["planning_tm", "planning_pa", "planning_ta"]]
    assert figures.mean() * 100 == pytest.approx(card["scores"]["overall"]["value"])
    assert (
        main(
            [
                "paper",
                "table",
                paths[0],
                paths[0] + "/cards/qfinzero_calling.json",
                "--like",
                "qfinzero-2",
            ]
        )
        == 2
    )


@pytest.mark.exhaustive
def test_a_report_draws_scores_by_model_category_and_failure(
    runs: Mapping[str, Path], tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    assert (
        main(["view", "report", *map(str, runs.values()), "--out", str(page), "--plugin", PLUGIN])
        == 0
    )

    check_page(page.read_text())
    text = page.read_text()

    for words in (
        "6 result cards",
        "overall, points by category",
        "how answers fail",
        "overall of each card, with 95 % interval",
        "agent/perfect",
        "100.000",
    ):
        assert words in text


@pytest.mark.exhaustive
def test_a_board_ranks_scoring_runs_that_it_executed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = tmp_path / "board"
    task = "qfinzero_planning"
    new = ["--name", "qf", "--title", "Planning", "--tasks", task, "--plugin", PLUGIN]

    assert main(["leaderboard", "init", str(board), *new]) == 0

    who = [
        "--contact",
        "me@example.org",
        "--submitter",
        "Me",
        "--cutoff",
        "none",
        "--cutoff-source",
        "a script",
        "--attempts",
        "1",
    ]

    for model in ("silent", "perfect"):
        out = tmp_path / model
        words = [
            "--plugin",
            PLUGIN,
            "--model",
            f"agent/{model}",
            "--tasks",
            task,
            "--out",
            str(out),
            "--quiet",
        ]
        assert main(words) == 0
        assert (
            main(
                ["leaderboard", "submit", str(out), "--board", str(board), *who, "--plugin", PLUGIN]
            )
            == 0
        ), capsys.readouterr()

    assert main(["leaderboard", "check", str(board), "--plugin", PLUGIN]) == 0
    assert capsys.readouterr().out.count("re-executed   cards/") == 2
    assert main(["leaderboard", "build", str(board), "--out", str(tmp_path / "site")]) == 0

    rows = json.loads(
        (tmp_path / "site" / "data" / "division" / "qfinzero-planning" / "all.json").read_text()
    )["rows"]

    assert [(row["model"], row["rank"]) for row in rows if row["rank"]] == [
        ("agent/perfect", 1),
        ("agent/silent", 2),
    ]
