"""Days of a market as they became known. Each is an immutable increment identified by its hash.

A day's first increment contains all of its rows. A revision is another increment, with only the
rows that differ. The market as known at a given time is the pre-test copy plus all increments up to
that time, in which the latest row for an asset and day counts. Later days of the test have no bars.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ktdeval.errors import DataError
from ktdeval.market import (
    BAR_FIELDS,
    Document,
    Documents,
    FloatArray,
    MarketSnapshot,
    PriceLimits,
    Quotes,
    with_id,
)
from ktdeval.values import JsonValue, Value, content_hash, to_plain
from ktdeval_live.days.clock import Zoned

_PRICES = ("open", "high", "low", "close")


class Bar(Value):
    """One day of one asset, with unadjusted prices. An asset without a bar did not trade."""

    code: str
    open: float
    high: float
    low: float
    close: float
    volume: float
    amount: float | None = None
    factor: float | None = (
        None  #: cumulative adjustment factor; null: unchanged from the previous day
    )
    #: factor divided by the previous day's, for sources whose factors restart with each response
    factor_change: float | None = None


class Item(Value):
    """A document that became known with a day's data."""

    published_at: Zoned
    known_at: Zoned
    source: str
    kind: str
    assets: tuple[str, ...]
    title: str
    text: str
    sentiment: str = ""  #: tone as given by the source; empty if not given

    @classmethod
    def of(cls, document: Document) -> Item:
        """Return the item for a document."""
        return cls(**document._asdict())

    def document(self) -> Document:
        """Return the market document for this item, which has the same field names."""
        return Document(**{name: getattr(self, name) for name in Document._fields})


class Increment(Value):
    """What became known about one day of a market at one point in time."""

    market: str
    day: str  #: ISO day of the bars
    known_at: Zoned  #: time at which the increment was frozen, UTC
    bars: tuple[Bar, ...]  #: sorted by code
    indices: dict[str, float] = msgspec.field(default_factory=dict)  #: closing levels
    documents: tuple[Item, ...] = ()
    #: hash of the increment that this one revises; null for the first one of a day
    revises: str | None = None

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical content."""
        return content_hash(to_plain(self))

    def content(self) -> JsonValue:
        """Return the content that came from the source, without the timestamp."""
        plain = to_plain(self)
        if isinstance(plain, dict):
            plain.pop("known_at")
            plain.pop("revises")
        return plain


def check_increment(increment: Increment, base: MarketSnapshot) -> None:
    """Raise DataError for the first row that is invalid in this market."""
    known = set(base.codes)
    seen: set[str] = set()
    for bar in increment.bars:
        where = f"{increment.market} {increment.day} {bar.code}"
        if bar.code not in known:
            raise DataError(
                f"{where}: the market of this test does not have this code, and its assets were "
                "fixed when the test began; remove the row"
            )
        if bar.code in seen:
            raise DataError(f"{where}: the code has two rows; leave one out")

        seen.add(bar.code)
        _check_bar(bar, where)

    for code, level in increment.indices.items():
        if code not in base.indices:
            raise DataError(f"{increment.market} {increment.day}: the market has no index {code}")
        if not np.isfinite(level) or level <= 0:
            raise DataError(f"{increment.market} {increment.day} {code}: level {level} is not > 0")

    for item in increment.documents:
        unknown = [code for code in item.assets if code not in known]
        if unknown:
            raise DataError(f"{increment.market} {increment.day}: document on unknown {unknown[0]}")
        if item.known_at > increment.known_at:
            raise DataError(
                f"{increment.market} {increment.day}: the document {item.title[:40]!r} became "
                f"known at {item.known_at.isoformat()}, after this increment"
            )


def _check_bar(bar: Bar, where: str) -> None:
    prices = [getattr(bar, name) for name in _PRICES]
    if not all(np.isfinite(price) and price > 0 for price in prices):
        raise DataError(f"{where}: prices must be finite and above zero, were {prices}")
    if not bar.low <= min(bar.open, bar.close) or not bar.high >= max(bar.open, bar.close):
        raise DataError(f"{where}: open and close must lie between low and high, were {prices}")
    if not np.isfinite(bar.volume) or bar.volume < 0:
        raise DataError(f"{where}: volume {bar.volume} is not a count of shares")
    if bar.amount is not None and not (np.isfinite(bar.amount) and bar.amount >= 0):
        raise DataError(f"{where}: amount {bar.amount} is not an amount of money")
    for factor in (bar.factor, bar.factor_change):
        if factor is not None and not (np.isfinite(factor) and factor > 0):
            raise DataError(f"{where}: factor {factor} must be above zero")


def revision(known: Sequence[Increment], now: Increment) -> Increment | None:
    """Return the rows in `now` that differ from the rows known for the day; None without
    differences.

    Rows that the source no longer has keep their known values.
    """
    bars: dict[str, Bar] = {}
    indices: dict[str, float] = {}
    documents: set[Item] = set()
    for increment in known:
        bars.update((bar.code, bar) for bar in increment.bars)
        indices.update(increment.indices)
        documents.update(increment.documents)

    changed = tuple(bar for bar in now.bars if bars.get(bar.code) != bar)
    levels = {code: level for code, level in now.indices.items() if indices.get(code) != level}
    added = tuple(item for item in now.documents if item not in documents)
    if not changed and not levels and not added:
        return None

    return Increment(
        market=now.market,
        day=now.day,
        known_at=now.known_at,
        bars=changed,
        indices=levels,
        documents=added,
        revises=known[-1].hash,
    )


def days_before(market: MarketSnapshot, cut: int) -> MarketSnapshot:
    """Return the first `cut` days of a market, with the data known on the last of them."""
    grids: dict[str, Any] = {name: getattr(market, name)[:cut] for name in BAR_FIELDS}
    view = market.as_of(cut - 1)
    documents = market.documents.first(len(view.documents))
    return with_id(
        dataclasses.replace(
            market,
            id="",
            days=market.days[:cut],
            member=market.member[:cut],
            indices={code: levels[:cut] for code, levels in market.indices.items()},
            documents=documents,
            price_limits=_limits(market, cut, 0),
            quotes=_quotes(market, cut, 0),
            **grids,
        )
    )


def market_as_known(
    base: MarketSnapshot, days: Sequence[str], increments: Sequence[Increment]
) -> MarketSnapshot:
    """Return a market with the days of a test, filled from the increments. Days without an
    increment have no bars.

    `base` ends where the test begins, and may include the test's first day. `increments` are in the
    order in which they were frozen.
    """
    cut = int(np.searchsorted(base.days, np.datetime64(days[0], "D")))
    length = len(days)
    grids: dict[str, Any] = {}
    for name in BAR_FIELDS:
        grids[name] = _extend_array(getattr(base, name)[:cut], length)

    levels = {code: _extend_array(series[:cut], length) for code, series in base.indices.items()}
    rows = {day: cut + number for number, day in enumerate(days)}
    changes = np.ones((cut + length, len(base.codes)))
    for increment in increments:
        row = rows[increment.day]
        for bar in increment.bars:
            column = base.asset_index[bar.code]
            _put(grids, row, column, bar)
            changes[row, column] = bar.factor_change or 1.0
        for code, level in increment.indices.items():
            levels[code][row] = level

    _fill_factor(grids["factor"], changes, cut)
    # An asset that is a member on the last day before the test remains a member.
    last_members = base.member[cut - 1 : cut]
    member = np.concatenate([base.member[:cut], np.repeat(last_members, length, axis=0)])
    return with_id(
        dataclasses.replace(
            base,
            id="",
            days=np.concatenate([base.days[:cut], np.array(days, dtype="datetime64[D]")]),
            member=member,
            indices=levels,
            documents=_documents(base, increments),
            price_limits=_limits(base, cut, length),
            quotes=_quotes(base, cut, length),
            **grids,
        )
    )


def _extend_array(array: FloatArray, days: int) -> FloatArray:
    """Return an array extended by days of NaN."""
    blank = np.full((days, *array.shape[1:]), np.nan)
    return np.concatenate([array, blank])


def _put(grids: Mapping[str, FloatArray], row: int, column: int, bar: Bar) -> None:
    for name in BAR_FIELDS:
        value = getattr(bar, name)
        if value is not None:
            grids[name][row, column] = value


def _fill_factor(factor: FloatArray, changes: FloatArray, first_row: int) -> None:
    """Fill factors forward over days without one, multiplied by each day's factor change."""
    for row in range(max(first_row, 1), len(factor)):
        missing = np.isnan(factor[row])
        factor[row, missing] = factor[row - 1, missing] * changes[row, missing]


def _documents(base: MarketSnapshot, increments: Sequence[Increment]) -> Documents:
    items = [item for increment in increments for item in increment.documents]
    if not items:
        return base.documents

    added = [item.document() for item in items]
    return base.documents.with_items(added)


def _limits(base: MarketSnapshot, cut: int, days: int) -> PriceLimits:
    """Return the price limits; they are unknown on the days of the test."""
    arrays: dict[str, Any] = {}
    for name, array in base.price_limits.arrays.items():
        blank = np.zeros((days, array.shape[1]), dtype=array.dtype)
        if array.dtype.kind == "f":
            blank[:] = np.nan
        arrays[name] = np.concatenate([array[:cut], blank])

    return dataclasses.replace(base.price_limits, **arrays)


def _quotes(base: MarketSnapshot, cut: int, days: int) -> Quotes:
    """Return the quotes; they are unknown on the days of the test."""
    arrays = {name: _extend_array(grid[:cut], days) for name, grid in base.quotes.arrays.items()}
    return Quotes(**arrays)
