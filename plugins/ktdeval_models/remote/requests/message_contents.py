"""Contents of a Chat Completions message: a single text, or parts of several kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ktdeval.calls import Caller, bad_response
from ktdeval.values import JsonValue
from ktdeval_models.remote.base import parts, text_of

THOUGHTS = ("thinking", "reasoning", "reasoning_text")  # reasoning parts of Mistral and of gateways


@dataclass(frozen=True, slots=True)
class MessageTexts:
    """Texts of a message, one for each kind; empty if absent."""

    content: str = ""
    reasoning: str = ""
    refusal: str = ""


def read_content(said: JsonValue, caller: Caller) -> MessageTexts:
    """Return the texts in a message's contents. Raises ModelError `bad_response` if the contents
    are neither text nor parts, since they must not pass as an empty reply.
    """
    if said is None:
        return MessageTexts()
    if isinstance(said, str):
        return MessageTexts(said)

    content: list[str] = []
    thoughts: list[str] = []
    refusals: list[str] = []

    for piece in parts({"content": said}, "content", caller):
        kind = piece.get("type")
        if kind in THOUGHTS:
            thoughts.append(thought_of(piece))
        elif kind == "refusal":
            refusals.append(text_of(piece.get("refusal")))
        else:
            content.append(_part_text(piece, caller))

    return MessageTexts("".join(content), "".join(thoughts), "".join(refusals))


def thought_of(piece: Mapping[str, Any]) -> str:
    """Return the reasoning in a part whose type is in `THOUGHTS`."""
    fields = ("thinking", "text", "reasoning", "summary")
    texts = (text_of(piece.get(name)) for name in fields)
    return next(filter(None, texts), "")


def _part_text(piece: dict[str, Any], caller: Caller) -> str:
    """Return a part's text; empty for parts without text, such as a citation."""
    text = piece.get("text")
    if text is None:
        return ""
    if not isinstance(text, str):
        raise bad_response(caller, "a part of the reply holds no text where it should")

    return text
