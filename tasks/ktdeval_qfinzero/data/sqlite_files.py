"""SQLite files of events or articles: made in one transaction, read only while they serve, one connection for each query.

Rows are kept as JSON records, which their content is hashed from, too.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from ktdeval.errors import DataError
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict
from ktdeval_qfinzero.data.rows import CALENDAR_TYPES, IMPORTANCE, NEWS_TYPES, EventRow, NewsRow, Release
from ktdeval_qfinzero.data.stores import Page, Span, Tags
from ktdeval_qfinzero.errors import ServiceError

_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, as they are compared. A word is a run of letters and digits; everything else only
    separates. Compatible forms of a letter are one (Unicode NFKC), and case is folded: `AT&T's Q4-Results` has the words `at`, `t`,
    `s`, `q4`, `results`.
    """
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


ROW_ID: Final = re.compile(r"[A-Za-z0-9_.:=+\-]{1,200}")  #: Ids of events and articles: they stand in paths and cursors

_LAST_NS: Final = 2**62
_MARKETS: Final = ("us", "global", "crypto")
Text = TypeVar("Text", EventRow, NewsRow)


def record_of(row: EventRow | NewsRow) -> dict[str, JsonValue]:
    """Return the record of a row: its fields, releases as [[available_ns, values], …]."""
    return {name: _plain(getattr(row, name)) for name in row.__slots__}


def row_of(record: Mapping[str, Any], kind: type[Text]) -> Text:
    """Return the row of a record."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
    if kind is EventRow:
        values["releases"] = tuple(Release(available_ns, released) for available_ns, released in record["releases"])
    make: Callable[..., Text] = kind
    return make(**values)


def checked_record(row: EventRow | NewsRow) -> dict[str, JsonValue]:
    """Return a row's record. Raises DataError: an id, type, moment or value that can't be stored; releases out of order."""
    record, is_event = record_of(row), isinstance(row, EventRow)
    row_id, types = (row.event_id, CALENDAR_TYPES) if isinstance(row, EventRow) else (row.id, NEWS_TYPES)
    problem = _problem(record, row_id, types)
    if problem:
        raise DataError(f"{'event' if is_event else 'article'} {str(row_id)[:200]!a}: {problem}")
    return record


def _plain(value: Any) -> JsonValue:
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Release):
        return [value.available_ns, dict(value.values)]
    return dict(value) if isinstance(value, Mapping) else value


def _problem(record: Mapping[str, JsonValue], row_id: str, types: tuple[str, ...]) -> str:
    released = [available_ns for available_ns, _ in record.get("releases", ())]
    moments = [record[name] for name in ("time_ns", "announced_ns", "published_ns") if name in record] + released
    if not isinstance(row_id, str) or not ROW_ID.fullmatch(row_id):
        return "an id has 1 to 200 letters, digits and characters of _.:=+-"
    if record["event_type"] not in types:
        return f"its type is none of {', '.join(types)}"
    if record["importance"] not in IMPORTANCE or record["market"] not in _MARKETS:
        return f"its importance is none of {', '.join(IMPORTANCE)}, or its market none of {', '.join(_MARKETS)}"
    if not all(type(moment) is int and 0 <= moment < _LAST_NS for moment in moments):
        return "a moment is not a whole number of nanoseconds since 1970"
    try:
        text = dumps_canonical(record)
        text.encode()
    except (TypeError, ValueError) as error:
        return f"it can't be written as JSON ({type(error).__name__})"
    if loads_strict(text) != record:
        return "it is not plain JSON: a tuple, or a key that is not text"
    return "" if released == sorted(released) else "its releases are not in the order of their moments"


_LARGEST = 2**63 - 1
_AMONG = "{0} IN (SELECT value FROM json_each(:{1}))"


@dataclass(frozen=True, slots=True)
class Layout:
    """Tables of a kind of file. `tickers, text`: conditions of the filters by ticker and by words."""

    kind: str  #: what it holds, in words
    application_id: int  #: stands in the file's header, so that no other SQLite file is taken for one
    version: int  #: grows with each change of the tables
    statements: tuple[str, ...]  #: make the tables of a new file
    tickers: str
    text: str


@contextmanager
def writing(path: Path, layout: Layout) -> Iterator[sqlite3.Connection]:
    """Open or make a file for one transaction. Raises DataError: it can't be written, or is of another kind."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                    for statement in layout.statements:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {layout.application_id}")
                    connection.execute(f"PRAGMA user_version = {layout.version}")
                _check(connection, layout)
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise DataError(f"{path}: the {layout.kind} can't be written ({error})") from error
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def check_file(path: Path, layout: Layout) -> None:
    """Raise DataError unless a file is there, can be read and is of a kind."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; the {layout.kind} is written by `ktdeval_qfinzero.data`'s writers")
    try:
        with closing(_open(path)) as connection:
            _check(connection, layout)
    except (sqlite3.Error, DataError) as error:
        raise DataError(f"{path}: {error}") from error


@contextmanager
def reading(path: Path, layout: Layout) -> Iterator[sqlite3.Connection]:
    """Open a read-only connection for one call. Raises ServiceError: `unavailable`: the file is gone or damaged."""
    try:
        with closing(_open(path)) as connection:
            yield connection
    except (sqlite3.Error, ValueError, KeyError) as error:
        raise ServiceError("unavailable", f"the {layout.kind} can't be read ({type(error).__name__})") from error


def query(layout: Layout, columns: str, table: str, order: str, tags: Tags, page: Page, *conditions: str) -> str:
    """Return a query of fixed pieces for the rows that pass filters, by a key of two columns, cut to a page; see `values`."""
    wanted = [*conditions, "importance >= :least"]
    wanted += [_AMONG.format(*pair) for pair in (("event_type", "types"), ("market", "markets")) if getattr(tags, pair[1])]
    wanted += [layout.tickers] if tags.tickers else []
    wanted += [layout.text] if words(tags.text) else []
    wanted += ["instr(publisher, :publisher) > 0"] if tags.publisher and "publisher" in layout.statements[0] else []
    wanted += [f"({order}) > (:after_ns, :after_id)"] if page.after else []
    return f"SELECT {columns} FROM {table} WHERE {' AND '.join(wanted)} ORDER BY {order} LIMIT :limit"  # noqa: S608 - constants


def values(span: Span, tags: Tags, page: Page, as_of_ns: int) -> dict[str, Any]:
    """Return the parameters of a query."""
    after_ns, after_id = page.after or (0, "")
    searched = words(tags.text)
    return {
        "as_of": bounded(as_of_ns),
        "start": bounded(span.start_ns),
        "end": bounded(span.end_ns),
        "least": IMPORTANCE.index(tags.least),
        "types": dumps_canonical(tags.types),
        "markets": dumps_canonical(tags.markets),
        "tickers": dumps_canonical(tags.tickers),
        "words": dumps_canonical(searched),
        # Words hold letters and digits only, so none can be part of the syntax of a full-text query.
        "match": " ".join(f'"{word}"' for word in dict.fromkeys(searched)),
        "publisher": tags.publisher.casefold(),
        "after_ns": bounded(after_ns),
        "after_id": after_id,
        "limit": bounded(page.limit),
    }


def bounded(number: int) -> int:
    """Return the number, as far as the integers of a database go."""
    return max(-_LARGEST, min(number, _LARGEST))


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)


def _check(connection: sqlite3.Connection, layout: Layout) -> None:
    found = (connection.execute("PRAGMA application_id").fetchone()[0], connection.execute("PRAGMA user_version").fetchone()[0])
    if found != (layout.application_id, layout.version):
        raise DataError(f"this is no {layout.kind} of layout {layout.version}: make the file anew")
