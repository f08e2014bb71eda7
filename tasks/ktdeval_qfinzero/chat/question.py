"""A chat turn as a question: its form, its texts, and the record of its answer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ktdeval_qfinzero.live.tool_use_config import LiveConfig
from ktdeval_qfinzero.live.tool_use_question import LiveAnswer, LiveQuestion, read_form

FORM: Final = read_form(Path(__file__).parent)
"""Answer form, whose field holds the text of a reply without calls."""


class ChatAnswer(LiveAnswer, frozen=True):
    """Recorded answer of a turn."""

    answer: str


def turn_question(config: LiveConfig) -> LiveQuestion:
    """Return the question for a chat turn."""
    conversation = config.conversation
    assert conversation is not None
    assert config.most_past_chars is not None
    return LiveQuestion(
        id="turn",
        folder=Path(__file__).parent,
        form=FORM,
        answer_type=ChatAnswer,
        as_of=conversation.as_of,
        words={
            "instruction": conversation.instruction,
            "calls": str(config.harness.max_tool_calls),
        },
        facts={"turn": 1 + len(conversation.turns)},
        max_answer_chars=config.max_answer_chars,
        text_field="answer",
        turns=conversation.turns,
        most_past_chars=config.most_past_chars,
    )
