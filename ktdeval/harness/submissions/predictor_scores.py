"""Predictions for a step: a `Predictor`'s score and rank for each of today's names. Tied names
share a rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ktdeval.errors import PluginError
from ktdeval.harness.chat_messages import Model, ModelRequest, Predictor
from ktdeval.harness.traits import model_traits
from ktdeval.market.snapshots.snapshot import FloatArray
from ktdeval.masking.aliases_and_noise import round_significant
from ktdeval.values.tie_breaking import places

PREDICTION_DIGITS = 6
"""Significant digits of a recorded prediction. Networks are hardly more precise, and with all
digits of a double, predictions would be most of a run's bytes.
"""


class FactorHistory(NamedTuple):
    """Style factors of some names over some days."""

    assets: Sequence[int]  #: N asset columns of the market
    values: FloatArray  #: [days, N, K] raw values, oldest first


class Predictions(NamedTuple):
    """Predictions for a step, keyed by handle. Names without a prediction are omitted."""

    scores: Mapping[str, float]
    #: rank from 0, the best, by score and then by today's factors; names that tie in everything
    #: share the best of their ranks
    places: Mapping[str, int]


def predictions_of(
    model: Model,
    first: ModelRequest,
    history: Callable[[int], FactorHistory],
    handle_of: Callable[[int], str],
) -> Predictions | None:
    """Return the model's predictions, or the recorded predictions in a replay; None for a model
    that does not predict. `first` is the step's first request. `history` returns the style factors
    of a given number of the latest days. Raises PluginError if the model returns anything other
    than a number for each name.
    """
    recall = model_traits(model).recorded_predictions
    if recall is not None:
        recorded = recall(first)
        if recorded is None:
            return None

        # Today's factors are enough: the scores are known, so the factors only break ties.
        names, factors = history(1)
        handles = [handle_of(name) for name in names]
        scores = np.array([recorded.get(handle, np.nan) for handle in handles], dtype=float)
        return _place_scores(handles, scores, factors)

    if not isinstance(model, Predictor):
        return None

    names, factors = history(model.history_days)
    handles = [handle_of(name) for name in names]
    return _place_scores(handles, _predict_scores(model, factors), factors)


def _place_scores(handles: Sequence[str], scores: FloatArray, factors: FloatArray) -> Predictions:
    """Return scores ([N]) and ranks, keyed by handle. `factors` has the shape [days, N, K]."""
    known = np.flatnonzero(np.isfinite(scores))
    placed = places([scores[known], *factors[-1, known].T])
    shown = [handles[index] for index in known.tolist()]

    return Predictions(
        scores=dict(zip(shown, scores[known].tolist(), strict=True)),
        places=dict(zip(shown, placed, strict=True)),
    )


def _predict_scores(model: Predictor, history: FloatArray) -> FloatArray:
    """Return [N] predictions. The model receives the names ordered by their factors, and equal
    histories get the same score. The mask's order therefore can't affect a prediction, not even
    through rounding.
    """
    latest_first = history[::-1].transpose(0, 2, 1).reshape(-1, history.shape[1])
    placed = np.array(places(list(latest_first)), dtype=np.int64)
    order = np.argsort(placed, kind="stable")
    scores = np.asarray(model.predict(history[:, order]), dtype=float)
    if scores.shape != placed.shape:
        raise PluginError(
            f"{type(model).__name__}.predict gave an array of shape {scores.shape} for"
            f" {len(placed)} names"
        )

    by_name = scores[placed]  # tied names share the rank of the first of them
    return np.array([round_significant(score, PREDICTION_DIGITS) for score in by_name.tolist()])
