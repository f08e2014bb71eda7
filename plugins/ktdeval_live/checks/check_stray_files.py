"""Check of a test's files before any file is read: no links, and no file that the chain does not
refer to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ktdeval.errors import KtdevalError
from ktdeval.values import Finding
from ktdeval_live.publication.publish_chain import publications
from ktdeval_live.record.append_only_file import MAX_BYTES
from ktdeval_live.record.chain import Decided, Frozen, RecordChain
from ktdeval_live.record.findings import make_finding
from ktdeval_live.record.folder import STAMPS, LiveFolder

_RULE = "file"
_GIT = ".git"
_BASE = "base"  # tables in this folder may be large, and are checked separately


def unsafe_files(path: Path) -> Iterator[Finding]:
    """Yield findings for files that can't be read safely: links, special files, and files that are
    too large.
    """
    for entry in sorted(path.iterdir()):
        if entry.name == _GIT:
            if not stat.S_ISDIR(entry.lstat().st_mode):
                yield make_finding(_RULE, "", f"{_GIT}: is not a folder")
            continue
        yield from _unsafe(entry, entry.name, is_large=entry.name == _BASE)


def _unsafe(entry: Path, name: str, is_large: bool) -> Iterator[Finding]:
    status = entry.lstat()
    if stat.S_ISDIR(status.st_mode):
        for inner in sorted(entry.iterdir()):
            yield from _unsafe(inner, f"{name}/{inner.name}", is_large)
    elif stat.S_ISLNK(status.st_mode):
        yield make_finding(_RULE, "", f"{name}: is a link; put the file itself there")
    elif not stat.S_ISREG(status.st_mode):
        yield make_finding(_RULE, "", f"{name}: is not a plain file")
    elif status.st_size > MAX_BYTES and not is_large:
        yield make_finding(_RULE, "", f"{name}: has more than {MAX_BYTES >> 20} MiB")


def stray_files(folder: LiveFolder, chain: RecordChain) -> Iterator[Finding]:
    """Yield findings for published files that no chain entry refers to.

    Files with which the test began are checked separately.
    """
    known = set(_known_files(folder, chain))
    for above in ("data", "records", STAMPS):
        for name in _files_below(folder.path, above):
            if name not in known:
                yield make_finding(_RULE, _day_of(name), f"{name}: is not in the chain")


def _known_files(folder: LiveFolder, chain: RecordChain) -> Iterator[str]:
    for _, data in chain.find_links(Frozen):
        yield f"data/{data.market}/{data.day}-{data.number}.json"
    for _, body in chain.find_links(Decided):
        yield f"records/{body.entry}/{body.day}.json"

    try:
        public = publications(folder)
    except KtdevalError:
        return  # faults in the evidence are reported as separate findings
    for one in public:
        if one.stamp is not None:
            yield one.stamp


def _files_below(path: Path, above: str) -> Sequence[str]:
    """Return the names of all files below a folder."""
    names = []
    for folder, _, files in os.walk(path / above):
        for file in files:
            names.append(Path(folder, file).relative_to(path).as_posix())
    return sorted(names)


def _day_of(name: str) -> str:
    """Return the day at the start of a file name; empty if there is no such day."""
    start = name.rsplit("/", 1)[-1][:10]
    digits = start.replace("-", "")
    if len(start) == 10 and len(digits) == 8 and digits.isascii() and digits.isdigit():
        return start
    return ""
