"""The 2x2 of masks and the information ladder: hand-worked, exact sums, planted effects."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from ktdeval.stats.designs import MASK_FACTORS, MODE_PIECES, mask_contrasts, mean_with_interval, order_averaged, orders

WINDOWS = arrays(float, 5, elements=st.floats(-1, 1))
GRID = {
    frozenset(MASK_FACTORS[mask] | MODE_PIECES[mode]): place
    for place, (mask, mode) in enumerate(itertools.product(MASK_FACTORS, MODE_PIECES))
}


def test_a_hand_worked_design() -> None:
    cells = {"bright": 10.0, "stock_blind": 4.0, "date_blind": 7.0, "blinded": 3.0}
    found = mask_contrasts({mask: np.array([value]) for mask, value in cells.items()})
    # Stock in sight: 10 - 4 = 6 with the date, 7 - 3 = 4 without. Date in sight: 10 - 7 = 3 with the stock, 4 - 3 = 1 without.
    assert found == {"memory_premium": 7.0, "stock_effect": 5.0, "date_effect": 2.0, "interaction": 2.0}
    # Fewer masks tell fewer effects.
    assert list(mask_contrasts({"bright": np.ones(2), "blinded": np.ones(2)})) == ["memory_premium"]
    assert mask_contrasts({"bright": np.ones(2), "stock_blind": np.ones(2)}) == {}


@given(WINDOWS, WINDOWS, WINDOWS, WINDOWS)
def test_stock_and_date_effect_add_up_to_the_memory_premium(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> None:
    found = mask_contrasts({"bright": a, "stock_blind": b, "date_blind": c, "blinded": d})
    assert found["stock_effect"] + found["date_effect"] == pytest.approx(found["memory_premium"], abs=1e-12)


def test_a_chain_of_modes_has_one_order() -> None:
    """Tools work on data, so the marginal steps are the contributions."""
    results = {"memory_only": 1.0, "fixed_candidate": 4.0, "open_research": 9.0}
    values = {MODE_PIECES[mode]: np.array([value]) for mode, value in results.items()}
    found = order_averaged(values)
    assert {piece: float(part[0]) for piece, part in found.items()} == {"data": 3.0, "tools": 5.0}


def test_without_precedence_it_is_the_shapley_value() -> None:
    """Glove game of Shapley: one left glove (a), two right gloves (b, c); a pair is worth 1. Values 2/3, 1/6, 1/6."""
    coalitions = [coalition for size in range(4) for coalition in itertools.combinations("abc", size)]
    found = order_averaged({frozenset(each): np.array([float("a" in each and len(each) > 1)]) for each in coalitions}, {})
    assert [float(found[player][0]) for player in "abc"] == pytest.approx([2 / 3, 1 / 6, 1 / 6])


def test_four_pieces_have_twelve_orders_with_data_before_tools() -> None:
    found = list(orders(["stock", "date", "data", "tools"], {"tools": frozenset({"data"})}))
    assert len(found) == 12
    assert all(order.index("data") < order.index("tools") for order in found)


@given(arrays(float, (12, 4), elements=st.floats(-1, 1)))
def test_contributions_add_up_exactly(table: np.ndarray) -> None:
    values = {given: table[place] for given, place in GRID.items()}
    parts = order_averaged(values)
    whole = values[frozenset({"stock", "date", "data", "tools"})] - values[frozenset()]
    assert list(parts) == ["data", "date", "stock", "tools"]
    assert sum(parts.values()) == pytest.approx(whole, abs=1e-12)


@given(arrays(float, 4, elements=st.floats(-1, 1)))
def test_separate_effects_are_given_back(worth: np.ndarray) -> None:
    names = ("stock", "date", "data", "tools")
    of = dict(zip(names, worth))
    values = {given: np.array([sum(of[name] for name in given)]) for given in GRID}
    assert {name: float(part[0]) for name, part in order_averaged(values).items()} == pytest.approx(of, abs=1e-12)


def test_a_set_that_was_not_run_is_named() -> None:
    with pytest.raises(ValueError, match="no results with data given"):
        order_averaged({frozenset(): np.zeros(1), frozenset({"data", "tools"}): np.zeros(1)})


@pytest.mark.slow
def test_effect_intervals_cover_the_planted_effect() -> None:
    """Ten windows, three seeds, shared market noise that cancels; 2,000 experiments, nominal 95 %."""
    planted = {"memory_premium": 0.02, "stock_effect": 0.015, "date_effect": 0.005, "interaction": 0.004}
    covered = dict.fromkeys(planted, 0)
    worths = {"bright": (0.02, 1), "stock_blind": (0.003, 0), "date_blind": (0.013, 1), "blinded": (0.0, 0)}
    for number in range(2000):
        chance = np.random.default_rng([5, number])
        market = 0.1 * chance.normal(size=(10, 1))
        slope = 0.01 * chance.normal(size=(10, 1))  # the worth of the stock differs from window to window
        noise = {mask: 0.02 * chance.normal(size=(10, 3)) for mask in MASK_FACTORS}
        cells = {mask: market + noise[mask] + worth + slope * has_stock for mask, (worth, has_stock) in worths.items()}
        for name, values in mask_contrasts(cells).items():
            found = mean_with_interval(values.mean(axis=1)).detail
            covered[name] += found["low"] <= planted[name] <= found["high"]
    assert all(0.93 <= count / 2000 <= 0.97 for count in covered.values()), covered
