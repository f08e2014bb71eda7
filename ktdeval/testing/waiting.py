"""Waiting for a condition, in place of sleeping for a while that may be too short."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Longer than a condition takes on a busy machine
_LONGEST_WAIT_S = 240.0
_SECONDS_BETWEEN_LOOKS = 0.005


def wait_for(
    condition: Callable[[], object],
    can_go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Wait until a condition is true.

    Raises AssertionError if `can_go_on` becomes false before, such as when a process has ended, or
    after four minutes.

    Example:
        wait_for(Path("mine.py").exists)
    """
    assert is_met(condition, can_go_on), "it ended before the condition was met"


def is_met(
    condition: Callable[[], object],
    can_go_on: Callable[[], bool] = lambda: True,
) -> bool:
    """Wait until a condition is true; return False if `can_go_on` becomes false before.

    Raises AssertionError after four minutes.

    Example:
        is_met(lambda: False, can_go_on=lambda: False)  # False
    """
    deadline = time.monotonic() + _LONGEST_WAIT_S

    while not condition():
        if not can_go_on():
            return False

        assert time.monotonic() < deadline, "the condition was not met in four minutes"
        time.sleep(_SECONDS_BETWEEN_LOOKS)

    return True
