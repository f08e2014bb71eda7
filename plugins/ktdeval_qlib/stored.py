"""Trained baselines in files of safe formats: JSON, the libraries' own text and JSON, cbm, and safetensors; nothing is unpickled.

    linear                         linear.json          coefficients and intercept
    lightgbm, xgboost, catboost    model.txt, .json, .cbm
    doubleensemble                 ensemble.json        weights and columns of the sub-models model-0.txt, model-1.txt, …
    the others                     weights.safetensors  state of the torch network, rebuilt from the recipe

Importing this, and applying Linear, needs only numpy. The hashes of `model` are checked before a library reads a file: damaged
texts crash the process inside LightGBM and XGBoost.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval.errors import DataError, StoreError, UsageError, explained
from ktdeval.jsonio import read_plain, write_atomic
from ktdeval.market import FloatArray
from ktdeval.typed import Value, decode_json, encode_canonical
from ktdeval_qlib.recipes import FACTORS, Estimator, Recipe, held, quiet_lightgbm

_LINEAR, _ENSEMBLE, _WEIGHTS, _PART = "linear.json", "ensemble.json", "weights.safetensors", "model-{}.txt"
_TREES = {"lightgbm": "model.txt", "xgboost": "model.json", "catboost": "model.cbm"}
_ROWS = 4096
"""Samples that a network scores at a time."""


class LinearModel(Value):
    """Coefficients of the nine factors, and the intercept."""

    coefficients: list[float]
    intercept: float


class Member(Value):
    """Sub-model of a DoubleEnsemble: its weight, and the columns that it reads, in its order."""

    weight: float
    columns: list[int]


class Ensemble(Value):
    """DoubleEnsemble: its sub-models, the first in model-0.txt."""

    members: list[Member]


class Predictor:
    """Trained baseline read from files."""

    def __init__(self, recipe: Recipe, scores: Callable[[FloatArray], Any]) -> None:
        self.recipe = recipe
        self._scores = scores

    def predict(self, features: FloatArray) -> FloatArray:
        """Return scores [N] of samples, [N, 9], [N, 20, 9] or [N, 540] by the recipe's layout; higher is better. Raises DataError:
        the samples have another shape.
        """
        if features.ndim != len(self.recipe.shape) + 1 or features.shape[1:] != self.recipe.shape:
            shape = ", ".join(str(size) for size in self.recipe.shape)
            raise DataError(f"qlib/{self.recipe.name} scores samples of shape [N, {shape}], given {list(features.shape)}")
        if not len(features):
            return np.empty(0)
        return np.asarray(self._scores(np.ascontiguousarray(features, dtype=float)), dtype=float)


def save(model: Any, recipe: Recipe, folder: Path) -> tuple[Path, ...]:
    """Write a trained pyqlib object into an existing folder and return the files."""
    contents = _contents(model, recipe)
    for name, content in contents.items():
        write_atomic(folder / name, content)
    return tuple(folder / name for name in contents)


def _contents(model: Any, recipe: Recipe) -> dict[str, bytes]:
    """Return the content of each file of a trained pyqlib object."""
    if recipe.name == "linear":
        linear = LinearModel(coefficients=[float(value) for value in model.coef_], intercept=float(model.intercept_))
        return {_LINEAR: encode_canonical(linear).encode()}
    if recipe.name == "lightgbm":
        return {_TREES["lightgbm"]: model.model.model_to_string().encode()}
    if recipe.name == "xgboost":
        return {_TREES["xgboost"]: bytes(model.model.save_raw("json"))}
    if recipe.name == "catboost":
        with tempfile.TemporaryDirectory(prefix="ktdeval-qlib-") as folder:
            path = Path(folder, _TREES["catboost"])
            model.model.save_model(str(path))
            return {path.name: path.read_bytes()}
    if recipe.name == "doubleensemble":
        index = {column: number for number, column in enumerate(model.sub_features[0])}  # the first sub-model reads all of them
        members = [
            Member(weight=float(weight), columns=[index[column] for column in columns])
            for weight, columns in zip(model.sub_weights, model.sub_features, strict=True)
        ]
        parts = {_PART.format(number): part.model_to_string().encode() for number, part in enumerate(model.ensemble)}
        return {_ENSEMBLE: encode_canonical(Ensemble(members=members)).encode(), **parts}
    from safetensors.torch import save as encode  # noqa: PLC0415

    return {_WEIGHTS: encode({name: weights.cpu().clone().contiguous() for name, weights in model.module.state_dict().items()})}


def load(recipe: Recipe, folder: Path) -> Predictor:
    """Read the files of `save`, to predict on one thread. Raises StoreError, which names the file: it is missing or
    of another model; UsageError: a package of the extra `qlib` is missing.
    """
    try:
        return Predictor(recipe, _LOADERS.get(recipe.name, _network)(recipe, folder))
    except ImportError as error:
        raise UsageError(f"qlib/{recipe.name} needs {error.name}, which is not installed: pip install 'ktdeval[qlib]'") from error


def _linear(_recipe: Recipe, folder: Path) -> Callable[[FloatArray], Any]:
    path = folder / _LINEAR
    stored = decode_json(_read(path), LinearModel, str(path))
    _check_columns(path, len(stored.coefficients))
    coefficients = np.array(stored.coefficients)
    return lambda features: features @ coefficients + stored.intercept


def _lightgbm(_recipe: Recipe, folder: Path) -> Callable[[FloatArray], Any]:
    booster = _booster(folder, _TREES["lightgbm"], FACTORS)
    return lambda features: booster.predict(features, num_threads=1)


def _double_ensemble(_recipe: Recipe, folder: Path) -> Callable[[FloatArray], Any]:
    path = folder / _ENSEMBLE
    members = decode_json(_read(path), Ensemble, str(path)).members
    whole = math.fsum(member.weight for member in members)
    if not whole:
        raise StoreError(f"{path}: the weights of the sub-models add up to 0; train the model again")
    for member in members:
        if not member.columns or not set(member.columns) <= set(range(FACTORS)):
            raise StoreError(f"{path}: a sub-model reads columns {member.columns} of {FACTORS}; train the model again")
    boosters = [_booster(folder, _PART.format(number), len(member.columns)) for number, member in enumerate(members)]

    def scores(features: FloatArray) -> Any:
        total = np.zeros(len(features))
        for member, booster in zip(members, boosters, strict=True):
            total += booster.predict(features[:, member.columns], num_threads=1) * member.weight
        return total / whole

    return scores


def _xgboost(_recipe: Recipe, folder: Path) -> Callable[[FloatArray], Any]:
    import xgboost  # noqa: PLC0415

    booster, path = xgboost.Booster({"nthread": 1, "verbosity": 0}), folder / _TREES["xgboost"]
    booster.load_model(bytearray(_read(path)))
    _check_columns(path, booster.num_features())
    return lambda features: booster.predict(xgboost.DMatrix(features))


def _catboost(_recipe: Recipe, folder: Path) -> Callable[[FloatArray], Any]:
    import catboost  # noqa: PLC0415

    model = catboost.CatBoost()
    model.load_model(blob=_read(folder / _TREES["catboost"]))
    _check_columns(folder / _TREES["catboost"], len(model.feature_names_))
    return lambda features: model.predict(features, thread_count=1)


def _network(recipe: Recipe, folder: Path) -> Callable[[FloatArray], Any]:
    """Build the network as for training, and load the stored weights."""
    import torch  # noqa: PLC0415
    from safetensors.torch import load as decode  # noqa: PLC0415

    model = Estimator(recipe, seed=0).build()
    if hasattr(model, "add_output"):
        model.add_output()
    try:
        model.module.load_state_dict(decode(_read(folder / _WEIGHTS)))
    except RuntimeError as error:  # another version of pyqlib has different names or shapes
        raise StoreError(f"{folder / _WEIGHTS}: the weights are not those of qlib/{recipe.name}; train the model again") from error
    model.module.eval()

    def scores(features: FloatArray) -> Any:
        with held(0, threads=1), torch.no_grad():
            batches = [torch.from_numpy(features[first : first + _ROWS]).float() for first in range(0, len(features), _ROWS)]
            return np.concatenate([model.scores(batch).numpy() for batch in batches])

    return scores


_LOADERS = {
    "linear": _linear,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
    "doubleensemble": _double_ensemble,
}


def _booster(folder: Path, name: str, columns: int) -> Any:
    """Read a LightGBM model of so many columns."""
    booster = quiet_lightgbm().Booster(model_str=_read(folder / name).decode())
    _check_columns(folder / name, booster.num_feature(), columns)
    return booster


def _read(path: Path) -> bytes:
    with explained(f"{path}: can't read"):
        return read_plain(path)


def _check_columns(path: Path, actual: int, expected: int = FACTORS) -> None:
    if actual != expected:
        raise StoreError(f"{path}: the model reads {actual} columns instead of {expected}; train it again")
