"""Are stated confidences probabilities? Outcomes of orders, reliability bins, ECE and the Brier score (KTD-Fin Appendix G)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import FloatArray, MarketSnapshot
from ktdeval.stats.episode import Same, fill_rows
from ktdeval.stats.metric import MetricValue, metric
from ktdeval.stats.series import defined, undefined
from ktdeval.trading.ledger import Ledger

IntArray = npt.NDArray[np.int64]

N_BINS = 10
"""Equal-width bins over [0, 1], the number of KTD-Fin Appendix G. A bin holds its lower edge; the last also holds 1."""

# Edges are compared as they are written (0.3, not 3 * 0.1), so a confidence of 0.3 falls into the bin that starts at 0.3.
_EDGES = tuple(k / N_BINS for k in range(N_BINS + 1))

NO_ORDERS = "no filled order with a next open"
"""Why a calibration figure is not defined."""


class Forecast(NamedTuple):
    """A stated confidence in [0, 1] and whether the order came out right."""

    confidence: float
    success: bool


class JudgedOrders(NamedTuple):
    """Orders of one or more ledgers as forecasts.

    Attributes:
        forecasts: orders with an outcome, in ledger order.
        no_fill: orders left out because nothing was filled.
        no_next_open: filled orders left out because the asset had no open on the next trading day of the snapshot.
    """

    forecasts: tuple[Forecast, ...]
    no_fill: int
    no_next_open: int


def judged_orders(ledger: Ledger, market: MarketSnapshot) -> JudgedOrders:
    """Compare each order's confidence with what the price did next.

    An order with a fill succeeds when the asset's adjusted return from the open of the fill day to the open of the next trading day
    is positive (BUY) or negative (SELL); a zero return is no success. The next open may lie one day after the window.

    Raises:
        DataError: the ledger's days are not days of `market`.
    """
    return _judged(Same(ledger), Same(market))


# A pure function of two values, cached because the metrics of one episode, computed one after the other, all ask for it.
@lru_cache(maxsize=4)
def _judged(same_ledger: Same[Ledger], same_market: Same[MarketSnapshot]) -> JudgedOrders:
    ledger, market = same_ledger.value, same_market.value
    rows = fill_rows(ledger, market).tolist()
    filled = [
        (row, order.code, order)
        for row, step in zip(rows, ledger.steps, strict=True)
        for order in step.orders
        if order.code is not None and order.filled_shares
    ]
    submitted = sum(len(step.orders) for step in ledger.steps)
    columns = market.asset_index
    changes = _next_open_returns(
        market,
        np.array([row for row, _, _ in filled], dtype=np.int64),
        np.array([columns[code] for _, code, _ in filled], dtype=np.int64),
    )
    buys = np.array([order.side == "BUY" for _, _, order in filled], dtype=bool)
    successes = np.where(buys, changes > 0, changes < 0).tolist()
    known = np.isfinite(changes).tolist()
    forecasts = tuple(
        Forecast(float(order.confidence), success)
        for (_, _, order), success, judged in zip(filled, successes, known, strict=True)
        if judged
    )
    return JudgedOrders(forecasts, submitted - len(filled), len(filled) - len(forecasts))


def _next_open_returns(market: MarketSnapshot, rows: IntArray, assets: IntArray) -> FloatArray:
    """Adjusted return from one open to the next trading day's; NaN where the snapshot has no next open."""
    opens = market.adjusted_open
    known = rows + 1 < len(opens)
    changes: FloatArray = np.full(len(rows), np.nan)
    changes[known] = opens[rows[known] + 1, assets[known]] / opens[rows[known], assets[known]] - 1.0
    return changes


def pool(judged: Iterable[JudgedOrders]) -> JudgedOrders:
    """Return the forecasts of several ledgers as one sample."""
    samples = tuple(judged)
    return JudgedOrders(
        tuple(forecast for sample in samples for forecast in sample.forecasts),
        sum(sample.no_fill for sample in samples),
        sum(sample.no_next_open for sample in samples),
    )


def calibration_bins(forecasts: Sequence[Forecast]) -> list[dict[str, JsonValue]]:
    """Return the reliability table: for each bin that holds a forecast `low`, `high`, `n`, `mean_confidence`, `accuracy`."""
    return [
        {
            "low": _EDGES[place],
            "high": _EDGES[place + 1],
            "n": len(inside),
            "mean_confidence": math.fsum(forecast.confidence for forecast in inside) / len(inside),
            "accuracy": sum(forecast.success for forecast in inside) / len(inside),
        }
        for place, inside in grouped(forecasts).items()
    ]


def grouped(forecasts: Sequence[Forecast]) -> dict[int, list[Forecast]]:
    """Return the forecasts of each bin that holds one, by the bin's number, ascending."""
    places = np.searchsorted(_EDGES, [forecast.confidence for forecast in forecasts], side="right") - 1
    members: dict[int, list[Forecast]] = {}
    for place, forecast in zip(np.minimum(places, N_BINS - 1).tolist(), forecasts, strict=True):
        members.setdefault(place, []).append(forecast)
    return dict(sorted(members.items()))


def expected_calibration_error(forecasts: Sequence[Forecast]) -> MetricValue:
    """ECE: `sum over bins of n_bin / n * |mean confidence - accuracy|`, in [0, 1]."""
    n = len(forecasts)
    if n == 0:
        return undefined(NO_ORDERS, 0)
    bins = calibration_bins(forecasts)
    return defined(math.fsum(entry["n"] / n * abs(entry["mean_confidence"] - entry["accuracy"]) for entry in bins), n)


def brier_score(forecasts: Sequence[Forecast]) -> MetricValue:
    """Brier score: the mean of `(confidence - success)**2`, in [0, 1]."""
    n = len(forecasts)
    if n == 0:
        return undefined(NO_ORDERS, 0)
    errors = [forecast.confidence - forecast.success for forecast in forecasts]
    return defined(math.fsum([error * error for error in errors]) / n, n)


def calibration_table(judged: JudgedOrders) -> dict[str, JsonValue]:
    """Return the `detail` of the calibration metrics: bins, and how many orders were left out and why."""
    return {
        "bins": calibration_bins(judged.forecasts),
        "n": len(judged.forecasts),
        "no_fill": judged.no_fill,
        "no_next_open": judged.no_next_open,
    }


@metric(
    "ece",
    formula="ece/1: sum over 10 equal-width bins of n_bin/n*|mean confidence - accuracy|, open to next open",
    unit="probability", better="lower", source="KTD-Fin Appendix G", range=(0.0, 1.0),
)  # fmt: skip
def ece(ledger: Ledger, market: MarketSnapshot) -> MetricValue:
    """Expected calibration error of an episode's orders; `detail` is the reliability table. Both rule sets agree."""
    judged = judged_orders(ledger, market)
    return replace(expected_calibration_error(judged.forecasts), detail=calibration_table(judged))


@metric(
    "brier",
    formula="brier/1: mean (confidence - success)^2, as ece/1",
    unit="score", better="lower", source="KTD-Fin Appendix G", range=(0.0, 1.0),
)  # fmt: skip
def brier(ledger: Ledger, market: MarketSnapshot) -> MetricValue:
    """Brier score of an episode's orders. Both rule sets agree."""
    return brier_score(judged_orders(ledger, market).forecasts)
