"""Readers of logs by the program that wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ktdeval.errors import UsageError
from ktdeval.values import near_matches
from ktdeval_audit.log_files import LogRecord, read_records
from ktdeval_audit.log_types import AgentLog
from ktdeval_audit.readers import (
    atif,
    chat,
    claude_code,
    inspect_log,
    langsmith,
    run_folder,
    spans,
)


class LogReader(Protocol):
    """Module that reads the records of one kind of log."""

    name: str

    def recognises(self, records: Sequence[LogRecord]) -> bool:
        """Whether records have the keys of this kind."""

    def read(self, records: Sequence[LogRecord], source: str) -> AgentLog:
        """Return the log."""


READERS: tuple[LogReader, ...] = (chat, spans, langsmith, inspect_log, atif, claude_code)
NAMES = (*(reader.name for reader in READERS), run_folder.name)


def read_log(path: Path, kind: str | None = None) -> AgentLog:
    """Return the log in a file, or of a run folder of the suite.

    `kind`: name of the reader; None chooses by the keys of the records. Raises UsageError: no
    reader knows the file, or several do; DataError, StoreError: it can't be read.
    """
    if kind is not None and kind not in NAMES:
        raise UsageError(f"--from {kind!r} is not a kind of log{near_matches(kind, NAMES)}")

    if path.is_dir():
        return run_folder.read(path)

    if kind == run_folder.name:
        raise UsageError(f"{path}: is not a run folder; name the folder that has manifest.json")

    records = read_records(path)
    if kind is not None:
        chosen = [reader for reader in READERS if reader.name == kind]
    else:
        chosen = [reader for reader in READERS if reader.recognises(records)]

    if not chosen:
        raise UsageError(
            f"{path}: has the keys of no known log; write chat messages as JSON lines"
            ' ({"messages": [{"role": …, "content": …}]}), or name the kind with --from'
            f" ({', '.join(NAMES)})"
        )
    if len(chosen) > 1:
        names = " and ".join(reader.name for reader in chosen)
        raise UsageError(f"{path}: may be a log of {names}; choose one with --from")

    log = chosen[0].read(records, path.name)
    if not log.decisions:
        raise UsageError(f"{path}: read as {log.kind}, it has no message with a text")
    return log
