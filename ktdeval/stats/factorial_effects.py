"""Experimental designs over masks and modes: effects of showing stock and date, and contributions
of data and tools.

Masks form a 2×2 factorial experiment (Fisher 1935, Yates 1937). Contrasts are taken within each
(window, seed), so everything common to the four cells cancels. Since contrasts are linear, means of
contrasts are contrasts of means, and the stock effect and the date effect add up to the memory
premium.

The contribution of a piece of information is averaged over the orders in which the pieces can be
given. This is the Shapley value (Shapley 1953; as a decomposition, Shorrocks 2013). If a piece
can't come before another, there are precedence constraints (Faigle and Kern 1992): tools work on
market data, so no order starts with tools. Contributions add up to the total difference, except for
rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval.stats.distributions import student_probability, student_quantile
from ktdeval.stats.metric import MetricValue
from ktdeval.stats.series import TRADING_DAYS, make_undefined
from ktdeval.values.documents.strict_json import JsonValue

#: windows are treated as independent if their correlation from shared days is at most this (one
#: common day in twenty)
INDEPENDENT = 0.05
LENGTH_RATIO = 2  #: maximum ratio of the longest to the shortest window in a figure
_MAX_WEEKDAYS = 262  # days per year
_WEEKEND = (2, 3)  # Saturday and Sunday: 1970-01-01, day 0, was a Thursday
Span = tuple[str, str]  #: first and last day, ISO, both inclusive


def shared_days(one: Span, other: Span) -> int:
    """Return the number of weekdays that two spans share. Public holidays are included, since
    excluding them would require a market calendar.
    """
    first = max(one[0], other[0])
    last = min(one[1], other[1])
    if first > last:
        return 0

    end = np.datetime64(last, "D") + np.timedelta64(1, "D")
    return max(0, int(np.busday_count(first, end)))


def left_out_windows(spans: Mapping[str, Span], days_a_year: int = TRADING_DAYS) -> dict[str, str]:
    """Return the windows excluded from joint figures, with the reasons. Joint figures need windows
    of similar length, each with some days that no other window has.

    Windows are divided into classes by length in weekdays; within a class, no window is longer than
    `LENGTH_RATIO` times the shortest. The class with the most windows is kept (ties: the longer
    windows). Within this class, windows whose days are all covered by other windows are excluded,
    shortest first. If a market has more `days_a_year` than a year has weekdays, weekends also
    count.
    """
    unit = "weekdays" if days_a_year <= _MAX_WEEKDAYS else "days"
    days = {name: _days_of_span(span, unit) for name, span in spans.items()}
    classes: list[list[str]] = []

    for name in sorted(days, key=lambda name: len(days[name])):
        if not classes or len(days[name]) > LENGTH_RATIO * len(days[classes[-1][0]]):
            classes.append([])

        classes[-1].append(name)

    standing = max(reversed(classes), key=len, default=[])
    reasons = {}
    for name in sorted(days.keys() - standing):
        shortest = len(days[standing[0]])
        longest = len(days[standing[-1]])
        reasons[name] = (
            f"has {len(days[name])} {unit}, the others {shortest} to {longest}: the lengths differ"
            f" too much"
        )

    order = {name: index for index, name in enumerate(spans)}
    for name in sorted(standing, key=lambda name: (len(days[name]), -order[name])):
        others = [other for other in standing if other != name and other not in reasons]
        covered: set[int] = set()
        for other in others:
            covered |= days[other]

        if days[name] <= covered:
            sharing = [other for other in spans if other in others and days[other] & days[name]]
            reasons[name] = f"has no day outside {', '.join(sharing)}"

    return {name: reasons[name] for name in spans if name in reasons}


def _days_of_span(span: Span, unit: str) -> set[int]:
    """Return the weekdays or all days in a span, depending on `unit`. If the span lies within a
    weekend, return all days.
    """
    first, last = (int(np.datetime64(day, "D").astype(np.int64)) for day in span)
    every = set(range(first, last + 1))
    if unit == "days":
        return every

    weekdays = {day for day in every if day % 7 not in _WEEKEND}
    return weekdays or every


def overlap_correlation(spans: Sequence[Span]) -> npt.NDArray[np.float64]:
    """Return the correlation of sums of independent daily terms over the spans, `shared days /
    sqrt(days_i * days_j)`: [n, n]. It is positive semi-definite and closely approximates the
    correlation of a single policy's total returns.
    """
    lengths = [max(1, shared_days(span, span)) for span in spans]
    result = np.eye(len(spans))
    for i, one in enumerate(spans):
        for j in range(i):
            shared = shared_days(one, spans[j])
            result[i, j] = shared / math.sqrt(lengths[i] * lengths[j])
            result[j, i] = result[i, j]

    return result


def blocks_of(correlation: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the block of each window. Windows linked by a correlation above `INDEPENDENT`,
    directly or through other windows, form one block. Shape: [n].
    """
    labels = np.arange(len(correlation))
    for i in range(len(correlation)):
        for j in np.flatnonzero(correlation[i, :i] > INDEPENDENT):
            labels[labels == labels[i]] = labels[j]
    return np.asarray(np.unique(labels, return_inverse=True)[1].astype(np.int64))


def effective_count(correlation: npt.NDArray[np.float64]) -> float:
    """Return the number of independent windows whose mean would have the same variance: `n**2 / sum
    of the correlation matrix`.
    """
    n = len(correlation)
    if n == 0:
        return 0.0
    return n**2 / float(correlation.sum())


NO_VARIATION = "no variation: all values are the same"
"""The reason why a mean of equal values has no interval."""


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean over windows with its t interval; `reason` explains a missing interval or mean."""

    value: float | None
    n: int  #: number of values
    low: float | None = None
    high: float | None = None
    se: float | None = None  #: standard error
    t_p: float | None = None  #: two-sided p-value of the t test against zero
    reason: str | None = None


def estimate_mean(
    values: npt.NDArray[np.float64],
    correlation: npt.NDArray[np.float64] | None = None,
    confidence: float = 0.95,
) -> MeanEstimate:
    """Estimate a mean over windows with correlation matrix R. Its variance is `s^2 * 1'R1 / n^2`,
    with s^2 corrected for R and n - 1 degrees of freedom.

    If all values are equal, the standard error is 0 and there is no interval, because values that
    do not vary over these windows do not reveal how they vary over others.
    """
    n = len(values)
    if n == 0:
        return MeanEstimate(None, 0, reason="no window")

    mean = math.fsum(values) / n
    if n == 1:
        return MeanEstimate(mean + 0.0, 1, reason="a single window does not show how windows vary")

    total = float(n if correlation is None else correlation.sum())
    share = (n - total / n) / (n - 1)  # expected sample variance over the true variance
    if share < 1e-9:
        return MeanEstimate(mean + 0.0, n, reason="all windows cover the same days")

    if values.min() == values.max():
        constant = float(values[0]) + 0.0
        t_p = 1.0 if constant == 0 else 0.0
        return MeanEstimate(constant, n, se=0.0, t_p=t_p, reason=NO_VARIATION)

    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1) / share
    error = math.sqrt(variance * total) / n
    half = abs(student_quantile(n - 1, (1 - confidence) / 2)) * error

    t_p = 2.0 * student_probability(n - 1, -abs(mean) / error)

    return MeanEstimate(
        mean + 0.0,  # avoids -0.0, which prints differently
        n,
        low=mean - half + 0.0,
        high=mean + half + 0.0,
        se=error,
        t_p=t_p,
    )


def mean_with_interval(
    values: npt.NDArray[np.float64],
    correlation: npt.NDArray[np.float64] | None = None,
) -> MetricValue:
    """Return `estimate_mean` as a metric value. `detail` holds `low`, `high`, `se` and `t_p`;
    undefined figures are null, with a `reason`.
    """
    mean = estimate_mean(values, correlation)
    if mean.value is None:
        return make_undefined(mean.reason or "", mean.n)

    detail: dict[str, JsonValue] = {
        "low": mean.low,
        "high": mean.high,
        "se": mean.se,
        "t_p": mean.t_p,
    }
    if mean.reason is not None:
        detail["reason"] = mean.reason

    return MetricValue(mean.value, mean.n, detail=detail)


Values = npt.NDArray[np.float64]
Variant = tuple[str, str]  #: mask and mode
MASK_FACTORS: Mapping[str, frozenset[str]] = {
    "bright": frozenset({"stock", "date"}),
    "stock_blind": frozenset({"date"}),
    "date_blind": frozenset({"stock"}),
    "blinded": frozenset(),
}  #: mask -> identities that it leaves visible


MODE_PIECES: Mapping[str, frozenset[str]] = {
    "memory_only": frozenset(),
    "fixed_candidate": frozenset({"data"}),
    "open_research": frozenset({"data", "tools"}),
}  #: mode -> pieces of information that it gives in addition to the account and the handles

#: piece -> pieces that must precede it
MODE_PRECEDENCE: Mapping[str, frozenset[str]] = {"tools": frozenset({"data"})}


def variant_order(variant: Variant) -> tuple[int, int]:
    """Return the rank of a mask and mode in tables. Modes are ordered from least to most
    information and, within each mode, masks from bright to blinded.
    """
    mask, mode = variant
    return list(MODE_PIECES).index(mode), list(MASK_FACTORS).index(mask)


def window_means(
    variants: Sequence[Variant], figures: Mapping[tuple[str, int], Sequence[float]]
) -> tuple[list[str], dict[Variant, Values]]:
    """Return the windows, and each variant's means over seeds, [windows]. `figures`: (window, seed)
    -> figure of each variant.
    """
    by_window: dict[str, list[Sequence[float]]] = {}
    for (window, _), row in figures.items():
        by_window.setdefault(window, []).append(row)
    # Means over seeds, not medians, so that figures that are additive within each (window, seed)
    # are also additive in the table.
    means = np.array([np.mean(rows, axis=0) for rows in by_window.values()]).reshape(
        -1, len(variants)
    )
    return list(by_window), {variant: means[:, column] for column, variant in enumerate(variants)}


def mask_contrasts(cells: Mapping[str, Values]) -> dict[str, Values]:
    """Return the effects that the given masks can reveal. `cells`: mask -> paired values.

    `memory_premium` is bright - blinded. With all four masks, there are also `stock_effect` and
    `date_effect`, each averaged over whether the other identity is visible, and `interaction`,
    which is (bright - stock_blind) - (date_blind - blinded).
    """
    effects: dict[str, Values] = {}
    if {"bright", "blinded"} <= set(cells):
        effects["memory_premium"] = cells["bright"] - cells["blinded"]

    if set(MASK_FACTORS) <= set(cells):
        # Main effects of a 2×2 design (Yates 1937)
        with_date = cells["bright"] - cells["stock_blind"]
        without_date = cells["date_blind"] - cells["blinded"]
        effects["stock_effect"] = (with_date + without_date) / 2.0
        with_stock = cells["bright"] - cells["date_blind"]
        without_stock = cells["stock_blind"] - cells["blinded"]
        effects["date_effect"] = (with_stock + without_stock) / 2.0
        effects["interaction"] = with_date - without_date

    return effects


def orders(
    pieces: Collection[str], precedence: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, ...]]:
    """Yield every order of the pieces in which each piece comes after the pieces that it needs."""
    names = sorted(pieces)
    for order in itertools.permutations(names):
        given: set[str] = set()
        for name in order:
            # A needed piece that is not among the given pieces is present from the start.
            needed = precedence.get(name, frozenset()) & set(names)
            if not needed <= given:
                break
            given.add(name)
        else:  # Faigle and Kern (1992): no piece came before a piece that it needs
            yield order


def order_averaged(
    values: Mapping[frozenset[str], Values],
    precedence: Mapping[str, frozenset[str]] = MODE_PRECEDENCE,
) -> dict[str, Values]:
    """Return the order-averaged contributions of the pieces, which add up to `values[full] -
    values[empty]`. `values`: set of given pieces -> results; `precedence`: piece -> pieces that it
    needs. Raises ValueError if a set along some order has no results.
    """
    bottom = frozenset.intersection(*values)
    pieces = frozenset.union(*values) - bottom
    ways = list(orders(pieces, precedence))
    shape = next(iter(values.values())).shape
    totals = {piece: np.zeros(shape) for piece in sorted(pieces)}

    for order in ways:
        given = bottom
        for piece in order:
            richer = given | {piece}
            if given not in values or richer not in values:
                missing = sorted(richer if given in values else given)
                raise ValueError(f"no results with {', '.join(missing) or 'nothing'} given")

            totals[piece] += values[richer] - values[given]
            given = richer

    # Shapley (1953): all orders have equal weight
    return {piece: total / len(ways) for piece, total in totals.items()}


def ladder_contributions(values: Mapping[frozenset[str], Values]) -> dict[str, Values]:
    """Return order-averaged contributions and their `total`. Pieces that always occur together are
    combined, such as `date and stock`.
    """
    names: dict[tuple[bool, ...], list[str]] = {}
    for piece in sorted(frozenset.union(*values)):
        names.setdefault(tuple(piece in given for given in values), []).append(piece)

    merged: dict[str, str] = {}
    for pieces in names.values():
        merged.update(dict.fromkeys(pieces, " and ".join(pieces)))

    by_name = {}
    for given, results in values.items():
        by_name[frozenset(merged[piece] for piece in given)] = results

    parts = order_averaged(by_name)
    return {**parts, "total": values[max(values, key=len)] - values[min(values, key=len)]}
