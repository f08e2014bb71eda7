"""Thoughts of earlier turns with tool calls, for vendors whose protocol over Chat Completions wants
them back: DeepSeek, Kimi, GLM and MiniMax.

They go back in the fields in which they came, as these vendors' own examples append a whole message.
They are words of the model, so they pass the leak guard like its arguments (`Opaque.has_words`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ktdeval.calls import Caller, Refusal, one_line
from ktdeval.errors import ProviderError
from ktdeval.harness import Message, Opaque, json_object
from ktdeval.values.strict_json import dumps_canonical
from ktdeval_models.remote.accepted_forms import FREE, SENT
from ktdeval_models.remote.wire_words import wire_words

THOUGHTS = "thoughts"
"""Part of a request that has two forms: strict servers refuse the fields of earlier thoughts."""

_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
_IN_CONTENT = "think"  # thoughts that came within the content, between tags
_WANTS = wire_words("openai")["wants_thoughts"]
_MODELS = re.compile(_WANTS["models"])
_MISSED = re.compile(
    r"reasoning_(content|details)\b.*\b(passed back|missing)"
    r"|missing\b.*\breasoning_(content|details)",
    re.IGNORECASE | re.DOTALL,
)


def wants_thoughts(address: str, name: str) -> bool:
    """Whether a vendor's protocol wants earlier thoughts back, by the server's address or by the
    name of the model, wherever it is served.
    """
    if urlsplit(address).hostname in _WANTS["hosts"]:
        return True
    return _MODELS.match(name.rpartition("/")[2].lower()) is not None


def thought_forms(is_sent: bool, is_said: bool) -> Sequence[str]:
    """Return the forms of earlier thoughts: left out where they are refused, unless the user says
    that they are sent.
    """
    if not is_sent:
        return (FREE,)
    return (SENT,) if is_said else (SENT, FREE)


def kept_thoughts(message: Mapping[str, Any], in_content: str, provider: str) -> Opaque | None:
    """Return the thoughts of a reply's message for its first call; None without any. `in_content`:
    those that stood between tags in its content.
    """
    fields = {name: message[name] for name in _FIELDS if message.get(name)}
    if in_content:
        fields[_IN_CONTENT] = in_content
    if not fields:
        return None
    return Opaque(provider, dumps_canonical(fields), has_words=True)


def thoughts_in(message: Message, provider: str) -> dict[str, Any]:
    """Return the fields that an earlier turn's thoughts came in; empty without any."""
    for call in message.tool_calls:
        kept = call.opaque_of(provider)
        if kept is not None and call.opaque is not None and call.opaque.has_words:
            fields = json_object(kept)
            return {name: fields[name] for name in (*_FIELDS, _IN_CONTENT) if name in fields}

    return {}


def add_thoughts(entry: dict[str, Any], message: Message, provider: str) -> None:
    """Add a turn's thoughts to the entry of its message, where they came."""
    fields = thoughts_in(message, provider)
    in_content = fields.pop(_IN_CONTENT, "")
    entry |= fields
    if in_content:
        thought = f"<think>\n{in_content}\n</think>"
        entry["content"] = "\n\n".join(filter(None, (thought, entry.get("content"))))


def missed_thoughts(refusal: Refusal, caller: Caller) -> ProviderError | None:
    """Return the error for a refusal that misses earlier thoughts; None for any other."""
    if _MISSED.search(refusal.message) is None:
        return None

    message = one_line(refusal.message, caller.secrets)
    return ProviderError(
        f"{caller.provider}/{caller.model} requires the thoughts of earlier turns (HTTP"
        f" {refusal.status}: {message}); send them with --model-args send_thoughts=true"
    )
