"""Maintenance of a reply cache: list its contents, check them, and remove replies."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

from ktdeval.calls.records.database import Connection, primary_code
from ktdeval.calls.records.record import REPLY_COLUMNS, DamagedError, ReplyRow, unpack
from ktdeval.values.disk.files import Closing
from ktdeval.values.findings import Finding

# Rows per transaction and in memory. A run that uses the cache has to wait for one transaction.
_AT_ONCE = 500
_PAGES_AT_ONCE = 1_000
_MAX_PROBLEMS = 20  # maximum number of reported problems with the file itself
_TEXTS = ("key", "provider", "model", "created_at", "checksum", "body")
_BYTES = " + ".join(f"length({column})" for column in _TEXTS) + " + 16"
"""SQL: bytes of a row in the file, without its entry in the index.

The row has, besides the texts, two numbers of at most 8 bytes each.
"""
_PAGE = f"""SELECT rowid, {", ".join(REPLY_COLUMNS)} FROM replies
    WHERE rowid > ? ORDER BY rowid LIMIT {_AT_ONCE}"""  # noqa: S608 - made of constants
_MODELS = f"""SELECT CAST(provider AS TEXT), CAST(model AS TEXT), count(*),
    sum({_BYTES}), sum(input_tokens), sum(output_tokens),
    substr(CAST(min(created_at) AS TEXT), 1, 10), substr(CAST(max(created_at) AS TEXT), 1, 10)
    FROM replies GROUP BY provider, model ORDER BY provider, model"""  # noqa: S608
_NEWEST_FIRST = f"""SELECT CAST(provider AS TEXT), CAST(model AS TEXT), rowid,
    CAST(created_at AS TEXT), {_BYTES} FROM replies ORDER BY created_at DESC, rowid DESC"""  # noqa: S608


#: advice if the file itself is damaged
_REPLACE = "delete the file; requests that are repeated are then paid again"


@dataclass(frozen=True, slots=True)
class ModelUse:
    """Contents of a cache for one model."""

    provider: str  #: provider that serves the model
    model: str  #: name of the model at the provider
    replies: int  #: number of replies
    bytes: int  #: size of the replies in the file, without the index and free pages
    input_tokens: int  #: tokens in the prompts
    output_tokens: int  #: tokens in the replies
    first_day: str  #: day of the oldest reply, such as `2026-01-31`, in UTC
    last_day: str  #: day of the newest reply


@dataclass(frozen=True)
class CachePruneRule:
    """Rule that selects the replies to remove. Without an age or a size, it selects all replies of
    `model`.
    """

    model: str = "*"  #: glob that matches `provider/model`; replies of other models are kept
    #: replies older than this many 24-hour days are removed
    older_than_days: float | None = None
    #: after that, the oldest replies are removed until the rest takes up at most this many bytes,
    #: counted as in `ModelUse.bytes`
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class PrunedReplies:
    """Number and size in bytes of the replies that were, or would be, removed."""

    replies: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CheckedReplies:
    """Number of replies that were checked, and the findings."""

    replies: int
    #: `part` is the key of a damaged reply; empty for the file itself
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _StoredReply:
    row: int
    created_at: str
    bytes: int


def _damage(message: str, key: str = "") -> Finding:
    """Return the finding for a damaged reply; without a key, for a damaged file."""
    if not key:
        return Finding(rule="damaged", message=message, fix=_REPLACE)
    return Finding(part=key, rule="damaged", message=message)


class CacheAdmin(Closing):
    """Reply cache opened for maintenance. Runs may be using it at the same time.

    All methods raise StoreError for file errors.
    """

    def __init__(self, path: Path) -> None:
        """Open an existing cache. Raises StoreError if the file is unreadable, damaged, empty or of
        another kind.
        """
        self._file = Connection(path, read_only=True)

    def models(self) -> list[ModelUse]:
        """Return the cache's contents by provider and model."""
        with self._file.wrap_errors():
            return [ModelUse(*row) for row in self._file.rows(_MODELS)]

    def verify(self) -> CheckedReplies:
        """Check the file and every reply in it. Damage is reported as a finding, not raised as an
        error.

        Raises StoreError if the file can't be read for another reason.
        """
        count = 0
        findings = []
        with self._file.wrap_errors():
            try:
                for (text,) in self._file.rows(f"PRAGMA integrity_check({_MAX_PROBLEMS})"):
                    if text != "ok":
                        findings.append(_damage(" ".join(str(text).split())))

                for row in self._rows():
                    count += 1
                    try:
                        unpack(row)
                    except DamagedError as error:
                        findings.append(_damage(str(error), str(row.key)))
            except sqlite3.DatabaseError as error:
                if primary_code(error) != sqlite3.SQLITE_CORRUPT:
                    raise

                findings.append(_damage(f"{error}, after {count} replies"))

        return CheckedReplies(count, tuple(findings))

    def prune(self, rule: CachePruneRule, now: datetime, dry_run: bool = False) -> PrunedReplies:
        """Remove the replies that a rule selects and shrink the file; with `dry_run`, only count
        the replies.

        `now` must be timezone-aware.
        """
        with self._file.wrap_errors():
            chosen = list(self._choose_replies(rule, now))
            if not dry_run:
                self._remove(chosen)
        return PrunedReplies(len(chosen), sum(reply.bytes for reply in chosen))

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _rows(self) -> Iterator[ReplyRow]:
        """Yield all rows, read page by page.

        During one long query, SQLite could not truncate the write-ahead log of a run that is
        writing.
        """
        last = 0
        while page := self._file.rows(_PAGE, last):
            last = page[-1][0]
            for _, *columns in page:
                yield ReplyRow(*columns)

    def _choose_replies(self, rule: CachePruneRule, now: datetime) -> Iterator[_StoredReply]:
        """Yield the replies that a rule removes, newest first."""
        oldest_kept = ""
        if rule.older_than_days is not None:
            limit = (now - timedelta(days=rule.older_than_days)).astimezone(UTC)
            oldest_kept = limit.isoformat(timespec="seconds")[:19]  # sorts like the stored times

        removes_all = rule.older_than_days is None and rule.max_bytes is None
        kept_bytes = 0
        for provider, model, *columns in self._file.rows(_NEWEST_FIRST):
            if not fnmatchcase(f"{provider}/{model}", rule.model):
                continue

            reply = _StoredReply(*columns)
            kept_bytes += reply.bytes
            is_beyond = rule.max_bytes is not None and kept_bytes > rule.max_bytes
            if removes_all or is_beyond or reply.created_at < oldest_kept:
                yield reply

    def _remove(self, chosen: list[_StoredReply]) -> None:
        """Delete rows and free their space, in small steps."""
        self._file.rows("PRAGMA query_only=OFF")
        for first in range(0, len(chosen), _AT_ONCE):
            part = chosen[first : first + _AT_ONCE]
            # A run may have replaced a reply since it was selected; the new reply then has a
            # different date.
            pairs = [(reply.row, reply.created_at) for reply in part]
            with self._file.transaction():
                self._file.sql.executemany(
                    "DELETE FROM replies WHERE rowid = ? AND created_at = ?", pairs
                )

        free = self._free_pages()
        before = None
        while free and free != before:
            self._file.rows(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")
            before = free
            free = self._free_pages()

        self._file.rows("PRAGMA wal_checkpoint(TRUNCATE)")  # so that the file shrinks now

    def _free_pages(self) -> int:
        return int(self._file.rows("PRAGMA freelist_count")[0][0])
