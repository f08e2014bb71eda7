"""Power of a plan: a record of what is planned in, one JSON report out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ktdeval.cards import is_fraction
from ktdeval.cli import warn
from ktdeval.errors import UsageError
from ktdeval.stats import TRADING_DAYS, effective_count
from ktdeval_compare import power
from ktdeval_compare.compare import Group, Options, make_groups, paired_differences
from ktdeval_compare.entrants import Cell, Row, left_out_notes, load_entrants, recorded_ledger
from ktdeval_compare.power import Spread, pairs_needed, smallest_p

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
        return power.wilcoxon_power(abs(self.effect) / pair_sd, self.windows, self.level, seed=self.seed)


def plan_report(plan: Plan) -> Row:
    """Report what the plan can show, and what it would take."""
    spread = plan.spread()
    rows: list[Row] = []
    if spread is not None:
        seeds = (*sorted({*_SEEDS, plan.seeds}), None) if spread.seed_sd else (plan.seeds,)
        rows = [_by_seeds(plan, spread, count) for count in seeds]
    return {
        **{name: getattr(plan, name) for name in ("unit", "windows", "seeds", "alpha", "comparisons", "effect")},
        **{name: getattr(spread, name, None) for name in ("window_sd", "seed_sd")},
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
    effect = power.wilcoxon_effect(windows, plan.alpha, plan.wanted, seed=plan.seed)
    return {"windows": windows, "smallest_p": least, "tests": int(plan.alpha / least * (1 + 1e-12)), "effect_sd": effect}


def _by_seeds(plan: Plan, spread: Spread, seeds: int | None) -> Row:
    """Report what the plan finds with so many seeds (None: unlimited)."""
    pair_sd = spread.of_pairs(_MANY if seeds is None else seeds)
    unit = power.wilcoxon_effect(plan.windows, plan.level, plan.wanted, seed=plan.seed)
    effect = None if unit is None else unit * pair_sd
    needed = None
    if plan.effect and pair_sd == 0:
        # Without noise every difference is found as soon as the count of windows allows a result at all.
        needed = pairs_needed(plan.alpha, plan.comparisons)
    elif plan.effect:
        needed = power.windows_needed(plan.effect / pair_sd, plan.level, plan.wanted, seed=plan.seed)
    year = None if plan.window_days is None else plan.days_per_year / plan.window_days
    normal = power.normal_effect(pair_sd, plan.windows, plan.level, plan.wanted)
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
        count = f"{plan.windows} window{'' if plan.windows == 1 else 's'}"
        smallest = f"the smallest p of an exact test is {least:.4g}"
        yield f"{count} can't reach it, whatever the agents do: {smallest}; at least {fewest} windows are needed"
    else:
        yield f"a result is possible: the smallest p is {least:.4g}; {fewest} windows are the fewest that allow one"
    if plan.overlap is not None:
        yield f"the cards' windows share days ({plan.overlap:.1f} effective windows); figures below take windows as independent"
    if spread is not None:
        window_sd, seed_sd = _amount(spread.window_sd, plan.unit), _amount(spread.seed_sd, plan.unit)
        yield f"noise: SD {window_sd} over windows, {seed_sd} over seeds; more seeds cut only the second, never the first"
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
    episodes, known = entrant.episodes(), entrant.card.snapshot.days_a_year or TRADING_DAYS
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
    spread, none = power.estimate_spread(np.array(list(by_window.values())))
    known = {} if spread is None else {"window_sd": spread.window_sd, "seed_sd": spread.seed_sd}
    return {"seeds": min(counts), "problem": none, **known}
