"""The form of published schemas: msgspec's, without references, titles and unions."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import UNSET, Meta, UnsetType

from ktdeval_qfinzero.schemas import DESCRIBED_LAST, make_description, schema_of, text, whole

Side = Literal["SELL", "BUY"]


class Inner(msgspec.Struct, frozen=True):
    """A docstring that no schema shows."""

    side: Side
    note: str | UnsetType = UNSET


class Row(TypedDict, total=False):
    """A row of chosen fields."""

    price: Annotated[float | None, make_description("Price.")]


class Order(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An order."""

    limit: Annotated[int, whole("Rows.", 1, 9)] = 5
    inner: Annotated[Inner, make_description("What is inside.")] = Inner("BUY")
    id: Annotated[str, text("Id.", 7)]
    reason: str | None
    why: Annotated[Side | None, make_description("Side, or none.")]


INNER = {
    "type": "object",
    "properties": {"side": {"type": "string", "enum": ["SELL", "BUY"]}, "note": {"type": "string"}},
    "required": ["side"],
    "additionalProperties": False,
}


class WithSide(msgspec.Struct):
    """An argument that may be absent.

    side: Side, in a line
        and another one.
    other: No field of it.
    """

    side: Side | None = None


def written(schema: Any) -> str:
    """A schema as it is sent, in the order of its keys."""
    return json.dumps(schema)


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Side, {"type": "string", "enum": ["SELL", "BUY"]}),
        (list[Inner], {"type": "array", "items": INNER}),
        (dict[str, Inner], {"type": "object", "additionalProperties": INNER}),
        (dict[str, Any], {"type": "object"}),
        (
            Annotated[Inner, Meta(description="It.", extra_json_schema={"minProperties": 1})],
            {"type": "object", "description": "It."}
            | {name: INNER[name] for name in ("properties", "required", "additionalProperties")}
            | {"minProperties": 1},
        ),
        (
            Row,
            {
                "type": "object",
                "properties": {"price": {"type": ["number", "null"], "description": "Price."}},
                "additionalProperties": False,
            },
        ),
        (
            Annotated[int, Meta(ge=1, le=9), make_description("Rows."), DESCRIBED_LAST],
            {"type": "integer", "minimum": 1, "maximum": 9, "description": "Rows."},
        ),
        (
            Annotated[float, Meta(gt=0.0, le=2.5e9)],
            {"type": "number", "exclusiveMinimum": 0, "maximum": 2500000000},
        ),
        (
            WithSide,
            {
                "type": "object",
                "properties": {
                    "side": {
                        "type": "string",
                        "description": "Side, in a line and another one.",
                        "enum": ["SELL", "BUY"],
                    }
                },
                "additionalProperties": False,
            },
        ),
    ],
    ids=[
        "choices in their own order",
        "items without a reference",
        "values of a mapping",
        "anything",
        "a description beside a struct",
        "chosen fields",
        "described last",
        "whole bounds of a number",
        "absent but not null",
    ],
)
def test_a_type_has_one_whole_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert written(schema_of(hint)) == written(schema)


def test_required_fields_come_first_and_plain_defaults_are_shown() -> None:
    schema: Any = schema_of(Order)
    assert list(schema["properties"]) == ["id", "reason", "why", "limit", "inner"]
    assert schema["required"] == ["id", "reason", "why"]
    assert schema["properties"]["limit"]["default"] == 5
    assert "default" not in schema["properties"]["inner"]


@pytest.mark.parametrize(
    ("changed", "is_valid"),
    [
        ({}, True),
        ({"reason": None, "why": None}, True),
        ({"why": "HOLD"}, False),
        ({"id": None}, False),
        ({"id": ""}, False),
        ({"limit": 10}, False),
        ({"limit": None}, False),
        ({"inner": {"side": "BUY"}}, True),
        ({"inner": {"side": "BUY", "note": None}}, False),
        ({"other": 1}, False),
    ],
)
def test_a_schema_accepts_what_its_type_does(changed: dict[str, Any], is_valid: bool) -> None:
    document = {"id": "a", "reason": "none", "why": "SELL"} | changed
    assert Draft202012Validator(schema_of(Order)).is_valid(document) == is_valid
    assert _converts(document) == is_valid


def _converts(document: dict[str, Any]) -> bool:
    try:
        msgspec.convert(document, Order)
    except msgspec.ValidationError:
        return False

    return True
