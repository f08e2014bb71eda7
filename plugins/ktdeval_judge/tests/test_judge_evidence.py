"""What returns show against luck, and after the end of a model's training data: figures against
formulas written out here.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ktdeval.cards import CutoffEntry
from ktdeval.errors import UsageError
from ktdeval.runner import StudyTry, record_try, study_ledger
from ktdeval.stats import annualisation_problem
from ktdeval_judge.document import Figure
from ktdeval_judge.evidence import (
    JudgedSource,
    LuckSettings,
    TrainingEnd,
    Tries,
    clean_part,
    count_tries,
    evidence_fields,
    find_training_end,
    judge_returns,
)
from ktdeval_judge.nav_only import NavTrack
from ktdeval_judge.printed_figure import JudgedFigure
from ktdeval_judge.texts import _of_skill

EULER = 0.5772156649015329


def track(
    days: int = 250, seed: int = 3, mean: float = 0.001, first: str = "2024-01-02"
) -> NavTrack:
    chance = np.random.default_rng(seed)
    returns = mean + 0.01 * chance.standard_t(5, days)
    values = 100 * np.concatenate([[1.0], np.cumprod(1 + returns)])
    when = np.busday_offset(first, np.arange(days + 1), roll="forward")
    return NavTrack(days=when, values=values, a_year=252.0, benchmark="none")


def judged(own: NavTrack, **tries: Any) -> JudgedFigure:
    found = judge_returns(own, Tries(**tries))
    assert isinstance(found, JudgedFigure)
    return found


def written_out(returns: pd.Series, bar: float) -> float:
    """Bailey and López de Prado (2012): PSR of a day's ratio against a bar."""
    ratio = returns.mean() / returns.std()
    skew = stats.skew(returns)
    kurtosis = stats.kurtosis(returns, fisher=False)
    error = math.sqrt(1 - skew * ratio + (kurtosis - 1) / 4 * ratio**2)
    return float(stats.norm.cdf((ratio - bar) * math.sqrt(len(returns) - 1) / error))


def best_of(trials: int, variance: float) -> float:
    """Bailey and López de Prado (2014): expected best ratio of trials without skill."""
    first = stats.norm.ppf(1 - 1 / trials)
    second = stats.norm.ppf(1 - 1 / (trials * math.e))
    return float(math.sqrt(variance) * ((1 - EULER) * first + EULER * second))


# ---- against luck


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("trials", [1, 2, 12, 500])
def test_psr_dsr_and_ceiling_are_those_written_out(seed: int, trials: int) -> None:
    own = track(seed=seed)
    returns = pd.Series(own.returns)
    found = judged(own, number=trials)

    assert found.zero.probability == pytest.approx(written_out(returns, 0.0), rel=1e-12)
    ceiling = 0.0
    if trials > 1:
        ceiling = best_of(trials, 1 / (len(returns) - 1))
    assert found.luck.sharpe == pytest.approx(ceiling * math.sqrt(252), rel=1e-12)
    assert found.luck.probability == pytest.approx(written_out(returns, ceiling), rel=1e-12)


def test_returns_of_two_values_have_the_smallest_kurtosis_there_is() -> None:
    returns = np.where(np.arange(60) % 4 == 0, -0.01, 0.006)
    values = 100 * np.concatenate([[1.0], np.cumprod(1 + returns)])
    own = replace(track(days=60), values=values)

    expected = written_out(pd.Series(own.returns), 0.0)
    assert judged(own, number=1).zero.probability == pytest.approx(expected, rel=1e-9)


def test_a_given_spread_of_the_tries_counts() -> None:
    own = track()
    found = judged(own, number=40, spread=0.8, source="--trials")
    ceiling = best_of(40, 0.8**2 / 252)
    assert found.luck.sharpe == pytest.approx(ceiling * math.sqrt(252))
    assert found.luck.probability == pytest.approx(written_out(pd.Series(own.returns), ceiling))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([100.0, 101.0], "fewer than three days"),
        ([100.0, 101.0, 102.01, 103.0301], "returns have no variance"),
    ],
)
def test_without_a_ratio_there_is_no_evidence(values: list[float], reason: str) -> None:
    own = NavTrack(
        days=np.busday_offset("2024-01-02", np.arange(len(values))),
        values=np.array(values),
        a_year=252.0,
        benchmark="none",
    )
    assert judge_returns(own, Tries()) == reason


def test_returns_of_two_values_have_the_least_kurtosis() -> None:
    returns = np.tile([0.02, -0.01, -0.01], 40)
    values = 1e6 * np.concatenate([[1.0], np.cumprod(1 + returns)])
    days = np.busday_offset("2024-01-02", np.arange(len(values)), roll="forward")
    own = NavTrack(days=days, values=values, a_year=252.0, benchmark="none")
    assert judged(own).kurtosis == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("returns", "a_year", "expected"),
    [
        (2, 1.0, True),
        (19, 252.0, True),
        (20, 252.0, False),
        (5, 12.0, True),
        (6, 12.0, False),
        (19, None, True),
    ],
)
def test_so_few_returns_say_nothing(returns: int, a_year: float | None, expected: bool) -> None:
    assert (annualisation_problem(returns, a_year) is not None) is expected


# ---- tries


def study(folder: Path, ratios: list[float | None]) -> Any:
    path = study_ledger(folder, "own")
    found = None
    for number, ratio in enumerate(ratios):
        found = record_try(
            path,
            StudyTry(
                sha256=f"{number:064x}", source="w.csv", plan_sha256=None, returns=60,
                returns_a_year=252.0, sharpe=ratio,
            ),
        )  # fmt: skip
    return found


def test_a_study_counts_its_files_and_measures_their_spread(tmp_path: Path) -> None:
    found = count_tries(None, None, study(tmp_path, [0.1, 0.2, None]))
    assert (found.number, found.source) == (3, "study-own.jsonl")
    assert found.spread == pytest.approx(0.1 / math.sqrt(2) * math.sqrt(252))


@pytest.mark.parametrize(
    ("trials", "expected"),
    [(None, (2, "study-own.jsonl")), (1, (2, "study-own.jsonl")), (50, (50, "--trials"))],
)
def test_the_larger_of_trials_and_ledger_counts(
    trials: int | None, expected: tuple[int, str], tmp_path: Path
) -> None:
    found = count_tries(trials, None, study(tmp_path, [0.1, 0.1]))
    assert (found.number, found.source) == expected
    assert found.spread is None, "equal ratios have no spread"


def test_a_judged_account_is_on_the_ledger_once(tmp_path: Path) -> None:
    source = JudgedSource(name="nav.csv", sha256="a" * 64, folder=tmp_path)
    own = track()
    for _ in range(2):
        fields = evidence_fields(own, source, LuckSettings(study="x"))
        assert fields["evidence"].trials == 1

    other = JudgedSource(name="nav.csv", sha256="b" * 64, folder=tmp_path)
    fields = evidence_fields(track(5), other, LuckSettings(study="x"))
    assert fields["no_evidence"].startswith("5 returns are too few")
    lines = (tmp_path / "study-x.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert '"sharpe":null' in lines[1], "five days have no ratio worth a line"


# ---- after the end of the training data


def cut(own: NavTrack, cutoff: str) -> Any:
    model = find_training_end("some/model", cutoff)
    assert model is not None
    return clean_part(own, model)


def test_the_part_after_a_cutoff_has_its_own_figures() -> None:
    own = track(400)
    part = cut(own, "2024-09-02")
    first = int(np.searchsorted(own.days, np.datetime64("2024-09-02")))
    values = pd.Series(own.values[first:])
    returns = values.pct_change().dropna()

    assert part.first == "2024-09-02"
    assert (part.before, part.across, part.after) == (first, 0, 400 - first)
    assert part.total_return.value == pytest.approx(values.iloc[-1] / values.iloc[0] - 1)
    assert part.sharpe.value == pytest.approx(returns.mean() / returns.std() * math.sqrt(252))
    assert part.max_drawdown.value == pytest.approx(1 - (values / values.cummax()).min())
    assert part.psr.value == pytest.approx(written_out(returns, 0.0))
    assert part.months == pytest.approx(len(returns) / 252 * 12)


def test_a_cutoff_between_two_closes_is_across() -> None:
    own = track(60)  # 2024-01-06 is a Saturday
    part = cut(own, "2024-01-06")
    assert (part.before, part.across, part.after) == (3, 1, 56)
    assert part.first == "2024-01-08"


def test_months_are_needed_until_the_ratio_of_the_part_is_above_zero() -> None:
    own = track(300, seed=12, mean=0.0004)
    part = cut(own, "2024-06-03")
    first = int(np.searchsorted(own.days, np.datetime64("2024-06-03")))
    returns = pd.Series(own.returns[first:])
    ratio = returns.mean() / returns.std()
    assert ratio > 0, "the case needs a ratio that time can prove"
    error = 1 - stats.skew(returns) * ratio
    error += (stats.kurtosis(returns, fisher=False) - 1) / 4 * ratio**2
    needed = 1 + error * (stats.norm.ppf(0.95) / ratio) ** 2

    assert part.months_needed_by == "part"
    assert part.months_needed.value == pytest.approx((needed - len(returns)) / 252 * 12)


def test_without_clean_days_the_ratio_of_the_whole_period_is_assumed() -> None:
    part = cut(track(300, mean=0.003), "2030-01")
    assert (part.before, part.after, part.first) == (300, 0, None)
    assert part.sharpe.value is None
    assert part.months_needed_by == "whole"
    assert part.months_needed.value is not None


def test_a_lower_bound_leaves_no_day_for_certain() -> None:
    bound = CutoffEntry(date="2023-01", confidence="reported_lower_bound", source="a list")
    part = clean_part(track(), TrainingEnd(name="some/model", cutoff=bound))
    assert part.is_lower_bound
    assert part.after == 0


def test_a_rule_was_trained_on_nothing() -> None:
    model = find_training_end("builtin/momentum", None)
    assert model is not None
    part = clean_part(track(), model)
    assert (part.cutoff, part.before, part.after) == ("none", 0, 250)


def test_an_unknown_model_needs_its_cutoff() -> None:
    assert find_training_end(None, None) is None
    with pytest.raises(UsageError, match="nobody/x: the end of its training data is not listed"):
        find_training_end("nobody/x", None)
    with pytest.raises(UsageError, match="--cutoff: 'soon' is neither"):
        find_training_end("nobody/x", "soon")


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        (Figure(value=None, reason="too few days"), "Nothing on selection: too few days."),
        (Figure(value=0.2, low=0.1, high=0.3), "The interval of selection lies above zero."),
    ],
)
def test_a_figure_of_skill_has_words_or_the_reason_for_none(figure: Figure, words: str) -> None:
    assert _of_skill("selection", figure) == words
