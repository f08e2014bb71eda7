"""SQLite files for model calls: the reply cache that runs share, and the call log of one run. Both
have the same schema.

Table `replies` contains replies, keyed by the hash of the request. Table `calls` contains one row
for each attempt in a run. Threads and processes can use a file concurrently, and each failure is
reported in one clear line.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sqlite3
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import ktdeval
from ktdeval.calls.records.record import (
    CALL_COLUMNS,
    KEY_DIGITS,
    REPLY_COLUMNS,
    CacheEntry,
    CallRecord,
    DamagedError,
    ReplyRow,
    pack,
    record_of,
    unpack,
)
from ktdeval.errors import StoreError, os_reason
from ktdeval.values.disk.files import Closing, csv_rows, sync_folder
from ktdeval.values.disk.rollback import undone_on_error
from ktdeval.values.disk.temporary import temporary_file
from ktdeval.values.documents.format_versions import check_version, format_version

#: `ktdr` in the file header: distinguishes the file from the SQLite files of other applications
APPLICATION_ID = 0x6B746472
FORMAT = "file of calls"
VERSION = format_version(FORMAT)
BUSY_S = 30.0  #: maximum seconds to wait for another process that is writing


@dataclass(frozen=True, slots=True)
class FileKind:
    """Wording for error messages: what the file is, and how to choose another one."""

    name: str
    elsewhere: str


@dataclass(frozen=True, slots=True)
class EpisodeRows:
    """Rows for one episode in a call log."""

    calls: list[CallRecord]  #: the calls, in order
    replies: list[ReplyRow]  #: replies to these calls, by key

    def add_to(self, sql: sqlite3.Connection) -> None:
        """Write the rows in a transaction that the caller has begun."""
        sql.executemany(_ADD_REPLY, self.replies)
        sql.executemany(_ADD_CALL, [call.to_row() for call in self.calls])


# a tuple: it is a row of the database
class LogIdentity(NamedTuple):
    """Identity of a call log."""

    id: str  #: random id, drawn when the log was created
    begun_at: str  #: creation time, ISO 8601 in UTC


CACHE = FileKind("reply cache", "choose another file (of a run: --cache)")
RECORD = FileKind("record of calls", "choose another run folder with --out")

_TABLES = Path(__file__).with_name("tables.sql").read_text(encoding="utf-8").split(";\n")


def _insert(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(columns)
    marks = ", ".join("?" * len(columns))
    return f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - constants


_ADD_REPLY = _insert("replies", REPLY_COLUMNS)
_ADD_CALL = _insert("calls", CALL_COLUMNS)
_FIND_REPLY = f"SELECT {', '.join(REPLY_COLUMNS)} FROM replies WHERE key = ?"  # noqa: S608 - constants
_ALL_CALLS = f"SELECT {', '.join(CALL_COLUMNS)} FROM calls ORDER BY number"  # noqa: S608 - constants
_ALL_REPLIES = f"SELECT {', '.join(REPLY_COLUMNS)} FROM replies ORDER BY key"  # noqa: S608 - constants
_CALLS_OF = f"SELECT {', '.join(CALL_COLUMNS)} FROM calls WHERE episode = ? ORDER BY number"  # noqa: S608 - constants
_REPLIES_OF = f"""SELECT {", ".join(REPLY_COLUMNS)} FROM replies
    WHERE substr(key, 1, {KEY_DIGITS}) IN (SELECT key FROM calls WHERE episode = ?)"""  # noqa: S608 - constants
_IDENTITY = "SELECT id, begun_at FROM log"
# One statement, so that no other process can write in between. A view could have endless rows.
_HEADER = """SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master),
    (SELECT count(*) FROM sqlite_master WHERE type IN ('view', 'trigger'))
    FROM pragma_application_id, pragma_user_version"""
#: properties of a column that decide whether our rows fit: name, type, nullability, and whether it
#: is the key. The order of columns does not matter, since rows are written by name.
_COLUMNS = 'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)'
#: codes of SQLite for a file that could not be opened, whatever the reason
_UNOPENED = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR})
#: the database, its log, the index of the log, and their folder while it is synced
_FILES_OF_A_CONNECTION = 4
_ADVICE = {
    getattr(sqlite3, f"SQLITE_{row['code']}"): row["advice"]
    for row in csv_rows(Path(__file__).with_name("sqlite_advice.csv"))
}  #: advice for SQLite errors, by primary code


@cache
def _columns_of_ours() -> dict[str, frozenset[tuple[Any, ...]]]:
    """Return the columns of our tables, by table name."""
    with closing(sqlite3.connect(":memory:")) as empty:
        for statement in _TABLES:
            empty.execute(statement)

        names = empty.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name: frozenset(empty.execute(_COLUMNS, (name,)).fetchall()) for (name,) in names}


def primary_code(error: sqlite3.Error) -> int:
    """Return the primary code of an SQLite error; 0 if the error did not originate in SQLite."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


class Connection:
    """A connection to a file. Any thread may use it, but only one at a time."""

    def __init__(self, path: Path, kind: FileKind = CACHE, read_only: bool = False) -> None:
        """Open the file; create it if it does not exist, unless `read_only`. Raises StoreError if
        the file is unreadable, damaged, or of another kind or version.
        """
        self.path, self.kind = path, kind
        #: True if the file has no tables, as when a process was killed while creating it
        self.is_blank = False
        self._is_plain_at_rest = kind is RECORD and not read_only
        if path.exists() and not path.is_file():  # SQLite reports a pipe as a broken disk
            raise self.problem(f"is not a plain file; {kind.elsewhere}")

        if not read_only:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise self.problem(
                    f"can't make its folder: {os_reason(error, kind.elsewhere)}"
                ) from error

        is_made = not read_only and _make_whole(path, kind)
        with self.wrap_errors():
            # Read-only connections also use `rw`, since the last connection then removes SQLite's
            # log. If the file can't be written, SQLite itself falls back to opening it for reading.
            address = f"{path.absolute().as_uri()}?mode={'rw' if read_only else 'rwc'}"
            self.sql = sqlite3.connect(
                address, timeout=BUSY_S, isolation_level=None, check_same_thread=False, uri=True
            )
            with undone_on_error(lambda _: self.sql.close()):
                # Damaged text may not be UTF-8. It is then detected by its checksum, and the query
                # does not fail.
                self.sql.text_factory = lambda data: data.decode("utf-8", "replace")
                if read_only:
                    self._prepare_to_read()
                else:
                    self._prepare_to_write(is_made)

    def problem(self, words: str) -> StoreError:
        """Return an error that names the file."""
        return StoreError(f"{self.path}: {self.kind.name}: {words}")

    @contextlib.contextmanager
    def wrap_errors(self) -> Iterator[None]:
        """Turn an SQLite error into a StoreError that names the file and says what to do."""
        try:
            yield
        except UnicodeDecodeError as error:
            # Python decodes SQLite's message, which quotes damaged table names from the file.
            raise self.problem(
                f"its table names are not UTF-8, so it is damaged; {self.kind.elsewhere}"
            ) from error
        except sqlite3.Error as error:
            code = primary_code(error)
            advice = _ADVICE.get(code, "{elsewhere}").format(
                **asdict(self.kind), seconds=f"{BUSY_S:.0f}"
            )
            reason = f"{error}; {advice}"
            shortage = self._shortage() if code in _UNOPENED else None
            if shortage is not None:
                reason = f"{error}: {os_reason(shortage)}"
            raise self.problem(reason) from error

    def _shortage(self) -> OSError | None:
        """Return the error of opening as many files as SQLite needs, if these are too many: SQLite
        itself reports only that it could not open one.
        """
        with contextlib.ExitStack() as stack:
            try:
                for _ in range(_FILES_OF_A_CONNECTION):
                    descriptor = os.open(self.path.parent, os.O_RDONLY)
                    stack.callback(os.close, descriptor)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    return error

        return None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes in the `with` block durable together, or none on an exception."""
        # Take the write lock at once: SQLite waits for that lock, but not when a reader becomes a
        # writer.
        self.sql.execute("BEGIN IMMEDIATE")
        with undone_on_error(lambda _: self._roll_back()):
            yield
            self.sql.execute("COMMIT")

    def _roll_back(self) -> None:
        if self.sql.in_transaction:
            self.sql.execute("ROLLBACK")

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a query at once, since an unfinished statement would prevent SQLite's
        log from being removed.
        """
        return self.sql.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the file. It is safe to call `close` more than once."""
        with self.wrap_errors():
            if self._is_plain_at_rest:
                # The file of a finished run can then be copied as a single file, and read where
                # nothing can be written. Errors are ignored: either another process is reading the
                # file, or it is closed or damaged, which its reader reports.
                with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
                    self.sql.execute("PRAGMA journal_mode=DELETE").fetchall()
            self.sql.close()

    def _prepare_to_read(self) -> None:
        self.sql.execute("PRAGMA query_only=ON")
        self.is_blank = not self._is_ours()
        if self.is_blank and self.kind is CACHE:
            raise self.problem(f"the file is empty; delete it, or {self.kind.elsewhere}")

    def _prepare_to_write(self, is_made: bool) -> None:
        """Create the tables if they are missing. `is_made` means that this connection has just
        created the file.
        """
        is_new = is_made or not self._is_ours()
        if is_new:
            if self.kind is CACHE:
                with contextlib.suppress(OSError):  # the file system may not support owners
                    # cached replies are private to their owner; SQLite gives the files next to this
                    # one the same mode
                    self.path.chmod(0o600)

            # lets pruning free space in parts; this can be chosen only before the tables exist
            self.sql.execute("PRAGMA auto_vacuum=INCREMENTAL")

        if is_new or self.kind is RECORD:
            self._write_ahead()

        self.sql.execute("PRAGMA synchronous=FULL")
        with self.transaction():
            # another process may have created the tables meanwhile
            _lay_out(self.sql, is_new=is_new and not self._is_ours())

            # This changes nothing, but detects a file that can't be written before a reply is paid
            # for. Taking the lock does not detect that.
            self.sql.execute("DELETE FROM calls WHERE number IS NULL")

    def _is_ours(self) -> bool:
        """Return True for a file of ours and False for an empty database. Raises StoreError if the
        file is something else.
        """
        ((application, version, tables, views),) = self.rows(_HEADER)
        if application == APPLICATION_ID:
            if views:
                raise self.problem(
                    f"holds views or triggers, which no file of ktdeval has; {self.kind.elsewhere}"
                )
            where = f"{self.path}: {self.kind.name}"
            check_version(FORMAT, version, where, self._advice)
            self._check_columns()
            return True

        if application or version or tables:
            raise StoreError(
                f"{self.path}: is an SQLite file of another application and is left as it is;"
                f" {self.kind.elsewhere}"
            )

        return False

    @property
    def _advice(self) -> str:
        return f"use the ktdeval that wrote it, or {self.kind.elsewhere}"

    def _check_columns(self) -> None:
        """Raise StoreError if a table's columns differ from ours, since a row that was paid for
        could then not be written. A missing table is created later.
        """
        for table, columns in _columns_of_ours().items():
            found = frozenset(self.rows(_COLUMNS, table))
            if found and found != columns:
                differs = sorted({str(column[0]) for column in found ^ columns})
                raise self.problem(
                    f"made by another version of ktdeval; ktdeval {ktdeval.__version__} can't read"
                    f" it: its table {table} differs in {', '.join(differs):.100}; {self._advice}"
                )

    def _write_ahead(self) -> None:
        """Switch to the write-ahead log, so that readers and a writer do not wait for each other.
        The setting is stored in the file.
        """
        deadline = time.monotonic() + BUSY_S
        while True:
            try:
                self.sql.execute("PRAGMA journal_mode=WAL").fetchall()
            except sqlite3.OperationalError as error:
                if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise

                time.sleep(0.02)  # SQLite does not wait by itself for this switch
            else:
                return


def _make_whole(path: Path, kind: FileKind) -> bool:
    """Create a file that contains the tables from the start, and return whether this succeeded.

    If it did not, SQLite creates the file or reports why it can't.
    """
    if path.exists():
        return False

    try:
        with temporary_file(path) as (temporary, descriptor):
            if kind is not CACHE:  # only the owner may read the replies in a cache
                os.fchmod(descriptor, 0o644)

            os.write(descriptor, _blank_file())
            os.fsync(descriptor)
            # never overwrites a file that another process has created meanwhile
            os.link(temporary, path)

        sync_folder(path.parent)
    except OSError:
        return False

    return True


@functools.cache
def _blank_file() -> bytes:
    """Return the bytes of a file that has the tables but no rows."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        # lets pruning free space in parts; this can be chosen only before the tables exist
        memory.execute("PRAGMA auto_vacuum=INCREMENTAL")
        _lay_out(memory, is_new=True)
        return memory.serialize()


def _lay_out(sql: sqlite3.Connection, *, is_new: bool) -> None:
    """Create missing tables, and mark the format of a new file."""
    if is_new:
        sql.execute(f"PRAGMA application_id={APPLICATION_ID}")
        sql.execute(f"PRAGMA user_version={VERSION}")

    for statement in _TABLES:
        sql.execute(statement)


class CallDatabase(Closing):
    """Replies and calls in one file. Threads may share one object, and processes may share one
    file. The file should be on a local disk, since processes coordinate their writes through shared
    memory. Readers do not wait for writers.
    """

    def __init__(self, path: Path, kind: FileKind = CACHE) -> None:
        """Open the file; create the file and its folders if they don't exist. Raises as
        `Connection` does.
        """
        self.path = path
        self._writer = Connection(path, kind)
        with undone_on_error(lambda _: self._writer.close()):
            self._reader = Connection(path, kind, read_only=True)

        self._reading, self._writing = threading.Lock(), threading.Lock()

    def entry(self, key: str) -> CacheEntry | None:
        """Return the undamaged reply stored under a key; None if no such reply is stored. Raises
        StoreError if the file can't be read.
        """
        rows = self._read(_FIND_REPLY, key)
        try:
            return unpack(ReplyRow(*rows[0])) if rows else None
        except DamagedError:
            # as if the reply had never been stored: the call is made again, and the new reply
            # replaces it
            return None

    def keys(self) -> set[str]:
        """Return the keys of all replies. Raises as `entry` does."""
        return {str(key) for (key,) in self._read("SELECT key FROM replies")}

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of all calls as stored, in order. Raises as `entry` does."""
        return self._read(_ALL_CALLS)

    def replies(self, keys: Collection[str]) -> list[ReplyRow]:
        """Return the packed replies stored under the given keys. Raises as `entry` does."""
        found = [self._read(_FIND_REPLY, key) for key in sorted(keys)]
        return [ReplyRow(*rows[0]) for rows in found if rows]

    def records(self, episode: str) -> list[CallRecord]:
        """Return the calls of one episode, in order. Raises as `entry` does."""
        return list(_records_in(self._read(_CALLS_OF, episode), self.path, f" of {episode}"))

    def put(self, entries: Sequence[CacheEntry]) -> None:
        """Store replies, replacing replies with the same keys. They are durable once this method
        returns. Raises as `write` does.
        """
        self.write([pack(entry) for entry in entries], ())

    def write(self, replies: Sequence[ReplyRow], calls: Sequence[tuple[Any, ...]]) -> None:
        """Write packed replies and call rows durably in one transaction. If StoreError is raised,
        nothing was written.
        """
        with self._transaction() as sql:
            sql.executemany(_ADD_REPLY, replies)
            sql.executemany(_ADD_CALL, calls)

    def replace_episode(self, episode: str, rows: EpisodeRows) -> None:
        """Replace the calls of one episode and store their replies. Raises as `write` does."""
        with self._transaction() as sql:
            sql.execute("DELETE FROM calls WHERE episode = ?", (episode,))
            rows.add_to(sql)

    def write_episodes(self, episodes: Iterable[EpisodeRows]) -> None:
        """Write the calls and replies of many episodes, in order. Raises as `write` does."""
        with self._transaction() as sql:
            for rows in episodes:
                rows.add_to(sql)

    def identity(self, new: LogIdentity) -> LogIdentity:
        """Return the identity that the file was given. If the file has no identity yet, store `new`
        and return it. Raises as `write` does.
        """
        with self._transaction() as sql:
            row = sql.execute(_IDENTITY).fetchone()
            if row is None:
                sql.execute("INSERT INTO log (id, begun_at) VALUES (?, ?)", new)

        return new if row is None else LogIdentity(*row)

    def _read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._reading, self._reader.wrap_errors():
            return self._reader.rows(query, *values)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._writing, self._writer.wrap_errors(), self._writer.transaction():
            yield self._writer.sql

    def close(self) -> None:
        """Close the file. It is safe to call `close` more than once."""
        with self._reading, self._writing:
            self._reader.close()
            self._writer.close()


def read_records(path: Path) -> Iterator[CallRecord]:
    """Yield the calls in a run's log, in order. A log without tables, as left by a process that was
    killed while creating the file, has no calls. Raises StoreError if the log can't be read or
    contains a row that is not a call.
    """
    yield from _records_in(_rows_at(path, _ALL_CALLS), path)


def read_episode(path: Path, episode: str) -> EpisodeRows:
    """Return the rows of one episode in a call log. Raises as `read_records` does."""
    calls = _records_in(_rows_at(path, _CALLS_OF, episode), path, f" of {episode}")
    replies = map(ReplyRow._make, _rows_at(path, _REPLIES_OF, episode))
    return EpisodeRows(list(calls), list(replies))


def read_labels(path: Path, labels: Collection[str]) -> dict[str, EpisodeRows]:
    """Return the calls and replies of some episodes (or of `canary`, `check`) in a call log, by
    label. A reply used by several episodes is listed with the first of them. Raises as
    `read_records` does.
    """
    found: dict[str, EpisodeRows] = {}
    first: dict[str, str] = {}
    for call in read_records(path):
        if call.episode in labels:
            found.setdefault(call.episode, EpisodeRows([], [])).calls.append(call)
            first.setdefault(call.key, call.episode)

    for row in map(ReplyRow._make, _rows_at(path, _ALL_REPLIES)):
        episode = first.get(row.key[:KEY_DIGITS])
        if episode is not None:
            found[episode].replies.append(row)

    return found


def count_calls(path: Path, episode: str) -> int:
    """Return the number of calls of one episode in a log. Raises StoreError if the log can't be
    read.
    """
    counts = _rows_at(path, "SELECT count(*) FROM calls WHERE episode = ?", episode)
    return sum(count for (count,) in counts)


def read_identity(path: Path) -> LogIdentity | None:
    """Return the identity of a run's call log; None if the log has no identity. Raises StoreError
    if the log can't be read.
    """
    rows = _rows_at(path, _IDENTITY)
    return LogIdentity(*rows[0]) if rows else None


def _rows_at(path: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query on a run's call log; empty if the log has no tables. Raises
    StoreError.
    """
    with closing(Connection(path, RECORD, read_only=True)) as connection:
        if connection.is_blank:
            return []
        with connection.wrap_errors():
            return connection.rows(query, *values)


def _records_in(
    rows: Iterable[tuple[Any, ...]], path: Path, whose: str = ""
) -> Iterator[CallRecord]:
    """Yield the calls stored in rows. Raises StoreError if a row is not a call."""
    for number, row in enumerate(rows, start=1):
        yield record_of(row, f"{path}: call {number}{whose}: not a valid record of a call")
