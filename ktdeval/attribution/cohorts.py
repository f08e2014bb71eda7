"""Tables over many attributions: exposures by cohort, and whether a ranking by return is a ranking by selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ktdeval.errors import DataError


@dataclass(frozen=True, slots=True)
class CohortRow:
    """One factor in one cohort.

    Attributes:
        factor: its name.
        mean: mean exposure over the members that have one; None when none has.
        members: how many have one.
        same_sign: how many of these share the sign of the mean (0 counts for neither sign).
    """

    factor: str
    mean: float | None
    members: int
    same_sign: int


def cohort_exposures(members: Mapping[str, Mapping[str, float | None]]) -> tuple[CohortRow, ...]:
    """Mean exposure of a cohort to each factor, each member counted once.

    Args:
        members: member -> factor -> mean exposure (`Attribution.mean_exposures`), None where it never held anything.

    Returns:
        One row a factor, in the order of the first member.

    Raises:
        DataError: the cohort is empty, or its members don't have the same factors.

    Source: KTD-Fin §5.3 and Table 8.
    """
    if not members:
        raise DataError("cohort exposures: the cohort has no members")
    factors = tuple(next(iter(members.values())))
    for member, exposures in members.items():
        if set(exposures) != set(factors):
            raise DataError(f"cohort exposures: {member} has factors {', '.join(exposures)}, expected {', '.join(factors)}")
    return tuple(_row(factor, [exposures[factor] for exposures in members.values()]) for factor in factors)


def _row(factor: str, exposures: list[float | None]) -> CohortRow:
    known = np.array([exposure for exposure in exposures if exposure is not None])
    if not len(known):
        return CohortRow(factor, None, 0, 0)
    mean = float(known.mean())
    return CohortRow(factor, mean, len(known), int((np.sign(known) == np.sign(mean)).sum()) if mean else 0)


@dataclass(frozen=True, slots=True)
class RankComparison:
    """A ranking by total return beside one by selection.

    Attributes:
        names: best total return first; ties in the order given.
        return_rank, alpha_rank: rank of each name, 1 the best, ties share the mean of their ranks.
        spearman, kendall: rank correlations (tau b); None with a reason where a ranking has no order.
        reason: why they are None.
    """

    names: tuple[str, ...]
    return_rank: tuple[float, ...]
    alpha_rank: tuple[float, ...]
    spearman: float | None
    kendall: float | None
    reason: str | None = None


def compare_ranks(total_returns: Mapping[str, float], alphas: Mapping[str, float]) -> RankComparison:
    """Rank models by return and by selection.

    Args:
        total_returns: model -> total return.
        alphas: model -> linked selection; the same models.

    Raises:
        DataError: the two are not of the same models.
    """
    if set(total_returns) != set(alphas):
        raise DataError(f"rank comparison: only one of the two has {', '.join(sorted(set(total_returns) ^ set(alphas)))}")
    names = sorted(total_returns, key=lambda name: -total_returns[name])
    by_return = np.array([total_returns[name] for name in names], dtype=np.float64)
    by_alpha = np.array([alphas[name] for name in names], dtype=np.float64)
    ranks = tuple(stats.rankdata(-by_return).tolist()), tuple(stats.rankdata(-by_alpha).tolist())
    if len(names) < 2 or not np.ptp(by_return) or not np.ptp(by_alpha):
        reason = "fewer than two models" if len(names) < 2 else "all models tie"
        return RankComparison(tuple(names), *ranks, spearman=None, kendall=None, reason=reason)
    spearman = float(stats.spearmanr(by_return, by_alpha).statistic)
    kendall = float(stats.kendalltau(by_return, by_alpha).statistic)
    return RankComparison(tuple(names), *ranks, spearman=spearman, kendall=kendall)
