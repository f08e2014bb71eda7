"""Group-sequential boundaries, and the exact test of windows at planned looks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ktdeval.stats import (
    alpha_spent,
    looks_that_can_stop,
    normal_boundaries,
    sequential_signs,
    signed_rank,
    stopping_probabilities,
)
from ktdeval.stats.sequential import ENUMERATE_UP_TO, PATTERNS, sign_patterns

FIFTHS = (0.2, 0.4, 0.6, 0.8, 1.0)
SPENDING = ("obrien-fleming", "pocock")

# `ldbounds` of R (Casper, Perez; after Reboussin, DeMets, Kim and Lan 2000, Controlled Clinical
# Trials 21), two-sided alpha of 5 %. Its integration has a coarse step, so that its last digit may
# differ by two. The three looks were printed on R-help in March 2020 with their exit probabilities.
LDBOUNDS = {
    ("obrien-fleming", FIFTHS): (4.8769, 3.3569, 2.6803, 2.2898, 2.0310),
    ("pocock", FIFTHS): (2.4380, 2.4268, 2.4101, 2.3966, 2.3859),
    ("obrien-fleming", (0.10, 0.33, 1.00)): (6.9913, 3.7308, 1.9605),
}


# ---- boundaries of a normal statistic


@pytest.mark.parametrize(("spending", "fractions"), LDBOUNDS)
def test_boundaries_are_those_of_ldbounds(spending, fractions):
    boundaries = normal_boundaries(spending, 0.05, fractions)

    expected = LDBOUNDS[spending, fractions]
    assert boundaries.z == pytest.approx(expected, abs=2e-4)


def test_spent_error_is_that_which_ldbounds_printed():
    spent = alpha_spent("obrien-fleming", 0.05, (0.10, 0.33, 1.00))

    assert spent == pytest.approx((2.7227e-12, 1.9097e-04, 5.0000e-02), rel=1e-4)


def test_one_look_is_the_fixed_test():
    boundaries = normal_boundaries("pocock", 0.05, (1.0,))

    assert boundaries.z[0] == pytest.approx(1.959964, abs=1e-6)


@pytest.mark.parametrize("spending", SPENDING)
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.20])
def test_boundaries_use_all_of_alpha(spending, alpha):
    boundaries = normal_boundaries(spending, alpha, FIFTHS)

    assert (np.diff(boundaries.spent) > 0).all()
    assert boundaries.spent[-1] == pytest.approx(alpha, rel=1e-12)
    stops = stopping_probabilities(boundaries, 0.0)
    assert np.cumsum(stops.sum(axis=1)) == pytest.approx(boundaries.spent, rel=1e-6)
    assert stops[:, 0] == pytest.approx(stops[:, 1], rel=1e-9)


def test_later_looks_do_not_change_earlier_boundaries():
    short = normal_boundaries("obrien-fleming", 0.05, (0.3, 0.7))
    whole = normal_boundaries("obrien-fleming", 0.05, (0.3, 0.7, 0.9, 1.0))

    assert whole.z[:2] == pytest.approx(short.z, rel=1e-12)


def test_one_look_has_the_power_of_the_fixed_test():
    stops = stopping_probabilities(normal_boundaries("pocock", 0.05, (1.0,)), 2.801585)

    assert stops[0, 1] == pytest.approx(0.80, abs=1e-4)


@pytest.mark.parametrize("spending", SPENDING)
@pytest.mark.parametrize("drift", [0.0, 1.0, 3.0])
def test_stopping_probabilities_are_those_of_simulated_walks(spending, drift):
    boundaries = normal_boundaries(spending, 0.05, FIFTHS)
    steps = np.random.default_rng(7).normal(drift * 0.2, math.sqrt(0.2), (200_000, 5))
    z = np.cumsum(steps, axis=1) / np.sqrt(FIFTHS)

    reached = np.abs(z) >= boundaries.z
    first = np.where(reached.any(axis=1), reached.argmax(axis=1), 5)
    shares = np.bincount(first, minlength=6)[:5] / len(z)

    assert shares == pytest.approx(stopping_probabilities(boundaries, drift).sum(axis=1), abs=0.004)


@pytest.mark.parametrize(
    ("fractions", "alpha"),
    [((), 0.05), ((0.5, 0.5), 0.05), ((0.0, 1.0), 0.05), ((0.5, 1.1), 0.05), ((1.0,), 0.0)],
)
def test_impossible_plans_are_refused(fractions, alpha):
    with pytest.raises(ValueError, match=r"fraction|alpha"):
        normal_boundaries("pocock", alpha, fractions)


# ---- the exact test over windows


def _stops(sizes, looks, spending, statistic="signed-rank"):
    """Share of all patterns of signs whose walk stops, by plain enumeration of the test itself."""
    stopped = 0
    for signs in itertools.product((1.0, -1.0), repeat=len(sizes)):
        test = sequential_signs(np.multiply(signs, sizes), looks, spending, 0.05, statistic)
        stopped += test.settled_at is not None

    return stopped / 2 ** len(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("spending", SPENDING)
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param((3.0, 1.0, 7.0, 2.0, 9.0, 4.0, 8.0, 5.0), id="no ties"),
        pytest.param((2.0, 2.0, 2.0, 1.0, 1.0, 3.0, 3.0, 3.0), id="ties"),
        pytest.param((0.0, 5.0, 0.0, 6.0, 2.0, 1.0, 3.0, 4.0), id="zeros"),
        pytest.param((100.0, 1.0, 0.5, 2.0, 3.0, 0.1, 0.2, 4.0), id="one large"),
    ],
)
def test_at_most_alpha_of_all_sign_patterns_stop(sizes, spending):
    assert _stops(sizes, (6, 7, 8), spending) <= 0.05


def test_the_error_that_a_look_says_it_used_is_the_share_of_patterns():
    sizes = (3.0, 1.0, 7.0, 2.0, 9.0, 4.0, 8.0, 5.0)
    test = sequential_signs(np.multiply(sizes, (1, -1) * 4), (6, 8), "pocock")

    assert test.settled_at is None
    assert test.looks[-1].used == _stops(sizes, (6, 8), "pocock")


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        # All of ten signs equal: 55 of 55, p 2/1024
        ([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10], 1),
        ([-1.0, -2, -3, -4, -5, -6, -7, -8, -9, -10], -1),
        # Ranks 1 to 4 against: 45 less 10 is 35, p 0.084
        ([-1.0, -2, -3, -4, 5, 6, 7, 8, 9, 10], 0),
    ],
)
def test_one_look_is_the_signed_rank_test(differences, expected):
    values = np.asarray(differences)

    test = sequential_signs(values, (10,), "obrien-fleming")

    assert test.sign == expected
    p = signed_rank(values).p
    assert p is not None
    assert (p <= 0.05) == (expected != 0)


def test_a_look_stops_early_and_none_is_made_after_it():
    values = np.arange(1.0, 11.0)

    test = sequential_signs(values, (5, 8, 10), "obrien-fleming")

    # At eight windows OBF may use 2.44 %: of 256 patterns that is 6, and the extreme two have
    # |W| of 36; those of rank 1 or 2 turned 34 and 32. A boundary of 32 takes 6.
    assert [look.windows for look in test.looks] == [5, 8]
    assert test.settled_at == 2
    assert test.looks[0].boundary is None
    assert test.looks[1].boundary == 32.0
    assert test.looks[1].used == 6 / 256


def test_a_look_never_changes_when_later_windows_come():
    values = np.random.default_rng(3).normal(0.0, 1.0, 12)

    early = sequential_signs(values[:6], (6, 9, 12), "pocock")
    whole = sequential_signs(values, (6, 9, 12), "pocock")

    assert whole.looks[0] == early.looks[0]


def test_turned_signs_give_the_turned_decision():
    values = np.random.default_rng(5).normal(0.8, 1.0, 12)

    one = sequential_signs(values, (6, 9, 12), "pocock")
    other = sequential_signs(-values, (6, 9, 12), "pocock")

    assert one.settled_at == other.settled_at
    assert one.sign == -other.sign != 0


def test_sign_flips_weigh_sizes():
    values = np.asarray([10.0, 10, 10, 10, 10, 10, 10, 10, -1, -1])

    ranks = sequential_signs(values, (10,), "pocock", statistic="signed-rank")
    flips = sequential_signs(values, (10,), "pocock", statistic="sign-flip")

    assert ranks.looks[0].statistic == 52 - 3
    assert flips.looks[0].statistic == 78.0


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        # Five windows have 32 patterns, of which two are 6.25 %.
        ((5,), [False]),
        ((6,), [True]),
        ((5, 10), [False, True]),
        ((4, 6, 8, 10), [False, False, True, True]),
    ],
)
def test_few_windows_can_never_stop(looks, expected):
    assert looks_that_can_stop(looks, "obrien-fleming") == expected


def test_patterns_of_many_windows_are_a_subgroup():
    windows = ENUMERATE_UP_TO + 6
    patterns = sign_patterns(windows)
    known = {row.tobytes() for row in patterns}

    assert patterns.shape == (PATTERNS, windows)
    assert len(known) == PATTERNS
    assert (patterns[0] == 1).all()
    # Any sign is +1 in half of the patterns.
    assert (patterns.sum(axis=0) == 0).all()
    for one, other in np.random.default_rng(1).integers(0, PATTERNS, (50, 2)):
        assert (patterns[one] * patterns[other]).tobytes() in known


@pytest.mark.exhaustive
def test_at_most_alpha_of_the_patterns_of_a_subgroup_stops():
    windows = ENUMERATE_UP_TO + 6
    looks = (8, 14, windows)
    sizes = np.random.default_rng(2).exponential(1.0, windows)
    patterns = sign_patterns(windows)

    tests = []
    for number in np.random.default_rng(3).integers(0, PATTERNS, 200):
        tests.append(sequential_signs(sizes * patterns[number], looks, "pocock"))

    whole = [test for test in tests if len(test.looks) == 3]
    assert {test.looks[2].used for test in whole} == {whole[0].looks[2].used}
    assert {test.looks[2].boundary for test in whole} == {whole[0].looks[2].boundary}
    assert whole[0].looks[2].used <= 0.05
    assert whole[0].method == "subgroup"


@pytest.mark.parametrize(
    ("values", "looks", "words"),
    [
        ([1.0, math.nan], (2,), "finite"),
        ([1.0, 2.0, 3.0], (2,), "planned windows"),
        ([1.0], (2, 2), "increase"),
        ([1.0], (), "looks"),
    ],
)
def test_impossible_looks_are_refused(values, looks, words):
    with pytest.raises(ValueError, match=words):
        sequential_signs(np.asarray(values), looks, "pocock")
