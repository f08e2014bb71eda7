"""Intervals that hold at every moment: by hand, against an independent library, and by coverage."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest
from anytime import BEYOND, LAWS, draw, measure

from ktdeval.stats import (
    asymptotic_sequence,
    expected_half_width,
    mixture_variance,
    symmetric_sequence,
)

DEVIATION = 0.10 / math.sqrt(250)
RHO = mixture_variance(0.10**2)


def test_few_days_say_nothing() -> None:
    found = symmetric_sequence([0.001, -0.002, 0.0005], RHO, most=1.0)
    assert (found.low == -np.inf).all()
    assert (found.high == np.inf).all()
    assert np.isinf(asymptotic_sequence(np.full(99, 0.001)).high).all()


def test_a_year_shows_what_the_docs_say() -> None:
    a_year = expected_half_width(250, DEVIATION, RHO) * 250
    assert 0.25 < a_year < 0.30  # of 10 % tracking error: some 27 % a year, 1.4 times 19.6 %


def test_every_end_solves_its_equation_by_hand() -> None:
    # Twenty equal days have no spread, so that only rho is left: 20 q = (1 + q) ln(400 (1 + q)) for
    # the part q = 20 d^2 / rho. At q = 0.45 it is 9.000 < 9.227, at q = 0.50 it is 10.000 > 9.595.
    found = symmetric_sequence(np.full(20, 0.01), RHO)
    part = 20 * (found.high[-1] - 0.01) ** 2 / RHO
    assert 0.45 < part < 0.50
    assert 20 * part == pytest.approx((1 + part) * math.log(400 * (1 + part)), rel=1e-9)


def test_candidate_that_was_never_refused_is_never_left_out() -> None:
    values = np.random.default_rng(4).normal(0.0, DEVIATION, 40)
    found = symmetric_sequence(values, RHO, most=1.0)
    for candidate in np.linspace(-0.9, 0.9, 1801):
        deviations = values - candidate
        spread = np.cumsum(deviations**2) + RHO
        mixture = 0.5 * np.log(RHO / spread) + np.cumsum(deviations) ** 2 / (2 * spread)
        is_refused = np.maximum.accumulate(mixture) > math.log(1 / 0.05)
        is_out = (candidate < found.low) | (candidate > found.high)
        assert not (is_out & ~is_refused).any(), candidate

    assert np.isinf(found.high[:14]).all()  # far candidates are not refused yet
    assert np.isfinite(found.high[15:]).all()


@pytest.mark.parametrize("origin", [-0.5, 1e-4, 3.0])
def test_intervals_move_with_the_values(origin: float) -> None:
    values = np.random.default_rng(6).normal(0.0, DEVIATION, 150)
    found = symmetric_sequence(values, RHO)
    moved = symmetric_sequence(values + origin, RHO)
    np.testing.assert_allclose(moved.low - origin, found.low, rtol=0, atol=1e-12)
    np.testing.assert_allclose(moved.high - origin, found.high, rtol=0, atol=1e-12)


# ---- against an independent library


@pytest.fixture(scope="module")
def ville() -> ModuleType:
    return pytest.importorskip("ville", reason="needs the package ville: pip install ville")


@pytest.mark.parametrize("narrowest_at", [1e-4, 0.01, 250.0])
def test_mixture_is_that_of_an_independent_library(ville: ModuleType, narrowest_at: float) -> None:
    # That one searches for the narrowest bound by numbers; ours is its closed form.
    searched = ville.means.best_rho(narrowest_at, 0.05)
    assert mixture_variance(narrowest_at) == pytest.approx(searched, rel=1e-4)


def test_symmetric_ends_lie_on_the_bound_of_an_independent_library(ville: ModuleType) -> None:
    values = np.random.default_rng(7).standard_t(3, 250) * DEVIATION
    found = symmetric_sequence(values, RHO)
    step = 1e-9

    for end, outside in ((found.high[-1], 1.0), (found.low[-1], -1.0)):
        for distance, is_refused in ((-step, False), (step, True)):
            deviations = values - (end + outside * distance)
            bound = ville.means.normal_mixture(np.cumsum(deviations**2), 0.05, RHO)
            assert bool((np.abs(np.cumsum(deviations)) > bound).any()) == is_refused


def test_asymptotic_ends_are_those_of_an_independent_library(ville: ModuleType) -> None:
    values = np.random.default_rng(8).normal(0.001, DEVIATION, 400)
    theirs = ville.AsymptoticCS(alpha=0.05, t_opt=250, min_samples=100).fit(values)
    # They divide squares by the count less 1, the paper by the count.
    count = np.arange(1, 401)
    half = np.full(400, np.inf)
    half[1:] = (theirs.upper_ - theirs.estimate_)[1:] * np.sqrt((count - 1) / count)[1:]
    found = asymptotic_sequence(values, 250)
    expected = np.minimum.accumulate(theirs.estimate_ + half)
    np.testing.assert_allclose(found.high, expected, rtol=0, atol=1e-8)


# ---- looked at every day


@pytest.mark.parametrize("kind", ["symmetric", "asymptotic"])
@pytest.mark.parametrize("law", LAWS)
def test_whoever_looks_every_day_is_wrong_less_than_one_time_in_twenty(law: str, kind: str) -> None:
    found = measure(kind, draw(law, years=500, days=250, seed=11))
    assert min(found.covered.values()) >= 0.95
    assert found.wins <= 0.05  # of placebo agents, whose mean is 0


def test_fixed_intervals_do_not_bear_a_daily_look() -> None:
    returns = draw("normal", years=500, days=250, seed=11)
    fixed = measure("fixed", returns)
    symmetric = measure("symmetric", returns)

    assert fixed.covered["every day"] < 0.75
    assert 1.3 < symmetric.width_pct / fixed.width_pct < 1.5


@pytest.mark.parametrize("law", BEYOND)
def test_laws_far_from_symmetric_are_not_covered_as_the_docs_say(law: str) -> None:
    found = measure("symmetric", draw(law, years=500, days=250, seed=11))
    assert 0.75 < found.covered["every day"] < 0.95


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        symmetric_sequence([0.1, math.nan], RHO)

    for rho, most in ((0.0, 1.0), (RHO, 0.0), (RHO, math.nan)):
        with pytest.raises(ValueError, match="above 0"):
            symmetric_sequence([0.1], rho, most=most)

    with pytest.raises(ValueError, match="above 0"):
        mixture_variance(0.0)
