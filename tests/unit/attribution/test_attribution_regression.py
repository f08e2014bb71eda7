"""Regressions of the attribution: batched weighted least squares against statsmodels day by day,
and what it does where there is no unique answer; industries in the rule set `strict`; and what is
planted in the synthetic market comes out again.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from statsmodels.genmod.generalized_linear_model import GLM
from statsmodels.regression.linear_model import WLS, RegressionResults

from ktdeval.attribution.factor_returns import MINIMUM, Fit, Scheme, fit_factors, pooled_industries
from ktdeval.attribution.regression import robust_errors, weighted_least_squares
from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import FloatArray, MarketSnapshot
from ktdeval.testing import not_empty
from ktdeval.testing.markets import SnapshotDetails, random_snapshot, tiny_snapshot
from ktdeval_data.params import SyntheticParams
from ktdeval_data.synthetic import Truth, build
from support.figures.portfolios import decompose

pytestmark = pytest.mark.slow

Cross = tuple[np.ndarray, np.ndarray, np.ndarray]


def cross_sections(
    seed: int, days: int = 12, columns: int = 10, names: int = 60, missing: float = 0.1
) -> Cross:
    """Design [D, P, N] with an intercept and correlated columns, returns and weights; a share of
    the weights is 0.
    """
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(days, columns, names))
    design[:, 0] = 1.0

    if columns > 2:
        design[:, 2] = 0.8 * design[:, 1] + 0.6 * design[:, 2]

    returns = 0.01 * rng.standard_t(4, (days, names)) + 0.004 * design[:, 1 if columns > 1 else 0]
    weights = np.where(
        rng.random((days, names)) < missing, 0.0, np.sqrt(rng.lognormal(20, 1.2, (days, names)))
    )

    return design, np.where(weights > 0, returns, 0.0), weights


def by_statsmodels(cross: Cross, day: int, **kind: str) -> RegressionResults:
    design, returns, weights = cross
    used = weights[day] > 0
    return WLS(returns[day, used], design[day][:, used].T, weights=weights[day, used]).fit(**kind)


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 10), st.integers(14, 80), st.floats(0.0, 0.2))
def test_coefficients_equal_statsmodels_on_random_cross_sections(
    seed: int, columns: int, names: int, missing: float
) -> None:
    cross = cross_sections(seed, days=3, columns=columns, names=names, missing=missing)
    fitted = weighted_least_squares(*cross)

    assert np.isnan(fitted.coefficients[fitted.too_few]).all()
    assert len(fitted.too_few) == 3

    for day in np.flatnonzero(~fitted.too_few):
        np.testing.assert_allclose(
            fitted.coefficients[day], by_statsmodels(cross, day).params, rtol=1e-8, atol=1e-10
        )


@pytest.mark.parametrize("noise", [1e-2, 1e-3, 1e-4])
def test_nearly_collinear_columns_keep_their_digits(noise: float) -> None:
    design, returns, weights = cross_sections(5)
    design[:, 4] = design[:, 1] + noise * design[:, 4]
    fitted = weighted_least_squares(design, returns, weights)

    assert not fitted.dropped.any()

    for day in range(len(design)):
        expected = by_statsmodels((design, returns, weights), day).params
        # The problem itself is as ill-conditioned as 1 / noise.
        np.testing.assert_allclose(
            fitted.coefficients[day], expected, rtol=1e-12 / noise, atol=1e-12 / noise
        )


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC2", "HC3"])
def test_robust_errors_equal_statsmodels(kind: str) -> None:
    cross = cross_sections(4)
    errors = robust_errors(*cross, weighted_least_squares(*cross), kind)
    for day in not_empty(range(len(cross[0]))):
        np.testing.assert_allclose(
            errors[day], by_statsmodels(cross, day, cov_type=kind).bse, rtol=1e-10
        )


def test_collinear_column_is_dropped_and_the_fit_equals_one_without_it() -> None:
    design, returns, weights = cross_sections(6)
    design[3, 7] = 0.5 * design[3, 1] - 2.0 * design[3, 5]
    fitted = weighted_least_squares(design, returns, weights)

    assert np.argwhere(fitted.dropped).tolist() == [[3, 7]]
    assert fitted.coefficients[3, 7] == 0.0

    others = np.delete(design, 7, axis=1)
    expected = by_statsmodels((others, returns, weights), 3).params
    np.testing.assert_allclose(
        np.delete(fitted.coefficients[3], 7), expected, rtol=1e-10, atol=1e-13
    )
    errors = robust_errors(design, returns, weights, fitted)

    assert np.isnan(errors[3, 7])

    np.testing.assert_allclose(
        np.delete(errors[3], 7),
        by_statsmodels((others, returns, weights), 3, cov_type="HC3").bse,
        rtol=1e-9,
    )


@pytest.mark.parametrize(("share", "is_dropped"), [(0.9e-9, True), (1.1e-9, False)])
def test_column_is_dropped_if_others_explain_all_but_a_billionth(
    share: float, is_dropped: bool
) -> None:
    one = np.array([1.0, 1.0, -1.0, -1.0])
    other = np.array([1.0, -1.0, 1.0, -1.0])
    design = np.array([[np.ones(4), one, math.sqrt(1.0 - share) * one + math.sqrt(share) * other]])
    fitted = weighted_least_squares(design, np.array([[0.1, -0.2, 0.3, 0.0]]), np.ones((1, 4)))

    assert fitted.dropped.tolist() == [[False, False, is_dropped]]


def test_a_style_is_constant_if_next_to_none_of_its_squares_varies() -> None:
    """Of 0 and 0.001, half of the squares varies."""
    design = np.array([[[1.0, 1.0], [3.0, 3.0], [0.0, 0.001]]])
    fit: Any = SimpleNamespace(exposures=SimpleNamespace(design=design), weights=np.ones((1, 2)))

    assert Fit._constant_styles(fit).tolist() == [[True, False]]


@pytest.mark.parametrize("constant", [0.0, 1.0, -0.3, 1e6])
def test_a_constant_column_is_dropped_for_the_intercept(constant: float) -> None:
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
        np.testing.assert_allclose(
            fitted.coefficients[2], by_statsmodels((design, returns, weights), 2).params, rtol=1e-8
        )
        return

    assert fitted.coefficients[2, 0] == pytest.approx(
        np.average(returns[2, :left], weights=weights[2, :left]), rel=1e-12
    )
    assert (fitted.coefficients[2, 1:] == 0.0).all()
    assert fitted.dropped[2, 1:].all()


@pytest.mark.exhaustive
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


# ---- industries


FIRST = 270
#: Of 60 names: two industries of 20, one of 12, one of 4, two singletons, and 2 names of no known
#: industry.
SIZES = {"banks": 20, "chips": 20, "drugs": 12, "eggs": 4, "fish": 1, "gold": 1, "unknown": 2}


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    industries = []
    for name, size in SIZES.items():
        industries += [name] * size

    order = np.random.default_rng(3).permutation(60)

    return replace(
        random_snapshot(seed=5, n_assets=60), industries=tuple(industries[index] for index in order)
    )


def test_strict_fit_equals_constrained_least_squares_of_statsmodels(
    market: MarketSnapshot,
) -> None:
    """statsmodels' GLM with a linear constraint on the coefficients, the collinear dummies of all
    industries in the design.
    """
    fitted = fit_factors(market, FIRST, FIRST + 4)
    indices = np.array([0, 1, 2, 6])  # banks, chips, drugs, other: 20, 20, 12 and 8 names

    for day in range(5):
        used = fitted.weights[day] > 0
        column = fitted.industry_of[day, used]
        weights = fitted.weights[day, used]
        assert set(column.tolist()) == set(indices.tolist())
        flags = (column[:, None] == indices).astype(float)
        design = np.column_stack([np.ones(used.sum()), fitted.exposures.z[day, used], flags])
        constraint = np.concatenate([np.zeros(10), weights @ flags])[None, :]
        model = GLM(fitted.returns[day, used], design, var_weights=weights)
        expected = model.fit_constrained((constraint, np.zeros(1))).params
        np.testing.assert_allclose(
            [fitted.common[day], *fitted.style[day]], expected[:10], rtol=0, atol=1e-12
        )
        np.testing.assert_allclose(fitted.industry[day, indices], expected[10:], rtol=0, atol=1e-12)
        # The intercept is the market: the weighted mean portfolio of the regression earns it, and
        # no industry.
        index = np.where(used, fitted.weights[day], 0.0) / weights.sum()
        assert index @ fitted.industry[day, fitted.industry_of[day]] == pytest.approx(
            0.0, abs=1e-17
        )
        dummies = np.column_stack([design[:, :10], flags[:, 1:]])
        wls = WLS(fitted.returns[day, used], dummies, weights=weights).fit()
        one = fit_factors(market, FIRST + day, FIRST + day)
        for kind in ("HC0", "HC1", "HC2", "HC3"):
            bse = wls.get_robustcov_results(kind).bse[1:10]
            np.testing.assert_allclose(one.standard_errors(kind)[0, 1:], bse, rtol=1e-8)

        goodness = one.goodness
        assert goodness.r_squared == pytest.approx(wls.rsquared, abs=1e-12)
        assert goodness.adjusted_r_squared == pytest.approx(wls.rsquared_adj, abs=1e-12)
        assert (goodness.names, goodness.parameters, goodness.degrees_of_freedom) == (
            used.sum(),
            13,
            used.sum() - 13,
        )


def test_small_industries_are_pooled_with_the_smallest_other_if_needed() -> None:
    names = ("a",) * 6 + ("b",) * 5 + ("c",) * 3 + ("unknown",)
    used = np.ones((5, 15), dtype=bool)
    # five of a and of b are left: the first by name joins the pool of c and unknown
    used[1, 0] = False
    used[2, 11:] = False  # no c: nobody is in the pool
    used[3, 6:] = False  # a alone
    used[4] = False
    pooled, column = pooled_industries(names, used, 5)

    assert pooled == ("a", "b", "c", "other")
    assert ["".join("abc-"[index] for index in row) for row in column] == [
        "aaaaaa---------",
        "------bbbbb----",
        "aaaaaabbbbb----",
        "aaaaaa---------",
        "---------------",
    ]


def test_worked_by_hand() -> None:
    """Before any style has a history, five names up 2 % and 4 % each in two industries of equal
    turnover, and a singleton of +9 % that joins the smaller one by name.
    """
    closes = {
        f"609{index:03d}.SH": [10.0, 10.2 if index < 5 else 10.4 if index < 10 else 10.9]
        for index in range(11)
    }
    industries = {
        code: "a" if index < 5 else "b" if index < 10 else "c" for index, code in enumerate(closes)
    }
    volumes = {code: [1e6, 1e6] for code in closes}
    market = tiny_snapshot(closes, SnapshotDetails(volumes=volumes, industries=industries))
    fitted = fit_factors(market, 1, 1)
    # The market is (5 × 2 % + 5 × 4 % + 9 %) / 11; a and c together made (5 × 2 % + 9 %) / 6, b
    # made 4 %.
    market_return = 0.39 / 11
    pool = 0.19 / 6
    np.testing.assert_allclose(fitted.common, [market_return], rtol=1e-12)
    np.testing.assert_allclose(
        fitted.industry[0], [0.0, 0.04 - market_return, 0.0, pool - market_return], atol=1e-15
    )
    # Who holds the singleton selected 9 % less what its pool made. With an industry of its own it
    # would have selected nothing.
    only = np.eye(11)[[10]]

    for scheme, selection in (
        ("strict", 0.09 - pool),
        ("fine", 0.0),
        ("paper", 0.09 - market_return),
    ):
        assert decompose(only, fit_factors(market, 1, 1, scheme)).selection[0] == pytest.approx(
            selection, abs=1e-15
        ), scheme

    with pytest.raises(DataError, match="exposures are of rows 1…1, the fit of 1…2"):
        fit_factors(tiny_snapshot({"609001.SH": [1.0, 1.0, 1.0]}), 1, 2, known=fitted.exposures)


def test_singleton_keeps_its_selection_unless_it_is_its_own_industry(
    market: MarketSnapshot,
) -> None:
    fish = market.industries.index("fish")
    weights = np.zeros((5, 60))
    weights[:, fish] = 1.0
    selection = {
        scheme: decompose(weights, fit_factors(market, FIRST, FIRST + 4, scheme)).selection
        for scheme in get_args(Scheme)
    }
    np.testing.assert_allclose(selection["fine"], 0.0, atol=1e-15)

    assert np.abs(selection["strict"]).min() > 1e-4
    assert set(MINIMUM) == set(get_args(Scheme)) - {"paper"}


# ---- the synthetic market: planted factor returns, no alpha but what a test plants


PRICES = ("open", "high", "low", "close")


@pytest.fixture(scope="module")
def planted() -> tuple[MarketSnapshot, Truth]:
    return build(SyntheticParams())


@pytest.fixture(scope="module")
def rows(planted: tuple[MarketSnapshot, Truth]) -> range:
    snapshot = planted[0]
    return range(snapshot.day_index("2024-01-02"), snapshot.day_index("2026-04-10") + 1)


@pytest.fixture(scope="module")
def fitted(planted: tuple[MarketSnapshot, Truth], rows: range) -> Fit:
    return fit_factors(planted[0], rows.start, rows.stop - 1)


@pytest.mark.exhaustive
def test_planted_factor_returns_are_recovered(
    planted: tuple[MarketSnapshot, Truth], rows: range, fitted: Fit
) -> None:
    for factor, name in enumerate(not_empty(fitted.factor_names, 9)):
        truth = planted[1].factor_returns[name][rows.start : rows.stop]
        slope = np.polyfit(truth, fitted.style[:, factor], 1)[0]
        assert np.corrcoef(truth, fitted.style[:, factor])[0, 1] > 0.92, name
        assert slope == pytest.approx(1.0, abs=0.05), name
        # The mean error is within its own noise.
        error = fitted.style[:, factor] - truth
        assert abs(error.mean()) < 3.0 * error.std() / np.sqrt(len(error)), name


@pytest.mark.exhaustive
def test_intervals_cover_the_planted_factor_returns_at_their_nominal_rate(
    planted: tuple[MarketSnapshot, Truth], rows: range, fitted: Fit
) -> None:
    errors = fitted.standard_errors("HC3")[:, 1:]
    truth = np.column_stack(
        [planted[1].factor_returns[name][rows.start : rows.stop] for name in fitted.factor_names]
    )
    covered = np.abs(fitted.style - truth) < 1.96 * errors

    assert 0.93 < covered.mean() < 0.97
    assert covered.mean(axis=0).min() > 0.92


@pytest.mark.exhaustive
def test_planted_industry_returns_are_recovered(
    planted: tuple[MarketSnapshot, Truth], rows: range, fitted: Fit
) -> None:
    correlations = [
        np.corrcoef(
            planted[1].industry_returns[name][rows.start : rows.stop], fitted.industry[:, column]
        )[0, 1]
        for column, name in enumerate(fitted.industry_names[:-1])
        if (fitted.industry_of == column).any()  # not always pooled
    ]

    # A dozen names an industry leave noise of 0.4 % a day beside industry returns of 0.45 %.
    assert np.median(correlations) > 0.6


def equal_weights(fitted: Fit) -> FloatArray:
    investable = fitted.exposures.investable
    weights: FloatArray = investable / investable.sum(axis=1, keepdims=True)
    return weights


def test_pure_factor_tilts_have_selection_within_noise_of_zero(fitted: Fit) -> None:
    index = equal_weights(fitted)
    tilts = np.stack(
        [index * (1.0 + 0.5 * fitted.exposures.z[:, :, factor]) for factor in range(9)]
    )
    result = decompose(tilts, fitted)
    t = result.selection.mean(axis=1) / (
        result.selection.std(axis=1, ddof=1) / np.sqrt(result.selection.shape[1])
    )

    assert np.abs(t).max() < 3.0

    # And the tilt is seen as what it is: half a standard deviation of exposure more than the index
    # has.
    extra = result.exposures.mean(axis=1) - decompose(index, fitted).exposures.mean(axis=0)
    assert (np.diag(extra) > 0.35).all()

    style = result.style.sum(axis=-1) - decompose(index, fitted).style.sum(axis=-1)
    own = np.stack([result.style[factor, :, factor] for factor in range(9)])

    assert all(np.corrcoef(style[factor], own[factor])[0, 1] > 0.5 for factor in range(9))


def with_extra_returns(snapshot: MarketSnapshot, extra: FloatArray) -> MarketSnapshot:
    """The market with [T, N] returns multiplied onto its prices."""
    growth = np.cumprod(1.0 + extra, axis=0)
    return replace(snapshot, **{name: getattr(snapshot, name) * growth for name in PRICES})


@pytest.mark.exhaustive
def test_alpha_planted_in_daily_new_picks_appears_as_selection(
    planted: tuple[MarketSnapshot, Truth], rows: range
) -> None:
    snapshot = planted[0]
    alpha = 0.002
    names = 15
    rng = np.random.default_rng(1)
    weights = np.zeros((len(rows), len(snapshot.codes)))

    for day, row in enumerate(rows):
        weights[day, rng.choice(np.flatnonzero(snapshot.member[row - 1]), names, replace=False)] = (
            1.0 / names
        )

    extra = np.zeros(snapshot.close.shape)
    extra[rows.start : rows.stop] = (weights > 0) * alpha
    better = decompose(
        weights,
        fit_factors(with_extra_returns(snapshot, extra), rows.start, rows.stop - 1, "paper"),
    )
    before = decompose(weights, fit_factors(snapshot, rows.start, rows.stop - 1, "paper"))
    # Of any shock to 15 of 300 names the intercept takes 15 / 300 and each of nine styles 1 / 300:
    # the leverage of a regression.
    gain = (better.selection - before.selection).mean()

    assert gain == pytest.approx(alpha * (1.0 - (names + 9) / 300), rel=0.02)

    noise = better.selection.std(ddof=1) / np.sqrt(len(rows))
    assert abs(better.selection.mean() - alpha) < 3.0 * noise
    assert better.selection.mean() > 5.0 * noise


@pytest.mark.exhaustive
def test_alpha_of_held_names_is_selection_until_it_becomes_momentum(
    planted: tuple[MarketSnapshot, Truth], rows: range
) -> None:
    snapshot = planted[0]
    alpha = 0.0005
    always = np.flatnonzero(snapshot.member.all(axis=0))
    chosen = np.random.default_rng(0).choice(always, 15, replace=False)
    weights = np.zeros((len(rows), len(snapshot.codes)))
    weights[:, chosen] = 1.0 / 15
    extra = np.zeros(snapshot.close.shape)
    extra[rows.start : rows.stop, chosen] = alpha
    better = decompose(
        weights, fit_factors(with_extra_returns(snapshot, extra), rows.start, rows.stop - 1)
    )
    before = decompose(weights, fit_factors(snapshot, rows.start, rows.stop - 1))

    # An industry takes its share of the alpha of its own names.
    assert (better.selection - before.selection).mean() > 0.85 * alpha
    assert abs(better.selection.mean() - alpha) < 3.0 * better.selection.std(ddof=1) / np.sqrt(
        len(rows)
    )


@pytest.mark.exhaustive
def test_industry_moves_are_not_selection_and_alpha_within_is_recovered(
    planted: tuple[MarketSnapshot, Truth], rows: range
) -> None:
    """An industry moves by 1 % a day on its own, two of its names, drawn anew each day, by 20 bp
    more; a portfolio holds these.
    """
    snapshot = planted[0]
    alpha = 0.002
    rng = np.random.default_rng(4)
    industries = np.array(snapshot.industries)
    names, sizes = np.unique(industries[snapshot.member[rows.start]], return_counts=True)
    own = industries == names[sizes.argmax()]
    move = rng.normal(0.0, 0.01, len(rows))
    weights = np.zeros((len(rows), len(snapshot.codes)))
    extra = np.zeros(snapshot.close.shape)

    for day, row in enumerate(rows):
        chosen = rng.choice(np.flatnonzero(snapshot.member[row - 1] & own), 2, replace=False)
        weights[day, chosen] = 0.5
        extra[row, own] = move[day]
        extra[row, chosen] += alpha

    better = with_extra_returns(snapshot, extra)
    gain = {}
    for scheme in ("strict", "paper"):
        after, before = (
            decompose(weights, fit_factors(one, rows.start, rows.stop - 1, scheme))
            for one in (better, snapshot)
        )
        gain[scheme] = after.selection - before.selection

    strict = np.polyfit(move, gain["strict"], 1)
    paper = np.polyfit(move, gain["paper"], 1)

    # Selection takes nothing of the move where industries are fitted, and most of it where they are
    # not.
    assert strict[0] == pytest.approx(0.0, abs=0.05)
    assert paper[0] > 0.6
    assert strict[1] == pytest.approx(alpha * (1 - 2 / sizes.max()), rel=0.1)
