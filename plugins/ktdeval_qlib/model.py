"""`qlib/NAME`: holds the names that a trained baseline predicts best."""

from __future__ import annotations

import threading
from functools import cached_property

import numpy as np

from ktdeval.contracts import Window
from ktdeval.errors import UsageError
from ktdeval.fields import user_path
from ktdeval.keyless import TopModel
from ktdeval.market import FloatArray
from ktdeval_qlib import TrainedParams
from ktdeval_qlib.model_file import DESCRIPTION, read_model
from ktdeval_qlib.recipes import recipes
from ktdeval_qlib.samples import step_input
from ktdeval_qlib.stored import Predictor, load


class TrainedModel(TopModel):
    """Ranks the index by a trained baseline; pure in its history, so one object serves all episodes."""

    is_free = True  # it calls nobody

    def __init__(self, name: str, params: TrainedParams) -> None:
        """Read the training. Raises UsageError: there is none, or another than the parameters pin; DataError as `read_model`."""
        super().__init__(params)
        self.recipe = recipes()[name]
        self.folder = user_path(params.trained) / name / f"seed-{params.training_seed}"
        if not (self.folder / DESCRIPTION).is_file():
            raise UsageError(f"qlib/{name}: {self.folder} holds no trained model; make it: ktdeval train qlib/{name} --data DATA")
        self.trained = read_model(self.folder)
        told = self.trained.content
        if told.model != name:
            raise UsageError(f"qlib/{name}: {self.folder} is a trained {told.model}")
        self.recorded_args = {"sha256": self.trained.sha256, "days": f"{told.used.train.first}:{told.last_day}"}
        for field, found in self.recorded_args.items():
            if (wanted := getattr(params, field)) not in (None, found):
                raise UsageError(f"qlib/{name}: {self.folder}: {field} is {found}, not {wanted}; name the training that was meant")
        self.history_days = self.recipe.days
        self._scaler = told.scaler
        self._lock = threading.Lock()

    def window_problem(self, window: Window) -> str | None:
        """Why a window can't be evaluated: it does not lie after the days of training and validation."""
        last = self.trained.content.last_day
        if last < window.first:
            return None
        told = f"window {window.name} ({window.first}:{window.last}) does not lie after the days of training and validation"
        return f"qlib/{self.recipe.name}: {told}, which end on {last}; train on earlier days, or evaluate later ones (--windows)"

    def predict(self, history: FloatArray) -> FloatArray:
        """[N] scores; NaN where no factor of today is known. As `ktdeval.harness.Predictor`."""
        features = step_input(history, self._scaler, self.recipe.layout)
        with self._lock:  # libraries of models are not all safe in threads
            scores = np.asarray(self._predictor.predict(features), dtype=float)
        return np.where(np.isfinite(history[-1]).any(axis=1), scores, np.nan)

    @cached_property
    def _predictor(self) -> Predictor:
        return load(self.recipe, self.folder)
