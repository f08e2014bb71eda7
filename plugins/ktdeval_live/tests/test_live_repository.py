"""Repository of a forward test: processes of git that outlive their step, and locks that they leave."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ktdeval.errors import StoreError
from ktdeval_live.publication import repository as module
from ktdeval_live.publication.git_history import commit_order, read_committed
from ktdeval_live.publication.repository import Repository, _remove_stale

AT = "2026-01-05T21:30:00Z"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    found = Repository(tmp_path)
    found.begin("main", "/private/\n")
    (tmp_path / "one").write_text("1", "utf-8")
    return found


def test_commit_waits_for_git_of_a_step_that_was_killed(
    repository: Repository, tmp_path: Path
) -> None:
    descriptor = os.open(tmp_path / ".git", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    left = subprocess.Popen(["sleep", "1"], pass_fds=(descriptor,))
    os.close(descriptor)  # as the end of the step does
    commit = repository.commit("Add one", AT, ())

    assert left.poll() == 0
    assert list(read_committed(tmp_path, [commit], "one")) == [b"1"]


def test_young_lock_is_left_to_its_owner_for_a_while(
    repository: Repository, tmp_path: Path
) -> None:
    lock = tmp_path / ".git" / "index.lock"
    lock.touch()
    begun = time.monotonic()
    repository.commit("Add one", AT, ())

    assert time.monotonic() - begun > 3
    assert not lock.exists()


def test_lock_of_this_moment_is_young(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "index.lock"
    lock.touch()
    made = lock.stat().st_mtime
    times = iter([made, made + 60])
    waits: list[float] = []
    clock = SimpleNamespace(time=lambda: next(times), sleep=waits.append)
    monkeypatch.setattr(module, "time", clock)

    _remove_stale(lock)

    assert waits == [0.1]
    assert not lock.exists()


def test_no_commit_has_no_file(repository: Repository, tmp_path: Path) -> None:
    repository.commit("Add one", AT, ())

    assert list(read_committed(tmp_path, ["--output=x", "0" * 40], "one")) == [None, None]


def test_what_is_private_is_not_committed(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "sealed").write_text("2", "utf-8")
    commit = repository.commit("Add one", AT, ())

    assert list(read_committed(tmp_path, [commit], "private/sealed")) == [None]
    assert not repository.has_changes(())


# ---- a repository of a stranger


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config", '\n[filter "x"]\n\tclean = touch mark\n'),
        ("info/attributes", "* filter=x\n"),
    ],
)
def test_folder_of_a_stranger_is_refused_before_git_runs(
    repository: Repository, tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / ".git" / name
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)

    for use in (
        lambda: repository.has_changes(()),
        lambda: repository.commit("Add one", AT, ()),
        lambda: repository.push("https://example.org/x.git", "main"),
        lambda: commit_order(tmp_path),
    ):
        with pytest.raises(StoreError, match=r"filter\.…clean|info/attributes"):
            use()

    assert not (tmp_path / "mark").exists()


def test_monitor_of_a_stranger_is_off(repository: Repository, tmp_path: Path) -> None:
    with (tmp_path / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write("[core]\n\tfsmonitor = touch mark\n")

    repository.commit("Add one", AT, ())
    assert not (tmp_path / "mark").exists()
