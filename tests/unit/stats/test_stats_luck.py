"""Probabilistic and deflated Sharpe ratios against the worked numbers of their papers, and the
count of trials.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import StoreError
from ktdeval.runner.plans.trial_count import count_trials
from ktdeval.runner.records.ledger_file import encode_ledger
from ktdeval.runner.records.run_claim import claim_folder
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.run_manifest import RunManifest
from ktdeval.stats.sharpe_significance import (
    SharpeMoments,
    deflated_sharpe_ratio,
    expected_best_sharpe,
    min_track_record,
    minimum_track_record,
    probabilistic_sharpe,
    psr,
    shape_of,
)
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from support.figures.metric_cases import ledger, market, nav_ledger, spec, step

MARKET = market()
# The strategy of Bailey and López de Prado (2014), "A Numerical Example": 1,250 daily returns,
# annualised Sharpe ratio 2.5, skew -3, kurtosis 10; trials' annualised Sharpe ratios vary by 1/2;
# 250 days a year.
FOUND = SharpeMoments(1250, 2.5 / math.sqrt(250), -3.0, 10.0)
VARIANCE = 0.5 / 250


def test_the_best_sharpe_ratio_of_100_trials_is_that_of_the_paper() -> None:
    assert expected_best_sharpe(100, VARIANCE) == pytest.approx(0.1132, abs=5e-5)


@pytest.mark.parametrize(
    ("shape", "trials", "value"),
    [
        (FOUND, 100, 0.9004),
        (FOUND, 46, 0.9505),
        (SharpeMoments(1250, 2.5 / math.sqrt(250)), 88, 0.9505),
    ],
    ids=["100 trials", "46 trials", "88 trials of normal returns"],
)
def test_deflated_sharpe_ratios_are_those_of_the_paper(
    shape: SharpeMoments, trials: int, value: float
) -> None:
    best = expected_best_sharpe(trials, VARIANCE)
    assert probabilistic_sharpe(shape, best) == pytest.approx(value, abs=5e-5)


def test_probabilistic_sharpe_ratios_are_those_of_the_paper() -> None:
    # Bailey and López de Prado (2012): 24 monthly returns, Sharpe ratio 0.458, skewness -2.448,
    # kurtosis 10.164.
    assert probabilistic_sharpe(SharpeMoments(24, 0.458)) == pytest.approx(0.982, abs=5e-4)
    assert probabilistic_sharpe(SharpeMoments(24, 0.458, -2.448, 10.164)) == pytest.approx(
        0.913, abs=5e-4
    )


@pytest.mark.parametrize(
    ("periods", "skew", "kurtosis", "years"),
    [(250, 0, 3, 2.73), (52, 0, 3, 2.83), (12, 0, 3, 3.24), (12, -0.72, 5.78, 4.99)],
    ids=["daily", "weekly", "monthly", "monthly, not normal"],
)
def test_minimum_track_records_are_those_of_the_paper(
    periods: int, skew: float, kurtosis: float, years: float
) -> None:
    """An annualised Sharpe ratio of 2 against 1, at 95 %."""
    shape = SharpeMoments(0, 2 / math.sqrt(periods), skew, kurtosis)
    days = minimum_track_record(shape, 1 / math.sqrt(periods))

    assert days is not None
    assert days / periods == pytest.approx(years, abs=6e-3)


@pytest.mark.slow
@given(
    st.lists(st.floats(-0.1, 0.1), min_size=3, max_size=60).filter(
        lambda values: np.std(values) > 1e-6
    )
)
def test_the_error_variance_of_a_sample_is_not_negative(values: list[float]) -> None:
    assert shape_of(np.array(values)).error_variance >= -1e-9
    assert 0 <= probabilistic_sharpe(shape_of(np.array(values))) <= 1


@given(st.integers(2, 10_000))
def test_more_trials_raise_the_bar(trials: int) -> None:
    assert expected_best_sharpe(trials + 1, 1.0) > expected_best_sharpe(trials, 1.0) > 0


def test_the_bar_is_about_the_mean_of_the_best_of_normal_draws() -> None:
    best = np.random.default_rng(0).standard_normal((4000, 50)).max(axis=1).mean()
    assert expected_best_sharpe(50, 1.0) == pytest.approx(best, rel=0.02)


def test_single_trial_is_not_deflated_and_unknown_ones_use_known_variance() -> None:
    returns = np.random.default_rng(0).normal(0.001, 0.01, 250)
    shape = shape_of(returns)
    sharpes = [0.02, 0.05, 0.11]
    ratio = deflated_sharpe_ratio(returns, [shape.sharpe])

    assert ratio.value == probabilistic_sharpe(shape)
    assert ratio.detail == {"trials": 1, "sharpe_variance": 0.0, "expected_best": 0.0}

    bar = expected_best_sharpe(40, float(np.var(sharpes, ddof=1)))
    assert deflated_sharpe_ratio(returns, sharpes, trials=40).value == pytest.approx(
        probabilistic_sharpe(shape, bar), rel=1e-12
    )
    assert (
        deflated_sharpe_ratio(returns, sharpes[:1], trials=40).reason
        == "the Sharpe ratios of the other trials are not known"
    )


@pytest.mark.parametrize(
    ("navs", "reason"),
    [
        ([1000] * 5, "returns have no variance"),
        ([1000, 1001], "fewer than three days"),
        ([1100, -500, -600, -550], "a level is not positive"),  # what comes after has no returns
    ],
)
def test_luck_is_undefined_with_a_reason(navs: list[int], reason: str) -> None:
    assert psr.compute(nav_ledger(navs), MARKET, "strict").reason == reason
    assert min_track_record.compute(nav_ledger(navs), MARKET, "strict").reason == reason
    assert deflated_sharpe_ratio(nav_ledger(navs).returns, [0.1, 0.2]).reason == reason


# -- trials
# -------------------------------------------------------------------------------------------------------------


def run(path: Path, specs: list[EpisodeSpec], finished: int) -> None:
    """A run folder whose first episodes are complete."""
    folder = RunFolder.create(
        claim_folder(path),
        RunManifest({"data": "synthetic", "data_args": {}}, MARKET.id, (), "strict", tuple(specs)),
    )
    folder.release()

    for number, one in enumerate(specs[:finished]):
        steps = [step(k, cash) for k, cash in enumerate([1000, 1010 + number, 1005, 1020, 1015])]
        folder.episode_path(one).mkdir()
        (folder.episode_path(one) / "ledger.parquet").write_bytes(
            encode_ledger(ledger(steps, of=one))
        )
        (folder.episode_path(one) / "episode.json").write_text("{}")


def specs(count: int, **changes: Any) -> list[EpisodeSpec]:
    return [spec(seed, **changes) for seed in range(count)]


def test_trials_are_distinct_episodes_finished_or_not(tmp_path: Path) -> None:
    run(tmp_path / "a", specs(3), finished=2)
    run(tmp_path / "nested" / "b", specs(5), finished=4)
    trials = count_trials([tmp_path])

    assert (trials.episodes, trials.strategies, trials.finished, trials.runs) == (5, 1, 4, 2)
    assert len(trials.sharpes) == 4

    run(tmp_path / "c", specs(2, limit=3), finished=0)
    run(tmp_path / "d", specs(2, model="builtin/random"), finished=0)
    trials = count_trials([tmp_path / "a", tmp_path / "c", tmp_path / "d"])

    assert (trials.episodes, trials.strategies) == (
        7,
        3,
    ), "a limited episode and another model are trials of their own"

    (tmp_path / "market").mkdir()
    (tmp_path / "market" / "manifest.json").write_text('{"arrays": {}}')

    assert count_trials([tmp_path]).runs == 4, "a market beside the runs is no run"

    (tmp_path / "none").mkdir()

    with pytest.raises(StoreError, match="no run here or in the folders below it"):
        count_trials([tmp_path / "none"])


def test_answers_to_questions_are_no_trials(tmp_path: Path) -> None:
    asked = specs(3, task="deanon_probe")
    run(tmp_path / "a", specs(2), finished=2)
    for one, file, text in (
        (asked[0], "answers.jsonl.zst", ""),
        (asked[1], "journal.jsonl", '{"step":{"sample":1}}\n'),
    ):
        run(tmp_path / file, asked, finished=0)
        (tmp_path / file / "episodes" / one.id).mkdir()
        (tmp_path / file / "episodes" / one.id / file).write_text(text)

    trials = count_trials([tmp_path])

    assert (trials.episodes, trials.finished, trials.runs) == (2, 2, 3)


def test_trials_of_a_window_are_counted_separately(tmp_path: Path) -> None:
    run(
        tmp_path / "a",
        [*specs(2), *specs(1, window=Window("short", "2024-01-03", "2024-01-05"))],
        finished=0,
    )

    assert count_trials([tmp_path], window="short").episodes == 1
    assert count_trials([tmp_path]).episodes == 3
    assert count_trials([tmp_path], snapshot="another").episodes == 0
