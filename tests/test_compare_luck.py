"""`ktdeval luck`: trials are counted from run folders, and ranks and exposures come from the cards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktdeval.cli.main import main
from ktdeval.runner.store import RunFolder
from ktdeval.stats.luck import deflated_sharpe_ratio, sharpe_shape

MODELS = ("random", "momentum", "low_volatility")
WINDOWS = ("W5", "W9")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models over two windows, and one run of the first window alone that was cut short."""
    folder = tmp_path_factory.mktemp("luck")
    common = ["--tasks", "blinded_open_research", "--quiet"]
    for model in MODELS:
        words = ["--model", f"builtin/{model}", "--windows", ",".join(WINDOWS), "--out", str(folder / model), *common]
        assert main(words) == 0
    assert main(["--model", "builtin/hold", "--windows", "W5", "--limit", "3", "--out", str(folder / "cut"), *common]) == 0
    return folder


def report(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    capsys.readouterr()
    assert main(["luck", *words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_every_planned_episode_of_a_window_counts_as_a_trial(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cards = [str(runs / model) for model in MODELS]
    alone = report(capsys, cards[0])
    assert [row["trials"] for row in alone["cards"]] == [[1, 1]]
    among = report(capsys, *cards, "--runs", str(runs))
    assert {tuple(row["trials"]) for row in among["cards"]} == {(3, 4)}  # the cut run of W5 was a chance too


def test_the_deflated_sharpe_ratio_is_that_of_the_library_on_the_ledgers(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, *(str(runs / model) for model in MODELS))
    folders = [RunFolder.load(runs / model) for model in MODELS]
    expected = []
    for place in range(len(WINDOWS)):
        ledgers = [folder.load_ledger(folder.manifest.specs[place]) for folder in folders]
        shapes = [shape.sharpe for ledger in ledgers if (shape := sharpe_shape(ledger)) is not None]
        expected.append(deflated_sharpe_ratio(ledgers[0].returns, shapes, len(ledgers)).value)
    assert found["cards"][0]["dsr"] == pytest.approx(sum(expected) / 2, rel=1e-12)
    assert found["cards"][0]["dsr"] < found["cards"][0]["psr"]


def test_ranks_and_exposures_are_those_of_the_cards(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, *(str(runs / model) for model in MODELS))
    rows = {row["card"]: row for row in found["cards"]}
    for key, rank in (("return", "return_rank"), ("selection", "selection_rank")):
        assert sorted(rows, key=lambda name: -rows[name][key]) == sorted(rows, key=lambda name: rows[name][rank])
    momentum = next(row for row in found["exposures"] if row["factor"] == "MOM_12_1")["cards"]
    assert momentum["builtin/momentum"] > 1.0 > momentum["builtin/random"]
    assert main(["luck", str(runs / "momentum")]) == 0
    assert "fewer than two models" in capsys.readouterr().out


def test_a_folder_without_runs_is_one_line(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["luck", str(runs / "momentum"), "--runs", str(tmp_path)]) == 2
    assert "no run here" in capsys.readouterr().err
