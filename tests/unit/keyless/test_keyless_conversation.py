"""What a model of rules reads of a conversation: the documents whose text is shown."""

from __future__ import annotations

from ktdeval.harness import Message, ModelRequest, ToolCall
from ktdeval.keyless import Conversation
from support.tasks.shown_states import with_state

REMEMBERED = '{"columns":["kind","memory"],"rows":[["news","M7"],["news","M8"]]}'
MEMORIES = "## Short-term\n\n- M7: day_+3, news, sentiment positive: It rained: twice."


def read(news: str, more: str = "") -> Conversation:
    """Return a conversation whose day shows some documents."""
    prompt = f'A day.\n\n```json\n{{"news":{news}}}\n```\n\n{more}'
    messages = (Message("system", "s"), Message("user", prompt), Message("user", "Decide."))
    return Conversation(with_state(ModelRequest(messages)))


def test_a_document_has_the_text_of_its_memory_and_is_absent_without_one() -> None:
    (document,) = read(REMEMBERED, MEMORIES).documents
    assert document["text"] == "It rained: twice."
    assert document["kind"] == "news"
    assert read(REMEMBERED).documents == []


def looked_up(*answers: str) -> Conversation:
    """Return a conversation in which a tool was called as often as it has answers."""
    messages = [Message("user", "Decide.")]
    for number, answer in enumerate(answers):
        call = ToolCall(f"call_{number}", "screen_candidates", "{}")
        messages.append(Message("assistant", "", (call,)))
        messages.append(Message("tool", answer, tool_call_id=call.id))

    return Conversation(ModelRequest(tuple(messages)))


def test_the_latest_result_of_a_tool_counts_and_an_unreadable_one_is_empty() -> None:
    first = '{"candidates":{"columns":["stock_id"],"rows":[["asset_0001"]]}}'
    second = '{"candidates":{"columns":["stock_id"],"rows":[["asset_0002"],["asset_0003"]]}}'
    asked = looked_up(first, second)

    rows = asked.result_rows("screen_candidates", "candidates")
    assert [row["stock_id"] for row in rows] == ["asset_0002", "asset_0003"]
    assert asked.result("screen_candidates")["candidates"]["columns"] == ["stock_id"]
    assert asked.result("compare_candidates") == {}
    assert asked.result_rows("screen_candidates", "equal") == ()
    assert looked_up(first, "no JSON").result_rows("screen_candidates", "candidates") == ()
