"""Opens the SQLite file of a reply cache: ours and no other's, shared by threads and processes, every failure one clear line."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from ktdeval.errors import StoreError

APPLICATION_ID = 0x6B746472
"""`ktdr` in the header of the file: what tells it from the SQLite file of another application."""
VERSION = 1
BUSY_S = 30.0
"""How long to wait for another process that writes."""

_SCHEMA = (
    """CREATE TABLE replies (
        key TEXT NOT NULL PRIMARY KEY,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        created_at TEXT NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        checksum BLOB NOT NULL,
        body BLOB NOT NULL
    )""",
    """CREATE TABLE intents (
        book TEXT NOT NULL PRIMARY KEY,
        start INTEGER NOT NULL,
        lines BLOB NOT NULL
    )""",
)
_ELSEWHERE = "choose another file with --cache"
_MEND = {
    sqlite3.SQLITE_BUSY: f"another process has held it for {BUSY_S:.0f} s; wait for it, or {_ELSEWHERE}",
    sqlite3.SQLITE_FULL: "free space and run the same command again to go on",
    sqlite3.SQLITE_IOERR: f"free space or mend the disk and run the same command again to go on, or {_ELSEWHERE}",
    sqlite3.SQLITE_READONLY: f"make it and its folder writable, or {_ELSEWHERE}",
    sqlite3.SQLITE_CANTOPEN: f"make it and its folder readable and writable, or {_ELSEWHERE}",
    sqlite3.SQLITE_CORRUPT: f"it is damaged: delete it, or {_ELSEWHERE}",
    sqlite3.SQLITE_NOTADB: f"it is no reply cache, or damaged: {_ELSEWHERE}",
}
"""What to do about an error of SQLite, by its primary code."""


def primary_code(error: sqlite3.Error) -> int:
    """What kind of error it is, without its finer distinctions; 0 where it does not come from SQLite itself."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an error of SQLite into a StoreError that names the file and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path}: reply cache: {error}; {_MEND.get(primary_code(error), _ELSEWHERE)}") from error


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside becomes durable together, or, when it raises, not at all."""
    # Taking the lock for writing at once: SQLite waits for that, but not where a reader turns into a writer.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def open_database(path: Path, read_only: bool = False) -> sqlite3.Connection:
    """A connection that any thread may use, one at a time.

    Args:
        path: the file; made, with its folders, where there is none and `read_only` is False.
        read_only: change nothing, not even the journal mode.

    Raises:
        StoreError: it can't be read or written, is damaged, or is not a reply cache of this version.
    """
    if not read_only:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: reply cache: can't make its folder: {error.strerror or error}; {_ELSEWHERE}") from error
    with explained(path):
        # Also for reading alone with `rw`: such a connection tidies SQLite's log away when it is the last; where the file can't be
        # written, SQLite opens it for reading by itself.
        address = f"{path.absolute().as_uri()}?mode={'rw' if read_only else 'rwc'}"
        connection = sqlite3.connect(address, BUSY_S, isolation_level=None, check_same_thread=False, uri=True)
        try:
            _prepare(connection, path, read_only)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path, read_only: bool) -> None:
    # Text that is no UTF-8, as damage leaves it, is then found by its checksum instead of failing the query.
    connection.text_factory = _lenient_text
    if read_only:
        connection.execute("PRAGMA query_only=ON")
        if not _is_ours(connection, path):
            raise StoreError(f"{path}: reply cache: the file is empty; delete it, or {_ELSEWHERE}")
        return
    if not _is_ours(connection, path):
        _create(connection, path)
    connection.execute("PRAGMA synchronous=FULL")
    with transaction(connection):
        # Changes nothing, but as taking the lock alone does not, it finds a file that can't be written before a reply is paid.
        connection.execute("DELETE FROM intents WHERE book IS NULL")


def _lenient_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """True for a reply cache, False for an empty database.

    Raises:
        StoreError: it is something else.
    """
    is_inside = connection.in_transaction
    if not is_inside:
        connection.execute("BEGIN")  # one look at all three, whatever another process does meanwhile
    application, version, tables = (
        int(connection.execute(query).fetchall()[0][0])
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if not is_inside:
        connection.execute("COMMIT")
    if application == APPLICATION_ID:
        if version != VERSION:
            raise StoreError(
                f"{path}: reply cache: its version {version} is not {VERSION}; use the ktdeval that wrote it, or {_ELSEWHERE}"
            )
        return True
    if application or version or tables:
        raise StoreError(f"{path}: is an SQLite file of another application and is left as it is; {_ELSEWHERE}")
    return False


def _create(connection: sqlite3.Connection, path: Path) -> None:
    """Lay out an empty database; harmless where another process does it at the same time."""
    with contextlib.suppress(OSError):  # a file system without owners
        path.chmod(0o600)  # replies are their owner's; SQLite gives the files beside it the same mode
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # lets pruning give space back bit by bit; only now can it be chosen
    _write_ahead(connection)
    with transaction(connection):
        if not _is_ours(connection, path):
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={VERSION}")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log, so that readers and a writer do not wait for each other; the file remembers it."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.02)  # for this switch alone SQLite does not wait by itself
        else:
            return
