"""Undoing a step that was begun, where what follows it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def undone_on_error(undo: Callable[[BaseException], object]) -> Iterator[None]:
    """Call `undo` with the error where the block fails, then raise the error again.

    Every error counts, an interrupt by the user, too: a file that stays open, a place in a queue or
    a reserved sum would outlive the block. Nothing is swallowed.
    """
    try:
        yield
    except BaseException as error:
        undo(error)
        raise
