"""Reused prefix of recorded calls, against examples worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval.calls import common_prefix
from ktdeval.errors import StoreError
from ktdeval.harness import TranscriptEntry
from ktdeval_agents.prompt_prefix_reuse import (
    EarlierRequests,
    ReusedPrefix,
    calls_with_prefix,
    request_text,
)


def call(*sent: str, kept: int = 0, tools: tuple[str, ...] = ()) -> dict[str, Any]:
    """A recorded call; the first message that is sent is the system's, if none is kept."""
    roles = ["user"] * len(sent)
    if not kept:
        roles[0] = "system"

    messages = [{"role": role, "content": text} for role, text in zip(roles, sent, strict=True)]

    request = {"kept": kept, "sent": messages, "tools": list(tools), "tool_choice": None, "seed": 0}
    return {**request, "error": "timeout"}


def measured(*steps: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """Characters, and those reused in the step and in the episode, of each call."""
    transcript = [
        TranscriptEntry(step=number, exchanges=tuple(calls), submission=None)
        for number, calls in enumerate(steps)
    ]
    calls = calls_with_prefix(transcript, "run")

    return [(reused.characters, reused.in_step, reused.in_episode) for _, reused in calls]


def test_a_tool_of_another_schema_ends_the_prefix_until_the_step_ends() -> None:
    first = {**call("rules", tools=("submit",)), "schemas": {"submit": {"enum": ["A"]}}}
    other = {**first, "schemas": {"submit": {"enum": ["B"]}}}
    same = call("rules", tools=("submit",))
    steps = measured([first, other, same], [same, same])
    whole = len('submit {"enum":["A"]}\n') + 36

    assert [size for size, _, _ in steps] == [whole, whole, whole, 7 + 36, 7 + 36]
    assert [in_step for _, in_step, _ in steps] == [0, len('submit {"enum":["'), whole, 0, 7 + 36]


def test_messages_of_the_call_before_are_those_that_the_record_leaves_out() -> None:
    whole = [call("rules", "day"), call("rules", "day", "now")]
    short = [whole[0], call("now", kept=2)]
    assert measured(whole) == measured(short)
    assert measured(short)[1] == (36 + 32 + 32, 36 + 32, 36 + 32)


def test_a_step_repeats_no_messages_of_the_step_before() -> None:
    with pytest.raises(StoreError, match=r"^run: kept: expected 0 to 0, .* got 2$"):
        measured([call("rules", "day")], [call("now", kept=2)])


def test_figures_of_calls_add_up_to_shares_of_all_characters() -> None:
    total = ReusedPrefix(100, 0, 50) + ReusedPrefix(300, 240, 270)
    assert (total.step_pct, total.episode_pct) == (60.0, 80.0)
    assert ReusedPrefix().step_pct is None
    assert ReusedPrefix().episode_pct is None


def test_the_neighbours_in_order_share_the_longest_prefix() -> None:
    texts = [f"{number:b}" for number in range(1, 200)]
    earlier = EarlierRequests()
    for index, text in enumerate(texts):
        expected = max((common_prefix(text, other) for other in texts[:index]), default=0)
        assert earlier.measure(text).in_step == expected


def test_a_request_is_written_as_canonical_json_a_line_each() -> None:
    message = {"role": "user", "content": "Grüße"}
    assert request_text(["look"], [message]) == 'look\n{"content":"Grüße","role":"user"}\n'
