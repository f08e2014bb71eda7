"""Batched weighted least squares against statsmodels day by day, and what it does where there is no unique answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from statsmodels.regression.linear_model import WLS, RegressionResults

from ktdeval.attribution.regression import robust_errors, weighted_least_squares
from ktdeval.errors import DataError

Cross = tuple[np.ndarray, np.ndarray, np.ndarray]


def cross_sections(seed: int, days: int = 12, columns: int = 10, names: int = 60, missing: float = 0.1) -> Cross:
    """Design [D, P, N] with an intercept and correlated columns, returns and weights; a share of the weights is 0."""
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(days, columns, names))
    design[:, 0] = 1.0
    if columns > 2:
        design[:, 2] = 0.8 * design[:, 1] + 0.6 * design[:, 2]
    returns = 0.01 * rng.standard_t(4, (days, names)) + 0.004 * design[:, 1 if columns > 1 else 0]
    weights = np.where(rng.random((days, names)) < missing, 0.0, np.sqrt(rng.lognormal(20, 1.2, (days, names))))
    return design, np.where(weights > 0, returns, 0.0), weights


def by_statsmodels(cross: Cross, day: int, **kind: str) -> RegressionResults:
    design, returns, weights = cross
    used = weights[day] > 0
    return WLS(returns[day, used], design[day][:, used].T, weights=weights[day, used]).fit(**kind)


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 10), st.integers(14, 80), st.floats(0.0, 0.2))
def test_coefficients_equal_statsmodels_on_random_cross_sections(seed: int, columns: int, names: int, missing: float) -> None:
    cross = cross_sections(seed, days=3, columns=columns, names=names, missing=missing)
    fitted = weighted_least_squares(*cross)
    for day in np.flatnonzero(~fitted.too_few):
        np.testing.assert_allclose(fitted.coefficients[day], by_statsmodels(cross, day).params, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("noise", [1e-2, 1e-3, 1e-4])
def test_nearly_collinear_columns_keep_their_digits(noise: float) -> None:
    design, returns, weights = cross_sections(5)
    design[:, 4] = design[:, 1] + noise * design[:, 4]
    fitted = weighted_least_squares(design, returns, weights)
    assert not fitted.dropped.any()
    for day in range(len(design)):
        expected = by_statsmodels((design, returns, weights), day).params
        # The problem itself is as ill-conditioned as 1 / noise.
        np.testing.assert_allclose(fitted.coefficients[day], expected, rtol=1e-12 / noise, atol=1e-12 / noise)


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC2", "HC3"])
def test_robust_errors_equal_statsmodels(kind: str) -> None:
    cross = cross_sections(4)
    errors = robust_errors(*cross, weighted_least_squares(*cross), kind)
    for day in range(len(cross[0])):
        np.testing.assert_allclose(errors[day], by_statsmodels(cross, day, cov_type=kind).bse, rtol=1e-10)


def test_a_column_that_others_explain_is_dropped_and_the_rest_is_the_fit_without_it() -> None:
    design, returns, weights = cross_sections(6)
    design[3, 7] = 0.5 * design[3, 1] - 2.0 * design[3, 5]
    fitted = weighted_least_squares(design, returns, weights)
    assert np.argwhere(fitted.dropped).tolist() == [[3, 7]]
    assert fitted.coefficients[3, 7] == 0.0
    others = np.delete(design, 7, axis=1)
    expected = by_statsmodels((others, returns, weights), 3).params
    np.testing.assert_allclose(np.delete(fitted.coefficients[3], 7), expected, rtol=1e-10, atol=1e-13)
    errors = robust_errors(design, returns, weights, fitted)
    assert np.isnan(errors[3, 7])
    np.testing.assert_allclose(
        np.delete(errors[3], 7), by_statsmodels((others, returns, weights), 3, cov_type="HC3").bse, rtol=1e-9
    )


@pytest.mark.parametrize("constant", [0.0, 1.0, -0.3, 1e6])
def test_a_constant_column_yields_to_the_intercept(constant: float) -> None:
    design, returns, weights = cross_sections(7, columns=3)
    design[:, 1] = constant
    fitted = weighted_least_squares(design, returns, weights)
    assert fitted.dropped[:, 1].all()
    assert not fitted.dropped[:, [0, 2]].any()
    expected = by_statsmodels((np.delete(design, 1, axis=1), returns, weights), 0).params
    np.testing.assert_allclose(fitted.coefficients[0, [0, 2]], expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("left", [1, 3, 9, 10, 11])
def test_no_more_names_than_columns_leaves_the_weighted_mean(left: int) -> None:
    design, returns, weights = cross_sections(8, missing=0.0)
    weights[2, left:] = returns[2, left:] = 0.0
    fitted = weighted_least_squares(design, returns, weights)
    assert fitted.too_few.tolist() == [day == 2 and left < 11 for day in range(12)]
    assert fitted.count[2] == left
    if left == 11:  # one more is fitted
        np.testing.assert_allclose(fitted.coefficients[2], by_statsmodels((design, returns, weights), 2).params, rtol=1e-8)
        return
    assert fitted.coefficients[2, 0] == pytest.approx(np.average(returns[2, :left], weights=weights[2, :left]), rel=1e-12)
    assert (fitted.coefficients[2, 1:] == 0.0).all()
    assert fitted.dropped[2, 1:].all()


@given(st.floats(1e-6, 1e6))
def test_neither_other_days_nor_the_unit_of_the_weights_matter(scale: float) -> None:
    design, returns, weights = cross_sections(10, days=60)
    whole = weighted_least_squares(design, returns, weights)
    one = weighted_least_squares(design[50:51], returns[50:51], weights[50:51] * scale)
    np.testing.assert_allclose(whole.coefficients[50], one.coefficients[0], rtol=1e-9, atol=1e-14)


def test_values_that_are_not_finite_and_shapes_that_do_not_fit_are_refused() -> None:
    design, returns, weights = cross_sections(12)
    with pytest.raises(DataError, match=r"returns are \(12, 59\)"):
        weighted_least_squares(design, returns[:, 1:], weights)
    returns[0, 0] = np.nan
    with pytest.raises(DataError, match="a value is not finite"):
        weighted_least_squares(design, returns, weights)
    with pytest.raises(DataError, match="weight is negative"):
        weighted_least_squares(design, np.zeros_like(returns), -weights)
