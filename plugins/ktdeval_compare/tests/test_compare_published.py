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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["designs", "--windows", "3"], "--published designs takes no --windows"),
        (["designs", "--comparisons", "3"], "--published designs takes no --comparisons"),
        (["deepfund-3", "--tracking-error", "0.1"], "takes no --tracking-error"),
        (["deepfund-3", "--metric", "sharpe"], "takes no --metric"),
        (["deepfund-3", "run"], "takes no cards: its plan is fixed; leave them out"),
    ],
)
def test_a_published_plan_takes_no_other(
    words: list[str], message: str, terminal: CardTerminal
) -> None:
    assert message in terminal.error("compare", "power", "--published", *words)


def test_both_reports_fit_a_terminal_and_name_their_sources(terminal: CardTerminal) -> None:
    designs = terminal.text("compare", "power", "--published", "designs")
    path = terminal.text("compare", "power", "--published", "deepfund-3")

    assert "KTD-Fin, four masks in three modes: §4.1, Table 2, §4.2" in designs
    assert "nothing" in designs
    assert "36 pairs" in path
    assert "largest printed difference: +9.200 %" in path
