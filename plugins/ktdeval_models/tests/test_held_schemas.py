"""Schemas with bounds, for servers whose grammar holds a reply too loosely: what they admit is valid
JSON, has an end, and follows the schema that the reply is checked against.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ktdeval.harness.chat_messages import ModelRequest, ToolSpec
from ktdeval.testing import not_empty
from ktdeval_models.remote.requests.grammar_schemas import SchemaBounds
from support.schemas.schema_documents import followers
from support.schemas.schema_engines import Outlines, installed
from support.schemas.schema_rules import subschemas
from support.schemas.schema_table import stated
from support.schemas.sent_schemas import sent_schemas

TEXT = {"type": "string"}
MAX_REPEATED = 2000  # more often llama.cpp's grammar repeats nothing


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@pytest.mark.parametrize("text", ["two\nlines", "a\ttab", 'a "quote"', "a back\\slash", "x" * 21])
def test_a_text_that_would_break_the_json_or_has_no_end_is_not_admitted(text: str) -> None:
    held = Draft202012Validator(SchemaBounds(longest_text=20).schema(closed(reason=TEXT)))
    assert held.is_valid({"reason": "up 3 % in a day…"})
    assert not held.is_valid({"reason": text})


@pytest.mark.parametrize(
    ("schema", "lengths"),
    [
        (TEXT, (0, 20)),
        ({**TEXT, "minLength": 10}, (10, 20)),
        ({**TEXT, "maxLength": 5}, (0, 5)),
        ({**TEXT, "maxLength": 4000}, (0, 20)),
        ({**TEXT, "minLength": 30}, (30, 10_000)),  # no limit: a shorter text would be refused
    ],
)
def test_lengths_of_the_schema_hold_and_a_text_is_no_longer_than_its_bound(
    schema: dict[str, Any], lengths: tuple[int, int]
) -> None:
    held = Draft202012Validator(SchemaBounds(longest_text=20).schema(schema))
    least, most = lengths

    assert held.is_valid("x" * least)
    assert held.is_valid("x" * most)
    assert not held.is_valid("x" * (least - 1)) or least == 0
    assert not held.is_valid("x" * (most + 1)) or most == 10_000


def test_a_text_that_may_be_missing_is_bounded_too() -> None:
    held = SchemaBounds(longest_text=5).schema({"type": ["string", "null"], "description": "a day"})
    assert held["description"] == "a day"

    validator = Draft202012Validator(held)
    assert [validator.is_valid(value) for value in (None, "short", "longer", 5)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_list_has_no_more_items_than_its_bound_but_as_many_as_it_must() -> None:
    bounds = SchemaBounds(longest_list=3)
    assert bounds.schema({"type": "array"})["maxItems"] == 3
    assert bounds.schema({"type": "array", "maxItems": 2})["maxItems"] == 2
    assert bounds.schema({"type": "array", "minItems": 4})["maxItems"] == 4


# --- for llama.cpp

FOR_LLAMA = SchemaBounds(grammar="llama.cpp")


@pytest.mark.parametrize(
    ("bounds", "values"),
    [
        ({"minimum": 0, "maximum": 0.03}, [0, 0.01, 0.02, 0.03]),
        ({"exclusiveMinimum": 0, "maximum": 0.02}, [0.01, 0.02]),
        ({"minimum": -0.01, "exclusiveMaximum": 0.01}, [-0.01, 0]),
        # a bound beside the hundredths is a value
        ({"minimum": 0.195, "maximum": 0.21}, [0.195, 0.2, 0.21]),
        ({"minimum": 0, "exclusiveMinimum": 0.01, "maximum": 0.02}, [0.02]),
    ],
)
def test_a_number_between_two_bounds_is_a_choice_of_hundredths(
    bounds: dict[str, float], values: list[float]
) -> None:
    held = FOR_LLAMA.schema({"type": "number", **bounds})
    assert held == {"type": "number", "enum": values}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "number"},
        {"type": "number", "minimum": 0},
        {"type": "number", "minimum": 0, "maximum": 1000},  # 100,001 values
        {"type": "number", "enum": [1, 2]},
        {"type": "integer", "minimum": 0, "maximum": 3},  # whose bounds llama.cpp reads
    ],
)
def test_other_numbers_stay_as_they_are(schema: dict[str, Any]) -> None:
    assert FOR_LLAMA.schema(schema) == schema


def test_a_number_that_may_be_missing_is_a_choice_too() -> None:
    schema = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
    validator = Draft202012Validator(FOR_LLAMA.schema(schema))
    admitted = [value for value in (None, 0, 0.5, 0.705, 1, 2) if validator.is_valid(value)]
    assert admitted == [None, 0, 0.5, 1]


def decisions(count: int, *labels: str) -> dict[str, Any]:
    item = closed(stock_id={**TEXT, "enum": list(labels)}, side={**TEXT, "enum": ["BUY", "SELL"]})
    return {"type": "array", "items": item, "minItems": count, "maxItems": count}


def test_a_list_of_as_many_decisions_as_labels_has_one_for_each_in_order() -> None:
    validator = Draft202012Validator(FOR_LLAMA.schema(decisions(2, "asset_1", "asset_2")))
    first, second = ({"stock_id": f"asset_{number}", "side": "BUY"} for number in (1, 2))

    assert validator.is_valid([first, second])
    assert not validator.is_valid([second, first])
    assert not validator.is_valid([first, first])
    assert not validator.is_valid([first])
    assert not validator.is_valid([first, second, second])


def test_another_list_may_still_hold_any_label() -> None:
    schema = decisions(1, "asset_1", "asset_2")
    assert FOR_LLAMA.schema(schema) == schema


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", stated()["cells"])
def test_llama_cpp_schema_admits_only_documents_valid_for_the_original(
    name: str,
) -> None:
    schema = sent_schemas()[name]
    validator = Draft202012Validator(schema)
    for document in not_empty(followers(FOR_LLAMA.schema(schema), 5)):
        assert validator.is_valid(document)


def test_without_bounds_a_request_is_sent_as_it_is() -> None:
    request = ModelRequest((), (ToolSpec("submit", "Submit.", closed(reason=TEXT)),), "submit")
    assert SchemaBounds().request(request) is request


@pytest.mark.exhaustive
def test_every_bounded_schema_fits_the_grammar() -> None:
    bounds = SchemaBounds(longest_text=1000)
    for name, schema in not_empty(sent_schemas().items()):
        held = bounds.schema(schema)
        Draft202012Validator.check_schema(held)
        for part in subschemas(held):
            if part.get("type") != "string" or part.keys() & {"enum", "const"}:
                continue

            assert "pattern" in part, name
            assert part.keys().isdisjoint({"minLength", "maxLength"}), name
            assert part.get("maxItems", 0) <= MAX_REPEATED


@pytest.mark.exhaustive
def test_order_within_bounds_satisfies_both_schemas() -> None:
    schema = sent_schemas()["submit_action in whole shares"]
    order = {
        "stock_id": "asset_0042",
        "side": "BUY",
        "confidence": 0.5,
        "reason": "up 3 % in a day",
        "shares": 100,
    }
    text = json.dumps({"orders": [order], "overall_reason": "Momentum."})

    outlines = installed(Outlines())

    assert outlines.compile(SchemaBounds(1000, 4).schema(schema))(text)
    assert Draft202012Validator(schema).is_valid(json.loads(text))
