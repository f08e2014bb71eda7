"""A run's record of calls and the cache that it shares, as tests and the processes that they kill
open them.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec

from ktdeval.calls.records.call_log import LOG_FILE, read_calls
from ktdeval.calls.records.database import CallDatabase
from ktdeval.calls.records.record import CacheEntry, CallRecord
from ktdeval.harness.chat_messages import Reply, Usage
from ktdeval.values import sha256_hex

AT = "2026-01-31T23:59:59.123Z"


class Run:
    """A run's folder and the cache that it shares; opening them is what a resumed run does."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.cache_path = folder, folder.parent / "replies.sqlite"

    def recorded(self) -> list[str]:
        """Who asked, for each call."""
        return [record.episode for record in read_calls(self.folder)]

    def stored_replies(self, path: Path | None = None) -> set[str]:
        """Contents of all replies of the run's own; or of another file."""
        return {entry.reply.content for entry in entries_in(path or self.folder / LOG_FILE)}

    def shared(self) -> set[str]:
        return self.stored_replies(self.cache_path)


def call_of(word: object, **changes: Any) -> CallRecord:
    record = CallRecord(AT, str(word), key_of(word)[:16], "answered", 1, 0.5, Usage(10, 2), 0.25)
    return msgspec.structs.replace(record, **changes)


def key_of(word: object) -> str:
    return sha256_hex(str(word))


def entry_of(
    word: object, reply: Reply | None = None, model: str = "gpt-9", at: str = AT
) -> CacheEntry:
    """Return the cached form of an answer: the word itself, unless there is another reply."""
    return CacheEntry(
        key_of(word), "openai", model, reply or Reply(str(word), usage=Usage(10, 2)), at
    )


def cached(cache: CallDatabase, key: str) -> Reply | None:
    """The reply that a cache gives."""
    entry = cache.entry(key)
    return None if entry is None else entry.reply


def entries_in(path: Path) -> list[CacheEntry]:
    """All sound replies of a file, by key."""
    with CallDatabase(path) as file:
        return [entry for key in sorted(file.keys()) if (entry := file.entry(key)) is not None]


def keys_in(path: Path) -> set[str]:
    """Keys of all replies of a cache."""
    return {entry.key for entry in entries_in(path)}


def python(program: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """A second process that runs `program`."""
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
