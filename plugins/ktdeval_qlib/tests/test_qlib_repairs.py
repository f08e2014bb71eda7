"""Fixes for pyqlib's models. Each test shows that pyqlib's own class fails or computes something
else, and that the fixed class does not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("qlib")

import torch
from qlib.contrib.model import catboost_model, pytorch_nn
from qlib.contrib.model.gbdt import LGBModel
from qlib.contrib.model.pytorch_adarnn import ADARNN
from qlib.contrib.model.pytorch_add import ADD
from qlib.contrib.model.pytorch_krnn import KRNN
from qlib.contrib.model.pytorch_lstm_ts import LSTM
from qlib.contrib.model.pytorch_sandwich import Sandwich
from qlib.contrib.model.pytorch_sfm import SFM
from qlib.contrib.model.pytorch_tabnet import TabnetModel
from qlib.contrib.model.pytorch_tcn_ts import TCN

from ktdeval.errors import DataError, UsageError
from ktdeval.testing import not_empty
from ktdeval_qlib.recipes import Estimator, recipes
from support.baselines.qlib_data import ROUNDS, dataset, samples, small, trained

NETWORKS = [
    name
    for name, recipe in recipes().items()
    if recipe.layout != "flat" or name in ("mlp", "tabnet")
]
UNROLLED = [name for name, recipe in recipes().items() if recipe.layout == "unrolled"]


def untrained(name, **changed):
    """Return the fixed pyqlib object of a recipe before training."""
    estimator = Estimator(recipes()[name], seed=0, rounds=1)
    estimator._parameters |= changed
    return estimator.build()


def outputs():
    """Return the two places where pyqlib's models record their scores and keep their best
    weights.
    """
    return {"evals_result": {}, "save_path": os.devnull}


# --- all eighteen


@pytest.mark.parametrize("name", recipes())
def test_training_with_one_seed_is_byte_reproducible_and_leaves_no_files(
    name, tmp_path, monkeypatch
):
    home = tmp_path / "home"
    work = tmp_path / "work"
    for folder in (home, work):
        folder.mkdir()

    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    first = trained(name)
    np.random.seed(77)  # noqa: NPY002 - the caller's generators, which must go on as if nothing had been trained
    torch.manual_seed(77)
    drawn = np.random.random(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(77)  # noqa: NPY002
    torch.manual_seed(77)
    threads = torch.get_num_threads()

    second = Estimator(recipes()[name], seed=3, rounds=ROUNDS.get(name, 1))
    second.fit(small(second.recipe.layout))
    predicted = second.predict(small(second.recipe.layout))

    pd.testing.assert_series_equal(
        predicted, first.predict(small(first.recipe.layout)), check_exact=True
    )

    assert np.isfinite(predicted).all()
    assert predicted.index.is_monotonic_increasing
    assert (np.random.random(), torch.rand(1).item()) == drawn  # noqa: NPY002
    assert torch.get_num_threads() == threads
    assert [*work.iterdir(), *home.iterdir()] == []
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


@pytest.mark.parametrize("name", ["doubleensemble", "mlp", "gru", "krnn"])
def test_another_seed_predicts_something_else(name):
    layout = recipes()[name].layout
    assert (
        trained(name, seed=4).predict(small(layout)) != trained(name).predict(small(layout))
    ).any()


@pytest.mark.parametrize("name", recipes())
def test_any_segment_is_predicted(name):
    layout = recipes()[name].layout
    predicted = trained(name).predict(small(layout), "valid")
    assert set(predicted.index) == set(samples(layout, "valid")[1])


@pytest.mark.parametrize("name", ["lightgbm", "mlp", "lstm", "tabnet", "add", "adarnn"])
def test_progress_counts_the_rounds_that_are_scored(name):
    estimator = Estimator(recipes()[name], seed=0, rounds={"lightgbm": 4, "mlp": 60}.get(name, 2))
    seen: list[tuple[int, int]] = []
    estimator.fit(small(estimator.recipe.layout), lambda done, most: seen.append((done, most)))
    most = estimator.max_rounds

    assert seen == [
        (done, most) for done in ((20, 40, 60) if name == "mlp" else range(1, most + 1))
    ]
    assert [len(series) for series in estimator.scores.values()] == [len(seen)] * 2


def test_a_missing_fit_and_a_missing_gpu_are_one_line():
    with pytest.raises(UsageError, match="qlib/gru is not trained"):
        Estimator(recipes()["gru"], seed=0).predict(None)

    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="qlib/gru: torch finds no CUDA device"):
            Estimator(recipes()["gru"], seed=0, device="cuda")


def test_validation_without_a_finite_score_is_an_error_of_the_data():
    data = small("unrolled")
    data.handler._learn.loc[data.segments["valid"][0] :, "feature"] = np.nan
    with pytest.raises(DataError, match="qlib/krnn: no round had a finite validation score"):
        Estimator(recipes()["krnn"], seed=0, rounds=1).fit(data)


# --- batches


def test_pyqlib_training_fails_with_fewer_validation_rows_than_a_batch():
    with pytest.raises(UnboundLocalError, match="best_param"):
        LSTM(d_feat=9, n_epochs=1, n_jobs=0, GPU=-1).fit(small("window"), **outputs())

    assert np.isfinite(trained("lstm").scores["valid"]).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_fewer_training_rows_than_a_batch_are_trained_on(name):
    estimator = trained(name)
    before = {
        key: value.clone()
        for key, value in Estimator(estimator.recipe, seed=3).build().module.state_dict().items()
    }
    after = estimator.model.module.state_dict()
    moved = [
        key
        for key in before
        if not torch.equal(before[key], after[f"model.{key}" if name == "tabnet" else key])
    ]

    assert any(key.endswith(("weight", "weight_v", "W_i", "weight_hh_l0")) for key in moved)


@pytest.mark.parametrize("batch", [7, 100, 10_000])
@pytest.mark.parametrize("name", ["alstm", "transformer", "tabnet", "krnn"])
def test_scores_are_means_over_all_rows_for_any_batch_size(name, batch):
    """loss = mean over rows of (score − label)², by hand."""
    model = trained(name).model
    layout = recipes()[name].layout
    features, index = samples(layout, "valid")
    data = small(layout)
    labels = data.prepare("valid", col_set=["feature", "label"], data_key="learn")

    if layout == "window":
        labels.config(fillna_type="ffill+bfill")
        truth = np.array([labels[row][-1, -1] for row in range(len(labels))])
        arguments = (torch.utils.data.DataLoader(labels),)
        if name == "alstm":
            weighted = [(labels[row], 1.0) for row in range(len(labels))]
            arguments = (torch.utils.data.DataLoader(weighted),)
    else:
        truth = labels["label"].to_numpy().reshape(-1)
        arguments = (labels["feature"], labels["label"])

    model.module.eval()
    with torch.no_grad():
        expected = float(
            ((model.scores(torch.from_numpy(features).float()).numpy() - truth) ** 2).mean()
        )

    whole, model.batch_size = model.batch_size, batch
    try:
        loss, score = model.test_epoch(*arguments)
    finally:
        model.batch_size = whole

    assert len(index) == len(truth)
    assert loss == pytest.approx(expected, rel=1e-5)
    assert score == pytest.approx(-expected, rel=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_one_sample_has_one_score(name):
    model = trained(name).model
    features, _ = samples(recipes()[name].layout)
    model.module.eval()

    with torch.no_grad():
        assert model.scores(torch.from_numpy(features[:1]).float()).shape == (1,)


def test_one_sample_in_the_last_batch_breaks_pyqlibs_prediction():
    own = LSTM(d_feat=9, n_epochs=1, n_jobs=0, GPU=-1, batch_size=100)
    data = small("window")
    own.fitted, own.batch_size = True, len(samples("window")[0]) - 1

    with pytest.raises(ValueError, match="same number of dimensions"):
        own.predict(data)

    ours = untrained("lstm")
    ours.fitted, ours.batch_size = True, own.batch_size

    assert len(ours.predict(data)) == own.batch_size + 1


# --- trees


def test_catboost_has_no_poisson_bootstrap_on_a_cpu():
    own = catboost_model.CatBoostModel(
        loss="RMSE", bootstrap_type="Poisson", subsample=0.8789, allow_writing_files=False
    )

    with pytest.raises(Exception, match="poisson bootstrap is not supported on CPU"):
        own.fit(small("flat"), num_boost_round=2, verbose_eval=False)

    assert trained("catboost").model._params["bootstrap_type"] == "Bernoulli"
    assert trained("catboost").model._params["subsample"] == 0.8789

    from ktdeval_qlib.pyqlib_fixes import CatBoost

    assert (
        CatBoost(device="cuda", **recipes()["catboost"].published)._params["bootstrap_type"]
        == "Poisson"
    )


def test_catboost_stays_on_the_cpu_of_a_machine_with_a_gpu(monkeypatch):
    monkeypatch.setattr(catboost_model, "get_gpu_device_count", lambda: 1)
    estimator = Estimator(recipes()["catboost"], seed=0, rounds=2)
    estimator.fit(small("flat"))

    assert estimator.model._params["task_type"] == "CPU"
    assert catboost_model.get_gpu_device_count() == 1


def test_lightgbm_needs_no_recorder():
    with pytest.raises(AttributeError, match=r"qlib.init"):
        LGBModel(num_boost_round=2).fit(small("flat"))

    assert len(trained("lightgbm").scores["train"]) == ROUNDS["lightgbm"]


def test_lightgbm_prints_nothing(capfd):
    for name in ("lightgbm", "doubleensemble", "xgboost", "catboost"):
        Estimator(recipes()[name], seed=0, rounds=3).fit(small("flat"))

    assert capfd.readouterr().out == ""


def test_columns_of_double_ensemble_lie_in_the_order_of_the_dataset():
    columns = list(small("flat").prepare("train", col_set="feature").columns)
    for chosen in not_empty(trained("doubleensemble").model.sub_features):
        assert sorted(chosen, key=columns.index) == list(chosen)


@pytest.mark.exhaustive
def test_double_ensemble_does_not_depend_on_the_hash_seed_of_the_process():
    code = """
import logging, warnings; warnings.simplefilter("ignore"); logging.disable()
import numpy as np
from qlib.contrib.model.double_ensemble import DEnsembleModel
from support.baselines.qlib_data import small, trained
from ktdeval_qlib.recipes import recipes
settings = recipes()["doubleensemble"].published | {"epochs": 5, "num_threads": 1}
np.random.seed(3)
own = DEnsembleModel(**settings); own.fit(small("flat"))
print([list(chosen) for chosen in own.sub_features], "|", trained("doubleensemble").predict(small("flat")).tolist())
"""
    outputs = []

    for seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        run = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        outputs.append(run.stdout.strip().splitlines()[-1].split("|"))

    assert len({own for own, _ in outputs}) > 1
    assert len({ours for _, ours in outputs}) == 1


# --- MLP


def test_mlp_is_made_with_any_version_of_torch(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.10.0")  # compared as text, this is below "2.6.0"
    with pytest.raises(TypeError, match="verbose"):
        pytorch_nn.DNNModelPytorch(optimizer="adam", pt_model_kwargs={"input_dim": 9}, GPU=-1)

    scheduler = untrained("mlp").scheduler

    assert (scheduler.factor, scheduler.patience, scheduler.threshold, scheduler.min_lrs) == (
        0.5,
        10,
        0.0001,
        [0.00001],
    )


def test_mlp_starts_no_debugger_where_days_have_few_names(monkeypatch):
    def stop():
        raise RuntimeError("debugger")

    monkeypatch.setitem(sys.modules, "ipdb", types.SimpleNamespace(set_trace=stop))
    index = pd.MultiIndex.from_product([pd.bdate_range("2020-01-01", periods=2), list("abc")])
    scores = torch.tensor([1.0, 2, 3, 1, 2, 3])
    labels = torch.tensor([1.0, 2, 3, 3, 1, 2])

    with pytest.raises(RuntimeError, match="debugger"):
        pytorch_nn.DNNModelPytorch.get_metric(None, scores, labels, index)

    assert untrained("mlp").get_metric(scores, labels, index).item() == pytest.approx((1 - 0.5) / 2)


def test_mlps_metric_is_pyqlibs_where_days_have_enough_names():
    rng = np.random.default_rng(5)
    index = pd.MultiIndex.from_product([pd.bdate_range("2020-01-01", periods=4), range(60)])
    scores, labels = (torch.from_numpy(rng.standard_normal(240)) for _ in range(2))
    ours = untrained("mlp").get_metric(scores, labels, index).item()
    own = pytorch_nn.DNNModelPytorch.get_metric(None, scores, labels, index).item()

    # pyqlib divides a sum over 60 by a standard deviation over 59
    assert ours == pytest.approx(own * 60 / 59)


# --- networks on windows and sequences


def test_tcn_predicts_from_the_axes_that_it_was_trained_on():
    own = TCN(
        d_feat=9,
        num_layers=2,
        n_chans=8,
        kernel_size=3,
        n_epochs=1,
        batch_size=100,
        n_jobs=0,
        GPU=-1,
    )
    own.fit(dataset("window", names=12, days=110), **outputs())

    with pytest.raises(RuntimeError, match="expected input"):
        own.predict(small("window"))

    own.n_jobs, seen = 0, []
    ours = trained("tcn").model
    watching = ours.TCN_model.tcn.register_forward_pre_hook(
        lambda _module, inputs: seen.append(inputs[0].shape[1:])
    )
    ours.predict(small("window"))
    watching.remove()

    assert set(seen) == {(9, 20)}


def lengths(model, features):
    """Return the lengths of the sequences that reach the recurrent part of a network."""
    seen = set()
    hooks = [
        module.register_forward_pre_hook(
            lambda module, inputs: seen.add(inputs[0].shape[1 if module.batch_first else 0]),
            with_kwargs=False,
        )
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.GRU) and not name.startswith("dec")
    ]

    if not hooks:  # SFM has its own loop, which fetches constants once per day
        constants = model.get_constants
        days = []
        model.get_constants = lambda x: (days.append(1), constants(x))

    with torch.no_grad():
        model.eval()
        model.predict(features) if hasattr(model, "predict") else model(features)

    for hook in hooks:
        hook.remove()

    if not hooks:
        del model.get_constants
        seen.add(len(days))

    return seen


@pytest.mark.parametrize("name", UNROLLED)
def test_sequences_of_sixty_days_reach_the_recurrent_part(name):
    model = untrained(name)
    features = torch.zeros(3, 540)

    assert lengths(model.module, model._sequences(features) if name == "adarnn" else features) == {
        60
    }


@pytest.mark.parametrize(
    ("class_", "network"), [(SFM, "sfm_model"), (KRNN, "krnn_model"), (Sandwich, "sandwich_model")]
)
def test_on_nine_columns_pyqlibs_classes_learn_sequences_of_one_day(class_, network):
    nine = {"d_feat": 9, "fea_dim": 9, "GPU": -1}
    assert lengths(getattr(class_(**nine), network), torch.zeros(3, 9)) == {1}


def test_add_fails_on_sequences_of_one_day():
    with pytest.raises(IndexError):
        ADD(d_feat=9, GPU=-1).ADD_model(torch.zeros(3, 9))


@pytest.mark.parametrize(("name", "class_"), [("krnn", KRNN), ("sandwich", Sandwich)])
def test_columns_reach_the_convolution_as_factors_by_days(name, class_):
    """Column 60 f + d of a sample holds 100 f + d: factor f on day d, oldest first."""
    expected = torch.tensor([[100.0 * factor + day for day in range(60)] for factor in range(9)])
    seen = {}

    for whose, model in (("ours", untrained(name)), ("pyqlib", class_(fea_dim=9, GPU=-1))):
        network = getattr(model, f"{name}_model")
        first = next(module for module in network.modules() if isinstance(module, torch.nn.Conv1d))
        first.register_forward_pre_hook(
            lambda _module, inputs, whose=whose: seen.update({whose: inputs[0][0]})
        )
        network(expected.reshape(1, 540).repeat(2, 1))

    assert torch.equal(seen["ours"], expected)
    assert not torch.equal(seen["pyqlib"], expected)


def test_sfm_reads_factors_by_days():
    expected = torch.arange(540.0).reshape(9, 60)
    model = untrained("sfm").module
    seen = []
    model.get_constants = lambda x, constants=model.get_constants: (seen.append(x[0]), constants(x))
    model(expected.reshape(1, 540).repeat(2, 1))

    assert torch.equal(torch.stack(seen, 1), expected)


# --- TabNet, ADD, ADARNN


def test_tabnet_pretrains_on_the_days_of_training_and_validation():
    with pytest.raises(TypeError, match="pretrain"):
        TabnetModel(
            d_feat=9,
            n_epochs=1,
            pretrain_n_epochs=1,
            batch_size=100,
            GPU=-1,
            pretrain_file=os.devnull,
        ).fit(small("flat"), **outputs())

    assert trained("tabnet").model.pretrain


def test_tabnet_trains_its_last_layer():
    own = TabnetModel(
        d_feat=9, n_epochs=1, batch_size=100, GPU=-1, pretrain=False, pretrain_file=os.devnull
    )
    own.fit(small("flat"), **outputs())

    for model, included in ((own, False), (trained("tabnet").model, True)):
        known = set()
        for group in model.train_optimizer.param_groups:
            known |= {id(weights) for weights in group["params"]}

        assert (id(model.tabnet_model.fc.weight) in known) is included


def test_a_day_without_an_ic_does_not_lose_adds_weights():
    labels = torch.zeros(4)
    assert np.isnan(ADD.cal_ic_metrics(None, torch.arange(4.0), labels)["ic"])

    metrics = untrained("add").cal_ic_metrics(torch.arange(4.0), labels)
    # mean of squares: (0 + 1 + 4 + 9) / 4
    assert (metrics["ic"], metrics["ric"], metrics["mse"]) == (0.0, 0.0, -3.5)


def test_adarnn_trains_on_nine_factors_of_sixty_days():
    with pytest.raises(IndexError):
        ADARNN(d_feat=9, n_epochs=1, GPU=-1, metric="loss", batch_size=50).fit(
            small("unrolled"), **outputs()
        )

    expected = np.arange(540.0).reshape(9, 60)
    table = pd.concat(
        {
            "feature": pd.DataFrame([expected.reshape(-1)] * 3),
            "label": pd.DataFrame({"y": [1.0, 2, 3]}),
        },
        axis=1,
    )
    data = untrained("adarnn")._samples(table)
    features, label = data[1]

    assert torch.equal(features, torch.from_numpy(expected.T).float())
    assert label == 2.0


def test_adarnn_leaves_the_devices_of_the_process_alone(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    assert untrained("adarnn").model.device == torch.device("cpu")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "5"

    ADARNN(GPU=0)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"


def test_adarnns_loss_is_a_mean_square():
    """Scores 1 and 3 for labels 0 and 1: −(1² + 2²) / 2 = −2.5. pyqlib's is −((0 − 1) + (1 − 3)) /
    2 = 1.5.
    """
    index = pd.MultiIndex.from_product(
        [pd.bdate_range("2020-01-01", periods=1), list("ab")], names=["datetime", "instrument"]
    )
    table = pd.DataFrame({"score": [1.0, 3.0], "label": [0.0, 1.0]}, index=index)

    assert ADARNN.calc_all_metrics(table)["loss"] == 1.5

    ours = untrained("adarnn").calc_all_metrics(table)
    assert (ours["loss"], ours["mse"], ours["ic"]) == (-2.5, -2.5, pytest.approx(1.0))


def test_recorders_and_globals_of_pyqlib_are_back_after_a_training():
    from qlib.contrib.model import gbdt, pytorch_adarnn
    from qlib.workflow import R

    for name in ("lightgbm", "mlp", "adarnn"):
        trained(name)

    assert gbdt.R is R
    assert pytorch_nn.R is R
    assert pytorch_adarnn.data_loader.__module__ == pytorch_adarnn.__name__
    assert not Path("mlruns").exists()
