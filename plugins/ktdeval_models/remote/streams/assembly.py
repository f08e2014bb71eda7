"""Base class of all assemblers: events go in, pieces reach a listener as they arrive, and one
complete answer comes out at the end.

An assembler builds the JSON that the same API would have sent without streaming. So the same code
reads streamed and unstreamed answers, with the same replies and errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from ktdeval.calls import refused_body
from ktdeval.harness import Listener, ReplyPiece
from ktdeval.values import JsonValue
from ktdeval_models.remote.streams.events import EventReader, StreamEvent
from ktdeval_models.remote.transport import MAX_REPLY_BYTES, BodyError

Loads = Callable[[bytes], JsonValue]
_MAX_STREAM_BYTES = 16 * MAX_REPLY_BYTES  # each event adds about 200 bytes to its token
# fields that are replaced, not appended to
_REPLACED: Final = frozenset(("role", "type", "index", "format"))


class StreamAssembler:
    """Base class of the assemblers. A subclass reads one event in `read`."""

    #: request fields that ask for a stream
    request_fields: Mapping[str, Any] = {"stream": True}
    #: whether only events named `error` are errors
    names_errors = True

    def __init__(self, hear: Listener, loads: Loads) -> None:
        """`loads` parses the JSON of an event, and raises ValueError if the data is not JSON."""
        self.hear = hear
        self.loads = loads
        self._reader = EventReader()
        self.parts = 0  #: number of texts, thoughts, pieces of calls and hidden thoughts so far
        self.is_silent = False  #: whether the model reasons now without a word
        self._size = 0
        self._is_over = False
        self._error: Mapping[str, Any] | None = None

    def read(self, event: StreamEvent, body: dict[str, Any]) -> bool:
        """Read one event that is not an error. Return whether it was the last event."""
        raise NotImplementedError

    def _error_in(self, event: StreamEvent, body: dict[str, Any]) -> Mapping[str, Any] | None:
        """Return the error that an event reports, in the form of an unstreamed error; None if it
        reports no error.
        """
        if "error" in (event.name, body.get("type")):
            return body if body.get("error") else {"error": body}
        if self.names_errors:
            return None
        return refused_body(body)

    def is_end(self, event: StreamEvent) -> bool:  # noqa: ARG002 - of APIs that end with a word
        """Return whether an event without JSON ends the stream."""
        return False

    def is_whole(self) -> bool:
        """Return whether the events so far form a complete reply, though no event has ended the
        stream.
        """
        return False

    def whole(self) -> dict[str, Any]:
        """Return the answer assembled from the events."""
        raise NotImplementedError

    def lacks_usage(self) -> bool:
        """Return whether the stream ended normally but without the requested token counts."""
        return False

    def say(self, kind: Literal["text", "thought"], text: Any) -> None:
        """Pass a non-empty text or thought to the listener."""
        if isinstance(text, str) and text:
            self.parts += 1
            self.hear(ReplyPiece(kind, text))

    def begin_silence(self, is_silent: bool) -> None:
        """Note that hidden reasoning begins, or has ended."""
        if is_silent or self.is_silent:
            self.parts += 1
        self.is_silent = is_silent

    def say_call(self, index: int, arguments: Any, name: Any = "") -> None:
        """Pass another piece of a call to the listener: its arguments, or its name."""
        text = arguments if isinstance(arguments, str) else ""
        more_of_name = name if isinstance(name, str) else ""
        if text or more_of_name:
            self.parts += 1
            self.hear(ReplyPiece("call", text, index, more_of_name))

    def take(self, chunk: bytes) -> bool:
        """Read the next bytes of the body. Return whether the reply has ended. Raises BodyError if
        the bytes do not belong to this API, or if there are too many.
        """
        self._size += len(chunk)
        if self._size > _MAX_STREAM_BYTES:
            raise BodyError(f"the reply is longer than {_MAX_STREAM_BYTES >> 20} MiB")

        return any(self._take_event(event) for event in self._reader.feed(chunk))

    def answer(self) -> bytes:
        """Return the answer as JSON; the answer may be an error. Raises BodyError if the body ended
        before the reply.
        """
        if not self._is_over:
            for event in self._reader.end():
                self._take_event(event)

        if self._error is not None:
            return _as_json(self._error)
        if not self._is_over and not self.is_whole():
            raise BodyError("the reply ends early")

        content = _as_json(self.whole())
        if len(content) > MAX_REPLY_BYTES:
            raise BodyError(f"the reply is longer than {MAX_REPLY_BYTES >> 20} MiB")
        return content

    @property
    def is_uncounted(self) -> bool:
        """True if the reply is complete but has no token counts."""
        return self._error is None and self.lacks_usage()

    def _take_event(self, event: StreamEvent) -> bool:
        if self.is_end(event):
            self._is_over = True
            return True

        body = self._json_of(event)
        self._error = self._error_in(event, body)
        self._is_over = self._error is not None or self.read(event, body)
        return self._is_over

    def _json_of(self, event: StreamEvent) -> dict[str, Any]:
        try:
            body = self.loads(event.data)
        except (ValueError, RecursionError):
            body = None

        if not isinstance(body, dict):
            raise BodyError("an event of the streamed reply is not a JSON object")
        return body


def unheard(_: ReplyPiece) -> None:
    """Hear a piece of a reply that nobody watches."""


def _as_json(value: Any) -> bytes:
    # ASCII, so that the halves of a character that come in two events are joined when parsed
    return json.dumps(value).encode("ascii")


def index_in(body: Mapping[str, Any], name: str) -> int:
    """Return the index in a field of an event; 0 if it is not an integer."""
    index = body.get(name)
    return index if type(index) is int else 0


def object_or_empty(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise an empty object."""
    return value if isinstance(value, dict) else {}


def add_delta(fields: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Merge a piece into an object. Strings, lists and objects grow; other values are replaced. A
    field that is null in all pieces stays null.
    """
    for name, value in delta.items():
        before = fields.get(name)
        # Some servers repeat the whole name, or send a new id with each piece.
        is_repeated = bool(before) and (name == "id" or (name == "name" and value in ("", before)))
        if is_repeated or (value is None and name in fields):
            continue

        is_growing = before is not None and name not in _REPLACED
        if is_growing and isinstance(before, dict) and isinstance(value, dict):
            add_delta(before, value)
        elif is_growing and isinstance(before, str) and isinstance(value, str):
            fields[name] = before + value
        elif is_growing and isinstance(before, str | list) and isinstance(value, str | list):
            fields[name] = [*_as_parts(before), *_as_parts(value)]
        else:
            fields[name] = dict(value) if isinstance(value, dict) else value


def _as_parts(content: str | list[Any]) -> list[Any]:
    """Return content as parts; a string becomes a single part."""
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []
