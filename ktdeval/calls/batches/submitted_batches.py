"""Batches of a run (`batches.json`). Each batch is recorded before it is submitted, and again when
its id at the provider is known. A run has this file if and only if it uses batches.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from ktdeval.calls.batches.batch_api import BatchId, BatchTag
from ktdeval.calls.records.call_log import CallPosition
from ktdeval.calls.records.record import KEY_DIGITS
from ktdeval.errors import wrap_os_error
from ktdeval.stores.mirror import keep_file
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.strict_json import dumps_pretty
from ktdeval.values.documents.typed_json import Value, decode_json, to_plain

BATCHES = "batches.json"  #: name of the file in a run's folder

_TIME = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$"


class BatchedRequest(Value, frozen=True):
    """A request in a batch, with its source."""

    episode: Annotated[str, Meta(pattern="^[0-9a-f]+$", max_length=64)]
    step: Annotated[int, Meta(ge=0)]
    #: first digits of the request's key
    key: Annotated[str, Meta(pattern=f"^[0-9a-f]{{{KEY_DIGITS}}}$")]
    #: kind of failure once the batch is over; null if the request was answered or is still pending
    failed: str | None = None

    @property
    def position(self) -> CallPosition:
        """Position of the request in the call log."""
        return self.episode, self.key


class BatchEntry(Value, frozen=True):
    """One batch."""

    tag: Annotated[str, Meta(pattern="^[a-z0-9-]{1,40}$")]
    begun_at: Annotated[str, Meta(pattern=_TIME)]  #: planned time of submission, in UTC
    requests: Annotated[tuple[BatchedRequest, ...], Meta(min_length=1)]
    #: the provider's id; null until it is known
    id: BatchId | None = None
    #: ids of batches that were mistaken for this one
    others: tuple[BatchId, ...] = ()
    is_over: bool = False  #: whether all results of the batch are recorded

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.begun_at)  # raises ValueError for a date that does not exist

    @property
    def name(self) -> BatchTag:
        """Return the batch's tag in the form that is sent to the provider."""
        return BatchTag(self.tag, datetime.fromisoformat(self.begun_at), len(self.requests))


class _BatchFile(Value):
    version: Literal[1]
    batches: tuple[BatchEntry, ...]


class BatchFile:
    """File that lists a run's batches. Each change rewrites the entire file."""

    def __init__(self, folder: Path) -> None:
        """Read the file, or create it if it does not exist. Raises StoreError."""
        self.path = folder / BATCHES
        self.entries: list[BatchEntry] = []
        if not self.path.exists():
            self._keep()
            return

        where = f"{self.path}: not a readable file of batches"
        with wrap_os_error(where):
            data = read_plain(self.path)

        self.entries += decode_json(data, _BatchFile, where).batches

    def add(self, entry: BatchEntry) -> int:
        """Record a batch and return its number."""
        self.entries.append(entry)
        self._keep()
        return len(self.entries) - 1

    def change(self, number: int, **changes: object) -> BatchEntry:
        """Record changes to a batch and return it. Raises StoreError."""
        entry = replace(self.entries[number], **changes)
        self.entries[number] = entry
        self._keep()
        return entry

    def _keep(self) -> None:
        file = _BatchFile(version=1, batches=tuple(self.entries))
        keep_file(self.path, dumps_pretty(to_plain(file)))
