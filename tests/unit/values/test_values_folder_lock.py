"""Locks of folders."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from ktdeval.errors import StoreError
from ktdeval.values import lock_folder

SLEEP = "ktdeval.values.disk.folder_lock.time.sleep"


@pytest.fixture
def other(tmp_path: Path) -> int:
    """Return a descriptor of another holder of the folder's lock."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def test_lock_that_another_holds_is_refused(tmp_path: Path, other: int) -> None:
    refused = pytest.raises(StoreError, match="another process writes it; wait until it has ended")
    with refused, lock_folder(tmp_path):
        pass

    os.close(other)


def test_lock_briefly_kept_by_a_dead_holders_child_is_waited_for(
    tmp_path: Path, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SLEEP, lambda _: os.close(other))
    with lock_folder(tmp_path):
        taken_twice = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(taken_twice, fcntl.LOCK_EX | fcntl.LOCK_NB)

        os.close(taken_twice)
