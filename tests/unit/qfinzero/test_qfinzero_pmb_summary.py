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
from ktdeval_qfinzero.pmb.types import Figures
from qfinzero_margin import e4


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


FEW, FLAT, GONE = "there are less than two daily returns", "daily returns do not vary", "equity was not positive at a close"
COUNTS = {"num_orders": 8, "num_rejected": 2, "num_actions": 20, "num_invalid": 1, "num_trades": 3, "margin_call_count": 1}
MONEY = {"fees_paid_e4": 12_345, "interest_e4": 1, "borrow_fees_e4": 20_000, "dividends_e4": -5_000}


@pytest.mark.parametrize(
    ("found", "figures", "reasons"),
    [
        (summarise(facts(100)), {"sharpe": None, "turnover": None}, {"sharpe": FEW, "turnover": "no day was closed"}),
        (summarise(facts(100, 101)), {"sharpe": None}, {"sharpe": FEW}),
        (summarise(facts(100, 100, 100)), {"sharpe": None, "annualised_volatility": 0}, {"sharpe": FLAT}),
        (summarise(facts(100, 110, 121)), {"sharpe": None}, {"sharpe": FLAT}),
        # Equity that is gone leaves returns undefined.
        (
            summarise(facts(100, -5, 10)),
            {"total_return": -0.9, "max_drawdown": 1.05},
            {"sharpe": GONE, "annualised_volatility": GONE},
        ),
        (summarise(facts(0, 1)), {"total_return": None}, {"total_return": "equity was not", "max_drawdown": "equity was not"}),
        (summarise(facts(100, 90, 110, traded_value_e4=e4(250))), {"turnover": 2.5}, {}),  # over mean equity
        (summarise(facts(100, -90, -110)), {"turnover": None}, {"turnover": "mean equity was not positive"}),
        # Rates are shares of what was sent; money is in dollars.
        (summarise(facts(100, 100, **COUNTS)), {"reject_rate": 0.25, "invalid_action_rate": 0.05, "margin_call_count": 1}, {}),
        (summarise(facts(100, 100, **COUNTS)), {"num_orders": 8, "num_trades": 3}, {}),
        (summarise(facts(100, 100)), {"reject_rate": None}, {"reject_rate": "no order was sent"}),
        (summarise(facts(100, 100, **MONEY)), {"fees_paid": 1.2345, "interest": 0.0001, "borrow_fees": 2, "dividends": -0.5}, {}),
    ],
)
def test_a_figure_is_a_number_or_has_its_reason(found: Figures, figures: dict[str, Any], reasons: dict[str, str]) -> None:
    assert {name: getattr(found, name) for name in figures} == pytest.approx(figures)
    for name, reason in reasons.items():
        assert getattr(found, name) is None
        assert found.undefined[name].startswith(reason)


@given(st.lists(st.integers(-(10**12), 10**12), max_size=5))
def test_a_summary_is_strict_json(levels: list[int]) -> None:
    figures = summarise(SessionFacts(10**9, tuple(levels)))
    json.dumps(msgspec.to_builtins(figures), allow_nan=False)
