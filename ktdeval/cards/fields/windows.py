"""Windows of a card: their trading days, and those that are excluded from figures over episodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ktdeval.cards.fields.parts import WindowPart
from ktdeval.cards.fields.words import Words
from ktdeval.cards.table import Row, count
from ktdeval.errors import CardError
from ktdeval.market.snapshot import DayArray, MarketSnapshot
from ktdeval.stats.designs import Span, left_out_windows
from ktdeval.tasks.spec import EpisodeSpec, Window

WindowDays = Mapping[Window, DayArray]  #: Trading days of windows


# ---- gathered from the plan and the market


def planned_days(
    planned: Sequence[EpisodeSpec], snapshot: MarketSnapshot | None, limit: int | None = None
) -> WindowDays:
    """Return the trading days of each window of a plan, both ends included, up to the first
    `limit`.
    """
    windows = dict.fromkeys(spec.window for spec in planned if spec.window is not None)
    return {window: _days_of(window, snapshot)[:limit] for window in windows}


def _days_of(window: Window, snapshot: MarketSnapshot | None) -> DayArray:
    assert snapshot is not None, "a window needs a market"
    days = snapshot.days
    first = np.datetime64(window.first, "D")
    last = np.datetime64(window.last, "D")
    return np.asarray(days[(days >= first) & (days <= last)])


def gather_windows(windows: Iterable[Window], snapshot: MarketSnapshot | None) -> list[WindowPart]:
    """Return the windows of a plan with all their trading days."""
    return [
        WindowPart(
            name=window.name,
            first=window.first,
            last=window.last,
            days=len(_days_of(window, snapshot)),
        )
        for window in windows
    ]


# ---- derived


def planned_steps(windows: Iterable[WindowPart], window: str, limit: int | None) -> int:
    """Return the steps of an episode of a window: its days, or the limit where that is less."""
    days = next(one.days for one in windows if one.name == window)
    return min(days, limit or days)


def excluded_windows(spans: Mapping[str, Span], days_a_year: int) -> dict[str, str]:
    """Return the finished windows that are excluded from figures over episodes, and why. `spans`:
    first and last day of each. Raises CardError: a day does not exist.
    """
    try:
        return left_out_windows(spans, days_a_year)
    except ValueError as error:
        raise CardError(f"episodes have days that do not exist: {error}") from error


# ---- words


def window_row(windows: Sequence[WindowPart], limit: int | None, step: str) -> Row | None:
    """Return the row of windows and of the limit; None without either."""
    texts = [f"{window.name} {window.first}…{window.last}" for window in windows]
    spans = ", ".join(texts[:2])
    if len(texts) > 2:
        spans += f" and {len(texts) - 2} more"

    limited = ""
    if limit is not None:
        limited = f"the first {count(limit, step)} of each"

    if not spans and not limited:
        return None

    name = "windows" if spans else "episodes"
    return name, ", ".join(filter(None, (spans, limited)))


WORDS = {
    "windows": Words("windows", "", "name, first and last day (both included), trading days"),
    "limit": Words("limit", "steps", "steps after which every episode was cut; null when none was"),
    "left_out": Words(
        "excluded windows",
        "",
        "finished windows that are excluded from figures over episodes, and why; absent if there"
        " are none",
        "comparison.md#what-a-pair-is",
    ),
}
