"""A model that predicts: the mean 60-day volatility of its look-back; another that predicts nonsense."""

from __future__ import annotations

import numpy as np

from ktdeval.attribution import FACTOR_NAMES
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.keyless import TopModel, TopParams
from ktdeval.market import FloatArray

PLACE = FACTOR_NAMES.index("RV_60")


class Calm(TopModel):
    """Predicts that calm names do best."""

    history_days = 5

    def predict(self, history: FloatArray) -> FloatArray:
        assert history.shape[::2] == (self.history_days, len(FACTOR_NAMES))
        return np.asarray(-history[:, :, PLACE].mean(axis=0))


class Nonsense(TopModel):
    """Predicts for one name too many."""

    history_days = 1

    def predict(self, history: FloatArray) -> FloatArray:
        return np.zeros(history.shape[1] + 1)


@hookimpl
def ktdeval_models() -> list[Spec]:
    return [
        Spec("test/calm", lambda name, params: Calm(params), "calm names do best", TopParams),
        Spec("test/nonsense", lambda name, params: Nonsense(params), "one too many", TopParams),
    ]
