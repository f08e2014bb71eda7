"""Industries in the regression: the rule set `strict`, against statsmodels, by hand, and on planted alpha."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from statsmodels.genmod.generalized_linear_model import GLM
from statsmodels.regression.linear_model import WLS

from ktdeval.attribution.fit import MINIMUM, Scheme, fit_factors, pooled_industries
from ktdeval.errors import DataError
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.testing.markets import Details, random_snapshot, tiny_snapshot
from portfolios import decompose

FIRST = 270
#: Of 60 names: two industries of 20, one of 12, one of 4, two singletons, and 2 names of no known industry.
SIZES = {"banks": 20, "chips": 20, "drugs": 12, "eggs": 4, "fish": 1, "gold": 1, "unknown": 2}


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    industries = [name for name, size in SIZES.items() for _ in range(size)]
    order = np.random.default_rng(3).permutation(60)
    return replace(random_snapshot(seed=5, n_assets=60), industries=tuple(industries[index] for index in order))


def test_strict_equals_least_squares_constrained_to_industries_of_weighted_mean_zero(market: MarketSnapshot) -> None:
    """statsmodels' GLM with a linear constraint on the coefficients, the collinear dummies of all industries in the design."""
    fitted = fit_factors(market, FIRST, FIRST + 4)
    kept = np.array([0, 1, 2, 6])  # banks, chips, drugs, other: 20, 20, 12 and 8 names
    for day in range(5):
        used = fitted.weights[day] > 0
        column, weights = fitted.industry_of[day, used], fitted.weights[day, used]
        assert set(column.tolist()) == set(kept.tolist())
        flags = (column[:, None] == kept).astype(float)
        design = np.column_stack([np.ones(used.sum()), fitted.exposures.z[day, used], flags])
        constraint = np.concatenate([np.zeros(10), weights @ flags])[None, :]
        model = GLM(fitted.returns[day, used], design, var_weights=weights)
        expected = model.fit_constrained((constraint, np.zeros(1))).params
        np.testing.assert_allclose([fitted.common[day], *fitted.style[day]], expected[:10], rtol=0, atol=1e-12)
        np.testing.assert_allclose(fitted.industry[day, kept], expected[10:], rtol=0, atol=1e-12)
        # The intercept is the market: the weighted mean portfolio of the regression earns it, and no industry.
        index = np.where(used, fitted.weights[day], 0.0) / weights.sum()
        assert index @ fitted.industry[day, fitted.industry_of[day]] == pytest.approx(0.0, abs=1e-17)
        dummies = np.column_stack([design[:, :10], flags[:, 1:]])
        wls = WLS(fitted.returns[day, used], dummies, weights=weights).fit()
        one = fit_factors(market, FIRST + day, FIRST + day)
        for kind in ("HC0", "HC1", "HC2", "HC3"):
            bse = wls.get_robustcov_results(kind).bse[1:10]
            np.testing.assert_allclose(one.standard_errors(kind)[0, 1:], bse, rtol=1e-8)
        goodness = one.goodness
        assert goodness.r_squared == pytest.approx(wls.rsquared, abs=1e-12)
        assert goodness.adjusted_r_squared == pytest.approx(wls.rsquared_adj, abs=1e-12)
        assert (goodness.names, goodness.parameters, goodness.degrees_of_freedom) == (used.sum(), 13, used.sum() - 13)


def test_small_industries_are_pooled_and_a_pool_that_is_small_takes_the_smallest_of_the_others() -> None:
    names = ("a",) * 6 + ("b",) * 5 + ("c",) * 3 + ("unknown",)
    used = np.ones((5, 15), dtype=bool)
    used[1, 0] = False  # five of a and of b are left: the first by name joins the pool of c and unknown
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
    """Before any style has a history, five names up 2 % and 4 % each in two industries of equal turnover, and a singleton of
    +9 % that joins the smaller one by name.
    """
    closes = {f"609{index:03d}.SH": [10.0, 10.2 if index < 5 else 10.4 if index < 10 else 10.9] for index in range(11)}
    industries = {code: "a" if index < 5 else "b" if index < 10 else "c" for index, code in enumerate(closes)}
    volumes = {code: [1e6, 1e6] for code in closes}
    market = tiny_snapshot(closes, Details(volumes=volumes, industries=industries))
    fitted = fit_factors(market, 1, 1)
    # The market is (5 × 2 % + 5 × 4 % + 9 %) / 11; a and c together made (5 × 2 % + 9 %) / 6, b made 4 %.
    market_return, pool = 0.39 / 11, 0.19 / 6
    np.testing.assert_allclose(fitted.common, [market_return], rtol=1e-12)
    np.testing.assert_allclose(fitted.industry[0], [0.0, 0.04 - market_return, 0.0, pool - market_return], atol=1e-15)
    # Who holds the singleton selected 9 % less what its pool made. With an industry of its own it would have selected nothing.
    only = np.eye(11)[[10]]
    for scheme, selection in (("strict", 0.09 - pool), ("fine", 0.0), ("paper", 0.09 - market_return)):
        assert decompose(only, fit_factors(market, 1, 1, scheme)).selection[0] == pytest.approx(selection, abs=1e-15), scheme
    with pytest.raises(DataError, match="exposures are of rows 1…1, the fit of 1…2"):
        fit_factors(tiny_snapshot({"609001.SH": [1.0, 1.0, 1.0]}), 1, 2, known=fitted.exposures)


def test_a_singleton_keeps_its_selection_unless_it_is_an_industry_of_its_own(market: MarketSnapshot) -> None:
    fish = market.industries.index("fish")
    weights = np.zeros((5, 60))
    weights[:, fish] = 1.0
    selection = {scheme: decompose(weights, fit_factors(market, FIRST, FIRST + 4, scheme)).selection for scheme in get_args(Scheme)}
    np.testing.assert_allclose(selection["fine"], 0.0, atol=1e-15)
    assert np.abs(selection["strict"]).min() > 1e-4
    assert set(MINIMUM) == set(get_args(Scheme)) - {"paper"}
