"""Pieces of a reply that is still being received, for watchers of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

PieceKind = Literal["begun", "text", "thought", "call", "whole"]


@dataclass(frozen=True, slots=True)
class ReplyPiece:
    """One piece, in the order in which it came. It is shown and never recorded: the reply that a
    call returns holds all of it.

    kind: `begun`: an attempt begins, and pieces before it are void; `text`, `thought`: more of the
    reply's text or reasoning; `call`: more of a tool call's arguments; `whole`: this provider gives
    its replies in one piece.
    """

    kind: PieceKind
    text: str = ""  #: text of the piece; for `whole`: why the provider does not stream
    index: int = 0  #: of `call`: which of the reply's calls
    name: str = ""  #: of `call`: more of the tool's name


Listener = Callable[[ReplyPiece], None]
"""Receives the pieces of a reply as they come, on the thread of the call; an exception ends the
call.
"""
