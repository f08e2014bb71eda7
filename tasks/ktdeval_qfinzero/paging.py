"""Cursors: where a page ended, as an opaque text. The next page begins after that key, so that pages lose and repeat no row."""

from __future__ import annotations

import base64

from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict
from ktdeval_qfinzero.errors import invalid

MAX_LENGTH = 500
_INT64 = 2**63


def write_cursor(*key: str | int) -> str:
    """Cursor of a key: unpadded base64 (its URL alphabet) of the canonical JSON of its parts."""
    return base64.urlsafe_b64encode(dumps_canonical(list(key)).encode()).decode().rstrip("=")


def read_cursor(text: str, kinds: tuple[type, ...]) -> tuple[str | int, ...]:
    """Key of a cursor. `text`: what `write_cursor` gave; `kinds`: the type of each part, `str` or `int`. Raises ServiceError:
    `invalid_argument`: not a cursor of this operation.
    """
    try:
        parts = loads_strict(base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
        known = isinstance(parts, list) and len(parts) == len(kinds) and all(map(_is_part, parts, kinds))
        if known and write_cursor(*parts) == text:
            return tuple(parts)
    except (ValueError, RecursionError):  # ValueError: not base64, not UTF-8, not JSON
        pass
    raise invalid("cursor", "expected the next_cursor of an answer of this operation, unchanged")


def _is_part(part: JsonValue, kind: type) -> bool:
    return type(part) is kind and (not isinstance(part, int) or 0 <= part < _INT64 - 1)
