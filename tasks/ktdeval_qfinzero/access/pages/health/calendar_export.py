"""Economic calendar as a table (CSV) and as a calendar that other programs subscribe to (ICS,
RFC 5545). Titles and sources are foreign text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from ktdeval.values import sha256_hex, without_formula
from ktdeval_qfinzero.esp.answers import EventShown

COLUMNS: Final = (
    "time_utc", "title", "country", "market", "importance", "status", "outcome", "source",
    "event_id",
)  # fmt: skip
_FOLD_BYTES: Final = 75
_PRIORITY: Final = {"high": 1, "medium": 5, "low": 9}


def to_csv(events: Sequence[EventShown]) -> str:
    """Return events as CSV (RFC 4180), a row each. A text that a spreadsheet would take for a
    formula begins with an apostrophe.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for event in events:
        texts = (
            event.title,
            event.country or "",
            event.market,
            event.importance,
            event.status,
            event.snippet,
            event.source,
            event.event_id,
        )
        writer.writerow([event.time_utc, *map(without_formula, texts)])

    return stream.getvalue()


def to_ics(events: Sequence[EventShown], name: str) -> str:
    """Return events as a calendar, an entry without length each. Equal events give equal text."""
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//ktdeval//QFinZero economic calendar//EN",
        f"X-WR-CALNAME:{_escape_text(name)}",
    ]
    for event in events:
        lines += _event_lines(event)

    lines.append("END:VCALENDAR")

    folded: list[str] = []
    for line in lines:
        folded += _fold_line(line)

    return "".join(f"{piece}\r\n" for piece in folded)


def _event_lines(event: EventShown) -> list[str]:
    moment = _stamp(event.time_utc)
    about = [event.snippet, f"status: {event.status}", f"source: {event.source}"]
    return [
        "BEGIN:VEVENT",
        f"UID:{sha256_hex(event.event_id)[:32]}@ktdeval",
        f"DTSTAMP:{moment}",
        f"DTSTART:{moment}",
        f"SUMMARY:{_escape_text(event.title)}",
        f"DESCRIPTION:{_escape_text(chr(10).join(filter(None, about)))}",
        f"CATEGORIES:{_escape_text(event.market)}",
        f"PRIORITY:{_PRIORITY[event.importance]}",
        "END:VEVENT",
    ]


def _stamp(time_utc: str) -> str:
    moment = datetime.fromisoformat(time_utc).astimezone(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}"


def _escape_text(text: str) -> str:
    """Return a text value: backslash, semicolon, comma and line breaks are escaped, and other
    control characters left out.
    """
    for sign, escape in (("\\", "\\\\"), (";", "\\;"), (",", "\\,"), ("\r\n", "\n")):
        text = text.replace(sign, escape)

    kept = "".join(sign for sign in text if sign.isprintable() or sign == "\n")
    return kept.replace("\n", "\\n")


def _fold_line(line: str) -> Iterator[str]:
    """Yield a line in pieces of at most 75 bytes; each but the first begins with a space."""
    piece = ""
    size = 0
    for sign in line:
        length = len(sign.encode())
        if size + length > _FOLD_BYTES:
            yield piece
            piece, size = " ", 1

        piece += sign
        size += length

    yield piece
