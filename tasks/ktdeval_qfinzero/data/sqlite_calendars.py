"""Calendar events in an SQLite file: a `CalendarStore` whose filters, limit and cut by the clock all run in the query."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ktdeval.api import dumps_canonical, loads_strict
from ktdeval_qfinzero.data.known import as_known, known_moments
from ktdeval_qfinzero.data.row_records import Written, bounded, checked_event, event_of
from ktdeval_qfinzero.data.rows import IMPORTANCE, EventRow
from ktdeval_qfinzero.data.sqlite_files import Layout, check_file, reading, select, upsert, writing
from ktdeval_qfinzero.data.stores import Page, Span, Tags
from ktdeval_qfinzero.data.words import words

LAYOUT: Final = Layout(
    "calendar store",
    0x6B74_6563,
    1,
    (
        """CREATE TABLE events (
            event_id TEXT PRIMARY KEY NOT NULL, event_type TEXT NOT NULL, time_ns INTEGER NOT NULL, announced_ns INTEGER NOT NULL,
            importance INTEGER NOT NULL, country TEXT NOT NULL, market TEXT NOT NULL, words TEXT NOT NULL, record TEXT NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX events_by_date ON events (time_ns, event_id)",
        "CREATE INDEX events_by_type ON events (event_type, time_ns, event_id)",
        "CREATE INDEX events_by_country ON events (country, event_type, time_ns)",
        """CREATE TABLE event_tickers (
            ticker TEXT NOT NULL, time_ns INTEGER NOT NULL, event_id TEXT NOT NULL, PRIMARY KEY (ticker, time_ns, event_id)
        ) WITHOUT ROWID""",
        """CREATE TABLE releases (
            event_id TEXT NOT NULL, number INTEGER NOT NULL, available_ns INTEGER NOT NULL, record TEXT NOT NULL,
            PRIMARY KEY (event_id, number)
        ) WITHOUT ROWID""",
        """CREATE TABLE updates (
            known_ns INTEGER NOT NULL, event_id TEXT NOT NULL, PRIMARY KEY (known_ns, event_id)
        ) WITHOUT ROWID""",
    ),
)
"""Tables: `events.words` are the title's words between spaces; `updates` has the moments at which something about an event became
known; `record` is what no query looks into, as JSON."""

_TYPES = "event_type IN (SELECT value FROM json_each(:types))"
_MARKETS = "market IN (SELECT value FROM json_each(:markets))"
_TICKERS = """event_id IN (SELECT event_id FROM event_tickers
    WHERE ticker IN (SELECT value FROM json_each(:tickers)) AND time_ns >= :start AND time_ns < :end)"""
_TEXT = "NOT EXISTS (SELECT 1 FROM json_each(:words) WHERE instr(events.words, ' ' || value || ' ') = 0)"
_RELEASES = """SELECT event_id, available_ns, record FROM releases
    WHERE event_id IN (SELECT value FROM json_each(?)) AND available_ns <= ? ORDER BY event_id, number"""
_UPDATES = """DELETE FROM updates WHERE event_id = :id AND known_ns IN (
    SELECT announced_ns FROM events WHERE event_id = :id
    UNION SELECT max(announced_ns, available_ns) FROM events JOIN releases USING (event_id) WHERE event_id = :id)"""
_ALL_TIME = Span(0, 2**62)


@dataclass(frozen=True, slots=True)
class SqliteCalendars:
    """A `CalendarStore` in a file that nobody writes while it is read.

    Attributes:
        path: the file.
    """

    path: Path

    def events(self, span: Span, tags: Tags, page: Page, as_of_ns: int) -> Sequence[EventRow]:
        """Events due in the span that stood in the calendar by then, by (time_ns, event_id)."""
        conditions = ["announced_ns <= :as_of", "time_ns >= :start", "time_ns < :end", *_conditions(tags)]
        conditions += ["(time_ns, event_id) > (:after_ns, :after_id)"] if page.after else []
        query = select("event_id, record", "events", conditions) + " ORDER BY time_ns, event_id LIMIT :limit"
        with reading(self.path, LAYOUT) as connection:
            found = connection.execute(query, _values(span, tags, page, as_of_ns)).fetchall()
            return _with_releases(connection, found, as_of_ns)

    def updates(self, tags: Tags, page: Page, as_of_ns: int) -> Sequence[tuple[int, EventRow]]:
        """What became known by then: the moment, and the event as it stood then; by (moment, event_id), the key of pages."""
        conditions = ["known_ns <= :as_of", *_conditions(tags)]
        conditions += ["(known_ns, event_id) > (:after_ns, :after_id)"] if page.after else []
        table = "updates JOIN events USING (event_id)"
        query = select("known_ns, event_id, record", table, conditions) + " ORDER BY known_ns, event_id LIMIT :limit"
        with reading(self.path, LAYOUT) as connection:
            found = connection.execute(query, _values(_ALL_TIME, tags, page, as_of_ns)).fetchall()
            rows = _with_releases(connection, [(event_id, record) for _, event_id, record in found], as_of_ns)
            return [(known_ns, as_known(row, known_ns)) for (known_ns, _, _), row in zip(found, rows, strict=True)]

    def event(self, event_id: str, as_of_ns: int) -> EventRow | None:
        """One event; None where there is none by then."""
        query = "SELECT event_id, record FROM events WHERE event_id = ? AND announced_ns <= ?"
        with reading(self.path, LAYOUT) as connection:
            found = connection.execute(query, (event_id, bounded(as_of_ns))).fetchall()
            return next(iter(_with_releases(connection, found, as_of_ns)), None)


def open_calendars(path: Path) -> SqliteCalendars:
    """The store of a file.

    Raises:
        DataError: the file is not there, damaged, or no calendar store.
    """
    check_file(path, LAYOUT)
    return SqliteCalendars(path)


def write_calendars(path: Path, rows: Iterable[EventRow], *, replace: bool = False) -> Written:
    """Add events to a file, which is made where there is none; all of them, or none when anything fails.

    An event that is stored already as it is is passed over.

    Raises:
        DataError: a row that can't be stored; another one under its id without `replace`; a file that can't be written.
    """
    with writing(path, LAYOUT) as connection:
        return upsert(_Events(connection), map(_stored_form, rows), replace=replace)


@dataclass(frozen=True, slots=True)
class _Form:
    """An event as the tables hold it."""

    row: EventRow
    record: str
    releases: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class _Events:
    """The tables, inside a transaction."""

    connection: sqlite3.Connection

    def key(self, record: _Form) -> str:
        return f"event {record.row.event_id}"

    def holds(self, record: _Form) -> bool | None:
        event_id = record.row.event_id
        found = self.connection.execute("SELECT record FROM events WHERE event_id = ?", (event_id,)).fetchone()
        if found is None:
            return None
        query = "SELECT available_ns, record FROM releases WHERE event_id = ? ORDER BY number"
        return bool(found[0] == record.record and tuple(self.connection.execute(query, (event_id,))) == record.releases)

    def insert(self, record: _Form) -> None:
        row = record.row
        importance, text = IMPORTANCE.index(row.importance), f" {' '.join(words(row.title))} "
        self.connection.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (row.event_id, row.event_type, row.time_ns, row.announced_ns, importance, row.country, row.market, text, record.record),
        )
        tickers = [(ticker, row.time_ns, row.event_id) for ticker in set(row.tickers)]
        self.connection.executemany("INSERT INTO event_tickers VALUES (?, ?, ?)", tickers)
        moments = [(known_ns, row.event_id) for known_ns in known_moments(row)]
        self.connection.executemany("INSERT INTO updates VALUES (?, ?)", moments)
        releases = [(row.event_id, number, *release) for number, release in enumerate(record.releases)]
        self.connection.executemany("INSERT INTO releases VALUES (?, ?, ?, ?)", releases)

    def delete(self, record: _Form) -> None:
        event_id = record.row.event_id
        (old,) = self.connection.execute("SELECT record FROM events WHERE event_id = ?", (event_id,)).fetchone()
        stored = loads_strict(old)
        tickers = [(ticker, stored["time_ns"], event_id) for ticker in stored["tickers"]]
        self.connection.executemany("DELETE FROM event_tickers WHERE ticker = ? AND time_ns = ? AND event_id = ?", tickers)
        self.connection.execute(_UPDATES, {"id": event_id})
        self.connection.execute("DELETE FROM releases WHERE event_id = ?", (event_id,))
        self.connection.execute("DELETE FROM events WHERE event_id = ?", (event_id,))


def _conditions(tags: Tags) -> list[str]:
    """What a query has to hold for the filters that are set."""
    conditions = ["importance >= :least"]
    conditions += [_TYPES] if tags.types else []
    conditions += [_MARKETS] if tags.markets else []
    conditions += [_TICKERS] if tags.tickers else []
    return conditions + ([_TEXT] if words(tags.text) else [])


def _values(span: Span, tags: Tags, page: Page, as_of_ns: int) -> dict[str, int | str]:
    after_ns, after_id = page.after or (0, "")
    return {
        "as_of": bounded(as_of_ns),
        "start": bounded(span.start_ns),
        "end": bounded(span.end_ns),
        "least": IMPORTANCE.index(tags.least),
        "types": dumps_canonical(tags.types),
        "markets": dumps_canonical(tags.markets),
        "tickers": dumps_canonical(tags.tickers),
        "words": dumps_canonical(words(tags.text)),
        "after_ns": bounded(after_ns),
        "after_id": after_id,
        "limit": bounded(page.limit),
    }


def _stored_form(row: EventRow) -> _Form:
    record = checked_event(row)
    releases = tuple((available_ns, dumps_canonical(values)) for available_ns, values in record.pop("releases"))
    return _Form(row, dumps_canonical(record), releases)


def _with_releases(connection: sqlite3.Connection, found: Sequence[tuple[str, str]], as_of_ns: int) -> list[EventRow]:
    """Rows of events with what was released by then."""
    released: dict[str, list[tuple[int, Any]]] = {event_id: [] for event_id, _ in found}
    for event_id, available_ns, values in connection.execute(_RELEASES, (dumps_canonical(list(released)), bounded(as_of_ns))):
        released[event_id].append((available_ns, loads_strict(values)))
    return [event_of(loads_strict(record) | {"releases": released[event_id]}) for event_id, record in found]
