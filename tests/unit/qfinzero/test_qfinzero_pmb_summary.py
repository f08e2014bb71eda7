"""Figures of a session: by hand, and against empyrical."""

from __future__ import annotations

import json
import math
from typing import Any

import empyrical
import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval_qfinzero.pmb.shown import SessionFacts, summarise
from qfinzero_margin import e4
from tables import on_each_row


def facts(start: float, *closes: float, **counts: int) -> SessionFacts:
    return SessionFacts(e4(start), tuple(map(e4, closes)), **counts)


def test_figures_of_three_days_by_hand() -> None:
    """Returns of 10%, −10% and 10%: mean 1/30, sample variance (2 × (1/15)² + (2/15)²) / 2 = 1/75."""
    found = summarise(facts(100, 110, 99, 108.9))
    assert found.total_return == pytest.approx(0.089)
    assert found.annualised_volatility == pytest.approx(math.sqrt(252 / 75))
    assert found.sharpe == pytest.approx(1 / 30 * math.sqrt(75) * math.sqrt(252))
    assert found.max_drawdown == pytest.approx(0.1)
    assert (found.start_equity, found.final_equity, found.num_days) == (100, 108.9, 3)
    assert found.undefined == {"reject_rate": "no order was sent", "invalid_action_rate": "no command was sent"}


@given(st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=60))
def test_figures_are_those_of_empyrical(returns: list[float]) -> None:
    levels = [1_000_000.0]
    for change in returns:
        levels.append(round(levels[-1] * (1 + change), 4))
    observed = np.diff(levels) / np.array(levels[:-1])
    found = summarise(facts(*levels))
    assert found.total_return == pytest.approx(empyrical.cum_returns_final(observed), abs=1e-9)
    assert found.annualised_volatility == pytest.approx(empyrical.annual_volatility(observed), rel=1e-7, abs=1e-9)
    assert found.max_drawdown == pytest.approx(-empyrical.max_drawdown(observed), abs=1e-9)
    if np.std(observed) > 1e-6:
        assert found.sharpe == pytest.approx(empyrical.sharpe_ratio(observed), rel=1e-6, abs=1e-6)


@on_each_row
def test_a_figure_is_a_number_or_has_its_reason(
    equity: list[float], counted: dict[str, int], figures: dict[str, Any], reasons: dict[str, str]
) -> None:
    found = summarise(facts(*equity, **counted))
    assert {name: getattr(found, name) for name in figures} == pytest.approx(figures)
    for name, reason in reasons.items():
        assert getattr(found, name) is None
        assert found.undefined[name].startswith(reason)


@given(st.lists(st.integers(-(10**12), 10**12), max_size=5))
def test_a_summary_is_strict_json(levels: list[int]) -> None:
    figures = summarise(SessionFacts(10**9, tuple(levels)))
    json.dumps(msgspec.to_builtins(figures), allow_nan=False)
