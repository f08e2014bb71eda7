"""Git repository of a forward test: commits and pushes that a kill can't spoil.

Nothing is taken from the surroundings but what a push needs: a cron job without a home, a hook of
another repository or settings of the user must not change what is committed.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ktdeval.errors import StoreError, explained

_TIMEOUT_S = 120
_WAIT_S = 60  # for git of an earlier step that was killed
_STALE_S = 5  # age of a lock file whose process is gone
_MOST_SAID = 1000  # characters of what git said; it repeats paths after the reason

_LOCKS = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock")
"""Lock files of git, below `.git`; each branch has one more."""

_SETTINGS = {
    "commit.gpgsign": "false",
    "core.attributesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.excludesFile": "/dev/null",
    "core.fsync": "all",
    "core.hooksPath": "/dev/null",
    "gc.autoDetach": "false",
}
"""Settings by which all that is published is committed as it is, and survives a power cut."""

_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "ktdeval live",
    "GIT_AUTHOR_EMAIL": "live@ktdeval.invalid",
    "GIT_COMMITTER_NAME": "ktdeval live",
    "GIT_COMMITTER_EMAIL": "live@ktdeval.invalid",
    "LC_ALL": "C",
}

_OTHER_REPOSITORY = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_WORK_TREE",
)  # fmt: skip
"""Variables that git sets for its hooks, which name another repository."""


class Repository:
    """Repository in the folder of a test."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._git_path = self._path / ".git"

    def begin(self, branch: str, ignored: str) -> None:
        """Make the repository where there is none, with the names that are not published. Raises
        StoreError: git is missing or fails.
        """
        if not self._git_path.exists():
            self._git("init", "--quiet", "--initial-branch", branch)
        with explained(f"{self._path}: can't write .gitignore"):
            (self._path / ".gitignore").write_text(ignored, "utf-8")

    def commit(self, subject: str, at: str, but: Sequence[str]) -> str:
        """Commit all that is published, as of a time; return the commit. Files below `but` alone
        are no reason for a commit. Raises StoreError.
        """
        when = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
        with self._held() as lock:
            self._git("add", "--all", lock=lock)
            if self.has_changes(but):
                self._git("commit", "--quiet", "--message", subject, extra=when, lock=lock)
        return self._git("rev-parse", "HEAD").strip()

    def has_changes(self, but: Sequence[str]) -> bool:
        """Whether anything is new, below `but` aside. Raises StoreError."""
        excluded = [f":!{name}" for name in but]
        return bool(self._git("status", "--porcelain", "--", ".", *excluded).strip())

    def push(self, remote: str, branch: str) -> None:
        """Push the latest commit. Raises StoreError: the remote refuses it or can't be reached."""
        self._git("push", "--quiet", remote, f"HEAD:refs/heads/{branch}")

    def file_at(self, commit: str, name: str) -> bytes:
        """Return a file as a commit has it. Raises StoreError: there is no such commit or file."""
        if not re.fullmatch("[0-9a-f]{40,64}", commit):
            raise StoreError(f"{self._path}: {commit[:20]!r} is no commit")
        return self._git("show", f"{commit}:{name}").encode("utf-8", "surrogateescape")

    @contextmanager
    def _held(self) -> Iterator[int]:
        """Hold the repository for processes of git that change it, and remove what killed ones left.

        They inherit the lock: one that outlives the step that started it is waited for.
        """
        with explained(f"{self._git_path}: can't be opened"):
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

    def _git(self, *arguments: str, extra: Mapping[str, str] | None = None, lock: int = -1) -> str:
        """Run git. It never asks for a password. Raises StoreError with what git said."""
        words = ["git"]
        for name, value in _SETTINGS.items():
            words += ["-c", f"{name}={value}"]

        done = _run([*words, *arguments], self._path, self._environment(extra or {}), lock)
        if done.returncode:
            said = " ".join(done.stderr.split())[-_MOST_SAID:] or f"it ended with {done.returncode}"
            raise StoreError(f"{self._path}: git {arguments[0]} failed: {said}")
        return done.stdout

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        found = {name: text for name, text in os.environ.items() if name not in _OTHER_REPOSITORY}
        # Named outright: without one of its own git would take a repository around the folder.
        return {**found, **_ENVIRONMENT, "GIT_DIR": str(self._git_path), **extra}


def _run(
    words: Sequence[str], path: Path, environment: Mapping[str, str], lock: int
) -> subprocess.CompletedProcess[str]:
    try:
        process = subprocess.Popen(  # noqa: S603 - git, without a shell
            words,
            cwd=path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
            pass_fds=() if lock < 0 else (lock,),
            start_new_session=True,  # no terminal on which ssh could ask
        )
    except FileNotFoundError as error:
        raise StoreError("git is not installed, and publishes the record; install it") from error

    try:
        out, said = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise StoreError(f"{path}: git took longer than {_TIMEOUT_S} s; is tried again") from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with ssh, which it started
            process.wait()

    return subprocess.CompletedProcess(words, process.returncode, out, said)


def _remove_stale(path: Path) -> None:
    """Remove a lock file that a killed process left. One that is young may be that of a command of
    the user, and is waited for.
    """
    with suppress(FileNotFoundError):
        age_s = time.time() - path.stat().st_mtime
        while 0 <= age_s < _STALE_S:
            time.sleep(0.1)
            age_s = time.time() - path.stat().st_mtime
        with explained(f"{path}: a lock that git left can't be removed"):
            path.unlink(missing_ok=True)
