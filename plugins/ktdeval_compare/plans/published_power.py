"""Power of designs and figures of published papers. The input is tables of facts that come with the
package, never a user's run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import stats

from ktdeval.stats import normal_effect, overlap_correlation
from ktdeval.values import csv_rows
from ktdeval_compare.pairs.rank_test import APART, Pattern, RankTest, pattern_of, published_spans

PUBLISHED = Path(__file__).with_name("published")
TRACKING_ERROR = 0.1  #: annual, used if none is given
#: of the daily returns of two models: no paper prints it, so the report covers a range
CORRELATIONS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)


# ---- designs


@dataclass(frozen=True, kw_only=True)
class DesignReach:
    """Power of a published design to show a difference between two of its systems."""

    paper: str
    design: str
    source: str  #: section and table of the paper
    systems: int  #: agents, models or conditions that are compared
    pairs: int  #: comparisons of two systems
    windows: int
    days: int  #: trading days of a window
    runs: int | None  #: repetitions of each; None: the paper does not say
    #: number of independent windows that would give a mean of the same uncertainty
    effective_windows: float
    smallest_p: float  #: of the signed-rank test over windows
    tests: int  #: number of tests that can share the level
    #: found over windows, in SD of a window's difference; None: no effect is found
    effect_sd: float | None
    effect: float | None  #: the same as a return of a window, at the tracking error
    effect_per_year: float | None
    #: found by a z test over the days themselves, as a return of a window: about these days only
    effect_of_days: float


@dataclass(frozen=True, kw_only=True)
class DesignsReport:
    """Report of `ktdeval compare power --published designs`."""

    alpha: float
    power: float  #: wanted
    tracking_error: float  #: annual, of the difference of two systems
    designs: Sequence[DesignReach]


def designs_report(
    alpha: float = 0.05, wanted: float = 0.8, tracking_error: float = TRACKING_ERROR
) -> DesignsReport:
    """Report the effects that the designs of the five papers can detect at a level and tracking
    error.
    """
    reach = []
    for row in csv_rows(PUBLISHED / "designs.csv"):
        windows = int(row["windows"])
        systems = int(row["systems"])
        years = int(row["days"]) / int(row["days_per_year"])
        test = RankTest(alpha, _pattern(row["shared_days"]))
        least = test.smallest_p(windows)
        found = test.effect(windows, wanted)
        window_sd = tracking_error * math.sqrt(years)
        effect = None if found is None else found * window_sd
        reach.append(
            DesignReach(
                paper=row["paper"],
                design=row["design"],
                source=row["source"],
                systems=systems,
                pairs=math.comb(systems, 2),
                windows=windows,
                days=int(row["days"]),
                runs=int(row["runs"]) if row["runs"] else None,
                effective_windows=test.effective(windows),
                smallest_p=least,
                tests=int(alpha / least * (1 + 1e-12)),
                effect_sd=found,
                effect=effect,
                effect_per_year=None if effect is None else effect / years,
                effect_of_days=normal_effect(window_sd, test.effective(windows), alpha, wanted),
            )
        )

    return DesignsReport(alpha=alpha, power=wanted, tracking_error=tracking_error, designs=reach)


def _pattern(name: str) -> Pattern:
    """Return the shared days of a design's windows. `name`: of the file with their dates; empty if
    they share none.
    """
    if not name:
        return APART

    return pattern_of(overlap_correlation(list(published_spans(name).values())))


# ---- one path


@dataclass(frozen=True, kw_only=True)
class PrintedModel:
    """One row of a printed table, and figures derived from it."""

    model: str
    source: str
    total_return: float  #: of the path, a fraction
    sharpe: float  #: annual, as printed
    beta: float
    t: float  #: of the mean daily excess return against 0
    p: float  #: two-sided, Student's t
    volatility: float  #: annual, from return and Sharpe ratio
    low: float  #: of the volatility, over the figures that round to the printed ones
    high: float


@dataclass(frozen=True, kw_only=True)
class PairsReach:
    """Differences of two models that the path can show, if their returns have this correlation."""

    correlation: float
    sd: float  #: of the difference of two returns of the path, median over pairs
    effect: float  #: smallest true difference found with the wanted power, median over pairs
    effect_of_all: float  #: the same if the level is shared by all pairs
    beyond: int  #: pairs whose printed difference is significant at the level, uncorrected
    beyond_all: int  #: the same if the level is shared by all pairs


@dataclass(frozen=True, kw_only=True)
class PathReport:
    """Report of `ktdeval compare power --published deepfund-3`."""

    table: str
    alpha: float
    power: float  #: wanted
    returns: int  #: daily returns of the path
    models: Sequence[PrintedModel]
    pairs: int
    largest_difference: float  #: of two printed returns
    by_correlation: Sequence[PairsReach]
    tau: float  #: Kendall's, of returns and betas
    tau_p: float  #: exact


def path_report(table: str, alpha: float = 0.05, wanted: float = 0.8) -> PathReport:
    """Report the power of one path of printed figures: for each model against no excess return, and
    for pairs of models by the correlation of their returns.
    """
    rows = csv_rows(PUBLISHED / f"{table}.csv")
    models = [_printed_model(row) for row in rows]
    returns = int(rows[0]["returns"])
    years = returns / float(rows[0]["days_per_year"])
    rank = stats.kendalltau(
        [model.total_return for model in models], [model.beta for model in models], method="exact"
    )
    differences = []
    for first, second in itertools.combinations(models, 2):
        differences.append(abs(first.total_return - second.total_return))

    printed = np.array(differences)
    reach = []
    for correlation in CORRELATIONS:
        sds = _pair_sds(models, correlation) * math.sqrt(years)
        reach.append(_pairs_reach(correlation, sds, printed, alpha, wanted))

    return PathReport(
        table=table,
        alpha=alpha,
        power=wanted,
        returns=returns,
        models=models,
        pairs=len(printed),
        largest_difference=float(printed.max()),
        by_correlation=reach,
        tau=float(rank.statistic),
        tau_p=float(rank.pvalue),
    )


def _pair_sds(models: Sequence[PrintedModel], correlation: float) -> npt.NDArray[np.float64]:
    """Return the [pairs] annual standard deviation of the difference of two models' returns."""
    sds = []
    for first, second in itertools.combinations(models, 2):
        shared = 2.0 * correlation * first.volatility * second.volatility
        sds.append(math.sqrt(first.volatility**2 + second.volatility**2 - shared))

    return np.array(sds)


def _pairs_reach(
    correlation: float,
    sds: npt.NDArray[np.float64],
    printed: npt.NDArray[np.float64],
    alpha: float,
    wanted: float,
) -> PairsReach:
    shared = alpha / len(printed)
    median = float(np.median(sds))
    return PairsReach(
        correlation=correlation,
        sd=median,
        effect=normal_effect(median, 1, alpha, wanted),
        effect_of_all=normal_effect(median, 1, shared, wanted),
        beyond=int((printed >= stats.norm.isf(alpha / 2) * sds).sum()),
        beyond_all=int((printed >= stats.norm.isf(shared / 2) * sds).sum()),
    )


def _printed_model(row: dict[str, str]) -> PrintedModel:
    returns = int(row["returns"])
    days_per_year = float(row["days_per_year"])
    sharpe = float(row["sr"])
    t = sharpe * math.sqrt(returns / days_per_year)
    growth_years = returns / days_per_year
    risk_free = float(row["risk_free"]) / 100

    ends = []
    for cr_step, sr_step in itertools.product((-0.5, 0.5), repeat=2):
        total_return = (float(row["cr"]) + cr_step * _last_digit(row["cr"])) / 100
        ratio = sharpe + sr_step * _last_digit(row["sr"])
        ends.append(implied_volatility(total_return, ratio, growth_years, risk_free))

    total_return = float(row["cr"]) / 100
    return PrintedModel(
        model=row["model"],
        source=row["source"],
        total_return=total_return,
        sharpe=sharpe,
        beta=float(row["beta"]),
        t=t,
        p=float(2 * stats.t.sf(abs(t), returns - 1)),
        volatility=implied_volatility(total_return, sharpe, growth_years, risk_free),
        low=min(ends),
        high=max(ends),
    )


def _last_digit(printed: str) -> float:
    """Return the unit of the last digit of a printed number."""
    return 10.0 ** -len(printed.partition(".")[2])


def implied_volatility(total_return: float, sharpe: float, years: float, risk_free: float) -> float:
    """Return the annual volatility that a total return and an annual Sharpe ratio of arithmetic
    means imply.

    The log growth a year is the arithmetic mean minus half the variance, so `s² / 2 - SR s + g -
    r_f = 0`. If both roots are positive the lower one is returned.

    Raises ValueError: if no volatility fits the figures.
    """
    excess_growth = math.log1p(total_return) / years - risk_free
    root = sharpe**2 - 2.0 * excess_growth
    if root < 0:
        raise ValueError(f"no volatility gives a return of {total_return} a ratio of {sharpe}")

    lower = sharpe - math.sqrt(root)
    return lower if lower > 0 else sharpe + math.sqrt(root)
