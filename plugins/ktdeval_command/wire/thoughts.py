"""Thoughts of the run's model in a program's conversation. A program gets the text of a thought
with a mark in place of the provider's signature, and sends both back. The bridge keeps the
signature under that mark.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

from ktdeval.harness import Opaque, Reply

MARKED = "bridge"
"""Provider of opaque data that consist of a mark, which the bridge replaces by the data that it
marks.
"""

_HEAD = b"ktdeval"
_DIGEST_BYTES = 23  # 30 bytes including the head, so that base64 needs no padding


def mark_of(reply: Reply) -> str:
    """Return the mark of a reply's thoughts, as base64; empty without thoughts."""
    if reply.opaque is not None:
        return _mark(f"{reply.opaque.provider}\n{reply.opaque.data}")
    return mark_of_words(reply.reasoning)


def mark_of_words(words: str) -> str:
    """Return the mark of thoughts in a format that has no field for it; empty if the text is empty."""
    return _mark(words) if words else ""


def parse_mark(mark: str | None) -> Opaque | None:
    """Return a mark as the opaque data of a turn; None without a mark."""
    return Opaque(MARKED, mark) if mark else None


def _mark(text: str) -> str:
    digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
    return b64encode(_HEAD + digest[:_DIGEST_BYTES]).decode()
