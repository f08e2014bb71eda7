"""Messages about calls of the system that fail: each names the cause, and what to do about it."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ktdeval.calls.records.database import CallDatabase
from ktdeval.errors import StoreError, os_reason, wrap_os_error
from ktdeval.testing import on_each_row
from support.providers.call_runs import entry_of

MANY = "Too many open files"


def error_of(code: int) -> OSError:
    return OSError(code, os.strerror(code), "a/file")


@on_each_row(
    "error, advice, expected",
    (
        error_of(errno.ENOSPC),
        "free space",
        "No space left on device; free space",
    ),
    (error_of(errno.EACCES), "", "Permission denied"),
    (
        error_of(errno.EMFILE),
        "free space",
        f"{MANY}; raise the limit of this process, such as with `ulimit -n 4096`",
    ),
    (
        error_of(errno.ENFILE),
        "",
        f"{MANY} in system; end other programs, or raise the machine's limit",
    ),
    (ValueError("no file"), "name another", "no file; name another"),
    (OSError("of no code"), "name another", "of no code; name another"),
)
def test_the_reason_of_an_error_is_the_system_s_with_advice_that_fits(
    error: Exception, advice: str, expected: str
) -> None:
    assert os_reason(error, advice) == expected


def test_a_wrapped_error_names_the_limit_of_open_files_instead_of_another_folder() -> None:
    with (
        pytest.raises(StoreError, match=f"^a: can't write: {MANY}; raise the limit"),
        wrap_os_error("a: can't write", "choose another folder"),
    ):
        raise error_of(errno.EMFILE)


# -- databases


@contextmanager
def open_files(more: int) -> Iterator[None]:
    """Let this process open so many more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Each is the lowest free number, and the last is beyond the limit; others above may be taken.
    free = [os.dup(0) for _ in range(more + 1)]
    for number in free:
        os.close(number)

    resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_database_that_may_open_too_few_files_names_their_limit(tmp_path: Path) -> None:
    """At each limit another file of SQLite is the one that can't be opened."""
    refused = []
    for more in range(16):
        path = tmp_path / f"{more}.sqlite"
        with open_files(more):
            try:
                with CallDatabase(path) as database:
                    database.put([entry_of("a")])
            except StoreError as error:
                refused.append(str(error))
                continue

        with CallDatabase(path) as database:
            assert len(database.keys()) == 1

    assert 3 <= len(refused) <= 12
    assert all(f"{MANY}; raise the limit of this process" in line for line in refused)
    assert not any("readable and writable" in line for line in refused)
