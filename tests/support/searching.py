"""How much a test looks at: a part of the cases that are alike, or with `--hypothesis-profile
search` all of them.
"""

from __future__ import annotations

from hypothesis import settings


def is_searching() -> bool:
    """Whether tests are to look at every case, and not only at those that the suite can afford."""
    return settings.get_current_profile_name() == "search"


def examples(count: int, search: int = 100) -> settings:
    """Let a property be tried on so many examples in the suite, and in a search on Hypothesis' own
    number or another one.
    """
    return settings(max_examples=search if is_searching() else count)
