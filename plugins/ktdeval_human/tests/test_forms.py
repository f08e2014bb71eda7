"""Forms that a person fills: texts become the arguments of a tool, or a line that says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval_human.forms import FormError, form_of

ORDER = {
    "stock_id": {"type": "string", "minLength": 1},
    "side": {"type": "string", "enum": ["BUY", "SELL"]},
    "confidence": {"type": "number", "minimum": 0, "maximum": 1},
}


def order(**by: dict[str, Any]) -> dict[str, Any]:
    """Schema of an order, by one measure."""
    properties = {**ORDER, **by}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


WEIGHT = {"type": "number", "minimum": 0, "maximum": 1}
SHARES = {"type": "integer", "minimum": 1}
TICKET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "orders": {
            "type": "array",
            "maxItems": 2,
            "items": {"anyOf": [order(target_weight=WEIGHT), order(shares=SHARES)]},
        },
        "overall_reason": {"type": "string", "minLength": 3},
    },
    "required": ["orders", "overall_reason"],
    "additionalProperties": False,
}
BUY = {"stock_id": "asset_1", "side": "buy", "confidence": "60%", "target_weight": "0.05"}


def one_field(**schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}, "required": ["x"]}


def test_limit_accompanies_a_weight_or_shares_and_is_not_a_choice_itself() -> None:
    limit = {"type": "number", "exclusiveMinimum": 0}
    forms = [{"target_weight": WEIGHT}, {"shares": SHARES}]
    variants = [order(**form, **more) for more in ({}, {"limit": limit}) for form in forms]
    orders = {"type": "array", "items": {"anyOf": variants}}
    form = form_of({**TICKET, "properties": {**TICKET["properties"], "orders": orders}})
    texts = {"overall_reason": "it rises"}

    assert form.rows[0].choices == ("target_weight", "shares")
    value: Any = form.value(texts, {"orders": [{**BUY, "limit": "9.5"}]})
    assert value["orders"][0]["limit"] == 9.5
    assert (
        form.value(texts, {"orders": [BUY]})["orders"]
        == form_of(TICKET).value(texts, {"orders": [BUY]})["orders"]
    )

    alone = {name: text for name, text in BUY.items() if name != "target_weight"}
    with pytest.raises(FormError, match="give one of target_weight, shares"):
        form.value(texts, {"orders": [{**alone, "limit": "9.5"}]})


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, " a, b ", "a, b"),
        ({"type": "number"}, "1,250.5", 1250.5),
        ({"type": "number"}, "7 %", 0.07),
        ({"type": "integer"}, "20", 20),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "array", "items": {"type": "string"}}, "a, b,", ["a", "b"]),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "object", "additionalProperties": WEIGHT}, "a=0.1, b: 5%", {"a": 0.1, "b": 0.05}),
        ({"type": "string", "enum": ["LOW", "HIGH"]}, "low", "LOW"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
    ],
)
def test_a_text_is_read_by_its_schema(schema: dict[str, Any], text: str, value: object) -> None:
    assert form_of(one_field(**schema)).value({"x": text}) == {"x": value}


@pytest.mark.parametrize(
    ("schema", "text", "problem"),
    [
        ({"type": "number"}, "much", "x: 'much' is not a number"),
        ({"type": "number"}, "nan", "x: 'nan' is not a number"),
        ({"type": "number", "maximum": 1}, "5", "x: 5.0 is greater than the maximum of 1"),
        ({"type": "integer"}, "1.5", "x: expected a whole number"),
        ({"type": "boolean"}, "maybe", "x: expected yes or no"),
        ({"type": "string", "enum": ["BUY", "SELL"]}, "KEEP", "x: expected one of BUY, SELL"),
        ({"type": "object", "additionalProperties": WEIGHT}, "a", "x: 'a' is not NAME=VALUE"),
        ({"type": "object", "additionalProperties": WEIGHT}, "a=1,a=0", "x: a appears twice"),
        ({"type": "array", "items": {"type": "string"}}, "[", "x: expected a list, as JSON"),
        ({"type": "string"}, "  ", "x: is missing; text"),
    ],
)
def test_a_wrong_text_is_a_line_that_names_field_and_form(
    schema: dict[str, Any], text: str, problem: str
) -> None:
    with pytest.raises(FormError) as error:
        form_of(one_field(**schema)).value({"x": text})

    assert str(error.value) == problem


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"target_weight": ""}, "orders, row 1: give one of target_weight, shares"),
        ({"shares": "100"}, "orders, row 1: give one of target_weight, shares"),
        ({"side": ""}, "orders, row 1: side: is missing; one of BUY, SELL"),
        ({"price": "1"}, "orders, row 1: price: is not a field of orders"),
    ],
)
def test_a_wrong_row_is_named_by_its_number(changes: dict[str, str], problem: str) -> None:
    with pytest.raises(FormError) as error:
        form_of(TICKET).value({"overall_reason": "it rises"}, {"orders": [BUY | changes]})

    assert str(error.value) == problem


def test_rules_of_the_whole_form_hold_too() -> None:
    with pytest.raises(FormError, match="too long"):
        form_of(TICKET).value({"overall_reason": "it rises"}, {"orders": [BUY] * 3})


@pytest.mark.parametrize(("texts", "rows"), [({"y": "1"}, {}), ({}, {"y": [{}]})])
def test_a_field_that_is_not_there_is_refused(
    texts: dict[str, str], rows: dict[str, list[dict[str, str]]]
) -> None:
    with pytest.raises(FormError, match="y: is not a field of this form"):
        form_of(TICKET).value(texts, rows)


def test_a_field_says_what_it_takes() -> None:
    weights = {
        "type": "object",
        "additionalProperties": WEIGHT,
        "description": "Weights to test.",
        "default": {},
    }

    (field,) = form_of(one_field(**weights)).fields

    assert field.hint == (
        "NAME=VALUE with commas between; a value is a number from 0 to 1; Weights to test.;"
        " left out: {}"
    )


@pytest.mark.parametrize(
    ("schema", "options", "value"),
    [
        ({"type": "string", "enum": ["BUY", "SELL"]}, ["BUY", "SELL"], "BUY"),
        ({"type": "boolean"}, ["yes", "no"], True),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            ["a", "b"],
            ["a", "b"],
        ),
        ({"type": "array", "items": {"type": "integer", "enum": [5, 20]}}, ["5", "20"], [5, 20]),
    ],
)
def test_allowed_words_are_options_of_which_a_list_takes_several(
    schema: dict[str, Any], options: list[str], value: Any
) -> None:
    (field,) = form_of(one_field(**schema)).fields
    chosen = options if field.takes_many else options[:1]

    assert field.options == options
    assert field.read(", ".join(chosen)) == value


@pytest.mark.parametrize(
    "schema",
    [
        # words with commas can't be told apart once they are joined
        {"type": "array", "items": {"type": "string", "enum": ["a, b"]}},
        {"type": "array", "items": {"type": "string"}},
        {"type": "number"},
    ],
)
def test_other_fields_are_typed(schema: dict[str, Any]) -> None:
    (field,) = form_of(one_field(**schema)).fields

    assert not field.takes_many
    assert field.options == []
