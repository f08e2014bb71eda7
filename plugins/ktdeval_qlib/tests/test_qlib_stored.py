"""Stored baselines: the same scores as the estimator gave, safe formats, and one-line errors for
foreign files.
"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("qlib")

from ktdeval.errors import DataError, StoreError
from ktdeval_qlib.model_files import load, save
from ktdeval_qlib.recipes import Estimator, recipes
from support.baselines.qlib_data import dataset, samples, small, trained

SAFE = {".json", ".txt", ".cbm", ".safetensors"}


@pytest.mark.parametrize("name", recipes())
def test_a_stored_model_scores_as_its_estimator_predicts(name, tmp_path):
    recipe = recipes()[name]
    files = save(trained(name).model, recipe, tmp_path)

    assert sorted(files) == sorted(tmp_path.iterdir())
    assert {path.suffix for path in files} <= SAFE

    features, index = samples(recipe.layout)
    scores = load(recipe, tmp_path).predict(features)

    predicted = trained(name).predict(small(recipe.layout))

    assert scores.std() > 0

    np.testing.assert_allclose(scores, predicted.loc[index].to_numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_trees_stopped_early_score_with_the_same_trees(name, tmp_path):
    data = dataset("flat", names=12, days=110)
    estimator = Estimator(recipes()[name], seed=1, rounds=400)
    estimator.fit(data)

    assert len(estimator.scores["valid"]) < 400

    save(estimator.model, recipes()[name], tmp_path)
    scores = load(recipes()[name], tmp_path).predict(
        data.prepare("test", col_set="feature").to_numpy()
    )
    np.testing.assert_array_equal(scores, estimator.predict(data).to_numpy())


@pytest.mark.parametrize("name", ["mlp", "tcn", "sandwich"])
def test_scores_do_not_depend_on_the_other_samples(name, tmp_path):
    recipe = recipes()[name]
    save(trained(name).model, recipe, tmp_path)
    features, _ = samples(recipe.layout)
    predictor = load(recipe, tmp_path)
    np.testing.assert_allclose(
        predictor.predict(features[:1]), predictor.predict(features)[:1], atol=1e-6
    )

    assert predictor.predict(features[:0]).shape == (0,)


def test_linear_needs_neither_torch_nor_pyqlib(tmp_path):
    save(trained("linear").model, recipes()["linear"], tmp_path)
    code = f"""
import sys, pathlib, numpy
from ktdeval_qlib.recipes import recipes
from ktdeval_qlib.model_files import load
scores = load(recipes()["linear"], pathlib.Path({str(tmp_path)!r})).predict(numpy.eye(9))
print(scores.tolist(), [name for name in ("torch", "qlib", "lightgbm", "safetensors", "sklearn") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    stored = json.loads((tmp_path / "linear.json").read_text())

    assert done == f"{[value + stored['intercept'] for value in stored['coefficients']]} []"


def test_weights_of_another_network_are_refused(tmp_path):
    save(trained("krnn").model, recipes()["krnn"], tmp_path)
    with pytest.raises(
        StoreError, match=r"weights.safetensors: the weights are not those of qlib/sandwich"
    ):
        load(recipes()["sandwich"], tmp_path)


def test_a_model_of_other_columns_is_refused(tmp_path):
    (tmp_path / "linear.json").write_text('{"coefficients": [1.0, 2.0], "intercept": 0.0}')
    with pytest.raises(StoreError, match=r"linear.json: the model reads 2 columns instead of 9"):
        load(recipes()["linear"], tmp_path)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "add up to 0"),
        ([{"weight": 1, "columns": [9]}], r"columns \[9\]"),
        ([{"weight": 1}], "columns"),
    ],
)
def test_an_ensemble_that_can_not_be_applied_is_refused(members, message, tmp_path):
    (tmp_path / "ensemble.json").write_text(json.dumps({"members": members}))
    with pytest.raises(StoreError, match=rf"ensemble.json: .*{message}"):
        load(recipes()["doubleensemble"], tmp_path)


@pytest.mark.parametrize("shape", [(4, 540), (9,), (4, 20, 9)])
def test_samples_of_another_layout_are_refused(shape, tmp_path):
    save(trained("linear").model, recipes()["linear"], tmp_path)
    predictor = load(recipes()["linear"], tmp_path)
    with pytest.raises(DataError, match=r"qlib/linear scores samples of shape \[N, 9\]"):
        predictor.predict(np.zeros(shape))
