"""Words for days, moments and choices. Chance comes from the generator that is given."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import TypeVar

import numpy as np

Random = np.random.Generator
T = TypeVar("T")


def pick(rng: Random, values: Sequence[T]) -> T:
    """One of some values."""
    return values[int(rng.integers(len(values)))]


def several(rng: Random, values: Sequence[T], count: int) -> list[T]:
    """Some of them, each once, in a random order."""
    return [values[place] for place in rng.permutation(len(values))[:count]]


def whole(rng: Random, low: int, high: int, step: int = 1) -> int:
    """A whole number from `low` to `high`, both included."""
    return low + step * int(rng.integers((high - low) // step + 1))


def spoken(rng: Random, day: date) -> str:
    """A day in one of the ways people write it."""
    return pick(
        rng,
        (
            f"{day:%B} {day.day}, {day.year}",
            f"{day:%b} {day.day}, {day.year}",
            f"{day.day} {day:%B} {day.year}",
            day.isoformat(),
        ),
    )


def spoken_range(rng: Random, first: date, last: date) -> str:
    """A range of days, both included, in words."""
    form = pick(rng, ("from {a} to {b}", "between {a} and {b}, both included", "from {a} through {b}"))
    return form.format(a=spoken(rng, first), b=spoken(rng, last))


def listed(names: Sequence[str]) -> str:
    """`A`, `A and B`, `A, B and C`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def dollars(value: float) -> str:
    """`$4.50`; `$225` where there are no cents."""
    return f"${value:,.0f}" if value == round(value) else f"${value:,.2f}"


def month_of(day: date) -> tuple[date, date]:
    """First and last day of a day's month."""
    first = day.replace(day=1)
    following = (first + timedelta(days=32)).replace(day=1)
    return first, following - timedelta(days=1)


def week_of(day: date) -> tuple[date, date]:
    """Monday and Friday of a day's week."""
    monday = day - timedelta(days=day.weekday())
    return monday, monday + timedelta(days=4)


def clock_text(hour: int, minute: int) -> str:
    """`9:30 a.m.`."""
    suffix = "a.m." if hour < 12 else "p.m."
    return f"{(hour - 1) % 12 + 1}:{minute:02d} {suffix}"
