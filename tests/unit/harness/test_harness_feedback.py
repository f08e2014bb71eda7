"""Feedback to a submission: path and rule of each error, whatever words its schema has, and nothing
of what the model wrote.
"""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ktdeval.harness.submissions.feedback import MAX_PROBLEMS, schema_problems

TEXT_OR_NULL = {"anyOf": [{"type": "string", "pattern": "^[0-9]{4}$"}, {"type": "null"}]}
BARE = {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
LIMIT = {
    "type": "object",
    "properties": {"kind": {"enum": ["limit"]}, "price": {"type": "number"}},
    "required": ["kind", "price"],
    "additionalProperties": False,
}
MARKET = {
    "type": "object",
    "properties": {"kind": {"enum": ["market"]}},
    "required": ["kind"],
    "additionalProperties": False,
}


def problems_of(value: Any, schema: dict[str, Any]) -> list[tuple[str, str]]:
    problems = schema_problems(value, Draft202012Validator(schema))
    return [(problem["at"], problem["rule"]) for problem in problems]


@pytest.mark.parametrize(
    ("value", "schema", "rule"),
    [
        ("12", TEXT_OR_NULL, "must be text, in the form ^[0-9]{4}$ or null"),
        (7, TEXT_OR_NULL, "must be text, in the form ^[0-9]{4}$ or null"),
        ({}, BARE, "must be an object with a or an object with b"),
        ({"a": 1, "b": 1}, BARE, "must be an object with a or an object with b"),
        (
            {"kind": "limit"},
            {"anyOf": [LIMIT, MARKET]},
            "must be an object with kind, price or an object with kind",
        ),
        (
            {"kind": "stop", "price": 1},
            {"oneOf": [LIMIT, MARKET]},
            "must be an object with kind, price or an object with kind",
        ),
        ({"a": "x"}, {"additionalProperties": {"type": "integer"}}, "must be a whole number"),
        ({"a": "x"}, {"additionalProperties": False}, "must have no fields but "),
    ],
)
def test_any_schema_gets_a_rule_in_words(value: Any, schema: dict[str, Any], rule: str) -> None:
    assert [each for _, each in problems_of(value, schema)] == [rule]


def test_a_value_that_follows_has_no_problems() -> None:
    assert problems_of(None, TEXT_OR_NULL) == []
    assert problems_of({"kind": "market"}, {"anyOf": [LIMIT, MARKET]}) == []


def test_at_most_five_problems_are_shown() -> None:
    rows = {"type": "array", "items": {"type": "integer"}}
    assert len(problems_of(["x"] * 50, rows)) == MAX_PROBLEMS == 5
