"""Comparing records with what they should be: the first line that differs is named."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, strategies as st

from card_cases import PROVENANCE, card, episode
from ktdeval.cards.compare import card_difference, first_difference, steps_difference
from ktdeval.jsonio import dumps_pretty
from ktdeval.trading.ledger import StepRecord
from ktdeval.typed import from_plain, to_plain
from metric_cases import spec

CARD = card((0, 1))
STEPS = episode(spec()).steps

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)


def test_equal_values_do_not_differ() -> None:
    assert first_difference(CARD, copy.deepcopy(CARD)) is None


@given(json_values, json_values)
def test_a_difference_is_found_exactly_when_the_written_forms_differ(left: Any, right: Any) -> None:
    assert (first_difference(left, right) is None) == (dumps_pretty(left) == dumps_pretty(right))


def test_the_first_difference_in_the_order_of_the_file_is_named_with_both_values() -> None:
    made = copy.deepcopy(CARD)
    made["usage"]["tool_calls"] += 1
    made["metrics"]["sharpe"]["value"] = 1.5
    report = first_difference(made, CARD)
    line = dumps_pretty(made).splitlines().index('   "value": 1.5') + 1
    assert report == f"line {line}: metrics.sharpe.value: recorded 1.5, recomputed {CARD['metrics']['sharpe']['value']!r}"


def test_missing_surplus_and_retyped_values_differ() -> None:
    assert first_difference({"a": 1}, {"a": 1, "b": 2}) == "line 1: b: recorded nothing, recomputed 2"
    assert first_difference({"a": [1, 2]}, {"a": [1]}) == "line 4: a[1]: recorded 2, recomputed nothing"
    assert first_difference({"a": 1}, {"a": 1.0}) == "line 2: a: recorded 1, recomputed 1.0"
    assert first_difference({"a": True}, {"a": 1}) == "line 2: a: recorded true, recomputed 1"
    assert first_difference({"a": 0.0}, {"a": -0.0}) == "line 2: a: recorded 0.0, recomputed -0.0"
    assert first_difference({"a": {}}, {"a": []}) == "line 2: a: recorded {}, recomputed []"


def test_lines_are_those_of_the_text_that_was_read() -> None:
    assert first_difference({"a": 1, "b": 2}, {"a": 1, "b": 3}, '{"a": 1,\n\n\n"b": 2}') == "line 4: b: recorded 2, recomputed 3"


def test_provenance_is_no_difference_between_cards() -> None:
    other = card((0, 1), provenance={**PROVENANCE, "suite_version": "9.9.9"})
    assert first_difference(CARD, other) is not None
    assert card_difference(CARD, other) is None


def test_a_changed_step_is_named_by_line_day_and_field() -> None:
    steps = to_plain(STEPS)
    steps[2]["orders"][0]["filled_shares"] = 900
    steps[4]["cash_fen"] = 0
    changed = from_plain(steps, list[StepRecord], "steps")
    assert steps_difference(changed, STEPS) == "line 3 (step 2, 2024-01-05): orders[0].filled_shares: recorded 900, recomputed 100"


def test_a_lost_step_is_a_difference() -> None:
    assert steps_difference(STEPS[:3], STEPS) == "line 4: recorded 3 steps, recomputed 5"
    assert steps_difference(STEPS, STEPS) is None
