"""Server-sent events in a body that arrives in pieces, which may be split anywhere.

Source: "Server-sent events" in the HTML standard, § 9.2.6 (interpreting an event stream).
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass
from io import IncrementalNewlineDecoder

_AS_THEY_ARE = "surrogateescape"  # bytes that are not UTF-8 are kept for the parser of the data


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event. `name` is `message` if the stream gives none."""

    name: str
    data: bytes


class EventReader:
    """Reads the events in one body. Comments, ids and reconnection times are ignored. No blank line
    is needed after the last event, because some servers omit it.
    """

    def __init__(self) -> None:
        utf_8 = getincrementaldecoder("utf-8-sig")(_AS_THEY_ARE)
        self._decoder = IncrementalNewlineDecoder(utf_8, translate=True)
        self._pieces: list[str] = []  # pieces of the unfinished event
        self._end = ""  # last character of the pieces

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the events completed by the next bytes of the body."""
        text = self._decoder.decode(chunk)
        self._pieces.append(text)
        # Pieces are joined only once an event is over. For a long event, joining them at every line
        # would take quadratic time.
        is_event_over = "\n\n" in self._end + text
        self._end = text[-1:] or self._end
        if is_event_over:
            *blocks, rest = "".join(self._pieces).split("\n\n")
            self._pieces = [rest]
            yield from _events_in(blocks)

    def end(self) -> Iterator[StreamEvent]:
        """Yield the last event, which the end of the body completes."""
        last = self._decoder.decode(b"", final=True)
        yield from _events_in("".join((*self._pieces, last)).split("\n\n"))


def _events_in(blocks: list[str]) -> Iterator[StreamEvent]:
    """Yield the event of each block of lines; blocks without data are skipped."""
    for block in blocks:
        name = ""
        data = []
        for line in block.split("\n"):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                data.append(value)
            elif field == "event":
                name = value

        if data:
            content = "\n".join(data).encode("utf-8", _AS_THEY_ARE)
            yield StreamEvent(name or "message", content)
