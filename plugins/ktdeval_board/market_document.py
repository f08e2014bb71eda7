"""Document of a board's market over its windows, as typed values; its JSON Schema is made of
them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from ktdeval.values.typed import Value
from ktdeval_board.documents import Count, Day, Sha256, Version1


class MarketFacts(Value, frozen=True, kw_only=True):
    """Snapshot."""

    name: str  #: What the board calls it
    id: Sha256
    benchmark: str
    benchmark_name: str
    synthetic: bool
    source: str
    assets: Count
    first_day: Day
    last_day: Day


Regime = Literal["bull", "bear", "volatile", "flat", "unknown"]


class MarketWindow(Value, frozen=True, kw_only=True):
    """Benchmark over a window."""

    name: str
    first: Day
    last: Day
    days: Annotated[int, Meta(ge=1)]
    #: From the close before the first day to the last close, as a fraction
    total_return: float | None
    #: Standard deviation of daily returns (ddof 1), times the root of the market's trading days a
    #: year
    volatility: float | None
    #: Mean over standard deviation of daily returns, times the same root; no risk-free rate
    sharpe: float | None
    max_drawdown: float | None  #: Largest fall from a peak, as a positive fraction of the peak
    regime: Regime


class Market(Value, frozen=True, kw_only=True):
    """Market of a board over its windows, version 1: derived from the snapshot; figures have six
    significant digits.
    """

    schema_version: Version1
    snapshot: MarketFacts
    #: [n] trading days from the one before the first window to the last of all
    days: tuple[Day, ...]
    benchmark: tuple[float | None, ...]  #: [n] closing levels; null where the market has none
    regime_rule: str  #: How `regime` is told, in a sentence
    windows: tuple[MarketWindow, ...]  #: Figures of the benchmark, by first day
