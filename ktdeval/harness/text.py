"""Text from outside, made safe to store."""

from __future__ import annotations


def encodable(text: str) -> str:
    r"""Return the text with lone surrogates (JSON may spell them, `"\ud800"`) replaced by `?`: then UTF-8 can write it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
