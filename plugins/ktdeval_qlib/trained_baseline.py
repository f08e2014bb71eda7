"""Trained baselines: the description and log in a folder, read without torch or pyqlib, and the
model `qlib/NAME`, which holds the names with the best predictions.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

from ktdeval.errors import DataError, UsageError, wrap_os_error
from ktdeval.harness import ModelTraits
from ktdeval.keyless import TopModel
from ktdeval.market import FloatArray
from ktdeval.task_api import Window
from ktdeval.values import Value, decode_json, file_sha256, read_plain, sha256_hex, user_path
from ktdeval_qlib import TrainedParams
from ktdeval_qlib.model_files import TrainedPredictor, load
from ktdeval_qlib.recipes import FACTORS, recipes
from ktdeval_qlib.samples import Scaler, Segments, step_input
from ktdeval_qlib.training_options import Device, Label

DESCRIPTION = "trained.json"
LOG = "log.json"
_MAX_BYTES = 1 << 20
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_File = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,60}(\.[a-z0-9]{1,12})?\Z")]
_Scales = Annotated[tuple[float | None, ...], msgspec.Meta(min_length=FACTORS, max_length=FACTORS)]


class ModelFile(Value):
    """Description of a trained baseline and of its training."""

    format: Literal["ktdeval-qlib-model/1"]
    model: str  #: name of the recipe, such as lightgbm
    recipe: _Sha256  #: SHA-256 of the recipe's contents
    snapshot: str  #: id of the market
    label: Label
    wanted: Segments  #: segments as requested
    used: Segments  #: segments as used in training: restricted to the snapshot, and purged
    seed: int
    rounds: int | None  #: replaces the published number; null: the published number
    threads: int
    device: Device
    shuffled: bool  #: whether labels were permuted within each day, as a control
    #: median of each factor over the training samples; null for a factor without values
    center: _Scales
    scale: _Scales  #: 1.4826 median absolute deviations of each factor
    libraries: Mapping[str, str]  #: version of each package used
    files: Mapping[_File, _Sha256]  #: SHA-256 of each other file in the folder

    @property
    def scaler(self) -> Scaler:
        """Return the scaler fitted to the training samples."""
        return Scaler(np.array(self.center, dtype=float), np.array(self.scale, dtype=float))

    @property
    def last_day(self) -> str:
        """Last day of the requested validation, up to which labels use prices."""
        return self.wanted.valid.last


class Accuracy(Value):
    """Rank IC over a segment: mean over days, and its 95 % interval (Newey and West); null if there
    are too few days.
    """

    days: int
    rank_ic: float | None
    low: float | None
    high: float | None


class TrainingLog(Value):
    """Log of a training, with facts that are not part of the model."""

    seconds: float
    rounds: int  #: number of rounds done, also after early stopping; 0 for a closed form
    accuracy: Mapping[str, Accuracy]  #: rank IC by segment


@dataclass(frozen=True, slots=True)
class TrainedBaseline:
    """Description of a trained baseline, with the hash that pins it."""

    content: ModelFile
    sha256: str


def read_model(folder: Path) -> TrainedBaseline:
    """Read a folder's description and check its files.

    Raises DataError if the description is missing or malformed, or if the hash of a file differs.
    """
    path = folder / DESCRIPTION
    with wrap_os_error(f"{path}: can't be read", "make one with `ktdeval train qlib`", DataError):
        data = read_plain(path, _MAX_BYTES)

    content = decode_json(data, ModelFile, str(path), DataError)
    if content.model not in recipes():
        raise DataError(f"{path}: {content.model!r} is not a baseline of this version")

    for name, stated in content.files.items():
        with wrap_os_error(f"{folder / name}: can't be read", "train the model again", DataError):
            actual = file_sha256(folder / name)

        if actual != stated:
            raise DataError(
                f"{folder / name}: SHA-256 is {actual[:12]}…, {DESCRIPTION} has {stated[:12]}…;"
                " train the model again"
            )

    return TrainedBaseline(content, sha256_hex(data))


def read_log(folder: Path) -> TrainingLog:
    """Read a folder's log. Raises DataError."""
    with wrap_os_error(f"{folder / LOG}: can't be read", kind=DataError):
        return decode_json(read_plain(folder / LOG), TrainingLog, str(folder / LOG), DataError)


class TrainedModel(TopModel):
    """Ranks the index members by a trained baseline. It is a pure function of the history, so one
    object can serve all episodes.
    """

    def __init__(self, name: str, params: TrainedParams) -> None:
        """Read the trained model.

        Raises UsageError if it is missing or is not the pinned one; DataError as in `read_model`.
        """
        super().__init__(params)
        self.recipe = recipes()[name]
        self.folder = user_path(params.trained) / name / f"seed-{params.training_seed}"
        if not (self.folder / DESCRIPTION).is_file():
            raise UsageError(
                f"qlib/{name}: {self.folder} holds no trained model; make it: ktdeval train qlib"
                f" qlib/{name} --data DATA"
            )

        self.trained = read_model(self.folder)
        content = self.trained.content
        if content.model != name:
            raise UsageError(f"qlib/{name}: {self.folder} is a trained {content.model}")

        self._pins = {
            "sha256": self.trained.sha256,
            "days": f"{content.used.train.first}:{content.last_day}",
        }
        for field, actual in self._pins.items():
            if (pinned := getattr(params, field)) not in (None, actual):
                raise UsageError(
                    f"qlib/{name}: {self.folder}: {field} is {actual}, not {pinned}; give the "
                    "recorded training"
                )

        self.history_days = self.recipe.days
        self._scaler = content.scaler
        self._lock = threading.Lock()

    @property
    def traits(self) -> ModelTraits:
        """Traits of a rule-based model, with the pinned file and the check that a window lies after
        the training.
        """
        return replace(
            super().traits, recorded_args=self._pins, window_problem=self._window_problem
        )

    def _window_problem(self, window: Window) -> str | None:
        """Return why a window can't be evaluated, which is that it does not lie after the training
        and validation days; None if it can.
        """
        last = self.trained.content.last_day
        if last < window.first:
            return None
        problem = (
            f"window {window.name} ({window.first}:{window.last}) is not after the days of "
            "training and validation"
        )
        return (
            f"qlib/{self.recipe.name}: {problem}, which end on {last}; train on earlier days, or"
            " evaluate later ones (--windows)"
        )

    def predict(self, history: FloatArray) -> FloatArray:
        """Return [N] scores, NaN for names for which no factor is known today. See
        `ktdeval.harness.Predictor`.
        """
        features = step_input(history, self._scaler, self.recipe.layout)
        with self._lock:  # since not all model libraries are thread-safe
            scores = np.asarray(self._predictor.predict(features), dtype=float)
        return np.where(np.isfinite(history[-1]).any(axis=1), scores, np.nan)

    @cached_property
    def _predictor(self) -> TrainedPredictor:
        return load(self.recipe, self.folder)
