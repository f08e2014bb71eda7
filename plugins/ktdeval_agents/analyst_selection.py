"""The planner of a team, which chooses the day's analysts with a forced tool call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from ktdeval.harness import Message, StepSession, ToolSpec, ask_forced

CHOOSE = "choose_analysts"  #: Name of the planner's tool
_DESCRIPTION = "Choose the analysts that are asked today. Call it once."


@dataclass(frozen=True)
class AnalystChoice:
    """Analysts for a day. `is_made` is True if the planner chose them. If it is False, the planner
    gave no valid answer, and all analysts speak.
    """

    analysts: tuple[str, ...]
    reason: str
    is_made: bool = True


def choice_tool(analysts: Sequence[str]) -> ToolSpec:
    """Return the tool with which a planner chooses among the given analysts."""
    return ToolSpec(
        CHOOSE,
        _DESCRIPTION,
        {
            "type": "object",
            "properties": {
                "analysts": {
                    "type": "array",
                    "items": {"type": "string", "enum": [*analysts]},
                    "minItems": 1,
                    "maxItems": len(analysts),
                },
                "reason": {"type": "string"},
            },
            "required": ["analysts", "reason"],
            "additionalProperties": False,
        },
    )


def choose(messages: list[Message], session: StepSession, analysts: Sequence[str]) -> AnalystChoice:
    """Ask a planner for its choice. If the choice is not valid, ask again with feedback.

    Each failed attempt is counted as `bad_choice`. If no attempt is valid, `no_choice` is counted
    and all analysts speak. Raises ModelError if the model call failed.
    """
    answer = ask_forced(messages, session, choice_tool(analysts), "bad_choice")
    if answer is None:
        session.count_failure("no_choice")
        return AnalystChoice(tuple(analysts), "", is_made=False)

    named = cast("list[str]", answer["analysts"])
    chosen = tuple(analyst for analyst in analysts if analyst in named)
    return AnalystChoice(chosen, " ".join(str(answer["reason"]).split()))
