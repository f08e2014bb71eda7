"""Write and read trained baselines in safe formats: JSON, the libraries' own text and JSON formats,
cbm, and safetensors. Nothing is unpickled.

    linear                         linear.json          coefficients and intercept
    lightgbm, xgboost, catboost    model.txt, .json, .cbm
    doubleensemble                 ensemble.json        weights, columns of the sub-models model-0.txt, …
    the others                     weights.safetensors  state of the torch network, rebuilt from the recipe

Importing this module and applying Linear only need numpy. `model` checks the files' hashes before a
library reads them, since damaged files crash the process inside LightGBM and XGBoost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError, StoreError, UsageError, wrap_os_error
from ktdeval.market import FloatArray
from ktdeval.values import (
    Value,
    decode_json,
    encode_canonical,
    import_problem,
    install_command,
    read_plain,
    temporary_folder,
    write_atomic,
)
from ktdeval_qlib.recipes import FACTORS, BaselineRecipe, Estimator, fix_computation, quiet_lightgbm

_LINEAR = "linear.json"
_ENSEMBLE = "ensemble.json"
_WEIGHTS = "weights.safetensors"
_PART = "model-{}.txt"
_TREES = {"lightgbm": "model.txt", "xgboost": "model.json", "catboost": "model.cbm"}
_ROWS = 4096
"""Number of samples that a network scores at a time."""

Scores = Callable[[FloatArray], npt.ArrayLike]
"""Function from the features of N samples to their scores, [N]."""


class LinearModel(Value):
    """Coefficients of the nine factors, and the intercept."""

    coefficients: list[float]
    intercept: float


class Member(Value):
    """Sub-model of a DoubleEnsemble: its weight, and the columns that it reads, in the order in
    which it reads them.
    """

    weight: float
    columns: list[int]


class Ensemble(Value):
    """DoubleEnsemble as a list of sub-models, of which the first is in model-0.txt."""

    members: list[Member]


class TrainedPredictor:
    """A trained baseline read from files."""

    def __init__(self, recipe: BaselineRecipe, scores: Scores) -> None:
        self.recipe = recipe
        self._scores = scores

    def predict(self, features: FloatArray) -> FloatArray:
        """Return the scores of samples, [N]; higher is better.

        `features`: [N, 9], [N, 20, 9] or [N, 540], depending on the recipe's layout. Raises
        DataError if the array has another shape.
        """
        if features.ndim != len(self.recipe.shape) + 1 or features.shape[1:] != self.recipe.shape:
            shape = ", ".join(str(size) for size in self.recipe.shape)
            raise DataError(
                f"qlib/{self.recipe.name} scores samples of shape [N, {shape}], given"
                f" {list(features.shape)}"
            )

        if not len(features):
            return np.empty(0)

        scores = self._scores(np.ascontiguousarray(features, dtype=float))
        return np.asarray(scores, dtype=float)


def save(model: Any, recipe: BaselineRecipe, folder: Path) -> tuple[Path, ...]:
    """Write a trained pyqlib object into an existing folder, and return the files."""
    contents = _contents(model, recipe)
    for name, content in contents.items():
        write_atomic(folder / name, content)
    return tuple(folder / name for name in contents)


def _contents(model: Any, recipe: BaselineRecipe) -> dict[str, bytes]:
    """Return the contents of each file for a trained pyqlib object."""
    if recipe.name == "linear":
        coefficients = [float(value) for value in model.coef_]
        linear = LinearModel(coefficients=coefficients, intercept=float(model.intercept_))
        return {_LINEAR: encode_canonical(linear).encode()}

    if recipe.name == "lightgbm":
        return {_TREES["lightgbm"]: model.model.model_to_string().encode()}
    if recipe.name == "xgboost":
        return {_TREES["xgboost"]: bytes(model.model.save_raw("json"))}

    if recipe.name == "catboost":
        with temporary_folder("ktdeval-qlib-") as folder:
            path = folder / _TREES["catboost"]
            model.model.save_model(str(path))
            return {path.name: path.read_bytes()}

    if recipe.name == "doubleensemble":
        return _ensemble_contents(model)

    from safetensors.torch import save as encode  # noqa: PLC0415

    # Tensors are cloned, since safetensors refuses tensors that share memory.
    state = model.module.state_dict()
    tensors = {name: weights.cpu().clone().contiguous() for name, weights in state.items()}
    return {_WEIGHTS: encode(tensors)}


def _ensemble_contents(model: Any) -> dict[str, bytes]:
    """Return the contents of each file for a DoubleEnsemble."""
    # The first sub-model reads all columns, in the order of the features.
    index = {column: number for number, column in enumerate(model.sub_features[0])}
    members = []
    for weight, names in zip(model.sub_weights, model.sub_features, strict=True):
        columns = [index[name] for name in names]
        members.append(Member(weight=float(weight), columns=columns))

    contents = {_ENSEMBLE: encode_canonical(Ensemble(members=members)).encode()}
    for number, part in enumerate(model.ensemble):
        contents[_PART.format(number)] = part.model_to_string().encode()

    return contents


def load(recipe: BaselineRecipe, folder: Path) -> TrainedPredictor:
    """Read the files written by `save`, for prediction on one thread.

    Raises StoreError, with the name of the file, if a file is missing or belongs to another model;
    UsageError if a package of the extra `qlib` is missing.
    """
    read_scores = _LOADERS.get(recipe.name, _network)
    try:
        return TrainedPredictor(recipe, read_scores(recipe, folder))
    except ImportError as error:
        raise UsageError(
            f"qlib/{recipe.name}: {import_problem(error)}: {install_command('qlib')}"
        ) from error


def _linear(_recipe: BaselineRecipe, folder: Path) -> Scores:
    path = folder / _LINEAR
    stored = decode_json(_read_model_file(path), LinearModel, str(path))
    _check_columns(path, len(stored.coefficients))
    coefficients = np.array(stored.coefficients)

    return lambda features: features @ coefficients + stored.intercept


def _lightgbm(_recipe: BaselineRecipe, folder: Path) -> Scores:
    booster = _booster(folder, _TREES["lightgbm"], FACTORS)
    return lambda features: booster.predict(features, num_threads=1)


def _double_ensemble(_recipe: BaselineRecipe, folder: Path) -> Scores:
    path = folder / _ENSEMBLE
    members = decode_json(_read_model_file(path), Ensemble, str(path)).members
    whole = math.fsum(member.weight for member in members)
    if not whole:
        raise StoreError(
            f"{path}: the weights of the sub-models add up to 0; train the model again"
        )

    for member in members:
        if not member.columns or not set(member.columns) <= set(range(FACTORS)):
            raise StoreError(
                f"{path}: a sub-model reads columns {member.columns} of {FACTORS}; train the model"
                " again"
            )

    boosters = []
    for number, member in enumerate(members):
        boosters.append(_booster(folder, _PART.format(number), len(member.columns)))

    def scores(features: FloatArray) -> FloatArray:
        total = np.zeros(len(features))
        for member, booster in zip(members, boosters, strict=True):
            part = booster.predict(features[:, member.columns], num_threads=1)
            total += part * member.weight
        return total / whole

    return scores


def _xgboost(_recipe: BaselineRecipe, folder: Path) -> Scores:
    import xgboost  # noqa: PLC0415

    booster = xgboost.Booster({"nthread": 1, "verbosity": 0})
    path = folder / _TREES["xgboost"]
    booster.load_model(bytearray(_read_model_file(path)))
    _check_columns(path, booster.num_features())

    return lambda features: booster.predict(xgboost.DMatrix(features))


def _catboost(_recipe: BaselineRecipe, folder: Path) -> Scores:
    import catboost  # noqa: PLC0415

    model = catboost.CatBoost()
    model.load_model(blob=_read_model_file(folder / _TREES["catboost"]))
    _check_columns(folder / _TREES["catboost"], len(model.feature_names_))

    return lambda features: model.predict(features, thread_count=1)


def _network(recipe: BaselineRecipe, folder: Path) -> Scores:
    """Build the network as in training, and load the stored weights."""
    import torch  # noqa: PLC0415
    from safetensors.torch import load as decode  # noqa: PLC0415

    model = Estimator(recipe, seed=0).build()
    if hasattr(model, "add_output"):  # for TabNet, whose last layer is added by `fit`
        model.add_output()

    try:
        model.module.load_state_dict(decode(_read_model_file(folder / _WEIGHTS)))
    except RuntimeError as error:  # names or shapes differ from those in another version of pyqlib
        raise StoreError(
            f"{folder / _WEIGHTS}: the weights are not those of qlib/{recipe.name}; train the model"
            " again"
        ) from error

    model.module.eval()

    def scores(features: FloatArray) -> FloatArray:
        with fix_computation(0, threads=1), torch.no_grad():
            parts = []
            for first in range(0, len(features), _ROWS):
                batch = torch.from_numpy(features[first : first + _ROWS]).float()
                parts.append(model.scores(batch).numpy())
            return np.concatenate(parts)

    return scores


_LOADERS = {
    "linear": _linear,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
    "doubleensemble": _double_ensemble,
}


def _booster(folder: Path, name: str, columns: int) -> Any:
    """Read a LightGBM model, which must have `columns` columns."""
    booster = quiet_lightgbm().Booster(model_str=_read_model_file(folder / name).decode())
    _check_columns(folder / name, booster.num_feature(), columns)
    return booster


def _read_model_file(path: Path) -> bytes:
    with wrap_os_error(f"{path}: can't read"):
        return read_plain(path)


def _check_columns(path: Path, actual: int, expected: int = FACTORS) -> None:
    if actual != expected:
        raise StoreError(
            f"{path}: the model reads {actual} columns instead of {expected}; train it again"
        )
