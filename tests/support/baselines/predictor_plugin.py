"""Models that predict: the mean 60-day volatility of the look-back, nonsense, and what a table says
that somebody else made.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ktdeval.attribution import FACTOR_NAMES
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.keyless import TopModel, TopParams
from ktdeval.market import FloatArray
from ktdeval.values import option

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


@dataclass(frozen=True)
class LookupParams(TopParams):
    table: str = option("table.npz", help="file of numpy with `factors` [S, 9] and `scores` [S]")


class Lookup(TopModel):
    """Predicts what a table says: the nine factors of a name on a day tell which one is meant."""

    history_days = 1

    def __init__(self, params: LookupParams) -> None:
        super().__init__(params)
        table = np.load(Path(params.table))
        self._scores = {
            row.tobytes(): score
            for row, score in zip(table["factors"], table["scores"], strict=True)
        }

        assert len(self._scores) == len(table["scores"])

    def predict(self, history: FloatArray) -> FloatArray:
        return np.array(
            [
                self._scores[row.tobytes()] if np.isfinite(row).any() else np.nan
                for row in history[-1]
            ]
        )


@hookimpl
def ktdeval_models() -> list[Spec]:
    return [
        Spec("test/calm", lambda name, params: Calm(params), "calm names do best", TopParams),
        Spec("test/nonsense", lambda name, params: Nonsense(params), "one too many", TopParams),
        Spec(
            "test/lookup", lambda name, params: Lookup(params), "looks predictions up", LookupParams
        ),
    ]
