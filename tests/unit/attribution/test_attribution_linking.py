"""Carino linking: contributions that add to the geometric total return."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.attribution.decompose import linking_coefficients

RETURNS = st.one_of(st.just(0.0), st.floats(-0.9, 3.0), st.floats(-1e-9, 1e-9))


def link(lines: np.ndarray, returns: np.ndarray) -> np.ndarray:
    return np.einsum("...dl,...d->...l", lines, linking_coefficients(returns))


def test_a_case_worked_by_hand() -> None:
    """+10 % then -5 %: total 4.5 %. k1 = ln1.1/.1 = .953102, k2 = ln.95/-.05 = 1.025866, K = ln1.045/.045 = .978153."""
    returns = np.array([0.10, -0.05])
    contributions = np.array([[0.06, 0.04], [-0.07, 0.02]])
    first = (0.06 * math.log(1.1) / 0.1 - 0.07 * math.log(0.95) / -0.05) / (math.log(1.045) / 0.045)
    second = (0.04 * math.log(1.1) / 0.1 + 0.02 * math.log(0.95) / -0.05) / (math.log(1.045) / 0.045)
    assert first == pytest.approx(-0.0149511, abs=1e-7)
    assert second == pytest.approx(0.0599511, abs=1e-7)
    np.testing.assert_allclose(link(contributions, returns), [first, second], rtol=1e-12)
    assert first + second == pytest.approx(1.1 * 0.95 - 1.0, abs=1e-15)


@given(st.lists(RETURNS, min_size=1, max_size=60), st.integers(0, 2**32 - 1))
def test_linked_lines_add_to_the_total_return(returns: list[float], seed: int) -> None:
    daily = np.array(returns)
    lines = np.random.default_rng(seed).normal(0.0, 0.01, (len(daily), 4))
    lines[:, 3] = daily - lines[:, :3].sum(axis=1)
    total = math.expm1(math.fsum(math.log1p(value) for value in returns))
    assert link(lines, daily).sum() == pytest.approx(total, rel=1e-12, abs=1e-12)


def test_edges_are_linked_without_a_division_by_zero() -> None:
    linked = link(np.array([[0.2, 0.05], [-0.05, -0.15]]), np.array([0.25, -0.2]))
    assert np.isfinite(linked).all()
    assert linked.sum() == pytest.approx(0.0, abs=1e-15), "a total return of zero"
    # Two lines that offset each other on a flat day are still there in the end; one day is its own link.
    np.testing.assert_allclose(link(np.array([[0.03, -0.03]]), np.array([0.0])), [0.03, -0.03], rtol=1e-15)
    np.testing.assert_allclose(link(np.array([[0.02, -0.05]]), np.array([-0.03])), [0.02, -0.05], rtol=1e-14)


def test_draws_are_linked_each_for_itself_and_a_lost_nav_not_at_all() -> None:
    lines = np.random.default_rng(0).normal(0, 0.01, (5, 30, 3))
    returns = lines.sum(axis=-1)
    together = link(lines, returns)
    for draw in range(5):
        np.testing.assert_allclose(together[draw], link(lines[draw], returns[draw]), rtol=1e-13)
    for worst in (-1.0, -1.5):
        coefficients = linking_coefficients(np.array([[0.1, worst], [0.1, 0.1]]))
        assert np.isnan(coefficients[0]).all()
        assert np.isfinite(coefficients[1]).all()
