"""Window and seed variance: by hand, against statsmodels, and from planted truths."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, strategies as st
from statsmodels.stats.anova import anova_lm

from ktdeval_report.variance import variance_components

TABLE = [[1.0, 3.0], [5.0, 7.0], [2.0, 6.0]]


def cells(table: list[list[float]]) -> dict[tuple[str, int], float | None]:
    return {(f"W{row}", seed): value for row, line in enumerate(table) for seed, value in enumerate(line)}


def test_components_by_hand() -> None:
    # Window means 2, 6, 4. Within: (2 + 2 + 8) / 3 = 4. Between: 2 * (4 + 4 + 0) / 2 = 8. Window: (8 - 4) / 2 = 2.
    found = variance_components(cells(TABLE))
    assert (found.seed.variance, found.seed.degrees) == (pytest.approx(4), 3)
    assert (found.window.variance, found.window.degrees) == (pytest.approx(2), 2)
    assert found.mean == pytest.approx(4)
    assert found.mean_error == pytest.approx(2 / math.sqrt(3))
    assert found.seed.deviation == pytest.approx(2)


def test_unequal_numbers_of_seeds_by_hand() -> None:
    # Means 2 and 6 of 2 and 1 figures: within (1 + 1) / 1 = 2; grand 10/3; between 2*(4/3)^2 + (8/3)^2 = 32/3;
    # n0 = (3 - 5/3) / 1 = 4/3; window (32/3 - 2) / (4/3) = 6.5.
    found = variance_components({("A", 0): 1.0, ("A", 1): 3.0, ("B", 0): 6.0})
    assert (found.seed.variance, found.window.variance) == (pytest.approx(2), pytest.approx(6.5))


def test_figures_that_are_not_defined_are_left_out() -> None:
    assert variance_components({**cells(TABLE), ("W0", 9): None}) == variance_components(cells(TABLE))


def test_a_negative_estimate_is_set_to_zero_and_kept_as_raw() -> None:
    found = variance_components(cells([[0.0, 2.0], [2.0, 0.0]]))
    assert (found.window.variance, found.window.raw) == (0.0, pytest.approx(-1.0))


@pytest.mark.parametrize(
    ("figures", "window", "seed"),
    [
        ({}, "no figure", "no figure"),
        ({("A", 0): 1.0}, "one window", "one seed a window"),
        ({("A", 0): 1.0, ("A", 1): 2.0}, "one window", None),
        ({("A", 0): 1.0, ("B", 0): 2.0}, "one seed a window: window and seed can't be told apart", "one seed a window"),
    ],
)
def test_what_can_not_be_told_has_a_reason(figures: dict[tuple[str, int], float], window: str | None, seed: str | None) -> None:
    found = variance_components(figures)
    assert (found.window.reason, found.seed.reason) == (window, seed)


tables = st.integers(2, 5).flatmap(
    lambda columns: st.lists(st.lists(st.floats(-1, 1), min_size=columns, max_size=columns), min_size=2, max_size=6)
)


@given(tables)
def test_mean_squares_equal_those_of_statsmodels(table: list[list[float]]) -> None:
    values = np.array(table)
    frame = pd.DataFrame({"y": values.ravel(), "w": np.repeat(range(len(values)), values.shape[1])})
    rows = anova_lm(smf.ols("y ~ C(w)", frame).fit())
    between, within = rows["mean_sq"]
    found = variance_components(cells(table))
    assert found.seed.variance == pytest.approx(within, rel=1e-8, abs=1e-12)
    assert found.window.raw == pytest.approx((between - within) / values.shape[1], rel=1e-8, abs=1e-12)


def test_planted_variances_are_recovered_on_average() -> None:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(400):
        table = rng.normal(0, 0.05, (10, 1)) + rng.normal(0, 0.02, (10, 5))
        of = variance_components(cells(table.tolist()))
        found.append((of.window.raw, of.seed.raw))
    window, seed = np.mean(found, axis=0)
    assert window == pytest.approx(0.05**2, rel=0.08)
    assert seed == pytest.approx(0.02**2, rel=0.03)
