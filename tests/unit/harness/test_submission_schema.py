"""The plain check of submissions says yes only where `jsonschema` does."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from ktdeval.harness.submissions.submission_schema import SubmissionSchema, sure_check

NUMBERS = st.integers(-3, 3) | st.sampled_from([-0.5, 0.0, 0.5, 1.0, 2.0])
WORDS = st.sampled_from(["", "a", "ab", "BUY"])
PLAIN = st.none() | st.booleans() | NUMBERS | WORDS
NAMES = st.sampled_from(["x", "y", "z"])
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
)
TYPES = st.sampled_from(["integer", "number", "string", "boolean", "array", "object", "null"])


def with_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of all keywords that the check knows, and of some that it does not."""
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "enum": st.lists(PLAIN, min_size=1, max_size=3),
            "const": PLAIN,
            "minimum": NUMBERS,
            "maximum": NUMBERS,
            "exclusiveMinimum": NUMBERS,
            "exclusiveMaximum": NUMBERS,
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(0, 2),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "minProperties": st.integers(0, 2),
            "pattern": st.just("a"),
            "items": inner,
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "description": st.just("words"),
        },
    )


SCHEMAS = st.recursive(st.booleans() | with_schemas(st.just({})), with_schemas, max_leaves=4)


def test_what_is_surely_valid_is_valid() -> None:
    reached: Counter[str] = Counter()

    @settings(max_examples=500)
    @given(SCHEMAS, VALUES)
    def compare(schema: Any, value: Any) -> None:
        is_sure = sure_check(schema)(value)
        is_valid = Draft202012Validator(schema).is_valid(value)
        reached[f"sure {is_sure}, valid {is_valid}"] += 1
        assert is_valid or not is_sure

    compare()
    kinds = ("sure True, valid True", "sure False, valid False")
    assert min(reached[kind] for kind in kinds) >= 20, reached


def test_problems_are_those_of_the_validator() -> None:
    schema = SubmissionSchema({"type": "object", "required": ["x"]})
    assert schema.problems({"x": 1}) == []
    assert schema.problems({}) == [{"at": "(whole)", "rule": "must have x"}]
    assert (schema.is_valid({"x": 1}), schema.is_valid({})) == (True, False)
