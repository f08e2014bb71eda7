"""Power of a plan of windows and seeds, before money is spent on it.

The test is the one that `compare` uses: a two-sided Wilcoxon signed-rank test over windows, each window giving one difference, the
median over its seeds. Windows are taken as independent and differences as normal.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtri

from ktdeval.cards import count, is_fraction
from ktdeval.cli import warn
from ktdeval.errors import UsageError
from ktdeval.stats import EXACT_UP_TO, TRADING_DAYS, effective_count, positive_rank_sums, rank_null
from ktdeval_compare.compare import Group, Options, make_groups, paired_differences, pairs_needed, smallest_p
from ktdeval_compare.entrants import Cell, Row, left_out_notes, load_entrants, recorded_ledger

_LARGEST_PLAN = EXACT_UP_TO
_LARGEST_EFFECT = 64.0
_GRID = 4001


@functools.cache
def median_variance(seeds: int) -> float:
    """Variance of the median of `seeds` independent standard normal values: 1 for one, 1/2 for two, 0.449 for three, … π/(2n)."""
    if seeds == 1:
        return 1.0
    if seeds > 60:
        return math.pi / (2.0 * seeds)
    x = np.linspace(-8.0, 8.0, _GRID)
    step = x[1] - x[0]
    log_density, log_below, log_above = -(x**2) / 2.0 - math.log(math.sqrt(2.0 * math.pi)), log_ndtr(x), log_ndtr(-x)
    half = (seeds - 1) // 2
    constant = math.lgamma(seeds + 1) - 2.0 * math.lgamma(half + 1)
    if seeds % 2:
        density = np.exp(constant + half * (log_below + log_above) + log_density)
        return float((x**2 * density).sum() * step)
    # Even: the mean of the two middle values u < v has variance E[(u + v)^2] / 4 under their joint density
    # n! / (half!)^2 * F(u)^half * f(u) * f(v) * (1 - F(v))^half; inner integrals over v > u from cumulative sums.
    left = np.exp(half * log_below + log_density)
    right = np.exp(half * log_above + log_density)
    moments = [_from_above(x**power * right, step) for power in range(3)]
    inner = x**2 * moments[0] + 2.0 * x * moments[1] + moments[2]
    return float(math.exp(constant) * (left * inner).sum() * step / 4.0)


def _from_above(values: npt.NDArray[np.float64], step: float) -> npt.NDArray[np.float64]:
    """[n] trapezoidal integrals from each grid point to the end."""
    parts = (values[1:] + values[:-1]) * (step / 2.0)
    return np.concatenate([np.cumsum(parts[::-1])[::-1], [0.0]])


@dataclass(frozen=True, slots=True)
class Spread:
    """How much the difference of two agents varies."""

    window_sd: float  #: standard deviation over windows of the true difference: market and strategy, which no seed averages out
    seed_sd: float = 0.0  #: standard deviation over seeds of one agent's figure in one window: decoding
    window_variance: float | None = (
        None  #: the estimate that `window_sd` is the root of, negative where that is 0 for it; None: given
    )

    def of_pairs(self, seeds: int) -> float:
        """Standard deviation of a window's difference when it is the median over `seeds` paired differences."""
        return math.sqrt(self.window_sd**2 + 2.0 * self.seed_sd**2 * median_variance(seeds))


def normal_effect(pair_sd: float, windows: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the mean difference a z test finds with probability `power`: `(z_{1-alpha/2} + z_power) * sd / sqrt(n)`."""
    return float(ndtri(power) - ndtri(alpha / 2.0)) * pair_sd / math.sqrt(windows)


def wilcoxon_power(effect: float, windows: int, alpha: float = 0.05, draws: int = 20_000, seed: int = 0) -> float:
    """Probability that the exact signed-rank test is significant, by simulation (standard error at most 0.004)."""
    cut = _critical_sum(windows, alpha)
    if cut < 0:
        return 0.0
    sums = positive_rank_sums(_standard_normals(windows, draws, seed) + effect)
    top = windows * (windows + 1) // 2
    return float(((sums <= cut) | (sums >= top - cut)).mean())


@functools.lru_cache(maxsize=2)
def _standard_normals(windows: int, draws: int, seed: int) -> npt.NDArray[np.float64]:
    # The same numbers at every effect: power then rises with the effect, and a search over it is smooth.
    return np.random.default_rng(seed).standard_normal((draws, windows))


@functools.cache
def _critical_sum(windows: int, alpha: float) -> int:
    """Largest rank sum that is significant on the low side; -1 when none is."""
    below = rank_null(np.arange(1.0, windows + 1.0)).at_or_below
    return int(np.searchsorted(below, alpha / 2.0 * (1 + 1e-12), side="right")) - 1


@functools.cache
def wilcoxon_effect(windows: int, alpha: float = 0.05, power: float = 0.8, draws: int = 20_000, seed: int = 0) -> float | None:
    """Return the effect, in standard deviations of a window's difference, that the exact test finds with probability `power`.

    None when no result of so many windows can be significant, whatever the effect.
    """
    if _critical_sum(windows, alpha) < 0:
        return None
    if wilcoxon_power(0.0, windows, alpha, draws, seed) >= power:
        return 0.0  # so little is asked for that chance alone gives it
    high = max(1e-3, normal_effect(math.sqrt(math.pi / 3.0), windows, alpha, power))
    while wilcoxon_power(high, windows, alpha, draws, seed) < power and high < _LARGEST_EFFECT:
        high *= 1.1
    low = 0.8 * high
    while wilcoxon_power(low, windows, alpha, draws, seed) >= power:
        low *= 0.8
    while high - low > 1e-4 * high:
        middle = (low + high) / 2.0
        if wilcoxon_power(middle, windows, alpha, draws, seed) < power:
            low = middle
        else:
            high = middle
    return high


def windows_needed(effect: float, alpha: float = 0.05, power: float = 0.8, draws: int = 20_000, seed: int = 0) -> int | None:
    """Return the fewest windows with which the exact test finds `effect` (in standard deviations) with probability `power`.

    None when even a few hundred are not enough.
    """
    size = abs(effect)
    # A z test needs a few windows less (the efficiency of signed ranks is 3/pi): a bracket around that saves most of the search.
    guess = math.pi / 3.0 * normal_effect(1.0, 1, alpha, power) ** 2 / size**2 if size > 0 else math.inf
    if guess > 1.2 * _LARGEST_PLAN:
        return None
    low, high = 0, min(_LARGEST_PLAN, math.ceil(1.1 * guess) + pairs_needed(alpha))
    while wilcoxon_power(size, high, alpha, draws, seed) < power:
        if high == _LARGEST_PLAN:
            return None
        low, high = high, min(_LARGEST_PLAN, 2 * high)
    below = math.floor(0.9 * guess) - 3
    if below > low and wilcoxon_power(size, below, alpha, draws, seed) < power:
        low = below
    while high - low > 1:
        middle = (low + high) // 2
        if wilcoxon_power(size, middle, alpha, draws, seed) < power:
            low = middle
        else:
            high = middle
    return high


def estimate_spread(differences: npt.NDArray[np.float64]) -> tuple[Spread | None, str | None]:
    """Window and seed variance of the difference of two agents, from a table of paired differences, by moments.

    One-way random effects: the variance within windows estimates twice that of a seed; the variance of window means, less what
    seeds put into it, that of windows. Where that is negative the spread is 0 and keeps the estimate. `differences`:
    [windows, seeds] finite differences. Returns the spread, or None and the reason.
    """
    windows, seeds = differences.shape
    if windows < 2:
        return None, "one window does not show how much windows differ"
    within = float(differences.var(axis=1, ddof=1).mean()) if seeds > 1 else 0.0
    between = float(differences.mean(axis=1).var(ddof=1))
    windows_part = between - within / seeds
    return Spread(math.sqrt(max(0.0, windows_part)), math.sqrt(within / 2.0), windows_part), None


# ---- a plan: what is planned in, one JSON report out

_REACH = (5, 6, 8, 10, 11, 15, 20, 40, 60)
_SEEDS = (1, 2, 3, 5, 10)
_MANY = 1_000_000


@dataclass(frozen=True)
class Plan:
    """A plan and what is known of the noise."""

    windows: int = 10
    seeds: int = 1  #: of each window and agent
    effect: float | None = None  #: difference that must be found, in the metric's unit; None when not asked
    window_sd: float | None = None  #: this and `seed_sd`: see `Spread`; None when not known
    seed_sd: float | None = None
    tracking_error: float | None = None  #: annual, instead of `window_sd`
    window_days: float | None = 43  #: trading days of a window; None where a figure is not per time and can't be annualised
    days_per_year: float = TRADING_DAYS  #: for annual figures
    alpha: float = 0.05  #: level; `wanted` is the power
    wanted: float = 0.8
    comparisons: int = 1  #: tests that share `alpha`
    seed: int = 0  #: of the simulation
    window_variance: float | None = None  #: of cards: the estimate that `window_sd` is the root of, which may be negative
    problem: str | None = None  #: why there is no spread, where one was asked of cards
    overlap: float | None = None  #: effective count of the cards' windows; None where they share no days
    unit: str = "fraction"  #: of the metric

    @property
    def level(self) -> float:
        """Level of one test."""
        return self.alpha / self.comparisons

    def spread(self) -> Spread | None:
        """Return the noise, where it is known."""
        sd = self.window_sd
        if self.tracking_error is not None and self.window_days is not None:
            sd = self.tracking_error * math.sqrt(self.window_days / self.days_per_year)
        return None if sd is None else Spread(sd, self.seed_sd or 0.0)

    def power_at(self, pair_sd: float) -> float | None:
        """Probability that the plan finds the wanted effect."""
        if self.effect is None:
            return None
        if pair_sd == 0:
            return float(self.effect != 0 and smallest_p(self.windows) <= self.level)
        return wilcoxon_power(abs(self.effect) / pair_sd, self.windows, self.level, seed=self.seed)


def plan_report(plan: Plan) -> Row:
    """Report what the plan can show, and what it would take."""
    spread = plan.spread()
    rows: list[Row] = []
    if spread is not None:
        seeds = (*sorted({*_SEEDS, plan.seeds}), None) if spread.seed_sd else (plan.seeds,)
        rows = [_by_seeds(plan, spread, count) for count in seeds]
    return {
        **{name: getattr(plan, name) for name in ("unit", "windows", "seeds", "alpha", "comparisons", "effect")},
        "window_sd": None if spread is None else spread.window_sd,
        "seed_sd": plan.seed_sd,
        "power": plan.wanted,
        "smallest_p": smallest_p(plan.windows),
        "windows_for_any_result": pairs_needed(plan.alpha, plan.comparisons),
        "reach": [_reach(plan, windows) for windows in sorted({*_REACH, plan.windows})],
        "by_seeds": rows,
        "sentences": list(_sentences(plan, spread)),
        "reason": plan.problem,
    }


def _reach(plan: Plan, windows: int) -> Row:
    """Report what so many windows can show at all."""
    least = smallest_p(windows)
    effect = wilcoxon_effect(windows, plan.alpha, plan.wanted, seed=plan.seed)
    return {"windows": windows, "smallest_p": least, "tests": int(plan.alpha / least * (1 + 1e-12)), "effect_sd": effect}


def _by_seeds(plan: Plan, spread: Spread, seeds: int | None) -> Row:
    """Report what the plan finds with so many seeds (None: unlimited)."""
    pair_sd = spread.of_pairs(_MANY if seeds is None else seeds)
    unit = wilcoxon_effect(plan.windows, plan.level, plan.wanted, seed=plan.seed)
    effect = None if unit is None else unit * pair_sd
    needed = None
    if plan.effect and pair_sd == 0:
        # Without noise every difference is found as soon as the count of windows allows a result at all.
        needed = pairs_needed(plan.alpha, plan.comparisons)
    elif plan.effect:
        needed = windows_needed(plan.effect / pair_sd, plan.level, plan.wanted, seed=plan.seed)
    year = None if plan.window_days is None else plan.days_per_year / plan.window_days
    normal = normal_effect(pair_sd, plan.windows, plan.level, plan.wanted)
    return {
        "seeds": seeds,
        "pair_sd": pair_sd,
        "effect": effect,
        "effect_per_year": None if effect is None or year is None else effect * year,
        "effect_normal": normal,
        "effect_normal_per_year": None if year is None else normal * year,
        "windows_needed": needed,
        "power": plan.power_at(pair_sd),
    }


def _sentences(plan: Plan, spread: Spread | None) -> Iterator[str]:
    least, fewest = smallest_p(plan.windows), pairs_needed(plan.alpha, plan.comparisons)
    if least > plan.level:
        windows, smallest = count(plan.windows, "window"), f"the smallest p of an exact test is {least:.4g}"
        yield f"{windows} can't reach it, whatever the agents do: {smallest}; at least {fewest} windows are needed"
    else:
        yield f"a result is possible: the smallest p is {least:.4g}; {fewest} windows are the fewest that allow one"
    if plan.overlap is not None:
        yield f"the cards' windows share days ({plan.overlap:.1f} effective windows); figures below take windows as independent"
    if spread is not None:
        if plan.window_variance is not None and plan.window_variance < 0:
            estimate = f"the variance over windows is estimated at {plan.window_variance:.3g} (squared unit of the metric)"
            yield f"{estimate}, less than seeds alone put there; it counts as 0"
        noise = f"noise: SD {_amount(spread.window_sd, plan.unit)} over windows"
        if plan.seed_sd is None:
            yield f"{noise}; that over seeds is not known, and what there is of it counts as windows'"
        else:
            yield f"{noise}, {_amount(plan.seed_sd, plan.unit)} over seeds; more seeds cut only the second, never the first"
        if plan.effect is not None:
            probability = plan.power_at(spread.of_pairs(plan.seeds))
            yield f"it finds a difference of {_amount(plan.effect, plan.unit)} with probability {probability:.2f}"


def _amount(value: float, unit: str) -> str:
    return f"{100 * value:.3g} %" if is_fraction(unit) else f"{value:.3g}"


def spreads_of_cards(paths: Sequence[Path], metric: str) -> Iterator[tuple[str, Row]]:
    """For each pair of cards: its name, and the fields of a plan that the cards give.

    Raises CardError, UsageError: as `compare` does.
    """
    entrants = load_entrants(paths)
    if len(entrants) < 2:
        raise UsageError("the spread of a difference needs two cards; give --window-sd instead where there is one")
    for group in make_groups(entrants, Options(metrics=(metric,))):
        windows, card = group.windows(), group.entrants[0].card
        length, days_a_year = _length(group) if metric == "total_return" else (None, TRADING_DAYS)
        for note in left_out_notes(group.entrants):
            warn(note)
        worth = effective_count(group.correlation(windows))
        shared: Row = {"windows": len(windows), "overlap": worth if worth < len(windows) - 1e-9 else None, "window_days": length,
                       "days_per_year": days_a_year, "unit": card.metrics[metric].unit}  # fmt: skip
        for first, second in itertools.combinations(group.entrants, 2):
            fields = _estimate(paired_differences(first, second, metric, group.cells)[0], windows, metric)
            yield f"{first.label}, {second.label}", {**shared, **fields}


def _length(group: Group) -> tuple[float, float]:
    """Mean days of a window, and days a year by which they last as many years as the windows do on average: in a mixed market a
    window has days a year of its own, in its ledgers.
    """
    entrant, cells = group.entrants[0], dict(group.cells)
    episodes, known = entrant.episodes(), entrant.card.snapshot.year
    days = {window.name: min(window.days, entrant.card.limit or window.days) for window in entrant.card.windows}
    ledgers = {window: recorded_ledger(entrant, episodes[window, seed].id) for window, seed in cells.items()}
    years = [days[window] / (known if isinstance(ledger, str) else ledger.days_a_year) for window, ledger in ledgers.items()]
    length = np.mean([days[window] for window in cells])
    return float(length), float(length / np.mean(years))


def _estimate(differences: Mapping[Cell, float], windows: Sequence[str], metric: str) -> Row:
    """Spread of the paired differences, or the problem why there is none, and how many seeds each window has."""
    by_window = {window: [value for (name, _), value in differences.items() if name == window] for window in windows}
    counts = {len(values) for values in by_window.values()}
    if min(counts) == 0:
        return {"seeds": 1, "problem": f"{metric} is not defined on both cards in some window"}
    if len(counts) > 1:
        problem = "windows have different numbers of seeds: noise of seeds and of windows can't be told apart"
        return {"seeds": min(counts), "problem": problem}
    spread, none = estimate_spread(np.array(list(by_window.values())))
    seeds = min(counts)
    if spread is None:
        return {"seeds": seeds, "problem": none}
    known = {
        "window_sd": spread.window_sd,
        "seed_sd": spread.seed_sd if seeds > 1 else None,
        "window_variance": spread.window_variance,
    }
    return {"seeds": seeds, "problem": none, **known}
