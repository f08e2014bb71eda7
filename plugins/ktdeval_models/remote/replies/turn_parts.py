"""Parts of a reply in order, for vendors that expect a turn back unchanged: thoughts, and the texts
and calls between them.

A reply's opaque data hold the vendor's own parts unchanged, and the position of each text and call.
Texts and calls themselves are taken from the message that is sent back. Thoughts are not sent to
another model. Thoughts that are bound to the preceding content (`before`) are dropped once the
conversation or the tools have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from ktdeval.harness import Message, Opaque, ToolCall, json_object
from ktdeval.values import JsonValue, dumps_canonical

_DIGITS = 32


@dataclass(frozen=True, slots=True)
class TurnPart:
    """One part of a turn that is sent back. It is a vendor's own part (`kept`), a call, or a text
    with its marks.
    """

    kept: Mapping[str, Any] | None = None
    call: ToolCall | None = None
    text: str = ""
    marks: Mapping[str, Any] = field(default_factory=dict)


class TurnRecord:
    """Parts of one reply, in the order in which they were added: `texts`, `thoughts` and `calls`."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[ToolCall] = []
        self._parts: list[JsonValue] = []
        self._signed_words: list[str] = []
        self._holds_thoughts = False

    def add_thought(self, words: str, kept: Mapping[str, Any] | None = None) -> None:
        """Add a thought. `words`: its readable text; `kept`: the part of the reply that contains
        the thought, if that part is sent back unchanged.
        """
        self.thoughts.append(words)
        if kept is not None:
            self._holds_thoughts = True
            self._parts.append({"kept": dict(kept)})
            if words:
                self._signed_words.append(words)

    def add_text(self, text: str, marks: Mapping[str, Any] | None = None) -> None:
        """Add a text of the reply's content. `marks`: fields that are sent back with the text."""
        self.texts.append(text)
        if marks:
            self._holds_thoughts = True
        self._parts.append({"text": len(text), "marks": dict(marks or {})})

    def add_call(self, call: ToolCall) -> None:
        """Add a call."""
        self.calls.append(call)
        self._parts.append({"call": True})

    def opaque(self, provider: str, model: str, before: str = "") -> Opaque | None:
        """Return the parts as opaque data; None if no part must be sent back."""
        if not self._holds_thoughts:
            return None
        data = dumps_canonical({"before": before, "model": model, "parts": self._parts})
        return Opaque(provider, data, signed_words="\n\n".join(self._signed_words))


def parts_of_turn(
    message: Message, provider: str, model: str, before: str = "", between: str = ""
) -> list[TurnPart] | None:
    """Return the parts of an earlier turn in order. `between`: separator between the texts in the
    content.

    None if the parts can't be sent back: the turn came from another model, the content before it
    differs from `before`, or its texts or calls differ from the reply's.
    """
    opaque = message.opaque
    if opaque is None or opaque.provider != provider:
        return None

    kept = json_object(opaque.data)
    if (kept.get("model"), kept.get("before")) != (model, before):
        return None

    places = kept["parts"]
    texts = _cut(message.content, places, between)
    calls = [place for place in places if "call" in place]
    if texts is None or len(calls) != len(message.tool_calls):
        return None
    return list(_fill_places(places, texts, message.tool_calls))


def _fill_places(
    places: Sequence[Mapping[str, Any]], texts: Sequence[str], calls: Sequence[ToolCall]
) -> Iterator[TurnPart]:
    next_text = iter(texts)
    next_call = iter(calls)
    for place in places:
        if "kept" in place:
            yield TurnPart(kept=place["kept"])
        elif "call" in place:
            yield TurnPart(call=next(next_call))
        else:
            yield TurnPart(text=next(next_text), marks=place["marks"])


def _cut(content: str, places: Sequence[Mapping[str, Any]], between: str) -> list[str] | None:
    """Split content into its texts; None if their lengths do not add up to its length. A single
    text may have changed if no part that is sent back unchanged follows it, since it is the whole
    content.
    """
    lengths = [place["text"] for place in places if "text" in place]
    is_same = sum(lengths) + len(between) * max(len(lengths) - 1, 0) == len(content)
    if not is_same and (len(lengths) != 1 or _keeps_after_text(places)):
        return None
    if len(lengths) == 1:
        return [content]

    texts = []
    start = 0
    for length in lengths:
        texts.append(content[start : start + length])
        start += length + len(between)
    return texts


def _keeps_after_text(places: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a part that is sent back unchanged follows a text."""
    has_text = False
    for place in places:
        has_text = has_text or "text" in place
        if has_text and "kept" in place:
            return True
    return False


def prefix_digests(tools: JsonValue, messages: Sequence[Message]) -> list[str]:
    """Return one digest for the content before each message, and one for everything: tools and
    messages.
    """
    state = sha256(dumps_canonical(tools).encode("utf-8", "surrogatepass"))
    digests = [state.hexdigest()[:_DIGITS]]
    for message in messages:
        text = dumps_canonical(message.to_json())
        state.update(text.encode("utf-8", "surrogatepass"))
        digests.append(state.hexdigest()[:_DIGITS])
    return digests
