"""Rules that values of several classes follow: text that is not empty, and ranges of numbers."""

from __future__ import annotations

import math
from typing import Annotated

from ktdeval.values.kinds import Rule

RANGE = "a pair such as (0.0, 1.0), the lower end first, None where there is no bound"


def has_text(value: object) -> bool:
    """Whether a value is text with more than white space."""
    return isinstance(value, str) and value.strip() != ""


def is_range(value: object) -> bool:
    """Whether a value is a range of numbers: see `RANGE`."""
    if not isinstance(value, tuple) or len(value) != 2:
        return False

    known = [end for end in value if end is not None]
    if not all(type(end) in (int, float) and math.isfinite(end) for end in known):
        return False

    return known == sorted(known)


FilledText = Annotated[str, Rule("text that is not empty", has_text)]
#: Smallest and largest value that a figure can have; None where there is no bound
Range = Annotated[tuple[float | None, float | None], Rule(RANGE, is_range)]
