"""Power of published designs and figures. The input consists of tables of facts that are shipped
with the package, and never includes a user's run.
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
from ktdeval_compare.pairs.signed_ranks import APART, Pattern, RankTest, pattern_of, published_spans

PUBLISHED = Path(__file__).with_name("published")
TRACKING_ERROR = 0.1  #: default annual tracking error
#: correlations between the daily returns of two models. No paper reports a correlation, so the
#: report covers a range
CORRELATIONS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)


# ---- designs


@dataclass(frozen=True, kw_only=True)
class DesignReach:
    """Power of a published design to detect a difference between two of its systems."""

    paper: str
    design: str
    source: str  #: section and table in the paper
    systems: int  #: number of agents, models or conditions compared
    pairs: int  #: number of pairwise comparisons
    windows: int
    days: int  #: trading days per window
    runs: int | None  #: number of repetitions; None if the paper does not report it
    #: number of independent windows whose mean would have the same uncertainty
    effective_windows: float
    smallest_p: float  #: smallest possible p-value of the signed-rank test over windows
    tests: int  #: maximum number of tests that can share the significance level
    #: detectable effect over windows, in standard deviations of a window's difference; None if no
    #: effect can be detected
    effect_sd: float | None
    effect: float | None  #: the same effect as a return per window, given the tracking error
    effect_per_year: float | None
    #: effect that a z test over the days themselves can detect, as a return per window. It does not
    #: generalise beyond these days
    effect_of_days: float


@dataclass(frozen=True, kw_only=True)
class DesignsReport:
    """Report of `ktdeval compare power --published designs`."""

    alpha: float
    power: float  #: requested power
    tracking_error: float  #: annual tracking error of the difference between two systems
    designs: Sequence[DesignReach]


def designs_report(
    alpha: float = 0.05, wanted: float = 0.8, tracking_error: float = TRACKING_ERROR
) -> DesignsReport:
    """Report the effects that the designs of the five papers can detect, given the significance
    level and the tracking error.
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
    """Return the pattern in which a design's windows share days. `name` is the name of the file
    with the window dates; it is empty if windows share no days.
    """
    if not name:
        return APART

    return pattern_of(overlap_correlation(list(published_spans(name).values())))


# ---- one path


@dataclass(frozen=True, kw_only=True)
class PrintedModel:
    """A row in a published table, with figures derived from it."""

    model: str
    source: str
    total_return: float  #: total return over the path, as a fraction
    sharpe: float  #: annual Sharpe ratio, as reported
    beta: float
    t: float  #: t statistic for the mean daily excess return against 0
    p: float  #: two-sided p-value from Student's t distribution
    volatility: float  #: annual volatility implied by the return and the Sharpe ratio
    low: float  #: lowest volatility over all figures that round to the reported figures
    high: float


@dataclass(frozen=True, kw_only=True)
class PairsReach:
    """Differences that the path can show between two models whose returns have a given
    correlation.
    """

    correlation: float
    #: standard deviation of the difference between two models' returns over the path, median over
    #: pairs
    sd: float
    #: smallest true difference that is detected with the requested power, median over pairs
    effect: float
    effect_of_all: float  #: the same if all pairs share the significance level
    #: number of pairs whose reported difference is significant without correction
    beyond: int
    beyond_all: int  #: the same if all pairs share the significance level


@dataclass(frozen=True, kw_only=True)
class PathReport:
    """Report of `ktdeval compare power --published deepfund-3`."""

    table: str
    alpha: float
    power: float  #: requested power
    returns: int  #: number of daily returns in the path
    models: Sequence[PrintedModel]
    pairs: int
    largest_difference: float  #: largest difference between two reported returns
    by_correlation: Sequence[PairsReach]
    tau: float  #: Kendall's tau between returns and betas
    tau_p: float  #: exact p-value of Kendall's tau


def path_report(table: str, alpha: float = 0.05, wanted: float = 0.8) -> PathReport:
    """Report the power of a single path of reported figures: for each model, tested against zero
    excess return, and for pairs of models, depending on the correlation between their returns.
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
    """Return the annual standard deviation of the difference between two models' returns,
    [pairs].
    """
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
    """Return the value of one unit in the last digit of a number as printed."""
    return 10.0 ** -len(printed.partition(".")[2])


def implied_volatility(total_return: float, sharpe: float, years: float, risk_free: float) -> float:
    """Return the annual volatility that is implied by a total return and an annual Sharpe ratio of
    arithmetic means.

    The annual log growth is the arithmetic mean minus half the variance, so `s² / 2 - SR s + g -
    r_f = 0`. If both roots are positive, the smaller root is returned.

    Raises ValueError if no volatility is consistent with the figures.
    """
    excess_growth = math.log1p(total_return) / years - risk_free
    root = sharpe**2 - 2.0 * excess_growth
    if root < 0:
        raise ValueError(f"no volatility gives a return of {total_return} a ratio of {sharpe}")

    lower = sharpe - math.sqrt(root)
    return lower if lower > 0 else sharpe + math.sqrt(root)
