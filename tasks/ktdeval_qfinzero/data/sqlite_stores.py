"""Calendar events and articles in SQLite files: made in one transaction, read only while they
serve, one connection for each query; filters, limit and cut by the clock all run in the query. Rows
are kept as JSON records, which their content is hashed from, too.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from ktdeval.errors import DataError
from ktdeval.values import JsonValue, decode_json, dumps_canonical, from_plain, loads_strict
from ktdeval_qfinzero.data.rows import (
    CALENDAR_TYPES,
    IMPORTANCE,
    NEWS_TYPES,
    EventRelease,
    EventRow,
    MomentSpan,
    NewsRow,
    PageBounds,
    TagFilters,
    as_known,
    known_moments,
)
from ktdeval_qfinzero.errors import ServiceError

_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, as they are compared. A word is a run of letters and
    digits; everything else only separates. Compatible forms of a letter are one (Unicode NFKC), and
    case is folded: `AT&T's Q4-Results` has the words `at`, `t`, `s`, `q4`, `results`.
    """
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


#: Ids of events and articles: they stand in paths and cursors
ROW_ID: Final = re.compile(r"[A-Za-z0-9_.:=+\-]{1,200}")

_LAST_NS: Final = 2**62
_MARKETS: Final = ("us", "global", "crypto")
Text = TypeVar("Text", EventRow, NewsRow)


def record_of(row: EventRow | NewsRow) -> dict[str, JsonValue]:
    """Return the record of a row: its fields, releases as [[available_ns, values], …]."""
    return {name: _plain_value(getattr(row, name)) for name in row.__slots__}


def checked_record(row: EventRow | NewsRow) -> dict[str, JsonValue]:
    """Return a row's record. Raises DataError: an id, type, moment or value that can't be stored;
    releases out of order.
    """
    record = record_of(row)
    problem = _row_problem(row, record)
    if problem:
        kind, row_id = ("event", row.event_id) if isinstance(row, EventRow) else ("article", row.id)
        raise DataError(f"{kind} {str(row_id)[:200]!a}: {problem}")

    return record


def _plain_value(value: Any) -> JsonValue:
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, tuple):
        return [_plain_value(item) for item in value]
    if isinstance(value, EventRelease):
        return [value.available_ns, dict(value.values)]

    return dict(value) if isinstance(value, Mapping) else value


def _row_problem(row: EventRow | NewsRow, record: Mapping[str, JsonValue]) -> str:
    """Return why a row can't be stored; empty where it can."""
    types: Sequence[str]
    if isinstance(row, EventRow):
        row_id = row.event_id
        types = CALENDAR_TYPES
        released = [release.available_ns for release in row.releases]
        moments = [row.time_ns, row.announced_ns, *released]
    else:
        row_id = row.id
        types = NEWS_TYPES
        released = []
        moments = [row.published_ns]

    if not isinstance(row_id, str) or not ROW_ID.fullmatch(row_id):
        return "an id has 1 to 200 letters, digits and characters of _.:=+-"
    if row.event_type not in types:
        return f"its type is none of {', '.join(types)}"
    if row.importance not in IMPORTANCE or row.market not in _MARKETS:
        return (
            f"its importance is none of {', '.join(IMPORTANCE)}, or its market none of"
            f" {', '.join(_MARKETS)}"
        )
    if not all(type(moment) is int and 0 <= moment < _LAST_NS for moment in moments):
        return "a moment is not a whole number of nanoseconds since 1970"

    try:
        text = dumps_canonical(record)
        text.encode()
    except (TypeError, ValueError) as error:
        return f"it can't be written as JSON ({type(error).__name__})"

    if loads_strict(text) != record:
        return "it is not plain JSON: a tuple, or a key that is not text"

    if released != sorted(released):
        return "its releases are not in the order of their moments"

    return ""


_LARGEST = 2**63 - 1
_AMONG = "{0} IN (SELECT value FROM json_each(:{1}))"


# The latter where SQLite's message quotes names of a damaged file: Python decodes it.
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """Tables of a kind of file. `tickers, text`: conditions of the filters by ticker and by
    words.
    """

    kind: str  #: what it holds, in words
    #: stands in the file's header, so that no other SQLite file is taken for one
    application_id: int
    version: int  #: grows with each change of the tables
    statements: tuple[str, ...]  #: make the tables of a new file
    tickers: str
    text: str


@contextmanager
def writing(path: Path, layout: StoreLayout) -> Iterator[sqlite3.Connection]:
    """Open or make a file for one transaction. Raises DataError: it can't be written, or is of
    another kind.
    """
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            # rolled back when the connection closes, unless committed
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                for statement in layout.statements:
                    connection.execute(statement)

                connection.execute(f"PRAGMA application_id = {layout.application_id}")
                connection.execute(f"PRAGMA user_version = {layout.version}")

            _check_header(connection, layout)
            yield connection
            connection.execute("COMMIT")
    except _UNREADABLE as error:
        raise DataError(f"{path}: the {layout.kind} can't be written ({error})") from error
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def check_file(path: Path, layout: StoreLayout) -> None:
    """Raise DataError unless a file is there, can be read and is of a kind."""
    if not path.is_file():
        raise DataError(
            f"{path}: there is no such file; the {layout.kind} is written by"
            " `ktdeval_qfinzero.data`'s writers"
        )

    try:
        with closing(_open(path)) as connection:
            _check_header(connection, layout)
    except (*_UNREADABLE, DataError) as error:
        raise DataError(f"{path}: {error}") from error


@contextmanager
def reading(path: Path, layout: StoreLayout) -> Iterator[sqlite3.Connection]:
    """Open a read-only connection for one call. Raises ServiceError: `unavailable`: the file is
    gone or damaged.
    """
    try:
        with closing(_open(path)) as connection:
            yield connection
    except (*_UNREADABLE, DataError) as error:
        raise ServiceError("unavailable", f"the {layout.kind} can't be read ({error})") from error


def query(
    layout: StoreLayout,
    columns: str,
    table: str,
    order: str,
    tags: TagFilters,
    page: PageBounds,
    *conditions: str,
) -> str:
    """Return a query of fixed pieces for the rows that pass filters, by a key of two columns, cut
    to a page; see `values`.
    """
    clauses = [*conditions, "importance >= :least"]
    clauses += [
        _AMONG.format(*pair)
        for pair in (("event_type", "types"), ("market", "markets"))
        if getattr(tags, pair[1])
    ]
    clauses += [layout.tickers] if tags.tickers else []
    clauses += [layout.text] if words(tags.text) else []
    clauses += (
        ["instr(publisher, :publisher) > 0"]
        if tags.publisher and "publisher" in layout.statements[0]
        else []
    )
    clauses += [f"({order}) > (:after_ns, :after_id)"] if page.after else []

    return (
        f"SELECT {columns} FROM {table} WHERE {' AND '.join(clauses)} ORDER BY {order} LIMIT :limit"  # noqa: S608 - constants
    )


def values(span: MomentSpan, tags: TagFilters, page: PageBounds, as_of_ns: int) -> dict[str, Any]:
    """Return the parameters of a query."""
    after_ns, after_id = page.after or (0, "")
    searched = words(tags.text)
    return {
        "as_of": bound_number(as_of_ns),
        "start": bound_number(span.start_ns),
        "end": bound_number(span.end_ns),
        "least": IMPORTANCE.index(tags.least),
        "types": dumps_canonical(tags.types),
        "markets": dumps_canonical(tags.markets),
        "tickers": dumps_canonical(tags.tickers),
        "words": dumps_canonical(searched),
        # Words hold letters and digits only, so none can be part of the syntax of a full-text
        # query.
        "match": " ".join(f'"{word}"' for word in dict.fromkeys(searched)),
        "publisher": tags.publisher.casefold(),
        "after_ns": bound_number(after_ns),
        "after_id": after_id,
        "limit": bound_number(page.limit),
    }


def bound_number(number: int) -> int:
    """Return the number, as far as the integers of a database go."""
    return max(-_LARGEST, min(number, _LARGEST))


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)


def _check_header(connection: sqlite3.Connection, layout: StoreLayout) -> None:
    header = (
        connection.execute("PRAGMA application_id").fetchone()[0],
        connection.execute("PRAGMA user_version").fetchone()[0],
    )
    if header != (layout.application_id, layout.version):
        raise DataError(f"not a {layout.kind} of layout {layout.version}: make the file anew")


_ALWAYS = 2**63 - 2
#: Arguments of a query for all rows of a file
EVERYTHING: Final = (MomentSpan(-_ALWAYS, _ALWAYS), TagFilters(), PageBounds(_ALWAYS), _ALWAYS)


def _table_statements(name: str) -> tuple[str, ...]:
    return tuple(
        Path(__file__)
        .with_name(f"{name}.sql")
        .read_text(encoding="utf-8")
        .removesuffix(";\n")
        .split(";\n")
    )


CALENDARS: Final = StoreLayout(
    "calendar store",
    0x6B74_6563,
    1,
    _table_statements("calendars"),
    """event_id IN (SELECT event_id FROM event_tickers
        WHERE ticker IN (SELECT value FROM json_each(:tickers))
        AND time_ns >= :start AND time_ns < :end)""",
    "NOT EXISTS (SELECT 1 FROM json_each(:words) WHERE instr(events.words, ' ' || value || ' ')"
    " = 0)",
)

NEWS: Final = StoreLayout(
    "news store",
    0x6B74_6E65,
    1,
    _table_statements("news"),
    """number IN (SELECT number FROM article_tickers
        WHERE ticker IN (SELECT value FROM json_each(:tickers))
        AND published_ns >= :start AND published_ns < :end)""",
    "number IN (SELECT rowid FROM article_words WHERE article_words MATCH :match)",
)

_RELEASES = """SELECT event_id, available_ns, record FROM releases
    WHERE event_id IN (SELECT value FROM json_each(?)) AND available_ns <= ? ORDER BY event_id, number"""


@dataclass(frozen=True, slots=True)
class SqliteCalendars:
    """Calendar events, each with what was released by then, in a file that nobody writes while it
    is read.
    """

    path: Path

    def events(
        self, span: MomentSpan, tags: TagFilters, page: PageBounds, as_of_ns: int
    ) -> Sequence[EventRow]:
        """Return events due in the span that stood in the calendar by then, by (time_ns,
        event_id).
        """
        conditions = ("announced_ns <= :as_of", "time_ns >= :start", "time_ns < :end")
        statement = query(
            CALENDARS, "event_id, record", "events", "time_ns, event_id", tags, page, *conditions
        )
        with reading(self.path, CALENDARS) as connection:
            rows = connection.execute(statement, values(span, tags, page, as_of_ns)).fetchall()
            return _events(connection, rows, as_of_ns)

    def updates(
        self, tags: TagFilters, page: PageBounds, as_of_ns: int
    ) -> Sequence[tuple[int, EventRow]]:
        """Return what became known by then: the moment, and the event as it stood then; by (moment,
        event_id), the key of pages.
        """
        table = "updates JOIN events USING (event_id)"
        columns = "known_ns, event_id, record"
        statement = query(
            CALENDARS, columns, table, "known_ns, event_id", tags, page, "known_ns <= :as_of"
        )

        with reading(self.path, CALENDARS) as connection:
            rows = connection.execute(
                statement, values(EVERYTHING[0], tags, page, as_of_ns)
            ).fetchall()
            events = _events(connection, [row[1:] for row in rows], as_of_ns)
            return [
                (row[0], as_known(event, row[0])) for row, event in zip(rows, events, strict=True)
            ]

    def event(self, event_id: str, as_of_ns: int) -> EventRow | None:
        """Return one event; None where there is none by then."""
        statement = "SELECT event_id, record FROM events WHERE event_id = ? AND announced_ns <= ?"
        with reading(self.path, CALENDARS) as connection:
            rows = connection.execute(statement, (event_id, bound_number(as_of_ns))).fetchall()
            return next(iter(_events(connection, rows, as_of_ns)), None)


@dataclass(frozen=True, slots=True)
class SqliteNews:
    """Articles in a file that nobody writes while it is read."""

    path: Path

    def news(
        self, span: MomentSpan, tags: TagFilters, page: PageBounds, as_of_ns: int
    ) -> Sequence[NewsRow]:
        """Return articles published in the span and by then, by (published_ns, id)."""
        conditions = ("published_ns <= :as_of", "published_ns >= :start", "published_ns < :end")
        statement = query(NEWS, "record", "articles", "published_ns, id", tags, page, *conditions)
        with reading(self.path, NEWS) as connection:
            records = connection.execute(statement, values(span, tags, page, as_of_ns))
            return [_decoded_row(record, NewsRow) for (record,) in records]

    def article(self, news_id: str, as_of_ns: int) -> NewsRow | None:
        """Return one article; None where there is none by then."""
        statement = "SELECT record FROM articles WHERE id = ? AND published_ns <= ?"
        with reading(self.path, NEWS) as connection:
            row = connection.execute(statement, (news_id, bound_number(as_of_ns))).fetchone()
            return _decoded_row(row[0], NewsRow) if row else None


def open_calendars(path: Path) -> SqliteCalendars:
    """Open a file of events, or raise DataError: it is not there, damaged, or no calendar store."""
    check_file(path, CALENDARS)
    return SqliteCalendars(path)


def open_news(path: Path) -> SqliteNews:
    """Open a file of articles, or raise DataError: it is not there, damaged, or no news store."""
    check_file(path, NEWS)
    return SqliteNews(path)


def write_calendars(path: Path, rows: Iterable[EventRow]) -> None:
    """Write events into a new file, all or none. Raises DataError: a row can't be stored, or the
    file can't be written.
    """
    with writing(path, CALENDARS) as connection:
        for row in rows:
            record = checked_record(row)
            del record["releases"]  # in a table of their own
            importance = IMPORTANCE.index(row.importance)
            title = f" {' '.join(words(row.title))} "
            event = (
                row.event_id,
                row.event_type,
                row.time_ns,
                row.announced_ns,
                importance,
                row.country,
                row.market,
                title,
            )
            connection.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*event, dumps_canonical(record)),
            )
            tickers = [(ticker, row.time_ns, row.event_id) for ticker in sorted(set(row.tickers))]
            connection.executemany("INSERT INTO event_tickers VALUES (?, ?, ?)", tickers)
            moments = [(known_ns, row.event_id) for known_ns in known_moments(row)]
            connection.executemany("INSERT INTO updates VALUES (?, ?)", moments)
            stored = [
                (row.event_id, number, release.available_ns, dumps_canonical(dict(release.values)))
                for number, release in enumerate(row.releases)
            ]
            connection.executemany("INSERT INTO releases VALUES (?, ?, ?, ?)", stored)


def write_news(path: Path, rows: Iterable[NewsRow]) -> None:
    """Write articles into a new file; as `write_calendars`."""
    with writing(path, NEWS) as connection:
        for row in rows:
            record = dumps_canonical(checked_record(row))
            importance = IMPORTANCE.index(row.importance)
            publisher = row.publisher.get("name", "").casefold()
            article = (
                row.id,
                row.event_type,
                row.published_ns,
                importance,
                row.market,
                publisher,
                record,
            )
            number = connection.execute(
                "INSERT INTO articles VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", article
            ).lastrowid
            tickers = [(ticker, row.published_ns, number) for ticker in sorted(set(row.tickers))]
            connection.executemany("INSERT INTO article_tickers VALUES (?, ?, ?)", tickers)
            indexed = " ".join(words(f"{row.title} {row.description} {row.body}"))
            connection.execute(
                "INSERT INTO article_words (rowid, words) VALUES (?, ?)", (number, indexed)
            )


def _events(
    connection: sqlite3.Connection, events: Sequence[tuple[str, str]], as_of_ns: int
) -> list[EventRow]:
    """Events of records, by id, with what was released by then. Raises DataError: a record is
    malformed.
    """
    released: dict[str, list[EventRelease]] = {event_id: [] for event_id, _ in events}
    for event_id, available_ns, values in connection.execute(
        _RELEASES, (dumps_canonical(list(released)), bound_number(as_of_ns))
    ):
        terms = {
            "available_ns": available_ns,
            "values": decode_json(values, dict[str, Any], "a release", DataError),
        }
        released[event_id].append(from_plain(terms, EventRelease, "a release", DataError))
    return [
        replace(_decoded_row(record, EventRow), releases=tuple(released[event_id]))
        for event_id, record in events
    ]


def _decoded_row(record: str, kind: type[Text]) -> Text:
    """Return the row of a stored record. Raises DataError: malformed."""
    return decode_json(record, kind, "a record", DataError)
