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
    window_sd_of,
    windows_needed,
)


def test_the_smallest_p_of_few_pairs() -> None:
    assert smallest_p(5) == 0.0625
    assert smallest_p(6) == 0.03125
    assert smallest_p(1) == 1.0
    for pairs in (1, 5, 6, 11):
        assert signed_rank(np.arange(1.0, pairs + 1)).p == pytest.approx(smallest_p(pairs))


def test_pairs_that_any_result_needs() -> None:
    assert pairs_needed(0.05) == 6
    assert pairs_needed(0.05, 45) == 11
    assert smallest_p(11) == pytest.approx(0.00098, abs=5e-6)
    assert smallest_p(11) <= 0.05 / 45 < smallest_p(10)


@pytest.mark.parametrize(("windows", "percent"), [(6, 38.8), (20, 21.3), (60, 12.3)])
def test_two_agents_of_ten_per_cent_tracking_error_in_windows_of_21_days(windows: int, percent: float) -> None:
    """Normal approximation, 5 % two-sided, power 80 %, a year of 242 days."""
    sd = window_sd_of(0.10, 21, 242)
    assert 100 * normal_effect(sd, windows) * 242 / 21 == pytest.approx(percent, abs=0.05)


def test_the_variance_of_a_median_of_normals() -> None:
    # n = 3: 1 - sqrt(3)/pi (David and Nagaraja 2003); 2: the mean; large n: pi / 2n.
    assert median_variance(1) == 1.0
    assert median_variance(2) == pytest.approx(0.5, abs=1e-6)
    assert median_variance(3) == pytest.approx(1 - math.sqrt(3) / math.pi, abs=1e-6)
    assert median_variance(60) == pytest.approx(math.pi / 120, rel=0.03)
    for seeds in (4, 5, 8):
        drawn = np.median(np.random.default_rng(seeds).normal(size=(200_000, seeds)), axis=1).var()
        assert median_variance(seeds) == pytest.approx(drawn, rel=0.02)


def test_more_seeds_cut_decoding_noise_and_never_market_noise() -> None:
    spread = Spread(window_sd=0.03, seed_sd=0.02)
    sds = [spread.of_pairs(seeds) for seeds in (1, 2, 3, 5, 10, 1000)]
    assert sds == sorted(sds, reverse=True)
    assert sds[0] == pytest.approx(math.sqrt(0.03**2 + 2 * 0.02**2))
    assert sds[-1] > 0.03


def test_power_is_the_level_without_an_effect_and_equals_a_simulation_with_scipy() -> None:
    assert wilcoxon_power(0.0, 10) == pytest.approx(0.0488, abs=0.004)
    chance = np.random.default_rng(1)
    found = np.mean([stats.wilcoxon(chance.normal(0.9, 1.0, 10), method="exact").pvalue <= 0.05 for _ in range(2000)])
    assert wilcoxon_power(0.9, 10) == pytest.approx(found, abs=0.03)


def test_power_rises_with_the_effect_and_the_plan() -> None:
    by_effect = [wilcoxon_power(effect, 12, draws=4000) for effect in (0.0, 0.3, 0.6, 1.0, 2.0)]
    assert by_effect == sorted(by_effect)
    by_windows = [wilcoxon_power(0.6, windows, draws=4000) for windows in (6, 10, 20, 40)]
    assert by_windows == sorted(by_windows)


def test_five_windows_find_nothing_whatever_the_effect() -> None:
    assert wilcoxon_effect(5) is None
    assert wilcoxon_power(50.0, 5) == 0.0


def test_the_detectable_effect_has_the_power_asked_for() -> None:
    effect = wilcoxon_effect(10)
    assert effect is not None
    assert wilcoxon_power(effect, 10) == pytest.approx(0.8, abs=1e-3)
    assert wilcoxon_effect(10, power=0.01) == 0.0
    large = wilcoxon_effect(200)
    assert large is not None
    assert large == pytest.approx(normal_effect(1.0, 200) * math.sqrt(math.pi / 3), rel=0.03)  # its efficiency is 3/pi


def test_the_windows_needed_are_the_fewest_with_the_power() -> None:
    needed = windows_needed(0.9)
    assert needed is not None
    assert wilcoxon_power(0.9, needed) >= 0.8 > wilcoxon_power(0.9, needed - 1)
    assert windows_needed(5.0) == 6
    assert windows_needed(50.0, alpha=0.05 / 45) == 11
    assert windows_needed(-0.9) == needed
    assert windows_needed(0.01, draws=2000) is None


def test_planted_variances_are_recovered() -> None:
    chance = np.random.default_rng(2)
    table = 0.03 * chance.normal(size=(4000, 1)) + math.sqrt(2) * 0.02 * chance.normal(size=(4000, 5))
    spread, problem = estimate_spread(table)
    assert problem is None
    assert spread is not None
    assert spread.window_sd == pytest.approx(0.03, rel=0.05)
    assert spread.seed_sd == pytest.approx(0.02, rel=0.05)


def test_variances_worked_by_hand() -> None:
    # Windows (1, 3) and (5, 7): within variances 2 and 2; means 2 and 6, variance 8; 8 - 2/2 = 7 between.
    spread, _ = estimate_spread(np.array([[1.0, 3.0], [5.0, 7.0]]))
    assert spread is not None
    assert (spread.window_sd**2, spread.seed_sd**2) == pytest.approx((7.0, 1.0))


def test_one_window_and_one_seed_are_said_for_what_they_are() -> None:
    assert estimate_spread(np.array([[1.0, 2.0]])) == (None, "one window does not show how much windows differ")
    spread, _ = estimate_spread(np.array([[1.0], [3.0]]))
    assert spread == Spread(math.sqrt(2.0), 0.0)
    noisy, _ = estimate_spread(np.array([[0.0, 9.0], [1.0, 8.5]]))
    assert noisy is not None
    assert noisy.window_sd == 0.0  # seeds explain all of it
