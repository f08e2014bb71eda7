"""Recipes of the eighteen baselines: names, published hyperparameters, exceptions with reasons;
without torch or pyqlib.
"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from ktdeval.errors import ConfigError, UsageError
from ktdeval.testing import not_empty, on_each_row
from ktdeval.values import from_plain, sha256_hex
from ktdeval_qlib.model_files import load
from ktdeval_qlib.recipes import BaselineRecipe, Estimator, recipes

# Name, layout, rounds, patience, batch and learning rate, read by hand from the official
# configurations and class defaults.
PUBLISHED = (
    ("linear", "flat", None, None, None, None),
    ("lightgbm", "flat", 1000, 50, None, 0.2),
    ("xgboost", "flat", 1000, 50, None, 0.0421),
    ("catboost", "flat", 1000, 50, None, 0.0421),
    ("doubleensemble", "flat", 28, None, None, 0.2),
    ("mlp", "flat", 8000, 50, 8192, 0.002),
    ("lstm", "window", 200, 10, 800, 0.001),
    ("gru", "window", 200, 10, 800, 0.0002),
    ("alstm", "window", 200, 10, 800, 0.001),
    ("tcn", "window", 200, 20, 2000, 0.0001),
    ("transformer", "window", 100, 5, 8192, 0.0001),
    ("localformer", "window", 100, 5, 8192, 0.0001),
    ("tabnet", "flat", 100, 20, 4096, 0.01),
    ("sfm", "unrolled", 20, 20, 1600, 0.001),
    ("adarnn", "unrolled", 200, 20, 800, 0.001),
    ("add", "unrolled", 200, 20, 5000, 0.001),
    ("krnn", "unrolled", 200, 20, 2000, 0.001),
    ("sandwich", "unrolled", 200, 20, 2000, 0.001),
)
TREES = {"lightgbm", "xgboost", "catboost", "doubleensemble"}


def test_the_eighteen_of_the_paper_are_there():
    assert list(recipes()) == [name for name, *_ in PUBLISHED]


@on_each_row("name, layout, rounds, patience, batch, rate", *PUBLISHED)
def test_rounds_patience_batch_and_learning_rate_are_the_published_ones(
    name, layout, rounds, patience, batch, rate
):
    recipe = recipes()[name]
    known = {**recipe.parameters, **recipe.fit}
    rates = ("lr", "learning_rate", "eta")
    stops = ("early_stop", "early_stopping_rounds", "early_stop_rounds")

    assert (recipe.layout, recipe.max_rounds, known.get("batch_size")) == (layout, rounds, batch)
    assert next((known[key] for key in stops if key in known), None) == patience
    assert next((known[key] for key in rates if key in known), None) == rate


def test_samples_have_nine_factors_in_each_layout():
    assert {recipe.layout: recipe.shape for recipe in recipes().values()} == {
        "flat": (9,),
        "window": (20, 9),
        "unrolled": (540,),
    }

    for recipe in recipes().values():
        inputs = {**recipe.parameters, **recipe.parameters.get("pt_model_kwargs", {})}
        assert {inputs[key] for key in ("d_feat", "fea_dim", "input_dim") if key in inputs} <= {9}


def test_labels_are_normalised_by_the_configurations():
    assert {
        name for name, recipe in recipes().items() if recipe.label == "CSZScoreNorm"
    } == TREES | {"mlp"}


def test_each_exception_has_a_reason_and_differs_from_the_published_value():
    changed = []
    for recipe in recipes().values():
        changed += [(recipe, *change) for change in recipe.changed.items()]

    for recipe, name, change in not_empty(changed):
        assert change.why
        assert change.value != {**recipe.defaults, **recipe.published}.get(name)


def test_no_number_is_text():
    """PyYAML reads `1e-3` as text, and a learning rate of type str would only fail much later."""
    values = []
    for recipe in recipes().values():
        values += [*recipe.parameters.items(), *recipe.fit.items()]

    for name, value in not_empty((name, value) for name, value in values if isinstance(value, str)):
        with pytest.raises(ValueError, match="could not convert"):
            float(value)

        assert not name.endswith("lr")


@on_each_row(
    "field, value, message",
    ("layout", "square", "layout"),
    ("published", [], "published"),
    ("rounds", ["steps"], "steps"),
    ("colour", "red", "colour"),
)
def test_a_wrong_field_is_one_line_that_names_it(field, value, message):
    entry = {
        "name": "x",
        "class": "a.B",
        "config": "c",
        "layout": "flat",
        "label": "CSRankNorm",
        "published": {},
    }
    from_plain(entry, BaselineRecipe, "models.yaml: x", ConfigError)

    with pytest.raises(ConfigError, match=rf"models.yaml: x: .*{message}") as caught:
        from_plain({**entry, field: value}, BaselineRecipe, "models.yaml: x", ConfigError)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong", [{"seed": -1}, {"seed": 2**32}, {"rounds": 0}, {"threads": 0}, {"device": "tpu"}]
)
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(UsageError, match="qlib/linear"):
        Estimator(recipes()["linear"], **{"seed": 0, **wrong})


@pytest.mark.exhaustive
def test_reading_recipes_imports_neither_torch_nor_pyqlib():
    heavy = "('torch', 'qlib', 'lightgbm', 'xgboost', 'catboost', 'safetensors', 'pandas')"
    code = (
        "import sys; from ktdeval_qlib.recipes import recipes; recipes(); print([name for name in"
        f" {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_a_stored_linear_model_scores_with_numpy_alone(tmp_path):
    """score = coefficients · factors + intercept: 2 × 3 − 1 × 4 + 0.5 = 2.5."""
    content = json.dumps({"coefficients": [2.0, -1.0, *[0.0] * 7], "intercept": 0.5})
    (tmp_path / "linear.json").write_text(content)
    (tmp_path / "stored.json").write_text(
        json.dumps({"model": "linear", "files": {"linear.json": sha256_hex(content)}})
    )
    scores = load(recipes()["linear"], tmp_path).predict(
        np.array([[3.0, 4.0, *[1.0] * 7], [0.0] * 9])
    )

    assert scores.tolist() == [2.5, 0.5]
