"""Style exposures of cards and cohorts: means over days and members, signs, and differences between
cohorts with Welch intervals (KTD-Fin §5.3 and Table 8).

The units are models. Exposures are first averaged over each model's days, so dependence between
days need not be modelled. The difference between two cohorts has a Welch (1947) interval over
models. Cohorts are small, and their spreads differ; for such samples, resampling models gives lower
coverage (measured in docs/variance.md).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from scipy.special import stdtr, stdtrit

from ktdeval import stats
from ktdeval.attribution import FACTOR_NAMES
from ktdeval.cards import TradingEpisode
from ktdeval_compare.cohort_words import REASONS
from ktdeval_compare.pairs.compared_cards import EntrantCard, Values

SELECTION = "selection_alpha"  #: metric whose detail contains an episode's exposures
_ROUNDING = 1e-12  #: spread below which exposures are equal up to rounding

#: mean exposure to each factor; None if no holding had a value for the factor
Exposures = Mapping[str, float | None]
#: cohort -> model -> exposures
Tables = Mapping[str, Mapping[str, Exposures]]


@dataclass(frozen=True)
class FactorMeans:
    """Exposures of several cards or models to one factor, with their mean."""

    factor: str
    cards: Exposures  #: exposures by card or model
    mean: float | None  #: mean over the members that have an exposure
    members: int  #: number of members that have an exposure
    #: number of members whose exposure has the same sign as the mean; 0 if the mean is 0
    same_sign: int


def card_exposures(entrants: Sequence[EntrantCard]) -> list[FactorMeans]:
    """Return the mean style exposures of each card's holdings, with the mean over all cards. Empty
    if no card has exposures.
    """
    tables: dict[str, Exposures] = {}
    for entrant in entrants:
        table = mean_exposures(entrant.card.pooled)
        if table:
            tables[entrant.label] = table

    return cohort_means(tables)


def mean_exposures(episodes: Iterable[TradingEpisode]) -> dict[str, float | None]:
    """Return the mean exposure to each style factor. The mean is over all days in the episodes on
    which a holding had a value for the factor.

    An exposure is None without such days. The result is empty if no episode has exposures.
    """
    total: dict[str, float] = {}
    days: dict[str, int] = {}
    for episode in episodes:
        metric = episode.metrics.get(SELECTION)
        detail = None if metric is None else metric.detail
        if not isinstance(detail, Mapping):
            continue

        means = detail.get("mean_exposures")
        if not isinstance(means, Mapping):
            continue

        for factor, mean in means.items():
            count = detail["exposure_days"][factor]
            exposure = 0.0 if mean is None else mean * count
            days[factor] = days.get(factor, 0) + count
            total[factor] = total.get(factor, 0.0) + exposure

    return {factor: total[factor] / count if count else None for factor, count in days.items()}


def cohort_means(members: Mapping[str, Exposures]) -> list[FactorMeans]:
    """Return a cohort's mean exposure to each factor. All members have equal weight.

    `members`: exposures by card or model. Rows have the same factor order as the first member. The
    result is empty if members have different factors because of different versions.
    """
    factors = next(iter(members.values()), {})
    for table in members.values():
        if set(table) != set(factors):
            return []

    rows = []
    for factor in factors:
        exposures = {name: table[factor] for name, table in members.items()}
        known = [value for value in exposures.values() if value is not None]
        mean = statistics.fmean(known) if known else None
        same_sign = 0
        if mean:
            same_sign = sum(value * mean > 0 for value in known)

        rows.append(FactorMeans(factor, exposures, mean, len(known), same_sign))

    return rows


# ---- comparison of cohorts


@dataclass(frozen=True, kw_only=True)
class CohortMean:
    """A cohort's mean exposure to one factor, with a t interval over models."""

    mean: float
    members: int
    same_sign: int
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class FactorRow:
    """Exposures of all cohorts to one factor."""

    factor: str
    cohorts: Mapping[str, CohortMean]
    models: Exposures
    agree: bool  #: whether all cohort means have the same sign
    agreement_shown: bool  #: whether the intervals of all means lie entirely on one side of zero
    unit: str = "ratio"


@dataclass(frozen=True, kw_only=True)
class WelchTest:
    """Difference between the means of two samples, first minus second, with a Welch interval, or
    with the `reason` why the interval is missing.
    """

    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class CohortDifference:
    """Difference between two cohorts in their exposure to one factor."""

    factor: str
    unit: str
    first: str
    second: str
    value: float
    low: float | None
    high: float | None
    p: float | None
    reason: str | None
    p_holm: float | None = None  #: corrected over all rows in the report
    verdict: str | None = None  #: the cohort with the higher exposure, or `not shown`


@dataclass(frozen=True)
class CohortSummary:
    """The members of a cohort."""

    cohort: str
    models: Sequence[str]
    members: int
    #: number of models whose exposures have the same signs as the cohort's means, for all factors
    same_sign: int | None


@dataclass(frozen=True)
class SignAgreement:
    """Factors for which all cohorts have the same sign."""

    agree: Sequence[str]
    agreement_shown: Sequence[str]
    factors: int  #: number of factors that were compared


@dataclass(frozen=True)
class CohortExposures:
    """Exposures of cohorts, and how far the cohorts agree."""

    cohorts: Sequence[CohortSummary]
    exposures: Sequence[FactorRow]
    agreement: SignAgreement
    differences: Sequence[CohortDifference]


def compare_exposures(tables: Tables, alpha: float) -> CohortExposures:
    """Compare cohorts factor by factor, with Holm's correction over all differences."""
    means = {name: _by_factor(table) for name, table in tables.items()}
    factors = _shared_factors(means)
    rows: list[FactorRow] = []
    differences: list[CohortDifference] = []

    for factor in factors:
        of_cohorts = {name: rows_of[factor] for name, rows_of in means.items()}
        rows.append(_factor_row(factor, of_cohorts, alpha))

        for first, second in itertools.combinations(tables, 2):
            test = welch_test(
                _known_exposures(of_cohorts[first].cards),
                _known_exposures(of_cohorts[second].cards),
                1.0 - alpha,
            )
            differences.append(
                CohortDifference(
                    factor=factor, unit="ratio", first=first, second=second, **asdict(test)
                )
            )

    agreement = SignAgreement(
        agree=[row.factor for row in rows if row.agree],
        agreement_shown=[row.factor for row in rows if row.agreement_shown],
        factors=len(factors),
    )
    return CohortExposures(
        cohorts=[_cohort_summary(name, table, rows) for name, table in tables.items()],
        exposures=rows,
        agreement=agreement,
        differences=_with_verdicts(differences, alpha),
    )


def _by_factor(table: Mapping[str, Exposures]) -> dict[str, FactorMeans]:
    return {row.factor: row for row in cohort_means(table)}


def _shared_factors(means: Mapping[str, Mapping[str, FactorMeans]]) -> list[str]:
    """Return the factors for which every cohort has a mean, in the order of the style model."""
    shared = list(FACTOR_NAMES)
    for rows in means.values():
        shared = [name for name in shared if name in rows and rows[name].mean is not None]
    return shared


def _known_exposures(exposures: Exposures) -> Values:
    # A model whose holdings never had a value for the factor is not included in the mean.
    return np.array([value for value in exposures.values() if value is not None])


def _factor_row(factor: str, of_cohorts: Mapping[str, FactorMeans], alpha: float) -> FactorRow:
    cohorts: dict[str, CohortMean] = {}
    models: dict[str, float | None] = {}
    for name, row in of_cohorts.items():
        estimate = stats.estimate_mean(_known_exposures(row.cards), confidence=1.0 - alpha)
        cohorts[name] = CohortMean(
            mean=0.0 if row.mean is None else row.mean,
            members=row.members,
            same_sign=row.same_sign,
            low=estimate.low,
            high=estimate.high,
        )
        models.update(row.cards)

    means = [cohort.mean for cohort in cohorts.values()]
    ends: list[float] = []
    for cohort in cohorts.values():
        ends += [cohort.low or 0.0, cohort.high or 0.0]

    return FactorRow(
        factor=factor,
        cohorts=cohorts,
        models=models,
        agree=_agree(means, len(cohorts)),
        agreement_shown=_agree(ends, len(cohorts)),
    )


def _agree(figures: Sequence[float], cohorts: int) -> bool:
    """Return whether there are at least two cohorts, with all figures on the same side of zero."""
    return cohorts > 1 and (min(figures) > 0 or max(figures) < 0)


def _cohort_summary(
    name: str, table: Mapping[str, Exposures], rows: Sequence[FactorRow]
) -> CohortSummary:
    same_sign = None
    if rows:
        same_sign = sum(_has_signs_of(name, exposures, rows) for exposures in table.values())
    return CohortSummary(name, list(table), len(table), same_sign)


def _has_signs_of(cohort: str, exposures: Exposures, rows: Sequence[FactorRow]) -> bool:
    """Return whether a model's exposures have the same signs as its cohort's means, for all
    factors.
    """
    for row in rows:
        exposure = exposures[row.factor] or 0.0
        if exposure * row.cohorts[cohort].mean <= 0:
            return False
    return True


def _with_verdicts(rows: Sequence[CohortDifference], alpha: float) -> list[CohortDifference]:
    corrected = stats.holm([row.p for row in rows])
    results = []
    for row, p in zip(rows, corrected, strict=True):
        verdict = None
        if p is not None:
            higher = row.first if row.value > 0 else row.second
            verdict = higher if p <= alpha else "not shown"

        results.append(replace(row, p_holm=p, verdict=verdict))

    return results


def welch_test(first: Values, second: Values, level: float = 0.95) -> WelchTest:
    """Test whether two samples of exposures, [models] each, have different means. Return the
    difference with Welch's t interval and p-value.
    """
    value = math.fsum(first) / len(first) - math.fsum(second) / len(second)
    if min(len(first), len(second)) < 2:
        return WelchTest(value=value, reason=REASONS["one_model"])
    if not max(np.ptp(first), np.ptp(second)) > _ROUNDING:
        return WelchTest(value=value, reason=REASONS["alike"])

    one = float(first.var(ddof=1)) / len(first)
    other = float(second.var(ddof=1)) / len(second)
    freedom = (one + other) ** 2 / (one**2 / (len(first) - 1) + other**2 / (len(second) - 1))
    error = math.sqrt(one + other)
    reach = -float(stdtrit(freedom, (1.0 - level) / 2)) * error
    p = 2.0 * float(stdtr(freedom, -abs(value) / error))

    return WelchTest(value=value, low=value - reach, high=value + reach, p=p)
