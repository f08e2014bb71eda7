"""Ledger of a study: one line per strategy that was tried, so that the number of trials is known.

Each study has a name, and its ledger is the file `study-NAME.jsonl` next to the judged runs. Lines
are only ever appended, with the folder locked. A file that was tried is identified by its SHA-256.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ktdeval.errors import DataError, UsageError, wrap_os_error
from ktdeval.values.disk.files import make_folder, read_plain, sync_folder
from ktdeval.values.disk.folder_lock import lock_folder
from ktdeval.values.documents.format_versions import check_version, format_version
from ktdeval.values.documents.typed_json import Value, decode_json, encode_canonical

_FORMAT = "judge"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_BYTES = 64 * 2**20  #: maximum size of a ledger


class StudyTry(Value, frozen=True, kw_only=True):
    """Strategy that was tried: one line of the ledger."""

    version: int = format_version(_FORMAT)
    sha256: str  #: SHA-256 of the judged file
    source: str  #: name of the file
    #: SHA-256 of the plan in its run; null for an account-value series without decisions
    plan_sha256: str | None
    returns: int  #: number of returns
    returns_a_year: float | None
    #: Sharpe ratio per return, not annualised; null if undefined or based on too few returns
    sharpe: float | None


@dataclass(frozen=True)
class Study:
    """Ledger of a study, with one try per file."""

    path: Path
    tries: tuple[StudyTry, ...]

    def sharpes_at(self, returns_a_year: float) -> tuple[float, ...]:
        """Return the Sharpe ratio of each try, rescaled to `returns_a_year` returns per year.

        With `returns_a_year` = 1, the ratios are annualised. Tries without a ratio are omitted.
        """
        ratios = []
        for tried in self.tries:
            if tried.sharpe is not None and tried.returns_a_year is not None:
                ratios.append(tried.sharpe * math.sqrt(tried.returns_a_year / returns_a_year))
        return tuple(ratios)


def study_ledger(folder: Path, name: str) -> Path:
    """Return the path of a study's ledger in a folder. Raises UsageError if the name can't be used
    as a file name.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--study {name[:40]!r}: expected a name of letters, digits, dots and hyphens, such as"
            " momentum"
        )
    return folder / f"study-{name}.jsonl"


def record_try(path: Path, tried: StudyTry) -> Study:
    """Append a try to a ledger and return the study. A file that the ledger already contains is not
    added again.

    Raises StoreError if the ledger can't be read or written, and DataError as `read_study` does.
    """
    with wrap_os_error(f"{path}: can't write"):
        make_folder(path.parent)
        with lock_folder(path.parent, wait=True):
            tries: tuple[StudyTry, ...] = ()
            if path.exists():
                tries = read_study(path).tries
            if tried.sha256 not in {each.sha256 for each in tries}:
                _append_line(path, encode_canonical(tried))
                tries = (*tries, tried)

    return Study(path, tries)


def _append_line(path: Path, line: str) -> None:
    """Append a line durably."""
    with path.open("ab") as file:
        file.write(f"{line}\n".encode())
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def read_study(path: Path) -> Study:
    """Read a ledger.

    Raises StoreError if the ledger can't be read or has a later version. Raises DataError if a line
    is not a valid try, for example because it is truncated.
    """
    with wrap_os_error(f"{path}: can't read"):
        lines = read_plain(path, _MAX_BYTES).splitlines()

    by_file: dict[str, StudyTry] = {}
    for number, line in enumerate(lines, 1):
        where = f"{path}: line {number}"
        tried = decode_json(line, StudyTry, where, DataError)
        check_version(_FORMAT, tried.version, where, "read it with the ktdeval that made it")
        by_file.setdefault(tried.sha256, tried)

    return Study(path, tuple(by_file.values()))


def find_studies(folders: Iterable[Path]) -> list[Study]:
    """Return the studies whose ledgers are in these folders, keyed by path. Raises as `read_study`
    does.
    """
    paths: set[Path] = set()
    for folder in folders:
        paths.update(path.resolve() for path in folder.glob("study-*.jsonl"))
    return [read_study(path) for path in sorted(paths)]
