"""All eighteen baselines: each finds a planted signal that a control does not, sequences in their
order; on a placebo each trades and finds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval_data.placebo import PlaceboRecipe as Placebo, placebo_of
from ktdeval_qlib.fit_baseline import TrainingSettings, rank_ics, train
from ktdeval_qlib.model_files import load
from ktdeval_qlib.recipes import BaselineRecipe, HyperparameterChange, recipes
from ktdeval_qlib.samples import Scaler, arrange_sequences, sequences
from ktdeval_qlib.trained_baseline import Accuracy, read_log
from support.baselines.qlib_play import TEST, TRAIN, VALID, WINDOW, embedded, planted, reduced
from support.runs.run_support import SAME_MASK, Done, ktdeval, start
from support.tables import beside

pytest.importorskip("qlib", reason="needs the extra qlib: pip install '.[qlib]'")
pytest.importorskip("torch", reason="needs the extra qlib: pip install '.[qlib]'")

NO_MARKET: Any = SimpleNamespace(id="0" * 64)  # samples are planted, not made from a market


class Learning(NamedTuple):
    """How a baseline learns few samples in seconds: published settings are made for hundreds of
    thousands.
    """

    rounds: int | None
    lag: int = 0  # days ago whose factor tells
    changed: dict[str, float] = {}  # noqa: RUF012 - read only


LEARNING = {name: Learning(**given) for name, given in beside(__file__)["learning"].items()}
FEW_IN_A_MILLION = 4.5  # standard errors: eighteen models are looked at
SHORT = ("2023-09-15:2023-10-31", "2023-11-15:2023-12-29", "2024-01-02:2024-02-08")
SLOW = ("transformer", "localformer", "sfm", "add", "adarnn", "tcn")

#: Those that learn the planted signal in a few seconds; the others are exhaustive
QUICK = ("linear", "lightgbm", "mlp", "lstm")


def but_for(costly: Collection[str]) -> list[Any]:
    """All models, of which the costly ones are exhaustive."""
    return [
        pytest.param(name, marks=[pytest.mark.exhaustive] if name in costly else [])
        for name in LEARNING
    ]


def quick(name: str) -> BaselineRecipe:
    recipe = recipes()[name]
    given = {
        field: type(recipe.parameters[field])(value)
        for field, value in LEARNING[name].changed.items()
    }
    changed = {
        field: HyperparameterChange(value=value, why="few samples")
        for field, value in given.items()
    }

    return replace(recipe, changed={**recipe.changed, **changed})


@pytest.mark.parametrize("name", but_for(set(LEARNING) - set(QUICK)))
def test_a_planted_signal_is_found_and_shuffled_labels_and_days_are_not(
    name: str, tmp_path: Path
) -> None:
    learning = LEARNING[name]
    recipe = quick(name)
    samples = planted(lag=learning.lag, strength=0.9, names=16 if name in SLOW else 30)
    found: list[Accuracy] = []

    for shuffled in (False, True):
        settings = TrainingSettings(rounds=learning.rounds, shuffled=shuffled)
        _, log = train(recipe, NO_MARKET, samples, settings, tmp_path / f"{shuffled}")
        found.append(log.accuracy["test"])

    signal, control = found

    assert signal.low > 0.05
    # None: one constant prediction for all
    assert control.high is None or signal.low > control.high, (signal, control)

    if recipe.layout == "flat":
        return

    predictor = load(recipe, tmp_path / "False")
    rows = samples.rows("test")
    looked_at = sequences(Scaler.fit(samples).apply(samples.features), recipe.layout, recipe.days)[
        rows
    ]
    rng = np.random.default_rng(7)
    ics = []

    for order in (range(recipe.days)[::-1], *(rng.permutation(recipe.days) for _ in range(4))):
        shown = looked_at[..., list(order)].reshape(-1, *looked_at.shape[2:])
        scores = predictor.predict(arrange_sequences(shown, recipe.layout)).reshape(
            looked_at.shape[:2]
        )
        ics.append(rank_ics(scores, samples.labels[rows]).mean())

    assert math.fsum(ics) / len(ics) < signal.low, (signal, ics)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A placebo of the reduced market: traded as any, with nothing to predict but its styles, which
    pay nothing here.
    """
    folder = tmp_path_factory.mktemp("reduced") / "data"
    save_snapshot(placebo_of(reduced(embedded()), Placebo("sign_flip", 3, 1)), folder)

    return folder


@pytest.mark.parametrize("name", but_for(SLOW))
def test_training_on_a_placebo_predicts_nothing_but_trades_and_verifies(
    name: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = zip(("--train", "--valid", "--test"), SHORT if name in SLOW else (TRAIN, VALID, TEST))
    days = list(chain.from_iterable(parts))
    rounds = () if name == "linear" else ("--rounds", 1 if name in SLOW else 2)
    done = ktdeval(
        "train",
        f"qlib/{name}",
        "--data",
        data,
        *days,
        *rounds,
        "--out",
        tmp_path / "models",
        cwd=tmp_path,
    )

    assert done.code == 0, done

    found = read_log(tmp_path / f"models/{name}/seed-0").accuracy["test"]

    if found.rank_ic is not None:  # one constant prediction for all has none
        assert abs(found.rank_ic) < FEW_IN_A_MILLION * (found.high - found.rank_ic) / 1.96, found

    how = (
        "--data",
        data,
        "--windows",
        WINDOW,
        "--limit",
        3,
        *SAME_MASK,
        "--model-args",
        f"trained={tmp_path / 'models'}",
    )
    done = ktdeval(
        "--model",
        f"qlib/{name}",
        "--tasks",
        "blinded_open_research",
        *how,
        "--out",
        tmp_path / "run",
        cwd=tmp_path,
    )

    assert done.code == 0, done

    verified = verify_without_libraries(tmp_path / "run", tmp_path, monkeypatch)
    assert verified.code == 0, verified
    assert "0 with differences" in verified.out or "verified" in verified.out, verified.out


def verify_without_libraries(run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Done:
    """`ktdeval card verify` in a process that has no library of models yet and can import none."""
    absent = folder / "absent"
    absent.mkdir()

    for library in ("torch", "qlib", "lightgbm", "xgboost", "catboost", "safetensors"):
        (absent / f"{library}.py").write_text("raise ImportError('not on this machine')\n")

    monkeypatch.syspath_prepend(absent)  # which a process that is started takes over

    return start("card", "verify", run, cwd=folder).wait()
