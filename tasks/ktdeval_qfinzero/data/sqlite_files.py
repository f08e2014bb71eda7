"""SQLite files of the services: made in one transaction, read only while they serve, one connection for each query."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from ktdeval.api import DataError
from ktdeval_qfinzero.data.row_records import Written
from ktdeval_qfinzero.errors import ServiceError

Record = TypeVar("Record", contravariant=True)


@dataclass(frozen=True, slots=True)
class Layout:
    """Tables of a kind of file.

    Attributes:
        kind: what it holds, in words.
        application_id: stands in the file's header, so that no other SQLite file is taken for one.
        version: grows with each change of the tables.
        statements: make the tables of a new file.
    """

    kind: str
    application_id: int
    version: int
    statements: tuple[str, ...]


class Table(Protocol[Record]):
    """Where records go, inside a transaction."""

    def key(self, record: Record) -> str:
        """The id of a record."""
        ...

    def holds(self, record: Record) -> bool | None:
        """Whether this very record is stored; None where none is stored under its id."""
        ...

    def insert(self, record: Record) -> None:
        """Store a record whose id is free."""
        ...

    def delete(self, record: Record) -> None:
        """Remove what is stored under a record's id."""
        ...


def upsert(table: Table[Record], records: Iterator[Record], *, replace: bool) -> Written:
    """Store records: new ones are added, those that are there already are passed over.

    Raises:
        DataError: another record is stored under an id, and `replace` is not set.
    """
    new = same = replaced = 0
    for record in records:
        held = table.holds(record)
        if held:
            same += 1
            continue
        if held is None:
            new += 1
        elif replace:
            replaced += 1
            table.delete(record)
        else:
            raise DataError(f"{table.key(record)} is stored already with other content: pass replace=True to change it")
        table.insert(record)
    return Written(new, same, replaced)


@contextmanager
def writing(path: Path, layout: Layout) -> Iterator[sqlite3.Connection]:
    """A file, made where there is none, inside one transaction: all of it is written, or nothing.

    Raises:
        DataError: the file can't be written, or is of another kind.
    """
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                    _make(connection, layout)
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
    """See that a file can be read and is of a kind.

    Raises:
        DataError: it is not there, damaged, or of another kind.
    """
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; the {layout.kind} is written by `ktdeval_qfinzero.data`'s writers")
    try:
        with closing(_open(path)) as connection:
            _check(connection, layout)
    except (sqlite3.Error, DataError) as error:
        raise DataError(f"{path}: {error}") from error


@contextmanager
def reading(path: Path, layout: Layout) -> Iterator[sqlite3.Connection]:
    """A connection that can't write, for the queries of one call; threads share nothing.

    Raises:
        ServiceError: `unavailable`: the file is gone, damaged or holds what can't be decoded.
    """
    try:
        with closing(_open(path)) as connection:
            yield connection
    except (sqlite3.Error, ValueError, KeyError) as error:
        raise ServiceError("unavailable", f"the {layout.kind} can't be read ({type(error).__name__})") from error


def select(columns: str, table: str, conditions: Sequence[str]) -> str:
    """A query of fixed pieces; what callers give goes in as parameters only."""
    return f"SELECT {columns} FROM {table} WHERE {' AND '.join(conditions)}"  # noqa: S608 - only constants of the stores come here


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)


def _make(connection: sqlite3.Connection, layout: Layout) -> None:
    for statement in layout.statements:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {layout.application_id}")
    connection.execute(f"PRAGMA user_version = {layout.version}")


def _check(connection: sqlite3.Connection, layout: Layout) -> None:
    found = (connection.execute("PRAGMA application_id").fetchone()[0], connection.execute("PRAGMA user_version").fetchone()[0])
    if found != (layout.application_id, layout.version):
        raise DataError(f"this is no {layout.kind} of layout {layout.version}: make the file anew")
