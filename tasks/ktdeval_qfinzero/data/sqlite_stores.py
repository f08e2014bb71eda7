"""Calendar events and articles in SQLite files: stores whose filters, limit and cut by the clock all run in the query."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ktdeval.jsonio import dumps_canonical, loads_strict
from ktdeval_qfinzero.data.rows import IMPORTANCE, EventRow, NewsRow, as_known, known_moments
from ktdeval_qfinzero.data.sqlite_files import (
    Layout,
    bounded,
    check_file,
    checked_record,
    query,
    reading,
    row_of,
    values,
    words,
    writing,
)
from ktdeval_qfinzero.data.stores import Page, Span, Tags

_ALWAYS = 2**63 - 2
EVERYTHING: Final = (Span(-_ALWAYS, _ALWAYS), Tags(), Page(_ALWAYS), _ALWAYS)  #: Arguments of a query for all rows of a file


def _tables(name: str) -> tuple[str, ...]:
    return tuple(Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8").removesuffix(";\n").split(";\n"))


CALENDARS: Final = Layout(
    "calendar store",
    0x6B74_6563,
    1,
    _tables("calendars"),
    """event_id IN (SELECT event_id FROM event_tickers
        WHERE ticker IN (SELECT value FROM json_each(:tickers)) AND time_ns >= :start AND time_ns < :end)""",
    "NOT EXISTS (SELECT 1 FROM json_each(:words) WHERE instr(events.words, ' ' || value || ' ') = 0)",
)

NEWS: Final = Layout(
    "news store",
    0x6B74_6E65,
    1,
    _tables("news"),
    """number IN (SELECT number FROM article_tickers
        WHERE ticker IN (SELECT value FROM json_each(:tickers)) AND published_ns >= :start AND published_ns < :end)""",
    "number IN (SELECT rowid FROM article_words WHERE article_words MATCH :match)",
)

_RELEASES = """SELECT event_id, available_ns, record FROM releases
    WHERE event_id IN (SELECT value FROM json_each(?)) AND available_ns <= ? ORDER BY event_id, number"""


@dataclass(frozen=True, slots=True)
class SqliteCalendars:
    """A `CalendarStore` in a file that nobody writes while it is read."""

    path: Path

    def events(self, span: Span, tags: Tags, page: Page, as_of_ns: int) -> Sequence[EventRow]:
        """Return events due in the span that stood in the calendar by then, by (time_ns, event_id)."""
        conditions = ("announced_ns <= :as_of", "time_ns >= :start", "time_ns < :end")
        asked = query(CALENDARS, "event_id, record", "events", "time_ns, event_id", tags, page, *conditions)
        with reading(self.path, CALENDARS) as connection:
            found = connection.execute(asked, values(span, tags, page, as_of_ns)).fetchall()
            return [row_of(record, EventRow) for record in _with_releases(connection, found, as_of_ns)]

    def updates(self, tags: Tags, page: Page, as_of_ns: int) -> Sequence[tuple[int, EventRow]]:
        """Return what became known by then: the moment, and the event as it stood then; by (moment, event_id), the key of pages."""
        table, columns = "updates JOIN events USING (event_id)", "known_ns, event_id, record"
        asked = query(CALENDARS, columns, table, "known_ns, event_id", tags, page, "known_ns <= :as_of")
        with reading(self.path, CALENDARS) as connection:
            found = connection.execute(asked, values(EVERYTHING[0], tags, page, as_of_ns)).fetchall()
            records = _with_releases(connection, [row[1:] for row in found], as_of_ns)
            return [(row[0], as_known(row_of(record, EventRow), row[0])) for row, record in zip(found, records, strict=True)]

    def event(self, event_id: str, as_of_ns: int) -> EventRow | None:
        """Return one event; None where there is none by then."""
        asked = "SELECT event_id, record FROM events WHERE event_id = ? AND announced_ns <= ?"
        with reading(self.path, CALENDARS) as connection:
            found = connection.execute(asked, (event_id, bounded(as_of_ns))).fetchall()
            return next((row_of(record, EventRow) for record in _with_releases(connection, found, as_of_ns)), None)


@dataclass(frozen=True, slots=True)
class SqliteNews:
    """A `NewsStore` in a file that nobody writes while it is read."""

    path: Path

    def news(self, span: Span, tags: Tags, page: Page, as_of_ns: int) -> Sequence[NewsRow]:
        """Return articles published in the span and by then, by (published_ns, id)."""
        conditions = ("published_ns <= :as_of", "published_ns >= :start", "published_ns < :end")
        asked = query(NEWS, "record", "articles", "published_ns, id", tags, page, *conditions)
        with reading(self.path, NEWS) as connection:
            found = connection.execute(asked, values(span, tags, page, as_of_ns))
            return [row_of(loads_strict(record), NewsRow) for (record,) in found]

    def article(self, news_id: str, as_of_ns: int) -> NewsRow | None:
        """Return one article; None where there is none by then."""
        asked = "SELECT record FROM articles WHERE id = ? AND published_ns <= ?"
        with reading(self.path, NEWS) as connection:
            found = connection.execute(asked, (news_id, bounded(as_of_ns))).fetchone()
            return row_of(loads_strict(found[0]), NewsRow) if found else None


def open_calendars(path: Path) -> SqliteCalendars:
    """Open a file of events, or raise DataError: it is not there, damaged, or no calendar store."""
    check_file(path, CALENDARS)
    return SqliteCalendars(path)


def open_news(path: Path) -> SqliteNews:
    """Open a file of articles, or raise DataError: it is not there, damaged, or no news store."""
    check_file(path, NEWS)
    return SqliteNews(path)


def write_calendars(path: Path, rows: Iterable[EventRow]) -> None:
    """Write events into a new file, all or none. Raises DataError: a row can't be stored, or the file can't be written."""
    with writing(path, CALENDARS) as connection:
        for row in rows:
            record = checked_record(row)
            releases = record.pop("releases")
            importance, title = IMPORTANCE.index(row.importance), f" {' '.join(words(row.title))} "
            event = (row.event_id, row.event_type, row.time_ns, row.announced_ns, importance, row.country, row.market, title)
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*event, dumps_canonical(record)))
            tickers = [(ticker, row.time_ns, row.event_id) for ticker in sorted(set(row.tickers))]
            connection.executemany("INSERT INTO event_tickers VALUES (?, ?, ?)", tickers)
            moments = [(known_ns, row.event_id) for known_ns in known_moments(row)]
            connection.executemany("INSERT INTO updates VALUES (?, ?)", moments)
            stored = [(row.event_id, number, moment, dumps_canonical(known)) for number, (moment, known) in enumerate(releases)]
            connection.executemany("INSERT INTO releases VALUES (?, ?, ?, ?)", stored)


def write_news(path: Path, rows: Iterable[NewsRow]) -> None:
    """Write articles into a new file; as `write_calendars`."""
    with writing(path, NEWS) as connection:
        for row in rows:
            record = dumps_canonical(checked_record(row))
            importance, publisher = IMPORTANCE.index(row.importance), row.publisher.get("name", "").casefold()
            article = (row.id, row.event_type, row.published_ns, importance, row.market, publisher, record)
            number = connection.execute("INSERT INTO articles VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", article).lastrowid
            tickers = [(ticker, row.published_ns, number) for ticker in sorted(set(row.tickers))]
            connection.executemany("INSERT INTO article_tickers VALUES (?, ?, ?)", tickers)
            indexed = " ".join(words(f"{row.title} {row.description} {row.body}"))
            connection.execute("INSERT INTO article_words (rowid, words) VALUES (?, ?)", (number, indexed))


def _with_releases(connection: sqlite3.Connection, found: Sequence[tuple[str, str]], as_of_ns: int) -> list[dict[str, Any]]:
    """Records of events with what was released by then."""
    released: dict[str, list[tuple[int, Any]]] = {event_id: [] for event_id, _ in found}
    for event_id, available_ns, known in connection.execute(_RELEASES, (dumps_canonical(list(released)), bounded(as_of_ns))):
        released[event_id].append((available_ns, loads_strict(known)))
    return [loads_strict(record) | {"releases": released[event_id]} for event_id, record in found]
