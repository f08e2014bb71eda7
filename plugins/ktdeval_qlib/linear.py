"""Linear, the one baseline that trains without the extra: least squares of the suite, equal to pyqlib's LinearModel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ktdeval.stats import least_squares
from ktdeval_qlib.samples import Samples, Scaler, normalised_labels


class LinearEstimator:
    """As `recipes.Estimator`, of one closed form: no rounds, no seed, no threads. `model` has pyqlib's names."""

    def __init__(self) -> None:
        self.model: Any = None
        self.scores: dict[str, list[float]] = {}

    def fit(self, samples: Samples, scaler: Scaler) -> None:
        """Fit normalised ranks of the labels to scaled factors of the samples of training; no intercept, as pyqlib's `ols`."""
        rows = samples.rows("train")
        labels = normalised_labels(samples.labels[rows], "CSRankNorm")
        known = np.isfinite(labels)
        self.model = SimpleNamespace(
            coef_=least_squares(scaler.apply(samples.features[rows])[known], labels[known]), intercept_=0.0
        )
