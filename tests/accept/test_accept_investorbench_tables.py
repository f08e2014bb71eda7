"""InvestorBench's signed-rank tests from real runs: two keyless models, three epochs, two assets; rewards from ledgers again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from ktdeval.cli.main import main
from ktdeval.runner.store import RunFolder
from ktdeval_investorbench.params import TwinParams
from ktdeval_investorbench.twin import make_twin

TASKS = {"investorbench_msft": "MSFT", "investorbench_btc": "BTC"}
MODELS = {"builtin/buy_and_hold": 1, "builtin/random": 3, "builtin/chaos": 3}
SHORTS = ["--model-args", "sell_probability=0.4,short_probability=0.5,largest_weight=1.0"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    for model, seeds in MODELS.items():
        words = ["--model", model, "--tasks", ",".join(TASKS), "--seeds", str(seeds), "--out", str(folder / model[8:])]
        words += SHORTS if model == "builtin/random" else []
        words += ["--data", "synthetic_investorbench", "--rules", "paper", "--quiet"]
        assert main(words) == 0
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def rewards(runs: list[Path]) -> pd.DataFrame:
    """Daily rewards of the epoch of the median Sharpe ratio (numbers of epochs are odd) by task and model, from ledgers and the
    market's closes.
    """
    market, rows = make_twin(TwinParams()), []
    for run in runs:
        store = RunFolder.load(run)
        for spec in store.manifest.specs:
            steps = store.load_ledger(spec).steps
            first = market.day_index(steps[0].decided_on)
            closes = market.close[first : first + len(steps) + 1, market.asset_index[TASKS[spec.task]]]
            sides = [np.sign(sum(position.shares for position in step.positions)) for step in steps]
            found = np.array(sides) * np.diff(np.log(closes))
            rows.append([spec.task, spec.model, found.mean() / found.std(ddof=1), found])
    table = pd.DataFrame(rows, columns=["task", "model", "sharpe", "rewards"])
    by_system = table.groupby(["task", "model"]).sharpe
    return table[by_system.rank(method="first") == (by_system.transform("size") + 1) / 2].set_index(["task", "model"])


def test_signed_rank_tests_are_those_of_the_ledgers(
    runs: list[Path], rewards: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["investorbench", "table", *map(str, runs), "--format", "json", "--show", "tests"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == len(TASKS) * 3
    for row in rows:
        one, two = (rewards.loc[row["task"], row[place]].rewards for place in ("first", "second"))
        differing = (one - two)[one != two]
        p = scipy_stats.wilcoxon(differing, mode="exact").pvalue
        assert (row["days"], row["differing"]) == (len(one), len(differing))
        assert row["p"] == pytest.approx(p, rel=0.02, abs=1e-4)  # ties have exact ranks here, and none in scipy
        assert row["cumulative"] == pytest.approx(one.sum() - two.sum(), abs=1e-9)
    adjusted = sorted(row["p"] for row in rows)
    steps = np.minimum(1.0, np.maximum.accumulate([(len(rows) - place) * p for place, p in enumerate(adjusted)]))
    assert sorted(row["p_holm"] for row in rows) == pytest.approx(list(steps))
