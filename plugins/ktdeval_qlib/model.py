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
    """Ranks the index by a trained baseline; a pure function of its history, so one object serves all episodes."""

    is_free = True  # it calls no provider

    def __init__(self, name: str, params: TrainedParams) -> None:
        """Read the training. Raises UsageError: there is none, or not the pinned one; DataError as `read_model`."""
        super().__init__(params)
        self.recipe = recipes()[name]
        self.folder = user_path(params.trained) / name / f"seed-{params.training_seed}"
        if not (self.folder / DESCRIPTION).is_file():
            raise UsageError(f"qlib/{name}: {self.folder} holds no trained model; make it: ktdeval train qlib/{name} --data DATA")
        self.trained = read_model(self.folder)
        content = self.trained.content
        if content.model != name:
            raise UsageError(f"qlib/{name}: {self.folder} is a trained {content.model}")
        self.recorded_args = {"sha256": self.trained.sha256, "days": f"{content.used.train.first}:{content.last_day}"}
        for field, actual in self.recorded_args.items():
            if (pinned := getattr(params, field)) not in (None, actual):
                raise UsageError(f"qlib/{name}: {self.folder}: {field} is {actual}, not {pinned}; name the training that was meant")
        self.history_days = self.recipe.days
        self._scaler = content.scaler
        self._lock = threading.Lock()

    def window_problem(self, window: Window) -> str | None:
        """Return why a window can't be evaluated: it does not lie after the days of training and validation."""
        last = self.trained.content.last_day
        if last < window.first:
            return None
        problem = f"window {window.name} ({window.first}:{window.last}) does not lie after the days of training and validation"
        return f"qlib/{self.recipe.name}: {problem}, which end on {last}; train on earlier days, or evaluate later ones (--windows)"

    def predict(self, history: FloatArray) -> FloatArray:
        """Return [N] scores, NaN where no factor of today is known; as `ktdeval.harness.Predictor`."""
        features = step_input(history, self._scaler, self.recipe.layout)
        with self._lock:  # not all libraries of models are thread-safe
            scores = np.asarray(self._predictor.predict(features), dtype=float)
        return np.where(np.isfinite(history[-1]).any(axis=1), scores, np.nan)

    @cached_property
    def _predictor(self) -> Predictor:
        return load(self.recipe, self.folder)
