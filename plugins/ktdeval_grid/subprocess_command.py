"""Commands of this very ktdeval, for processes that a grid starts."""

from __future__ import annotations

import sys


def own_command(*words: str) -> list[str]:
    """Return a command as its program and arguments; modules in the working folder are not ours
    (-P).
    """
    return [sys.executable, "-P", "-m", "ktdeval", *words]
