"""Files of a board: a clone in git, or a plain folder that an archive was unpacked into.

Paths come from recipes of strangers, and files from repositories of strangers. Nothing outside the
folder is read, no link is followed out of it, and nothing is executed.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ktdeval.errors import DataError, StoreError, UsageError, os_reason
from ktdeval.stores import Git, git_around
from ktdeval.values import read_plain

CommitState = Literal["checked", "stated", "unverified"]
COMMIT_FILE = "COMMIT"  #: file at the top of a folder without git that names its commit
_MAX_BYTES = 1 << 29  #: largest file that is read
_MAX_UNPACKED = 1 << 31
_PLACE = re.compile(r"\\\{([a-z_]+)\\\}")


@dataclass(frozen=True)
class Clone:
    """Folder with the files of a board."""

    root: Path
    commit_state: CommitState
    commit_note: str
    git: Git | None = None

    def path(self, inside: str) -> Path:
        """Return the path of a file. Raises DataError unless it is a file inside the folder."""
        path = self.root / inside
        resolved = path.resolve()
        if not resolved.is_relative_to(self.root.resolve()):
            raise DataError(f"{path}: leads out of the folder of the board")
        if not resolved.is_file():
            raise DataError(f"{path}: is missing; the recipe expects this file at its commit")
        return path

    def read(self, inside: str) -> bytes:
        """Return the bytes of a file. Raises DataError if it can't be read."""
        path = self.path(inside)
        try:
            return read_plain(path, _MAX_BYTES)
        except OSError as error:
            raise DataError(f"{path}: can't be read: {os_reason(error)}") from error

    def matches(self, pattern: str) -> list[tuple[str, dict[str, str]]]:
        """Return the files that match a pattern with places such as `{entrant}`, sorted, with the
        text of each place. A place matches within one part of a path; `*` does, too.
        """
        glob = re.sub(r"\{[a-z_]+\}", "*", pattern)
        form = re.compile(_pattern_form(pattern))
        found = []
        for path in self.root.glob(glob):
            inside = path.relative_to(self.root).as_posix()
            match = form.fullmatch(inside)
            if match is not None and path.is_file():
                found.append((inside, match.groupdict()))
        return sorted(found)


def _pattern_form(pattern: str) -> str:
    """Return a regular expression for a pattern; a repeated place must have equal texts."""
    seen: set[str] = set()

    def place(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return f"(?P<{name}>[^/]+)"

    form = re.escape(pattern).replace(r"\*", "[^/]*")
    return _PLACE.sub(place, form)


def open_clone(folder: Path, commit: str) -> Clone:
    """Open a clone, or a folder of unpacked files, that should be at a commit.

    Raises DataError if it is at another commit. Without git and without a file COMMIT, the commit
    is unverified, which the report says.
    """
    if not folder.is_dir():
        raise UsageError(f"--source {folder}: is not a folder")

    git = git_around(folder) if (folder / ".git").exists() else None
    if git is not None:
        found = git.read("rev-parse", "HEAD").decode().strip()
        _check_commit(found, commit, folder, f"git checkout {commit}")
        return Clone(folder, "checked", f"git says {found[:7]}", git)

    named = folder / COMMIT_FILE
    if named.is_file():
        found = read_plain(named, 200).decode("utf-8", "replace").strip()
        _check_commit(found, commit, folder, "unpack the files of that commit")
        return Clone(folder, "stated", f"the file {COMMIT_FILE} says {found[:7]}")

    return Clone(folder, "unverified", f"the folder has neither git nor a file {COMMIT_FILE}")


def _check_commit(found: str, expected: str, folder: Path, fix: str) -> None:
    shortest = min(len(found), len(expected))
    if shortest < 7 or found[:shortest] != expected[:shortest]:
        raise DataError(f"{folder}: is at commit {found[:12]!r}; expected {expected}: {fix}")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive `.tar.zst` into a new folder. Raises StoreError for an archive that is
    damaged or too large, or with a member that leaves the folder.
    """
    import zstandard  # noqa: PLC0415 - only for archives

    folder.mkdir(parents=True)
    try:
        with archive.open("rb") as stream:
            reader = zstandard.ZstdDecompressor().stream_reader(stream)
            with tarfile.open(fileobj=reader, mode="r|") as tar:
                for member in _safe_members(tar, archive):
                    tar.extract(member, folder, filter="data")
    except (tarfile.TarError, zstandard.ZstdError, OSError) as error:
        raise StoreError(f"{archive}: can't be unpacked: {error}") from error


def _safe_members(tar: tarfile.TarFile, archive: Path) -> Iterator[tarfile.TarInfo]:
    total = 0
    for member in tar:
        if not (member.isfile() or member.isdir()):
            continue
        total += member.size
        if total > _MAX_UNPACKED:
            raise StoreError(f"{archive}: unpacks to more than {_MAX_UNPACKED >> 30} GiB")
        yield member
