"""One estimate over cells: published figures, statsmodels, a case by hand, coverage of
intervals.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import stdtrit
from statsmodels.regression.linear_model import WLS
from statsmodels.stats.meta_analysis import combine_effects

from ktdeval_compare.pools.meta_analysis import (
    MomentEstimates,
    RandomEffects,
    grouped_effects,
    moment_estimates,
    random_effects,
)

Values = npt.NDArray[np.float64]

BCG = np.array(
    [
        (4, 119, 11, 128),
        (6, 300, 29, 274),
        (3, 228, 11, 209),
        (62, 13536, 248, 12619),
        (33, 5036, 47, 5761),
        (180, 1361, 372, 1079),
        (8, 2537, 10, 619),
        (505, 87886, 499, 87892),
        (29, 7470, 45, 7232),
        (17, 1699, 65, 1600),
        (186, 50448, 141, 27197),
        (5, 2493, 3, 2338),
        (27, 16886, 29, 17825),
    ],
    dtype=np.float64,
)
"""Cases and others among the vaccinated and the not vaccinated, in 13 trials of the BCG vaccine
(Colditz et al. 1994), as metafor has them (`dat.bcg`).
"""


def log_risk_ratios() -> tuple[Values, Values]:
    """Log risk ratios of the 13 trials, and their variances."""
    cases, others, control_cases, control_others = BCG.T
    vaccinated = cases + others
    control = control_cases + control_others
    values = np.log(cases / vaccinated / (control_cases / control))

    return values, 1 / cases - 1 / vaccinated + 1 / control_cases - 1 / control


def test_the_bcg_trials_have_the_figures_that_metafor_publishes() -> None:
    """`rma(yi, vi, data=dat, method="DL")` in metafor's own tests and documentation: estimate
    -0.7141, interval -1.0644 … -0.3638, tau² 0.3088, I² 92.12 %, Q 152.2330.
    """
    found = random_effects(*log_risk_ratios())

    assert found.k == 13
    assert found.value == pytest.approx(-0.7141, abs=5e-5)
    assert (found.plain_low, found.plain_high) == pytest.approx((-1.0644, -0.3638), abs=5e-5)
    assert found.tau2 == pytest.approx(0.3088, abs=5e-5)
    assert found.i2 == pytest.approx(0.9212, abs=5e-5)
    assert found.q == pytest.approx(152.2330, abs=5e-5)


@pytest.mark.parametrize("seed", range(8))
def test_estimates_equal_statsmodels(seed: int) -> None:
    """Of samples whose tau² is positive: statsmodels goes on with a negative one."""
    rng = np.random.default_rng(seed)
    k = 2 + 3 * seed
    variances = rng.uniform(0.2, 3.0, k) * 1e-4
    values = 0.01 + rng.normal(0.0, 0.05, k)

    found = random_effects(values, variances, confidence=0.9)
    other = combine_effects(values, variances, method_re="dl", alpha=0.1)
    homogeneity = other.test_homogeneity()
    mean = float(other.mean_effect_re)

    assert other.tau2 > 0
    assert found.tau2 == pytest.approx(other.tau2, rel=1e-9)
    assert found.value == pytest.approx(mean, rel=1e-9)
    assert found.q == pytest.approx(homogeneity.statistic, rel=1e-9)
    assert found.q_p == pytest.approx(homogeneity.pvalue, rel=1e-7)
    assert found.i2 == pytest.approx(other.i2, rel=1e-9)
    assert found.se == pytest.approx(other.sd_eff_w_re_hksj, rel=1e-9)
    assert found.weights == pytest.approx(other.weights_rel_re, rel=1e-9)

    half = float(stdtrit(k - 1, 0.95)) * float(other.sd_eff_w_re_hksj)
    assert (found.low, found.high) == pytest.approx((mean - half, mean + half), rel=1e-9)


def test_three_cells_by_hand() -> None:
    """Values 0, 3, 6 with variance 1: mean 3, Q = 9 + 0 + 9 = 18, tau² = (18 - 2) / (3 - 1) = 8, so
    that each weight is 1/9 and the plain error √3. Hartung and Knapp: the spread 18 / 9 / 2 = 1
    times it. A cell keeps 8/9 of its distance from the mean.
    """
    found = random_effects(np.array([0.0, 3.0, 6.0]), np.ones(3))

    assert (found.value, found.q, found.tau2) == pytest.approx((3.0, 18.0, 8.0))
    assert found.i2 == pytest.approx(16 / 18)
    assert (found.scale, found.se) == pytest.approx((1.0, math.sqrt(3)))
    assert found.high == pytest.approx(3 + 4.302653 * math.sqrt(3), abs=1e-6)
    # Student's t of one degree of freedom, times √(8 + 3)
    assert found.prediction_high == pytest.approx(3 + 12.706205 * math.sqrt(11), abs=1e-5)
    assert found.weights == pytest.approx((1 / 3,) * 3)
    assert found.shrunk == pytest.approx((3 - 8 / 3, 3.0, 3 + 8 / 3))


def test_a_cell_of_four_windows_by_hand() -> None:
    """As above, the first cell a mean of four windows: its true figure has tau² / 4. The slope is
    (1/4 + 1 + 1) (1 - 1/3) = 1.5, tau² = 16 / 1.5 = 32/3, and the weights are as 1 / (1 + 8/3) to
    1 / (1 + 32/3) twice, so that it counts 35/11 times as much as each of the others.
    """
    shares = np.array([0.25, 1.0, 1.0])
    found = random_effects(np.array([0.0, 3.0, 6.0]), np.ones(3), shares=shares)

    assert (found.q, found.tau2) == pytest.approx((18.0, 32 / 3))
    whole = 35 / 11 + 2
    assert found.weights == pytest.approx((35 / 11 / whole, 1 / whole, 1 / whole))
    assert found.value == pytest.approx(9 / whole)
    assert found.shrunk[0] == pytest.approx(9 / whole * (1 - 8 / 11))


@pytest.mark.parametrize("seed", range(5))
def test_means_of_windows_equal_the_general_method_of_moments(seed: int) -> None:
    """Divided by the root of its share each cell has the same tau²: a meta-regression on the root
    without an intercept, whose moment estimate is (y'Py - (k - 1)) / tr P, as of metafor's
    `rma(..., mods, method="DL")`. Weights and error are those of a weighted regression, as of
    `test="knha"`.
    """
    rng = np.random.default_rng(seed)
    k = 8
    shares = 1.0 / rng.integers(1, 5, k)
    variances = rng.uniform(0.2, 2.0, k)
    values = rng.normal(0.5, 1.0, k) * np.sqrt(variances + 2.0 * shares)
    found = random_effects(values, variances, shares=shares)

    root = np.sqrt(shares)
    scaled = values / root
    moderator = (1.0 / root)[:, None]
    weights = np.diag(shares / variances)
    inverse = np.linalg.inv(moderator.T @ weights @ moderator)
    projection = weights - weights @ moderator @ inverse @ moderator.T @ weights
    tau2 = max(0.0, (scaled @ projection @ scaled - (k - 1)) / np.trace(projection))
    assert found.tau2 == pytest.approx(tau2, rel=1e-9, abs=1e-12)

    fitted = WLS(values, np.ones(k), weights=1.0 / (variances + tau2 * shares)).fit()
    assert (found.value, found.se) == pytest.approx((fitted.params[0], fitted.bse[0]), rel=1e-9)
    assert (found.low, found.high) == pytest.approx(tuple(fitted.conf_int()[0]), rel=1e-6)


@pytest.mark.slow
def test_cells_of_several_windows_are_pooled_as_the_windows_that_they_are() -> None:
    """Two cells of four windows and six of one; true figures of windows vary by 1, errors by 0.3.
    By cells as if each were one window the same mean is less certain than it could be.
    """
    rng = np.random.default_rng(3)
    sizes = np.array([4, 4, 1, 1, 1, 1, 1, 1])
    shares = 1.0 / sizes
    variances = 0.09 / sizes
    values = rng.standard_normal((20_000, 8)) * np.sqrt(variances + shares)
    every = np.broadcast_to(variances, values.shape)
    errors = {}
    for name, of in (("windows", np.broadcast_to(shares, values.shape)), ("cells", 1.0)):
        found = moment_estimates(values, every, of)
        reach = float(stdtrit(7, 0.975)) * found.plain_se * np.sqrt(found.scale)
        errors[name] = float(found.mean.std())
        if name == "windows":
            assert 0.93 <= float((np.abs(found.mean) <= reach).mean()) <= 0.96
            assert float(found.tau2.mean()) == pytest.approx(1.0, abs=0.05)

    assert errors["windows"] < 0.9 * errors["cells"]


def test_cells_that_differ_less_than_their_errors_are_one_figure() -> None:
    found = random_effects(np.array([0.9, 1.0, 1.1]), np.array([1.0, 2.0, 3.0]))

    assert (found.tau2, found.i2) == (0.0, 0.0)
    assert found.shrunk == pytest.approx((found.value,) * 3)
    assert found.scale is not None
    assert found.scale < 1, "the interval claims more than the errors of the cells do"


def test_figures_that_are_not_defined_are_none_with_a_reason() -> None:
    assert random_effects(np.array([]), np.array([])) == RandomEffects(0, reason="no cell")
    assert random_effects(np.ones(1), np.ones(1)) == RandomEffects(
        1, reason="a single cell does not show how cells vary"
    )

    pair = random_effects(np.array([0.0, 1.0]), np.ones(2))
    assert (pair.prediction_low, pair.prediction_high) == (None, None)
    assert pair.low is not None

    flat = random_effects(np.full(4, 0.1), np.full(4, 0.01))
    assert flat.value == pytest.approx(0.1)
    assert (flat.low, flat.high, flat.se, flat.p) == (None,) * 4
    assert flat.reason == "no variation: all cells have the same figure"


@pytest.mark.parametrize(
    ("values", "variances", "problem"),
    [
        ([1.0, 2.0], [1.0, 0.0], "variances must be positive"),
        ([1.0, 2.0], [1.0, math.inf], "variances must be positive"),
        ([1.0, 2.0], [1.0, -1.0], "variances must be positive"),
        ([1.0, math.nan], [1.0, 1.0], "values must be finite"),
        ([1.0, 2.0], [1.0, 1.0, 1.0], "a variance of each"),
    ],
)
def test_what_is_no_sample_of_cells_is_refused(
    values: list[float], variances: list[float], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        random_effects(np.array(values), np.array(variances))


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e6])
def test_the_unit_of_a_figure_changes_no_share(scale: float) -> None:
    values, variances = log_risk_ratios()
    found = random_effects(values, variances)
    scaled = random_effects(scale * values, scale**2 * variances)

    assert scaled.value == pytest.approx(scale * (found.value or 0), rel=1e-9)
    assert scaled.high == pytest.approx(scale * (found.high or 0), rel=1e-9)
    assert (scaled.i2, scaled.p, scaled.q) == pytest.approx((found.i2, found.p, found.q), rel=1e-9)


def test_many_samples_at_once_are_those_one_by_one() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(0, 2, (4, 6))
    variances = rng.uniform(0.5, 2, (4, 6))
    together = moment_estimates(values, variances)

    assert together.mean.shape == (4,)
    for row in range(4):
        alone = moment_estimates(values[row], variances[row])
        both = zip(vars(alone).values(), vars(together).values(), strict=True)
        for one, all_rows in both:
            np.testing.assert_array_equal(one, all_rows[row])


# -- groups


def test_two_groups_by_hand() -> None:
    """Values 0, 4 and 10, 16 with variance 1. Within: Q = 8 + 18 = 26 with 2 degrees of freedom,
    slope 1 + 1, so 24 / 2 = 12. Means 2 and 13, each of variance (1 + 12) / 2 = 6.5. Between them Q
    = 2 * 5.5² / 6.5, tau² = (Q - 1) * 6.5 = 54.
    """
    labels = np.array([7, 7, 9, 9])
    found = grouped_effects(np.array([0.0, 4.0, 10.0, 16.0]), np.ones(4), labels)

    assert found.values == pytest.approx((2.0, 13.0))
    assert found.counts == (2, 2)
    assert found.tau2_within == pytest.approx(12.0)
    assert found.errors == pytest.approx((math.sqrt(6.5),) * 2)
    assert found.over.value == pytest.approx(7.5)
    assert found.over.q == pytest.approx(2 * 5.5**2 / 6.5)
    assert found.over.tau2 == pytest.approx(54.0)


def test_groups_of_one_cell_are_cells() -> None:
    values, variances = log_risk_ratios()
    found = grouped_effects(values, variances, np.arange(13))

    assert found.tau2_within == 0.0
    assert found.over.tau2 == pytest.approx(random_effects(values, variances).tau2)
    assert found.over.value == pytest.approx(random_effects(values, variances).value)


def test_one_group_has_its_estimate_and_nothing_over_groups() -> None:
    values, variances = log_risk_ratios()
    found = grouped_effects(values, variances, np.zeros(13, dtype=np.int64))

    assert found.values == pytest.approx((-0.7141,), abs=5e-5)
    assert found.tau2_within == pytest.approx(0.3088, abs=5e-5)
    assert found.over.reason == "a single cell does not show how cells vary"


@pytest.mark.exhaustive
def test_cells_of_few_groups_that_differ_are_no_independent_cells() -> None:
    """Five markets of six windows, whose effects have a variance of 1 beside errors of 1: an
    interval over 30 cells covers their mean far too seldom, that over five groups as often as it
    says.
    """
    rng = np.random.default_rng(11)
    labels = np.repeat(np.arange(5), 6)
    hits = np.zeros(2)
    for _ in range(1500):
        values = np.repeat(rng.standard_normal(5), 6) + rng.standard_normal(30)
        cells = random_effects(values, np.ones(30))
        groups = grouped_effects(values, np.ones(30), labels).over
        hits += [(estimate.low or 0) <= 0 <= (estimate.high or 0) for estimate in (cells, groups)]

    of_cells, of_groups = hits / 1500
    assert of_cells < 0.8
    assert 0.93 <= of_groups <= 0.97


# -- coverage


def simulated(k: int, tau: float, ratio: float) -> tuple[MomentEstimates, Values]:
    """20,000 samples of k cells about a mean of 0, whose variances span `ratio` about 1; and the
    true figure of a further cell of each.
    """
    rng = np.random.default_rng([k, int(10 * tau), int(ratio)])
    variances = np.geomspace(ratio**-0.5, ratio**0.5, k)
    values = rng.standard_normal((20_000, k)) * np.sqrt(variances + tau**2)
    every = np.broadcast_to(variances, values.shape)

    return moment_estimates(values, every), tau * rng.standard_normal(20_000)


@pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("k", [3, 5, 10])
@pytest.mark.parametrize(("ratio", "least"), [(1.0, 0.94), (4.0, 0.93), (16.0, 0.895)])
def test_the_interval_covers_the_mean_about_as_often_as_it_says(
    k: int, tau: float, ratio: float, least: float
) -> None:
    """Standard error of a share of 20,000: 0.0015. Variances of one size: nominal; the more they
    differ, the less, as Röver, Knapp and Friede (2015) found.
    """
    found, _ = simulated(k, tau, ratio)
    reach = float(stdtrit(k - 1, 0.975)) * found.plain_se * np.sqrt(found.scale)
    covered = float((np.abs(found.mean) <= reach).mean())

    assert least <= covered <= 0.96


@pytest.mark.parametrize("k", [3, 5, 10])
def test_a_normal_interval_would_cover_too_seldom(k: int) -> None:
    found, _ = simulated(k, 2.0, 4.0)
    assert float((np.abs(found.mean) <= 1.96 * found.plain_se).mean()) < 0.93


@pytest.mark.parametrize(("k", "least"), [(3, 0.95), (5, 0.86), (10, 0.84)])
@pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
def test_a_prediction_interval_covers_a_further_cell_in_most_samples(
    k: int, least: float, tau: float
) -> None:
    """Where tau² is estimated as 0 in many samples it is too short; the docs say so."""
    found, further = simulated(k, tau, 4.0)
    error = found.plain_se * np.sqrt(found.scale)
    reach = float(stdtrit(k - 2, 0.975)) * np.hypot(np.sqrt(found.tau2), error)

    assert least <= float((np.abs(further - found.mean) <= reach).mean())
