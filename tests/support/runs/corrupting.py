"""Damage that disks, copies and editors do to files: cut short, a byte changed, something else in
the place.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

FLIPS = 5
"""Places of a file in which one byte is changed, apart from its first and its last."""


def damages(data: bytes, other_sqlite: bytes, flips: int = FLIPS) -> Iterator[tuple[str, bytes]]:
    """Give each damage of a file by its name; equal files are damaged alike."""
    yield "empty", b""
    yield "half", data[: len(data) // 2]
    yield "without its last byte", data[:-1]
    yield "zeros", bytes(len(data))
    yield "another database", other_sqlite
    yield "text", "not what it was: é\n".encode("latin-1") * 20
    yield "more at its end", data + b"\xff\x00\x80 more"

    if not data:
        return

    chance = random.Random(len(data))
    inner = sorted(chance.randrange(len(data)) for _ in range(flips))
    for offset in dict.fromkeys([0, *inner, len(data) - 1]):
        changed = bytearray(data)
        changed[offset] |= 0x80
        changed[offset] ^= 0x01
        yield f"byte {offset} changed", bytes(changed)


def not_utf8(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Give a text file with a byte that is no UTF-8 at its start, in the middle and at its end."""
    for share in (0, 1, 2):
        offset = len(data) * share // 2
        yield f"byte 0xff at {offset}", data[:offset] + b"\xff" + data[offset:]


def another_database(folder: Path) -> bytes:
    """Return an SQLite file of another application."""
    path = folder / "another.sqlite"
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE bookmarks (address TEXT)")
        connection.execute("INSERT INTO bookmarks VALUES ('x')")
    connection.close()
    return path.read_bytes()
