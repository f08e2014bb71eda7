"""Git history of a test, treated as untrusted: no command in its settings is run, nothing is
fetched, and replaced objects are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from ktdeval.errors import StoreError
from ktdeval.stores import Git

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def commit_order(path: Path) -> Mapping[str, int]:
    """Return the position of each commit in a folder's history, oldest first.

    Raises StoreError if there is no history.
    """
    try:
        listed = _git(path).read("rev-list", "--reverse", "--topo-order", "HEAD", "--")
    except StoreError as error:
        raise StoreError(f"{path}: its git history can't be read: {error}") from error

    commits = listed.decode("ascii").split()
    return {commit: place for place, commit in enumerate(commits)}


def read_committed(path: Path, commits: Iterable[str], name: str) -> Iterator[bytes | None]:
    """Yield the content of a file in each commit; None if the commit or the file does not exist.

    Raises StoreError if git can't be run.
    """
    process = _git(path).pipe("cat-file", "--batch")
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
    """Skip an object that is not a file; a missing object has no content to skip."""
    if len(head) == 3 and head[2].isdigit():
        answers.read(int(head[2]) + 1)


def _git(path: Path) -> Git:
    return Git(path / ".git", path)
