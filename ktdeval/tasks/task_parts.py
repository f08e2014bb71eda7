"""Optional parts of tasks, and of models that know about windows: what they may have, and the suite
uses where it is there.

An object has a part by having its member; it need not name the Protocol. `isinstance` tells.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from ktdeval.tasks.spec import Window


@runtime_checkable
class NeedsAssets(Protocol):
    """Task about certain assets."""

    needs_assets: Collection[str]  #: codes that the market must have


@runtime_checkable
class NeedsMinutes(Protocol):
    """Task that says whether it shows bars within days."""

    needs_minutes: bool


@runtime_checkable
class NeedsAShares(Protocol):
    """Task that says whether it is about A-shares and their index alone."""

    needs_a_shares: bool


@runtime_checkable
class NeverRanked(Protocol):
    """Task whose results may not be compared, such as one that a person steers."""

    never_ranked: str  #: why, as its cards say it; part of the task's description


@runtime_checkable
class UsualToolCalls(Protocol):
    """Scoring task whose samples have an environment."""

    @property
    def usual_tool_calls(self) -> int:
        """Calls that an answer usually takes, for `ktdeval plan`."""


@runtime_checkable
class WarmsUp(Protocol):
    """Trading task of which some windows have a warm-up (`ktdeval.tasks.HasLessons`)."""

    def warm_up_from(self, window: Window) -> str | None:
        """Return the first day of a window's warm-up; None where it has none."""


@runtime_checkable
class ChecksWindows(Protocol):
    """Model that was trained on a market."""

    def window_problem(self, window: Window) -> str | None:
        """Return why it can't be evaluated on a window, in words; None where it can."""
