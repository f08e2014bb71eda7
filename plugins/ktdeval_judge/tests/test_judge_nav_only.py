"""A NAV alone: figures that need no market, what a market adds, and what the file's digits show."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from inline_snapshot import snapshot

from ktdeval.testing import Terminal, errors_of
from ktdeval_judge.nav_only import (
    NavTrack,
    check_values,
    day_before,
    nav_figures,
    outlying_days,
    resolution_of,
    returns_a_year,
    track_notes,
)

MONDAY = np.datetime64("2025-06-02")


def weekdays(count: int) -> np.ndarray:
    """Days from Monday to Friday."""
    return np.busday_offset(MONDAY, np.arange(count))


def track(values: list[float] | np.ndarray, benchmark: np.ndarray | None = None) -> NavTrack:
    own = np.asarray(values, dtype=float)
    levels = "no market is named (--data)" if benchmark is None else benchmark
    return NavTrack(days=weekdays(len(own)), values=own, a_year=252.0, benchmark=levels)


def moving(days: int = 60, seed: int = 1) -> np.ndarray:
    chance = np.random.default_rng(seed)
    return 100_000 * np.exp(np.cumsum(chance.normal(0.0005, 0.01, days)))


# ---- returns alone


def test_the_first_of_returns_counts(tmp_path: Path, terminal: Terminal) -> None:
    path = tmp_path / "returns.csv"
    path.write_text("date,daily_return\n2025-06-03,0.02\n2025-06-04,-0.01\n2025-06-05,0.03\n")
    report = json.loads(terminal.out("judge", "--nav", path, "--json"))

    assert report["claimed_return"]["value"] == pytest.approx(1.02 * 0.99 * 1.03 - 1)
    assert report["first"] == "2025-06-03"


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (["2025-06-02", "2025-06-03", "2025-06-04"], "2025-05-30"),
        (["2025-06-02", "2025-06-03", "2025-06-07", "2025-06-08"], "2025-06-01"),
        (["2025-06-06", "2025-06-13", "2025-06-20"], "2025-05-30"),
    ],
)
def test_returns_begin_at_the_value_before(days: list[str], expected: str) -> None:
    assert day_before(np.array(days, dtype="datetime64[D]")) == np.datetime64(expected)


def test_the_first_day_of_an_intraday_account_counts(tmp_path: Path, terminal: Terminal) -> None:
    """100,000 in the morning of the first day, 95,000 at its close, 98,150 at the end: -1.85 %."""
    path = tmp_path / "values.csv"
    path.write_text(
        "time,nav\n2025-06-03 09:30:00,100000\n2025-06-03 15:00:00,95000\n"
        "2025-06-04 15:00:00,96000\n2025-06-05 15:00:00,98150\n"
    )
    report = json.loads(terminal.out("judge", "--nav", path, "--json"))

    assert report["claimed_return"]["value"] == pytest.approx(-0.0185)
    assert report["max_drawdown"]["value"] == pytest.approx(0.05)
    assert (
        "the account starts from 100,000.00, its value before its first day's close"
        in (report["notes"])
    )


def test_returns_of_some_months_only_are_not_annualised(tmp_path: Path, terminal: Terminal) -> None:
    """Twenty days in January and twenty in June: 252 a year by the gaps, 92 by the span."""
    days = [
        *np.busday_offset("2024-01-02", np.arange(20)),
        *np.busday_offset("2024-06-03", np.arange(20)),
    ]
    rows = [f"{day},{0.01 if number % 3 else -0.012}" for number, day in enumerate(days)]
    path = tmp_path / "returns.csv"
    path.write_text("date,return\n" + "\n".join(rows) + "\n")

    report = json.loads(terminal.out("judge", "--nav", path, "--json"))
    asked = json.loads(terminal.out("judge", "--nav", path, "--json", "--periods", 92))

    assert report["returns_a_year"] is None
    assert report["sharpe"]["value"] is None
    assert report["sharpe"]["reason"] == "its days are irregularly spaced; give --periods"
    assert asked["sharpe"]["value"] is not None


def test_holidays_do_not_make_days_irregular() -> None:
    days = [day for day in np.busday_offset("2024-01-02", np.arange(250)) if day.astype(int) % 28]
    assert returns_a_year(np.array(days)) == 252.0


# ---- what the file's digits show


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100_000.0, 99_850.25], 0.01 / 99_850.25),  # cents
        ([100_000.0, 99_850.0], 1 / 99_850.0),  # whole units
        ([1.0, 1.0125], 0.0001),
        ([2e-300, 3e-300], 0.5),  # one digit
    ],
)
def test_a_return_is_known_to_within_the_last_digit(values: list[float], expected: float) -> None:
    assert resolution_of(np.array(values)) == pytest.approx(expected)


@pytest.mark.parametrize("digits", [0, 2, 12])
@pytest.mark.parametrize("rate", [-0.003, -0.0015, 0.0, 0.01])
def test_a_constant_return_has_no_ratio_whatever_its_digits(rate: float, digits: int) -> None:
    values = np.round(100_000 * (1 + rate) ** np.arange(60), digits)
    figures = nav_figures(track(values, moving()))

    assert figures["claimed_return"].value == pytest.approx((1 + rate) ** 59 - 1, abs=1e-4)
    for name in ("sharpe", "psr", "years_needed", "excess_sharpe", "alpha_a_year", "beta"):
        assert figures[name].value is None, name
        assert figures[name].reason == "returns have no variance", name
        assert figures[name].low is None, name


def test_the_reported_constant_loss_has_no_ratio(shared_data: Path, terminal: Terminal) -> None:
    path = shared_data / "reported" / "j33_nav_constant_loss_dated.csv"
    report = json.loads(terminal.out("judge", "--nav", path, "--json"))
    assert report["claimed_return"]["value"] == pytest.approx(-0.0848, abs=5e-5)
    assert report["sharpe"] == {
        "value": None, "low": None, "high": None, "reason": "returns have no variance",
        "no_interval": None,
    }  # fmt: skip


def test_four_flat_days_have_no_information_ratio() -> None:
    figures = nav_figures(track([100.0] * 5, np.array([10.0, 10.1, 9.9, 10.2, 10.3])))
    assert figures["excess_sharpe"].value is None
    assert figures["excess_sharpe"].reason == "returns have no variance"


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e300])
def test_a_ratio_does_not_depend_on_the_unit(scale: float) -> None:
    values = moving()
    own = nav_figures(track(values * scale))["sharpe"].value
    returns = values[1:] / values[:-1] - 1
    assert own == pytest.approx(returns.mean() / returns.std(ddof=1) * math.sqrt(252))


def test_values_that_no_account_has_are_refused(tmp_path: Path) -> None:
    every = [[1.0], [1.0, 0.0], [1.0, -2.0], [1.0, 1e300], [1e-300, 1e300]]
    assert errors_of(
        lambda values: check_values("nav.csv", weekdays(len(values)), np.array(values)),
        *every,
        folder=tmp_path,
    ) == snapshot("""\
DataError: nav.csv: fewer than two days of account value; give more days
DataError: nav.csv: the value of 2025-06-03 is not above 0; end the file before that day
DataError: nav.csv: the value of 2025-06-03 is not above 0; end the file before that day
DataError: nav.csv: 1e+300 on 2025-06-03 comes after 1: such growth in a day is implausible; write all values in one unit
DataError: nav.csv: 1e+300 on 2025-06-03 comes after 1e-300: such growth in a day is implausible; write all values in one unit
""")


# ---- the year


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (weekdays(60), 252),
        (MONDAY + np.arange(60), 365),
        (MONDAY + 7 * np.arange(12), 52),
        (np.array([f"2024-{month:02d}-28" for month in range(1, 13)], dtype="datetime64[D]"), 12),
        (MONDAY + 91 * np.arange(8), 4),
        (MONDAY + 365 * np.arange(5), 1),
        (MONDAY + 3 * np.arange(20), None),
        (weekdays(60)[[0, 1, 2, 3, 4, 10, 11, 12, 13, 20]], None),  # 9 of 20 weekdays
    ],
)
def test_returns_in_a_year_follow_from_the_days(days: np.ndarray, expected: float | None) -> None:
    assert returns_a_year(days) == expected


def test_without_a_usual_spacing_nothing_is_annualised() -> None:
    own = moving(20)
    odd = NavTrack(
        days=MONDAY + 3 * np.arange(20), values=own, a_year=None, benchmark=moving(20, 2)
    )
    figures = nav_figures(odd)
    assert figures["sharpe"].value is None
    assert "--periods" in str(figures["sharpe"].reason)
    assert figures["psr"].value is None
    assert figures["years_needed"].value is None


# ---- outlying days


def test_a_deposit_is_named() -> None:
    values = moving()
    values[30:] += 48_000
    (note,) = track_notes(track(values))
    assert f"{weekdays(60)[30]} (+50.42 %)" in note
    assert "if these are deposits or withdrawals, name them with --flows" in note


def test_several_deposits_do_not_hide_each_other() -> None:
    values = moving(120)
    for day in (20, 50, 80):
        values[day:] *= 1.2
    (note,) = outlying_days(weekdays(120), values)
    assert note.count("%") == 3


@pytest.mark.parametrize("kind", ["normal", "seldom", "very seldom", "two values", "short"])
def test_usual_days_are_not_named(kind: str) -> None:
    chance = np.random.default_rng(4)
    returns = {
        "normal": chance.normal(0, 0.01, 500),
        "seldom": np.where(np.arange(100) % 7 == 0, chance.normal(0, 0.01, 100), 0.0),
        "very seldom": np.where(np.arange(600) % 30 == 0, chance.choice([0.02, -0.01], 600), 0.0),
        "two values": np.where(np.arange(60) % 3 == 0, -0.02, 0.01),
        "short": np.array([0.01, 0.5, -0.01]),
    }[kind]
    values = 100 * np.concatenate([[1.0], np.cumprod(1 + returns)])
    assert list(outlying_days(weekdays(len(values)), values)) == []


def test_a_long_break_of_a_daily_nav_is_named() -> None:
    days = np.concatenate([weekdays(30), weekdays(90)[60:]])
    own = NavTrack(days=days, values=moving(60), a_year=252.0, benchmark="none")
    (note,) = track_notes(own)
    assert "is treated as a daily" in note


# ---- as somebody types it


def written(folder: Path, values: np.ndarray) -> Path:
    path = folder / "nav.csv"
    rows = [f"{day},{value:.2f}" for day, value in zip(weekdays(len(values)), values, strict=True)]
    path.write_text("\n".join(["date,nav", *rows]) + "\n")
    return path


def test_without_a_market_no_figure_states_one(tmp_path: Path, terminal: Terminal) -> None:
    values = np.round(moving(), 2)
    path = written(tmp_path, values)
    report = json.loads(terminal.out("judge", "--nav", path, "--json"))

    returns = values[1:] / values[:-1] - 1
    expected = returns.mean() / returns.std(ddof=1) * math.sqrt(252)
    assert report["sharpe"]["value"] == pytest.approx(expected)
    assert (report["market"], report["snapshot"], report["currency"]) == (None, None, None)
    for name in ("benchmark_return", "alpha_a_year", "beta", "excess_sharpe"):
        assert report[name]["value"] is None
        assert "--data" in report[name]["reason"]

    assert terminal.text("judge", "--nav", path) == snapshot("""\
The Sharpe ratio is not above zero: that is not evidence of skill, however long the record.

Judged: nav.csv: a NAV only
  2025-06-03 … 2025-08-22, 59 daily returns, without a market

Return claimed      -0.33 %  (two-sided 95 % interval -11.97 … +12.85)
Maximum drawdown    4.87 %
Sharpe ratio        -0.03  (two-sided 95 % interval -3.89 … +3.81)
  annualised with 252 returns a year (--periods)
PSR                 0.49  one-sided probability that the true Sharpe ratio is above 0
Deflated (DSR)      as PSR: one try is assumed (--trials N, or --study NAME to count them)

note: A NAV has no holdings: selection, costs and look-ahead need the decisions
note: No benchmark, alpha or beta: name the market with --data

next    give the number of strategies tried with --trials N, or count them with --study NAME
""")


def test_the_year_can_be_said(tmp_path: Path, terminal: Terminal) -> None:
    path = written(tmp_path, moving())
    own = json.loads(terminal.out("judge", "--nav", path, "--periods", 260, "--json"))
    usual = json.loads(terminal.out("judge", "--nav", path, "--json"))
    ratio = own["sharpe"]["value"] / usual["sharpe"]["value"]
    assert ratio == pytest.approx(math.sqrt(260 / 252))
    assert "--periods 0" in terminal.error("judge", "--nav", path, "--periods", 0)


def test_decisions_need_a_market_and_the_refusal_names_it(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = ""
    for text in (
        "date,code,weight\n2025-06-02,AAPL,0.5\n",
        "date,code,side,qty\n2025-06-02,AAPL,buy,5\n",
        "date,code,side,qty,price\n2025-06-02,AAPL,buy,5,200\n",
    ):
        Path("decisions.csv").write_text(text)
        said += terminal.refusal("judge", "decisions.csv")

    assert said == snapshot("""\
ktdeval: error: decisions.csv: decisions need a market: give --data with a folder of `ktdeval data make`, or --data synthetic for the embedded market
ktdeval: error: decisions.csv: decisions need a market: give --data with a folder of `ktdeval data make`, or --data synthetic for the embedded market
ktdeval: error: decisions.csv: decisions need a market: give --data with a folder of `ktdeval data make`, or --data synthetic for the embedded market
""")
