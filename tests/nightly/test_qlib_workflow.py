"""LightGBM and Linear against pyqlib's own workflow on the same market: predictions, rank IC,
holdings; and what they find on a planted market and on its placebos.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

pytest.importorskip("torch", reason="needs the extra qlib: pip install '.[qlib]'")
pytest.importorskip("qlib", reason="needs the extra qlib: pip install '.[qlib]'")

from qlib.contrib.eva.alpha import calc_ic
from qlib.contrib.model import gbdt, linear

from ktdeval.attribution import FACTOR_NAMES, factor_panel, fit_factors
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot, save_snapshot
from ktdeval.runner.records.ledger_file import load_ledger
from ktdeval_data.placebo import PlaceboRecipe as Placebo, placebo_of
from ktdeval_qlib.fit_baseline import TrainingSettings, predictions, rank_ics, train
from ktdeval_qlib.model_files import load
from ktdeval_qlib.recipes import recipes
from ktdeval_qlib.samples import Samples, Scaler, SegmentDays, Segments, make_samples, make_split
from ktdeval_qlib.trained_baseline import read_log
from support.baselines.qlib_data import published
from support.baselines.qlib_play import (
    TEST,
    TRAIN,
    VALID,
    WINDOW,
    embedded,
    planted_market,
    reduced,
)
from support.runs.run_support import SAME_MASK, TASK, episodes, ktdeval

NAMES = ("lightgbm", "linear")
LABEL = ("label", "LABEL0")
PLUGIN = Path(__file__).parents[1] / "support" / "baselines" / "predictor_plugin.py"

# ---- pyqlib's own workflow: raw factors and prices in, predictions out, by pyqlib's objects and
# pandas alone


class Unrecorded:
    """In the place of mlflow, to which LGBModel hands its scores."""

    def log_metrics(self, **_scores: Any) -> None:
        pass


def raw_frame(market: MarketSnapshot) -> pd.DataFrame:
    """Factors and Ref($close, -2) / Ref($close, -1) - 1 of the members of each day."""
    days = pd.DatetimeIndex(market.days, name="datetime")
    codes = pd.Index(market.codes, name="instrument")
    panel = factor_panel(market, range(len(days)))
    columns = {
        ("feature", name): pd.DataFrame(values, days, codes).stack()
        for name, values in zip(FACTOR_NAMES, panel, strict=True)
    }
    close = pd.DataFrame(market.close * market.factor, days, codes)
    columns[LABEL] = (close.shift(-2) / close.shift(-1) - 1).stack()
    members = pd.DataFrame(market.member, days, codes).stack()

    return pd.DataFrame(columns, index=members.index[members])


def segments(frame: pd.DataFrame) -> dict[str, tuple[pd.Timestamp, pd.Timestamp]]:
    """Days of training and validation without their last two, whose labels read prices of the next
    segment; of test all; and `traded`, the test days and the day before them, on whose close the
    first decision is made.
    """
    days = frame.index.unique("datetime")
    found = {}

    for name, words, purged in (("train", TRAIN, 2), ("valid", VALID, 2), ("test", TEST, 0)):
        inside = days[days.slice_indexer(*words.split(":"))]
        found[name] = (inside[0], inside[-1 - purged])

    found["traded"] = (days[days < found["test"][0]][-1], found["test"][1])

    return found


def qlibs_own(
    name: str, market: MarketSnapshot, monkeypatch: pytest.MonkeyPatch
) -> tuple[pd.Series, pd.DataFrame]:
    """Predictions of the days that are traded as the published configuration makes them, with our
    seed and one thread; the raw frame.
    """
    monkeypatch.setattr(gbdt, "R", Unrecorded())
    frame = raw_frame(market)
    parts = segments(frame)
    dataset = published(frame, parts, {"lightgbm": "CSZScoreNorm", "linear": "CSRankNorm"}[name])

    if name == "linear":
        model: Any = linear.LinearModel(estimator="ols")
    else:  # workflow_config_lightgbm_Alpha158.yaml
        model = gbdt.LGBModel(
            loss="mse",
            colsample_bytree=0.8879,
            learning_rate=0.2,
            subsample=0.8789,
            lambda_l1=205.6999,
            lambda_l2=580.9768,
            max_depth=8,
            num_leaves=210,
            num_threads=1,
            seed=0,
            deterministic=True,
            force_row_wise=True,
        )

    model.fit(dataset)

    return model.predict(dataset, "traded"), frame


# ---- ours


def wanted() -> Segments:
    return Segments(*(SegmentDays(*days.split(":")) for days in (TRAIN, VALID, TEST)))


def predicted(name: str, samples: Samples, folder: Path) -> FloatArray:
    """[T, N] predictions of the test days by a stored training."""
    return predictions(
        load(recipes()[name], folder), samples, Scaler.fit(samples), recipes()[name], "test"
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the planted market as `data`, and both models trained on it in `models`."""
    folder = tmp_path_factory.mktemp("workflow")
    save_snapshot(planted_market(), folder / "data")
    market = load_snapshot(folder / "data")
    samples = make_samples(market, make_split(market, wanted()))

    for name in NAMES:
        train(
            recipes()[name],
            market,
            samples,
            TrainingSettings(),
            folder / "models" / name / "seed-0",
        )

    return folder


@pytest.mark.parametrize("name", NAMES)
def test_predictions_and_rank_ic_are_those_of_pyqlibs_own_workflow(
    name: str, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    market = load_snapshot(stored / "data")
    theirs, frame = qlibs_own(name, market, monkeypatch)
    samples = make_samples(market, make_split(market, wanted()))
    ours = predicted(name, samples, stored / "models" / name / "seed-0")
    accuracy = read_log(stored / "models" / name / "seed-0").accuracy["test"]
    expected = (
        theirs.unstack().loc[samples.days[samples.rows("test")], list(market.codes)].to_numpy()
    )
    known = np.isfinite(ours)
    np.testing.assert_array_equal(
        known, frame[LABEL].unstack().loc[TEST.split(":")[0] : TEST.split(":")[1]].notna()
    )

    assert expected.std() > 0.01

    np.testing.assert_allclose(ours[known], expected[known], rtol=1e-6, atol=1e-12)
    of_test = theirs.loc[TEST.split(":")[0] :]
    _, rank_ic = calc_ic(of_test, frame[LABEL].reindex(of_test.index), dropna=True)

    assert accuracy.days == len(rank_ic) == len(ours)
    assert accuracy.rank_ic == pytest.approx(rank_ic.mean(), abs=1e-6)
    assert rank_ic.mean() > 0.1  # so that it is not one nothing that equals another


@pytest.mark.parametrize("name", NAMES)
def test_holdings_equal_the_same_trading_fed_with_pyqlib_predictions(
    name: str, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, frame = qlibs_own(name, load_snapshot(stored / "data"), monkeypatch)
    shown = frame["feature"].loc[theirs.index].dropna(how="all")
    np.savez(
        tmp_path / "table.npz", factors=shown.to_numpy(), scores=theirs.loc[shown.index].to_numpy()
    )
    how = ("--tasks", TASK, "--data", stored / "data", "--windows", WINDOW, *SAME_MASK)
    runs = {
        "ours": ("--model", f"qlib/{name}", "--model-args", f"trained={stored / 'models'}"),
        "theirs": (
            "--model",
            "test/lookup",
            "--plugin",
            PLUGIN,
            "--model-args",
            f"table={tmp_path / 'table.npz'}",
        ),
    }
    held = []

    for out, words in runs.items():
        done = ktdeval(*words, *how, "--out", tmp_path / out, cwd=tmp_path)
        assert done.code == 0, done
        (episode,) = episodes(tmp_path / out)
        held.append(
            {
                step.filled_on: step.positions
                for step in load_ledger(episode / "ledger.parquet").steps
            }
        )

    assert held[0] == held[1]
    assert len(held[0]) > 15
    assert len(set(map(str, held[0].values()))) > 10  # they are traded
    assert min(map(len, held[0].values())) > 10


# ---- planted markets and placebos

Interval = tuple[float, float]


def rank_ic_of(name: str, market: MarketSnapshot, folder: Path) -> tuple[FloatArray, FloatArray]:
    """Rank ICs of the test days, of returns and of selection: what attribution leaves of the return
    of the label's day.
    """
    samples = make_samples(market, make_split(market, wanted()))
    train(recipes()[name], market, samples, TrainingSettings(), folder)
    scores = predicted(name, samples, folder)
    rows = samples.rows("test")
    fit = fit_factors(
        market, samples.first + rows.start + 2, samples.first + rows.stop + 1, "paper"
    )

    return rank_ics(scores, samples.labels[rows]), rank_ics(
        scores, np.where(fit.has_return, fit.residuals, np.nan)
    )


def interval(values: FloatArray) -> Interval:
    """95 % interval of the mean of independent values."""
    found = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    return float(found.low), float(found.high)


def over_placebos(
    name: str, markets: list[MarketSnapshot], folder: Path
) -> tuple[Interval, Interval]:
    """Intervals over placebos of the mean rank IC of returns and of selection."""
    found = []
    for seed, market in enumerate(markets):
        found.append([ic.mean() for ic in rank_ic_of(name, market, folder / str(seed))])

    returns, selection = np.array(found).T

    return interval(returns), interval(selection)


@pytest.fixture(scope="module")
def placebos() -> list[MarketSnapshot]:
    """Of the embedded market's members: with fewer names LightGBM's published regularisation lets
    no tree grow.
    """
    source = reduced(embedded(), names=300)
    return [placebo_of(source, Placebo("sign_flip", seed, 1)) for seed in range(8)]


@pytest.fixture(scope="module")
def placebos_of_planted() -> list[MarketSnapshot]:
    source = planted_market()
    return [placebo_of(source, Placebo("sign_flip", seed, 1)) for seed in range(16)]


@pytest.mark.parametrize("name", NAMES)
def test_rank_ic_covers_zero_on_placebos_and_not_on_a_planted_market(
    name: str, placebos: list[MarketSnapshot], tmp_path: Path
) -> None:
    low, high = over_placebos(name, placebos, tmp_path)[0]
    assert low < 0.0 < high
    assert high - low < 0.03
    assert interval(rank_ic_of(name, planted_market(), tmp_path / "planted")[0])[0] > max(
        0.05, high
    )


@pytest.mark.parametrize("name", NAMES)
def test_placebo_of_the_planted_market_keeps_style_but_no_selection(
    name: str, placebos_of_planted: list[MarketSnapshot], tmp_path: Path
) -> None:
    """docs/synthetic-market.md: styles pay what they paid, so that IC of returns stays. The hump, which only
    trees see, is gone.
    """
    returns, selection = over_placebos(name, placebos_of_planted, tmp_path)

    assert returns[0] > 0.1
    assert selection[0] < 0.0 < selection[1]

    if name == "lightgbm":
        assert interval(rank_ic_of(name, planted_market(), tmp_path / "planted")[1])[0] > max(
            0.05, selection[1]
        )
