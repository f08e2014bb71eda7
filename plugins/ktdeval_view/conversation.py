"""Conversations as stored on pages: the messages of a transcript, with repeated texts replaced by
an index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktdeval.harness import TranscriptEntry
from ktdeval.values import JsonValue, convert_value


class SharedTexts:
    """Texts that repeat on many days, such as system prompts. A page stores each of them once."""

    def __init__(self) -> None:
        self._indices: dict[str, int] = {}

    def index(self, text: str) -> int:
        """Return the index of a text, adding the text if it is new."""
        return self._indices.setdefault(text, len(self._indices))

    def list_texts(self) -> list[JsonValue]:
        """Return the texts in index order."""
        return list(self._indices)


def sent_messages(exchange: Mapping[str, JsonValue]) -> list[dict[str, JsonValue]]:
    """Return the messages of a model call that were not in the previous call."""
    return convert_value(exchange["sent"], list[dict[str, JsonValue]])


def contents_of(talk: TranscriptEntry) -> Iterator[str]:
    """Yield the text of each message in a step's conversation."""
    for exchange in talk.exchanges:
        for message in sent_messages(exchange):
            yield str(message["content"])


def shown_talk(talk: TranscriptEntry, texts: SharedTexts) -> dict[str, JsonValue]:
    """Return the conversation of a step, with each system prompt replaced by the index of its
    text.
    """
    exchanges: list[JsonValue] = []
    for exchange in talk.exchanges:
        messages: list[JsonValue] = []
        for message in sent_messages(exchange):
            if message["role"] == "system":
                index = texts.index(str(message["content"]))
                messages.append({"role": "system", "text": index})
            else:
                messages.append(message)

        exchanges.append({**exchange, "sent": messages})

    return {"submission": talk.submission, "exchanges": exchanges}
