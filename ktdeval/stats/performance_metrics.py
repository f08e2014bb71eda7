"""Ten-metric panel of KTD-Fin (§3.6, Appendix G) and its diagnostics, each a pure function of a
ledger and its market.
"""

from __future__ import annotations

import math
import operator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.stats import series
from ktdeval.stats.metric import MetricValue, RuleSet, built_in
from ktdeval.stats.series import (
    Series,
    day_rows,
    level_problem,
    make_undefined,
    make_value,
    mean,
)
from ktdeval.trading.ledger import CONSTRAINT_AFTER_RETRIES, Ledger, StepRecord
from ktdeval.trading.types import DECIDED

ANNUALISED = ("sharpe", "sortino", "information_ratio", "turnover", "min_track_record")
"""Metrics whose formula contains the number of days a year, which depends on the market's
venues.
"""
_LARGEST_DIVIDEND = 0.1  #: maximum daily rise of an adjustment factor that is taken as a dividend
NO_DIVIDENDS = "no adjustment factor of the market rises as a dividend does: they hold splits alone"
_NO_STEPS = "no steps"
_NEVER_DECIDED = "the model decided no step"
_NO_NAV = "the NAV is not positive on a step"
_VALUE = operator.attrgetter("value_minor")


@built_in
def total_return(ledger: Ledger) -> MetricValue:
    """Geometric return of the NAV from the initial cash to the last close, as a fraction."""
    return series.total_return(ledger.nav)


@built_in
def sharpe(ledger: Ledger) -> MetricValue | str:
    """Annualised Sharpe ratio of the NAV's daily returns, risk-free rate 0."""
    problem = level_problem(ledger.nav)
    if problem:
        return problem
    return series.sharpe(ledger.returns, ledger.days_a_year, ledger.return_resolution)


@built_in
def sortino(ledger: Ledger) -> MetricValue | str:
    """Annualised Sortino ratio of the NAV's daily returns, target 0; the downside deviation is over
    all days.
    """
    problem = level_problem(ledger.nav)
    if problem:
        return problem
    return series.sortino(ledger.returns, ledger.days_a_year, ledger.return_resolution)


@built_in
def max_drawdown(ledger: Ledger) -> MetricValue:
    """Largest peak-to-trough fall of the NAV, as a positive fraction of the peak; the initial cash
    is the first peak.
    """
    return series.max_drawdown(ledger.nav)


@built_in
def information_ratio(ledger: Ledger, market: MarketSnapshot) -> MetricValue | str:
    """Annualised mean of the daily excess return over the benchmark, divided by its annualised
    standard deviation.
    """
    problem = level_problem(ledger.nav)
    if problem:
        return problem

    levels = benchmark_levels(ledger, market)
    problem = benchmark_problem(market, levels)
    if problem:
        return f"benchmark: {problem}"

    # KTD-Fin Appendix G: daily excess return over the index
    benchmark_returns = series.simple_returns(levels)
    ratio = series.information_ratio(
        ledger.returns, benchmark_returns, ledger.days_a_year, ledger.return_resolution
    )
    if market.meta.synthetic or not market.meta.has_factor:
        return ratio

    growth = dividend_growth(market, day_rows(market, ledger.days))
    if growth is None:
        return replace(ratio, detail={"dividend_growth": None, "reason": NO_DIVIDENDS})
    return replace(ratio, detail={"dividend_growth": growth})


def dividend_growth(market: MarketSnapshot, rows: npt.NDArray[np.int64]) -> float | None:
    """Return the annualised growth from dividends over the days `rows`, which a price index does
    not include.

    It is estimated as the equal-weight mean of the rises in the members' adjustment factors. A rise
    of more than 10 % is a split or bonus issue and is set to 0. None if the market has no
    adjustment factors, or no factor ever rises by a dividend-sized amount. In the latter case, the
    factors contain only splits, which does not prove that no dividend was paid.
    """
    if not market.meta.has_factor:
        return None

    rise = _rises(market, rows)
    counted = market.member[rows - 1] & np.isfinite(rise)
    paid = np.where(counted & _is_dividend(rise), rise, 0.0)
    if not paid.any() and not _is_dividend(_rises(market, np.arange(1, len(market.days)))).any():
        return None

    daily = paid.sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    return float(daily.mean()) * market.days_a_year


def _rises(market: MarketSnapshot, rows: npt.NDArray[np.int64]) -> Series:
    """Return the rises in adjustment factors since the previous day, as fractions. Shape:
    [rows, N].
    """
    return np.asarray(market.factor[rows] / market.factor[rows - 1] - 1.0)


def _is_dividend(rise: Series) -> npt.NDArray[np.bool_]:
    return (rise > 0.0) & (rise <= _LARGEST_DIVIDEND)


def benchmark_levels(ledger: Ledger, market: MarketSnapshot) -> Series:
    """Return benchmark closes from the first decision day on; NaN without an index. Shape:
    [steps + 1]. Raises DataError if a day is unknown to `market`.
    """
    if not ledger.steps:
        return np.empty(0, dtype=np.float64)
    rows = day_rows(market, np.concatenate([[ledger.base_day], ledger.days]))
    return np.asarray(market.benchmark[rows])


def benchmark_problem(market: MarketSnapshot, levels: Series) -> str | None:
    """Return the reason why the benchmark has no return over `levels`, or None."""
    if not market.meta.benchmark:
        return "the market has no index"
    return level_problem(levels)


def _behaviour_problem(ledger: Ledger) -> str | None:
    """Return the reason why a ledger does not show its model's behaviour, or None. An account
    traded only by the engine has figures, but these do not describe the model.
    """
    if not ledger.steps:
        return _NO_STEPS
    if not any(step.provenance in DECIDED for step in ledger.steps):
        return _NEVER_DECIDED
    return None


@built_in
def turnover(ledger: Ledger, rules: RuleSet) -> float | str:
    """Annualised two-way turnover. `strict`: traded notional, including margin calls, over the NAV
    at the opens before any fill; `paper`: `sum |Δw|` of end-of-day weights (all cash before the
    first step), which also counts price drift as trading.
    """
    problem = _behaviour_problem(ledger)
    if problem:
        return problem
    if any(step.nav_minor <= 0 or step.open_nav_minor <= 0 for step in ledger.steps):
        return _NO_NAV

    if rules == "paper":
        # KTD-Fin Appendix G: sum of absolute weight changes per step
        traded = _weight_changes(ledger)
    else:
        traded = [step.traded_minor / step.open_nav_minor for step in ledger.steps]

    # KTD-Fin Appendix G: scaled to a 252-day year
    return math.fsum(traded) * ledger.days_a_year / len(ledger.steps)


def _weight_changes(ledger: Ledger) -> list[float]:
    changes: list[float] = []
    before: dict[str, float] = {}
    for step in ledger.steps:
        after = step.weights
        for code in sorted({*before, *after}):
            changes.append(abs(after.get(code, 0.0) - before.get(code, 0.0)))

        before = after

    return changes


@built_in
def hhi(ledger: Ledger, rules: RuleSet) -> MetricValue:
    """Herfindahl-Hirschman index of the holdings. `paper`: weights in NAV over all steps, so cash
    looks like diversification. `strict`: weights within the holdings, over steps with holdings; 1 /
    names for equal weights. Shorts count by absolute value: holdings are gross, as is the base of
    `paper` if they exceed the NAV.
    """
    problem = _behaviour_problem(ledger)
    if problem:
        return make_undefined(problem, 0)

    n = len(ledger.steps)
    if rules == "paper":
        if any(step.nav_minor <= 0 for step in ledger.steps):
            return make_undefined(_NO_NAV, n)

        # KTD-Fin Appendix G: over current holding weights, averaged over steps
        bases = (max(step.nav_minor, _gross(step)) for step in ledger.steps)
        of_nav = [
            _sum_of_squares(step) / base**2 for step, base in zip(ledger.steps, bases, strict=True)
        ]
        return make_value(mean(of_nav), n)

    invested = [step for step in ledger.steps if _gross(step) > 0]
    if not invested:
        return make_undefined("nothing was ever held", 0)

    of_holdings = [_sum_of_squares(step) / _gross(step) ** 2 for step in invested]
    return make_value(mean(of_holdings), len(invested))


def _gross(step: StepRecord) -> int:
    """Return the gross value of all positions, long and short, in minor units."""
    return sum(map(abs, map(_VALUE, step.positions)))


def _sum_of_squares(step: StepRecord) -> int:
    # In integers until the single division, so that equal holdings give exactly 1 / names.
    values = list(map(_VALUE, step.positions))
    squares: int = sum(map(operator.mul, values, values))
    return squares


@built_in
def cash_ratio(ledger: Ledger) -> float | str:
    """NAV minus gross holdings (the cash, if there are no shorts) as a fraction of NAV, at least 0;
    mean over steps.
    """
    problem = _behaviour_problem(ledger)
    if problem:
        return problem
    if any(step.nav_minor <= 0 for step in ledger.steps):
        return _NO_NAV
    # KTD-Fin Appendix G: average fraction of NAV held as cash
    return mean(max(0, step.nav_minor - _gross(step)) / step.nav_minor for step in ledger.steps)


def _share_metric(ledger: Ledger, count: int, of: int, none: str) -> MetricValue:
    """Return `count / of`. If `of` is 0, the metric is undefined, with the reason `none`."""
    if of:
        return make_value(count / of, of)
    if not ledger.steps:
        return make_undefined(_NO_STEPS, 0)
    return make_undefined(none, 0)


@built_in
def abstention_rate(ledger: Ledger, rules: RuleSet) -> MetricValue:
    """Fraction of steps without an order. `paper`: of all steps, including failed ones; `strict`:
    of steps decided by the model. Undefined in both if the model decided none.
    """
    problem = _behaviour_problem(ledger)
    if problem:
        return make_undefined(problem, 0)

    steps = [step for step in ledger.steps if rules == "paper" or step.provenance in DECIDED]
    # KTD-Fin Appendix G: steps with zero orders after retries
    abstained = sum(not step.orders for step in steps)
    return make_value(abstained / len(steps), len(steps))


@built_in
def parse_failure_rate(ledger: Ledger) -> MetricValue:
    """Fraction of steps whose last submission, after all retries, was not in the required form,
    among steps whose model calls succeeded (others: `decision_coverage`). A last submission in the
    required form that breaks a trading rule does not count.
    """
    answered = [step for step in ledger.steps if step.provenance != "error"]
    # KTD-Fin Appendix G: emissions that fail validation after three retries
    invalid = 0
    for step in answered:
        if step.provenance == "fallback" and CONSTRAINT_AFTER_RETRIES not in step.failures:
            invalid += 1

    return _share_metric(ledger, invalid, len(answered), "every model call failed")


@built_in
def decision_coverage(ledger: Ledger) -> MetricValue:
    """Fraction of steps decided by the model, at once or after retries."""
    decided = sum(step.provenance in DECIDED for step in ledger.steps)
    return _share_metric(ledger, decided, len(ledger.steps), _NO_STEPS)


@built_in
def tool_validity_rate(ledger: Ledger) -> MetricValue:
    """Fraction of research tool calls whose arguments parsed and that were dispatched."""
    calls = sum(step.tool_calls for step in ledger.steps)
    if not calls:
        return make_undefined("no tool calls", 0)

    # KTD-Fin Appendix G: calls whose arguments parse and dispatch
    valid = sum(step.tool_calls_valid for step in ledger.steps)
    return make_value(valid / calls, calls)


@built_in
def unmask_attempts(ledger: Ledger) -> float:
    """Number of real codes, names and dates that the model wrote although the mask hides them."""
    return sum(step.unmask_attempts for step in ledger.steps)
