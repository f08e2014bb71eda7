"""InvestorBench's tables from real runs: two keyless models, three epochs, two assets; each figure from ledgers again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from ktdeval.cli.main import main
from ktdeval.runner.store import RunFolder
from ktdeval_investorbench.params import TwinParams
from ktdeval_investorbench.twin import make_twin

FIGURES = ["ib_cumulative_return", "ib_sharpe", "ib_volatility", "ib_max_drawdown"]
TASKS = {"investorbench_msft": ("MSFT", 252), "investorbench_btc": ("BTC", 365)}
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
def epochs(runs: list[Path]) -> pd.DataFrame:
    """One row an epoch with its figures, days decided by the model, and daily rewards, from ledgers and the market's closes."""
    market, rows = make_twin(TwinParams()), []
    for run in runs:
        store = RunFolder.load(run)
        for spec in store.manifest.specs:
            code, year = TASKS[spec.task]
            steps = store.load_ledger(spec).steps
            first = market.day_index(steps[0].decided_on)
            closes = market.close[first : first + len(steps) + 1, market.asset_index[code]]
            sides = [np.sign(sum(position.shares for position in step.positions)) for step in steps]
            rewards = np.array(sides) * np.diff(np.log(closes))
            volatility = rewards.std(ddof=1) * math.sqrt(year)
            path = np.concatenate([[1.0], np.cumprod(1 + rewards)])
            figures = [rewards.sum(), rewards.sum() / (len(closes) / 252) / volatility, volatility]
            figures.append((1 - path / np.maximum.accumulate(path)).max())
            own = sum(step.provenance in ("model", "model_after_retry") for step in steps)
            rows.append([spec.task, spec.model, spec.seed, *figures, own, len(steps), rewards])
    return pd.DataFrame(rows, columns=["task", "model", "seed", *FIGURES, "own", "decisions", "rewards"])


@pytest.fixture
def report(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def made(*words: str) -> Any:
        assert main(["investorbench", "table", *map(str, runs), "--format", "json", *words]) == 0
        return json.loads(capsys.readouterr().out)

    return made


def chosen(epochs: pd.DataFrame) -> pd.DataFrame:
    """Epoch of the median Sharpe ratio of each task and model (odd numbers of epochs)."""
    ranks = epochs.groupby(["task", "model"]).ib_sharpe.rank(method="first")
    counts = epochs.groupby(["task", "model"]).ib_sharpe.transform("size")
    return epochs[ranks == (counts + 1) / 2].set_index(["task", "model"])


def test_trajectories_and_medians_are_those_of_the_ledgers(epochs: pd.DataFrame, report: Callable[..., Any]) -> None:
    expected, rows = chosen(epochs), report()["rows"]
    assert len(rows) == len(TASKS) * len(MODELS)
    for row in rows:
        own = expected.loc[row["task"], row["model"]]
        assert row["seeds"] == [own.seed]
        assert [row[name] for name in FIGURES] == pytest.approx([own[name] for name in FIGURES], rel=1e-9)
        assert (row["own"], row["decisions"], row["epochs"]) == (own.own, own.decisions, MODELS[row["model"]])
    assert all((row["own"] < row["decisions"]) == (row["model"] == "builtin/chaos") for row in rows)
    medians = epochs.groupby(["task", "model"])[[*FIGURES, "own"]].agg({**dict.fromkeys(FIGURES, "median"), "own": "sum"})
    for row in report("--median", "figures")["rows"]:
        assert [row[name] for name in FIGURES] == pytest.approx(list(medians.loc[row["task"], row["model"]][FIGURES]), rel=1e-9)
        assert row["own"] == medians.loc[row["task"], row["model"]].own


def test_classes_and_tests_are_those_of_the_ledgers(epochs: pd.DataFrame, report: Callable[..., Any]) -> None:
    expected = chosen(epochs)
    means = expected[FIGURES].astype(float).groupby("model").mean()
    found = report("--show", "types", "--class", "builtin/random=open_source:7", "--class", "builtin/chaos=proprietary")["rows"]
    for row, model in zip(found, ("builtin/chaos", "builtin/random"), strict=True):
        percentages = 100 * means.loc[model] / means.loc["builtin/buy_and_hold"]
        for name in FIGURES:
            hold = means.loc["builtin/buy_and_hold"][name]
            assert row[name] == (pytest.approx(percentages[name], rel=1e-9) if hold > 0.001 else None)
    rows = report("--show", "tests")["rows"]
    assert len(rows) == len(TASKS) * 3
    for row in rows:
        one, two = (expected.loc[row["task"], row[place]].rewards for place in ("first", "second"))
        differing = (one - two)[one != two]
        p = scipy_stats.wilcoxon(differing, mode="exact").pvalue
        assert (row["days"], row["differing"]) == (len(one), len(differing))
        assert row["p"] == pytest.approx(p, rel=0.02, abs=1e-4)  # ties have exact ranks here, and none in scipy
        assert row["cumulative"] == pytest.approx(one.sum() - two.sum(), abs=1e-9)
    adjusted = sorted(row["p"] for row in rows)
    steps = np.minimum(1.0, np.maximum.accumulate([(len(rows) - place) * p for place, p in enumerate(adjusted)]))
    assert sorted(row["p_holm"] for row in rows) == pytest.approx(list(steps))
