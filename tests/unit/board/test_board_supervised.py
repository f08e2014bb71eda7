"""The supervised baseline learns what was planted before the division begins, and sees nothing of what comes after."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktdeval.attribution import FACTORS
from ktdeval.errors import ConfigError
from ktdeval.market import with_id
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval_board.baselines import MOST_FACTORS, RIDGE, ridge_coefficients, train_coefficients


@pytest.fixture(scope="module")
def snapshot() -> MarketSnapshot:
    return open_snapshot(load_plugins(), "synthetic", {})


def test_a_regression_by_hand() -> None:
    # One factor, one day, exposures -1, 0, 1 and returns 0, 3, 3 (mean 2): x'y = 2 + 1 = 3, x'x = 2, penalty 0.1 * 3 = 0.3.
    found = ridge_coefficients(np.array([[[-1.0, 0.0, 1.0]]]), np.array([[0.0, 3.0, 3.0]]))
    np.testing.assert_allclose(found, [3 / 2.3], rtol=1e-15)


def test_the_regression_is_ridge_and_leaves_out_what_is_undefined() -> None:
    from sklearn.linear_model import Ridge

    generator = np.random.default_rng(3)
    exposures, targets = generator.normal(size=(30, 4, 50)), generator.normal(size=(30, 50))
    exposures[generator.random(exposures.shape) < 0.02] = np.nan
    targets[generator.random(targets.shape) < 0.1] = np.nan
    usable = np.isfinite(targets) & np.isfinite(exposures).all(axis=1)
    y = np.concatenate([targets[day][usable[day]] - targets[day][usable[day]].mean() for day in range(30)])
    x = np.concatenate([exposures[day][:, usable[day]].T for day in range(30)])
    expected = Ridge(alpha=RIDGE * len(y), fit_intercept=False).fit(x, y).coef_
    np.testing.assert_allclose(ridge_coefficients(exposures, targets), expected, rtol=1e-10)


def test_a_planted_relation_is_found() -> None:
    generator = np.random.default_rng(4)
    exposures = generator.normal(size=(60, 3, 300))
    targets = np.einsum("k,dkn->dn", [0.02, -0.01, 0.0], exposures) + 0.05 * generator.normal(size=(60, 300)) + 0.3
    found = ridge_coefficients(exposures, targets) * (1 + RIDGE)
    np.testing.assert_allclose(found, [0.02, -0.01, 0.0], atol=0.0015)


def test_the_strongest_factors_get_a_coefficient_that_the_model_takes_and_equal_markets_give_equal_ones(
    snapshot: MarketSnapshot,
) -> None:
    found = train_coefficients(snapshot, "2024-04-01")
    names = [part.partition(":")[0] for part in found.split()]
    assert names == [factor.name for factor in FACTORS if factor.name in names]
    assert len(names) == MOST_FACTORS
    assert load_plugins().make_model("builtin/linear_factor", {"coefficients": found})
    assert found == train_coefficients(snapshot, "2024-04-01")


def test_nothing_from_the_first_day_on_is_looked_at(snapshot: MarketSnapshot) -> None:
    start = int(np.searchsorted(snapshot.days, np.datetime64("2024-04-01")))
    poisoned = {}
    for name in ("open", "high", "low", "close", "volume", "amount"):
        values = getattr(snapshot, name).copy()
        values[start:] *= 1.7
        poisoned[name] = values
    other = with_id(dataclasses.replace(snapshot, **poisoned, id=""))
    assert other.id != snapshot.id
    assert train_coefficients(other, "2024-04-01") == train_coefficients(snapshot, "2024-04-01")


def test_a_market_that_begins_too_late_is_refused_in_words(snapshot: MarketSnapshot) -> None:
    with pytest.raises(ConfigError, match="training days before 2023-07-03"):
        train_coefficients(snapshot, "2023-07-03")
