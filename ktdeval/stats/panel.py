"""The ten-metric panel of KTD-Fin (§3.6, Appendix G) and its diagnostics, each a pure function of a ledger and its market."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ktdeval.errors import UsageError
from ktdeval.fields import near_matches
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.stats import calibration, calibration_terms, luck, series
from ktdeval.stats.episode import day_rows
from ktdeval.stats.metric import Metric, MetricValue, Range, RuleSet
from ktdeval.stats.series import TRADING_DAYS, Series, defined, level_problem, mean, undefined
from ktdeval.trading.ledger import Ledger, StepRecord

MetricFunction = Callable[[Ledger, MarketSnapshot, RuleSet], MetricValue]

PANEL_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "returns and risk": ("total_return", "sharpe", "max_drawdown", "information_ratio"),
    "behaviour": ("turnover", "hhi", "cash_ratio", "abstention_rate"),
    "reliability and calibration": ("parse_failure_rate", "ece"),
}
"""The headline panel by family, in the order of the paper."""

DIAGNOSTICS: tuple[str, ...] = (
    "tool_validity_rate", "brier", "unmask_attempts", "decision_coverage",
    "brier_reliability", "brier_resolution", "brier_uncertainty", "ece_debiased", "reliability_debiased",
    "psr", "min_track_record",
)  # fmt: skip
"""Metrics recorded beside the panel."""

_NO_STEPS = "no steps"
_NO_NAV = "the NAV is not positive on a step"
_DECIDED = ("model", "model_after_retry")
_VALUE_FEN, _NOTIONAL_FEN = operator.itemgetter("value_fen"), operator.itemgetter("notional_fen")


def total_return(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Geometric return of the NAV from the initial cash to the last close, as a fraction."""
    del market, rules
    return series.total_return(ledger.nav)


def sharpe(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Annualised Sharpe ratio of the NAV's daily returns, risk-free rate 0."""
    del market, rules
    problem = level_problem(ledger.nav)
    return undefined(problem, len(ledger.steps)) if problem else series.sharpe(ledger.returns)


def max_drawdown(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Largest peak-to-trough fall of the NAV, as a positive fraction of the peak; the initial cash is the first peak."""
    del market, rules
    return series.max_drawdown(ledger.nav)


def information_ratio(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Annualised mean of the daily return in excess of the benchmark, over its annualised standard deviation."""
    del rules
    n = len(ledger.steps)
    if problem := level_problem(ledger.nav):
        return undefined(problem, n)
    levels = benchmark_levels(ledger, market)
    if problem := level_problem(levels):
        return undefined(f"benchmark: {problem}", n)
    return series.information_ratio(ledger.returns, series.simple_returns(levels))


def benchmark_levels(ledger: Ledger, market: MarketSnapshot) -> Series:
    """[steps + 1] benchmark closes: of the day of the first decision, then of each fill day. Empty without steps.

    Raises:
        DataError: the ledger's days are not days of `market`.
    """
    if not ledger.steps:
        return np.empty(0, dtype=np.float64)
    rows = day_rows(market, np.concatenate([[ledger.base_day], ledger.days]))
    levels: Series = market.benchmark[rows]
    return levels


def turnover(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Annualised two-way turnover: the sum over steps, times 252 / steps.

    `strict` counts what was traded: notional bought and sold over the NAV at the fills' opens, before any fill. `paper` counts
    `sum |Δw|` of end-of-day weights of NAV (all cash before the first step), so it also counts drift of prices as trading.
    """
    del market
    n = len(ledger.steps)
    if n == 0:
        return undefined(_NO_STEPS, 0)
    if any(step["nav_fen"] <= 0 or step["open_nav_fen"] <= 0 for step in ledger.steps):
        return undefined(_NO_NAV, n)
    traded = _traded_share(ledger) if rules == "strict" else _weight_changes(ledger)
    return defined(math.fsum(traded) * TRADING_DAYS / n, n)


def _traded_share(ledger: Ledger) -> list[float]:
    return [sum(map(_NOTIONAL_FEN, step["orders"])) / step["open_nav_fen"] for step in ledger.steps]


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
    nav = step["nav_fen"]
    return {position["code"]: position["value_fen"] / nav for position in step["positions"]}


def hhi(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Herfindahl-Hirschman index of the holdings, `sum w**2`, averaged over steps.

    `paper` takes weights of NAV over all steps, so cash looks like diversification and an all-cash step counts 0. `strict` takes
    weights within the holdings over the steps that hold something: 1 / names for equal weights, 1 for a single name.
    """
    del market
    n = len(ledger.steps)
    if n == 0:
        return undefined(_NO_STEPS, 0)
    if rules == "paper":
        if any(step["nav_fen"] <= 0 for step in ledger.steps):
            return undefined(_NO_NAV, n)
        return defined(mean(_sum_of_squares(step, step["nav_fen"]) for step in ledger.steps), n)
    invested = [step for step in ledger.steps if step["holdings_fen"] > 0]
    if not invested:
        return undefined("nothing was ever held", 0)
    return defined(mean(_sum_of_squares(step, step["holdings_fen"]) for step in invested), len(invested))


def _sum_of_squares(step: StepRecord, total_fen: int) -> float:
    # In integers up to the one division: weights of equal holdings then give exactly 1 / names.
    values = list(map(_VALUE_FEN, step["positions"]))
    squares: int = sum(map(operator.mul, values, values))
    return squares / total_fen**2


def cash_ratio(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Cash as a share of the NAV at the close, averaged over steps."""
    del market, rules
    n = len(ledger.steps)
    if n == 0:
        return undefined(_NO_STEPS, 0)
    if any(step["nav_fen"] <= 0 for step in ledger.steps):
        return undefined(_NO_NAV, n)
    return defined(mean(step["cash_fen"] / step["nav_fen"] for step in ledger.steps), n)


def abstention_rate(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Share of steps without an order.

    `paper` takes all steps, so a failed step counts as an abstention. `strict` takes the steps that the model decided: only a
    decision can abstain; failures are in `decision_coverage`.
    """
    del market
    steps = ledger.steps if rules == "paper" else [step for step in ledger.steps if step["provenance"] in _DECIDED]
    if not steps:
        return undefined("the model decided no step" if ledger.steps else _NO_STEPS, 0)
    return defined(sum(not step["orders"] for step in steps) / len(steps), len(steps))


def parse_failure_rate(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Share of steps whose submission was still invalid after every retry, among steps whose model calls worked.

    A step that ended because the call itself failed (provenance `error`) emitted no action; it is in `decision_coverage`.
    """
    del market, rules
    answered = [step for step in ledger.steps if step["provenance"] != "error"]
    if not answered:
        return undefined("every model call failed" if ledger.steps else _NO_STEPS, 0)
    return defined(sum(step["provenance"] == "fallback" for step in answered) / len(answered), len(answered))


def decision_coverage(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Share of steps that the model decided, at once or after retries."""
    del market, rules
    n = len(ledger.steps)
    return defined(sum(step["provenance"] in _DECIDED for step in ledger.steps) / n, n) if n else undefined(_NO_STEPS, 0)


def tool_validity_rate(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """Share of research tool calls whose arguments parsed and dispatched."""
    del market, rules
    calls = sum(step["tool_calls"] for step in ledger.steps)
    if calls == 0:
        return undefined("no tool calls", 0)
    return defined(sum(step["tool_calls_valid"] for step in ledger.steps) / calls, calls)


def unmask_attempts(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
    """How often the model offered a real code, name or date that the mask hides."""
    del market, rules
    return defined(sum(step["unmask_attempts"] for step in ledger.steps), len(ledger.steps))


@dataclass(slots=True)
class PanelMetric:
    """A metric of the panel: its card entry and its function. See `ktdeval.stats.metric.Metric` for the fields."""

    name: str
    formula: str
    unit: str
    range: Range
    better: Literal["higher", "lower", "neither"]
    source: str
    function: MetricFunction
    headline: bool = True

    def compute(self, ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
        """The metric of one episode."""
        return self.function(ledger, market, rules)


_PAPER = "KTD-Fin Appendix G"
_ANY: Range = (None, None)
_SHARE: Range = (0.0, 1.0)
_POSITIVE: Range = (0.0, None)


def _returns_and_risk() -> list[PanelMetric]:
    ratio = "sqrt(252)*mean/std, ddof 1"
    return [
        PanelMetric(
            "total_return", "total_return/1: NAV_end/NAV_0 - 1", "fraction", (-1.0, None), "higher", _PAPER, total_return,
        ),
        PanelMetric(
            "sharpe", f"sharpe/1: {ratio}, of daily NAV returns, risk-free rate 0", "ratio", _ANY, "higher", _PAPER, sharpe,
        ),
        PanelMetric(
            "max_drawdown", "max_drawdown/1: max(1 - NAV/running peak)", "fraction", _SHARE, "lower", _PAPER, max_drawdown,
        ),
        PanelMetric(
            "information_ratio", f"information_ratio/1: {ratio}, of daily NAV returns less benchmark returns",
            "ratio", _ANY, "higher", _PAPER, information_ratio,
        ),
    ]  # fmt: skip


def _behaviour() -> list[PanelMetric]:
    return [
        PanelMetric(
            "turnover", "turnover/1: 252/steps * sum of: strict traded notional/NAV at the open; paper |change of weights|",
            "per year", _POSITIVE, "neither", _PAPER, turnover,
        ),
        PanelMetric(
            "hhi", "hhi/1: mean over steps of sum w^2; strict w within the holdings, invested steps; paper w of NAV, all steps",
            "index", _SHARE, "neither", _PAPER, hhi,
        ),
        PanelMetric(
            "cash_ratio", "cash_ratio/1: mean of cash/NAV at the close", "fraction", _SHARE, "neither", _PAPER, cash_ratio,
        ),
        PanelMetric(
            "abstention_rate", "abstention_rate/1: steps without orders / steps; strict: that the model decided, paper: all",
            "fraction", _SHARE, "neither", _PAPER, abstention_rate,
        ),
    ]  # fmt: skip


def _reliability() -> list[PanelMetric]:
    return [
        PanelMetric(
            "parse_failure_rate", "parse_failure_rate/1: steps without a valid action after retries / steps with working calls",
            "fraction", _SHARE, "lower", _PAPER, parse_failure_rate,
        ),
        PanelMetric(
            "ece", "ece/1: sum over 10 equal-width bins of n_bin/n*|mean confidence - accuracy|, open to next open",
            "probability", _SHARE, "lower", _PAPER, calibration.ece,
        ),
    ]  # fmt: skip


def _diagnostics() -> list[PanelMetric]:
    return [
        PanelMetric(
            "tool_validity_rate", "tool_validity_rate/1: tool calls that parsed and dispatched / tool calls",
            "fraction", _SHARE, "higher", _PAPER, tool_validity_rate, False,
        ),
        PanelMetric(
            "brier", "brier/1: mean (confidence - success)^2, as ece/1", "score", _SHARE, "lower", _PAPER, calibration.brier, False,
        ),
        PanelMetric(
            "unmask_attempts", "unmask_attempts/1: hidden identities offered by the model", "count", _POSITIVE, "lower",
            "KTD-Fin §3.3", unmask_attempts, False,
        ),
        PanelMetric(
            "decision_coverage", "decision_coverage/1: steps decided by the model / steps", "fraction", _SHARE, "higher", "ktdeval",
            decision_coverage, False,
        ),
    ]  # fmt: skip


def _calibration_terms() -> list[PanelMetric]:
    murphy, kumar = "Murphy 1973; Stephenson, Coelho and Jolliffe 2008", "Kumar, Liang and Ma 2019"
    return [
        PanelMetric(
            "brier_reliability", "brier_reliability/1: sum over 10 bins of n_bin/n*(mean confidence - accuracy)^2",
            "score", _SHARE, "lower", murphy, calibration_terms.brier_reliability, False,
        ),
        PanelMetric(
            "brier_resolution", "brier_resolution/1: sum over 10 bins of n_bin/n*(accuracy - base rate)^2",
            "score", (0.0, 0.25), "higher", murphy, calibration_terms.brier_resolution, False,
        ),
        PanelMetric(
            "brier_uncertainty", "brier_uncertainty/1: base rate*(1 - base rate)", "score", (0.0, 0.25), "neither", murphy,
            calibration_terms.brier_uncertainty, False,
        ),
        PanelMetric(
            "ece_debiased", "ece_debiased/1: ece/1 less, for each bin, E|N(gap, accuracy*(1-accuracy)/n_bin)| - |gap|; at least 0",
            "probability", _SHARE, "lower", kumar, calibration_terms.ece_debiased, False,
        ),
        PanelMetric(
            "reliability_debiased", "reliability_debiased/1: brier_reliability/1 less accuracy*(1-accuracy)/(n_bin-1), n_bin > 1",
            "score", (-0.25, 1.0), "lower", kumar, calibration_terms.reliability_debiased, False,
        ),
    ]  # fmt: skip


def _luck() -> list[PanelMetric]:
    return [
        PanelMetric(
            "psr", "psr/1: Phi(SR*sqrt(days - 1)/sqrt(1 - skew*SR + (kurtosis - 1)/4*SR^2)), SR a day's Sharpe ratio",
            "probability", _SHARE, "higher", "Bailey and López de Prado 2012", luck.psr, False,
        ),
        PanelMetric(
            "min_track_record", "min_track_record/1: (1 + (1 - skew*SR + (kurtosis - 1)/4*SR^2)*(1.645/SR)^2)/252",
            "years", _POSITIVE, "lower", "Bailey and López de Prado 2012", luck.min_track_record, False,
        ),
    ]  # fmt: skip


def panel_metrics() -> list[Metric]:
    """The ten headline metrics by family, then the diagnostics; new objects on each call."""
    return [*_returns_and_risk(), *_behaviour(), *_reliability(), *_diagnostics(), *_calibration_terms(), *_luck()]


def panel_metric(name: str) -> Metric:
    """One metric of the panel or its diagnostics.

    Raises:
        UsageError: there is none of that name.
    """
    known = {metric.name: metric for metric in panel_metrics()}
    if name not in known:
        raise UsageError(f"no panel metric {name!r}{near_matches(name, known)}")
    return known[name]
