"""Log of commands and events as canonical JSON lines, each with the hash of everything
before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec

from ktdeval.errors import DataError
from ktdeval.values import JsonValue, decode_json, dumps_canonical

# imported for its event types
from ktdeval_qfinzero.pmb import holding_events as holding_events
from ktdeval_qfinzero.pmb.state_events import (
    EVENT_TYPES,
    BrokerEvent,
    BrokerState,
    EventData,
    apply,
)

FORMAT = "qfinzero-broker-log/3"
_START = "0" * 64

Payload = Mapping[str, JsonValue]
LineKind = Literal["header", "command", "event"]


@dataclass(frozen=True, slots=True)
class BrokerLogEntry:
    """One line of a log, without its hash."""

    seq: int  # position in the log, from 0 (the header)
    ts_ns: int  # clock time
    kind: LineKind  # header, command or event
    type: str  # name of the command or event; for the header, the format
    # payload; for an event, its content, which is typed once it is created or applied
    data: Payload | EventData


@dataclass(slots=True)
class EventLog:
    """Log entries so far. Lines and hashes are computed on first use, then cached."""

    entries: list[BrokerLogEntry] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    _hash: str = _START

    def add(
        self, ts_ns: int, kind: LineKind, type: str, data: Payload | EventData
    ) -> BrokerLogEntry:
        """Append an entry, whose data must not change afterwards."""
        entry = BrokerLogEntry(len(self.entries), ts_ns, kind, type, data)
        self.entries.append(entry)
        return entry

    def commands(self) -> Iterator[tuple[str, Payload]]:
        """Names and arguments of the commands."""
        return (
            (entry.type, entry.data)
            for entry in self.entries
            if isinstance(entry.data, Mapping) and entry.kind == "command"
        )

    def events(self, after: int = -1) -> Iterator[BrokerEvent]:
        """Return the events after an entry number."""
        return (_event(entry) for entry in self.entries[after + 1 :] if entry.kind == "event")

    @property
    def last_hash(self) -> str:
        """Hash of the last line, which identifies the whole log: a truncated log has
        another hash.
        """
        self.to_lines()
        return self._hash

    def to_lines(self) -> tuple[str, ...]:
        """Return all lines, without line ends. Equal commands over equal data give equal lines."""
        for entry in self.entries[len(self._lines) :]:
            self._hash, line = _hashed_line(self._hash, entry)
            self._lines.append(line)
        return tuple(self._lines)


def read_lines(lines: Iterable[str]) -> list[BrokerLogEntry]:
    """Return the entries of a log, checked line by line. Raises DataError if a line is malformed,
    missing, out of order or changed.
    """
    entries: list[BrokerLogEntry] = []
    last = _START
    for number, text in enumerate(lines):
        entry, recorded_hash = _read_entry(number, text)
        last, line = _hashed_line(last, entry)
        if entry.seq != number or line != text or recorded_hash != last:
            raise DataError(
                f"broker log line {number + 1}: its hash does not follow from the lines before; it"
                " was changed or moved"
            )
        if (entry.kind == "header") != (number == 0):
            raise DataError(
                f"broker log line {number + 1}: a log has one header, which is its first line"
            )

        entries.append(entry)

    if not entries or entries[0].type != FORMAT:
        raise DataError(f"broker log: expected a first line with the format {FORMAT}")

    return entries


def state_of_log(lines: Iterable[str]) -> BrokerState:
    """Rebuild the state from the events in a log, without commands or market data. Raises DataError
    if the log was changed or was not written by a broker.
    """
    state = BrokerState()
    for entry in read_lines(lines):
        if entry.kind == "event":
            try:
                apply(state, _event(entry))
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise DataError(
                    f"broker log line {entry.seq + 1}: its event does not fit what was before"
                ) from error

    return state


def _event(entry: BrokerLogEntry) -> BrokerEvent:
    data = (
        entry.data
        if isinstance(entry.data, EventData)
        else msgspec.convert(entry.data, EVENT_TYPES[entry.type])
    )
    return BrokerEvent(entry.seq, entry.ts_ns, data)


def _hashed_line(last: str, entry: BrokerLogEntry) -> tuple[str, str]:
    """Return the (hash, line) of an entry, chained to the previous hash."""
    data = msgspec.to_builtins(entry.data) if isinstance(entry.data, EventData) else entry.data
    content = {
        "data": data,
        "kind": entry.kind,
        "seq": entry.seq,
        "ts_ns": entry.ts_ns,
        "type": entry.type,
    }
    digest = hashlib.sha256(f"{last}{dumps_canonical(content)}".encode()).hexdigest()

    return digest, dumps_canonical({**content, "hash": digest})


class _Line(msgspec.Struct):
    seq: int
    ts_ns: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
    kind: LineKind
    type: str
    data: dict[str, JsonValue]
    hash: str


def _read_entry(number: int, text: str) -> tuple[BrokerLogEntry, str]:
    where = (
        f"broker log line {number + 1}: expected one JSON object with seq, ts_ns, kind, type, data"
        " and hash"
    )
    raw = decode_json(text, _Line, where, DataError)
    return BrokerLogEntry(raw.seq, raw.ts_ns, raw.kind, raw.type, raw.data), raw.hash
