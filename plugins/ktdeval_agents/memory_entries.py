"""Entries in a team's memory, and their text form: one line per asset and day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

ACCOUNT = ""
"""Label of the account, for entries that concern no asset."""

Day = tuple[int, str]  # step of a day (negative in a warm-up) and label of the day
T = TypeVar("T")


class MemoryEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A decision on one asset, or on none (`ACCOUNT`)."""

    step: int  #: step of the decision; below 0 for a warm-up day, on which nothing was traded
    day: str  #: label of the day, as shown
    asset: str  #: label of the asset, as shown
    decision: str
    reason: str
    price: float | None  #: price from which the outcome is measured; None until a price is shown
    #: outcome of the order as text, once it is shown; empty if unknown, or without an order
    fill: str = ""
    #: whether the order was rejected completely, so that nothing was traded
    is_rejected: bool = False
    since: str = ""  #: day of `price`, if later than `day`
    change_pct: float | None = None  #: outcome in percent, once it is known
    #: reflection on the outcome; None until the model was asked, empty if it gave no answer
    reflection: str | None = None

    @property
    def is_known(self) -> bool:
        """Return whether the outcome is known: either a change, or the fact that nothing was
        traded.
        """
        return self.is_rejected or self.change_pct is not None


def entry_lines(entries: Sequence[MemoryEntry], max_reflections: int | None = None) -> list[str]:
    """Return entries as lines, each with a decision and its outcome. If several entries of a day
    share a reason or reflection, it appears once, after these entries. `max_reflections`: number of
    most recent days whose reflections are shown (default: all).
    """
    reflections = _reflections(entries, max_reflections)
    entries_of_day = Counter(map(_day_of, entries))
    entries_of_reason = Counter((_day_of(entry), entry.reason) for entry in entries)

    lines: list[str] = []
    for entry in entries:
        day = _day_of(entry)
        is_shared = entries_of_reason[day, entry.reason] > 1
        lines.append(_entry_line(entry, "" if is_shared else entry.reason))
        if entries_of_day[day] == 1 and day in reflections:
            lines.append(f"  Reflection: {reflections[day]}")

    for day in sorted(day for day, count in entries_of_day.items() if count > 1):
        for (of_day, reason), count in entries_of_reason.items():
            if of_day == day and count > 1 and reason:
                lines.append(f"- {day[1]}, reason for all: {reason}")

        if day in reflections:
            lines.append(f"- {day[1]}, reflection: {reflections[day]}")

    return lines


def latest(items: Sequence[T], count: int) -> Sequence[T]:
    """Return the last `count` items, or all if there are fewer."""
    # items[-0:] would return all items
    return items[-count:] if count else ()


def _day_of(entry: MemoryEntry) -> Day:
    return entry.step, entry.day


def _reflections(entries: Iterable[MemoryEntry], most: int | None) -> Mapping[Day, str]:
    """Return the reflections, keyed by day, for the latest `most` days that have any."""
    by_day: dict[Day, dict[str, None]] = {}
    for entry in entries:
        if entry.reflection:
            by_day.setdefault(_day_of(entry), {})[entry.reflection] = None

    days = latest(sorted(by_day), len(by_day) if most is None else most)
    return {day: " ".join(by_day[day]) for day in days}


def _entry_line(entry: MemoryEntry, reason: str) -> str:
    asset = entry.asset or "the account"
    decision = entry.decision
    if entry.step < 0:
        decision += " (practice)"
    elif entry.fill:
        decision += f" ({entry.fill})"

    return f"- {entry.day}, {asset}: {decision}{_outcome_words(entry)}. {reason}".rstrip()


def _outcome_words(entry: MemoryEntry) -> str:
    if entry.is_rejected:
        return "; nothing was traded"
    if entry.change_pct is None:
        return ""

    level = "price" if entry.asset else "NAV"
    change_pct = round(entry.change_pct, 2) or 0.0  # not -0.0
    outcome = f"; the {level} then changed by {change_pct:+.2f} %"
    if entry.since:
        return f"{outcome} from {entry.since} on"
    return f"{outcome} to the next close"
