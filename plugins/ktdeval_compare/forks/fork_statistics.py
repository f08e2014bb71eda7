"""Distances between decisions on a changed input and repeated decisions, tested against nulls.

Nulls are changes that should have no effect: an unchanged repeat, another order of rows, other
labels. An input is reported as read if two kinds of permutation test reject: one tests whether
decisions on the changed input differ from repeated decisions; the other tests, for each placebo,
whether decisions on the changed input are further from repeated decisions than the placebo's
decisions are. Both tests are exact for any number of samples. The largest p-value is used, so an
input without effect is reported as read in at most 5 % of forks.
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

from ktdeval.runner import FamilyFigures, ForkedDecision, ForkPlace, VariantFigures
from ktdeval.stats import MIN_RESAMPLED, Interval, holm, studentised_mean
from ktdeval.values import load_yaml
from ktdeval_compare.forks.forker import AGAIN

LEVEL = 0.05
DRAWS = 4999  #: number of permutations in a test
_SMALL = 1e-9  # smaller differences between weights are rounding errors

FloatArray = npt.NDArray[np.float64]
Decisions = Sequence[ForkedDecision]
ByPlace = Mapping[ForkPlace, Decisions]


@dataclass(frozen=True)
class Variant:
    """The facts about a change that are needed to compute its figures."""

    name: str
    field: str
    is_placebo: bool


@cache
def _families() -> tuple[tuple[tuple[str, re.Pattern[str]], ...], str]:
    words: Any = load_yaml(Path(__file__).with_name("fork_families.yaml"))
    patterns = tuple((name, re.compile(form)) for name, form in words["families"].items())
    return patterns, words["other"]


def family_of(field: str) -> str:
    """Return the family that an input belongs to."""
    patterns, other = _families()
    for name, pattern in patterns:
        if pattern.fullmatch(field):
            return name
    return other


# ---- distances of decisions


def turnover(one: ForkedDecision, other: ForkedDecision) -> float:
    """Return half the sum of the absolute weight differences, including cash."""
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
    """Return whether two decisions differ in weights or in order sides."""
    return turnover(one, other) > 0.0 or one.sides != other.sides


def _matrix(decisions: Decisions) -> FloatArray:
    """Return the [n, n] turnovers between decisions."""
    values = [turnover(one, other) for one, other in product(decisions, repeat=2)]
    return np.array(values).reshape(len(decisions), len(decisions))


def _mean_between(one: Decisions, other: Decisions, measure: Any) -> float:
    return float(np.mean([measure(left, right) for left, right in product(one, other)]))


def mean_within(decisions: Decisions) -> float:
    """Return the mean turnover between two decisions in a group, or 0 if there is only one
    decision.
    """
    count = len(decisions)
    if count < 2:
        return 0.0
    return float(_matrix(decisions).sum() / (count * (count - 1)))


# ---- tests


def _permute_groups(count: int, first: int, rng: np.random.Generator) -> FloatArray:
    """Return [1 + DRAWS, count] group labels: 1 for the first group, 0 for the second. Row 0 is the
    observed assignment.
    """
    as_is = np.zeros(count)
    as_is[:first] = 1.0
    draws = rng.permuted(np.tile(as_is, (DRAWS, 1)), axis=1)
    return np.vstack([as_is, draws])


def _p_value(statistics: FloatArray) -> float:
    """Return the share of statistics that are at least as large as the first, the observed
    statistic.
    """
    return float(np.mean(statistics >= statistics[0] - _SMALL))


def p_of_difference(changed: ByPlace, again: ByPlace, seed: int = 0) -> float:
    """Return the p-value for the energy distance between two groups of decisions, summed over
    steps. Group labels are permuted within each step.
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
    """Return a one-sided p-value; the alternative is that changed decisions are further from
    repeated decisions than placebo decisions are. The labels `change` and `placebo` are permuted
    within each step.
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
    """Return the largest p-value of a change over all nulls. `draws`: whether a repeated decision
    can differ; if not, any difference between the changed and repeated decisions is an exact
    result.
    """
    p_values = []
    if draws:
        p_values.append(p_of_difference(changed, again, seed))
    else:
        p_values.append(0.0 if _is_moved(changed, again) else 1.0)

    for placebo in placebos:
        if not draws and not _is_moved(placebo, again):
            continue  # The placebo has no effect at all, so the test against repeats is sufficient.
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
    """All decisions in a fork, and whether its model samples."""

    decisions: Mapping[str, ByPlace]  #: successful decisions, by variant
    asked: Mapping[str, int]  #: number of requested decisions, by variant
    draws: bool
    seed: int = 0  #: seed for permutations and for the bootstrap

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
        """Return a variant's decisions at the places that also have repeated decisions."""
        again = self.decisions.get(AGAIN, {})
        own = self.decisions.get(variant, {})
        return {place: decisions for place, decisions in own.items() if again.get(place)}


def variant_figures(asked: Asked, variants: Sequence[Variant]) -> list[VariantFigures]:
    """Return the figures for each change. P-values are adjusted for multiple testing over the
    changes that are not placebos.
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
    """Return the correlation between input changes and weight changes, averaged over steps. Return
    None if no step has variation in both.
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
    """Return, for each step, the mean turnover between changed and repeated decisions, minus the
    mean turnover between repeated decisions.
    """
    values = []
    for place, decisions in own.items():
        between = _mean_between(decisions, again[place], turnover)
        values.append(between - mean_within(again[place]))

    return np.array(values)


def _interval(asked: Asked, own: ByPlace, again: ByPlace) -> dict[str, Any]:
    """Return the ends of the interval for `beyond`, or the reason why the interval is missing. The
    interval is computed over steps. If there are too few steps, it is computed over samples, from
    jackknife pseudo-values.
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
    """Return, by family, the number of changed inputs and the number of inputs reported as read."""
    shown: dict[str, int] = {}
    read: dict[str, int] = {}
    for row in rows:
        if row.is_placebo or row.is_read is None:
            continue

        shown[row.family] = shown.get(row.family, 0) + 1
        read[row.family] = read.get(row.family, 0) + int(row.is_read)

    return [FamilyFigures(family=name, shown=shown[name], read=read[name]) for name in shown]
