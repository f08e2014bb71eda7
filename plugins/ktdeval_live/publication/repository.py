"""Git repository of a forward test, with commits and pushes that survive a kill."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ktdeval.errors import StoreError, wrap_os_error
from ktdeval.stores import Git

_WAIT_S = 60  # time to wait for git processes of an earlier step that was killed
_STALE_S = 5  # minimum age at which a lock file is considered left by a dead process

_LOCKS = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock")
"""Git's lock files, below `.git`. Each branch has an additional one."""

_AUTHOR = {
    "GIT_AUTHOR_NAME": "ktdeval live",
    "GIT_AUTHOR_EMAIL": "live@ktdeval.invalid",
    "GIT_COMMITTER_NAME": "ktdeval live",
    "GIT_COMMITTER_EMAIL": "live@ktdeval.invalid",
}


class Repository:
    """Git repository in a test's folder."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._git_path = self._path / ".git"
        self._git = Git(self._git_path, self._path)

    def begin(self, branch: str, ignored: str) -> None:
        """Create the repository if it does not exist, ignoring the names that are not published.

        Raises StoreError if git is missing or fails.
        """
        if not self._git_path.exists():
            self._git.init(branch)
        with wrap_os_error(f"{self._path}: can't write .gitignore"):
            (self._path / ".gitignore").write_text(ignored, "utf-8")

    def commit(self, subject: str, at: str, but: Sequence[str]) -> str:
        """Commit all public files, dated `at`; return the commit id.

        If only files under `but` have changed, no commit is made. Raises StoreError.
        """
        who = {**_AUTHOR, "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
        with self._hold_repository() as lock:
            self._git.change("add", "--all", "--", ".", lock=lock)
            if self.has_changes(but):
                self._git.change("commit", "--quiet", "--message", subject, extra=who, lock=lock)
        return self._git.change("rev-parse", "HEAD").strip()

    def has_changes(self, but: Sequence[str]) -> bool:
        """Return whether there are changes outside `but`. Raises StoreError."""
        excluded = [f":!{name}" for name in but]
        flags = ("--porcelain", "--untracked-files=all", "--ignore-submodules=all")
        return bool(self._git.change("status", *flags, "--", ".", *excluded).strip())

    def push(self, remote: str, branch: str) -> None:
        """Push the latest commit. Raises StoreError if the remote rejects it or can't be
        reached.
        """
        self._git.push(remote, branch)

    @contextmanager
    def _hold_repository(self) -> Iterator[int]:
        """Lock the repository for git processes that change it, and remove lock files of killed
        processes.

        Git processes inherit the lock: if one outlives its step, the next step waits for it.
        """
        with wrap_os_error(f"{self._git_path}: can't be opened"):
            descriptor = os.open(self._git_path, os.O_RDONLY)
        try:
            self._wait_for(descriptor)
            for path in self._locks():
                _remove_stale(path)
            yield descriptor
        finally:
            os.close(descriptor)

    def _wait_for(self, descriptor: int) -> None:
        until = time.monotonic() + _WAIT_S
        while time.monotonic() < until:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(0.05)
        raise StoreError(f"{self._path}: git of an earlier step still runs; end it")

    def _locks(self) -> Iterator[Path]:
        for name in _LOCKS:
            yield self._git_path / name
        yield from (self._git_path / "refs" / "heads").rglob("*.lock")


def _remove_stale(path: Path) -> None:
    """Remove a lock file left by a killed process.

    A recent lock file may belong to a command run by the user, so wait until it is older.
    """
    with suppress(FileNotFoundError):
        age_s = time.time() - path.stat().st_mtime
        while 0 <= age_s < _STALE_S:
            time.sleep(0.1)
            age_s = time.time() - path.stat().st_mtime
        with wrap_os_error(f"{path}: a lock that git left can't be removed"):
            path.unlink(missing_ok=True)
