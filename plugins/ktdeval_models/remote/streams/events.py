"""Server-sent events of a body that arrives in pieces, cut anywhere.

Source: "Server-sent events" of the HTML standard, § 9.2.6 (interpreting an event stream).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event. `name` is `message` where the stream names none."""

    name: str
    data: bytes


class EventReader:
    """Reads the events of one body. Comments, ids and waits before a reconnection are passed over.

    An event at the end of the body counts without its empty line, too: some servers leave it out.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the line that has not ended
        self._ends_with_return = False  # whether the last line ended with a CR, and LF may follow
        self._is_begin = True
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the events that end in the next bytes of the body."""
        if self._ends_with_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        if not chunk:
            return

        self._ends_with_return = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk)
        for line in lines:
            whole = b"".join((*self._pieces, line))
            self._pieces.clear()
            yield from self._read(whole)

        if rest:
            self._pieces.append(rest)

    def end(self) -> Iterator[StreamEvent]:
        """Yield the event that the end of the body ends."""
        if self._pieces:
            whole = b"".join(self._pieces)
            self._pieces.clear()
            yield from self._read(whole)

        yield from self._read(b"")

    def _read(self, line: bytes) -> Iterator[StreamEvent]:
        """Read one line; an empty one ends an event."""
        if self._is_begin:
            self._is_begin = False
            line = line.removeprefix(_BYTE_ORDER_MARK)

        if not line:
            if self._data:
                yield StreamEvent(self._name or "message", b"\n".join(self._data))
            self._name = ""
            self._data = []
            return

        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
