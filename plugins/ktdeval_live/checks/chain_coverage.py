"""Coverage of a test's folder by the chain: each byte is covered or listed as uncovered.

| files | covered by |
|---|---|
| plan.json, .gitignore, schedules/, base/ | their hashes in the chain's first entry |
| data/, records/ | their hashes in the chain, in the only form in which they are written |
| chain.jsonl | the hash links between its entries |
| published.jsonl | the hash links between its lines, and the git history, which has each line |
| stamps/ | their hashes in published.jsonl |
| cards/ | regeneration from the chain, byte by byte, except for their provenance |
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ktdeval.cards import clean
from ktdeval.errors import wrap_os_error
from ktdeval_live.publication.git_history import commit_order, read_committed
from ktdeval_live.record.append_only_file import whole_lines
from ktdeval_live.record.folder import CARDS, CHAIN, IGNORED, PLAN, PRIVATE, PUBLISHED, SITE, STAMPS

_GIT = ".git"
_BEGUN_FOLDERS = ("schedules", "base")
_OF_RECORD = (PLAN, IGNORED, CHAIN, PUBLISHED, *_BEGUN_FOLDERS, "data", "records", STAMPS)

_REASONS: Mapping[str, str] = {
    _GIT: "git's own files; of its history chain.jsonl and published.jsonl are compared",
    PRIVATE: "is not published: sealed decisions and model calls",
    SITE: "is made from the record, and no part of it",
    CARDS: "their provenance (when each was made, by which version) is the maintainer's word, and a"
    " card that is absent can be made again",
}


@dataclass(frozen=True)
class UncoveredPart:
    """A part of a test's folder that can be changed without causing a finding."""

    name: str  #: file or folder in the test's folder
    reason: str

    def line(self) -> str:
        """Return the part as printable text, since names may come from untrusted files."""
        return clean(f"not covered: {self.name}: {self.reason}")


def begun_files(path: Path) -> dict[str, str]:
    """Return the SHA-256 of each file with which a test begins, keyed by its path in the folder.

    Raises StoreError if a file can't be read.
    """
    files = [path / name for name in (PLAN, IGNORED) if (path / name).is_file()]
    for name in _BEGUN_FOLDERS:
        files += [file for file in (path / name).rglob("*") if file.is_file()]

    found = {}
    for file in sorted(files):
        with wrap_os_error(f"{file}: can't be read"), file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        found[file.relative_to(path).as_posix()] = digest
    return found


def list_uncovered(path: Path) -> Iterator[UncoveredPart]:
    """Yield the uncovered parts of a test without findings. Raises StoreError."""
    for entry in sorted(path.iterdir()):
        if entry.name in _OF_RECORD:
            continue
        name = entry.name
        if entry.is_dir():
            name += "/"
        yield UncoveredPart(name, _REASONS.get(entry.name, "is not part of the record"))

    lines = _uncommitted_lines(path)
    if lines:
        text = f"its last {lines} lines are not in git's history yet; the next step commits them"
        yield UncoveredPart(PUBLISHED, text)

    for name in (CHAIN, PUBLISHED):
        torn = _bytes_after_last_line(path / name)
        if torn:
            yield UncoveredPart(
                name, f"its last {torn} bytes have no line break, so they are not an entry"
            )


def _uncommitted_lines(path: Path) -> int:
    """Return the number of publications missing from the latest commit."""
    own = whole_lines(path / PUBLISHED)
    if not own:
        return 0
    latest = list(commit_order(path))[-1:]
    (lines,) = read_committed(path, latest, PUBLISHED)
    return len(own) - (lines or b"").count(b"\n")


def _bytes_after_last_line(path: Path) -> int:
    """Return the number of bytes after the last line break, as left by a killed process."""
    if not path.is_file():
        return 0
    with wrap_os_error(f"{path}: can't be read"):
        data = path.read_bytes()
    return len(data) - (data.rfind(b"\n") + 1)
