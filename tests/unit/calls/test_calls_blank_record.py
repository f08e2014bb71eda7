"""A record of calls whose process was killed while it made the file: it has no calls, and is no
reason to stop anybody. A new file is whole from its first moment.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ktdeval.calls.records.call_log import LOG_FILE, CallLog, read_calls
from ktdeval.calls.records.database import (
    RECORD,
    CallDatabase,
    EpisodeRows,
    count_calls,
    read_episode,
    read_identity,
    read_labels,
)
from ktdeval.runner.remote.worker_part import Progress, episode_progress
from support.providers.call_runs import call_of, entries_in
from support.runs.killing import killed


def no_byte(path: Path) -> None:
    path.touch()


def no_table(path: Path) -> None:
    """What SQLite leaves between its first page and the first table."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("VACUUM")

    assert path.stat().st_size > 0


@pytest.fixture(params=[no_byte, no_table])
def blank(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder whose record of calls has no table."""
    make: Callable[[Path], None] = request.param
    make(tmp_path / LOG_FILE)
    return tmp_path


def test_a_record_without_tables_has_no_calls(blank: Path) -> None:
    path = blank / LOG_FILE
    assert list(read_calls(blank)) == []
    assert count_calls(path, "e") == 0
    assert read_episode(path, "e") == EpisodeRows([], [])
    assert read_labels(path, ["e", "canary"]) == {}
    assert read_identity(path) is None
    assert episode_progress(blank, "e") == Progress()


def test_its_process_goes_on_with_it_after_a_restart(blank: Path) -> None:
    with CallLog(blank) as log:
        log.record(call_of("e"))

    assert [call.episode for call in read_calls(blank)] == ["e"]


@pytest.mark.exhaustive
def test_a_new_file_is_never_seen_without_its_tables(tmp_path: Path) -> None:
    """Killed at the first statement of SQLite on the file, the process leaves a record."""
    killed(
        f"""
import sqlite3
from pathlib import Path
from ktdeval.calls.records.database import RECORD, CallDatabase
before = sqlite3.connect
def connect(address, **words):
    if "memory" not in address:
        {"print('here', flush=True); import sys; sys.stdin.read()"}
    return before(address, **words)
sqlite3.connect = connect
CallDatabase(Path({str(tmp_path / LOG_FILE)!r}), RECORD)
""",
        tmp_path,
    )

    with closing(sqlite3.connect(f"file:{tmp_path / LOG_FILE}?mode=ro", uri=True)) as database:
        assert database.execute("SELECT count(*) FROM calls").fetchone() == (0,)

    assert [path.name for path in tmp_path.iterdir()] == [LOG_FILE]


def test_threads_that_make_one_file_at_once_have_one(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    problems: list[BaseException] = []

    def make() -> None:
        try:
            CallDatabase(path).close()
        except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's
            problems.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    assert problems == []
    assert entries_in(path) == []
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_a_record_that_is_there_is_not_made_anew(tmp_path: Path) -> None:
    with CallLog(tmp_path) as log:
        log.record(call_of("e"))
        identity = log.identity

    CallDatabase(tmp_path / LOG_FILE, RECORD).close()

    assert read_identity(tmp_path / LOG_FILE) == identity
