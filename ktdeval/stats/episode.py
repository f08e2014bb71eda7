"""Helpers of several metrics: the rows of its days in the market, and a key for caches."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.trading.ledger import Ledger

T = TypeVar("T")


class Same(Generic[T]):
    """A value as a key of a cache: equal only to itself. Ledgers and snapshots are too large to hash or compare."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def fill_rows(ledger: Ledger, market: MarketSnapshot) -> npt.NDArray[np.int64]:
    """[steps] rows of the fill days in the market.

    Raises:
        DataError: the ledger's days are not days of `market`.
    """
    return day_rows(market, ledger.days)


def day_rows(market: MarketSnapshot, days: npt.NDArray[np.datetime64]) -> npt.NDArray[np.int64]:
    """Rows of several trading days, `MarketSnapshot.day_index` of each.

    Raises:
        DataError: one of them is not a trading day of the snapshot.
    """
    rows: npt.NDArray[np.int64] = np.searchsorted(market.days, days)
    found = market.days[np.minimum(rows, len(market.days) - 1)] == days
    if not found.all():
        market.day_index(days[int(np.argmin(found))])
    return rows
