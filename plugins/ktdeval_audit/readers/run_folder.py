"""Read this suite's run folders. Each step is a decision, and its day comes from the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ktdeval.cards import count
from ktdeval.errors import DataError
from ktdeval.harness import TranscriptEntry
from ktdeval.runner import MANIFEST, RunFolder
from ktdeval.values import JsonValue
from ktdeval_audit.log_files import objects_in, read_records
from ktdeval_audit.log_types import AgentLog, LoggedDecision, LogText
from ktdeval_audit.readers.texts import TextReader

name = "ktdeval"


def is_run(path: Path) -> bool:
    """Return whether a folder contains the manifest of a run, even if the manifest is damaged."""
    if not (path / MANIFEST).is_file():
        return False
    try:
        (record,) = read_records(path / MANIFEST)
    except (DataError, ValueError):
        return True
    return any("episodes" in manifest for manifest in objects_in(record.value))


def read(path: Path) -> AgentLog:
    """Return the steps of a run's trading episodes as a log. Raises StoreError if the folder is not
    a run.
    """
    run = RunFolder.load(path)
    decisions: list[LoggedDecision] = []
    others = 0
    for spec in run.manifest.specs:
        records, transcript = run.load_recorded(spec)
        for record, entry in zip(records, transcript, strict=False):
            if getattr(record, "decided_on", None) is None:
                others += 1
                continue

            title = f"episode {spec.id} step {entry.step}"
            decisions.append(_decision(record, entry, title, spec.model))

    notes = (f"Left out: {count(others, 'question')} without a day.",) if others else ()
    return AgentLog(kind=name, source=path.name, decisions=tuple(decisions), notes=notes)


def _decision(record: Any, entry: TranscriptEntry, title: str, model: str) -> LoggedDecision:
    texts: list[LogText] = []
    for number, exchange in enumerate(entry.exchanges):
        texts += _exchange_texts(exchange, f"{title}/call {number}")

    return LoggedDecision(
        name=title,
        texts=tuple(texts),
        fields={"decided_on": record.decided_on},
        models=(model,),
    )


def _exchange_texts(exchange: Mapping[str, JsonValue], place: str) -> Iterator[LogText]:
    reader = TextReader(None)
    sent = exchange.get("sent")
    if isinstance(sent, tuple | list):
        for index, message in enumerate(sent):
            # the model's own messages are already included as previous replies
            if isinstance(message, Mapping) and message.get("role") != "assistant":
                yield from reader.texts(message, None, f"{place} message {index}")

    reply = exchange.get("reply")
    if isinstance(reply, Mapping):
        yield from reader.texts({"role": "assistant", **reply}, None, f"{place} reply")
