"""How records travel inside a page: without secrets, compressed, in pieces that are unpacked only when they are looked at."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ktdeval.jsonio import JsonValue, dumps_canonical
from ktdeval.runner import redact_secrets

_LEVEL = 9
_CHUNK_BYTES = 192 * 1024
"""JSON of the days in one piece: unpacked in a few milliseconds, and long enough to pack days that repeat each other well."""


class Redactor:
    """Takes the values of secret-looking environment variables out of whatever goes into a page."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Find out which variables these are."""
        # Asked once, so that hundreds of thousands of texts are not each compared with the name of every variable.
        self._secrets = {name: value for name, value in environment.items() if redact_secrets(value, {name: value}) != value}

    def text(self, text: str) -> str:
        """A text without them."""
        return redact_secrets(text, self._secrets) if self._secrets else text

    def value(self, value: JsonValue) -> JsonValue:
        """A JSON value without them, in keys as well."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.value(item) for item in value]
        return value


@dataclass
class Shared:
    """Texts that many days repeat, such as the system prompt: kept once, and referred to by their place."""

    texts: list[str] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)

    def place_of(self, text: str) -> int:
        """Where a text is kept."""
        if text not in self._places:
            self._places[text] = len(self.texts)
            self.texts.append(text)
        return self._places[text]


def pack(text: str) -> str:
    """A text as a page holds it: zlib, then base64, so that nothing in it can end the element that it stands in."""
    return base64.b64encode(zlib.compress(text.encode(), _LEVEL)).decode()


def pack_value(value: JsonValue) -> str:
    """A JSON value as a page holds it."""
    return pack(dumps_canonical(value))


def pack_days(days: Iterable[JsonValue]) -> tuple[list[int], list[str]]:
    """Days in pieces of about equal size, a line of JSON for each day. Returns how many days each piece holds, and the pieces."""
    counts: list[int] = []
    pieces: list[str] = []
    lines: list[str] = []
    size = 0
    for day in days:
        line = dumps_canonical(day)
        lines.append(line)
        size += len(line)
        if size >= _CHUNK_BYTES:
            counts.append(len(lines))
            pieces.append(pack("\n".join(lines)))
            lines, size = [], 0
    if lines:
        counts.append(len(lines))
        pieces.append(pack("\n".join(lines)))
    return counts, pieces
