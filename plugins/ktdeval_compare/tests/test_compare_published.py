"""`ktdeval compare power --published`: published designs and printed figures, results derived by
hand, and refusals.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from inline_snapshot import snapshot

from ktdeval.values import csv_rows
from ktdeval_compare.plans.published_power import PUBLISHED, implied_volatility
from support.figures.compare_cards import CardTerminal

DESIGNS = csv_rows(PUBLISHED / "designs.csv")
DEEPFUND = csv_rows(PUBLISHED / "deepfund-3.csv")


@pytest.fixture
def path(terminal: CardTerminal) -> dict[str, Any]:
    report: dict[str, Any] = terminal.report("compare", "power", "--published", "deepfund-3")
    return report


# ---- designs

#: holidays of the New York Stock Exchange on weekdays within the papers' dates
CLOSED = [
    *("2020-01-20", "2020-02-17", "2020-04-10", "2020-05-25", "2020-07-03", "2020-09-07"),
    *("2020-11-26", "2020-12-25", "2021-01-01", "2021-01-18", "2021-02-15", "2021-04-02"),
    "2025-09-01",
]


@pytest.mark.parametrize(
    ("paper", "design", "first", "last"),
    [
        ("InvestorBench", "one stock", "2020-10-01", "2021-05-06"),
        ("AMA", "one stock", "2025-08-01", "2025-09-30"),
        ("DeepFund", "nine models", "2025-03-17", "2025-04-17"),
    ],
)
def test_days_of_stocks_are_those_of_the_papers_dates(
    paper: str, design: str, first: str, last: str
) -> None:
    (row,) = [each for each in DESIGNS if (each["paper"], each["design"]) == (paper, design)]
    day_after = np.datetime64(last) + 1

    assert int(row["days"]) == np.busday_count(first, day_after, holidays=CLOSED)


@pytest.mark.parametrize(
    ("paper", "design", "first", "last"),
    [
        ("InvestorBench", "two coins as windows", "2023-04-05", "2023-11-05"),
        ("AMA", "one coin", "2025-08-01", "2025-09-30"),
    ],
)
def test_days_of_coins_are_those_of_the_papers_dates(
    paper: str, design: str, first: str, last: str
) -> None:
    (row,) = [each for each in DESIGNS if (each["paper"], each["design"]) == (paper, design)]

    assert int(row["days"]) == (np.datetime64(last) - np.datetime64(first)).astype(int) + 1


@pytest.mark.slow
def test_a_design_finds_what_a_plan_of_its_windows_finds(terminal: CardTerminal) -> None:
    """By hand: the SD of 43 of 252 days at 10 % a year is 4.13 %; ten windows that share days as
    KTD-Fin's do find 1.15 of them, seven that share none 1.37.
    """
    report = terminal.report("compare", "power", "--published", "designs")
    options = ("--windows", "7", "--tracking-error", "0.1", "--window-days", "150")
    plan = terminal.report("compare", "power", *options)
    ten = report["designs"][0]
    sd = 0.1 * math.sqrt(43 / 252)

    assert ten["effect"] == pytest.approx(1.154 * sd, rel=0.01)
    assert ten["effective_windows"] == pytest.approx(8.264, abs=1e-3)
    assert ten["effect_of_days"] == pytest.approx(2.8016 * sd / math.sqrt(8.264), rel=1e-4)
    assert ten["smallest_p"] == pytest.approx(0.0031, abs=3e-4), "2 / 2**10 without shared days"
    assert (ten["tests"], ten["pairs"]) == (16, 66)

    seven = report["designs"][4]
    assert seven["effect"] == plan["by_seeds"][0]["effect"]
    assert (seven["smallest_p"], seven["effective_windows"]) == (2 / 2**7, 7.0)


# ---- one path


@pytest.mark.parametrize("row", DEEPFUND, ids=lambda row: row["model"])
def test_win_rates_are_counts_of_the_days_that_the_table_is_of(row: dict[str, str]) -> None:
    won = int(row["wr"]) / 100 * int(row["returns"])

    assert abs(won - round(won)) < 0.12  # 0.5 % of 23 days


@pytest.mark.parametrize("seed", range(5))
def test_return_and_sharpe_ratio_give_the_volatility_that_made_them(seed: int) -> None:
    """Figures by the paper's formulas: the arithmetic mean of excess returns over their SD."""
    days = 23
    returns = np.random.default_rng(seed).normal(-0.003, 0.02, days)
    total_return = float(np.prod(1 + returns) - 1)
    excess = returns - 0.0429 / 252
    sharpe = float(excess.mean() / excess.std(ddof=1) * math.sqrt(252))

    found = implied_volatility(total_return, sharpe, days / 252, 0.0429)

    assert found == pytest.approx(excess.std(ddof=1) * math.sqrt(252), rel=0.05)


def test_the_implied_volatility_solves_its_equation() -> None:
    """By hand: without growth `s²/2 = SR s`, so the volatility is twice the ratio; with growth of
    0.02 and a ratio of 0.25 the roots of `s²/2 - 0.25 s + 0.02` are 0.1 and 0.4.
    """
    assert implied_volatility(0.0, 0.1, 1.0, 0.0) == pytest.approx(0.2)
    assert implied_volatility(math.expm1(0.02), 0.25, 1.0, 0.0) == pytest.approx(0.1)

    with pytest.raises(ValueError, match="no volatility gives"):
        implied_volatility(0.5, 0.1, 1.0, 0.0)


def test_each_model_is_tested_against_no_excess_return(path: dict[str, Any]) -> None:
    grok = path["models"][0]

    assert grok["t"] == pytest.approx(0.51 * math.sqrt(23 / 252))
    assert grok["p"] == pytest.approx(2 * scipy.stats.t(22).sf(grok["t"]))
    assert all(row["low"] < row["volatility"] < row["high"] for row in path["models"])


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
def test_pairs_beyond_chance_are_counted_at_each_correlation(
    correlation: float, path: dict[str, Any]
) -> None:
    (row,) = [each for each in path["by_correlation"] if each["correlation"] == correlation]
    alone = 0
    shared = 0
    for first, second in itertools.combinations(path["models"], 2):
        weights = np.array([first["volatility"], -second["volatility"]])
        matrix = np.array([[1, correlation], [correlation, 1]])
        sd = math.sqrt(weights @ matrix @ weights * 23 / 252)
        z = abs(first["total_return"] - second["total_return"]) / sd
        alone += z >= 1.959964
        shared += z >= scipy.stats.norm.isf(0.025 / 36)

    assert (row["beyond"], row["beyond_all"]) == (alone, shared)
    assert row["effect"] == pytest.approx(2.8016 * row["sd"], rel=1e-4)


def test_the_rank_correlation_with_beta_is_exact(path: dict[str, Any]) -> None:
    """By hand: in 9 of 36 pairs the higher beta goes with the higher return."""
    concordant = 0
    for first, second in itertools.combinations(DEEPFUND, 2):
        higher_return = float(first["cr"]) > float(second["cr"])
        concordant += higher_return == (float(first["beta"]) > float(second["beta"]))

    assert concordant == 9
    assert path["tau"] == pytest.approx((9 - 27) / 36)


def test_a_published_plan_takes_no_other(terminal: CardTerminal) -> None:
    plan = ("compare", "power", "--published")
    assert terminal.refusals(
        (*plan, "designs", "--windows", "3"),
        (*plan, "designs", "--comparisons", "3"),
        (*plan, "deepfund-3", "--tracking-error", "0.1"),
        (*plan, "deepfund-3", "--metric", "sharpe"),
        (*plan, "deepfund-3", "run"),
    ) == snapshot("""\
ktdeval: error: --published designs takes no --windows: its plan is fixed; leave them out
ktdeval: error: --published designs takes no --comparisons: its plan is fixed; leave them out
ktdeval: error: --published deepfund-3 takes no --tracking-error: its plan is fixed; leave them out
ktdeval: error: --published deepfund-3 takes no --metric: its plan is fixed; leave them out
ktdeval: error: --published deepfund-3 takes no cards: its plan is fixed; leave them out
""")


def test_both_reports_fit_a_terminal_and_name_their_sources(terminal: CardTerminal) -> None:
    assert terminal.text("compare", "power", "--published", "designs") == snapshot("""\
What published designs can show at 0.05 with probability 0.8, if two systems differ by 10 % a year at random
  paper          design                     systems  windows  effective  days  runs  smallest p  tests it can carry  pairs  windows find %  a year %  days find %
  KTD-Fin        four masks in three modes       12       10       8.26    43     5      0.0031                  16     66           4.780     28.01        4.026
  KTD-Fin        bright and blinded               2       10       8.26    43     3      0.0031                  16      1           4.780     28.01        4.026
  KTD-Fin        ten models                      10        1          1   548     -      1.0000                   0     45         nothing                  41.31
  InvestorBench  one stock                       13        1          1   150     5      1.0000                   0     78         nothing                  21.61
  InvestorBench  seven stocks as windows         13        7          7   150     5      0.0156                   3     78           10.30     17.30        8.170
  InvestorBench  two coins as windows            13        2          2   215     5      0.5000                   0     78         nothing                  15.20
  AMA            one stock                       20        1          1    42     -      1.0000                   0    190         nothing                  11.44
  AMA            one coin                        20        1          1    61     -      1.0000                   0    190         nothing                  11.45
  AMA            four assets as windows          20        4          4    61     -      0.1250                   0    190         nothing                  5.727
  DeepFund       nine models                      9        1          1    24     -      1.0000                   0     36         nothing                  8.646
  DeepFund       four sectors as windows          2        4          4    24     -      0.1250                   0      1         nothing                  4.323
  runs: repetitions, - where the paper does not say
  effective: windows that share no days and have a mean as uncertain; windows find: difference in a window's return, by the signed-rank test over windows; days find: the same by a z test over the days themselves, which is about these days alone
  sources: KTD-Fin, four masks in three modes: §4.1, Table 2, §4.2; KTD-Fin, bright and blinded: appendix, Table 11; KTD-Fin, ten models: §4.1, Table 4; InvestorBench, one stock: §4.1, Table 2; InvestorBench, seven stocks as windows: §4.1, Table 2; InvestorBench, two coins as windows: §4.1, Table 3; AMA, one stock: §4, Table 1; AMA, one coin: §4, Table 1; AMA, four assets as windows: §4, Table 1; DeepFund, nine models: §3, Table 3; DeepFund, four sectors as windows: A.1, Figure 6
""")
    assert terminal.text("compare", "power", "--published", "deepfund-3") == snapshot("""\
Each model of deepfund-3 against no excess return, over 23 days
  model              return %  Sharpe ratio       t       p  volatility %   as rounded
  Grok 3 mini Beta      1.100         0.510   0.154  0.8790         18.42  16.6 … 20.5
  Gemini 2.5 Flash     -1.900        -1.370  -0.414  0.6830         17.37  17.0 … 17.8
  Claude 3.7 Sonnet    -3.700        -1.450  -0.438  0.6656         28.62  28.2 … 29.0
  Llama 4 Scout        -4.300        -2.420  -0.731  0.4724         20.78  20.5 … 21.0
  DeepSeek-V3          -5.700        -1.390  -0.420  0.6786         42.77  42.3 … 43.2
  GPT-4.1              -5.900        -1.870  -0.565  0.5778         34.70  34.4 … 35.0
  Qwen2.5-Max          -6.700        -3.120  -0.943  0.3561         24.75  24.5 … 25.0
  GLM-4-Air            -7.500        -2.310  -0.698  0.4926         36.03  35.7 … 36.3
  Doubao-1.5-pro       -8.100        -2.350  -0.710  0.4852         38.12  37.8 … 38.4
  t: Sharpe ratio times the root of days over days of a year; volatility: annual, the one that return and Sharpe ratio imply, and its range over what rounds to the printed figures

Two models, by the correlation of their daily returns: 36 pairs
  correlation   SD %  found %  found of all %  beyond  beyond of all
        0.000  12.83    35.95           51.83       0              0
        0.500  9.670    27.09           39.05       0              0
        0.800  6.950    19.47           28.07       0              0
        0.900  5.430    15.21           21.93       2              0
        0.950  4.266    11.95           17.23       2              0
        0.990  3.247    9.097           13.11       4              3
  SD: of the difference of two returns of these days, median of the pairs; found: smallest true difference found with probability 0.8; beyond: pairs whose printed difference is significant at 0.05; of all: the level shared by all pairs (Bonferroni)
  largest printed difference: +9.200 %
  returns and betas: Kendall's tau -0.50, exact p 0.0752, 9 models
""")
