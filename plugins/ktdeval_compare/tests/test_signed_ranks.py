"""Signed-rank test over windows and its power: one null distribution, checked by simulated days."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ktdeval.registry import load_plugins
from ktdeval.stats import (
    correlated_null,
    normal_effect,
    overlap_correlation,
    positive_rank_sums,
    rank_null,
    signed_rank,
)
from ktdeval_compare.pairs.signed_ranks import (
    RankTest,
    pattern_of,
    published_spans,
    rank_test_of,
    shared_null,
)

SPANS = list(published_spans("ktdfin-windows").values())
SHARED = overlap_correlation(SPANS)
PATTERN = pattern_of(SHARED)


def summed_days(draws: int, mean: float = 0.0, seed: int = 0) -> np.ndarray:
    """[draws, 10] sums over W1 to W10 of independent daily terms of spread 1, whose mean over a
    window is `mean` standard deviations of its sum.
    """
    days = np.arange(np.datetime64("2024-01-01"), np.datetime64("2026-05-01"))
    days = days[np.is_busday(days)]
    inside = np.array(
        [(days >= np.datetime64(first)) & (days <= np.datetime64(last)) for first, last in SPANS]
    )
    terms = np.random.default_rng(seed).standard_normal((draws, len(days)))
    sums = terms @ inside.T.astype(float)
    return np.asarray(sums / np.sqrt(inside.sum(axis=1)) + mean)


def test_the_published_windows_are_those_of_the_task() -> None:
    task = load_plugins().make_task("blinded_open_research")
    spans = {name: (window.first, window.last) for name, window in task.windows.items()}
    del spans["long"]
    assert published_spans("ktdfin-windows") == spans


@pytest.mark.exhaustive
def test_rank_test_for_overlapping_windows_keeps_its_level() -> None:
    """Of 40,000 studies without an effect, a standard error of 0.11 points."""
    sums = positive_rank_sums(summed_days(40_000))
    apart = rank_null(np.arange(1.0, 11.0))
    rates = {}
    for name, null in (("shared", shared_null(PATTERN)), ("exact", apart)):
        assert null is not None
        p = np.array([null.two_sided(value) for value in null.support])
        rates[name] = float((p[sums] <= 0.05).mean())

    assert 0.038 <= rates["shared"] <= 0.05 + 3 * 0.0011
    assert rates["exact"] == pytest.approx(0.0716, abs=0.004)


@pytest.mark.exhaustive
@pytest.mark.parametrize("effect", [0.0, 0.6, 1.162])
def test_power_is_how_often_the_command_finds_it(effect: float) -> None:
    """2,000 simulated studies, each tested as `compare masks` tests it."""
    found = [rank_test_of(study, SHARED).p for study in summed_days(2000, effect, seed=1)]
    rate = float(np.mean([p <= 0.05 for p in found if p is not None]))
    error = math.sqrt(max(rate * (1 - rate), 0.01) / 2000)
    assert RankTest(0.05, PATTERN).power(effect, 10) == pytest.approx(rate, abs=4 * error + 0.004)


def test_the_power_at_one_per_cent_of_the_facts_is_that_of_the_shared_null() -> None:
    """1.162 standard deviations, the effect of the shipped study: 0.89 with independent windows."""
    assert RankTest().power(1.162, 10) == pytest.approx(0.889, abs=0.01)
    assert RankTest(0.05, PATTERN).power(1.162, 10) == pytest.approx(0.803, abs=0.01)
    assert RankTest(0.05, PATTERN).effect(10) == pytest.approx(1.154, abs=0.02)
    assert RankTest().effect(10) == pytest.approx(1.023, abs=0.02)


def test_further_windows_share_days_as_the_first_do() -> None:
    test = RankTest(0.05, PATTERN)
    matrix = test.correlation(13)
    assert matrix[:10, :10].tolist() == SHARED.tolist()
    assert matrix[10:, 10:].tolist() == SHARED[:3, :3].tolist()
    assert not matrix[:10, 10:].any()
    assert test.effective(10) == pytest.approx(8.264, abs=1e-3)
    assert RankTest().effective(7) == 7.0


def test_six_windows_of_the_paper_can_show_nothing_and_seven_can() -> None:
    """Six independent ones can: 2 / 2**6 is 0.031."""
    test = RankTest(0.05, PATTERN)
    assert (RankTest().fewest, test.fewest) == (6, 7)
    assert test.smallest_p(6) == pytest.approx(0.055, abs=0.003)
    assert (test.power(50.0, 6), test.effect(6)) == (0.0, None)


def test_windows_without_a_difference_leave_no_shared_days_behind() -> None:
    """W4 and W5 share days; where W5 does not differ, the rest of their block still does."""
    values = np.array([0.1, 0.2, 0.3, -0.1, 0.0, 0.2, 0.4, 0.5, 0.6, 0.7])
    moving = np.flatnonzero(values)
    null = correlated_null(SHARED[np.ix_(moving, moving)], 100_000, 0)
    assert rank_test_of(values, SHARED).p == signed_rank(values, null).p
    assert rank_test_of(values, np.eye(10)) == signed_rank(values)
    assert rank_test_of(np.zeros(10), SHARED).p == 1.0


def test_a_simulated_p_is_never_below_what_its_draws_can_show() -> None:
    """Thirty windows that share days, all of one sign: no draw is as extreme (Phipson and Smyth
    2010).
    """
    correlation = RankTest(0.05, PATTERN).correlation(30)
    p = rank_test_of(np.arange(1.0, 31.0), correlation).p
    assert p == 1 / 100_001
    assert RankTest(1e-6, PATTERN).power(50.0, 30) == 0.0


@pytest.mark.exhaustive
def test_a_large_effect_is_that_of_a_z_test_less_its_efficiency() -> None:
    found = RankTest().effect(200)
    assert found == pytest.approx(normal_effect(1.0, 200) * math.sqrt(math.pi / 3), rel=0.03)
