"""Readers for the logs of any program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ktdeval.errors import UsageError
from ktdeval.values import near_matches
from ktdeval_audit.decision_days import FIELDS, LATE_FIELDS
from ktdeval_audit.log_files import LogRecord, objects_in, read_records
from ktdeval_audit.log_types import AgentLog
from ktdeval_audit.readers import run_folder
from ktdeval_audit.readers.decisions import NO_DECISION, read_decisions, read_named
from ktdeval_audit.readers.fields import text_paths
from ktdeval_audit.readers.forms import CHAT, NAMES, form_named, form_of
from ktdeval_audit.readers.log_folder import read_folder

_SAMPLE = 20  # number of records whose keys are examined
_MAX_KEYS = 12
_TABLES = (".csv", ".tsv", ".txt")
_KNOWN_KEYS = frozenset({
    "answer", "completion", "content", "date", "day", "decision", "input", "message", "messages",
    "output", "prompt", "question", "reply", "response", "role", "text", "time", "timestamp",
})  # fmt: skip
_DAYS = (*FIELDS, *LATE_FIELDS, "id", "symbol", "ticker", "timestamp", "model")


def read_log(
    path: Path, kind: str | None = None, named: Mapping[str, str] | None = None
) -> AgentLog:
    """Return the log in a file, in one of the suite's run folders, or in all files in a folder.

    `kind` is the name of the format; if None, the format is detected from the keys of the records.
    `named` has the paths of the texts in each record, by the option that gives them (`--messages`,
    `--prompt`, `--response`). Raises UsageError if no format fits the file. Raises DataError or
    StoreError if the file can't be read.
    """
    if kind is not None and kind not in NAMES:
        raise UsageError(f"--from {kind!r} is not a known kind of log{near_matches(kind, NAMES)}")

    if not path.is_dir():
        return _read_file(path, kind, named)
    if kind == run_folder.name or run_folder.is_run(path):
        return run_folder.read(path)
    return read_folder(path, lambda inner: read_log(inner, kind, named))


def _read_file(path: Path, kind: str | None, named: Mapping[str, str] | None) -> AgentLog:
    if kind == run_folder.name:
        raise UsageError(
            f"{path}: is not a run folder; name the folder that contains manifest.json"
        )

    records = read_records(path)
    if named:
        name = CHAT
        reading = read_named(records, named)
    else:
        form = form_named(kind) if kind else form_of([record.value for record in records[:_SAMPLE]])
        name = form.name
        reading = read_decisions(records, form)

    if not reading.decisions:
        left_out = [note for note in reading.notes if NO_DECISION in note]
        if left_out:
            said = " ".join(left_out)
            raise UsageError(f"{path}: holds no decision. {said} Audit a log of calls")

        why = _why_nothing(kind or name, records, named)
        if path.suffix.lower() in _TABLES and not any(_has_known_key(each) for each in records[:1]):
            why = "no name in its first line is that of a text or a day; name a log of an agent"

        raise UsageError(f"{path}: {why}")
    return AgentLog(
        kind=name,
        source=path.name,
        decisions=tuple(reading.decisions),
        notes=tuple(reading.notes),
    )


def _has_known_key(record: LogRecord) -> bool:
    """Return whether a table's header has a known name. If it has none, the file may be no log,
    such as one of passwords, and its first line is not repeated.
    """
    keys = record.value if isinstance(record.value, dict) else {}
    return any(str(key).lower() in _KNOWN_KEYS for key in keys)


def _why_nothing(kind: str, records: Sequence[LogRecord], named: Mapping[str, str] | None) -> str:
    """Return why no decision was found in a log. The text lists the log's keys, and suggests
    options that name the right keys.
    """
    paths: dict[str, str] = {}
    for record in records[:_SAMPLE]:
        for item in objects_in(record.value):
            paths |= text_paths(item)

    keys = ", ".join(list(paths)[:_MAX_KEYS]) or "none"
    advice = _advice(paths)
    if named:
        options = " ".join(f"{option} {path}" for option, path in named.items())
        return f"no record has a text at {options}; keys: {keys}{advice}"
    if kind == CHAT:
        return (
            f"matches no known kind of log: {keys}{advice}; or name the kind with --from "
            f"({', '.join(NAMES)})"
        )
    return f"read as {kind}, the log has no messages with text; keys: {keys}{advice}"


def _advice(paths: Mapping[str, str]) -> str:
    """Return suggested options for these keys: a list of objects may contain messages, and texts
    may be a prompt and its reply.
    """
    lists = [path for path, kind in paths.items() if kind == "objects"]
    texts = [path for path, kind in paths.items() if kind == "text"]
    if lists:
        return f"; if {lists[0]!r} contains the messages, give --messages {lists[0]}"
    texts = [path for path in texts if path.rpartition(".")[2] not in _DAYS] or texts
    sent = next(iter(texts), "")
    said = next(reversed(texts), "")
    if len(texts) > 1:
        return (
            f"; if {sent!r} is the prompt and {said!r} the reply, give"
            f" --prompt {sent} --response {said}"
        )
    if texts:
        return f"; if {sent!r} is the prompt, give --prompt {sent}"
    return '; write chat messages as JSON lines ({"messages": [{"role": …, "content": …}]})'
