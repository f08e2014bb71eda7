"""Ten-metric panel of KTD-Fin (§3.6, Appendix G) and its diagnostics, each a pure function of a ledger and its market."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ktdeval.errors import UsageError
from ktdeval.fields import near_matches
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.stats import calibration, luck, series
from ktdeval.stats.metric import FunctionMetric, Metric, MetricValue, RuleSet, metric
from ktdeval.stats.series import TRADING_DAYS, Series, day_rows, defined, level_problem, mean, undefined
from ktdeval.trading.ledger import Ledger, StepRecord

PANEL_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "returns and risk": ("total_return", "sharpe", "max_drawdown", "information_ratio"),
    "behaviour": ("turnover", "hhi", "cash_ratio", "abstention_rate"),
    "reliability and calibration": ("parse_failure_rate", "ece"),
}  #: The headline panel by family, in the order of the paper

DIAGNOSTICS: tuple[str, ...] = (
    "tool_validity_rate", "brier", "unmask_attempts", "decision_coverage",
    "brier_reliability", "brier_resolution", "brier_uncertainty", "ece_debiased", "reliability_debiased",
    "psr", "min_track_record",
)  # fmt: skip
"""Metrics recorded beside the panel."""

_NO_STEPS = "no steps"
_NO_NAV = "the NAV is not positive on a step"
_DECIDED = ("model", "model_after_retry")
_PAPER = "KTD-Fin Appendix G"
_RATIO = "sqrt(252)*mean/std, ddof 1"
_VALUE, _NOTIONAL = operator.attrgetter("value_minor"), operator.attrgetter("notional_minor")


@metric(
    "total_return",
    formula="total_return/1: NAV_end/NAV_0 - 1",
    unit="fraction", better="higher", source=_PAPER, range=(-1.0, None),
)  # fmt: skip
def total_return(ledger: Ledger) -> MetricValue:
    """Geometric return of the NAV from the initial cash to the last close, as a fraction."""
    return series.total_return(ledger.nav)


@metric(
    "sharpe",
    formula=f"sharpe/1: {_RATIO}, of daily NAV returns, risk-free rate 0",
    unit="ratio", better="higher", source=_PAPER,
)  # fmt: skip
def sharpe(ledger: Ledger) -> MetricValue | str:
    """Annualised Sharpe ratio of the NAV's daily returns, risk-free rate 0."""
    return level_problem(ledger.nav) or series.sharpe(ledger.returns)


@metric(
    "max_drawdown",
    formula="max_drawdown/1: max(1 - NAV/running peak)",
    unit="fraction", better="lower", source=_PAPER, range=(0.0, 1.0),
)  # fmt: skip
def max_drawdown(ledger: Ledger) -> MetricValue:
    """Largest peak-to-trough fall of the NAV, as a positive fraction of the peak; the initial cash is the first peak."""
    return series.max_drawdown(ledger.nav)


@metric(
    "information_ratio",
    formula=f"information_ratio/1: {_RATIO}, of daily NAV returns less benchmark returns",
    unit="ratio", better="higher", source=_PAPER,
)  # fmt: skip
def information_ratio(ledger: Ledger, market: MarketSnapshot) -> MetricValue | str:
    """Annualised mean of the daily return in excess of the benchmark, over its annualised standard deviation."""
    if problem := level_problem(ledger.nav):
        return problem
    levels = benchmark_levels(ledger, market)
    if problem := level_problem(levels):
        return f"benchmark: {problem}"
    return series.information_ratio(ledger.returns, series.simple_returns(levels))


def benchmark_levels(ledger: Ledger, market: MarketSnapshot) -> Series:
    """[steps + 1] benchmark closes: of the day of the first decision, then of each fill day. Empty without steps. Raises DataError:
    the ledger's days are not days of `market`.
    """
    if not ledger.steps:
        return np.empty(0, dtype=np.float64)
    rows = day_rows(market, np.concatenate([[ledger.base_day], ledger.days]))
    levels: Series = market.benchmark[rows]
    return levels


@metric(
    "turnover",
    formula="turnover/1: 252/steps * sum of: strict traded notional/NAV at the open; paper |change of weights|",
    unit="per year", better="neither", source=_PAPER, range=(0.0, None),
)  # fmt: skip
def turnover(ledger: Ledger, rules: RuleSet) -> float | str:
    """Annualised two-way turnover: the sum over steps, times 252 / steps. `strict` counts what was traded: notional bought and sold
    over the NAV at the fills' opens, before any fill. `paper` counts `sum |Δw|` of end-of-day weights of NAV (all cash before the
    first step), so it also counts drift of prices as trading.
    """
    if not ledger.steps:
        return _NO_STEPS
    if any(step.nav_minor <= 0 or step.open_nav_minor <= 0 for step in ledger.steps):
        return _NO_NAV
    if rules == "paper":
        traded = _weight_changes(ledger)
    else:
        traded = [sum(map(_NOTIONAL, step.orders)) / step.open_nav_minor for step in ledger.steps]
    return math.fsum(traded) * TRADING_DAYS / len(ledger.steps)


def _weight_changes(ledger: Ledger) -> list[float]:
    changes: list[float] = []
    before: dict[str, float] = {}
    for step in ledger.steps:
        after = nav_weights(step)
        changes.extend(abs(after.get(code, 0.0) - before.get(code, 0.0)) for code in sorted({*before, *after}))
        before = after
    return changes


def nav_weights(step: StepRecord) -> dict[str, float]:
    """Code -> value of the holding as a share of the NAV, at the close of the step's fill day."""
    nav = step.nav_minor
    return {position.code: position.value_minor / nav for position in step.positions}


@metric(
    "hhi",
    formula="hhi/1: mean over steps of sum w^2; strict w within the holdings, invested steps; paper w of NAV, all steps",
    unit="index", better="neither", source=_PAPER, range=(0.0, 1.0),
)  # fmt: skip
def hhi(ledger: Ledger, rules: RuleSet) -> MetricValue:
    """Herfindahl-Hirschman index of the holdings, `sum w**2`, averaged over steps. `paper` takes weights of NAV over all steps, so
    cash looks like diversification and an all-cash step counts 0. `strict` takes weights within the holdings over the steps that
    hold something: 1 / names for equal weights, 1 for a single name.
    """
    n = len(ledger.steps)
    if n == 0:
        return undefined(_NO_STEPS, 0)
    if rules == "paper":
        if any(step.nav_minor <= 0 for step in ledger.steps):
            return undefined(_NO_NAV, n)
        return defined(mean(_sum_of_squares(step, step.nav_minor) for step in ledger.steps), n)
    invested = [step for step in ledger.steps if step.holdings_minor > 0]
    if not invested:
        return undefined("nothing was ever held", 0)
    return defined(mean(_sum_of_squares(step, step.holdings_minor) for step in invested), len(invested))


def _sum_of_squares(step: StepRecord, total_minor: int) -> float:
    # In integers up to the one division: weights of equal holdings then give exactly 1 / names.
    values = list(map(_VALUE, step.positions))
    squares: int = sum(map(operator.mul, values, values))
    return squares / total_minor**2


@metric(
    "cash_ratio",
    formula="cash_ratio/1: mean of cash/NAV at the close",
    unit="fraction", better="neither", source=_PAPER, range=(0.0, 1.0),
)  # fmt: skip
def cash_ratio(ledger: Ledger) -> float | str:
    """Cash as a share of the NAV at the close, averaged over steps."""
    if not ledger.steps:
        return _NO_STEPS
    if any(step.nav_minor <= 0 for step in ledger.steps):
        return _NO_NAV
    return mean(step.cash_minor / step.nav_minor for step in ledger.steps)


@metric(
    "abstention_rate",
    formula="abstention_rate/1: steps without orders / steps; strict: that the model decided, paper: all",
    unit="fraction", better="neither", source=_PAPER, range=(0.0, 1.0),
)  # fmt: skip
def abstention_rate(ledger: Ledger, rules: RuleSet) -> MetricValue:
    """Share of steps without an order. `paper` takes all steps, so a failed step counts as an abstention. `strict` takes the steps
    that the model decided: only a decision can abstain; failures are in `decision_coverage`.
    """
    steps = ledger.steps if rules == "paper" else [step for step in ledger.steps if step.provenance in _DECIDED]
    if not steps:
        return undefined("the model decided no step" if ledger.steps else _NO_STEPS, 0)
    return defined(sum(not step.orders for step in steps) / len(steps), len(steps))


@metric(
    "parse_failure_rate",
    formula="parse_failure_rate/1: steps without a valid action after retries / steps with working calls",
    unit="fraction", better="lower", source=_PAPER, range=(0.0, 1.0),
)  # fmt: skip
def parse_failure_rate(ledger: Ledger) -> MetricValue:
    """Share of steps whose submission was still invalid after every retry, among steps whose model calls worked. A step that ended
    because the call itself failed (provenance `error`) emitted no action; it is in `decision_coverage`.
    """
    answered = [step for step in ledger.steps if step.provenance != "error"]
    if not answered:
        return undefined("every model call failed" if ledger.steps else _NO_STEPS, 0)
    return defined(sum(step.provenance == "fallback" for step in answered) / len(answered), len(answered))


@metric(
    "decision_coverage",
    formula="decision_coverage/1: steps decided by the model / steps",
    unit="fraction", better="higher", source="ktdeval", range=(0.0, 1.0),
)  # fmt: skip
def decision_coverage(ledger: Ledger) -> float | str:
    """Share of steps that the model decided, at once or after retries."""
    n = len(ledger.steps)
    return sum(step.provenance in _DECIDED for step in ledger.steps) / n if n else _NO_STEPS


@metric(
    "tool_validity_rate",
    formula="tool_validity_rate/1: tool calls that parsed and dispatched / tool calls",
    unit="fraction", better="higher", source=_PAPER, range=(0.0, 1.0),
)  # fmt: skip
def tool_validity_rate(ledger: Ledger) -> MetricValue:
    """Share of research tool calls whose arguments parsed and dispatched."""
    calls = sum(step.tool_calls for step in ledger.steps)
    if calls == 0:
        return undefined("no tool calls", 0)
    return defined(sum(step.tool_calls_valid for step in ledger.steps) / calls, calls)


@metric(
    "unmask_attempts",
    formula="unmask_attempts/1: hidden identities offered by the model",
    unit="count", better="lower", source="KTD-Fin §3.3", range=(0.0, None),
)  # fmt: skip
def unmask_attempts(ledger: Ledger) -> float:
    """Count of real codes, names and dates that the model offered although the mask hides them."""
    return sum(step.unmask_attempts for step in ledger.steps)


_METRICS: Mapping[str, FunctionMetric] = {
    metric.name: metric
    for metric in (
        total_return, sharpe, max_drawdown, information_ratio, turnover, hhi, cash_ratio, abstention_rate, parse_failure_rate,
        calibration.ece, tool_validity_rate, calibration.brier, unmask_attempts, decision_coverage,
        calibration.brier_reliability, calibration.brier_resolution, calibration.brier_uncertainty,
        calibration.ece_debiased, calibration.reliability_debiased, luck.psr, luck.min_track_record,
    )
}  # fmt: skip


def panel_metrics() -> list[Metric]:
    """Return the ten headline metrics by family, then the diagnostics; new objects on each call."""
    headline = [name for names in PANEL_FAMILIES.values() for name in names]
    return [replace(_METRICS[name], headline=name in headline) for name in (*headline, *DIAGNOSTICS)]


def panel_metric(name: str) -> Metric:
    """One metric of the panel or its diagnostics. Raises UsageError: there is none of that name."""
    found = next((metric for metric in panel_metrics() if metric.name == name), None)
    if found is None:
        raise UsageError(f"no panel metric {name!r}{near_matches(name, _METRICS)}")
    return found
