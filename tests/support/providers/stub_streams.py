"""Unstreamed answers of Chat Completions as the streams that servers make of them: chunks with the
texts in pieces, as bytes cut anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Cut = Callable[[str], Sequence[str]]
"""Cuts a text into pieces, which joined are the text."""


def by_seven(text: str) -> list[str]:
    """Cut after each seven characters."""
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def chunks_of(answer: dict[str, Any], cut: Cut = by_seven) -> Iterator[dict[str, Any]]:
    """Yield the chunks of an answer with one choice: its texts, then its calls side by side, a piece
    of each in turn, then its end and its usage.
    """
    head = {name: answer[name] for name in answer if name not in ("choices", "usage", "object")}
    head["object"] = "chat.completion.chunk"
    (choice,) = answer["choices"]
    message = choice["message"]

    def chunk(delta: dict[str, Any], finish: Any = None) -> dict[str, Any]:
        own = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**head, "choices": [own], "usage": None}

    yield chunk({"role": "assistant", "content": "" if message.get("content") else None})
    for name, value in message.items():
        if isinstance(value, str) and name != "role":
            for piece in cut(value):
                yield chunk({name: piece})

    for delta in _call_deltas(message.get("tool_calls") or (), cut):
        yield chunk({"tool_calls": [delta]})

    yield chunk({}, choice.get("finish_reason"))
    if answer.get("usage") is not None:
        yield {**head, "choices": [], "usage": answer["usage"]}


def _call_deltas(calls: Sequence[Any], cut: Cut) -> Iterator[dict[str, Any]]:
    pieces = []
    for index, call in enumerate(calls):
        function = call["function"]
        named = {"name": function["name"], "arguments": ""}
        yield {"index": index, "id": call["id"], "type": "function", "function": named}
        pieces.append(list(cut(function["arguments"])))

    for turn in range(max(map(len, pieces), default=0)):
        for index, own in enumerate(pieces):
            if turn < len(own):
                yield {"index": index, "function": {"arguments": own[turn]}}


def event_bytes(value: Any) -> bytes:
    """One event, in UTF-8 without escapes, so that a cut may go through a character."""
    text = json.dumps(value, ensure_ascii=False)
    return f"data: {text}\n\n".encode("utf-8", "surrogatepass")


def stream_of(answer: dict[str, Any], cut: Cut = by_seven) -> bytes:
    """The whole body of a stream, with comments between its events."""
    events = [event_bytes(chunk) for chunk in chunks_of(answer, cut)]
    return b": keep-alive\n\n".join([b"", *events, b"data: [DONE]\n\n"])
