"""Fields that programs add to tools for themselves: neither tool nor trace reads them."""

from __future__ import annotations

import json

import pytest

from ktdeval.harness import ToolSpec
from ktdeval.harness.external.added_fields import without_added

ORDERS = {"orders": {"type": "array"}, "overall_reason": {"type": "string"}}
FORM = ToolSpec("submit_action", "", {"type": "object", "properties": ORDERS})
SENT = '{"orders": [], "overall_reason": "fine", "wait_for_previous": true}'
MEANT = '{"orders":[],"overall_reason":"fine"}'


def offer(*added: str, name: str = "mcp_ktdeval_submit_action") -> ToolSpec:
    fields = {**ORDERS, **{each: {"type": "string"} for each in added}}
    return ToolSpec(name, "", {"type": "object", "properties": fields})


@pytest.mark.parametrize(
    ("arguments", "added", "expected"),
    [
        (SENT, ["wait_for_previous"], MEANT),
        ('{"wait_for_previous": true}', ["wait_for_previous"], "{}"),
        (SENT, ["wait_for_previous", "thought", "Toolcall-Title"], MEANT),
        (SENT.replace("wait_for_previous", "背景"), ["背景"], MEANT),
        # what no offer declares stays, for the tool to refuse
        (SENT, ["thought"], SENT),
        (SENT, [], SENT),
        # nothing but the top of the object is the program's
        ('{"orders": [{"wait": 1}]}', ["wait"], '{"orders": [{"wait": 1}]}'),
        # what is no object stays as it is written
        ('{"orders":  []}', ["wait"], '{"orders":  []}'),
        ('["wait"]', ["wait"], '["wait"]'),
        ('{"wait": 1, "a": "\\ud800"}', ["wait"], '{"wait": 1, "a": "\\ud800"}'),
        ('{"wait": ', ["wait"], '{"wait": '),
        ('{"wait": 1, "wait": 2}', ["wait"], '{"wait": 1, "wait": 2}'),
        ('{"wait": NaN}', ["wait"], '{"wait": NaN}'),
    ],
)
def test_fields_that_an_offer_declares_beside_the_tools_are_left_out(
    arguments: str, added: list[str], expected: str
) -> None:
    assert without_added(arguments, [offer(*added)], FORM) == expected


@pytest.mark.parametrize(
    ("name", "is_offer"),
    [
        ("submit_action", True),
        ("mcp__ktdeval__submit_action", True),
        ("ktdeval.submit_action", True),
        ("resubmit_action", False),
        ("submit_action_2", False),
        ("shell", False),
    ],
)
def test_an_offer_is_of_the_tool_that_its_name_ends_with(name: str, is_offer: bool) -> None:
    made = without_added(SENT, [offer("wait_for_previous", name=name)], FORM)
    assert made == (MEANT if is_offer else SENT)


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object"},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "additionalProperties": {"type": "string"}},
    ],
)
def test_a_tool_that_takes_any_field_gets_all(parameters: dict[str, object]) -> None:
    anything = ToolSpec("submit_action", "", parameters)  # type: ignore[arg-type]
    assert without_added(SENT, [offer("wait_for_previous")], anything) == SENT


def test_a_field_of_any_form_of_the_tool_is_its_own() -> None:
    forms = [{"properties": {"wait_for_previous": {}}}, {"properties": ORDERS}]
    either = ToolSpec("submit_action", "", {"anyOf": forms})  # type: ignore[dict-item]
    assert without_added(SENT, [offer("wait_for_previous", "x")], either) == SENT
    assert json.loads(without_added('{"x": 1}', [offer("x")], either)) == {}
