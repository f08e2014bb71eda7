"""Predictions of a step: what a `Predictor` says of each name today, and the place of each name, which ties share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from ktdeval.errors import PluginError
from ktdeval.harness.messages import Model, ModelRequest, Predictor
from ktdeval.market.snapshot import FloatArray
from ktdeval.ties import places


class FactorHistory(NamedTuple):
    """Style factors of some names over some days."""

    assets: Sequence[int]  #: N columns of the market
    values: FloatArray  #: [days, N, K] raw values, oldest first


class Predictions(NamedTuple):
    """Predictions of a step, by handle; names without one are left out."""

    scores: Mapping[str, float]
    #: from 0, the best, by score and then by today's factors; names that are equal in all of them share the first of their places
    places: Mapping[str, int]


def predictions_of(
    model: Model, first: ModelRequest, history: Callable[[int], FactorHistory], handle_of: Callable[[int], str]
) -> Predictions | None:
    """Return the model's predictions: recorded ones where there are such, None of a model that predicts nothing. `first`: the
    step's first request; `history`: of so many days. Raises PluginError: not a number for each name.
    """
    recall = getattr(model, "recorded_predictions", None)
    recorded = recall(first) if recall is not None else None
    if recorded is None and (recall is not None or not hasattr(model, "predict")):
        return None
    names, factors = history(1 if recorded is not None else cast(Predictor, model).history_days)
    handles = [handle_of(name) for name in names]
    if recorded is not None:
        scores = np.array([recorded.get(handle, np.nan) for handle in handles], dtype=float)
    else:
        scores = _predicted(cast(Predictor, model), factors)
    known = np.flatnonzero(np.isfinite(scores))
    placed = places([scores[known], *factors[-1, known].T])
    shown = [handles[index] for index in known.tolist()]
    return Predictions(dict(zip(shown, scores[known].tolist(), strict=True)), dict(zip(shown, placed, strict=True)))


def _predicted(model: Predictor, history: FloatArray) -> FloatArray:
    """Return [N] predictions. The model gets the names in an order of their figures, and equal histories one score: so no order
    that a mask changes reaches a prediction, not even by rounding.
    """
    latest_first = history[::-1].transpose(0, 2, 1).reshape(-1, history.shape[1])
    placed = np.array(places(list(latest_first)), dtype=np.int64)
    order = np.argsort(placed, kind="stable")
    scores = np.asarray(model.predict(history[:, order]), dtype=float)
    if scores.shape != placed.shape:
        raise PluginError(f"{type(model).__name__}.predict gave an array of shape {scores.shape} for {len(placed)} names")
    found: FloatArray = scores[placed]  # a group's place is the rank of its first
    return found
