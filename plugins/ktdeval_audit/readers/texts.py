"""Texts in messages, each with its author and its place, independent of the program that wrote the
messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ktdeval.values import JsonValue, dumps_compact
from ktdeval_audit.log_types import LogText, Role
from ktdeval_audit.readers.fields import first_at, flat_fields
from ktdeval_audit.readers.words import (
    PARTS,
    is_call,
    is_message,
    is_result,
    kind_of,
    part_of,
    plain_word,
    role_of,
)

REPEATS = ("streamevent", "eventmsg", "turncontext", "summary")
"""Types of events that repeat messages, title a session, or contain only settings."""

_ARGUMENTS = (
    "arguments",
    "args",
    "input",
    "parameters",
    "function",
    "tool_call",
    "functionCall",
    "action",
)
_BESIDE_A_RESULT = (
    *("lc", "type", "id", "name", "role", "status", "title", "index", "tool", "toolname"),
    *("toolcallid", "tooluseid", "callid", "sourcecallid", "iserror", "mimetype", "contenttype"),
    *("subagenttrajectoryref", "additionalkwargs", "responsemetadata", "timestamp"),
)
_RESULT_TEXT = re.compile(
    r"\s*(?:tool (?:call )?(?:results?|responses?|outputs?)\b|observations?:|<tool_response>"
    r"|<observation>|function (?:results?|response|output)\b)",
    re.IGNORECASE,
)
_ATTACHMENT = "attachment://"
_SUBAGENTS = "subagent_trajectories"
_REFERENCES = "subagent_trajectory_ref"


class TextReader:
    """Reads the texts that belong to one decision."""

    def __init__(self, line: int | None, attachments: JsonValue = None) -> None:
        self.notes: list[str] = []
        self._line = line
        self._attachments = attachments
        self._subagents: dict[str, JsonValue] = {}  # subagents that have not been read yet
        self._fields: Mapping[str, JsonValue] = {}

    def texts(self, value: JsonValue, role: Role | None, place: str) -> Iterator[LogText]:
        """Yield the texts in a message, in several messages, or in a record that contains messages.

        `role` is the author of texts that do not state their author. If `role` is None, an object
        without a known key has no texts.
        """
        if isinstance(value, str):
            yield from self._text(value, role or "prompt", place)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self.texts(item, role, f"{place}[{index}]")
        elif isinstance(value, Mapping) and kind_of(value) not in REPEATS:
            yield from self._object(value, role, place)

    def whole(self, value: JsonValue, role: Role, place: str) -> Iterator[LogText]:
        """Yield the texts in a value. If the value has no texts, yield the value itself, as JSON
        unless it is a string.
        """
        found = list(self.texts(value, role, place))
        yield from found or self._text(_as_text(value), role, place)

    def results(self, value: JsonValue, place: str) -> Iterator[LogText]:
        """Yield the texts that a tool returned."""
        if isinstance(value, list) and all(map(_is_block, value)):
            for index, item in enumerate(value):
                yield from self.results(item, f"{place}[{index}]")
        elif isinstance(value, Mapping):
            kept = {key: item for key, item in value.items() if _is_returned(key, item)}
            if len(kept) == 1:
                (key,) = kept
                yield from self.results(kept[key], f"{place}.{key}")
            elif kept:
                yield from self._text(_as_text(value), "tool", place)
            yield from self._referred_texts(value)
        else:
            yield from self._text(_as_text(value), "tool", place)

    def _text(self, text: str, role: Role, place: str) -> Iterator[LogText]:
        if text.startswith(_ATTACHMENT) and isinstance(self._attachments, Mapping):
            kept = self._attachments.get(text.removeprefix(_ATTACHMENT))
            text = kept if isinstance(kept, str) else text
        if role == "prompt" and _RESULT_TEXT.match(text):
            role = "tool"
        if text.strip():
            yield LogText(role=role, text=text, place=place, line=self._line, fields=self._fields)

    def _object(
        self, value: Mapping[str, JsonValue], role: Role | None, place: str
    ) -> Iterator[LogText]:
        own = role_of(value)
        kind = kind_of(value)
        inner = _find_envelope(value)
        if inner:
            yield from self.texts(value[inner], own or role, f"{place}.{inner}")
            return
        if is_result(kind):
            yield from self.results(value, place)
            return
        if is_call(kind) or isinstance(value.get("function"), Mapping):
            yield from self._calls(value, place)
            return

        before = self._fields
        if own is not None:
            self._fields = flat_fields(value)

        self._note_what_goes_on_elsewhere(value)
        embedded = self._keep_subagents(value, place)
        for key in sorted(filter(part_of, value), key=_rank):
            yield from self._part(key, value[key], (own, role), _join(place, key))
        for identity in embedded:  # subagents that no step refers to
            yield from self._subagent_texts(identity)

        self._fields = before

    def _part(
        self, key: str, value: JsonValue, roles: tuple[Role | None, Role | None], place: str
    ) -> Iterator[LogText]:
        own, inherited = roles
        part = part_of(key)
        if part == "call":
            yield from self._calls(value, place)
        elif part == "result":
            yield from self.results(value, place)
        elif part == "shown":
            yield from self.texts(value, "tool", place)
        elif part == "system":  # some programs repeat the system message in the reply
            yield from self.texts(value, "prompt", place)
        elif part == "reply":
            # text next to a user or system message is the output of a program
            said: Role = "tool" if "tool" in roles or own == "prompt" else "reply"
            yield from self.whole(value, said, place)
        elif part == "body":
            yield from self.texts(value, own or inherited, place)
        elif plain_word(key) in ("content", "input", "inputs"):
            yield from self.whole(value, own or inherited or "prompt", place)
        else:
            yield from self.texts(value, own or inherited or "prompt", place)

    def _calls(self, value: JsonValue, place: str) -> Iterator[LogText]:
        """Yield the arguments of each call. If a call contains its result, also yield the
        result.
        """
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._calls(item, f"{place}[{index}]")
        elif isinstance(value, Mapping):
            arguments = first_at(value, _ARGUMENTS)
            while isinstance(arguments, Mapping) and any(key in arguments for key in _ARGUMENTS):
                arguments = first_at(arguments, _ARGUMENTS)

            yield from self._text(_as_text(arguments), "reply", place)
            returned = first_at(value, ("result", "output", "response", "state.output"))
            if returned is not None:
                yield from self.results(returned, place)
        elif isinstance(value, str):
            yield from self._text(value, "reply", place)

    # ---- subagents that steps refer to

    def _keep_subagents(self, value: Mapping[str, JsonValue], place: str) -> list[str]:
        embedded: list[str] = []
        subagents = value.get(_SUBAGENTS)
        for index, subagent in enumerate(subagents if isinstance(subagents, list) else ()):
            identity = str(first_at(subagent, ("trajectory_id",)) or f"{place}{index}")
            if identity in self._subagents:  # ATIF does not allow duplicate ids
                identity = f"{identity} #{index}"

            embedded.append(identity)
            self._subagents[identity] = subagent
        return embedded

    def _referred_texts(self, value: Mapping[str, JsonValue]) -> Iterator[LogText]:
        references = value.get(_REFERENCES)
        for reference in references if isinstance(references, list) else ():
            identity = str(first_at(reference, ("trajectory_id", "session_id")))
            path = first_at(reference, ("trajectory_path",))
            if identity in self._subagents:
                yield from self._subagent_texts(identity)
            elif isinstance(path, str):
                self.notes.append(
                    f"A subagent's trajectory is in {path[:80]!r}, which was not read."
                )

    def _subagent_texts(self, identity: str) -> Iterator[LogText]:
        subagent = self._subagents.pop(identity, None)
        yield from self.texts(subagent, None, f"subagent {identity[:40]}")

    def _note_what_goes_on_elsewhere(self, value: Mapping[str, JsonValue]) -> None:
        goes_on = value.get("continued_trajectory_ref")
        if isinstance(goes_on, str):
            self.notes.append(f"A trajectory continues in {goes_on[:80]!r}, which was not read.")


def _rank(key: str) -> int:
    part = part_of(key)
    return PARTS.index(part) if part else len(PARTS)


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _find_envelope(value: Mapping[str, JsonValue]) -> str:
    """Return the key of the message that an object wraps, or an empty string if the object does not
    wrap a message.
    """
    for key in ("message", "payload", "kwargs", "data", "item"):
        inner = value.get(key)
        is_alone = "content" not in value and "role" not in value
        if is_alone and isinstance(inner, Mapping) and _holds_text(inner):
            return key
    return ""


def _holds_text(value: Mapping[str, JsonValue]) -> bool:
    return is_message(value) or "content" in value


def _is_block(value: JsonValue) -> bool:
    """Return whether a list item is a string, or a block with a known key."""
    if isinstance(value, Mapping):
        return bool(
            {"type", "text", "content", "functionResponse", "json", _REFERENCES} & value.keys()
        )
    return isinstance(value, str)


def _is_returned(key: str, value: JsonValue) -> bool:
    return plain_word(key) not in _BESIDE_A_RESULT and value not in (None, "", [], {})


def _as_text(value: JsonValue) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return dumps_compact(value)


def read_each_once(texts: Iterator[LogText] | Sequence[LogText]) -> tuple[LogText, ...]:
    """Return the texts without repeats by the same author. Later calls repeat earlier messages, and
    the log of a chain repeats the messages in its calls.
    """
    first: dict[tuple[Role, str], LogText] = {}
    for text in texts:
        first.setdefault((text.role, text.text), text)
    return tuple(first.values())
