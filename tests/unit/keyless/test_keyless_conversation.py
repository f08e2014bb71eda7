"""What a model of rules reads of a conversation: the documents whose text is shown."""

from __future__ import annotations

from ktdeval.harness import Message, ModelRequest
from ktdeval.keyless import Conversation
from shown_states import with_state

FULL = '{"columns":["kind","title","text"],"rows":[["news","Rain","It rained."]]}'
REMEMBERED = '{"columns":["kind","memory"],"rows":[["news","M7"],["news","M8"]]}'
MEMORIES = "## Short-term\n\n- M7: day_+3, news, sentiment positive: It rained: twice."


def read(news: str, more: str = "") -> Conversation:
    """Return a conversation whose day shows some documents."""
    prompt = f'A day.\n\n```json\n{{"news":{news}}}\n```\n\n{more}'
    messages = (Message("system", "s"), Message("user", prompt), Message("user", "Decide."))
    return Conversation(with_state(ModelRequest(messages)))


def test_a_document_has_the_text_of_its_table() -> None:
    assert read(FULL).documents == [{"kind": "news", "title": "Rain", "text": "It rained."}]


def test_a_document_has_the_text_of_its_memory_and_is_absent_without_one() -> None:
    (document,) = read(REMEMBERED, MEMORIES).documents
    assert document["text"] == "It rained: twice."
    assert document["kind"] == "news"
    assert read(REMEMBERED).documents == []
