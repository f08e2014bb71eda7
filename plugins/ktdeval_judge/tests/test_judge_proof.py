"""The first sentence of `judge` follows from all that is printed, at each of its doors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ktdeval.testing import Terminal
from ktdeval_judge.printed_figure import PrintedFigure, judge_figure
from ktdeval_judge.printed_figure_texts import printed_figure_lines

DAYS = np.busday_offset("2023-01-02", np.arange(251), roll="forward")


def daily_returns(sharpe: float, days: int = 250) -> np.ndarray:
    """Returns with this annual Sharpe ratio (252 days) and a daily standard deviation of 0.7 %."""
    chance = np.random.default_rng(7).standard_normal(days)
    scores = (chance - chance.mean()) / chance.std(ddof=1)
    return 0.007 * (scores + sharpe / np.sqrt(252))


def written(folder: Path, values: np.ndarray, flows: np.ndarray | None = None) -> Path:
    lines = ["date,nav" if flows is None else "date,nav,flow"]
    for row, value in enumerate(values):
        flow = "" if flows is None else f",{flows[row]:g}"
        lines.append(f"{DAYS[row]},{value:.2f}{flow}")

    path = folder / "nav.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def account(returns: np.ndarray) -> np.ndarray:
    return 100_000 * np.concatenate([[1.0], np.cumprod(1 + returns)])


# ---- a printed ratio


@pytest.mark.parametrize(("sharpe", "days"), [(2.1, 170), (1.7, 252)])
def test_a_printed_ratio_whose_interval_includes_zero_is_no_evidence(
    sharpe: float, days: int
) -> None:
    """PSR is 95.7 and 95.5 %, but the two-sided interval begins at -0.30 and -0.27."""
    report = judge_figure(PrintedFigure(sharpe=sharpe, days=days))
    text = " ".join(" ".join(printed_figure_lines(report)).split())
    assert report.zero.probability > 0.95
    assert report.interval[0] < 0
    assert (
        "This is not evidence of skill: the two-sided 95 % interval of the ratio includes" in text
    )


def test_the_days_that_are_needed_bring_the_interval_above_zero() -> None:
    """n = 1 + (1 + S^2 / 2) (1.96 / S)^2 for the daily ratio S of 2.1 a year."""
    daily = 2.1 / np.sqrt(252)
    days = 1 + (1 + daily**2 / 2) * (1.959964 / daily) ** 2
    text = " ".join(printed_figure_lines(judge_figure(PrintedFigure(sharpe=2.1, days=170))))
    assert f"needs {int(np.ceil(days))} days" in " ".join(text.split())
    enough = judge_figure(PrintedFigure(sharpe=2.1, days=int(np.ceil(days))))
    assert enough.interval[0] > 0


def test_a_printed_ratio_of_few_days_allows_no_statement_and_no_probability() -> None:
    text = "\n".join(printed_figure_lines(judge_figure(PrintedFigure(sharpe=20, days=5))))
    assert text.startswith("No statement about skill is possible: 5 returns are too few")
    assert "PSR" not in text


# ---- an account


def test_a_deposit_is_no_evidence_and_its_flow_gives_the_right_figures(
    tmp_path: Path, terminal: Terminal
) -> None:
    """An account with a Sharpe ratio of 0.90, to which half of its first value is added on a day."""
    returns = daily_returns(0.9)
    flows = np.zeros(251)
    flows[120] = 50_000.0
    values = [100_000.0]
    for day, own in enumerate(returns, start=1):
        values.append(values[-1] * (1 + own) + flows[day])

    first = terminal.text("judge", "--nav", written(tmp_path, np.array(values))).splitlines()[0]
    assert first.startswith(f"This is not evidence of skill: {DAYS[120]} (+4")
    assert "as a deposit or an error would" in first

    known = terminal.report(
        "judge", "--nav", written(tmp_path, np.array(values), flows), "--flows", "flow"
    )
    assert known["sharpe"]["value"] == pytest.approx(0.9, abs=0.002)
    assert known["claimed_return"]["value"] == pytest.approx(np.prod(1 + returns) - 1, abs=1e-4)
    assert known["doubts"] == []


def test_one_day_that_carries_the_result_leaves_no_interval_and_is_named(
    tmp_path: Path, terminal: Terminal
) -> None:
    returns = daily_returns(2.0)
    returns[60] = -0.25
    report = terminal.report("judge", "--nav", written(tmp_path, account(returns)))
    share = 0.25**2 / float((returns**2).sum())
    assert share > 1 / 3
    for name in ("claimed_return", "sharpe"):
        assert (report[name]["low"], report[name]["high"]) == (None, None)
        assert report[name]["no_interval"].startswith(f"one day ({DAYS[61]}, -25.00 %) carries")
        assert f"carries {100 * share:.0f} % of the squares" in report[name]["no_interval"]


def test_irregular_days_print_no_probability(tmp_path: Path, terminal: Terminal) -> None:
    rows = np.cumsum(np.tile([1, 12, 3, 17], 10))
    lines = ["date,nav"]
    for value, row in enumerate(rows):
        lines.append(f"{np.datetime64('2020-01-01') + row},{100 + value + value % 3}")

    path = tmp_path / "nav.csv"
    path.write_text("\n".join(lines) + "\n")
    text = terminal.text("judge", "--nav", path)
    assert text.startswith("No statement about skill is possible")
    assert "probability that the true" not in text
    assert terminal.report("judge", "--nav", path)["psr"]["value"] is None


def test_three_days_have_no_ratio_and_no_probability(tmp_path: Path, terminal: Terminal) -> None:
    report = terminal.report("judge", "--nav", written(tmp_path, account(daily_returns(2.0, 3))))
    for name in ("sharpe", "psr"):
        assert report[name]["value"] is None
        assert report[name]["reason"] == "3 returns are too few to annualise: 20 are needed"
