"""Text from outside, made safe to store."""

from __future__ import annotations


def encodable(text: str) -> str:
    r"""The text with lone surrogates (JSON may spell them, `"\ud800"`) replaced by `?`, so that it can be written as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
