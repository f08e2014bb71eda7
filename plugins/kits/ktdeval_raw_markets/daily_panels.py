"""Daily bars of a market by kind of asset, on the sessions of that kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ktdeval.market import FloatArray, MarketSnapshot


@dataclass(frozen=True, slots=True)
class DailyPanel:
    """Daily bars of one kind of asset, [T, N] over its own sessions; NaN on days without a bar."""

    kind: str  #: `stock`, `crypto` …
    open: FloatArray  #: adjusted for splits and dividends, like `close`
    close: FloatArray
    turnover: FloatArray  #: traded value
    days_a_year: int = 252
    calendar: str = ""  #: calendar of the sessions, if assets of this kind have several calendars


def panels_of(market: MarketSnapshot) -> tuple[DailyPanel, ...]:
    """Return the panels of a market on its trading days, one per kind of asset and calendar."""
    columns: dict[tuple[str, str], list[int]] = {}
    for column, pair in enumerate(zip(market.kinds, market.calendars, strict=True)):
        columns.setdefault(pair, []).append(column)

    calendars = Counter(kind for kind, _ in columns)
    panels = []
    for (kind, calendar), members in sorted(columns.items()):
        own = np.array(members)
        closes = market.adjusted_close[:, own]
        sessions = np.isfinite(closes).any(axis=1)
        grid = np.ix_(sessions, own)
        money = market.amount[grid]
        # Some sources have only volumes.
        money = np.where(np.isfinite(money), money, (market.volume * market.close)[grid])
        days_a_year = max(market.rules[market.venues[column]].days_a_year for column in own)
        opens = market.adjusted_open[grid]
        named = calendar if calendars[kind] > 1 else ""
        panels.append(DailyPanel(kind, opens, closes[sessions], money, days_a_year, named))

    return tuple(panels)
