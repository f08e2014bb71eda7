"""A reply while it is being received, as a reader sees it: texts and calls that grow."""

from __future__ import annotations

from typing import Final

from ktdeval.harness import ReplyPiece
from ktdeval.values import Value
from ktdeval_qfinzero.access.pages.playground.conversation_view import (
    MAX_CHARS,
    Kind,
    TalkPart,
    redact_text,
)

_KINDS: Final[dict[str, Kind]] = {"text": "text", "thought": "thought", "call": "call"}
_VISIBLE: Final = "".join(map(chr, range(0x21, 0x7F)))


class Growth(Value, frozen=True):
    """What is new of one part of a coming reply."""

    kind: Kind
    tool: str
    text: str
    adds: bool  #: whether `text` follows what was shown of the part; else it replaces it


class ComingReply:
    """Parts of one reply so far. One thread adds to it, others read `parts`, which is replaced and
    never changed.
    """

    def __init__(self) -> None:
        self.parts: tuple[TalkPart, ...] = ()

    def clear(self) -> None:
        """Forget it: the whole reply is shown, or another attempt begins."""
        self.parts = ()

    def add(self, piece: ReplyPiece) -> None:
        """Add a piece."""
        if piece.kind == "begun":
            self.clear()
            return

        kind = _KINDS[piece.kind]
        key = str(piece.index) if kind == "call" else ""
        parts = list(self.parts)
        at = _position(parts, kind, key)
        if at is None:
            parts.append(TalkPart(kind=kind, text="", call_id=key))
            at = len(parts) - 1

        before = parts[at]
        parts[at] = TalkPart(
            kind=kind,
            text=(before.text + piece.text)[:MAX_CHARS],
            tool=(before.tool + piece.name)[:200],
            call_id=key,
        )
        self.parts = tuple(parts)


def _position(parts: list[TalkPart], kind: Kind, key: str) -> int | None:
    """Return the part that a piece continues: its call, or the last part of its kind."""
    for at in range(len(parts) - 1, -1, -1):
        part = parts[at]
        if part.kind == kind and part.call_id == key:
            return at
        if kind != "call" and part.kind != "call":
            return None  # text after a thought is a part of its own

    return None


def shown_parts(parts: tuple[TalkPart, ...]) -> tuple[TalkPart, ...]:
    """Return parts without secrets. A run of visible ASCII at the end of a part is held back, as it may
    be the beginning of one: secrets are found whole only.
    """
    shown = []
    for part in parts:
        # halves of a character that two pieces hold become one
        text = part.text.rstrip(_VISIBLE).encode("utf-16-le", "surrogatepass")
        shown.append(
            TalkPart(
                kind=part.kind,
                text=redact_text(text.decode("utf-16-le", "replace")),
                tool=redact_text(part.tool),
            )
        )
    return tuple(shown)


def growth(before: tuple[TalkPart, ...], after: tuple[TalkPart, ...]) -> list[Growth]:
    """Return what a reader of `before` lacks of `after`, part by part; parts that it has beyond these
    are gone.
    """
    grown = []
    for at, part in enumerate(after):
        known = ""
        if at < len(before) and before[at].kind == part.kind:
            known = before[at].text

        adds = at < len(before) and part.text.startswith(known)
        text = part.text
        if adds:
            text = part.text[len(known) :]
        grown.append(Growth(kind=part.kind, tool=part.tool, text=text, adds=adds))

    return grown
