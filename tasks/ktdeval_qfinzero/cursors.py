"""Page cursors.

A cursor is an opaque string that encodes where a page ended. The next page begins after the encoded
key, so pages neither lose nor repeat a row.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, TypeGuard, TypeVar

from ktdeval.values import JsonValue, dumps_canonical, loads_strict
from ktdeval_qfinzero.errors import invalid

MAX_LENGTH: Final = 500  #: Maximum length of a cursor, in characters

_INT64: Final = 2**63
Key = tuple[str | int, ...]
Row = TypeVar("Row")


def write_cursor(*key: str | int) -> str:
    """Return the cursor for a key: the canonical JSON of its parts as unpadded URL-safe base64."""
    text = dumps_canonical(list(key))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(text: str, kinds: tuple[type, ...]) -> Key:
    """Return the key of a cursor whose parts have the types `kinds`. Raises ServiceError
    `invalid_argument` if the cursor was not made by this operation.
    """
    padding = b"=" * (-len(text) % 4)
    try:
        parts = loads_strict(base64.urlsafe_b64decode(text.encode("ascii") + padding))
        # several strings decode to one key; only the issued one is accepted
        if _is_key(parts, kinds) and write_cursor(*parts) == text:
            return tuple(parts)
    except ValueError:  # not ASCII, not base64, not UTF-8, not JSON
        pass

    raise invalid("cursor", "expected the next_cursor of an answer of this operation, unchanged")


def _is_key(parts: JsonValue, kinds: tuple[type, ...]) -> TypeGuard[list[str | int]]:
    """Return whether a value is a list of parts of these types, with numbers that a store can
    compare.
    """
    if not isinstance(parts, list) or [type(part) for part in parts] != list(kinds):
        return False
    return all(0 <= part < _INT64 - 1 for part in parts if isinstance(part, int))


def page_of(
    rows: Iterable[Row], limit: int, key: Callable[[Row], Key]
) -> tuple[list[Row], str | None]:
    """Return the first rows of a sorted stream and the cursor of the next page. The cursor is the
    key of this page's last row, or None at the end.
    """
    first_rows = list(islice(rows, limit + 1))
    page = first_rows[:limit]
    if len(first_rows) <= limit:
        return page, None

    return page, write_cursor(*key(page[-1]))
