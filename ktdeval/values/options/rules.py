"""Rules for object members: non-empty strings, numeric ranges, functions."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True, slots=True)
class Rule:
    """Marks a member that must follow a rule. The rule consists of a test, and of the text that
    error messages show after `expected`.
    """

    words: str
    holds: Callable[[Any], bool]


RANGE = "a pair such as (0.0, 1.0), the lower end first, None for no bound"


def has_text(value: object) -> bool:
    """Return whether a value is a string with more than whitespace."""
    return isinstance(value, str) and value.strip() != ""


def is_range(value: object) -> bool:
    """Return whether a value is a numeric range. See `RANGE`."""
    if not isinstance(value, tuple) or len(value) != 2:
        return False

    known = [end for end in value if end is not None]
    if not all(type(end) in (int, float) and math.isfinite(end) for end in known):
        return False

    return known == sorted(known)


FilledText = Annotated[str, Rule("text that is not empty", has_text)]
#: Smallest and largest possible value of a figure; None means unbounded
Range = Annotated[tuple[float | None, float | None], Rule(RANGE, is_range)]


def mismatch(function: Callable[..., Any], arguments: Sequence[object]) -> str:
    """Return why a function can't be called with the given positional arguments; empty if it can,
    or if its signature is unknown.
    """
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        return str(error)
    except ValueError:  # a C function without a signature
        return ""

    return ""
