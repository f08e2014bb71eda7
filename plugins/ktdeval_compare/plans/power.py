"""Power of a plan with given numbers of windows and seeds, before money is spent on it.

The test is the same as in `compare`: a two-sided Wilcoxon signed-rank test over windows. Each
window gives one difference, the median over its seeds. Differences are assumed to be normal. If a
plan is based on cards, its windows share days as the windows on the cards do. Otherwise, windows
share no days.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from ktdeval.cards import count, is_fraction, percent
from ktdeval.cli import warn
from ktdeval.errors import UsageError
from ktdeval.stats import TRADING_DAYS, normal_effect
from ktdeval_compare.pairs.compare import (
    CompareOptions,
    TaskGroup,
    by_window,
    make_groups,
    pair_figures,
)
from ktdeval_compare.pairs.compared_cards import (
    Cell,
    left_out_notes,
    load_entrants,
    recorded_ledger,
)
from ktdeval_compare.pairs.signed_ranks import APART, Pattern, RankTest, pattern_of

_GRID = 4001


@functools.cache
def median_variance(seeds: int) -> float:
    """Return the variance of the median of `seeds` independent standard normal values: 1 for one
    value, 1/2 for two, 0.449 for three, … and approximately π/(2n) for many.
    """
    if seeds == 1:
        return 1.0
    if seeds > 60:
        return math.pi / (2.0 * seeds)

    x = np.linspace(-8.0, 8.0, _GRID)
    step = x[1] - x[0]
    log_density = -(x**2) / 2.0 - math.log(math.sqrt(2.0 * math.pi))
    log_below = log_ndtr(x)
    log_above = log_ndtr(-x)
    half = (seeds - 1) // 2
    constant = math.lgamma(seeds + 1) - 2.0 * math.lgamma(half + 1)

    if seeds % 2:
        density = np.exp(constant + half * (log_below + log_above) + log_density)
        return float((x**2 * density).sum() * step)

    # If n is even, the mean of the two middle values u < v has variance E[(u + v)^2] / 4 under
    # their joint density n! / (half!)^2 * F(u)^half * f(u) * f(v) * (1 - F(v))^half. The inner
    # integrals over v > u are computed as cumulative sums.
    left = np.exp(half * log_below + log_density)
    right = np.exp(half * log_above + log_density)
    moments = [_from_above(x**power * right, step) for power in range(3)]
    inner = x**2 * moments[0] + 2.0 * x * moments[1] + moments[2]

    return float(math.exp(constant) * (left * inner).sum() * step / 4.0)


def _from_above(values: npt.NDArray[np.float64], step: float) -> npt.NDArray[np.float64]:
    """Return [n] integrals from each grid point to the end, using the trapezoidal rule."""
    parts = (values[1:] + values[:-1]) * (step / 2.0)
    return np.concatenate([np.cumsum(parts[::-1])[::-1], [0.0]])


@dataclass(frozen=True, slots=True)
class DifferenceSpread:
    """Variability of the difference between two agents."""

    #: standard deviation over windows of the true difference. It is due to market and strategy, so
    #: averaging over seeds does not reduce it
    window_sd: float
    #: standard deviation over seeds of one agent's figure in one window, which is due to decoding
    seed_sd: float = 0.0
    #: variance estimate whose square root is `window_sd` (0 if the estimate is negative); None if
    #: `window_sd` is given
    window_variance: float | None = None

    def of_pairs(self, seeds: int) -> float:
        """Return the standard deviation of a window's difference, where the difference is the
        median over `seeds` paired differences.
        """
        return math.sqrt(self.window_sd**2 + 2.0 * self.seed_sd**2 * median_variance(seeds))


def estimate_spread(
    differences: npt.NDArray[np.float64],
) -> tuple[DifferenceSpread | None, str | None]:
    """Estimate the window variance and the seed variance of the difference between two agents, from
    a table of paired differences, by the method of moments.

    The model is one-way random effects. The variance within windows estimates twice the seed
    variance. The variance of the window means, minus the part due to seeds, estimates the window
    variance. If this estimate is negative, `window_sd` is 0, and `window_variance` keeps the
    negative estimate. `differences`: [windows, seeds] finite differences. Return the spread, or
    None and the reason why it is undefined.
    """
    windows, seeds = differences.shape
    if windows < 2:
        return None, "one window does not show how windows differ"

    within = float(differences.var(axis=1, ddof=1).mean()) if seeds > 1 else 0.0
    between = float(differences.mean(axis=1).var(ddof=1))
    windows_part = between - within / seeds

    return DifferenceSpread(
        math.sqrt(max(0.0, windows_part)), math.sqrt(within / 2.0), windows_part
    ), None


# ---- the report of a plan

_REACH = (5, 6, 8, 10, 11, 15, 20, 40, 60)
_SEEDS = (1, 2, 3, 5, 10)
_MANY = 1_000_000


@dataclass(frozen=True)
class PowerPlan:
    """A plan. The noise is included as far as it is known."""

    windows: int = 10
    seeds: int = 1  #: number of seeds per window and agent
    #: difference to be detected, in the metric's unit; None if not requested
    effect: float | None = None
    #: for this and `seed_sd`, see `DifferenceSpread`; None if not known
    window_sd: float | None = None
    seed_sd: float | None = None
    tracking_error: float | None = None  #: annual tracking error, instead of `window_sd`
    #: trading days per window; None if the figure is not a rate over time and can't be annualised
    window_days: float | None = 43
    days_per_year: float = TRADING_DAYS  #: days per year, used for annual figures
    alpha: float = 0.05  #: significance level
    wanted: float = 0.8
    comparisons: int = 1  #: number of tests that share `alpha`
    seed: int = 0  #: seed for the simulation
    #: if the plan is based on cards: the estimate whose square root is `window_sd`; may be negative
    window_variance: float | None = None
    problem: str | None = None  #: why the spread is missing, although it was requested from cards
    pattern: Pattern = APART  #: pattern in which the cards' windows share days
    unit: str = "fraction"  #: the metric's unit

    @property
    def level(self) -> float:
        """Significance level for one test."""
        return self.alpha / self.comparisons

    @property
    def test(self) -> RankTest:
        """The test for one comparison."""
        return RankTest(self.level, self.pattern, seed=self.seed)

    def spread(self) -> DifferenceSpread | None:
        """Return the noise, if it is known."""
        sd = self.window_sd
        if self.tracking_error is not None and self.window_days is not None:
            sd = self.tracking_error * math.sqrt(self.window_days / self.days_per_year)
        return None if sd is None else DifferenceSpread(sd, self.seed_sd or 0.0)

    def per_year(self, figure: float | None) -> float | None:
        """Annualise a window's figure. Return None if the figure is not a rate over time."""
        if figure is None or self.window_days is None:
            return None
        return figure * (self.days_per_year / self.window_days)

    def power_at(self, pair_sd: float) -> float | None:
        """Return the probability that the plan detects the effect, or None if no effect is
        given.
        """
        if self.effect is None:
            return None
        if pair_sd == 0:
            return float(self.effect != 0 and self.test.smallest_p(self.windows) <= self.level)
        return self.test.power(abs(self.effect) / pair_sd, self.windows)


@dataclass(frozen=True, kw_only=True)
class WindowReach:
    """Effects that a given number of windows can show."""

    windows: int
    smallest_p: float
    tests: int  #: maximum number of tests that can share the significance level
    #: detectable effect in standard deviations; None if no effect can be detected
    effect_sd: float | None


@dataclass(frozen=True, kw_only=True)
class SeedsRow:
    """Effects that the plan can show with a given number of seeds per window."""

    seeds: int | None  #: None for an unlimited number of seeds
    pair_sd: float  #: standard deviation of a window's difference
    #: detectable effect in the metric's unit; None if no effect can be detected
    effect: float | None
    effect_per_year: float | None
    effect_normal: float  #: detectable effect according to the normal approximation
    effect_normal_per_year: float | None
    windows_needed: int | None  #: number of windows needed to detect the given effect
    power: float | None  #: probability of detecting the given effect


@dataclass(frozen=True, kw_only=True)
class PowerReport:
    """Report of `ktdeval compare power` on one plan."""

    pair: str = ""  #: labels of the two cards on which the plan is based
    unit: str
    windows: int
    seeds: int
    alpha: float
    comparisons: int
    effect: float | None
    window_sd: float | None
    seed_sd: float | None
    power: float  #: requested power
    smallest_p: float
    windows_for_any_result: int
    reach: Sequence[WindowReach]
    by_seeds: Sequence[SeedsRow]
    sentences: Sequence[str]
    reason: str | None  #: why the spread is missing


def plan_report(plan: PowerPlan, pair: str = "") -> PowerReport:
    """Report what the plan can detect, and what plan would be needed."""
    spread = plan.spread()
    rows: list[SeedsRow] = []
    if spread is not None:
        seeds: list[int | None] = [plan.seeds]
        if spread.seed_sd:
            seeds = [*sorted({*_SEEDS, plan.seeds}), None]

        rows = [_by_seeds(plan, spread, count) for count in seeds]

    return PowerReport(
        pair=pair,
        unit=plan.unit,
        windows=plan.windows,
        seeds=plan.seeds,
        alpha=plan.alpha,
        comparisons=plan.comparisons,
        effect=plan.effect,
        window_sd=None if spread is None else spread.window_sd,
        seed_sd=plan.seed_sd,
        power=plan.wanted,
        smallest_p=plan.test.smallest_p(plan.windows),
        windows_for_any_result=plan.test.fewest,
        reach=[_reach(plan, windows) for windows in sorted({*_REACH, plan.windows})],
        by_seeds=rows,
        sentences=list(_sentences(plan, spread)),
        reason=plan.problem,
    )


def _reach(plan: PowerPlan, windows: int) -> WindowReach:
    test = replace(plan.test, alpha=plan.alpha)
    least = test.smallest_p(windows)
    return WindowReach(
        windows=windows,
        smallest_p=least,
        tests=int(plan.alpha / least * (1 + 1e-12)),
        effect_sd=test.effect(windows, plan.wanted),
    )


def _by_seeds(plan: PowerPlan, spread: DifferenceSpread, seeds: int | None) -> SeedsRow:
    pair_sd = spread.of_pairs(_MANY if seeds is None else seeds)
    found = plan.test.effect(plan.windows, plan.wanted)
    effect = None if found is None else found * pair_sd
    effective = plan.test.effective(plan.windows)
    normal = normal_effect(pair_sd, effective, plan.level, plan.wanted)
    return SeedsRow(
        seeds=seeds,
        pair_sd=pair_sd,
        effect=effect,
        effect_per_year=plan.per_year(effect),
        effect_normal=normal,
        effect_normal_per_year=plan.per_year(normal),
        windows_needed=_windows_needed(plan, pair_sd),
        power=plan.power_at(pair_sd),
    )


def _windows_needed(plan: PowerPlan, pair_sd: float) -> int | None:
    """Return the number of windows that the plan needs to detect its effect, or None if no effect
    is given or no number of windows is enough.
    """
    if not plan.effect:
        return None
    if pair_sd == 0:
        # Without noise, every difference is detected as soon as there are enough windows for a
        # significant result.
        return plan.test.fewest
    return plan.test.windows_needed(plan.effect / pair_sd, plan.wanted)


def _sentences(plan: PowerPlan, spread: DifferenceSpread | None) -> Iterator[str]:
    least = plan.test.smallest_p(plan.windows)
    fewest = plan.test.fewest
    if least > plan.level:
        windows = count(plan.windows, "window")
        smallest = f"the smallest p of the test is {least:.4g}"
        yield (
            f"{windows} can't reach it, whatever the results: {smallest}; at least {fewest} "
            "windows are needed"
        )
    else:
        yield (
            f"a result is possible: the smallest p is {least:.4g}; {fewest} windows are the fewest"
            " that allow one"
        )

    effective = plan.test.effective(plan.windows)
    if effective < plan.windows - 1e-9:
        yield (
            f"windows share days as the cards' do: {plan.windows} overlapping windows = "
            f"{effective:.1f} effective windows; all figures account for it"
        )

    if spread is not None:
        if plan.window_variance is not None and plan.window_variance < 0:
            estimate = (
                f"the variance over windows is estimated at {plan.window_variance:.3g} (squared"
                " unit of the metric)"
            )
            yield f"{estimate}, less than seeds alone explain; it is set to 0"

        noise = f"noise: SD {_amount(spread.window_sd, plan.unit)} over windows"
        if plan.seed_sd is None:
            yield (
                f"{noise}; variation over seeds is unknown, and is included in that over windows"
            )
        else:
            yield (
                f"{noise}, {_amount(plan.seed_sd, plan.unit)} over seeds; more seeds reduce only "
                "the second"
            )

        if plan.effect is not None:
            probability = plan.power_at(spread.of_pairs(plan.seeds))
            yield (
                f"it finds a difference of {_amount(plan.effect, plan.unit)} with probability"
                f" {probability:.2f}"
            )


def _amount(value: float, unit: str) -> str:
    return percent(value, ".3g") if is_fraction(unit) else f"{value:.3g}"


# ---- plans of cards


class CardPlan(NamedTuple):
    """A plan and its noise, based on two cards."""

    pair: str  #: labels of the two cards
    fields: PlanFields


class PlanFields(TypedDict, total=False):
    """Fields of a `PowerPlan` that are taken from cards."""

    windows: int
    seeds: int
    pattern: Pattern
    window_days: float | None
    days_per_year: float
    unit: str
    window_sd: float
    seed_sd: float | None
    window_variance: float | None
    problem: str | None


def spreads_of_cards(paths: Sequence[Path], metric: str) -> Iterator[CardPlan]:
    """Yield a plan for each pair of cards.

    Raises CardError or UsageError in the same cases as `compare`.
    """
    entrants = load_entrants(paths)
    if len(entrants) < 2:
        raise UsageError(
            "the spread of a difference needs two cards; with one card, give --window-sd instead"
        )

    for group in make_groups(entrants, CompareOptions(metrics=(metric,))):
        windows = group.windows()
        card = group.entrants[0].card
        window_days: float | None = None
        days_a_year: float = TRADING_DAYS
        # Only returns are rates over time and can be annualised.
        if metric == "total_return":
            window_days, days_a_year = _length(group)

        for note in left_out_notes(group.entrants):
            warn(note)

        shared: PlanFields = {
            "windows": len(windows),
            "pattern": pattern_of(group.correlation(windows)),
            "window_days": window_days,
            "days_per_year": days_a_year,
            "unit": card.metrics[metric].unit,
        }
        for first, second in itertools.combinations(group.entrants, 2):
            differences, _ = pair_figures([first, second], metric, group.cells)
            estimated = _estimate(differences, windows, metric)
            yield CardPlan(f"{first.label}, {second.label}", {**shared, **estimated})


def _length(group: TaskGroup) -> tuple[float, float]:
    """Return the mean number of days in a window, and the days per year by which this mean must be
    divided to give the mean length of a window in years. In a mixed market, each window has its own
    number of days per year, recorded in its ledgers.
    """
    entrant = group.entrants[0]
    limit = entrant.card.limit
    days_of = {}
    for part in entrant.card.windows:
        days_of[part.name] = min(part.days, limit or part.days)

    episodes = entrant.episodes()
    days: list[int] = []
    years: list[float] = []
    for window, seed in dict(group.cells).items():
        ledger = recorded_ledger(entrant, episodes[window, seed].id)
        if isinstance(ledger, str):
            days_a_year = entrant.card.snapshot.days_a_year
        else:
            days_a_year = ledger.days_a_year

        days.append(days_of[window])
        years.append(days_of[window] / days_a_year)

    length = np.mean(days)
    return float(length), float(length / np.mean(years))


def _estimate(differences: Mapping[Cell, float], windows: Sequence[str], metric: str) -> PlanFields:
    """Return the number of seeds per window, with the spread of the paired differences or the
    reason why the spread is undefined.
    """
    of_windows = by_window(differences)
    rows = [of_windows.get(window, []) for window in windows]
    counts = {len(row) for row in rows}
    seeds = min(counts)
    if seeds == 0:
        return {"seeds": 1, "problem": f"{metric} is not defined on both cards in some window"}

    if len(counts) > 1:
        problem = (
            "windows have different numbers of seeds, so noise of seeds and of windows can't be "
            "separated; give cards with the same seeds in each window"
        )
        return {"seeds": seeds, "problem": problem}

    spread, problem_of_spread = estimate_spread(np.array(rows))
    if spread is None:
        return {"seeds": seeds, "problem": problem_of_spread}

    return {
        "seeds": seeds,
        "problem": None,
        "window_sd": spread.window_sd,
        "seed_sd": spread.seed_sd if seeds > 1 else None,
        "window_variance": spread.window_variance,
    }
