"""Are stated confidences probabilities? Outcomes of orders, reliability bins, ECE and the Brier score (KTD-Fin Appendix G)."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import FloatArray, MarketSnapshot
from ktdeval.stats.metric import MetricValue, RuleSet
from ktdeval.stats.series import defined, undefined
from ktdeval.trading.ledger import Ledger

N_BINS = 10
"""Equal-width bins over [0, 1], the number of KTD-Fin Appendix G. A bin holds its lower edge; the last also holds 1."""

# Edges are compared as they are written (0.3, not 3 * 0.1), so a confidence of 0.3 falls into the bin that starts at 0.3.
_EDGES = tuple(k / N_BINS for k in range(N_BINS + 1))
_NO_ORDERS = "no filled order with a next open"


class Forecast(NamedTuple):
    """A stated confidence in [0, 1] and whether the order came out right."""

    confidence: float
    success: bool


class JudgedOrders(NamedTuple):
    """The orders of one or more ledgers as forecasts.

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
    forecasts: list[Forecast] = []
    no_fill = no_next_open = 0
    for step in ledger.steps:
        row = market.day_index(step["filled_on"])
        for order in step["orders"]:
            if not order["filled_shares"]:
                no_fill += 1
                continue
            change = _next_open_return(market, row, market.asset_index[order["code"]])
            if not math.isfinite(change):
                no_next_open += 1
                continue
            forecasts.append(Forecast(float(order["confidence"]), change > 0 if order["side"] == "BUY" else change < 0))
    return JudgedOrders(tuple(forecasts), no_fill, no_next_open)


def _next_open_return(market: MarketSnapshot, row: int, asset: int) -> float:
    """Adjusted return from one open to the next trading day's; NaN where the snapshot has no next open."""
    opens: FloatArray = market.adjusted_open
    return float(opens[row + 1, asset] / opens[row, asset] - 1.0) if row + 1 < len(opens) else math.nan


def pool(judged: Iterable[JudgedOrders]) -> JudgedOrders:
    """The forecasts of several ledgers as one sample."""
    samples = tuple(judged)
    return JudgedOrders(
        tuple(forecast for sample in samples for forecast in sample.forecasts),
        sum(sample.no_fill for sample in samples),
        sum(sample.no_next_open for sample in samples),
    )


def calibration_bins(forecasts: Sequence[Forecast]) -> list[dict[str, JsonValue]]:
    """The reliability table: for each bin that holds a forecast `low`, `high`, `n`, `mean_confidence`, `accuracy`."""
    members: dict[int, list[Forecast]] = {}
    for forecast in forecasts:
        place = min(bisect.bisect_right(_EDGES, forecast.confidence) - 1, N_BINS - 1)
        members.setdefault(place, []).append(forecast)
    return [
        {
            "low": _EDGES[place],
            "high": _EDGES[place + 1],
            "n": len(inside),
            "mean_confidence": math.fsum(forecast.confidence for forecast in inside) / len(inside),
            "accuracy": sum(forecast.success for forecast in inside) / len(inside),
        }
        for place, inside in sorted(members.items())
    ]


def expected_calibration_error(forecasts: Sequence[Forecast]) -> MetricValue:
    """ECE: `sum over bins of n_bin / n * |mean confidence - accuracy|`, in [0, 1]."""
    n = len(forecasts)
    if n == 0:
        return undefined(_NO_ORDERS, 0)
    bins = calibration_bins(forecasts)
    return defined(math.fsum(entry["n"] / n * abs(entry["mean_confidence"] - entry["accuracy"]) for entry in bins), n)


def brier_score(forecasts: Sequence[Forecast]) -> MetricValue:
    """Brier score: the mean of `(confidence - success)**2`, in [0, 1]."""
    n = len(forecasts)
    if n == 0:
        return undefined(_NO_ORDERS, 0)
    errors = [forecast.confidence - forecast.success for forecast in forecasts]
    return defined(math.fsum(error * error for error in errors) / n, n)


def calibration_table(judged: JudgedOrders) -> dict[str, JsonValue]:
    """The `detail` of the calibration metrics: bins, and how many orders were left out and why."""
    return {
        "bins": calibration_bins(judged.forecasts),
        "n": len(judged.forecasts),
        "no_fill": judged.no_fill,
        "no_next_open": judged.no_next_open,
    }


def ece(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Expected calibration error of an episode's orders; `detail` is the reliability table. Both rule sets agree."""
    del rules
    judged = judged_orders(ledger, market)
    figure = expected_calibration_error(judged.forecasts)
    return MetricValue(figure.value, figure.n, figure.reason, calibration_table(judged))


def brier(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Brier score of an episode's orders. Both rule sets agree."""
    del rules
    return brier_score(judged_orders(ledger, market).forecasts)
