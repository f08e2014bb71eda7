"""Schemas as providers take them: whatever is rewritten, no document that the original admits is
lost.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from ktdeval.testing import not_empty
from ktdeval_models.remote.requests.schema_rewrites import (
    InexpressibleError,
    closed_schema,
    readable_schema,
)
from support.schemas.schema_documents import drawn, followers
from support.schemas.sent_schemas import sent_schemas
from support.searching import examples

pytestmark = pytest.mark.slow

Schema = Mapping[str, Any]

# --- schemas of every kind, as a plugin may have them

NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "minLength": st.just(1),
        "maxLength": st.just(9),
        "pattern": st.sampled_from(["^x", r"^(?!y)", r"\bx"]),
    },
)
NUMBERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": st.just(1),
        "exclusiveMaximum": st.just(40),
        "multipleOf": st.sampled_from([2, 3]),
    },
)
ENUMS = st.sampled_from(
    [
        {"enum": ["x", "y"]},
        {"enum": ["x", None]},
        {"enum": [1, True, None]},
        {"const": "x"},
        {"const": None},
        {"const": False},
        {"type": ["string", "null"], "enum": ["x", None], "description": "Words."},
        {"type": ["integer", "null"], "minimum": 1},
        {"type": "boolean"},
        {"type": "null"},
        {},
    ]
)


def _objects(
    inner: st.SearchStrategy[Any], more: st.SearchStrategy[Any] | None = None
) -> st.SearchStrategy[Any]:
    more = inner | st.booleans() if more is None else more
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, unique=True, max_size=2),
            "additionalProperties": more,
            "patternProperties": st.just({"^m": {}}),
            "minProperties": st.just(1),
            "propertyNames": st.just({"maxLength": 3}),
            "oneOf": st.just([{"required": ["a"]}, {"required": ["b"]}]),
            "if": st.just({"required": ["a"]}),
            "then": st.just({"required": ["b"]}),
        },
    )


def _lists(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": st.sampled_from([0, 1, 2]),
            "maxItems": st.just(3),
            "uniqueItems": st.booleans(),
        },
    )


def _choices(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branches = st.lists(inner, min_size=1, max_size=2)
    return branches.map(lambda parts: {"anyOf": parts}) | branches.map(
        lambda parts: {"oneOf": parts}
    )


SCHEMAS = st.recursive(
    TEXTS | NUMBERS | ENUMS,
    lambda inner: _objects(inner) | _lists(inner) | _choices(inner),
    max_leaves=6,
)


def _closed_objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = _objects(inner, st.just(False))
    return objects.map(lambda schema: {**schema, "additionalProperties": False})


def _typed_lists(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return _lists(inner).filter(lambda schema: "items" in schema)


#: schemas that Anthropic has words for, more often than not
CLOSED = st.recursive(
    TEXTS | NUMBERS | ENUMS.filter(bool),
    lambda inner: _closed_objects(inner) | _typed_lists(inner) | _choices(inner),
    max_leaves=4,
)


def _document(schema: Schema, seed: int) -> Any:
    return drawn(schema, random.Random(seed))


@pytest.mark.exhaustive
@examples(300, 3000)
@given(SCHEMAS, st.integers(0, 1000))
def test_gemini_is_sent_a_schema_that_admits_all_that_the_original_admits(
    schema: Schema, seed: int
) -> None:
    document = _document(schema, seed)
    rewritten = readable_schema(schema)
    Draft202012Validator.check_schema(rewritten)

    if Draft202012Validator(schema).is_valid(document):
        assert Draft202012Validator(rewritten).is_valid(document), (rewritten, document)


@pytest.mark.exhaustive
@examples(300, 3000)
@given(SCHEMAS | CLOSED, st.integers(0, 1000))
def test_claude_is_sent_such_a_schema_or_none(schema: Schema, seed: int) -> None:
    document = _document(schema, seed)
    try:
        rewritten = closed_schema(schema)
    except InexpressibleError:
        return

    Draft202012Validator.check_schema(rewritten)
    if Draft202012Validator(schema).is_valid(document):
        assert Draft202012Validator(rewritten).is_valid(document), (rewritten, document)


# --- the schemas that are sent

UNSENT = {
    "risk_check",
    "envelope of tools of blinded_open_research",
    "envelope of tools of blinded_open_research by hedge_fund",
    "envelope of tools of blinded_rebased_open_research",
    "submit_answer of qfinzero_calling_text",
    "envelope of submit_answer of qfinzero_calling_text",
    "envelope of tools of qfinzero_calling",
    "envelope of tools of qfinzero_calling by hedge_fund",
}
"""What Anthropic has no words for: maps, and more optional fields than it compiles."""


def _is_unsent(schema: Schema) -> bool:
    try:
        closed_schema(schema)
    except InexpressibleError:
        return True

    return False


@pytest.mark.exhaustive
def test_no_schema_that_is_sent_loses_a_document() -> None:
    schemas = sent_schemas()
    assert {name for name, schema in schemas.items() if _is_unsent(schema)} == UNSENT

    for name, schema in not_empty(schemas.items()):
        rewritten = [readable_schema(schema)]
        if name not in UNSENT:
            rewritten.append(closed_schema(schema))

        documents = not_empty(followers(schema, 20))
        for validator in map(Draft202012Validator, rewritten):
            assert all(map(validator.is_valid, documents)), name


@pytest.mark.exhaustive
def test_a_rewritten_order_schema_still_refuses_both_sizes_and_a_number() -> None:
    schema = sent_schemas()["submit_action in whole shares"]
    order = {"stock_id": "x", "side": "BUY", "confidence": 1, "reason": "a long enough reason"}
    wrong = [1, order, {**order, "target_weight": 0.1, "shares": 5}, {**order, "shares": "5"}]
    right = [{**order, "shares": 5}, {**order, "target_weight": 0.1}]

    for rewritten in not_empty([closed_schema(schema), readable_schema(schema)]):
        validator = Draft202012Validator(rewritten)
        judged = [
            validator.is_valid({"orders": [each], "overall_reason": ""})
            for each in (*wrong, *right)
        ]
        assert judged == [False] * 4 + [True] * 2


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object"}, "the whole: an object with names of the writer's own"),
        (
            {"type": "object", "additionalProperties": {"type": "number"}},
            "the whole: an object with names",
        ),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, "the whole: a list of anything"),
        ({"type": "array", "items": {}}, r"\[\]: a value of any form"),
        ({"minItems": 2}, "the whole: a value of any form"),
        (
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}},
            },
            "refers to itself",
        ),
        ({"$ref": "https://example.org/a"}, "refers to itself"),
    ],
)
def test_a_form_that_claude_has_no_words_for_is_named_with_its_place(
    schema: Schema, problem: str
) -> None:
    with pytest.raises(InexpressibleError, match=problem):
        closed_schema(schema)


@pytest.mark.exhaustive
def test_definitions_that_end_are_sent() -> None:
    schema = {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/b"}}, "b": {"type": "string"}},
    }

    assert closed_schema(schema) == schema
    assert readable_schema(schema) == schema
