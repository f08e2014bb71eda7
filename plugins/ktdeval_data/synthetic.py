"""Embedded market: a synthetic CSI300-like snapshot whose true factor, market and industry returns
are known.

Beyond styles and industries, returns are noise, so true selection skill is zero by construction.
See docs/synthetic-market.md.

The day loop uses only the previous day's exposures. Every quantity that the next day depends on is
quantised: prices in fen, volume in lots, factors and index levels by rounding. The rounding errors
of a machine therefore can't grow from day to day, and the same seed gives the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ktdeval.attribution import FACTORS, PriceHistory, factor_values
from ktdeval.errors import DataError
from ktdeval.market import (
    DAILY_LIMIT_PCT,
    BoolArray,
    DayArray,
    FloatArray,
    MarketSnapshot,
    SnapshotMeta,
    sessions,
)
from ktdeval.values import JsonValue, dumps_canonical
from ktdeval_data.params import GENERATOR_VERSION, SyntheticParams
from ktdeval_data.synthetic_inputs import (
    BOARD_VOLATILITY,
    CONTROL_POINTS,
    FACTOR_PREMIA,
    REGIMES,
    AssetEvents,
    Listings,
    Shocks,
    draw_events,
    draw_shocks,
    make_listings,
    stream,
)

BENCHMARK = "999300.SH"
LARGE_INDEX = "999050.SH"
EQUAL_INDEX = "999301.SH"
INDEX_NAMES = {BENCHMARK: "SYN300", LARGE_INDEX: "SYN50", EQUAL_INDEX: "SYN300 equal weight"}
LARGE_NAMES = 50


@dataclass(frozen=True)
class Truth:
    """Planted daily close-to-close returns, as fractions."""

    days: DayArray  # [T] trading days of the snapshot
    market: FloatArray  # [T] return common to all assets
    #: factor name -> [T] return per unit of exposure standardised over the previous day's members
    factor_returns: Mapping[str, FloatArray]
    # industry name -> [T] additional return of every asset in the industry
    industry_returns: Mapping[str, FloatArray]
    # parameters, premia, regimes and control points in plain JSON values; `alpha` is 0
    facts: Mapping[str, JsonValue]

    def frame(self) -> pd.DataFrame:
        """Return a table with one row per day: `date`, `market`, `factor:NAME`…, `industry:NAME`…."""
        columns: dict[str, FloatArray | DayArray] = {
            "date": self.days.astype("datetime64[s]"),
            "market": self.market,
        }
        columns |= {f"factor:{name}": values for name, values in self.factor_returns.items()}
        columns |= {f"industry:{name}": values for name, values in self.industry_returns.items()}

        return pd.DataFrame(columns)

    def files(self) -> dict[str, bytes]:
        """File name -> content, for `truth.parquet` (the frame) and `truth.json` (the facts)."""
        buffer = io.BytesIO()
        self.frame().to_parquet(buffer, index=False)
        return {
            "truth.parquet": buffer.getvalue(),
            "truth.json": (dumps_canonical(dict(self.facts)) + "\n").encode(),
        }


def make_synthetic(params: SyntheticParams) -> MarketSnapshot:
    """Return only the snapshot, without an id."""
    return build(params)[0]


def make_with_files(params: SyntheticParams) -> tuple[MarketSnapshot, Mapping[str, bytes]]:
    """Return the synthetic market of a seed, and the files of its planted returns."""
    snapshot, truth = build(params)
    return snapshot, truth.files()


def build(params: SyntheticParams) -> tuple[MarketSnapshot, Truth]:
    """Generate the market and its planted returns. Equal parameters give equal bytes.

    The snapshot, without an id, has [T] sessions of XSHG × 330 assets, of which 300 are members on
    any day. Raises DataError if the date range is empty or lies outside the exchange calendar, or
    if a date is not an ISO date.
    """
    days = sessions(params.first, params.last)
    if len(days) < 2:
        raise DataError(
            f"synthetic market {params.first}…{params.last}: fewer than two trading days; choose a"
            " longer range"
        )

    listings = make_listings(stream(params.seed, "listings"))
    shocks = draw_shocks(params.seed, days, listings)
    assets = make_assets(stream(params.seed, "assets"), listings, shocks.base_volatility)
    events = draw_events(params.seed, days, len(listings.codes))
    market = simulate(assets, shocks, events, days, stream(params.seed, "reviews"))

    return _market_snapshot(params, listings, market, assets.lots), _truth(
        params, listings, shocks, market
    )


def _market_snapshot(
    params: SyntheticParams, listings: Listings, market: GrowingMarket, lots: FloatArray
) -> MarketSnapshot:
    bars: dict[str, Any] = {
        name: grid for name, grid in market.grids.items() if not name.startswith("adjusted")
    }
    return MarketSnapshot(
        meta=SnapshotMeta(
            name=f"synthetic-{params.seed}",
            source=(
                f"ktdeval synthetic market, generator {GENERATOR_VERSION}, seed {params.seed},"
                f" {params.first}…{params.last}"
            ),
            synthetic=True,
            has_factor=True,
            benchmark=BENCHMARK,
        ),
        days=market.days,
        codes=listings.codes,
        names=listings.names,
        industries=tuple(listings.industry_names[number] for number in listings.industry),
        **bars,
        member=market.member,
        indices=_indices(market, lots),
        index_names=INDEX_NAMES,
    )


def _indices(market: GrowingMarket, lots: FloatArray) -> dict[str, FloatArray]:
    """Return three indices, all with dividends reinvested: the benchmark, its 50 largest members by
    value, and its members equally weighted.
    """
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
    daily = (weights * np.where(np.isfinite(returns), returns, 0.0)).sum(axis=1) / weights.sum(
        axis=1
    )
    return np.round(start * np.cumprod(1.0 + daily), 4)


def _truth(
    params: SyntheticParams, listings: Listings, shocks: Shocks, market: GrowingMarket
) -> Truth:
    return Truth(
        days=market.days,
        market=market.market_return,
        factor_returns={
            definition.name: shocks.factor[:, column] for column, definition in enumerate(FACTORS)
        },
        industry_returns={
            name: shocks.industry[:, column] for column, name in enumerate(listings.industry_names)
        },
        facts={
            "generator": GENERATOR_VERSION,
            "seed": params.seed,
            "first": params.first,
            "last": params.last,
            "alpha": 0,
            "annual_factor_premia": dict(FACTOR_PREMIA),
            "control_points": [asdict(point) for point in CONTROL_POINTS],
            "regimes": [asdict(regime) for regime in REGIMES],
        },
    )


# ---- day loop

MEMBERS = 300
REVIEW_MONTHS = (6, 12)
#: number of names replaced at an index review: lower bound, and exclusive upper bound
REVIEW_CHANGES = (5, 10)
AMOUNT_DAYS = 120  #: days over which mean turnover ranks names at a review
LOT = 100
SOLVER_STEPS = 8
#: of the days that close at their limit, share on which all trades are at the limit price
LOCK_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class AssetFacts:
    """Static facts about the assets, [N] each. `industry`: as in `Listings`."""

    industry: np.ndarray[tuple[int], np.dtype[np.intp]]
    limit: FloatArray  # daily price limit as a fraction
    price_fen: FloatArray  # price before the first day, in fen
    # hundreds of shares outstanding at a factor of 1, so that lots times a price in fen is a value
    # in CNY
    lots: FloatArray
    turnover: FloatArray  # normal daily turnover as a share of market value
    overnight_share: FloatArray  # share of a day's return that is already in the open
    # increase in log turnover per standard deviation of the day's signed return
    volume_slope: FloatArray
    volatility: FloatArray  # normal daily standard deviation of total returns


def make_assets(
    rng: np.random.Generator, listings: Listings, base_volatility: FloatArray
) -> AssetFacts:
    """Draw the static facts. Sizes span two orders of magnitude, prices one."""
    n = len(listings.codes)
    price_fen = np.clip(
        np.rint(100.0 * np.exp(np.log(25.0) + 0.5 * rng.standard_normal(n))), 1_000.0, 15_000.0
    )
    value_cny = np.exp(np.log(6.0e10) + 0.8 * rng.standard_normal(n))
    boards = np.array([BOARD_VOLATILITY[board] for board in listings.boards])

    return AssetFacts(
        industry=listings.industry,
        limit=np.array([DAILY_LIMIT_PCT[board] for board in listings.boards]) / 100.0,
        price_fen=price_fen,
        lots=np.rint(value_cny / price_fen),
        turnover=0.006 * boards * np.exp(0.5 * rng.standard_normal(n)),
        overnight_share=rng.uniform(0.2, 0.5, n),
        volume_slope=0.25 + 0.25 * rng.standard_normal(n),
        volatility=np.sqrt(base_volatility**2 + 0.015**2),
    )


@dataclass
class GrowingMarket:
    """Market under construction: arrays of full length [T, N], filled up to row `day`."""

    days: DayArray
    n_assets: int
    day: int = -1
    grids: dict[str, FloatArray] = field(init=False)
    member: BoolArray = field(init=False)
    index: FloatArray = field(init=False)
    market_return: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        shape = (len(self.days), self.n_assets)
        names = (
            "open",
            "high",
            "low",
            "close",
            "volume",
            "amount",
            "factor",
            "adjusted_open",
            "adjusted_close",
        )
        self.grids = {name: np.full(shape, np.nan) for name in names}
        self.member = np.zeros(shape, dtype=bool)
        self.index = np.full(len(self.days), np.nan)
        self.market_return = np.full(len(self.days), np.nan)

    def history(self) -> PriceHistory:
        """Return the days generated so far."""
        return PriceHistory(
            self.day, *(self.grids[name][: self.day + 1] for name in PriceHistory._fields[1:])
        )


@dataclass(frozen=True, slots=True)
class DayBounds:
    """Reference price and limits on one day, in fen, [N] each."""

    reference: FloatArray
    low: FloatArray
    high: FloatArray


# a tuple: its fields are those of a table
class DayBars(NamedTuple):
    """Prices on one day in fen, [N] each."""

    open: FloatArray
    high: FloatArray
    low: FloatArray
    close: FloatArray


def simulate(
    assets: AssetFacts,
    shocks: Shocks,
    events: AssetEvents,
    days: DayArray,
    rng: np.random.Generator,
) -> GrowingMarket:
    """Run the market day by day.

    The return of asset i on day t is `market + exposures[t-1, i] @ factor[t] + industry[t] +
    idiosyncratic[t, i]`, cut at the board's limit and rounded to fen; `market` is solved so that
    the capitalisation-weighted index meets its target.
    """
    market = GrowingMarket(days, len(assets.price_fen))
    price = assets.price_fen.copy()
    factor = np.ones(market.n_assets)
    member = np.zeros(market.n_assets, dtype=bool)  # the largest listed names are the first members
    member[
        np.argsort(-np.where(events.listed[0], assets.lots * price, -1.0), kind="stable")[:MEMBERS]
    ] = True
    reviews = review_rows(days)

    for row in range(len(days)):
        trading = events.listed[row] & ~events.suspended[row]
        if row in reviews:
            member = _review(market, member, trading, int(rng.integers(*REVIEW_CHANGES)))

        styles = (_exposures(market) * shocks.factor[row][:, None]).sum(axis=0)
        resumed = (
            events.suspended[row - 1] & ~events.suspended[row]
            if row
            else np.zeros(market.n_assets, dtype=bool)
        )
        # Residuals are doubled on the first day after a suspension.
        residual = shocks.idiosyncratic[row] * np.where(resumed, 2.0, 1.0)
        own = styles + shocks.industry[row][assets.industry] + residual
        value = assets.lots * price * factor
        bounds, factor = _ex_day(assets, events, row, price, factor)
        weights = np.where(member, value, 0.0) / value[member].sum()
        previous = market.index[row - 1] if row else shocks.target[0]
        common, index_return, close = _solve(
            bounds, own, np.where(trading, weights, 0.0), shocks.target[row] / previous - 1.0
        )
        bars = _bars(assets, shocks, row, bounds, close)
        price = np.where(trading, close, price)
        turnover = _turnover(assets, shocks, row, value, close / bounds.reference - 1.0)
        _record(
            market,
            row,
            bars,
            factor,
            np.where(trading, turnover, 0.0),
            (trading, events.listed[row]),
        )
        market.member[row] = member
        market.index[row] = np.round(previous * (1.0 + index_return), 4)
        market.market_return[row] = common
        market.day = row

    return market


def review_rows(days: DayArray) -> frozenset[int]:
    """Return the rows on which an index review takes effect: the first trading day after the second
    Friday of June and December.
    """
    months = np.arange(
        days[0].astype("datetime64[M]"), days[-1].astype("datetime64[M]") + np.timedelta64(1, "M")
    )
    months = months[np.isin(months.astype(int) % 12 + 1, REVIEW_MONTHS)]
    fridays = np.busday_offset(months.astype("datetime64[D]"), 1, roll="forward", weekmask="Fri")
    rows = np.searchsorted(days, fridays[fridays >= days[0]], side="right")

    return frozenset(rows[(rows > 0) & (rows < len(days))].tolist())


def _review(
    market: GrowingMarket, member: BoolArray, eligible: BoolArray, changes: int
) -> BoolArray:
    """Replace the least traded members with the most traded non-members."""
    amount = market.history().amount[-AMOUNT_DAYS:]
    traded = np.where(np.isfinite(amount), amount, 0.0).sum(axis=0)
    outside = np.flatnonzero(eligible & ~member & (traded > 0))
    inside = np.flatnonzero(member)
    changes = min(changes, len(outside))
    after = member.copy()
    after[outside[np.argsort(-traded[outside], kind="stable")[:changes]]] = True
    after[inside[np.argsort(traded[inside], kind="stable")[:changes]]] = False

    return after


def _exposures(market: GrowingMarket) -> FloatArray:
    """Return the standardised exposures at the last close, [K, N], 0 where undefined."""
    if market.day < 0:
        return np.zeros((1, market.n_assets))
    exposures = factor_values(market.history()).standardise_over(market.member[market.day])
    return np.where(np.isfinite(exposures), exposures, 0.0)


def _ex_day(
    assets: AssetFacts, events: AssetEvents, row: int, price: FloatArray, factor: FloatArray
) -> tuple[DayBounds, FloatArray]:
    """Return reference prices, limits and factors on one day. Dividends in whole fen and bonus
    shares lower the reference price.
    """
    dividend = np.where(
        events.dividend_yield[row] > 0,
        np.maximum(np.rint(price * events.dividend_yield[row]), 1.0),
        0.0,
    )
    dividend = np.where(dividend < price / 2, dividend, 0.0)
    changed = (dividend > 0) | (events.bonus[row] > 0)
    after = np.where(
        changed,
        np.round(factor * price * (1.0 + events.bonus[row]) / (price - dividend), 8),
        factor,
    )
    reference = price * factor / after
    # Limits are rounded inwards to the fen, so that no price is beyond the limit. The small term
    # keeps 10.00 * 1.1 at 11.00.
    low = np.maximum(np.ceil(reference * (1.0 - assets.limit) - 1e-6), 1.0)
    high = np.maximum(np.floor(reference * (1.0 + assets.limit) + 1e-6), low)

    return DayBounds(reference, low, high), after


def _solve(
    bounds: DayBounds, own: FloatArray, weights: FloatArray, target: float
) -> tuple[float, float, FloatArray]:
    """Return the common return, the index return reached and the closes in fen.

    The index return meets `target` up to rounding and price limits.
    """
    common = target - float((weights * own).sum())
    for step in range(SOLVER_STEPS):
        close = np.clip(np.rint(bounds.reference * (1.0 + common + own)), bounds.low, bounds.high)
        index_return = float((weights * (close / bounds.reference - 1.0)).sum())
        if step < SOLVER_STEPS - 1:
            common += target - index_return

    return common, index_return, close


def _bars(
    assets: AssetFacts, shocks: Shocks, row: int, bounds: DayBounds, close: FloatArray
) -> DayBars:
    """Return open, high and low for the given closes. On some of the days that close at the limit,
    all trades are at the limit price.
    """
    day_return = close / bounds.reference - 1.0
    overnight = assets.overnight_share * day_return + shocks.overnight[row]
    at_limit = (close <= bounds.low) | (close >= bounds.high)
    locked = at_limit & (shocks.lock[row] < LOCK_SHARE)
    open_ = np.where(
        locked,
        close,
        np.clip(np.rint(bounds.reference * (1.0 + overnight)), bounds.low, bounds.high),
    )
    upper = np.maximum(open_, close)
    lower = np.minimum(open_, close)
    high = np.where(
        locked, close, np.minimum(np.rint(upper * (1.0 + shocks.range_up[row])), bounds.high)
    )
    low = np.where(
        locked, close, np.maximum(np.rint(lower * (1.0 - shocks.range_down[row])), bounds.low)
    )

    return DayBars(open_, np.maximum(high, upper), np.minimum(low, lower), close)


def _turnover(
    assets: AssetFacts, shocks: Shocks, row: int, value: FloatArray, day_return: FloatArray
) -> FloatArray:
    """Return the turnover in CNY, [N], from size, activity, the size of the price move and its
    sign, whose effect differs by asset.
    """
    moved = np.clip(day_return / assets.volatility, -4.0, 4.0)
    log_ratio = (
        shocks.activity[row]
        + 0.3 * np.minimum(np.abs(moved) - 0.8, 2.0)
        + assets.volume_slope * np.clip(moved, -1.5, 1.5)
    )
    turnover: FloatArray = value * assets.turnover * np.exp(log_ratio)

    return turnover


def _record(
    market: GrowingMarket,
    row: int,
    bars: DayBars,
    factor: FloatArray,
    turnover: FloatArray,
    states: tuple[BoolArray, BoolArray],
) -> None:
    """Write one day.

    Without trading, prices are missing and volume is 0; before listing, volume is NaN.
    """
    trading, listed = states
    # The mean price is a whole number of 1/10000 CNY ticks, so amount = volume * price is exact.
    mean_ticks = 25.0 * (bars.open + bars.high + bars.low + bars.close)
    volume = np.maximum(np.rint(turnover / (mean_ticks / 10_000.0) / LOT), 1.0) * LOT

    for name, fen in bars._asdict().items():
        market.grids[name][row] = np.where(trading, fen / 100.0, np.nan)

    market.grids["factor"][row] = factor
    market.grids["volume"][row] = np.where(trading, volume, np.where(listed, 0.0, np.nan))
    market.grids["amount"][row] = np.where(
        trading, volume * mean_ticks / 10_000.0, np.where(listed, 0.0, np.nan)
    )

    for name in ("open", "close"):
        market.grids[f"adjusted_{name}"][row] = market.grids[name][row] * factor
