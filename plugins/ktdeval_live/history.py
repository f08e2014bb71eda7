"""Git history of a test, read as that of a stranger: nothing that its settings name is run, nothing
is fetched, and no replaced object is believed.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from ktdeval.errors import StoreError

_TIMEOUT_S = 120
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone would fetch what it lacks
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}


def commit_order(path: Path) -> Mapping[str, int]:
    """Return the commits of a folder's history with their places, the oldest first. Raises
    StoreError: there is no history.
    """
    words = [*_git(path), "rev-list", "--reverse", "--topo-order", "HEAD", "--"]
    try:
        done = subprocess.run(  # noqa: S603 - git, without a shell
            words,
            env=_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreError(f"{path}: its git history can't be read: {error}") from error

    if done.returncode:
        said = " ".join(done.stderr.split())[-200:]
        raise StoreError(f"{path}: its git history can't be read: {said}")
    return {commit: place for place, commit in enumerate(done.stdout.split())}


def committed(path: Path, commits: Iterable[str], name: str) -> Iterator[bytes | None]:
    """Yield a file as each commit has it; None where there is no such commit or file. Raises
    StoreError: git can't be run.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - git, without a shell
            [*_git(path), "cat-file", "--batch"],
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError as error:
        raise StoreError(f"{path}: its git history can't be read: {error}") from error

    with process:
        if process.stdin is None or process.stdout is None:
            raise StoreError(f"{path}: git has no input or output")
        try:
            for commit in commits:
                yield _file_at(process.stdin, process.stdout, commit, name)
        except OSError as error:
            raise StoreError(f"{path}: its git history can't be read: {error}") from error
        finally:
            process.stdin.close()


def _file_at(questions: IO[bytes], answers: IO[bytes], commit: str, name: str) -> bytes | None:
    if not _COMMIT.fullmatch(commit):
        return None

    questions.write(f"{commit}:{name}\n".encode())
    questions.flush()
    head = answers.readline().split()
    if len(head) != 3 or head[1] != b"blob":
        _skip(answers, head)
        return None

    content = answers.read(int(head[2]))
    answers.read(1)
    return content


def _skip(answers: IO[bytes], head: list[bytes]) -> None:
    """Read over an object that is no file; of a missing one there is nothing to read."""
    if len(head) == 3 and head[2].isdigit():
        answers.read(int(head[2]) + 1)


def _git(path: Path) -> list[str]:
    return ["git", "-c", "core.commitGraph=false", "--git-dir", str(path / ".git")]


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**own, **_ENVIRONMENT}
