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


# {"content":"","role":"system"} and a line end have 31 characters, those of a user 29;
# {"content":" has 12.
def test_a_request_is_measured_against_the_earlier_ones_of_its_step_and_of_its_episode() -> None:
    first = [call("rules", "day 1"), call("rules", "day 2")]
    second = [call("rules", "day 2")]

    assert measured(first, second) == [
        (70, 0, 0),
        (70, 36 + 12 + 4, 36 + 12 + 4),
        (70, 0, 70),
    ]


def test_the_longest_prefix_counts_whichever_earlier_request_has_it() -> None:
    calls = [call("abcd"), call("xy"), call("abce"), call("xyz"), call("abcd")]
    assert [in_step for _, in_step, _ in measured(calls)] == [0, 12, 12 + 3, 12 + 2, 35]


def test_a_role_at_the_front_leaves_nothing_to_reuse_and_at_the_end_almost_all() -> None:
    shared = "s" * 1000
    front = measured([call(f"{role}{shared}") for role in "abcd"])
    behind = measured([call(shared, role) for role in "abcd"])

    assert [in_step for _, in_step, _ in front] == [0, 12, 12, 12]
    assert [in_step for _, in_step, _ in behind] == [0, *[1031 + 12] * 3]


def test_each_model_reuses_its_own_requests_alone() -> None:
    other = {**call("rules"), "model": "stub/other"}
    assert [in_step for _, in_step, _ in measured([call("rules"), other, other])] == [0, 0, 36]


def test_tools_come_before_messages() -> None:
    calls = [call("rules"), call("rules", tools=("look", "submit")), call("rules", tools=("look",))]
    assert [in_step for _, in_step, _ in measured(calls)] == [0, 0, len("look\n")]
    same = [call("rules", tools=("look",))] * 2
    assert measured(same)[1] == (5 + 36, 5 + 36, 5 + 36)


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


@pytest.mark.parametrize(("field", "value"), [("kept", "one"), ("sent", 3), ("tools", [1])])
def test_what_is_not_the_record_of_a_call_is_refused_with_its_field(field: str, value: Any) -> None:
    with pytest.raises(StoreError, match=f"^run: exchanges: .*{field}"):
        measured([{**call("rules"), field: value}])


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


def test_the_common_prefix_of_two_texts_ends_where_they_differ() -> None:
    assert [common_prefix(text, "abcd") for text in ("", "x", "ab", "abx", "abcd", "abcde")] == [
        0,
        0,
        2,
        2,
        4,
        4,
    ]


def test_a_request_is_written_as_canonical_json_a_line_each() -> None:
    message = {"role": "user", "content": "Grüße"}
    assert request_text(["look"], [message]) == 'look\n{"content":"Grüße","role":"user"}\n'
