"""Deviations between windows and between seeds: by hand, against statsmodels, and from planted truths."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

import numpy as np
import pandas as pd
from hypothesis import given, settings, strategies as st
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.anova import anova_lm

from ktdeval_report.card_tables import deviations


def cells(table: list[list[float]]) -> dict[tuple[str, int], float | None]:
    return {(f"W{row}", seed): value for row, line in enumerate(table) for seed, value in enumerate(line)}


@pytest.mark.parametrize(
    ("figures", "window", "seed"),
    [
        # Window means 2, 6, 4. Within: (2 + 2 + 8) / 3 = 4. Between: 2 * (4 + 4 + 0) / 2 = 8. Window: (8 - 4) / 2 = 2.
        (cells([[1.0, 3.0], [5.0, 7.0], [2.0, 6.0]]), 2, 4),
        ({**cells([[1.0, 3.0], [5.0, 7.0], [2.0, 6.0]]), ("W0", 9): None}, 2, 4),  # not defined: left out
        # Means 2 and 6 of 2 and 1 figures: within (1 + 1) / 1 = 2; grand 10/3; between 2*(4/3)^2 + (8/3)^2 = 32/3;
        # n0 = (3 - 5/3) / 1 = 4/3; window (32/3 - 2) / (4/3) = 6.5.
        ({("A", 0): 1.0, ("A", 1): 3.0, ("B", 0): 6.0}, 6.5, 2),
        (cells([[0.0, 2.0], [2.0, 0.0]]), 0, 2),  # the estimate by moments is -1
        ({}, None, None),
        ({("A", 0): 1.0}, None, None),
        ({("A", 0): 1.0, ("A", 1): 2.0}, None, 0.5),
        ({("A", 0): 1.0, ("B", 0): 2.0}, None, None),  # one seed a window: window and seed can't be told apart
    ],
)
def test_variances_by_hand(figures: dict[tuple[str, int], float], window: float | None, seed: float | None) -> None:
    assert [None if deviation is None else deviation**2 for deviation in deviations(figures)] == [
        None if variance is None else pytest.approx(variance) for variance in (window, seed)
    ]


@given(st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), min_size=2, max_size=5))
@settings(max_examples=20)
def test_mean_squares_are_those_of_statsmodels(table: list[list[float]]) -> None:
    values = np.array(table)
    frame = pd.DataFrame({"y": values.ravel(), "w": np.repeat(np.arange(len(values)), values.shape[1])})
    between, within = anova_lm(OLS.from_formula("y ~ C(w)", frame).fit())["mean_sq"]
    window, seed = deviations(cells(table))
    assert seed**2 == pytest.approx(within, rel=1e-8, abs=1e-12)
    assert window**2 == pytest.approx(max(0.0, (between - within) / values.shape[1]), rel=1e-8, abs=1e-12)


def test_planted_variances_are_found_on_average() -> None:
    rng = np.random.default_rng(5)
    tables = rng.normal(0, 0.05, (400, 10, 1)) + rng.normal(0, 0.02, (400, 10, 5))
    window, seed = np.mean(np.square([deviations(cells(table.tolist())) for table in tables]), axis=0)
    assert (window, seed) == (pytest.approx(0.05**2, rel=0.06), pytest.approx(0.02**2, rel=0.03))
