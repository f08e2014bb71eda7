"""Performance attribution as metrics: what of the total return the market, styles, selection and trading made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ktdeval.attribution import Attribution, Fit, attribute, attribution_problem, fit_factors
from ktdeval.errors import UsageError
from ktdeval.fields import near_matches
from ktdeval.jsonio import JsonValue
from ktdeval.market import MarketSnapshot
from ktdeval.stats import Bootstrap, Metric, MetricValue, RuleSet, Same, newey_west_mean
from ktdeval.trading import Ledger

_SOURCE = "KTD-Fin §4.5; Carino 1999"
_FIT = "daily weighted least squares of returns on an intercept and nine style exposures of the day before"
TRADING = ("timing", "fees", "rounding")
_Lines = Callable[[Attribution], tuple[str, ...]]
_Detail = Callable[[Attribution, Ledger], Mapping[str, JsonValue]]


# Pure functions of what they are given; cached because each of the metrics asks for the same attribution, and each ledger of a
# window for the same fit. The sizes hold a card's windows, and the metrics of one ledger after the other.
@lru_cache(maxsize=16)
def _fit(market: Same[MarketSnapshot], first_row: int, last_row: int) -> Fit:
    return fit_factors(market.value, first_row, last_row)


@lru_cache(maxsize=4)
def _attribution(ledger: Same[Ledger], market: Same[MarketSnapshot]) -> Attribution:
    first_row = market.value.day_index(ledger.value.days[0])
    return attribute(ledger.value, market.value, _fit(market, first_row, first_row + len(ledger.value.steps) - 1))


@dataclass(slots=True)
class AttributionMetric:
    """A linked part of the total return. See `Metric` for the fields; `lines` names the lines of the attribution that it adds."""

    name: str
    formula: str
    better: Literal["higher", "lower", "neither"]
    lines: _Lines
    detail: _Detail
    unit: str = "fraction"
    range: tuple[float | None, float | None] = (None, None)
    source: str = _SOURCE
    headline: bool = False

    def compute(self, ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
        """Return the part of one episode's total return; the same under both rule sets."""
        del rules
        days = len(ledger.steps)
        if problem := attribution_problem(ledger, market):
            return MetricValue(None, days, problem)
        attribution = _attribution(Same(ledger), Same(market))
        linked = attribution.linked
        if linked.lines is None:
            return MetricValue(None, days, linked.reason)
        value = math.fsum(linked.lines[line] for line in self.lines(attribution))
        return MetricValue(value + 0.0, days, detail=dict(self.detail(attribution, ledger)))


def _linked(attribution: Attribution, names: tuple[str, ...]) -> dict[str, JsonValue]:
    lines = attribution.linked.lines or {}
    return {name: lines[name] + 0.0 for name in names}


def _selection_detail(attribution: Attribution, _: Ledger) -> dict[str, JsonValue]:
    columns = zip(attribution.line_names, attribution.linked_lines.T, strict=True)
    return {
        "linked": _linked(attribution, attribution.line_names),
        # A block bootstrap interval over days of each linked line.
        "intervals": {name: Bootstrap(column).sum().to_json() for name, column in columns},
        "total_return": attribution.linked.total_return,
        "daily": _daily(attribution),
        "mean_exposures": _exposures(attribution, within_holdings=False),
        "mean_exposures_of_holdings": _exposures(attribution, within_holdings=True),
        # Without their meanings, which the docs give: a card has this for every episode.
        "notes": [{name: getattr(note, name) for name in ("kind", "subject", "count", "days")} for note in attribution.notes],
    }


def _daily(attribution: Attribution) -> dict[str, JsonValue]:
    """Mean daily selection with its Newey-West standard error and t statistic."""
    if len(attribution.selection) < 2:
        return {"mean": None, "se": None, "t": None, "reason": "fewer than two days"}
    mean, se = newey_west_mean(attribution.selection)
    if se <= 1e-15:
        return {"mean": mean + 0.0, "se": None, "t": None, "reason": "selection has no variance"}
    return {"mean": mean, "se": se, "t": mean / se, "reason": None}


def _exposures(attribution: Attribution, within_holdings: bool) -> dict[str, JsonValue]:
    """Factor -> exposure averaged over the days on which something was held; null when nothing ever was."""
    values = attribution.mean_exposures(within_holdings)
    named = zip(attribution.factor_names, values, strict=True)
    return {name: float(value) + 0.0 if math.isfinite(value) else None for name, value in named}


# The four parts, in the order in which they add to the total return: formula, better, lines of the attribution, detail.
_PARTS: Mapping[str, tuple[str, Literal["higher", "neither"], _Lines, _Detail]] = {
    "common_return": (
        f"linked sum of w * f0; {_FIT}",
        "neither",
        lambda _: ("common",),
        lambda attribution, _: {"invested": float(attribution.invested.mean())},
    ),
    "style_return": (
        f"linked sum of w * X_k * f_k over the styles; {_FIT}",
        "neither",
        lambda attribution: attribution.factor_names,
        lambda attribution, _: {"linked": _linked(attribution, attribution.factor_names)},
    ),
    "selection_alpha": (f"linked sum of w * residual; {_FIT}", "higher", lambda _: ("selection",), _selection_detail),
    "trading_effect": (
        "linked sum of NAV return - sum of w * return: timing, fees, rounding",
        "higher",
        lambda _: TRADING,
        lambda attribution, _: {"linked": _linked(attribution, TRADING)},
    ),
}


def attribution_metrics() -> list[Metric]:
    """Return the four parts, in the order in which they add to the total return; new objects on each call."""
    return [attribution_metric(name) for name in _PARTS]


def attribution_metric(name: str) -> Metric:
    """One of the four parts; UsageError where there is none of that name."""
    if name not in _PARTS:
        raise UsageError(f"no attribution metric {name!r}{near_matches(name, _PARTS)}")
    formula, better, lines, detail = _PARTS[name]
    return AttributionMetric(name, f"{name}/1: {formula}", better, lines, detail)
