"""The VIF screen against statsmodels, and the tables over many attributions."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.outliers_influence import variance_inflation_factor
from test_factors import market

from ktdeval.attribution.exposures import exposures, variance_inflation, vif_screen
from ktdeval.errors import DataError


def correlated_table(rows: int = 400) -> np.ndarray:
    rng = np.random.default_rng(2)
    table = rng.normal(size=(rows, 5)) + 3.0
    table[:, 3] = table[:, 0] + 0.2 * table[:, 3]
    return table


def test_variance_inflation_equals_statsmodels_and_a_case_by_hand() -> None:
    table = correlated_table()
    design = np.column_stack([np.ones(len(table)), table])
    expected = [variance_inflation_factor(design, place) for place in range(1, 6)]
    np.testing.assert_allclose(variance_inflation(table), expected, rtol=1e-10)
    x, y = np.array([1.0, 1.0, -1.0, -1.0]), np.array([1.0, -1.0, 1.0, -1.0])  # correlation 0.6: 1 / (1 - 0.36) = 1.5625
    np.testing.assert_allclose(variance_inflation(np.column_stack([x, 0.6 * x + 0.8 * y])), [1.5625, 1.5625])


def test_collinear_columns_are_infinite_and_constant_ones_take_no_part() -> None:
    table = np.column_stack([correlated_table(), np.full(400, 0.1)])
    table[:, 4] = table[:, 0] - 2.0 * table[:, 1]
    values = variance_inflation(table)
    assert np.isinf(values[[0, 1, 4]]).all()
    assert np.isnan(values[5])
    assert values[2] == pytest.approx(1.0, abs=0.05)


def test_too_few_rows_and_a_window_in_the_evaluation_are_refused() -> None:
    with pytest.raises(DataError, match="more than 4 rows"):
        variance_inflation(np.eye(4)[:, :3])
    with pytest.raises(DataError, match="not before the evaluation at 310"):
        vif_screen(market(), range(290, 320), 310)


def test_the_screen_equals_statsmodels_on_the_pooled_exposures() -> None:
    snapshot = market(assets=40, gap_share=0.01)
    screen = vif_screen(snapshot, range(280, 320), 320)
    known = exposures(snapshot, range(280, 320))
    table = known.z[known.investable & known.defined]
    design = np.column_stack([np.ones(len(table)), table])
    for place, name in enumerate(known.names):
        assert screen.vif[name] == pytest.approx(variance_inflation_factor(design, place + 1), rel=1e-9)
    assert screen.name_days == len(table)


def test_the_screen_drops_the_worst_until_all_are_within_the_limit() -> None:
    snapshot = market(assets=40)
    strict = vif_screen(snapshot, range(280, 320), 320, limit=1.05)
    assert strict.dropped
    assert set(strict.kept) | {name for name, _, _ in strict.dropped} == set(strict.vif)
    assert all(value is not None and value <= 1.05 for value in strict.final.values())
    first = max(strict.vif, key=lambda name: strict.vif[name] or 0.0)
    assert strict.dropped[0] == (first, strict.vif[first], "VIF above 1.05")
    assert vif_screen(snapshot, range(280, 320), 320).kept == tuple(strict.vif)


def test_a_factor_without_history_is_dropped_as_constant() -> None:
    screen = vif_screen(market(assets=40), range(100, 120), 120)
    assert {name: reason for name, _, reason in screen.dropped} == {"MOM_12_1": "does not vary", "HIGH_52W": "does not vary"}
    assert screen.vif["MOM_12_1"] is None
