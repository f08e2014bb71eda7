"""Calibration of stated confidences: outcomes of orders, reliability bins, ECE and the Brier score
(KTD-Fin Appendix G).

The Brier score is decomposed as in Murphy (1973), with the within-bin terms of Stephenson, Coelho
and Jolliffe (2008), which make the decomposition exact for any confidences. With n_k forecasts,
mean confidence c_k and accuracy o_k in bin k, and overall accuracy o,

    brier = reliability - resolution + uncertainty + within
    reliability = sum n_k/n * (c_k - o_k)^2            0 when confidences are frequencies
    resolution  = sum n_k/n * (o_k - o)^2              how far confidences separate orders
    uncertainty = o * (1 - o)                          of the outcomes themselves
    within      = mean of ((c - c_k)^2 - 2 * (c - c_k) * (y - o_k)) over forecasts, for what binning hides

With few outcomes in a bin, its gap looks larger than it is. There are two remedies (Kumar, Liang
and Ma 2019):

* `reliability_debiased`: `sum n_k/n * ((c_k - o_k)^2 - o_k(1 - o_k)/(n_k - 1))`, which is unbiased
  if all confidences in a bin are equal, and can therefore be negative (also Ferro and Fricker
  2012). Bins with one order are omitted.
* `ece_debiased`: ECE minus, in each bin, the amount by which a normal o_k with variance o_k(1 -
  o_k)/n_k raises |c_k - o_k| on average (the mean of a folded normal minus its centre). It removes
  about two fifths of a calibrated model's bias, and at worst 0.01 too much.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.venues.venue import FILLS_OF_MINUTES, FillRule
from ktdeval.stats.intervals import wilson
from ktdeval.stats.metric import FunctionMetric, MetricValue, built_in
from ktdeval.stats.series import Same, day_rows, make_undefined, make_value
from ktdeval.trading.ledger import Ledger, OrderRecord
from ktdeval.trading.minute_fills import mean_prices
from ktdeval.values.documents.strict_json import JsonValue

IntArray = npt.NDArray[np.int64]
#: equal-width bins over [0, 1], as many as in KTD-Fin Appendix G. Each bin includes its lower edge;
#: the last bin also includes 1.
N_BINS = 10
# Edges are compared in decimal form (0.3, not 3 * 0.1), so that a confidence of 0.3 falls into the
# bin that starts at 0.3.
_EDGES = tuple(k / N_BINS for k in range(N_BINS + 1))
NO_ORDERS = "no filled order with a next open"  #: the reason why a calibration figure is undefined


class Forecast(NamedTuple):
    """A stated confidence in [0, 1] and whether the order was right."""

    confidence: float
    success: bool


@dataclass(frozen=True, slots=True)
class JudgedOrders:
    """Orders from one or more ledgers, as forecasts."""

    forecasts: tuple[Forecast, ...]  #: orders with an outcome, in ledger order
    no_fill: int  #: orders omitted because nothing was filled
    #: filled orders omitted because the next price for their return is missing
    no_next_open: int


def judged_orders(ledger: Ledger, market: MarketSnapshot) -> JudgedOrders:
    """Compare each filled order's confidence with its success, judged by the adjusted return from
    the open on the fill day to the next open. A BUY is a success if the return is positive, a SELL
    if it is negative. The next open may be one day after the window. Outside A-shares, it is the
    open on the asset's next day with a bar; if the venue fills at a close, both prices are closes.
    Raises DataError if a day is unknown to `market`.
    """
    return _judge_orders(Same(ledger), Same(market))


# Pure and cached, because several metrics of an episode call this function in turn.
@lru_cache(maxsize=4)
def _judge_orders(same_ledger: Same[Ledger], same_market: Same[MarketSnapshot]) -> JudgedOrders:
    ledger = same_ledger.value
    market = same_market.value
    filled = list(filled_orders(ledger, market))
    forecasts = tuple(
        # KTD-Fin Appendix G requires a positive return for a BUY; a SELL is right if the return is
        # negative.
        Forecast(float(order.confidence), change > 0 if order.side == "BUY" else change < 0)
        for order, change in filled
        if math.isfinite(change)
    )
    submitted = sum(len(step.orders) for step in ledger.steps)

    return JudgedOrders(forecasts, submitted - len(filled), len(filled) - len(forecasts))


def filled_orders(ledger: Ledger, market: MarketSnapshot) -> Iterator[tuple[OrderRecord, float]]:
    """Yield each filled order with its asset's `next_return`, in ledger order. Raises DataError if
    a day is unknown to `market`.
    """
    for row, step in zip(day_rows(market, ledger.days).tolist(), ledger.steps, strict=True):
        for order in step.orders:
            if order.code is not None and order.filled_shares:
                yield (
                    order,
                    next_return(
                        market, row, market.asset_index[order.code], ledger.fill(order.code)
                    ),
                )


def next_return(
    market: MarketSnapshot, row: int, asset: int, fill: FillRule | None = None
) -> float:
    """Return the adjusted return of an asset from its fill on day `row` to its next price of the
    same kind. Without `fill`, the return is from the open on day `row` to the next trading day's
    open, as for A-shares. NaN if a price is missing.
    """
    if fill is None:
        opens = market.adjusted_open[:, asset]
        if row + 1 >= len(opens):
            return math.nan
        return float(opens[row + 1] / opens[row] - 1.0)

    prices = market.adjusted_close
    if fill == "next_open":
        prices = market.adjusted_open
    elif fill in FILLS_OF_MINUTES:
        prices = mean_prices(market, fill)

    of_asset = prices[:, asset]
    # `same_close`: filled at the decision day's close
    filled = row - 1 if fill == "same_close" else row
    later = np.flatnonzero(np.isfinite(of_asset[filled + 1 :]))
    if not later.size:
        return math.nan
    return float(of_asset[filled + 1 + later[0]] / of_asset[filled] - 1.0)


def pool(judged: Iterable[JudgedOrders]) -> JudgedOrders:
    """Return the forecasts of several ledgers as a single sample."""
    forecasts: list[Forecast] = []
    no_fill = 0
    no_next_open = 0
    for sample in judged:
        forecasts += sample.forecasts
        no_fill += sample.no_fill
        no_next_open += sample.no_next_open

    return JudgedOrders(tuple(forecasts), no_fill, no_next_open)


@dataclass(frozen=True, slots=True)
class ForecastBin:
    """A non-empty bin of the reliability table."""

    low: float
    high: float
    n: int
    mean_confidence: float
    accuracy: float

    @property
    def gap(self) -> float:
        """Distance between mean confidence and accuracy."""
        return abs(self.mean_confidence - self.accuracy)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the bin as a JSON object."""
        return asdict(self)


def calibration_bins(forecasts: Sequence[Forecast]) -> list[ForecastBin]:
    """Return the reliability table: all non-empty bins."""
    bins = []
    for number, inside in group_forecasts(forecasts).items():
        confidence, accuracy = _means(inside)
        low = _EDGES[number]
        high = _EDGES[number + 1]
        bins.append(ForecastBin(low, high, len(inside), confidence, accuracy))

    return bins


def _means(forecasts: Sequence[Forecast]) -> tuple[float, float]:
    """Return the mean confidence and the accuracy."""
    n = len(forecasts)
    return (
        math.fsum(forecast.confidence for forecast in forecasts) / n,
        sum(forecast.success for forecast in forecasts) / n,
    )


def group_forecasts(forecasts: Sequence[Forecast]) -> dict[int, list[Forecast]]:
    """Return the forecasts in each non-empty bin, keyed by bin number in ascending order."""
    confidences = [forecast.confidence for forecast in forecasts]
    numbers = np.searchsorted(_EDGES, confidences, side="right") - 1
    inside = np.minimum(numbers, N_BINS - 1).tolist()  # 1.0 belongs to the last bin
    members: dict[int, list[Forecast]] = {}
    for number, forecast in zip(inside, forecasts, strict=True):
        members.setdefault(number, []).append(forecast)
    return dict(sorted(members.items()))


def expected_calibration_error(forecasts: Sequence[Forecast]) -> MetricValue:
    """Return the expected calibration error (ECE): `sum over bins of n_bin / n * |mean confidence -
    accuracy|`, in [0, 1].
    """
    n = len(forecasts)
    if n == 0:
        return make_undefined(NO_ORDERS, 0)

    # KTD-Fin Appendix G: weighted mean of absolute gaps
    error = math.fsum(entry.n / n * entry.gap for entry in calibration_bins(forecasts))
    return make_value(error, n)


def brier_score(forecasts: Sequence[Forecast]) -> MetricValue:
    """Return the Brier score, the mean of `(confidence - success)**2`, in [0, 1]."""
    n = len(forecasts)
    if n == 0:
        return make_undefined(NO_ORDERS, 0)
    # Brier score of KTD-Fin Appendix G
    errors = [forecast.confidence - forecast.success for forecast in forecasts]
    return make_value(math.fsum([error * error for error in errors]) / n, n)


def calibration_table(judged: JudgedOrders) -> dict[str, JsonValue]:
    """Return the `detail` of the calibration metrics: the bins, the number of orders, and the
    numbers of orders omitted for each reason.
    """
    return {
        "bins": [entry.to_json() for entry in calibration_bins(judged.forecasts)],
        "n": len(judged.forecasts),
        "no_fill": judged.no_fill,
        "no_next_open": judged.no_next_open,
    }


@built_in
def ece(ledger: Ledger, market: MarketSnapshot) -> MetricValue:
    """Expected calibration error of an episode's orders; `detail` is the reliability table. Both
    rule sets agree.
    """
    judged = judged_orders(ledger, market)
    return replace(expected_calibration_error(judged.forecasts), detail=calibration_table(judged))


@built_in
def brier(ledger: Ledger, market: MarketSnapshot) -> MetricValue:
    """Brier score of an episode's orders. Both rule sets agree."""
    return brier_score(judged_orders(ledger, market).forecasts)


@dataclass(frozen=True, slots=True)
class BrierTerms:
    """Terms of the Brier score's decomposition: `brier = reliability - resolution + uncertainty +
    within`.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within: float


def brier_terms(forecasts: Sequence[Forecast]) -> BrierTerms | None:
    """Return the decomposition of the Brier score over the ten bins of the reliability table; None
    if there are no forecasts.
    """
    n = len(forecasts)
    if n == 0:
        return None

    base = sum(forecast.success for forecast in forecasts) / n
    reliability: list[float] = []
    resolution: list[float] = []
    within: list[float] = []
    for inside in group_forecasts(forecasts).values():
        share = len(inside) / n
        confidence, accuracy = _means(inside)
        reliability.append(share * (confidence - accuracy) ** 2)
        resolution.append(share * (accuracy - base) ** 2)
        for stated, success in inside:
            # Stephenson, Coelho and Jolliffe 2008
            deviation = stated - confidence
            within.append(deviation * (deviation - 2.0 * (success - accuracy)) / n)

    return BrierTerms(
        reliability=math.fsum(reliability),
        resolution=math.fsum(resolution),
        uncertainty=base * (1.0 - base),
        within=math.fsum(within),
    )


def debiased_calibration_error(forecasts: Sequence[Forecast]) -> MetricValue:
    """Return the ECE minus its bias, but at least 0. `detail` has the `plain` ECE and the
    `bias`.
    """
    n = len(forecasts)
    if n == 0:
        return make_undefined(NO_ORDERS, 0)

    gaps: list[float] = []
    biases: list[float] = []
    for entry in calibration_bins(forecasts):
        share = entry.n / n
        # Kumar, Liang and Ma (2019): the accuracy in a bin is treated as normal
        spread = math.sqrt(entry.accuracy * (1.0 - entry.accuracy) / entry.n)
        gaps.append(share * entry.gap)
        biases.append(share * (_folded_mean(entry.gap, spread) - entry.gap))

    plain = math.fsum(gaps)
    bias = math.fsum(biases)
    return MetricValue(max(plain - bias, 0.0), n, detail={"plain": plain, "bias": bias})


def debiased_reliability(forecasts: Sequence[Forecast]) -> MetricValue:
    """Return the reliability term minus its bias, over bins with at least two orders. The result
    may be negative.
    """
    bins = [entry for entry in calibration_bins(forecasts) if entry.n > 1]
    n = sum(entry.n for entry in bins)
    if n == 0:
        return make_undefined("no bin holds two orders" if forecasts else NO_ORDERS, 0)

    terms = []
    for entry in bins:
        # Kumar, Liang and Ma 2019; Ferro and Fricker 2012
        variance = entry.accuracy * (1.0 - entry.accuracy) / (entry.n - 1)
        terms.append(entry.n / n * ((entry.mean_confidence - entry.accuracy) ** 2 - variance))

    return make_value(math.fsum(terms), n)


def _folded_mean(centre: float, spread: float) -> float:
    """Return the mean of |X| for a normal X."""
    if spread == 0:
        return abs(centre)
    ratio = centre / spread
    return spread * math.sqrt(2 / math.pi) * math.exp(-ratio * ratio / 2) + centre * math.erf(
        ratio / math.sqrt(2)
    )


def reliability_points(forecasts: Sequence[Forecast]) -> list[dict[str, JsonValue]]:
    """Return the bins as JSON, with a 95 % Wilson interval for the accuracy (`accuracy_low`,
    `accuracy_high`). Orders on the same day share the day's market move, so the intervals are too
    narrow; the page with the diagram says so.
    """
    points = []
    for entry in calibration_bins(forecasts):
        interval = wilson(round(entry.n * entry.accuracy), entry.n)
        ends = {"accuracy_low": interval.low, "accuracy_high": interval.high}
        points.append(entry.to_json() | ends)
    return points


def _term(name: str) -> FunctionMetric:
    """Metric `brier_NAME`: one term of an episode's Brier score. Both rule sets agree."""

    def of(ledger: Ledger, market: MarketSnapshot) -> MetricValue:
        forecasts = judged_orders(ledger, market).forecasts
        terms = brier_terms(forecasts)
        if terms is None:
            return make_undefined(NO_ORDERS, 0)
        return make_value(float(getattr(terms, name)), len(forecasts))

    of.__name__ = f"brier_{name}"
    return built_in(of)


brier_reliability, brier_resolution, brier_uncertainty = map(
    _term, ("reliability", "resolution", "uncertainty")
)


@built_in
def ece_debiased(ledger: Ledger, market: MarketSnapshot) -> MetricValue:
    """Expected calibration error minus the bias from few orders; `detail` is the reliability table,
    plain ECE and bias.
    """
    judged = judged_orders(ledger, market)
    table = calibration_table(judged)
    error = debiased_calibration_error(judged.forecasts)
    if isinstance(error.detail, dict):
        table |= error.detail

    return replace(error, detail=table)


@built_in
def reliability_debiased(ledger: Ledger, market: MarketSnapshot) -> MetricValue:
    """Unbiased squared calibration error of an episode's orders. Both rule sets agree."""
    return debiased_reliability(judged_orders(ledger, market).forecasts)
