"""Last bid and ask of each day, if the data include quotes, and the resulting half-spreads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
QUOTE_COLUMNS = ("bid", "ask")
"""Optional columns of bars: the day's last quotes, unadjusted, in the currency units of prices."""


@dataclass(frozen=True, eq=False)
class Quotes:
    """Last quotes of each day; None if the data have no quotes.

    Quotes are unadjusted, in the currency units of prices, and known at the close of their day. NaN
    or 0 means that there is no quote.
    """

    bid: FloatArray | None = None  #: [T, N]
    ask: FloatArray | None = None  #: [T, N]

    @property
    def arrays(self) -> dict[str, FloatArray]:
        """The available arrays, by name."""
        named = {name: getattr(self, name) for name in QUOTE_COLUMNS}
        return {name: array for name, array in named.items() if isinstance(array, np.ndarray)}

    def __bool__(self) -> bool:
        return self.half_spreads is not None and bool(np.isfinite(self.half_spreads).any())

    @cached_property
    def half_spreads(self) -> FloatArray | None:
        """Half-spreads as fractions of the mid-price, (ask - bid) / (ask + bid). NaN where a quote
        is missing or the quotes are impossible; None if the data have no quotes. Shape: [T, N].
        """
        if self.bid is None or self.ask is None:
            return None

        is_pair = two_sided(self.bid, self.ask) & ~impossible(self.bid, self.ask)
        bid = np.where(is_pair, self.bid, np.nan)
        ask = np.where(is_pair, self.ask, np.nan)
        return np.asarray((ask - bid) / (ask + bid))


NO_QUOTES = Quotes()


def two_sided(bid: FloatArray, ask: FloatArray) -> BoolArray:
    """Return whether both quotes exist."""
    return np.asarray((bid > 0) & (ask > 0))


def impossible(bid: FloatArray, ask: FloatArray) -> BoolArray:
    """Return whether quotes are impossible in any market: the bid is above the ask, or either quote
    is negative or infinite.
    """
    is_crossed = two_sided(bid, ask) & (bid > ask)
    return np.asarray(is_crossed | (bid < 0) | (ask < 0) | np.isinf(bid) | np.isinf(ask))
