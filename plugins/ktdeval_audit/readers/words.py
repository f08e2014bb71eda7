"""Words that identify the author of a text, and keys that contain texts.

Only the letters of words are compared, in lower case, so `SystemMessage`, `system_message` and
`system-message` are equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, TypeVar

from ktdeval.values import JsonValue
from ktdeval_audit.log_types import Role

Part = Literal["system", "prompt", "body", "content", "shown", "call", "result", "reply"]
"""Meaning of an object's key, in the order in which an object is read.

`body`: the request or envelope around messages. `shown`: a report that an agent was given.
"""
Meaning = TypeVar("Meaning", Role, Part)
PARTS: tuple[Part, ...] = (
    "system",
    "body",
    "prompt",
    "shown",
    "content",
    "call",
    "result",
    "reply",
)

_ROLE_KEYS = ("role", "from", "type", "source", "author", "sender", "speaker", "part_kind", "kind")
_ROLE_WORDS: Mapping[Role, str] = {
    "prompt": "system developer user human instruction systemprompt userprompt request",
    "tool": "tool function ipython environment observation",
    "reply": "assistant ai model gpt bot chatbot chatgpt gemini agent response",
}
_PART_WORDS: Mapping[Part, str] = {
    "system": "system systemprompt systeminstruction systeminstructions systemmessage instructions"
    " baseinstructions",
    "body": "request body params kwargs payload data",
    "prompt": "messages conversation conversations history chathistory contents newmessages"
    " inputmessages transcript trajectory turns dialogue dialog steps prompt prompts userprompt"
    " usermessage input inputs question query instruction llmrequest",
    "content": "content parts text value message messagecontent reasoningcontent reasoning thinking"
    " thoughts thought description summary blocks refusal",
    "reply": "response responses completion completions output outputs choices candidates"
    " generations reply answer result modeloutput outputmessages llmresponse llmoutput",
}
_PAIRS = ({"chosen", "rejected"}, {"preferred", "dispreferred"}, {"preferred", "rejected"})
#: keys of the part `content` that hold what somebody said, not what a setting is for
_SAID_KEYS = frozenset(
    {
        *("content", "parts", "text", "value", "message", "messagecontent", "reasoningcontent"),
        *("reasoning", "thinking", "thoughts", "thought", "blocks", "refusal"),
    }
)
_INSTRUCTORS = ("system", "developer")
_SUFFIX = re.compile(r"(?<=[a-z])message(?:chunk)?$")
_RESULT = re.compile(
    r"(?:tool|call|function).*(?:results?|outputs?|response|return|execution)$|^observations?$"
)
_CALL = re.compile(r"(?:tool|function|shell|mcp|search|computer).*(?:calls?|use|requests?)$")
_STATE_PARTS: tuple[tuple[Part, re.Pattern[str]], ...] = (
    ("shown", re.compile(r"reports?$")),
    ("reply", re.compile(r"(?:decision|plan|proposal|debatestate|history|response|rationale)$")),
)


@lru_cache(4096)
def plain_word(text: str) -> str:
    """Return only the letters of a word, in lower case."""
    return re.sub(r"[^a-z]", "", text.lower())


def _by_word(lists: Mapping[Meaning, str]) -> dict[str, Meaning]:
    meanings: dict[str, Meaning] = {}
    for meaning, words in lists.items():
        meanings |= dict.fromkeys(words.split(), meaning)
    return meanings


_ROLES = _by_word(_ROLE_WORDS)
_PARTS = _by_word(_PART_WORDS)


def kind_of(value: Mapping[str, JsonValue]) -> str:
    """Return an object's stated type as a plain word, or an empty string if no type is stated."""
    for key in ("type", "part_kind"):
        kind = value.get(key)
        if isinstance(kind, str):
            return plain_word(kind)
    return ""


def role_of(value: Mapping[str, JsonValue]) -> Role | None:
    """Return the author of a message, or None if the message has no known role."""
    for key in _ROLE_KEYS:
        word = value.get(key)
        if isinstance(word, Mapping):
            word = word.get("role")
        if not isinstance(word, str):
            continue

        plain = plain_word(word)
        role = _ROLES.get(_SUFFIX.sub("", plain))
        if role is not None:
            return role
        if is_result(plain):
            return "tool"
        if is_call(plain):
            return "reply"
    return None


def is_result(word: str) -> bool:
    """Return whether a plain word denotes the result of a tool, as `tool_result` or
    `functionResponse` does.
    """
    return _RESULT.search(word) is not None


def is_call(word: str) -> bool:
    """Return whether a plain word denotes a call of a tool, as `tool_use` or `functionCall`
    does.
    """
    return _CALL.search(word) is not None


@lru_cache(4096)
def part_of(key: str) -> Part | None:
    """Return which part of a log a key contains, or None if it contains no texts."""
    word = plain_word(key)
    if word in _PARTS:
        return _PARTS[word]
    if is_result(word):
        return "result"
    if is_call(word):
        return "call"
    return next((part for part, form in _STATE_PARTS if form.search(word)), None)


def other_kind_of(value: Mapping[str, JsonValue]) -> str:
    """Return what a record holds instead of a decision: `preference pairs` or `settings`. Empty if
    it may hold a decision.

    Settings have instructions for a model, and neither messages, a prompt nor a reply.
    """
    words = set(map(plain_word, value))
    if any(pair <= words for pair in _PAIRS):
        return "preference pairs"

    parts = {part_of(key) for key in value} - {None}
    is_described = bool(parts) and words.isdisjoint(_SAID_KEYS)
    if is_described and role_of(value) is None and parts <= {"system", "content"}:
        return "settings"
    return ""


def without_instructions(value: JsonValue) -> JsonValue:
    """Return a value without the messages and the keys that instruct a model."""
    if isinstance(value, list):
        return [without_instructions(item) for item in value if not _instructs(item)]
    if not isinstance(value, Mapping) or _instructs(value):
        return {} if isinstance(value, Mapping) else value

    kept: dict[str, JsonValue] = {}
    for key, item in value.items():
        if part_of(key) != "system":
            kept[key] = without_instructions(item)
    return kept


def _instructs(value: JsonValue) -> bool:
    word = value.get("role") if isinstance(value, Mapping) else None
    return isinstance(word, str) and plain_word(word) in _INSTRUCTORS


def is_message(value: JsonValue) -> bool:
    """Return whether a value is a chat message, which states its author and contains a text or a
    call.
    """
    if not isinstance(value, Mapping) or role_of(value) is None:
        return False
    return any(part_of(key) not in (None, "shown", "system") for key in value)


def holds_messages(value: JsonValue) -> bool:
    """Return whether an object contains a list of messages, or both a prompt and a reply."""
    if not isinstance(value, Mapping):
        return False
    lists = [item for item in value.values() if isinstance(item, list) and item]
    if any(is_message(messages[0]) for messages in lists):
        return True

    parts = {part_of(key) for key in value}
    return {"prompt", "reply"} <= parts
