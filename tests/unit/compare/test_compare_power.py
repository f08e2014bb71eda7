"""What a plan can show: the facts printed by `ktdeval power`, against tables, closed forms and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ktdeval.stats.paired import signed_rank
from ktdeval_compare.power import (
    Spread,
    estimate_spread,
    median_variance,
    normal_effect,
    pairs_needed,
    smallest_p,
    wilcoxon_effect,
    wilcoxon_power,
    windows_needed,
)


def test_the_smallest_p_of_few_pairs_and_the_pairs_that_any_result_needs() -> None:
    assert (smallest_p(1), smallest_p(5), smallest_p(6)) == (1.0, 0.0625, 0.03125)
    for pairs in (1, 5, 6, 11):
        assert signed_rank(np.arange(1.0, pairs + 1)).p == pytest.approx(smallest_p(pairs))
    assert (pairs_needed(0.05), pairs_needed(0.05, 45)) == (6, 11)
    assert smallest_p(11) == pytest.approx(0.00098, abs=5e-6)
    assert smallest_p(11) <= 0.05 / 45 < smallest_p(10)


def test_the_variance_of_a_median_of_normals_and_what_seeds_cut() -> None:
    # n = 3: 1 - sqrt(3)/pi (David and Nagaraja 2003); 2: the mean; large n: pi / 2n.
    assert median_variance(1) == 1.0
    assert median_variance(2) == pytest.approx(0.5, abs=1e-6)
    assert median_variance(3) == pytest.approx(1 - math.sqrt(3) / math.pi, abs=1e-6)
    assert median_variance(60) == pytest.approx(math.pi / 120, rel=0.03)
    for seeds in (4, 5, 8):
        drawn = np.median(np.random.default_rng(seeds).normal(size=(200_000, seeds)), axis=1).var()
        assert median_variance(seeds) == pytest.approx(drawn, rel=0.02)
    sds = [Spread(window_sd=0.03, seed_sd=0.02).of_pairs(seeds) for seeds in (1, 2, 3, 5, 10, 1000)]
    assert sds == sorted(sds, reverse=True)
    assert sds[0] == pytest.approx(math.sqrt(0.03**2 + 2 * 0.02**2))
    assert sds[-1] > 0.03  # decoding noise, and never market noise


def test_power_is_the_level_without_an_effect_equals_a_simulation_with_scipy_and_rises() -> None:
    assert wilcoxon_power(0.0, 10) == pytest.approx(0.0488, abs=0.004)
    chance = np.random.default_rng(1)
    found = np.mean([stats.wilcoxon(chance.normal(0.9, 1.0, 10), method="exact").pvalue <= 0.05 for _ in range(800)])
    assert wilcoxon_power(0.9, 10) == pytest.approx(found, abs=0.04)
    by_effect = [wilcoxon_power(effect, 12, draws=4000) for effect in (0.0, 0.3, 0.6, 1.0, 2.0)]
    by_windows = [wilcoxon_power(0.6, windows, draws=4000) for windows in (6, 10, 20, 40)]
    assert (by_effect, by_windows) == (sorted(by_effect), sorted(by_windows))


def test_the_detectable_effect_has_the_power_asked_for() -> None:
    assert wilcoxon_effect(5) is None  # five windows find nothing whatever the effect
    assert wilcoxon_power(50.0, 5) == 0.0
    effect, large = wilcoxon_effect(10), wilcoxon_effect(200)
    assert effect is not None
    assert wilcoxon_power(effect, 10) == pytest.approx(0.8, abs=1e-3)
    assert wilcoxon_effect(10, power=0.01) == 0.0
    assert large == pytest.approx(normal_effect(1.0, 200) * math.sqrt(math.pi / 3), rel=0.03)  # its efficiency is 3/pi


def test_the_windows_needed_are_the_fewest_with_the_power() -> None:
    needed = windows_needed(0.9)
    assert needed is not None
    assert wilcoxon_power(0.9, needed) >= 0.8 > wilcoxon_power(0.9, needed - 1)
    assert (windows_needed(5.0), windows_needed(50.0, alpha=0.05 / 45), windows_needed(-0.9)) == (6, 11, needed)
    assert windows_needed(0.01, draws=2000) is None


def test_variances_are_recovered_from_paired_differences() -> None:
    def variances(table: object) -> tuple[float, float]:
        spread, problem = estimate_spread(np.array(table))
        assert spread is not None, problem
        return spread.window_sd**2, spread.seed_sd**2

    # Windows (1, 3) and (5, 7): within variances 2 and 2; means 2 and 6, variance 8; 8 - 2/2 = 7 between.
    assert variances([[1.0, 3.0], [5.0, 7.0]]) == pytest.approx((7.0, 1.0))
    assert variances([[1.0], [3.0]]) == pytest.approx((2.0, 0.0))
    assert variances([[0.0, 9.0], [1.0, 8.5]])[0] == 0.0  # seeds explain all of it
    chance = np.random.default_rng(2)
    planted = 0.03 * chance.normal(size=(4000, 1)) + math.sqrt(2) * 0.02 * chance.normal(size=(4000, 5))
    assert np.sqrt(variances(planted)) == pytest.approx((0.03, 0.02), rel=0.05)
    assert estimate_spread(np.array([[1.0, 2.0]])) == (None, "one window does not show how much windows differ")
