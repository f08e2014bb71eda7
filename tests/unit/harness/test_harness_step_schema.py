"""The instance of a submission's schema for one step: labels, counts, sides and sizes as the state of
the step shows them, and where a provider's limits end it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from ktdeval.harness.agent import HarnessConfig
from ktdeval.harness.chat_messages import ToolSpec
from ktdeval.harness.steps.step_schema import (
    MAX_LABELS,
    OfferedSchemas,
    decisions_of,
    label_pattern,
    orders_of,
    shown_labels,
    with_labels,
    with_schema,
)
from ktdeval.harness.submissions.action import action_schema
from ktdeval.harness.submissions.stance_form import stance_schema
from ktdeval.observation.state import ObservedState, state_of_values
from support.schemas.schema_engines import Guidance, installed
from support.searching import examples

LABEL = {"type": "string", "minLength": 1, "maxLength": 64}
CANDIDATES = {"columns": ["stock_id", "close"], "rows": [["asset_0007", 5.0], ["asset_0003", 20.0]]}
NOTHING_HELD = {"columns": ["stock_id", "shares", "weight"], "rows": []}
HELD = {"columns": ["stock_id", "shares", "weight"], "rows": [["asset_0009", 300, 0.12]]}


def state(**sections: Any) -> ObservedState:
    shown = {
        "account": {"nav": 100_000},
        "positions": NOTHING_HELD,
        "constraints": {"max_weight": 0.1},
        "candidates": CANDIDATES,
    }
    return state_of_values({**shown, **sections})


def fields_of(shown: ObservedState, *, shorts: bool = False) -> list[Mapping[str, Any]]:
    """The fields of an order by weight, and of one by shares."""
    schema = action_schema(HarnessConfig(), shorts=shorts)
    branches = orders_of(schema, shown, shorts=shorts)["properties"]["orders"]["items"]["anyOf"]
    return [branch["properties"] for branch in branches]


# --- labels


def test_a_state_that_lists_nothing_to_choose_from_names_no_labels() -> None:
    shown = state_of_values({"positions": HELD, "account": {}})
    assert shown_labels(shown) == []
    assert [fields["stock_id"]["maxLength"] for fields in fields_of(shown)] == [64, 64]


def test_an_enumeration_has_the_labels_in_their_order_and_no_length() -> None:
    assert with_labels(LABEL, ["b", "a"]) == {"type": "string", "enum": ["b", "a"]}


def test_too_many_labels_for_an_enum_become_a_pattern_or_any_text() -> None:
    handles = [f"asset_{number:04}" for number in range(MAX_LABELS + 1)]
    assert len(with_labels(LABEL, handles[:-1])["enum"]) == MAX_LABELS
    assert with_labels(LABEL, handles) == {"type": "string", "pattern": "^asset_[0-9]{4}$"}
    assert with_labels(LABEL, [*handles, "AAPL"]) == LABEL


@pytest.mark.slow
@given(st.lists(st.integers(0, 9999), min_size=1), st.sampled_from(["asset_", "A.", "x0-", ""]))
@examples(60)
def test_a_pattern_admits_every_label_that_it_was_made_of(numbers: list[int], head: str) -> None:
    labels = [f"{head}{number:04}" for number in numbers]
    pattern = label_pattern(labels)

    assert pattern is not None

    judge = Draft202012Validator({"pattern": pattern})
    assert all(map(judge.is_valid, labels))
    assert not judge.is_valid(f"{labels[0]}0")


@pytest.mark.slow
@given(st.lists(st.text("a09-ä\ud800", max_size=4), max_size=4))
@examples(100)
def test_labels_have_a_pattern_if_they_differ_only_in_digits(
    labels: list[str],
) -> None:
    forms = {re.sub("[0-9]", "0", label) for label in labels}
    assert (label_pattern(labels) is not None) == (len(forms) == 1)


def test_a_label_of_several_lines_has_no_pattern() -> None:
    assert label_pattern(["a\nb"]) is None
    assert label_pattern(["a", "a\na"]) is None


def test_a_schema_names_the_labels_once() -> None:
    first, second = fields_of(state())
    assert first["stock_id"]["enum"] == ["asset_0007", "asset_0003"]
    assert "enum" not in second["stock_id"]
    assert second["stock_id"]["pattern"] == "^asset_[0-9]{4}$"

    codes = {"columns": ["stock_id", "close"], "rows": [["AAPL", 5.0], ["KO", 20.0]]}
    first, second = fields_of(state(candidates=codes))
    assert first["stock_id"]["enum"] == ["AAPL", "KO"]
    assert second["stock_id"]["maxLength"] == 64


# --- decisions


def test_decisions_have_as_many_items_as_labels() -> None:
    made = decisions_of(stance_schema(10), ["asset_0003", "asset_0001"])
    decisions = made["properties"]["decisions"]

    assert (decisions["minItems"], decisions["maxItems"]) == (2, 2)
    assert decisions["items"]["properties"]["stock_id"]["enum"] == ["asset_0003", "asset_0001"]
    assert decisions_of(stance_schema(10), []) == stance_schema(10)


# --- orders


@pytest.mark.parametrize(
    ("held", "shorts", "bounds"),
    [
        ([], False, (0, 0.1)),
        ([["a", 1, 0.09]], False, (0, 0.1)),
        # It may be reduced in parts: to 0.11.
        ([["a", 1, 0.12]], False, (0, 0.2)),
        ([["a", -1, -0.32]], True, (-0.4, 0.4)),
        ([], True, (-0.1, 0.1)),
    ],
)
def test_a_weight_is_bounded_by_the_limit_or_by_a_greater_one_that_is_held(
    held: list[Any], shorts: bool, bounds: tuple[float, float]
) -> None:
    shown = state(positions={**HELD, "rows": held})
    weight = fields_of(shown, shorts=shorts)[0]["target_weight"]
    assert (weight["minimum"], weight["maximum"]) == bounds


@pytest.mark.exhaustive
@pytest.mark.parametrize("shorts", [False, True])
@pytest.mark.parametrize("limit", [0.05, 0.075, 0.1, 0.125, 0.25, 0.3, 0.65, 1.0])
def test_a_limit_of_weights_admits_what_the_rules_do_and_no_more(
    limit: float, shorts: bool
) -> None:
    plain = action_schema(HarnessConfig(), shorts=shorts)
    shown = state(constraints={"max_weight": limit})
    made = orders_of(plain, shown, shorts=shorts)["properties"]["orders"]["items"]["anyOf"][0]
    field = made["properties"]["target_weight"]

    least = -limit if shorts else 0.0
    weights = [number / 200 for number in range(-200, 201)]
    allowed = [weight for weight in weights if least <= weight <= limit]
    schema = Draft202012Validator(field)
    engine = installed(Guidance()).compile(field)

    assert [weight for weight in weights if schema.is_valid(weight)] == allowed
    assert [weight for weight in weights if engine(f"{weight:g}")] == allowed


def test_a_limit_with_several_decimals_is_ranges_that_end_after_each() -> None:
    shown = state(constraints={"max_weight": 0.25})
    weight = fields_of(shown)[0]["target_weight"]

    assert [(part["minimum"], part["maximum"]) for part in weight["anyOf"]] == [
        (0, 0.2),
        (0.2, 0.25),
    ]
    assert "description" in weight


@pytest.mark.parametrize(
    ("held", "most"),
    [
        # 4 · 100,000 · 0.1 / 5 = 8,000 shares of the cheapest asset, to the next power of ten
        ([], 10_000),
        ([["asset_0009", 25_000, 0.1]], 100_000),
    ],
)
def test_shares_are_bounded_by_the_greatest_weight_or_what_is_held(
    held: list[Any], most: int
) -> None:
    shares = fields_of(state(positions={**HELD, "rows": held}))[1]["shares"]
    assert (shares["minimum"], shares["maximum"]) == (1, most)


def test_without_prices_shares_keep_the_bound_of_every_step() -> None:
    shown = state_of_values({"universe": ["a"], "account": {"nav": 100}})
    assert fields_of(shown)[1]["shares"]["maximum"] == 100_000_000


@pytest.mark.parametrize("shown", [state(), state(positions=HELD), state_of_values({})])
def test_an_agent_that_changes_the_schema_of_a_step_changes_no_other(shown: ObservedState) -> None:
    plain = action_schema(HarnessConfig())
    before = json.dumps(plain)
    made = orders_of(plain, shown, shorts=False)
    branches = made["properties"]["orders"]["items"]["anyOf"]
    second = json.dumps(branches[1])
    for field in branches[0]["properties"].values():
        field.clear()
    assert json.dumps(branches[1]) == second

    containers = [made]
    while containers:
        container = containers.pop()
        parts = container.values() if isinstance(container, dict) else [*container]
        containers += [part for part in parts if isinstance(part, dict | list)]
        container.clear()
    assert json.dumps(plain) == before


# --- limits, and the record


def test_a_schema_of_more_values_than_a_provider_compiles_is_not_offered() -> None:
    plain = ToolSpec("submit", "Submit.", {"type": "object"})
    parts = {str(number): {"enum": ["x"] * 250} for number in range(5)}
    fits = {"type": "object", "properties": {name: parts[name] for name in "0123"}}

    assert with_schema(plain, fits).parameters == fits
    assert with_schema(plain, {"type": "object", "properties": parts}) == plain


def test_a_schema_is_recorded_where_it_is_not_the_one_before() -> None:
    plain = ToolSpec("a", "", {"type": "object"})
    own = ToolSpec("a", "", {"type": "array"})
    offered = OfferedSchemas([plain])
    seen = [offered.record_changes([tool]) for tool in (plain, own, own, plain)]

    assert seen == [{}, {"a": {"type": "array"}}, {}, {"a": {"type": "object"}}]
