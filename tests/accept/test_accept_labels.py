"""Labels of InvestorBench's warm-up: what they are on the public files, and what inverted ones do to a model that learns."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ktdeval
from ktdeval.cli.main import main
from ktdeval.harness import shown_state, table_rows
from ktdeval.runner.store import RunFolder
from ktdeval.stats import mean_with_interval

SYMBOLS = ("msft", "jnj", "uvv", "hon")


def cards(tasks: str, out: Path, **more: Any) -> list[Any]:
    made = ktdeval.evaluate("builtin/recall", tasks, agent="finmem", out=str(out), quiet=True, **more)
    return [card.plain for card in made.cards]


@pytest.mark.shared_data
@pytest.mark.parametrize(("symbol", "first", "last"), [("msft", "2020-07-01", "2020-10-01"), ("btc", "2023-02-11", "2023-04-05")])
def test_labels_of_the_public_files_follow_from_their_prices(
    symbol: str, first: str, last: str, shared_data: Path, tmp_path: Path
) -> None:
    folder = shared_data / "investorbench"
    assert main(["data", "import", "investorbench", "--folder", str(folder), "--out", str(tmp_path / "market")]) == 0
    days = json.loads((folder / f"{symbol}.json").read_text(encoding="utf-8"))
    path = [cells["prices"] for day, cells in sorted(days.items()) if first <= day <= last and cells["prices"] is not None]
    rises = ["BUY" if after > before else "SELL" if after < before else "HOLD" for before, after in itertools.pairwise(path)]
    tasks = f"investorbench_{symbol},investorbench_{symbol}_inverted_labels"
    cards(tasks, tmp_path / "run", data=str(tmp_path / "market"), limit=1)
    assert main(["card", "verify", str(tmp_path / "run")]) == 0
    run = RunFolder.load(tmp_path / "run")
    for spec in run.manifest.specs:
        asked = [exchange["sent"][-1]["content"] for exchange in run.load_transcript(spec)[0].exchanges[:-1]]  # type: ignore[index,call-overload]
        labels = [row["label"] for text in asked for row in table_rows(shown_state(text)["outcomes"])]
        if spec.task.endswith("inverted_labels"):  # the public code: every BUY falls on a day before a fall
            print(symbol, f"{labels.count('BUY')} of {rises.count('SELL')} days before a fall called for BUY")
            assert labels == [{"BUY": "SELL", "SELL": "BUY"}.get(label, label) for label in rises]
        else:
            assert labels == rises


def test_a_model_that_learns_earns_by_right_labels_and_loses_by_inverted_ones(tmp_path: Path) -> None:
    names = [f"investorbench_{symbol}{labels}" for symbol in SYMBOLS for labels in ("", "_inverted_labels")]
    intervals = {}
    for effect in (2.0, 0.0):
        found = []
        for seed in range(2):
            data = {"data": "synthetic_investorbench", "data_args": {"seed": seed, "effect": effect}}
            made = cards(",".join(names), tmp_path / f"{effect}-{seed}", limit=80, **data)
            by_name = {card["task"]["name"]: card["metrics"]["ib_cumulative_return"]["value"] for card in made}
            found += [by_name[f"investorbench_{symbol}"] - by_name[f"investorbench_{symbol}_inverted_labels"] for symbol in SYMBOLS]
        mean = mean_with_interval(np.array(found))
        intervals[effect] = (mean.detail["low"], mean.detail["high"])
        print(f"news effect {effect}: right less inverted {mean.value:+.3f}, 95 % {intervals[effect]}, n = {mean.n}")
    assert intervals[2.0][0] > 0
    assert intervals[0.0][0] < 0 < intervals[0.0][1]  # news that say nothing teach nothing
