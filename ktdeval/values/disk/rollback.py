"""Undo a step if a later step fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def undone_on_error(undo: Callable[[BaseException], object]) -> Iterator[None]:
    """Call `undo` with the error if the block fails, then raise the error again.

    Every error counts, including an interrupt by the user. Otherwise an open file, a place in a
    queue or a reserved amount would outlive the block. No error is suppressed.
    """
    try:
        yield
    except BaseException as error:
        undo(error)
        raise
