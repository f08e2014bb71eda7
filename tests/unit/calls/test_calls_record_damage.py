"""A damaged record of calls: read as it was, or one line that names the file; never a traceback."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ktdeval.calls.records.cache_admin import CacheAdmin
from ktdeval.calls.records.call_log import LOG_FILE, CallLog
from ktdeval.calls.records.database import CallDatabase, read_identity, read_records
from ktdeval.calls.records.record import CallRecord
from ktdeval.errors import StoreError
from support.providers.call_runs import AT, entry_of

WRONG = (
    "x'80'",
    "CAST(x'80' AS TEXT)",
    "CAST(x'610062' AS TEXT)",
    "NULL",
    "-1",
    "1e999",
    "9223372036854775807",
    "''",
    "1.5",
)
TABLES = ("replies", "calls", "log")


def check_cache(path: Path) -> None:
    with CacheAdmin(path) as cache:
        cache.verify()
        cache.models()


def open_log(path: Path) -> None:
    with CallLog(path.parent) as log:
        log.resume(None)
        log.episode_calls("e")


READERS: dict[str, Callable[[Path], object]] = {
    "read_records": lambda path: list(read_records(path)),
    "read_identity": read_identity,
    "check_cache": check_cache,
    "open_log": open_log,
    "open_cache": lambda path: CallDatabase(path).close(),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A record with two calls."""
    folder = tmp_path_factory.mktemp("record")
    with CallLog(folder) as log:
        for number in (1, 2):
            call = CallRecord(
                AT, "e", f"{number:016x}", "answered", 1, 0.5, served_by="m", step=number, opening=1
            )
            log.record(call, entry_of(number))

    return (folder / LOG_FILE).read_bytes()


def problems(
    folder: Path, whole: bytes, damages: Iterator[tuple[str, Callable[[Path], None]]]
) -> tuple[int, list[str]]:
    """How many readings ended with an error, and those that ended with anything else than the right
    one.
    """
    path = folder / LOG_FILE
    count = 0
    bad = []

    for name, damage in damages:
        for reader, read in READERS.items():
            for old in folder.iterdir():
                old.unlink()

            path.write_bytes(whole)
            damage(path)
            try:
                read(path)
            except StoreError as error:
                count += 1
                if "\n" in str(error) or not str(error).startswith(f"{path}: "):
                    bad.append(f"{name}, {reader}: {error}")
            except Exception as error:  # noqa: BLE001 - the traceback that nobody may see
                bad.append(f"{name}, {reader}: {type(error).__name__}: {error}")

    return count, bad


@pytest.mark.exhaustive
def test_a_high_byte_anywhere_in_the_names_of_tables_is_one_line(
    tmp_path: Path, whole: bytes
) -> None:
    start = whole.index(b"CREATE TABLE") - 200
    offsets = [at for at in range(max(start, 0), 4096) if 32 <= whole[at] < 127][::4]

    def damages() -> Iterator[tuple[str, Callable[[Path], None]]]:
        for at in offsets:
            changed = whole[:at] + bytes([whole[at] | 0x80]) + whole[at + 1 :]
            yield f"byte {at}", lambda path, changed=changed: path.write_bytes(changed)  # type: ignore[misc]

    assert len(offsets) > 100

    count, bad = problems(tmp_path, whole, damages())
    assert bad == []
    assert count > 100


@pytest.mark.exhaustive
def test_values_of_another_type_are_one_line(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "schema").write_bytes(whole)
    schema = sqlite3.connect(tmp_path / "schema")
    columns = [
        (table, row[1]) for table in TABLES for row in schema.execute(f"PRAGMA table_info({table})")
    ]
    schema.close()

    def damages() -> Iterator[tuple[str, Callable[[Path], None]]]:
        for table, column in columns:
            for value in WRONG:
                statement = f"UPDATE OR IGNORE {table} SET {column} = {value}"
                yield statement, lambda path, statement=statement: execute(path, statement)  # type: ignore[misc]

    assert len(columns) > 20

    count, bad = problems(tmp_path, whole, damages())
    assert bad == []
    assert count > 20


def execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    try:
        with connection:
            connection.execute(statement)
    except sqlite3.IntegrityError:
        pass
    finally:
        connection.close()


def test_a_view_in_the_place_of_a_table_is_no_record(tmp_path: Path, whole: bytes) -> None:
    """Its rows could have no end."""
    path = tmp_path / LOG_FILE
    path.write_bytes(whole)
    endless = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x AS id, x AS begun_at"
        " FROM n"
    )
    execute(path, "DROP TABLE log")
    execute(path, f"CREATE VIEW log AS {endless}")

    with pytest.raises(StoreError, match="holds views or triggers, which no file of ktdeval has"):
        read_identity(path)
