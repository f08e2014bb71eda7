"""Embedded market: a synthetic CSI300-like snapshot whose true factor, market and industry returns are known.

No return depends on which security it is: beyond styles and industries there is only noise, so nobody can select stocks here and
true selection skill is zero by construction. See docs/synthetic-market.md.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ktdeval.attribution import FACTORS
from ktdeval.errors import DataError
from ktdeval.jsonio import JsonValue, dumps_canonical
from ktdeval.market import DayArray, FloatArray, MarketSnapshot, SnapshotMeta, sessions
from ktdeval_data.params import GENERATOR_VERSION, SyntheticParams
from ktdeval_data.synthetic_engine import Market, make_assets, simulate
from ktdeval_data.synthetic_shocks import FACTOR_PREMIA, Shocks, draw_events, draw_shocks, stream
from ktdeval_data.synthetic_world import ASSET_COUNT, CONTROL_POINTS, REGIMES, Listings, make_listings

BENCHMARK = "999300.SH"
LARGE_INDEX, EQUAL_INDEX = "999050.SH", "999301.SH"
INDEX_NAMES = {BENCHMARK: "SYN300", LARGE_INDEX: "SYN50", EQUAL_INDEX: "SYN300 equal weight"}
LARGE_NAMES = 50


@dataclass(frozen=True)
class Truth:
    """Planted returns, day by day; returns are fractions of the day from close to close."""

    days: DayArray  # [T] trading days of the snapshot
    market: FloatArray  # [T] return common to all assets
    #: factor name -> [T] return per unit of exposure standardised over the previous day's members
    factor_returns: Mapping[str, FloatArray]
    industry_returns: Mapping[str, FloatArray]  # industry name -> [T] return of every asset of the industry on top of the others
    facts: Mapping[str, JsonValue]  # parameters, premia, regimes and control points in plain JSON values; `alpha` is 0

    def frame(self) -> pd.DataFrame:
        """One row a day: `date`, `market`, `factor:NAME`…, `industry:NAME`…."""
        columns: dict[str, FloatArray | DayArray] = {"date": self.days.astype("datetime64[s]"), "market": self.market}
        columns |= {f"factor:{name}": values for name, values in self.factor_returns.items()}
        columns |= {f"industry:{name}": values for name, values in self.industry_returns.items()}
        return pd.DataFrame(columns)

    def files(self) -> dict[str, bytes]:
        """File name -> content of `truth.parquet` (the frame) and `truth.json` (the facts)."""
        buffer = io.BytesIO()
        self.frame().to_parquet(buffer, index=False)
        return {"truth.parquet": buffer.getvalue(), "truth.json": (dumps_canonical(dict(self.facts)) + "\n").encode()}


def make_synthetic(params: SyntheticParams) -> MarketSnapshot:
    """Return the snapshot alone, without an id."""
    return build(params)[0]


def build(params: SyntheticParams) -> tuple[MarketSnapshot, Truth]:
    """Generate the market and what was planted in it; equal parameters give equal bytes. Returns the snapshot without an id ([T]
    sessions of XSHG × 330 assets, 300 of them members on every day), and the truth. Raises DataError: the range is empty or lies
    outside the exchange calendar, or a date is not an ISO date.
    """
    days = sessions(params.first, params.last)
    if len(days) < 2:
        raise DataError(f"synthetic market {params.first}…{params.last}: fewer than two trading days; choose a longer range")
    listings = make_listings(stream(params.seed, "listings"))
    shocks = draw_shocks(params.seed, days, listings)
    assets = make_assets(stream(params.seed, "assets"), listings, shocks.base_volatility)
    events = draw_events(params.seed, days, ASSET_COUNT)
    market = simulate(assets, shocks, events, days, stream(params.seed, "reviews"))
    snapshot = _snapshot(params, listings, market, assets.lots)
    return snapshot, _truth(params, listings, shocks, market)


def _snapshot(params: SyntheticParams, listings: Listings, market: Market, lots: FloatArray) -> MarketSnapshot:
    grids = market.grids
    return MarketSnapshot(
        meta=SnapshotMeta(
            name=f"synthetic-{params.seed}",
            source=f"ktdeval synthetic market, generator {GENERATOR_VERSION}, seed {params.seed}, {params.first}…{params.last}",
            synthetic=True,
            has_factor=True,
            benchmark=BENCHMARK,
        ),
        days=market.days,
        codes=listings.codes,
        names=listings.names,
        industries=tuple(listings.industry_names[place] for place in listings.industry),
        open=grids["open"],
        high=grids["high"],
        low=grids["low"],
        close=grids["close"],
        volume=grids["volume"],
        amount=grids["amount"],
        factor=grids["factor"],
        member=market.member,
        indices=_indices(market, lots),
        index_names=INDEX_NAMES,
    )


def _indices(market: Market, lots: FloatArray) -> dict[str, FloatArray]:
    """Benchmark, its 50 largest members by value, and its members equally weighted; dividends reinvested in all three."""
    close = pd.DataFrame(market.grids["adjusted_close"]).ffill().to_numpy()
    returns = np.zeros_like(close)
    returns[1:] = np.where(np.isfinite(close[:-1]), close[1:] / close[:-1] - 1.0, 0.0)
    value = np.where(market.member, np.vstack([close[:1], close[:-1]]) * lots, 0.0)
    rank = np.argsort(np.argsort(-value, axis=1, kind="stable"), axis=1, kind="stable")
    large = np.where(rank < LARGE_NAMES, value, 0.0)
    return {
        BENCHMARK: market.index,
        LARGE_INDEX: _levels(returns, large, market.index[0]),
        EQUAL_INDEX: _levels(returns, market.member.astype(np.float64), market.index[0]),
    }


def _levels(returns: FloatArray, weights: FloatArray, start: float) -> FloatArray:
    weights = np.where(np.isfinite(weights), weights, 0.0)
    daily = (weights * np.where(np.isfinite(returns), returns, 0.0)).sum(axis=1) / weights.sum(axis=1)
    levels: FloatArray = np.round(start * np.cumprod(1.0 + daily), 4)
    return levels


def _truth(params: SyntheticParams, listings: Listings, shocks: Shocks, market: Market) -> Truth:
    return Truth(
        days=market.days,
        market=market.market_return,
        factor_returns={definition.name: shocks.factor[:, place] for place, definition in enumerate(FACTORS)},
        industry_returns={name: shocks.industry[:, place] for place, name in enumerate(listings.industry_names)},
        facts={
            "generator": GENERATOR_VERSION,
            "seed": params.seed,
            "first": params.first,
            "last": params.last,
            "alpha": 0,
            "annual_factor_premia": dict(FACTOR_PREMIA),
            "control_points": [point._asdict() for point in CONTROL_POINTS],
            "regimes": [regime._asdict() for regime in REGIMES],
        },
    )
