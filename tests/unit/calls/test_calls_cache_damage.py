"""The reply cache in bad times: what was damaged or forged is never given, and nobody's file is
spoiled.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
import zstandard

from ktdeval.calls.records.cache_admin import CacheAdmin
from ktdeval.calls.records.database import CACHE, RECORD, CallDatabase, Connection
from ktdeval.calls.records.record import REPLY_COLUMNS, CacheEntry, ReplyRow
from ktdeval.errors import StoreError
from ktdeval.harness.chat_messages import Reply
from ktdeval.values import dumps_canonical
from support.providers.call_runs import AT, cached, entry_of, key_of, python


def change(path: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)

    connection.close()


def forged(body: bytes, **changes: Any) -> ReplyRow:
    """A row with a checksum that is right."""
    from ktdeval.calls.records.record import _checksum

    row = ReplyRow(key_of(1), "openai", "gpt-9", AT, 0, 0, b"", body)._replace(**changes)

    return row._replace(checksum=_checksum(row))


def packed(value: Any) -> bytes:
    return zstandard.compress(dumps_canonical(value).encode())


DAMAGE = {
    "another answer": (
        "UPDATE replies SET body = (SELECT body FROM replies WHERE key = ?)",
        key_of(2),
    ),
    "another model": ("UPDATE replies SET model = ?", "gpt-1"),
    "another key": ("UPDATE replies SET key = ? WHERE key != '" + key_of(2) + "'", key_of(1)),
    "another type": ("UPDATE replies SET created_at = ?", 5),
    "no text": ("UPDATE replies SET model = CAST(? AS TEXT)", b"\xff\xfe"),
    "other tokens": ("UPDATE replies SET input_tokens = ?", 10**9),
    "an empty body": ("UPDATE replies SET body = ?", b""),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_reply_counts_as_absent_is_reported_and_replaced(path, how):
    with CallDatabase(path) as cache:
        cache.put([entry_of(0 if how == "another key" else 1), entry_of(2)])

    change(path, *DAMAGE[how])
    with CacheAdmin(path) as cache_admin:
        checked = cache_admin.verify()

    assert checked.replies == 2
    assert f"{key_of(1)}: its checksum does not match" in map(str, checked.findings)

    with CallDatabase(path) as cache:
        assert cached(cache, key_of(1)) is None
        cache.put([entry_of(1), entry_of(2)])
        assert cached(cache, key_of(1)) == entry_of(1).reply

    with CacheAdmin(path) as cache_admin:
        assert cache_admin.verify().findings == ()


ANSWER = {"content": "a", "finish_reason": "stop"}
FORGED = {
    "no zstd": forged(b"\x00" * 50),
    "no size": forged(
        zstandard.ZstdCompressor(write_content_size=False).compress(
            b'{"content":"a","finish_reason":"stop"}'
        )
    ),
    "no JSON": forged(zstandard.compress(b'{"content":')),
    "deep JSON": forged(zstandard.compress(b"[" * 100_000 + b"]" * 100_000)),
    "a list": forged(packed([])),
    "NaN": forged(
        zstandard.compress(b'{"content":"a","finish_reason":"stop","usage":{"input_tokens":NaN}}')
    ),
    "another field": forged(packed(ANSWER | {"extra": 1})),
    "a number for text": forged(packed({"content": 5, "finish_reason": "stop"})),
    "a truncation": forged(packed({"content": "a", "finish_reason": "length"})),
    "an unknown end": forged(packed({"content": "a", "finish_reason": "sudden"})),
    "an id of no text": forged(
        packed(ANSWER | {"tool_calls": [{"id": 1, "name": "", "arguments": ""}]})
    ),
    "tokens of another": forged(packed(ANSWER), input_tokens=5),
    "local time": forged(packed(ANSWER), created_at="2026-01-01T00:00:00"),
}


@pytest.mark.parametrize("how", [*FORGED, "a bomb"])
def test_forged_cache_row_is_never_served_even_with_a_valid_checksum(cache, path, how):
    # more than a reply can have
    row = FORGED.get(how) or forged(zstandard.compress(bytes((1 << 28) + 1)))
    with cache._writing:
        cache._writer.sql.execute(
            f"INSERT INTO replies ({', '.join(REPLY_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row
        )

    assert cached(cache, key_of(1)) is None

    with CacheAdmin(path) as cache_admin:
        assert [finding.part for finding in cache_admin.verify().findings] == [key_of(1)]


@pytest.mark.exhaustive
def test_a_flipped_byte_anywhere_in_the_file_never_gives_a_wrong_reply(path):
    answers = {
        key_of(word): Reply(f"answer {word} {random.Random(word).random()}" * 9)
        for word in range(60)
    }

    with CallDatabase(path) as cache:
        cache.put([CacheEntry(key, "openai", "gpt-9", reply, AT) for key, reply in answers.items()])

    whole = path.read_bytes()
    chance = random.Random(5)
    unseen = 0
    lines = []

    for _ in range(60):
        damaged = bytearray(whole)
        offset = chance.randrange(len(whole))
        damaged[offset] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            with CacheAdmin(path) as cache_admin:
                findings = cache_admin.verify().findings

            with CallDatabase(path) as cache:
                given_ = {key: cached(cache, key) for key in answers}
        except StoreError as error:
            lines.append(str(error))
            continue

        assert all(reply is None or reply == answers[key] for key, reply in given_.items())
        lost = [key for key, reply in given_.items() if reply is None]
        assert findings or not lost, (
            f"byte {offset}: {len(lost)} replies are lost and nothing is reported"
        )
        unseen += not lost

    assert unseen < 60  # some of the damage hit something
    assert lines
    assert all(line.startswith(f"{path}: ") and "\n" not in line for line in lines)


# ---- files that can't be used


def fails_with(path: Path, message: str) -> None:
    for open_ in (CallDatabase, CacheAdmin):
        with pytest.raises(StoreError) as caught:
            open_(path).close()

        text = str(caught.value)
        assert text.startswith(f"{path}: ")
        assert message in text
        assert "--cache" in text
        assert "\n" not in text


def test_the_file_of_another_application_is_refused_unchanged(tmp_path):
    path = tmp_path / "bookmarks.sqlite"
    change(path, "CREATE TABLE bookmarks (address TEXT)")
    before = path.read_bytes()
    fails_with(path, "is an SQLite file of another application and is left as it is")
    change(path, "PRAGMA application_id = 1234")
    fails_with(path, "another application")
    change(path, "PRAGMA application_id = 0")

    assert path.read_bytes()[100:] == before[100:]
    assert [file.name for file in tmp_path.iterdir()] == ["bookmarks.sqlite"]


@pytest.mark.exhaustive
def test_unwritable_file_is_reported_in_one_line_before_any_paid_call():
    """In a process of an ordinary user, for the superuser may write everything; so in folders that
    are open to all.
    """
    program = """
    import os, sys, urllib.parse  # the last for pathlib, which will not find it later
    from pathlib import Path
    from ktdeval.calls.records.database import CallDatabase
    from ktdeval.errors import StoreError
    if os.geteuid() == 0:
        os.setuid(65534)
    for path in sys.argv[1:]:
        try:
            CallDatabase(Path(path))
        except StoreError as error:
            print(error)
    """
    modes = [(0o444, 0o777), (0o444, 0o555), (0o666, 0o555), (0o000, 0o777)]

    with contextlib.ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in modes]
        paths = [folder / "replies.sqlite" for folder in folders]
        for path, (file_mode, folder_mode) in zip(paths, modes, strict=True):
            with CallDatabase(path) as cache:
                cache.put([entry_of(1)])

            path.chmod(file_mode)
            path.parent.chmod(folder_mode)

        out, err = python(program, *paths).communicate(timeout=240)
        for folder in folders:
            folder.chmod(0o755)

    assert err == ""

    for line, path in zip(out.splitlines(), paths, strict=True):
        assert line.startswith(f"{path}: reply cache: ")
        assert "writable, or choose another file (of a run: --cache)" in line


@pytest.mark.parametrize(
    ("earlier", "differs"),
    [
        (
            "ALTER TABLE replies DROP COLUMN output_tokens",
            "its table replies differs in output_tok",
        ),
        ("ALTER TABLE replies ADD COLUMN temperature REAL NOT NULL DEFAULT 0", "in temperature"),
        ("ALTER TABLE replies RENAME COLUMN body TO answer", "differs in answer, body"),
        ("ALTER TABLE calls DROP COLUMN reasoning_tokens", "its table calls differs in reasoning"),
        ("ALTER TABLE log DROP COLUMN begun_at", "its table log differs in begun_at"),
    ],
)
@pytest.mark.parametrize("kind", [CACHE, RECORD], ids=lambda kind: kind.name)
def test_tables_of_another_version_are_refused_when_the_file_is_opened(
    path, earlier, differs, kind
):
    CallDatabase(path, kind).close()
    change(path, earlier)
    before = path.read_bytes()

    with pytest.raises(StoreError, match="made by another version of ktdeval") as caught:
        CallDatabase(path, kind)

    assert differs in str(caught.value)
    assert kind.elsewhere in str(caught.value)
    assert path.read_bytes() == before

    with pytest.raises(StoreError, match="made by another version of ktdeval"):
        Connection(path, kind, read_only=True)
