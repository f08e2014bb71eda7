"""A person at a terminal: what is shown, and what lines do."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from inline_snapshot import snapshot

from ktdeval.harness import NO_TOOL, Message, ModelRequest, ToolCall, ToolSpec
from ktdeval.observation import state_of_values
from ktdeval_human.person import Act, Called, PersonWords
from ktdeval_human.shown import DrawnLine, show_request
from ktdeval_human.terminal import Terminal, spark

SNAPSHOT = ToolSpec(
    "snapshot",
    "One stock.\n\nPrices are unadjusted.",
    {
        "type": "object",
        "properties": {
            "stock_id": {"type": "string", "description": "the stock."},
            "lookback": {"type": "integer", "minimum": 1, "maximum": 120, "default": 20},
        },
        "required": ["stock_id"],
        "additionalProperties": False,
    },
)
SUBMIT = ToolSpec(
    "submit_action",
    "Submits.",
    {
        "type": "object",
        "properties": {
            "orders": {
                "type": "array",
                "items": {
                    "anyOf": [
                        {
                            "type": "object",
                            "properties": {
                                "stock_id": {"type": "string"},
                                "target_weight": {"type": "number", "maximum": 1},
                            },
                            "required": ["stock_id", "target_weight"],
                            "additionalProperties": False,
                        },
                        {
                            "type": "object",
                            "properties": {
                                "stock_id": {"type": "string"},
                                "shares": {"type": "integer", "minimum": 1},
                            },
                            "required": ["stock_id", "shares"],
                            "additionalProperties": False,
                        },
                    ]
                },
            },
            "overall_reason": {"type": "string", "minLength": 3},
        },
        "required": ["orders", "overall_reason"],
    },
)
STATE = state_of_values(
    {
        "day": "day_+3",
        "account": {"cash_cny": 12500, "positions_held": 0},
        "positions": {"columns": ["stock_id", "weight"], "rows": [["asset_7", 0.25]]},
    }
)
REQUEST = ModelRequest(
    (
        Message("system", "Hold at most 20 stocks."),
        Message("user", f"Day three.\n\n```json\n{STATE.text}\n```"),
    ),
    tools=(SNAPSHOT, SUBMIT),
    submit_tool="submit_action",
    step=3,
    state=STATE,
)


def typed(*lines: str, request: ModelRequest = REQUEST) -> tuple[Act, str]:
    """What lines do at a moment, and what the terminal showed."""
    out = io.StringIO()
    terminal = Terminal(io.StringIO("".join(f"{line}\n" for line in lines)), out, width=80)
    return terminal.ask(show_request(request)), out.getvalue()


def said(*lines: str, request: ModelRequest = REQUEST) -> str:
    """What the terminal showed until the end of the lines."""
    out = io.StringIO()
    terminal = Terminal(io.StringIO("".join(f"{line}\n" for line in lines)), out, width=80)
    with pytest.raises(KeyboardInterrupt):
        terminal.ask(show_request(request))
    return out.getvalue()


# ==== what is shown


def test_a_day_is_shown_as_facts_and_tables() -> None:
    assert said() == snapshot("""\

========================================================================
Step 4 · day_+3

Day three.
  day: day_+3

account
  cash_cny: 12,500 · positions_held: 0

positions
stock_id  weight
asset_7     0.25

Type `rules` to read the rules, `help` for all commands.
> \
""")


def test_a_command_answers() -> None:
    lines = ("rules", "tools", "results", "ticket", "drop 1", "dance", "7")

    assert said(*lines).removeprefix(said()) == snapshot("""\
Hold at most 20 stocks.
>   1 snapshot: One stock.
> nothing was looked up in this step
> orders: none
> ! drop: the ticket has no rows yet; add one first
> ! 'dance' is neither a command nor a tool; type `help` or `tools`
> ! '7' is neither a command nor a tool; type `help` or `tools`
> \
""")


def test_what_a_mask_would_not_print_is_no_command_of_the_terminal() -> None:
    """Texts of the market may hold control characters, which a terminal would obey."""
    request = replace(REQUEST, messages=(Message("user", "Title \x1b]0;x\x07 done"),), state=None)

    assert "\x1b" not in said(request=request)


def test_why_a_submission_was_refused_is_shown() -> None:
    request = replace(
        REQUEST,
        messages=(
            *REQUEST.messages,
            Message("assistant", "", (ToolCall("1", "submit_action", "{}"),)),
            Message("tool", "Order 1 breaks rule 8.", tool_call_id="1"),
        ),
        tool_choice="submit_action",
    )

    assert "! Order 1 breaks rule 8." in said(request=request).splitlines()


def test_a_line_is_bars_from_the_lowest_to_the_highest() -> None:
    assert spark(DrawnLine("close", (10.0, 12.0, 17.0))) == "10 ▁▃█ 17"
    assert spark(DrawnLine("close", (5.0, 5.0, 5.0))) == "5 ▅▅▅ 5"


# ==== what lines do


@pytest.mark.parametrize("name", ["snapshot", "1"])
def test_a_tool_is_called_by_name_or_number(name: str) -> None:
    act, _ = typed(name, "asset_7", "5")

    assert act == Called("snapshot", '{"stock_id": "asset_7", "lookback": 5}')


def test_an_argument_left_out_is_not_sent() -> None:
    act, _ = typed("snapshot", "asset_7", "")

    assert act == Called("snapshot", '{"stock_id": "asset_7"}')


def test_a_wrong_argument_is_asked_for_again_and_costs_nothing() -> None:
    act, shown_text = typed("snapshot", "", "asset_7", "500", "50")

    assert act == Called("snapshot", '{"stock_id": "asset_7", "lookback": 50}')
    assert "  ! lookback: 500 is greater than the maximum of 120 (.. gives up)" in shown_text


def test_a_submission_needs_a_yes() -> None:
    act, _ = typed("hold", "no change", "n", "hold", "stay put", "maybe", "y")

    assert act == Called("submit_action", '{"orders": [], "overall_reason": "stay put"}')


def test_a_row_taken_off_is_not_submitted() -> None:
    act, _ = typed("order", "asset_7", "0.05", "drop 1", "submit", "nothing", "y")

    assert act == Called("submit_action", '{"orders": [], "overall_reason": "nothing"}')


def test_a_form_can_be_given_up() -> None:
    text = said("order", "..", "ticket")

    assert text.endswith("given up\n> orders: none\n> ")


def test_words_are_asked_for_where_no_tool_is_on_offer() -> None:
    act, _ = typed("It rises", "because.", ".", request=replace(REQUEST, tool_choice=NO_TOOL))

    assert act == PersonWords("It rises\nbecause.")


def test_words_of_a_form_are_asked_for_again() -> None:
    schema = {"type": "object", "required": ["score"]}
    request = replace(REQUEST, tool_choice=NO_TOOL, response_schema=schema)

    act, shown_text = typed("five", ".", "{}", ".", '{"score": 5}', ".", request=request)

    assert act == PersonWords('{"score": 5}')
    assert "! expected JSON" in shown_text
    assert "! 'score' is a required property" in shown_text


@pytest.mark.parametrize("lines", [["q"], ["order", "asset_7"], []])
def test_q_and_the_end_of_the_input_leave(lines: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        typed(*lines)


def test_the_ticket_is_kept_within_a_step_and_new_in_the_next() -> None:
    lines = ("order", "asset_7", "0.05", "1", "asset_7", "", "ticket", "1", "asset_7", "", "ticket")
    out = io.StringIO()
    terminal = Terminal(io.StringIO("".join(f"{line}\n" for line in lines)), out, width=80)

    terminal.ask(show_request(REQUEST))
    terminal.ask(show_request(REQUEST))
    before = out.getvalue()
    with pytest.raises(KeyboardInterrupt):
        terminal.ask(show_request(replace(REQUEST, step=4)))

    assert "asset_7" in before[before.rindex("stock_id  target_weight") :]
    assert out.getvalue().endswith("orders: none\n> ")
