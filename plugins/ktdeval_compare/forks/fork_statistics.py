"""Distances between decisions on a changed input and repeated decisions, tested against nulls.

Nulls are changes that should have no effect: an unchanged repeat, another order, other labels. An
input is called read if two permutation tests reject: one of whether decisions on the changed input
differ from repeated ones, and one of whether they are further from these than the decisions of each
placebo are. Both tests are exact for any number of samples. The larger p-value is used, so an input
without effect is called read in at most 5 % of forks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.runner import AGAIN, FamilyFigures, ForkedDecision, ForkPlace, VariantFigures
from ktdeval.stats import MIN_RESAMPLED, Interval, holm, studentised_mean
from ktdeval.values import load_yaml

LEVEL = 0.05
DRAWS = 4999  #: number of permutations in a test
_SMALL = 1e-9  # smaller differences between weights are rounding

FloatArray = npt.NDArray[np.float64]
Decisions = Sequence[ForkedDecision]
ByPlace = Mapping[ForkPlace, Decisions]


@dataclass(frozen=True)
class Variant:
    """Facts of a change that its figures need."""

    name: str
    field: str
    is_placebo: bool


@cache
def _families() -> tuple[tuple[tuple[str, re.Pattern[str]], ...], str]:
    words: Any = load_yaml(Path(__file__).with_name("fork_families.yaml"))
    patterns = tuple((name, re.compile(form)) for name, form in words["families"].items())
    return patterns, words["other"]


def family_of(field: str) -> str:
    """Return the family of an input."""
    patterns, other = _families()
    for name, pattern in patterns:
        if pattern.fullmatch(field):
            return name
    return other


# ---- distances of decisions


def turnover(one: ForkedDecision, other: ForkedDecision) -> float:
    """Return half the sum of the absolute differences between weights, including cash."""
    differences = []
    for code in one.weights.keys() | other.weights.keys():
        differences.append(one.weights.get(code, 0.0) - other.weights.get(code, 0.0))

    moved = math.fsum(map(abs, differences)) + abs(math.fsum(differences))
    return 0.0 if moved < _SMALL else moved / 2.0


def flips(one: ForkedDecision, other: ForkedDecision) -> int:
    """Return the number of stocks that one decision buys and the other sells."""
    shared = one.sides.keys() & other.sides.keys()
    return sum(one.sides[code] != other.sides[code] for code in shared)


def differ(one: ForkedDecision, other: ForkedDecision) -> bool:
    """Return whether two decisions differ in weights or in the sides of orders."""
    return turnover(one, other) > 0.0 or one.sides != other.sides


def _matrix(decisions: Decisions) -> FloatArray:
    """Return the [n, n] turnovers between decisions."""
    values = [turnover(one, other) for one, other in product(decisions, repeat=2)]
    return np.array(values).reshape(len(decisions), len(decisions))


def _mean_between(one: Decisions, other: Decisions, measure: Any) -> float:
    return float(np.mean([measure(left, right) for left, right in product(one, other)]))


def mean_within(decisions: Decisions) -> float:
    """Return the mean turnover between two decisions of a group; 0 if it has only one."""
    count = len(decisions)
    if count < 2:
        return 0.0
    return float(_matrix(decisions).sum() / (count * (count - 1)))


# ---- tests


def _permute_groups(count: int, first: int, rng: np.random.Generator) -> FloatArray:
    """Return [1 + DRAWS, count] group labels: 1 for the first group, 0 for the other. Row 0 is the
    observed assignment.
    """
    as_is = np.zeros(count)
    as_is[:first] = 1.0
    draws = rng.permuted(np.tile(as_is, (DRAWS, 1)), axis=1)
    return np.vstack([as_is, draws])


def _p_value(statistics: FloatArray) -> float:
    """Return the share of statistics that are at least as large as the first, which is the observed
    one.
    """
    return float(np.mean(statistics >= statistics[0] - _SMALL))


def p_of_difference(changed: ByPlace, again: ByPlace, seed: int = 0) -> float:
    """Return the p-value of the energy distance between two groups of decisions, summed over steps.
    Labels are permuted within each step.
    """
    rng = np.random.default_rng(seed)
    total = np.zeros(1 + DRAWS)
    for place, decisions in changed.items():
        others = again[place]
        matrix = _matrix([*decisions, *others])
        groups = _permute_groups(len(matrix), len(decisions), rng)
        rest = 1.0 - groups
        n = len(decisions)
        m = len(others)
        between = np.einsum("bi,ij,bj->b", groups, matrix, rest) / (n * m)
        own = np.einsum("bi,ij,bj->b", groups, matrix, groups) / max(1, n * (n - 1))
        other = np.einsum("bi,ij,bj->b", rest, matrix, rest) / max(1, m * (m - 1))
        total += 2.0 * between - own - other

    return _p_value(total)


def p_beyond(changed: ByPlace, placebo: ByPlace, again: ByPlace, seed: int = 0) -> float:
    """Return the one-sided p-value for changed decisions being further from repeated ones than a
    placebo's decisions are. The labels of change and placebo are permuted within each step.
    """
    rng = np.random.default_rng(seed)
    total = np.zeros(1 + DRAWS)
    for place, decisions in changed.items():
        if place not in placebo:
            continue

        far = []
        for decision in (*decisions, *placebo[place]):
            far.append(np.mean([turnover(decision, other) for other in again[place]]))

        groups = _permute_groups(len(far), len(decisions), rng)
        n = len(decisions)
        m = len(placebo[place])
        total += groups @ np.array(far) / n - (1.0 - groups) @ np.array(far) / m

    return _p_value(total)


def p_against_nulls(
    changed: ByPlace, again: ByPlace, placebos: Sequence[ByPlace], draws: bool, seed: int = 0
) -> float:
    """Return the largest p-value of a change over all nulls. `draws`: whether a repeat can give a
    different decision; if not, any difference from it is exact.
    """
    p_values = []
    if draws:
        p_values.append(p_of_difference(changed, again, seed))
    else:
        p_values.append(0.0 if _is_moved(changed, again) else 1.0)

    for placebo in placebos:
        if not draws and not _is_moved(placebo, again):
            continue  # an exact null without effect: the test against repeats is sufficient
        p_values.append(p_beyond(changed, placebo, again, seed))

    return max(p_values)


def _is_moved(variant: ByPlace, again: ByPlace) -> bool:
    for place, decisions in variant.items():
        for decision in decisions:
            if any(differ(decision, other) for other in again[place]):
                return True

    return False


# ---- figures


@dataclass(frozen=True)
class Asked:
    """All decisions of a fork, and whether its model samples."""

    decisions: Mapping[str, ByPlace]  #: decisions that did not fail, by variant
    asked: Mapping[str, int]  #: number of requested decisions, by variant
    draws: bool
    seed: int = 0  #: seed of permutations and of the bootstrap

    @classmethod
    def of(cls, decisions: Decisions, draws: bool, seed: int = 0) -> Asked:
        """Group decisions by variant and place."""
        found: dict[str, dict[ForkPlace, list[ForkedDecision]]] = {}
        counts: dict[str, int] = {}
        for decision in decisions:
            counts[decision.variant] = counts.get(decision.variant, 0) + 1
            own = found.setdefault(decision.variant, {})
            if decision.failure is None:
                own.setdefault(decision.place, []).append(decision)

        return cls(found, counts, draws, seed)

    def usable(self, variant: str) -> ByPlace:
        """Return the decisions of a variant at places that also have repeated decisions."""
        again = self.decisions.get(AGAIN, {})
        own = self.decisions.get(variant, {})
        return {place: decisions for place, decisions in own.items() if again.get(place)}


def variant_figures(asked: Asked, variants: Sequence[Variant]) -> list[VariantFigures]:
    """Return the figures of each change. P-values are adjusted over the changes that are not
    placebos.
    """
    placebos = [asked.usable(each.name) for each in variants if each.is_placebo]
    raw = [_figures(asked, variant, placebos) for variant in variants]
    tested = [row for row in raw if not row.is_placebo]
    corrected = holm([row.p for row in tested])
    adjusted = {row.variant: value for row, value in zip(tested, corrected, strict=True)}

    rows = []
    for row in raw:
        fields = {name: getattr(row, name) for name in row.__struct_fields__}
        fields["adjusted_p"] = adjusted.get(row.variant, row.p)
        if fields["adjusted_p"] is not None:
            fields["is_read"] = fields["adjusted_p"] <= LEVEL
        rows.append(VariantFigures(**fields))

    return rows


def _figures(asked: Asked, variant: Variant, placebos: Sequence[ByPlace]) -> VariantFigures:
    again = asked.decisions.get(AGAIN, {})
    own = asked.usable(variant.name)
    count = asked.asked.get(variant.name, 0)
    done = sum(map(len, own.values()))
    facts: dict[str, Any] = dict.fromkeys(VariantFigures.__struct_fields__)
    facts |= {
        "variant": variant.name,
        "family": family_of(variant.field),
        "is_placebo": variant.is_placebo,
        "steps": len(own),
        "decisions": count,
        "failed": count - done,
    }
    if not own:
        facts["reason"] = "no decision was given with it"
        return VariantFigures(**facts)

    others = [] if variant.is_placebo else placebos
    cells = [decision.cells for decision in chain.from_iterable(own.values())]
    facts["cells"] = float(np.mean(cells))
    facts["moved_share"] = _mean_over(own, again, differ)
    facts["turnover"] = _mean_over(own, again, turnover)
    facts["flips"] = _mean_over(own, again, flips)
    facts["direction"] = _direction(own, again)
    facts["beyond"] = float(np.mean(_beyond_by_step(own, again)))
    facts["p"] = p_against_nulls(own, again, others, asked.draws, asked.seed)
    facts |= _interval(asked, own, again)
    return VariantFigures(**facts)


def _mean_over(own: ByPlace, again: ByPlace, measure: Any) -> float:
    return float(np.mean([_mean_between(own[at], again[at], measure) for at in own]))


def _direction(own: ByPlace, again: ByPlace) -> float | None:
    """Return the mean over steps of the correlation between input changes and weight changes; None
    if no step has both.
    """
    values = []
    for place, decisions in own.items():
        figures = []
        moves = []
        for code, difference in decisions[0].differences.items():
            figures.append(difference)
            moves.append(_mean_weight(decisions, code) - _mean_weight(again[place], code))

        if len(figures) > 1 and np.ptp(figures) > _SMALL and np.ptp(moves) > _SMALL:
            values.append(float(np.corrcoef(figures, moves)[0, 1]))

    return float(np.mean(values)) if values else None


def _mean_weight(decisions: Decisions, code: str) -> float:
    return float(np.mean([decision.weights.get(code, 0.0) for decision in decisions]))


def _beyond_by_step(own: ByPlace, again: ByPlace) -> FloatArray:
    """Return, for each step, the turnover in excess of that between repeated decisions."""
    values = []
    for place, decisions in own.items():
        between = _mean_between(decisions, again[place], turnover)
        values.append(between - mean_within(again[place]))

    return np.array(values)


def _interval(asked: Asked, own: ByPlace, again: ByPlace) -> dict[str, Any]:
    """Return the ends of the interval of `beyond`, or the reason why it is missing. The interval is
    over steps, or, with few steps, over samples from the jackknife's pseudo-values.
    """
    by_step = _beyond_by_step(own, again)
    fewest = MIN_RESAMPLED
    if len(by_step) >= fewest:
        return _ends(studentised_mean(by_step, "steps", asked.seed, 1 - LEVEL))
    if not asked.draws:
        return {"reason": f"exact for these steps; an interval over steps needs {fewest}"}

    sizes = [min(len(decisions), len(again[at])) for at, decisions in own.items()]
    count = min(sizes)
    if count < fewest:
        return {"reason": f"an interval needs {fewest} steps or {fewest} samples"}

    whole = float(by_step.mean())
    pseudo = []
    for left_out in range(count):
        rest = {at: _without(decisions, left_out) for at, decisions in own.items()}
        rest_again = {at: _without(again[at], left_out) for at in own}
        value = float(_beyond_by_step(rest, rest_again).mean())
        pseudo.append(count * whole - (count - 1) * value)

    return _ends(studentised_mean(np.array(pseudo), "samples", asked.seed, 1 - LEVEL))


def _ends(interval: Interval) -> dict[str, Any]:
    if interval.reason is not None:
        return {"reason": f"no interval: {interval.reason}"}

    return {"low": interval.low, "high": interval.high}


def _without(decisions: Decisions, index: int) -> Decisions:
    return [decision for number, decision in enumerate(decisions) if number != index]


def family_figures(rows: Sequence[VariantFigures]) -> list[FamilyFigures]:
    """Return, by family, the number of changed inputs and how many of these inputs are called
    read.
    """
    shown: dict[str, int] = {}
    read: dict[str, int] = {}
    for row in rows:
        if row.is_placebo or row.is_read is None:
            continue

        shown[row.family] = shown.get(row.family, 0) + 1
        read[row.family] = read.get(row.family, 0) + int(row.is_read)

    return [FamilyFigures(family=name, shown=shown[name], read=read[name]) for name in shown]
