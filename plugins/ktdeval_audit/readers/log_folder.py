"""Read all logs in a folder as one log, in the order of their paths.

A file that can't be read is reported, and does not prevent other files from being read. A file
without texts from a model, such as a settings file, is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ktdeval.cards import count
from ktdeval.errors import DataError, StoreError, UsageError, os_reason
from ktdeval_audit.log_types import AgentLog, LoggedDecision
from ktdeval_audit.readers.run_folder import is_run

ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".parquet", ".eval")
_MAX_BYTES = 4 << 30  # maximum total size of all files
_MAX_NAMED = 3  # maximum number of files that a note names


def read_folder(folder: Path, read: Callable[[Path], AgentLog]) -> AgentLog:
    """Return all logs in a folder and its subfolders as one log. Hidden files are skipped.

    `read` reads one file or one run folder. Raises UsageError or DataError if the folder contains
    no readable log.
    """
    paths, unread = _find_logs(folder)
    decisions: list[LoggedDecision] = []
    notes: dict[str, list[str]] = {}
    kinds: list[str] = []
    without_texts: dict[str, str] = {}
    for path in paths:
        name = path.relative_to(folder).as_posix()
        try:
            log = read(path)
        except UsageError as error:
            without_texts[name] = str(error)
            continue
        except (DataError, StoreError) as error:
            unread.append(str(error))
            continue

        kinds.append(log.kind)
        decisions += [replace(decision, file=name) for decision in log.decisions]
        for note in log.notes:
            notes.setdefault(note, []).append(name)

    if not decisions:
        _refuse(folder, unread, without_texts)

    said = [f"{_name_some(files)}: {note}" for note, files in notes.items()]
    if without_texts:
        names = _name_some(list(without_texts))
        said.append(
            f"not read as logs, without model text: {count(len(without_texts), 'file')}: {names}."
        )
    return AgentLog(
        kind=", ".join(dict.fromkeys(kinds)),
        source=folder.resolve().name,
        decisions=tuple(decisions),
        notes=tuple(said),
        files=len(kinds),
        unread=tuple(unread),
    )


def _find_logs(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the run folders, the files that may be logs, and the errors for subfolders that can't
    be listed.
    """
    found: list[Path] = []
    refused: list[OSError] = []
    for place, folders, names in os.walk(folder, onerror=refused.append):
        here = Path(place)
        if is_run(here):
            found.append(here)
            folders.clear()
            continue

        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and name.lower().endswith(ENDINGS):
                found.append(here / name)

    size = sum(path.stat().st_size for path in found if path.is_file())
    if size > _MAX_BYTES:
        raise UsageError(f"{folder}: its logs have {size:,} bytes; audit a part of at most 4 GiB")
    return found, [
        f"{error.filename}: can't list: {os_reason(error, 'allow it')}" for error in refused
    ]


def _refuse(folder: Path, unread: list[str], without_texts: dict[str, str]) -> None:
    if unread:
        raise DataError(f"{folder}: none of its logs can be read; the first: {unread[0]}")
    if without_texts:
        first = next(iter(without_texts.values()))
        raise UsageError(
            f"{folder}: none of its {len(without_texts)} files is a log; the first: {first}"
        )
    raise UsageError(f"{folder}: contains no log; give a folder with files {', '.join(ENDINGS)}")


def _name_some(files: list[str]) -> str:
    """Return the names of the first few files, and the number of other files."""
    more = len(files) - _MAX_NAMED
    shown = ", ".join(files[:_MAX_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown
