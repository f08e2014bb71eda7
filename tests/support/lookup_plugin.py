"""A model that looks predictions up, which somebody else made: the nine factors of a name on a day tell which one is meant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ktdeval.fields import option
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.keyless import TopModel, TopParams
from ktdeval.market import FloatArray


@dataclass(frozen=True)
class LookupParams(TopParams):
    table: str = option("table.npz", help="file of numpy with `factors` [S, 9] and `scores` [S]")


class Lookup(TopModel):
    """Predicts what a table says."""

    history_days = 1

    def __init__(self, params: LookupParams) -> None:
        super().__init__(params)
        table = np.load(Path(params.table))
        self._scores = {row.tobytes(): score for row, score in zip(table["factors"], table["scores"], strict=True)}
        assert len(self._scores) == len(table["scores"])

    def predict(self, history: FloatArray) -> FloatArray:
        return np.array([self._scores[row.tobytes()] if np.isfinite(row).any() else np.nan for row in history[-1]])


@hookimpl
def ktdeval_models() -> list[Spec]:
    return [Spec("test/lookup", lambda name, params: Lookup(params), "looks predictions up", LookupParams)]
