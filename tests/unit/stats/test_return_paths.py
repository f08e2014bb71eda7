"""Figures of the tear sheet equal those of quantstats, empyrical and pyfolio on the same series, up
to the differences of convention that docs/view.md names.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval import stats
from ktdeval.testing import not_empty
from support.paths import REPOSITORY
from support.tear_sheet import other_packages

STORED = json.loads(
    (REPOSITORY / "tests/support/tear_sheet/other_packages.json").read_text(encoding="utf-8")
)
CASES: Mapping[str, Mapping[str, Any]] = STORED["cases"]
SCALARS = ("total_return", "cagr", "volatility", "sharpe", "sortino", "max_drawdown", "calmar")
WINDOW = other_packages.WINDOW
LEVELS = st.lists(st.floats(0.5, 2.0), min_size=2, max_size=40)


def own_figures(case: Mapping[str, Any]) -> dict[str, float | None]:
    returns = np.array(case["returns"])
    nav = levels_of(case)
    days_a_year = case["days_a_year"]
    found = {
        "total_return": stats.total_return(nav),
        "cagr": stats.cagr(nav, days_a_year),
        "volatility": stats.volatility(returns, days_a_year),
        "sharpe": stats.sharpe(returns, days_a_year),
        "sortino": stats.sortino(returns, days_a_year),
        "max_drawdown": stats.max_drawdown(nav),
        "calmar": stats.calmar(nav, days_a_year),
        "hit_rate": stats.hit_rate(returns),
        "beta": stats.beta(returns, np.array(case["benchmark"])),
    }
    return {name: figure.value for name, figure in found.items()}


def levels_of(case: Mapping[str, Any]) -> np.ndarray:
    return np.concatenate([[1.0], np.cumprod(1.0 + np.array(case["returns"]))])


def drawdowns_of(case: Mapping[str, Any]) -> list[list[Any]]:
    """Peak, trough, recovery and depth, with dates."""
    days = [case["base_day"], *case["days"]]
    rows = []
    for one in stats.worst_drawdowns(levels_of(case)):
        end = None if one.end is None else days[one.end]
        rows.append([days[one.start], days[one.trough], end, one.depth])

    return rows


def with_none(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def same(left: Sequence[float | None], right: Sequence[float | None]) -> None:
    assert [value is None for value in left] == [value is None for value in right]
    known = [value for value in left if value is not None]
    assert known == pytest.approx([value for value in right if value is not None], rel=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_growth_and_risk_equal_those_of_quantstats_and_empyrical(name: str) -> None:
    case = CASES[name]
    own = own_figures(case)
    theirs = case["figures"]
    for figure in (*SCALARS, "beta", "hit_rate"):
        assert own[figure] == pytest.approx(theirs["quantstats"][figure], rel=1e-9), figure
    for figure in (*SCALARS, "beta"):
        assert own[figure] == pytest.approx(theirs["empyrical"][figure], rel=1e-9), figure


@pytest.mark.parametrize("name", CASES)
def test_paths_equal_those_of_quantstats_and_pyfolio(name: str) -> None:
    case = CASES[name]
    returns, market = np.array(case["returns"]), np.array(case["benchmark"])
    theirs = case["figures"]
    falls = stats.underwater(levels_of(case))[1:]
    assert falls.tolist() == pytest.approx(theirs["quantstats"]["underwater"], abs=1e-12)

    ratio = stats.rolling_sharpe(returns, WINDOW, case["days_a_year"]).values
    same(with_none(ratio), theirs["quantstats"]["rolling_sharpe"])
    same(
        with_none(stats.rolling_sharpe(returns, WINDOW, 252).values),
        theirs["pyfolio"]["rolling_sharpe_252"],
    )

    slope = stats.rolling_beta(returns, market, WINDOW).values
    same(with_none(slope), theirs["quantstats"]["rolling_beta"])
    same(with_none(slope), theirs["pyfolio"]["rolling_beta"])


@pytest.mark.parametrize("name", CASES)
def test_drawdowns_are_those_of_pyfolio_with_the_base_day_as_first_peak(name: str) -> None:
    own = drawdowns_of(CASES[name])
    theirs = CASES[name]["figures"]["pyfolio"]["drawdowns"]
    assert [row[:3] for row in own] == [row[:3] for row in theirs]
    assert [row[3] for row in own] == pytest.approx([row[3] for row in theirs], rel=1e-9)


@pytest.mark.parametrize("name", ["sixty", "long"])
def test_quantstats_drawdowns_start_a_day_later_and_end_a_day_earlier(name: str) -> None:
    case = CASES[name]
    days = [case["base_day"], *case["days"]]
    rows = []
    for one in stats.worst_drawdowns(levels_of(case)):
        # of a drawdown that has not ended, quantstats names the series' last day
        end = days[-1] if one.end is None else days[one.end - 1]
        rows.append([days[one.start + 1], days[one.trough], end])

    theirs = case["figures"]["quantstats"]["drawdowns"]
    recovered = [row for row, one in zip(rows, drawdowns_of(case), strict=True) if one[2]]
    assert [row for row in recovered if row not in [other[:3] for other in theirs]] == []


@pytest.mark.parametrize("name", CASES)
def test_months_are_those_of_empyrical(name: str) -> None:
    case = CASES[name]
    days = np.array(case["days"], dtype="datetime64[D]")
    own = stats.monthly_returns(np.array(case["returns"]), days)
    theirs = case["figures"]["empyrical"]["months"]
    assert [(one.year, one.month) for one in own] == [(row[0], row[1]) for row in theirs]
    assert [one.value for one in own] == pytest.approx([row[2] for row in theirs], rel=1e-9)
    assert sum(one.days for one in own) == len(days)


def test_the_stored_figures_are_those_of_the_packages_that_are_installed() -> None:
    names = ("quantstats", "empyrical", "pyfolio")
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: pip install {' '.join(missing)}")

    for name, case in not_empty(other_packages.cases().items()):
        stored = dict(CASES[name])
        figures = stored.pop("figures")
        assert case == stored
        fresh = json.loads(json.dumps(other_packages.figures_of(case), default=float))
        for package in names:
            for figure, value in figures[package].items():
                np.testing.assert_equal(_rounded(fresh[package][figure]), _rounded(value), figure)


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return value


# ---- worked by hand


def test_a_year_of_252_days_grows_ten_per_cent_in_252_days() -> None:
    nav = np.concatenate([np.full(252, 100.0), [110.0]])
    assert stats.cagr(nav, 252).value == pytest.approx(0.1)
    assert stats.cagr(nav, 126).value == pytest.approx(1.1**0.5 - 1)
    assert stats.calmar(nav).reason == "there is no drawdown"


def test_undefined_figures_have_a_reason() -> None:
    flat = np.full(5, 100.0)
    assert stats.cagr(np.array([100.0])).reason == "no steps"
    assert stats.cagr(np.array([100.0, 0.0])).reason == "a level is not positive"
    assert (
        stats.cagr(np.array([1.0, 100.0]), 252).reason
        == "the growth of a year is beyond floating-point numbers"
    )
    assert stats.hit_rate(np.zeros(4)).reason == "no day has a return other than 0"
    assert stats.beta(np.array([0.1]), np.array([0.1])).reason == "fewer than two days"
    assert stats.beta(np.arange(4.0), np.zeros(4)).reason == "the benchmark does not vary"
    assert stats.worst_drawdowns(flat) == []


def test_drawdowns_have_their_days_and_the_last_may_be_open() -> None:
    levels = np.array([100.0, 90.0, 95.0, 100.0, 110.0, 99.0, 104.5])
    assert stats.worst_drawdowns(levels) == [
        stats.Drawdown(start=0, trough=1, end=3, depth=pytest.approx(0.1), days=3),
        stats.Drawdown(start=4, trough=5, end=None, depth=pytest.approx(0.1), days=2),
    ]


def test_rolling_bands_are_those_of_one_window() -> None:
    draw = np.random.Generator(np.random.PCG64(1))
    market = draw.normal(0.0, 0.01, 30)
    own = 1.5 * market + draw.normal(0.0, 0.005, 30)
    rolling = stats.rolling_beta(own, market, 20)
    x = market[-20:] - market[-20:].mean()
    slope, intercept = np.polyfit(market[-20:], own[-20:], 1)
    left = own[-20:] - slope * market[-20:] - intercept
    half = 2.1009220402 * np.sqrt(left @ left / 18 / (x @ x))  # 97.5 % of t with 18 degrees

    assert rolling.values[-1] == pytest.approx(slope)
    assert rolling.high[-1] - slope == pytest.approx(half, rel=1e-8)
    assert np.isnan(rolling.values[:19]).all()
    assert np.isnan(stats.rolling_beta(own, market, 2).values).all()
    assert np.isnan(stats.rolling_sharpe(np.zeros(30), 20).values).all()


# ---- for any series


@pytest.mark.slow
@given(LEVELS)
def test_drawdowns_do_not_overlap_and_the_first_is_the_largest_fall(levels: list[float]) -> None:
    nav = np.array(levels)
    found = stats.worst_drawdowns(nav, most=len(levels))
    deepest = stats.max_drawdown(nav).value or 0.0
    assert (found[0].depth if found else 0.0) == pytest.approx(deepest, abs=1e-12)

    ordered = sorted(found, key=lambda one: one.start)
    for before, after in itertools.pairwise(ordered):
        assert before.end is not None
        assert before.end <= after.start


@pytest.mark.slow
@given(LEVELS)
def test_months_compound_to_the_total_return(levels: list[float]) -> None:
    nav = np.array(levels)
    returns = nav[1:] / nav[:-1] - 1.0
    days = np.datetime64("2023-12-20") + np.arange(len(returns))
    months = stats.monthly_returns(returns, days)
    growth = float(np.prod([1.0 + month.value for month in months]))
    assert growth == pytest.approx(nav[-1] / nav[0], rel=1e-9)


@pytest.mark.slow
@given(st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=500), st.integers(0, 700))
def test_years_are_those_of_pandas(returns: list[float], first: int) -> None:
    days = np.datetime64("2022-06-01") + np.arange(first, first + len(returns))
    growth = pd.Series(1.0 + np.array(returns), index=pd.DatetimeIndex(days)).groupby(
        lambda day: day.year
    )
    found = stats.yearly_returns(np.array(returns), days)

    assert [(year.year, year.days) for year in found] == [*growth.size().items()]
    assert [year.value for year in found] == pytest.approx([*(growth.prod() - 1.0)], abs=1e-9)
