"""The reply cache: answers of models by the content of what they were asked, in one SQLite file for all runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import zstandard

from ktdeval.calls.database import explained, open_database, transaction
from ktdeval.harness.messages import USAGE_FIELDS, Reply, ToolCall, Usage
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict

_MOST_REPLY_BYTES = 1 << 28  # what a stored reply may claim to unpack to: that much memory is taken at once
_LEVEL = 3
_KEY_DIGITS = 64

COLUMNS = "key, provider, model, created_at, input_tokens, output_tokens, checksum, body"
"""Of the table `replies`, in the order of `Row`."""
_SELECT = f"SELECT {COLUMNS} FROM replies WHERE key = ?"  # noqa: S608 - made of constants
_INSERT = f"INSERT OR REPLACE INTO replies ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - made of constants


def is_cacheable(reply: Reply) -> bool:
    """Whether a reply may be given again: one that ended by itself and holds something.

    Truncations, refusals and empty replies are accidents of one call, which may not happen again.
    """
    return reply.finish_reason in ("stop", "tool_calls") and bool(reply.tool_calls or reply.content.strip())


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A reply and where it came from. What was asked is not kept, only its hash: prompts may be proprietary.

    Attributes:
        key: of the request, from `ktdeval.calls.key.request_key`.
        provider: who was asked.
        model: the model's name there.
        reply: what came back; `is_cacheable`.
        created_at: when, ISO 8601 in UTC, such as `2026-01-31T23:59:59.123Z`.

    Raises:
        ValueError: the reply is not one to be kept, or another field is malformed.
    """

    key: str
    provider: str
    model: str
    reply: Reply
    created_at: str

    def __post_init__(self) -> None:
        if not is_cacheable(self.reply):
            raise ValueError(f"a reply that ended with {self.reply.finish_reason} or is empty is not kept")
        if len(self.key) != _KEY_DIGITS:
            raise ValueError(f"the key {self.key!r:.80} is no SHA-256 in hexadecimal digits")
        if datetime.fromisoformat(self.created_at).utcoffset() != timedelta(0):
            raise ValueError(f"the time {self.created_at!r} is not in UTC")

    def text(self) -> bytes:
        """The reply as it is stored, before it is packed: JSON from which it comes back exactly, lone surrogates included."""
        return dumps_canonical(self.reply.to_json()).encode("utf-8", "surrogatepass")


class Row(NamedTuple):
    """A `CacheEntry` as it is stored."""

    key: str
    provider: str
    model: str
    created_at: str
    input_tokens: int
    output_tokens: int
    checksum: bytes
    body: bytes


class Intent(NamedTuple):
    """What is to be written to a run's book about replies, committed together with these.

    Attributes:
        start: size of the book before it.
        lines: what comes there.
    """

    start: int
    lines: bytes


class DamagedError(ValueError):
    """A row is not what was stored."""


def pack(entry: CacheEntry, text: bytes, compressor: zstandard.ZstdCompressor) -> Row:
    """The stored form of an entry, whose `text` was made before."""
    usage = entry.reply.usage
    head = (entry.key, entry.provider, entry.model, entry.created_at, usage.input_tokens, usage.output_tokens)
    row = Row(*head, b"", compressor.compress(text))
    return row._replace(checksum=_checksum(row))


def unpack(row: Row) -> CacheEntry:
    """The entry that `pack` made.

    Raises:
        DamagedError: it is not that any more; says how.
    """
    try:
        if _checksum(row) != row.checksum:
            raise DamagedError("its checksum does not match")
        if not 0 <= zstandard.frame_content_size(row.body) <= _MOST_REPLY_BYTES:
            raise DamagedError("its packed form states no size, or more than a reply can have")
        reply = _reply(loads_strict(zstandard.ZstdDecompressor().decompress(row.body)))
        entry = CacheEntry(row.key, row.provider, row.model, reply, row.created_at)
    except (ValueError, TypeError, KeyError, RecursionError, zstandard.ZstdError) as error:
        raise DamagedError(str(error) if isinstance(error, DamagedError) else f"not a stored reply: {error}") from error
    usage = entry.reply.usage
    if (usage.input_tokens, usage.output_tokens) != (row.input_tokens, row.output_tokens):
        raise DamagedError("its counts of tokens are not those of the reply")
    return entry


def _reply(value: JsonValue) -> Reply:
    """The reply whose `to_json` this is. Written out, for the general `ktdeval.fields.build` takes ten times as long.

    Raises:
        ValueError, TypeError, KeyError: it is not one.
    """
    if not isinstance(value, dict):
        raise TypeError("it is no JSON object")
    tool_calls = tuple(ToolCall(**call) for call in value.get("tool_calls", ()))
    texts = [value["content"], value.get("reasoning", ""), value.get("served_by", "")]
    texts += [text for call in tool_calls for text in (call.id, call.name, call.arguments)]
    usage = Usage(**value.get("usage", {}))
    counts = [getattr(usage, name) for name in USAGE_FIELDS]
    if any(type(text) is not str for text in texts) or any(type(count) is not int for count in counts):
        raise TypeError("a field is of another type")
    reply = Reply(texts[0], tool_calls, value["finish_reason"], usage, texts[1], texts[2])
    if reply.to_json() != value:
        raise ValueError("it has other fields")
    return reply


def _checksum(row: Row) -> bytes:
    """SHA-256 over everything else in the row: a body that got under another key is found as well as one that was changed."""
    return sha256(dumps_canonical(row[:6]).encode() + b"\n" + row.body).digest()


class ReplyCache:
    """Replies by the key of their request. Threads may share one, and processes one file.

    The file must be on a local disk: processes find out through shared memory who writes. Reading does not wait for writing.
    """

    def __init__(self, path: Path) -> None:
        """Open the cache; make the file and its folders where there are none.

        Raises:
            StoreError: it can't be read and written, is damaged, or is not a reply cache.
        """
        self.path = path
        self._writer = open_database(path)
        try:
            self._reader = open_database(path, read_only=True)
        except BaseException:
            self._writer.close()
            raise
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self._reading, self._writing = threading.Lock(), threading.Lock()

    def get(self, key: str) -> Reply | None:
        """The reply kept under a key; None where there is none, or one that is damaged.

        Raises:
            StoreError: the file can't be read.
        """
        with self._reading, explained(self.path):
            # All rows, though there is one at most: a statement that has not ended would keep the log from being tidied up.
            found = self._reader.execute(_SELECT, (key,)).fetchall()
        try:
            return unpack(Row(*found[0])).reply if found else None
        except DamagedError:
            return None  # as if it had never been kept: it is asked for again, and the answer takes its place

    def put_many(self, entries: Sequence[CacheEntry]) -> None:
        """Keep replies, durably once this returns, in the place of what was kept under their keys.

        Raises:
            StoreError: the disk is full, or the file can't be written; then none is kept.
        """
        self.put_texts([(entry, entry.text()) for entry in entries])

    def put_texts(self, entries: Sequence[tuple[CacheEntry, bytes]], book: str = "", intent: Intent | None = None) -> None:
        """As `put_many`, for entries with their texts; with them the intent to write to a book, in the place of its last one.

        Args:
            entries: each with its `CacheEntry.text`.
            book: which book the intent is about.
            intent: what is to be written there.
        """
        with self._writing, explained(self.path), transaction(self._writer):
            # With one compressor for all: making one costs more than compressing a reply.
            self._writer.executemany(_INSERT, [pack(entry, text, self._compressor) for entry, text in entries])
            if intent is not None:
                self._writer.execute("INSERT OR REPLACE INTO intents (book, start, lines) VALUES (?, ?, ?)", (book, *intent))

    def intent(self, book: str) -> Intent | None:
        """The last intent about a book that was committed and not dropped; None where there is none.

        Raises:
            StoreError: the file can't be read.
        """
        with self._reading, explained(self.path):
            found = self._reader.execute("SELECT start, lines FROM intents WHERE book = ?", (book,)).fetchall()
        return Intent(*found[0]) if found else None

    def drop_intent(self, book: str) -> None:
        """Forget the intent about a book: what it says is done.

        Raises:
            StoreError: the file can't be written.
        """
        with self._writing, explained(self.path), transaction(self._writer):
            self._writer.execute("DELETE FROM intents WHERE book = ?", (book,))

    def close(self) -> None:
        """Release the file; safe to call again."""
        with self._reading, self._writing, explained(self.path):
            self._reader.close()
            self._writer.close()

    def __enter__(self) -> ReplyCache:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
