"""Market-wide figures at a day's close: sectors, breadth and indices.

The figures depend only on the market, so runs cache them by day (`MarketView.load_arrays`). Each
day's figures are computed from the view of that day.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache

import numpy as np

from ktdeval.market import FloatArray, MarketView, code_version
from ktdeval_ktdfin.market_day import MarketDay

HORIZONS = (1, 5, 20)
INDEX_HORIZONS = (*HORIZONS, 60)
#: Figures of `breadth` in `context_table`, in order
BREADTH = (
    "members",
    "advancing",
    "declining",
    "suspended",
    "median_return_1d_pct",
    "amount_cny",
    "amount_vs_20d_mean",
)


@lru_cache(maxsize=8)  # one entry per market
def sector_names(industries: tuple[str, ...]) -> tuple[str, ...]:
    """Return a market's sectors in the row order of `sectors` in `context_table`."""
    return tuple(sorted(set(industries)))


def day_context(market: MarketDay) -> Mapping[str, FloatArray]:
    """Return the arrays of `context_table` for a day."""
    return market.once("context", _stored_context)


def _stored_context(market: MarketDay) -> Mapping[str, FloatArray]:
    def make(view: MarketView) -> dict[str, FloatArray]:
        # Even without a cache, the figures for the caller's own day are computed only once.
        is_same = market.is_exact and view.day == market.view.day
        return context_table(market if is_same else MarketDay(view, market.limit_ppm))

    return market.view.load_arrays("ktdfin context", _code_version(), make)


@cache
def _code_version() -> str:
    own = ("ktdeval_ktdfin.market_day", __name__)
    return code_version(
        *own, "ktdeval.attribution.style_factors", "ktdeval.market.snapshots.snapshot"
    )


def context_table(market: MarketDay) -> dict[str, FloatArray]:
    """Return the market-wide figures at a day's close; NaN where undefined:

    * `sectors` [S, 5]: number of members, then equal-weight mean returns over `HORIZONS` in per
      cent, and the share of members that advance
    * `breadth` [7]: the figures of `BREADTH`
    * `indices` [I, 6]: the figures of `_index_figures`, as fractions
    """
    indices = [_index_figures(levels) for levels in market.view.indices.values()]
    return {
        "sectors": _sector_figures(market),
        "breadth": _breadth(market),
        "indices": np.array(indices),
    }


def _sector_figures(market: MarketDay) -> FloatArray:
    sectors = sector_names(market.view.industries)
    number = {sector: index for index, sector in enumerate(sectors)}
    sector_of = np.array([number[sector] for sector in market.view.industries], dtype=np.int64)
    size = len(sectors)

    def mean_by_sector(values: FloatArray) -> FloatArray:
        used = market.member & np.isfinite(values)
        total = np.bincount(sector_of[used], values[used], size)
        count = np.bincount(sector_of[used], minlength=size)
        with np.errstate(all="ignore"):
            mean: FloatArray = total / count

        return mean

    means = [mean_by_sector(market.dims[f"return_{days}d_pct"]) for days in HORIZONS]
    change = market.dims["return_1d_pct"]
    is_advancing_pct = np.where(change > 0, 100.0, 0.0)
    advancing = mean_by_sector(np.where(np.isfinite(change), is_advancing_pct, np.nan))
    members = np.bincount(sector_of[market.member], minlength=size).astype(np.float64)

    return np.stack([members, *means, advancing], axis=1)


def _breadth(market: MarketDay) -> FloatArray:
    member = market.member
    has_bar = market.has_bar
    change = market.dims["return_1d_pct"][member & has_bar]
    median = float(np.median(change)) if len(change) else np.nan

    amount = market.view.amount[-20:, member]
    is_known = np.isfinite(amount)
    traded = np.where(is_known, amount, 0.0).sum(axis=1)
    daily = np.where(is_known.any(axis=1), traded, np.nan)
    mean = float(daily.mean())
    against_mean = float(daily[-1]) / mean if mean > 0 else np.nan
    is_listed = ~np.isnan(market.closes.marks)

    counted = [
        member.sum(),
        (change > 0).sum(),
        (change < 0).sum(),
        (member & ~has_bar & is_listed).sum(),
        median,
        daily[-1],
        against_mean,
    ]
    return np.array(counted, dtype=np.float64)


def _index_figures(levels: FloatArray) -> tuple[float, ...]:
    """Return an index's returns over `INDEX_HORIZONS`, its volatility and its drawdown, all as
    fractions. A return is NaN if the history is too short for it; so is the volatility.
    """
    last = levels[-1]
    returns = []
    for days in INDEX_HORIZONS:
        returns.append(last / levels[-1 - days] - 1.0 if len(levels) > days else np.nan)

    daily = np.diff(np.log(levels[-21:]))
    volatility = np.nan
    if len(daily) > 1:
        volatility = float(np.std(daily, ddof=1)) * np.sqrt(252.0)

    return (*returns, volatility, last / np.max(levels[-60:]) - 1.0)
