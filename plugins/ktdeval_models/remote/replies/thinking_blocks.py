"""Thoughts from earlier turns, for vendors whose Chat Completions protocol expects them: DeepSeek,
Kimi, GLM, MiniMax, gpt-oss and OpenRouter.

Thoughts are sent back in rounds with tool calls, that is, between two user messages; elsewhere they
are not needed (DeepSeek's page "Thinking Mode"). They keep the fields in which they arrived, since
these vendors' own examples append the whole message. The model wrote this text, so it passes
through the leak guard just as arguments do (`Opaque.has_words`). Signed thoughts are sent back in
full or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ktdeval.calls import Caller, ProviderRefusal, one_line
from ktdeval.errors import ProviderError
from ktdeval.harness import Message, Opaque, json_object
from ktdeval.values import dumps_canonical
from ktdeval_models.remote.requests.accepted_forms import FREE, SENT
from ktdeval_models.remote.wire_words import wire_words

THOUGHTS = "thoughts"
"""Request part with two forms, because strict servers refuse the fields of earlier thoughts."""

_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
# fields of a reasoning detail that are not readable text
_SEALED = ("data", "signature", "id", "type", "format")
_IN_CONTENT = "think"  # field for thoughts that came between tags in the content
_WANTS = wire_words("openai")["wants_thoughts"]
_MODELS = re.compile(_WANTS["models"])
_MISSED = re.compile(
    r"reasoning_(content|details)\b.*\b(passed back|missing)"
    r"|missing\b.*\breasoning_(content|details)",
    re.IGNORECASE | re.DOTALL,
)


def wants_thoughts(address: str, name: str) -> bool:
    """Return whether a vendor's protocol expects earlier thoughts. The vendor is known by the
    server's address, or on any server by the model's name.
    """
    if urlsplit(address).hostname in _WANTS["hosts"]:
        return True
    return _MODELS.match(name.rpartition("/")[2].lower()) is not None


def thought_forms(is_sent: bool, is_said: bool) -> Sequence[str]:
    """Return the forms in which earlier thoughts are sent. They are omitted after a refusal, unless
    the user requires them.
    """
    if not is_sent:
        return (FREE,)
    return (SENT,) if is_said else (SENT, FREE)


def kept_thoughts(message: Mapping[str, Any], in_content: str, provider: str) -> Opaque | None:
    """Return the thoughts in a reply's message; None if absent. `in_content`: the thoughts between
    tags in the message's content.
    """
    fields = {name: message[name] for name in _FIELDS if message.get(name)}
    if in_content:
        fields[_IN_CONTENT] = in_content
    if not fields:
        return None

    data = dumps_canonical(fields)
    details = fields.get("reasoning_details")
    if isinstance(details, list) and any(map(_is_sealed, details)):
        return Opaque(provider, data, signed_words="\n\n".join(_words(fields)))
    return Opaque(provider, data, has_words=True)


def _is_sealed(detail: Any) -> bool:
    """Return whether a reasoning detail is signed or encrypted (openrouter.ai/docs, "Reasoning
    tokens").
    """
    return isinstance(detail, dict) and bool(detail.get("signature") or detail.get("data"))


def _words(value: Any, name: str = "") -> Iterator[str]:
    """Yield the readable texts in a value."""
    if isinstance(value, str) and name not in _SEALED:
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _words(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _words(item, name)


def in_tool_rounds(messages: Sequence[Message]) -> list[bool]:
    """Return for each message whether it belongs to a round with calls. A round is the messages
    from one user message to the next.
    """
    rounds = []
    with_calls = set()
    number = 0
    for message in messages:
        if message.role == "user":
            number += 1
        rounds.append(number)
        if message.tool_calls:
            with_calls.add(number)

    return [each in with_calls for each in rounds]


def sends_thoughts(messages: Sequence[Message], provider: str) -> bool:
    """Return whether a request may include thoughts from earlier turns."""
    in_rounds = in_tool_rounds(messages)
    return any(
        is_in_round and thoughts_in(message, provider)
        for message, is_in_round in zip(messages, in_rounds, strict=True)
    )


def thoughts_in(message: Message, provider: str) -> dict[str, Any]:
    """Return the fields with an earlier turn's thoughts; empty if absent."""
    opaque = message.opaque
    if opaque is None or opaque.provider != provider:
        return {}

    fields = json_object(opaque.data)
    return {name: fields[name] for name in (*_FIELDS, _IN_CONTENT) if name in fields}


def add_thoughts(entry: dict[str, Any], message: Message, provider: str) -> None:
    """Add a turn's thoughts to the entry for its message, in the fields in which they arrived."""
    fields = thoughts_in(message, provider)
    in_content = fields.pop(_IN_CONTENT, "")
    entry |= fields
    if in_content:
        thought = f"<think>\n{in_content}\n</think>"
        entry["content"] = "\n\n".join(filter(None, (thought, entry.get("content"))))


def missed_thoughts(refusal: ProviderRefusal, caller: Caller) -> ProviderError | None:
    """Return the error for a refusal that is due to missing earlier thoughts; None for any other
    refusal.
    """
    if _MISSED.search(refusal.message) is None:
        return None

    message = one_line(refusal.message, caller.secrets)
    return ProviderError(
        f"{caller.provider}/{caller.model} requires the thoughts of earlier turns (HTTP"
        f" {refusal.status}: {message}); send them with --model-args send_thoughts=true"
    )
