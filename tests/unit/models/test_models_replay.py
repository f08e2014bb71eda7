"""`replay/RUN` by itself, as the README has it: what its replies belong to is read off the run."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ktdeval.cli.main import main
from run_support import WINDOW


def test_a_replay_alone_takes_windows_seeds_and_limit_of_its_run(market: Path, tmp_path: Path) -> None:
    words = ["--tasks", "blinded_open_research", "--quiet", "--data", str(market)]
    first, again = tmp_path / "first", tmp_path / "again"
    how = ["--windows", WINDOW, "--seed", "3", "--limit", "2"]
    assert main(["--model", "builtin/momentum", *words, *how, "--out", str(first)]) == 0
    assert main(["--model", f"replay/{first}", *words, "--out", str(again)]) == 0
    orders = [pq.read_table(next(run.glob("episodes/*/ledger.parquet"))).column("orders").to_pylist() for run in (first, again)]
    assert orders[0] == orders[1]
    specs = [json.loads((run / "manifest.json").read_text())["episodes"] for run in (first, again)]
    assert [[(spec["window"]["name"], spec["seed"], spec["limit"]) for spec in each] for each in specs] == [[(WINDOW, 3, 2)]] * 2


def test_a_replay_of_another_task_is_one_line(market: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--windows", WINDOW, "--limit", "1", "--quiet", "--data", str(market)]
    run = str(tmp_path / "run")
    assert main(["--model", "builtin/hold", "--tasks", "bright_open_research", *words, "--out", run]) == 0
    capsys.readouterr()
    assert main(["--model", f"replay/{run}", "--tasks", "blinded_open_research", "--out", str(tmp_path / "no")]) != 0
    assert "that run is of bright_open_research" in capsys.readouterr().err
