"""The generated markets of the tests, each made once for a process: a reduced one in memory, the embedded one out of the cache."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from ktdeval_qfinzero.data.rows import BAR_COLUMNS, Bars
from ktdeval_qfinzero.data.stores import Dataset, Span
from ktdeval_qfinzero.data.synthetic.embedded import cache_root, open_embedded
from ktdeval_qfinzero.data.synthetic.market import SyntheticMarket, generate
from ktdeval_qfinzero.data.synthetic.params import small_params

ALL_TIME = Span(0, 2**62)


@lru_cache(maxsize=1)
def small_market() -> SyntheticMarket:
    """Nine stocks, two of them with options, and two coins; a quarter of a second."""
    return generate(small_params())


@lru_cache(maxsize=1)
def synthetic_dataset() -> Dataset:
    """The embedded market, read from files; some seconds where the cache has none yet."""
    return open_embedded(cache_root())


def digest_of_bars(bars: Bars) -> str:
    """Equal for equal bytes."""
    columns = (np.ascontiguousarray(getattr(bars, name)) for name in BAR_COLUMNS)
    return hashlib.sha256(b"".join(column.dtype.str.encode() + column.tobytes() for column in columns)).hexdigest()


def digest_of_market(market: SyntheticMarket) -> str:
    """Equal for equal markets, everything in them considered."""
    prices = market.prices
    rows = (
        prices.symbol_rows, prices.contract_rows, prices.rate_rows, prices.dividend_rows, prices.split_rows, prices.borrow_rows,
        market.events, market.news, market.info,
    )  # fmt: skip
    bars = [(key, digest_of_bars(prices.bar_table[key])) for key in sorted(prices.bar_table)]
    return hashlib.sha256(repr((rows, bars)).encode()).hexdigest()
