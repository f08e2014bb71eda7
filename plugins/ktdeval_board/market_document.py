"""The document that describes a board's market over its windows, as typed values from which its
JSON Schema is generated. The board describes a market based on this document, never based on a
card.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ktdeval.cards import ScoringCard, SnapshotPart, TradingCard
from ktdeval.values import Value
from ktdeval_board.document_types import Count, Day, Sha256, Version1


class MarketFacts(Value, frozen=True, kw_only=True):
    """Snapshot."""

    name: str  #: Name used by the board
    id: Sha256
    title: str  #: Its own name, as on cards
    benchmark: str  #: Code of the index; `none` without an index
    benchmark_name: str
    synthetic: bool
    placebo: bool  #: Whether it was derived from another market so that selection is impossible
    has_factor: bool  #: Whether it has adjustment factors
    source: str
    repairs: tuple[str, ...]  #: Changes made to the source during import
    venues: tuple[str, ...]  #: Names of the trading rules of its assets
    currency: str
    minor_per_unit: Count  #: Minor units (in which money is counted) per unit of the currency
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
    #: Standard deviation of daily returns (ddof 1), times the square root of the market's trading
    #: days per year
    volatility: float | None
    #: Mean over standard deviation of daily returns, times the same square root; no risk-free rate
    sharpe: float | None
    max_drawdown: float | None  #: Largest fall from a peak, as a positive fraction of the peak
    regime: Regime


class Market(Value, frozen=True, kw_only=True):
    """Market of a board over its windows, version 1: derived from the snapshot; figures have six
    significant digits.
    """

    schema_version: Version1
    snapshot: MarketFacts
    #: [n] trading days, from the day before the first window to the last day of all windows
    days: tuple[Day, ...]
    benchmark: tuple[float | None, ...]  #: [n] closing levels; null if the market has none
    regime_rule: str  #: Definition of `regime`, in one sentence
    windows: tuple[MarketWindow, ...]  #: Figures of the benchmark, by first day


# ---- what cards say about a market

DESCRIBED = (
    "benchmark",
    "benchmark_name",
    "synthetic",
    "has_factor",
    "source",
    "repairs",
    "venues",
    "currency",
    "minor_per_unit",
    "assets",
    "first_day",
    "last_day",
)
"""Fields that have the same names in a card's description of the market."""

_SHOWN = 60
_PRECISION = 1e-5
"""Relative precision of the document's figures, which have six significant digits."""

NOT_OPENED = "not opened by this board"  #: Source shown for a market that the board has not opened


def description_problems(
    card: TradingCard | ScoringCard, market: Market
) -> Iterator[tuple[str, str]]:
    """Yield the rule and the message for each false statement that a card makes about the board's
    market.
    """
    if card.snapshot is None or card.snapshot.id != market.snapshot.id:
        return  # a different market is reported by another rule

    for name, claimed, found in _descriptions(card.snapshot, market.snapshot):
        if claimed != found:
            yield (
                "snapshot",
                f"snapshot.{name}: is {_shortened_repr(claimed)}, the board's market has "
                f"{_shortened_repr(found)}; score the run on the board's market (`ktdeval score "
                "RUN --data DATA`)",
            )

    windows = {(each.first, each.last): each for each in market.windows}
    for window in card.windows:
        known = windows.get((window.first, window.last))
        if known is not None and known.days != window.days:
            yield (
                "windows",
                f"{window.name} has {window.days:,} trading days; the board's market has "
                f"{known.days:,}",
            )

    if isinstance(card, TradingCard):
        yield from _benchmark_problems(card, market)


def _descriptions(card: SnapshotPart, market: MarketFacts) -> Iterator[tuple[str, object, object]]:
    """Yield the name of each field that describes a market, with the card's value and the
    board's.
    """
    yield "name", card.name, market.title
    yield "placebo", card.is_placebo, market.placebo
    for name in DESCRIBED:
        claimed = getattr(card, name)
        found = getattr(market, name)
        yield name, claimed, list(found) if isinstance(found, tuple) else found


def _benchmark_problems(card: TradingCard, market: Market) -> Iterator[tuple[str, str]]:
    """Yield the rule and the message for each of a card's benchmark figures that differs from the
    market's own figure for the same window. Limited cards are skipped.
    """
    spans = {(each.first, each.last): each for each in market.windows}
    references = card.reference.benchmark_buy_and_hold
    for window in card.windows:
        known = spans.get((window.first, window.last))
        policy = references.get(window.name)
        if known is None or policy is None or card.limit is not None:
            continue

        for name in ("total_return", "sharpe", "max_drawdown"):
            claimed = getattr(policy.metrics, name).value
            found = getattr(known, name)
            if not _is_close(claimed, found):
                yield (
                    "reference",
                    f"reference: {window.name}: {name} of the benchmark is {claimed}, but "
                    f"{found} in the board's market",
                )


def _is_close(claimed: float | None, found: float | None) -> bool:
    if claimed is None or found is None:
        return claimed is found

    return math.isclose(claimed, found, rel_tol=_PRECISION, abs_tol=1e-12)


def _shortened_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def in_words_of_board(card: SnapshotPart, name: str, market: MarketFacts | None) -> SnapshotPart:
    """Return a card's market as described by the board. `name` is the board's name for the market.

    If the board has not opened the market, only the name is returned, since the card's texts come
    from its submitter.
    """
    words = {"name": name, "source": NOT_OPENED, "repairs": [], "benchmark_name": "the benchmark"}
    if market is not None:
        words = {
            "name": market.title,
            "source": market.source,
            "repairs": list(market.repairs),
            "benchmark_name": market.benchmark_name,
        }

    return msgspec.structs.replace(card, **words)
