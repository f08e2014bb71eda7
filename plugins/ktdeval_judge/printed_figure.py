"""Evidence in a reported Sharpe ratio: its confidence interval, the part that luck over multiple
trials can explain, and the track record that is needed.

Estimates are assumed to be normal around the true ratio. The standard error is that of Lo, *The
Statistics of Sharpe Ratios* (2002), extended to skewness, kurtosis and an AR(1)
(`ktdeval.stats.SharpeMoments`). Thresholds, probabilities and track records follow Bailey and López
de Prado (2012, 2014).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from ktdeval.errors import UsageError
from ktdeval.stats import (
    SharpeMoments,
    expected_best_sharpe,
    minimum_track_record,
    normal_probability,
    normal_quantile,
    probabilistic_sharpe,
)
from ktdeval.values import Value

ROUGH_BELOW = 30  #: with fewer returns, the normal approximation is reported to be rough
USUAL_PERIODS = 252.0  #: returns per year if not known; stated as an assumption
_DAYS = (200, 366)  #: range of returns per year for which a series is daily
_NO_RATIO = 1e-9  #: a daily ratio below this is treated as 0
_LARGEST = 1e6  #: largest plausible ratio; larger ratios must be in wrong units
_WIDEST = 9.0  #: number of standard deviations beyond which normal probabilities are negligible


def is_daily(returns_a_year: float) -> bool:
    """Return whether a year has about as many returns as trading days."""
    return _DAYS[0] <= returns_a_year <= _DAYS[1]


@dataclass(frozen=True, kw_only=True)
class PrintedFigure:
    """A reported Sharpe ratio, with what is known or assumed about its returns.

    Raises UsageError if a value is impossible. The message names the option.

    Example:
        judge_figure(PrintedFigure(sharpe=2.1, days=170, trials=12)).luck
    """

    #: annualised: daily mean divided by daily standard deviation, times sqrt(periods)
    sharpe: float
    days: int  #: number of returns
    trials: int = 1  #: number of strategies tried, including the reported one
    #: standard deviation of the trials' annual ratios; if None, the sampling error without skill.
    #: Not used if there is only one trial
    trial_sd: float | None = None
    skew: float = 0.0  #: standardised third moment of the returns
    kurtosis: float = 3.0  #: standardised fourth moment (3 for a normal distribution)
    #: first-order autocorrelation of the returns, which are modelled as an AR(1)
    autocorrelation: float = 0.0
    periods: float = USUAL_PERIODS  #: returns per year
    #: confidence level of the interval (two-sided) and of all tests (one-sided)
    confidence: float = 0.95
    power: float = 0.8  #: probability with which a true ratio should be detected

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise UsageError(problem)

    @property
    def moments(self) -> SharpeMoments:
        """Moments of the returns, with the daily Sharpe ratio."""
        per_day = self.sharpe / math.sqrt(self.periods)
        return SharpeMoments(self.days, per_day, self.skew, self.kurtosis, self.autocorrelation)

    @property
    def sampling_variance(self) -> float:
        """Variance of a daily ratio without skill, which is only due to sampling error."""
        return _without_skill(self.moments).error_variance / (self.days - 1)

    @property
    def trial_variance(self) -> float:
        """Variance of the trials' daily ratios around their mean."""
        if self.trial_sd is not None:
            return self.trial_sd**2 / self.periods
        return self.sampling_variance

    @property
    def trial_correlation(self) -> float:
        """Correlation between trials. It is above 0 if the trials' spread is below the standard
        error of one ratio, because independent trials can't have such a spread. The trials'
        variance is then `(1 - correlation)` times the error variance.
        """
        return max(0.0, 1.0 - self.trial_variance / self.sampling_variance)


def _problems(figure: PrintedFigure) -> list[str]:
    """Return one line for each impossible value."""
    problems = []
    if not abs(figure.sharpe) < _LARGEST:
        problems.append(
            f"--sharpe {figure.sharpe:g}: expected a number, the annual Sharpe ratio, such as 2.1"
        )
    if figure.days <= 2:
        problems.append(
            f"--days {figure.days}: a Sharpe ratio has no error on fewer than 3 returns; give the"
            " number of daily returns behind it"
        )
    problems += trial_problems(figure.trials, figure.trial_sd)
    if not math.isfinite(figure.skew):
        problems.append(f"--skew {figure.skew:g}: expected a number (0 for a normal distribution)")
    elif not 1 + figure.skew**2 <= figure.kurtosis < _LARGEST:
        problems.append(
            f"--kurtosis {figure.kurtosis:g}: is impossible; with skew {figure.skew:g} it is at "
            f"least {1 + figure.skew**2:g} (3 for a normal distribution; add 3 to an excess "
            "kurtosis)"
        )
    if not abs(figure.autocorrelation) <= 0.99:
        problems.append(
            f"--autocorrelation {figure.autocorrelation:g}: expected a number from -0.99 to 0.99"
        )
    if not 1 <= figure.periods <= 1e6:
        problems.append(
            f"--periods {figure.periods:g}: expected the number of returns per year, 1 or more: "
            "252 for daily, 12 for monthly returns"
        )

    return problems


def trial_problems(trials: int | None, trial_sd: float | None) -> list[str]:
    """Return one line for each impossible value of the number and the spread of trials; None is
    valid.
    """
    problems = []
    if trials is not None and not 1 <= trials <= 10**9:
        problems.append(f"--trials {trials}: expected 1 to 10^9, including the judged strategy")
    if trial_sd is not None and not 0 < trial_sd < _LARGEST:
        problems.append(
            f"--trial-sd {trial_sd:g}: expected a number above 0, the standard deviation of the"
            " trials' annual Sharpe ratios"
        )
    return problems


class LuckBar(Value):
    """Evidence in a printed ratio against one threshold (bar). Ratios are annual."""

    against: str  #: `zero` or `luck`
    sharpe: float  #: the threshold: 0, or the expected maximum ratio of the trials without skill
    #: probability that the true ratio is above the threshold: PSR against zero, DSR against luck
    probability: float
    #: probability that the best trial reaches the reported ratio by luck; against zero, there is
    #: only one trial
    reached_by_luck: float
    #: number of returns after which a ratio of this size is above the threshold at the confidence
    #: level (one-sided); None if never
    track_record: float | None
    #: number of returns after which a true ratio of this size is detected with the given power;
    #: None if never
    days_needed: float | None
    #: smallest true ratio that this number of returns detects with the given power; None if there
    #: is none
    smallest_shown: float | None
    reason: str | None = None  #: why another field is None


class JudgedFigure(Value):
    """A Sharpe ratio against 0 and against luck. Ratios are annual, counts are numbers of
    returns.
    """

    sharpe: float
    days: int
    trials: int
    sharpe_per_day: float
    standard_error: float
    interval: tuple[float, float]  #: two-sided
    confidence: float  #: of the interval (two-sided) and of PSR and DSR (one-sided)
    power: float
    #: annual ratio according to Lo's rule for autocorrelated returns; without autocorrelation, it
    #: equals the reported ratio
    annualised: float
    zero: LuckBar
    luck: LuckBar
    trial_sd: float  #: standard deviation of the trials' ratios, assumed or given
    is_trial_sd_given: bool
    #: standard deviation of a ratio without skill, which is only due to chance
    error_without_skill: float
    #: 0 if the trials may be independent; above 0 if their given spread is below the standard error
    #: of one ratio
    trial_correlation: float
    skew: float
    kurtosis: float
    autocorrelation: float
    periods: float
    #: number of returns after which the interval of a ratio of this size lies above 0; None if never
    interval_days: float | None = None


def judge_figure(figure: PrintedFigure) -> JudgedFigure:
    """Return the evidence in a reported Sharpe ratio.

    Example:
        judge_figure(PrintedFigure(sharpe=2.1, days=170, trials=12)).luck.probability  # DSR
    """
    moments = figure.moments
    year = math.sqrt(figure.periods)
    error = math.sqrt(max(moments.error_variance, 0.0) / (figure.days - 1)) * year
    reach = normal_quantile((1 + figure.confidence) / 2) * error

    zero = _bar(figure, "zero", 0.0)
    luck = msgspec.structs.replace(zero, against="luck")
    if figure.trials > 1:
        best = expected_best_sharpe(figure.trials, figure.trial_variance)
        luck = _bar(figure, "luck", best)

    return JudgedFigure(
        sharpe=figure.sharpe,
        days=figure.days,
        trials=figure.trials,
        sharpe_per_day=moments.sharpe,
        standard_error=error,
        interval=(figure.sharpe - reach, figure.sharpe + reach),
        confidence=figure.confidence,
        power=figure.power,
        annualised=moments.sharpe * annual_factor(figure.periods, figure.autocorrelation),
        zero=zero,
        luck=luck,
        trial_sd=math.sqrt(figure.trial_variance) * year,
        is_trial_sd_given=figure.trial_sd is not None,
        error_without_skill=math.sqrt(figure.sampling_variance) * year,
        trial_correlation=figure.trial_correlation,
        skew=figure.skew,
        kurtosis=figure.kurtosis,
        autocorrelation=figure.autocorrelation,
        periods=figure.periods,
        interval_days=minimum_track_record(moments, 0.0, (1 + figure.confidence) / 2),
    )


def annual_factor(periods: float, autocorrelation: float) -> float:
    """Return the factor that annualises a per-period Sharpe ratio if returns follow an AR(1).
    Without autocorrelation, the factor is the square root of `periods`.
    """
    rho = autocorrelation
    whole = round(periods)  # an integer, because a negative `rho` has no real fractional power

    # factor for an AR(1) (Lo 2002)
    covariances = rho / (1 - rho) * (1 - (1 - rho**whole) / (whole * (1 - rho)))
    return math.sqrt(periods / (1 + 2 * covariances))


def reached_by_luck(figure: PrintedFigure, trials: int) -> float:
    """Return the probability that the best of `trials` trials without skill reaches the reported
    ratio.

    For one trial, the probability is `1 - Phi(z)`, where z is the ratio divided by its standard
    error without skill. For several trials, it is `1 - Phi(z)^trials`, where z is the ratio divided
    by the trials' spread. If the spread is below the standard error of one ratio, the trials share
    a luck component c, which is normal and accounts for the remaining error variance. The result is
    then the mean over c of `1 - Phi((ratio - c) / spread)^trials`.
    """
    ratio = figure.moments.sharpe
    from scipy.special import log_ndtr  # noqa: PLC0415 - heavy, and the help needs none

    own = figure.sampling_variance
    shared = 0.0
    if trials > 1:
        own = figure.trial_variance
        shared = math.sqrt(max(figure.sampling_variance - own, 0.0))

    def reach_ratio(luck: float) -> float:
        score = (ratio - shared * luck) / math.sqrt(own)
        return -math.expm1(trials * float(log_ndtr(score)))

    if not shared:
        return reach_ratio(0.0)

    # heavy, and only correlated trials need them
    from scipy.integrate import quad  # noqa: PLC0415
    from scipy.stats import norm  # noqa: PLC0415

    # point from which the shared luck is sufficient; the integrand may jump there
    needed = (ratio - expected_best_sharpe(trials, own)) / shared
    step = min(max(needed, -_WIDEST), _WIDEST)
    mean, _ = quad(
        lambda luck: norm.pdf(luck) * reach_ratio(luck), -_WIDEST, _WIDEST, points=[step], limit=200
    )
    return min(float(mean), 1.0)


def _bar(figure: PrintedFigure, against: str, best: float) -> LuckBar:
    """Return the evidence in a figure against a threshold, the daily ratio `best`."""
    moments = figure.moments
    trials = 1 if against == "zero" else figure.trials
    sure = normal_quantile(figure.confidence)
    found = sure + normal_quantile(figure.power)
    is_fixed = against == "zero" or figure.trial_sd is not None

    if is_fixed:
        track_record = minimum_track_record(moments, best, figure.confidence)
        days_needed = minimum_track_record(moments, best, normal_probability(found))
    else:
        track_record = _days_above_luck(figure, sure)
        days_needed = _days_above_luck(figure, found)

    shown = _smallest_shown(moments, best, found)
    reason = None
    if track_record is None:
        bar = "0" if against == "zero" else "the best of the trials without skill"
        reason = f"the ratio is not above {bar}"
    elif shown is None:
        reason = "with so few returns and such moments, no ratio is detectable"

    year = math.sqrt(figure.periods)
    return LuckBar(
        against=against,
        sharpe=best * year,
        probability=probabilistic_sharpe(moments, best),
        reached_by_luck=reached_by_luck(figure, trials),
        track_record=track_record,
        days_needed=days_needed,
        smallest_shown=None if shown is None else shown * year,
        reason=reason,
    )


def _days_above_luck(figure: PrintedFigure, score: float) -> float | None:
    """Return the number of returns after which the reported ratio is `score` standard errors above
    the expected maximum of its trials. The trials' spread decreases with the number of returns.
    Return None if the ratio is not positive.
    """
    moments = figure.moments
    if moments.sharpe < _NO_RATIO:
        return None

    error = math.sqrt(max(moments.error_variance, 0.0))
    luck = expected_best_sharpe(figure.trials, _without_skill(moments).error_variance)
    return 1 + ((score * error + luck) / moments.sharpe) ** 2


def _smallest_shown(moments: SharpeMoments, best: float, score: float) -> float | None:
    """Return the daily ratio that is `score` of its own standard errors above `best`, or None if no
    ratio satisfies this.
    """
    share = score**2 / (moments.days - 1)

    # Solve (S - best)^2 = share * error variance(S), a quadratic equation in S. Its coefficients
    # are computed from the values at -1, 0 and 1.
    values = []
    for ratio in (-1.0, 0.0, 1.0):
        at_ratio = SharpeMoments(
            moments.days, ratio, moments.skew, moments.kurtosis, moments.autocorrelation
        )
        values.append((ratio - best) ** 2 - share * at_ratio.error_variance)

    square = (values[0] + values[2]) / 2 - values[1]
    linear = (values[2] - values[0]) / 2
    if square <= 0:  # the error grows as fast as the ratio, so no ratio is far enough above `best`
        return None
    return (-linear + math.sqrt(max(linear**2 - 4 * square * values[1], 0.0))) / (2 * square)


def _without_skill(moments: SharpeMoments) -> SharpeMoments:
    """Return the moments of the same returns with a true ratio of 0."""
    return SharpeMoments(moments.days, 0.0, moments.skew, moments.kurtosis, moments.autocorrelation)
