"""Waits for a condition: tests never sleep and hope."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds within which every condition is met even on a busy machine, unless it never is.
_LONGEST_WAIT_S = 240.0
_SECONDS_BETWEEN_LOOKS = 0.005


def wait_for(
    condition: Callable[[], object],
    can_go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Look until a condition is true.

    Raises:
        AssertionError: What the condition waits for, such as a process, has ended
            (`can_go_on` is false), or the condition is not met in four minutes.
    """
    assert is_met(condition, can_go_on), "it ended before the condition was met"


def is_met(
    condition: Callable[[], object],
    can_go_on: Callable[[], bool] = lambda: True,
) -> bool:
    """Look until a condition is true; return False if `can_go_on` was false before it.

    Raises:
        AssertionError: Neither came in four minutes.
    """
    deadline = time.monotonic() + _LONGEST_WAIT_S

    while not condition():
        if not can_go_on():
            return False

        assert time.monotonic() < deadline, "the condition was never met"
        time.sleep(_SECONDS_BETWEEN_LOOKS)

    return True
