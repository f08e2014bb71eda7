"""What a request shows a person: what it says to a model, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ktdeval.harness import NO_TOOL, Message, ModelRequest, ToolCall, ToolSpec
from ktdeval.observation import state_of_values
from ktdeval.values import JsonValue
from ktdeval_human.shown import DrawnLine, ShownSection, ShownTable, cell, make_table, show_request

SCREEN = ToolSpec("screen", "Ranks names.", {"type": "object", "properties": {}})
SUBMIT = ToolSpec("submit_action", "Submits.", {"type": "object", "properties": {}})
STATE = state_of_values(
    {
        "day": "day_+3",
        "account": {"cash": 12500.5, "is_open": True, "note": None},
        "history": {
            "columns": ["stock_id", "day", "close"],
            "rows": [["a", f"day_-{3 - day}", 10.0 + day] for day in range(3)]
            + [["b", "day_-1", 7.0]],
        },
    }
)
QUESTION = Message("user", f"Day three (step 3).\n\n```json\n{STATE.text}\n```\n\nDecide.")
REQUEST = ModelRequest(
    (Message("system", "Rules hold."), QUESTION),
    tools=(SCREEN, SUBMIT),
    submit_tool="submit_action",
    step=3,
    total_steps=9,
    state=STATE,
)


def after(*messages: Message, **changes: object) -> ModelRequest:
    return replace(REQUEST, messages=(*REQUEST.messages, *messages), **changes)  # type: ignore[arg-type]


def test_a_day_is_facts_and_tables_beside_the_words() -> None:
    moment = show_request(REQUEST)

    assert (moment.title, moment.rules) == ("Step 4 of 9 · day_+3", "Rules hold.")
    assert moment.task == "Day three.\n\nDecide."  # without the prompt's number, which is from 0
    assert moment.sections == (
        ShownSection("", facts=(("day", "day_+3"),)),
        ShownSection("account", facts=(("cash", "12,500.50"), ("is_open", "yes"), ("note", "–"))),
        ShownSection(
            "history",
            tables=(
                ShownTable(
                    "history",
                    ("stock_id", "day", "close"),
                    (
                        ("a", "day_-3", "10.0"),
                        ("a", "day_-2", "11.0"),
                        ("a", "day_-1", "12.0"),
                        ("b", "day_-1", "7.0"),
                    ),
                    (DrawnLine("a close", (10.0, 11.0, 12.0)),),
                ),
            ),
        ),
    )


def test_everything_shown_is_in_the_request() -> None:
    """Each cell and each point of a line is a value of the messages."""
    moment = show_request(REQUEST)

    values = {cell(value) for row in json.loads(STATE.text)["history"]["rows"] for value in row}
    (table,) = moment.sections[-1].tables
    assert {text for row in table.rows for text in row} == values
    assert {cell(value) for line in table.lines for value in line.values} <= values


@pytest.mark.parametrize(
    ("sections", "worth"),
    [
        (
            {"performance": {"portfolio_return_pct": 1.5, "benchmark_return_pct": -0.25}},
            {"portfolio_return_pct": 1.5, "benchmark_return_pct": -0.25},
        ),
        (
            {"performance": {"portfolio_return_pct": 1.5, "benchmark_return_pct": None}},
            {"portfolio_return_pct": 1.5},
        ),
        ({"account": {"nav_cny": 12500.5}}, {"nav": 12500.5}),
        ({"account": {"cash_weight": 1.0}}, {}),
    ],
)
def test_worth_of_the_account_is_that_of_the_state(
    sections: dict[str, JsonValue], worth: dict[str, float]
) -> None:
    state = state_of_values(sections)
    request = replace(REQUEST, messages=(Message("user", state.text),), state=state)

    assert show_request(request).worth == worth


def test_a_row_has_a_cell_for_each_column() -> None:
    table = make_table("odd", {"columns": ["a", "b"], "rows": [[1], [1, 2, 3]]})

    assert table.rows == (("1", ""), ("1", "2"))


def test_feedback_in_json_is_lines() -> None:
    problems = [{"at": "orders[0]", "rule": "universe: no stock has this label"}]
    text = json.dumps({"error": {"kind": "constraint", "problems": problems}})

    moment = show_request(after(Message("user", text)))

    assert moment.notes == ("kind: constraint\norders[0]: universe: no stock has this label",)


def test_a_result_that_is_no_json_is_shown_as_it_is() -> None:
    request = after(
        Message("assistant", "", (ToolCall("1", "screen", "{}"),)),
        Message("tool", "no such name", tool_call_id="1"),
    )

    assert show_request(request).results[0].sections == (
        ShownSection("", facts=(("", "no such name"),)),
    )


@pytest.mark.parametrize(
    ("changes", "tools", "submits", "is_final", "wants_text"),
    [
        ({}, ["screen"], True, False, False),
        ({"tool_choice": "submit_action"}, [], True, True, False),
        ({"tool_choice": "screen"}, ["screen"], False, True, False),
        ({"tool_choice": NO_TOOL}, [], False, False, True),
        ({"tools": (SUBMIT,)}, [], True, True, False),
        ({"tools": ()}, [], False, False, True),
    ],
)
def test_what_is_on_offer_is_what_a_model_may_call(
    changes: dict[str, object], tools: list[str], submits: bool, is_final: bool, wants_text: bool
) -> None:
    moment = show_request(after(**changes))

    assert [tool.name for tool in moment.tools] == tools
    assert (moment.submit is not None, moment.is_final, moment.wants_text) == (
        submits,
        is_final,
        wants_text,
    )


def test_a_question_without_a_state_is_its_words() -> None:
    request = ModelRequest((Message("user", "What is 2 + 3?"),), tools=(SUBMIT,), step=0)

    moment = show_request(replace(request, submit_tool="submit_action"))

    assert (moment.title, moment.task, moment.sections) == ("Step 1", "What is 2 + 3?", ())
