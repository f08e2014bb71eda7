"""A printed Sharpe ratio: worked numbers of the papers, planted truth, and words for every case."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from inline_snapshot import snapshot
from msgspec import structs
from scipy import optimize, stats

from ktdeval.errors import UsageError
from ktdeval.stats.sharpe_significance import probabilistic_sharpe, shape_of
from ktdeval.testing import errors_of
from ktdeval_judge.printed_figure import (
    PrintedFigure,
    annual_factor,
    judge_figure,
    reached_by_luck,
)
from ktdeval_judge.printed_figure_options import PrintedFigureOptions
from ktdeval_judge.printed_figure_texts import (
    _days,
    print_printed_figure,
    printed_figure_lines,
    verdict,
)

FIGURE = PrintedFigure(sharpe=2.1, days=170, trials=12)
# Bailey and López de Prado (2014), "A Numerical Example": 1,250 daily returns of 250 a year, annual
# ratio 2.5, skew -3, kurtosis 10; the trials' annual ratios have a variance of 1/2.
PAPER = PrintedFigure(
    sharpe=2.5, days=1250, trials=100, trial_sd=math.sqrt(0.5), skew=-3, kurtosis=10, periods=250
)


def ar1(seed: int, shape: tuple[int, int], rho: float) -> np.ndarray[Any, Any]:
    """[paths x days] of a stationary AR(1) with variance 1 and mean 0."""
    shocks = np.random.default_rng(seed).standard_normal(shape)
    values = np.empty(shape)
    values[:, 0] = shocks[:, 0]
    for day in range(1, shape[1]):
        values[:, day] = rho * values[:, day - 1] + math.sqrt(1 - rho**2) * shocks[:, day]

    return values


def sharpes(returns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """[paths] Sharpe ratios of a day."""
    return returns.mean(axis=1) / returns.std(axis=1, ddof=1)


# ---- the papers


@pytest.mark.parametrize(("trials", "probability"), [(100, 0.9004), (46, 0.9505)])
def test_the_deflated_ratio_is_that_of_the_paper(trials: int, probability: float) -> None:
    luck = judge_figure(replace(PAPER, trials=trials)).luck

    assert luck.probability == pytest.approx(probability, abs=5e-5)


def test_the_expected_best_of_100_trials_is_that_of_the_paper() -> None:
    assert judge_figure(PAPER).luck.sharpe / math.sqrt(250) == pytest.approx(0.1132, abs=5e-5)


@pytest.mark.parametrize(("skew", "kurtosis", "psr"), [(0, 3, 0.982), (-2.448, 10.164, 0.913)])
def test_the_probabilistic_ratio_is_that_of_the_paper(
    skew: float, kurtosis: float, psr: float
) -> None:
    """Bailey and López de Prado (2012): 24 monthly returns with a ratio of 0.458 a month."""
    figure = PrintedFigure(
        sharpe=0.458 * math.sqrt(12), days=24, skew=skew, kurtosis=kurtosis, periods=12
    )
    assert judge_figure(figure).zero.probability == pytest.approx(psr, abs=5e-4)


@pytest.mark.parametrize("rho", [-0.5, -0.2, 0.0, 0.2, 0.7])
def test_the_annual_factor_is_los_sum_of_autocorrelations(rho: float) -> None:
    """Lo (2002): q / sqrt(q + 2 sum over k of (q - k) rho^k)."""
    q = 12
    total = q + 2 * sum((q - k) * rho**k for k in range(1, q))

    assert annual_factor(q, rho) == pytest.approx(q / math.sqrt(total), rel=1e-12)


# ---- an independent computation


def test_every_figure_agrees_with_scipy_by_hand() -> None:
    report = judge_figure(replace(FIGURE, skew=-0.4, kurtosis=5.0))
    day = 2.1 / math.sqrt(252)
    error = math.sqrt((1 + 0.4 * day + day**2) / 169)
    spread = 1 / math.sqrt(169)
    best = spread * (
        (1 - np.euler_gamma) * stats.norm.ppf(1 - 1 / 12)
        + np.euler_gamma * stats.norm.ppf(1 - 1 / (12 * math.e))
    )

    assert report.zero.probability == pytest.approx(stats.norm.cdf(day / error))
    assert report.luck.probability == pytest.approx(stats.norm.cdf((day - best) / error))
    assert report.luck.reached_by_luck == pytest.approx(1 - stats.norm.cdf(day / spread) ** 12)
    assert report.interval == pytest.approx(
        stats.norm.interval(0.95, loc=2.1, scale=error * math.sqrt(252))
    )

    def missing(ratio: float) -> float:
        own_error = math.sqrt((1 + 0.4 * ratio + ratio**2) / 169)
        return ratio - best - (stats.norm.ppf(0.95) + stats.norm.ppf(0.8)) * own_error

    shown = optimize.brentq(missing, 0, 5) * math.sqrt(252)
    assert report.luck.smallest_shown == pytest.approx(shown, rel=1e-9)


# z = 2.1 / sqrt(252) / (1 / sqrt(169)) = 1.7197 without a spread; with one of 3 a year z = 0.7
@pytest.mark.parametrize(
    ("trials", "trial_sd", "against_zero", "against_luck"),
    [
        (1, None, 0.04274, 0.04274),  # 1 - Phi(1.7197)
        (1, 0.5, 0.04274, 0.04274),
        (1, 3.0, 0.04274, 0.04274),
        (12, None, 0.04274, 0.40798),  # 1 - 0.95726^12
        (12, 3.0, 0.04274, 0.96400),  # 1 - Phi(0.7)^12 = 1 - 0.75804^12
        (12, 1e-6, 0.04274, 0.04274),  # one trial, twelve times
    ],
)
def test_luck_is_measured_against_zero_and_against_the_best_of_all_trials(
    trials: int, trial_sd: float | None, against_zero: float, against_luck: float
) -> None:
    report = judge_figure(replace(FIGURE, trials=trials, trial_sd=trial_sd))

    assert report.zero.reached_by_luck == pytest.approx(against_zero, abs=5e-5)
    assert report.luck.reached_by_luck == pytest.approx(against_luck, abs=5e-5)


# ---- planted truth


@pytest.mark.parametrize("correlation", [0.3, 0.8])
def test_trials_that_scatter_less_than_one_ratio_errs_share_luck(correlation: float) -> None:
    """The spread of equally correlated trials is sqrt(1 - correlation) of the error of one."""
    error = math.sqrt(252 / 169)
    spread = math.sqrt(1 - correlation) * error
    figure = replace(FIGURE, trial_sd=spread)
    chance = np.random.default_rng(8)
    shared = chance.standard_normal((200_000, 1)) * math.sqrt(correlation) * error
    best = (shared + chance.standard_normal((200_000, 12)) * spread).max(axis=1)

    report = judge_figure(figure)
    assert report.luck.reached_by_luck == pytest.approx(np.mean(best >= 2.1), abs=0.004)
    assert report.luck.sharpe == pytest.approx(best.mean(), rel=0.03)
    assert report.trial_correlation == pytest.approx(correlation)
    assert "assumed to share luck" in " ".join("\n".join(printed_figure_lines(report)).split())


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 5), st.integers(2, 10**9), st.floats(1e-6, 10))
def test_luck_lies_between_that_of_one_trial_and_certainty(
    sharpe: float, trials: int, trial_sd: float
) -> None:
    report = judge_figure(replace(FIGURE, sharpe=sharpe, trials=trials, trial_sd=trial_sd))

    assert (
        report.zero.reached_by_luck
        == judge_figure(replace(FIGURE, sharpe=sharpe)).zero.reached_by_luck
    )
    assert report.zero.reached_by_luck - 1e-6 <= report.luck.reached_by_luck <= 1.0


def test_the_best_of_twelve_lucky_strategies_reaches_it_as_often_as_said() -> None:
    returns = np.random.default_rng(7).standard_normal((12 * 1500, 170))
    best = sharpes(returns).reshape(1500, 12).max(axis=1) * math.sqrt(252)
    expected = reached_by_luck(FIGURE, 12)

    assert np.mean(best >= 2.1) == pytest.approx(expected, abs=3 * math.sqrt(0.24 / 1500))
    assert best.mean() == pytest.approx(judge_figure(FIGURE).luck.sharpe, abs=0.05)


@pytest.mark.parametrize("rho", [0.0, 0.3, -0.3])
def test_the_interval_covers_a_planted_ratio_of_autocorrelated_returns(rho: float) -> None:
    true = 0.1
    covered = []
    for ratio in sharpes(true + ar1(3, (1000, 400), rho)):
        figure = PrintedFigure(sharpe=float(ratio), days=400, periods=1, autocorrelation=rho)
        low, high = judge_figure(figure).interval
        covered.append(low <= true <= high)

    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


def test_the_interval_covers_a_planted_ratio_of_skewed_returns() -> None:
    """A gamma law of shape 1: skew 2, kurtosis 9. Without them it covers too much."""
    true = 0.5
    returns = true - 1 + np.random.default_rng(4).standard_exponential((1000, 400))
    covered = {9.0: 0, 3.0: 0}
    for ratio in sharpes(returns):
        for kurtosis, skew in ((9.0, 2.0), (3.0, 0.0)):
            low, high = judge_figure(
                PrintedFigure(
                    sharpe=float(ratio), days=400, periods=1, skew=skew, kurtosis=kurtosis
                )
            ).interval
            covered[kurtosis] += low <= true <= high

    assert covered[9.0] / 1000 == pytest.approx(0.95, abs=0.02)
    assert covered[3.0] / 1000 > 0.97


def test_the_smallest_ratio_that_days_show_is_shown_four_times_in_five() -> None:
    true = judge_figure(replace(FIGURE, trials=1)).zero.smallest_shown
    assert true is not None

    returns = true / math.sqrt(252) + np.random.default_rng(5).standard_normal((1000, 170))
    shown = [probabilistic_sharpe(shape_of(path)) >= 0.95 for path in returns]

    assert np.mean(shown) == pytest.approx(0.8, abs=0.03)


# ---- properties


@settings(deadline=None, max_examples=40)
@given(
    st.floats(0.1, 5),
    st.integers(3, 3000),
    st.integers(1, 500),
    st.floats(-1, 1),
    st.floats(-0.5, 0.5),
)
def test_at_the_track_record_the_deflated_ratio_reaches_its_confidence(
    sharpe: float, days: int, trials: int, skew: float, rho: float
) -> None:
    figure = PrintedFigure(
        sharpe=sharpe, days=days, trials=trials, skew=skew, kurtosis=5, autocorrelation=rho
    )
    needed = judge_figure(figure).luck.track_record
    assert needed is not None

    enough = replace(figure, days=max(3, math.ceil(needed)))
    assert judge_figure(enough).luck.probability >= 0.95 - 1e-9
    if needed >= 5:
        assert judge_figure(replace(figure, days=math.floor(needed) - 1)).luck.probability < 0.95


@settings(deadline=None, max_examples=40)
@given(st.floats(-5, 5), st.integers(3, 3000), st.integers(1, 10**9))
def test_more_trials_never_make_a_figure_better(sharpe: float, days: int, trials: int) -> None:
    one = judge_figure(PrintedFigure(sharpe=sharpe, days=days))
    many = judge_figure(PrintedFigure(sharpe=sharpe, days=days, trials=trials))

    assert many.luck.probability <= one.zero.probability + 1e-12
    assert many.luck.reached_by_luck >= one.zero.reached_by_luck - 1e-12
    assert one.luck == structs.replace(one.zero, against="luck"), "one trial: no luck to deflate"


def test_a_number_of_days_is_whole_and_in_years_of_252_days() -> None:
    assert _days(300.2, judge_figure(FIGURE)) == "301 days (1.2 years)"


def test_a_ratio_that_is_not_positive_needs_no_number_of_days() -> None:
    report = judge_figure(replace(FIGURE, sharpe=-0.5))

    assert report.luck.track_record is None
    assert report.luck.days_needed is None
    assert report.luck.reason == "the ratio is not above the best of the trials without skill"
    assert "No number of returns would change that" in " ".join(verdict(report))


def test_few_monthly_returns_with_heavy_tails_show_no_ratio() -> None:
    report = judge_figure(PrintedFigure(sharpe=3, days=6, kurtosis=9, periods=12))

    assert report.zero.smallest_shown is None


# ---- words


def test_words_come_first_and_begin_with_what_luck_does() -> None:
    lines = list(printed_figure_lines(judge_figure(FIGURE)))

    assert lines[0].startswith(
        "A Sharpe ratio of 2.1 over 170 days would be beaten by the best of 12 lucky tries 40.8 %"
    )
    assert len(lines) < 24
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "This is not evidence of skill"),
        ({"days": 2000}, "This is evidence of skill"),
        ({"trials": 1}, "beaten by a strategy without skill 4.27 % of the time"),
        (
            {"sharpe": 2.5, "days": 1250, "trial_sd": 0.75, "trials": 60},
            "Luck alone seldom reaches",
        ),
        ({"periods": 12}, "over 170 returns"),
    ],
)
def test_the_verdict_follows_the_figures(changes: dict[str, Any], words: str) -> None:
    assert words in " ".join(verdict(judge_figure(replace(FIGURE, **changes))))


def test_assumptions_are_stated() -> None:
    judged = judge_figure(replace(FIGURE, days=20, autocorrelation=0.1))
    assert "\n".join(printed_figure_lines(judged)) == snapshot("""\
A Sharpe ratio of 2.1 over 20 days would be beaten by the best of 12 lucky tries 98.6 % of the time.
As an only try, its two-sided 95 % interval is -5.82 to 10.02; as the best of 12 it is too high.
This is not evidence of skill: its deflated Sharpe ratio, the one-sided confidence that it exceeds
6.70, the average best of 12 tries without skill, is 12.7 %, and 95 % is required. A ratio of this
size needs 769 days (3.1 years) to be evidence. 20 days detect a true ratio of 19.48 in 80 % of all
cases, and a smaller one less often.

                                                           against 0  against the best of 12
  bar: annual Sharpe ratio                                      0.00                    6.70
  luck alone reaches the printed ratio                        30.1 %                  98.6 %
  one-sided confidence that it exceeds the bar (PSR, DSR)     69.8 %                  12.7 %
  days until that confidence is 95 % (MinTRL)                    192                     769
  days to show such a true ratio, 80 % of the time               436                   1,210
  smallest true ratio that 20 days show                        10.96                   19.48

  Assumed: 252 returns a year, skew 0, kurtosis 3, autocorrelation 0.1; standard error 4.04 a year.
  Trials are independent; their annual ratios have a standard deviation of 4.03 (assumed: chance
    alone, no skill (--trial-sd)).
  With this autocorrelation, the annual ratio is 1.90 by Lo's rule.
  Fewer than 30 returns: all figures are rough approximations.
  PSR: probabilistic, DSR: deflated Sharpe ratio, MinTRL: minimum track record length (Bailey and
    López de Prado 2012, 2014).\
""")


def test_json_has_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    print_printed_figure(PrintedFigureOptions(sharpe=2.1, days=170, trials=12, as_json=True))
    printed = json.loads(capsys.readouterr().out)

    assert printed["luck"]["probability"] == judge_figure(FIGURE).luck.probability
    assert printed["is_trial_sd_given"] is False


# ---- wrong input


def test_an_impossible_value_is_refused_in_one_line(tmp_path: Path) -> None:
    every: list[dict[str, float]] = [
        {"sharpe": math.nan},
        {"sharpe": math.inf},
        {"days": 2},
        {"days": -5},
        {"trials": 0},
        {"trial_sd": 0.0},
        {"trial_sd": math.nan},
        {"skew": math.nan},
        {"kurtosis": 0.0},
        {"skew": 3.0},
        {"kurtosis": math.nan},
        {"autocorrelation": 1.0},
        {"periods": 0.0},
    ]

    assert errors_of(
        lambda changes: replace(FIGURE, **changes), *every, folder=tmp_path
    ) == snapshot("""\
UsageError: --sharpe nan: expected a number, the annual Sharpe ratio, such as 2.1
UsageError: --sharpe inf: expected a number, the annual Sharpe ratio, such as 2.1
UsageError: --days 2: a Sharpe ratio has no error on fewer than 3 returns; give the number of daily returns behind it
UsageError: --days -5: a Sharpe ratio has no error on fewer than 3 returns; give the number of daily returns behind it
UsageError: --trials 0: expected 1 to 10^9, including the judged strategy
UsageError: --trial-sd 0: expected a number above 0, the standard deviation of the trials' annual Sharpe ratios
UsageError: --trial-sd nan: expected a number above 0, the standard deviation of the trials' annual Sharpe ratios
UsageError: --skew nan: expected a number (0 for a normal distribution)
UsageError: --kurtosis 0: is impossible; with skew 0 it is at least 1 (3 for a normal distribution; add 3 to an excess kurtosis)
UsageError: --kurtosis 3: is impossible; with skew 3 it is at least 10 (3 for a normal distribution; add 3 to an excess kurtosis)
UsageError: --kurtosis nan: is impossible; with skew 0 it is at least 1 (3 for a normal distribution; add 3 to an excess kurtosis)
UsageError: --autocorrelation 1: expected a number from -0.99 to 0.99
UsageError: --periods 0: expected the number of returns per year, 1 or more: 252 for daily, 12 for monthly returns
""")


def test_a_ratio_without_its_days_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--sharpe 2\.1 needs --days"):
        print_printed_figure(PrintedFigureOptions(sharpe=2.1))
