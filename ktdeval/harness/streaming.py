"""Pieces of a reply that is still being received, for observers of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

PieceKind = Literal["begun", "text", "thought", "call", "whole"]


@dataclass(frozen=True, slots=True)
class ReplyPiece:
    """One piece of a reply, in order of arrival. Pieces are shown but never recorded, since the
    reply that a call returns contains everything.

    Values of `kind`:

    - `begun`: an attempt begins, and earlier pieces are void
    - `text`, `thought`: more of the reply's text or reasoning
    - `call`: more of a tool call's arguments
    - `whole`: this provider sends replies in one piece
    """

    kind: PieceKind
    text: str = ""  #: text of the piece; for `whole`, why the provider does not stream
    index: int = 0  #: for `call`: index of the call in the reply
    name: str = ""  #: for `call`: more of the tool's name


Listener = Callable[[ReplyPiece], None]
"""Receives the pieces of a reply as they come, on the thread of the call; an exception ends the
call.
"""
