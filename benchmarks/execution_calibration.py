"""How presets of execution compare with what daily and hourly prices tell of spreads. No speed.

    python benchmarks/execution_calibration.py [--data shared/data] [--draws 400]

Three estimators of the bid-ask spread from daily prices, each as its paper has it, pooled over all
days and assets of a bucket (with c the log close, h and l the logs of high and low):

* Roll 1984, equation 5: 2 * sqrt(-cov(c_t - c_t-1, c_t-1 - c_t-2)).
* Corwin and Schultz 2012, equations 14 and 18, from the ranges of a day and of two, after moving the
  second day by the overnight gap; days below 0 count as 0, as they advise.
* Abdi and Ranaldo 2017, equation 11: 2 * sqrt(mean (c_t - m_t) * (c_t - m_t+1)), m the mid of h and l.

Assets are split into equally large buckets by activity (price * volume * volatility of a day), the
figure that presets scale spreads by. Beside an estimate, in brackets, is what it makes of 20,000 simulated days
of the bucket's volatility without any spread: a spread below its size can't be told from none.
Intervals of 95 % are over months, drawn with replacement. A spread below 0 is one that its formula
has no root of: prices that go on in their direction hide it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from ktdeval.market.venues.venue import find_venue
from ktdeval.trading.execution_costs import Quote, execution_terms, half_spread_ppb
from ktdeval.trading.types import TradingConfig
from ktdeval.trading.venue_terms import PPB

FloatArray = npt.NDArray[np.float64]
BUCKETS = 5
BPS = 1e4
SEED = 1984
TRADES_A_DAY = 390
PRESETS = ("spread", "sqrt")
_ROOT_3 = 3.0 - 2.0 * np.sqrt(2.0)


@dataclass(frozen=True)
class DailyPrices:
    """T days of N assets, adjusted; NaN where an asset did not trade."""

    high: FloatArray  #: [T, N]
    low: FloatArray
    close: FloatArray


@dataclass(frozen=True)
class Market:
    """Real prices, and what presets need to know of each asset."""

    name: str
    venue: str
    months: npt.NDArray[np.int64]  #: [T] number of the month
    prices: DailyPrices
    price: FloatArray  #: [N] median unadjusted close in units of currency
    volume: FloatArray  #: [N] mean shares a day

    @property
    def sigma(self) -> FloatArray:
        """[N] standard deviation of daily log returns."""
        return np.nanstd(np.diff(np.log(self.prices.close), axis=0), axis=0, ddof=1)

    @property
    def activity(self) -> FloatArray:
        """[N] price * volume * volatility of a day."""
        return self.price * self.volume * self.sigma


# ---- estimators: terms of each day and asset, and the spread that a mean of them comes to


def roll_terms(prices: DailyPrices) -> FloatArray:
    """[T, N] products of successive changes of the log close, less their mean."""
    changes = np.diff(np.log(prices.close), axis=0, prepend=np.nan)
    changes -= np.nanmean(changes, axis=0)
    before = np.roll(changes, 1, axis=0)
    before[0] = np.nan
    return changes * before


def roll_spread(mean: float) -> float:
    """Return the spread of a covariance; below 0 where that is above 0, which no spread explains."""
    return _signed_root(-4.0 * mean)


def abdi_ranaldo_terms(prices: DailyPrices) -> FloatArray:
    """[T, N] products of the close's distances from the mid range of its day and of the next."""
    close = np.log(prices.close)
    middle = (np.log(prices.high) + np.log(prices.low)) / 2.0
    following = np.roll(middle, -1, axis=0)
    following[-1] = np.nan
    return (close - middle) * (close - following)


def abdi_ranaldo_spread(mean: float) -> float:
    """Return the spread of a mean product; below 0 where that is below 0."""
    return _signed_root(4.0 * mean)


def corwin_schultz_terms(prices: DailyPrices) -> FloatArray:
    """[T, N] spreads of each day and the one before, at least 0."""
    high, low, close = (np.log(each) for each in (prices.high, prices.low, prices.close))
    before = [np.roll(each, 1, axis=0) for each in (high, low, close)]
    for each in before:
        each[0] = np.nan

    # A day that lies apart from the close before it is moved by the gap.
    last = before[2]
    gap = np.maximum(low - last, 0.0) + np.minimum(high - last, 0.0)
    high = high - gap
    low = low - gap

    beta = (high - low) ** 2 + (before[0] - before[1]) ** 2
    gamma = (np.maximum(high, before[0]) - np.minimum(low, before[1])) ** 2
    alpha = (np.sqrt(2.0 * beta) - np.sqrt(beta)) / _ROOT_3 - np.sqrt(gamma / _ROOT_3)
    spread = 2.0 * (np.exp(alpha) - 1.0) / (1.0 + np.exp(alpha))
    return np.maximum(spread, 0.0)


def _same(mean: float) -> float:
    return mean


def _signed_root(square: float) -> float:
    return float(np.sign(square) * np.sqrt(abs(square)))


Terms = Callable[[DailyPrices], FloatArray]
ESTIMATORS: Mapping[str, tuple[Terms, Callable[[float], float]]] = {
    "Roll 1984": (roll_terms, roll_spread),
    "Corwin-Schultz 2012": (corwin_schultz_terms, _same),
    "Abdi-Ranaldo 2017": (abdi_ranaldo_terms, abdi_ranaldo_spread),
}

_RESIDUAL = "Abdi-Ranaldo 2017"  # the one without a bias where there is no spread


def simulated(sigma: float, spread: float, days: int, assets: int, seed: int = SEED) -> DailyPrices:
    """Return prices of a random walk without drift, each trade at the bid or the ask with equal
    odds. `sigma`: of a day; `spread`: relative to the price.
    """
    chance = np.random.default_rng(seed)
    shape = (days, assets)
    high, low, close = np.empty(shape), np.empty(shape), np.empty(shape)
    start = np.zeros(assets)
    for day in range(days):
        moves = chance.standard_normal((TRADES_A_DAY, assets)) * sigma / np.sqrt(TRADES_A_DAY)
        true = start + np.cumsum(moves, axis=0)
        start = true[-1]
        paid = true + chance.choice([-0.5, 0.5], size=true.shape) * spread
        high[day], low[day], close[day] = paid.max(axis=0), paid.min(axis=0), paid[-1]

    return DailyPrices(np.exp(high), np.exp(low), np.exp(close))


@cache
def _of_one_percent() -> DailyPrices:
    return simulated(0.01, 0.0, 250, 80)


def _without_spread(sigma: float) -> DailyPrices:
    """Return 20,000 days without a spread: logs of prices are in proportion to sigma."""
    made = _of_one_percent()
    return DailyPrices(*(each ** (sigma / 0.01) for each in (made.high, made.low, made.close)))


def spread_of(prices: DailyPrices, estimator: str) -> float:
    """Return the pooled estimate of the spread, relative to the price."""
    terms, spread = ESTIMATORS[estimator]
    return spread(float(np.nanmean(terms(prices))))


# ---- presets


def preset_half_spread_bps(venue_name: str, preset: str, asset: Mapping[str, float]) -> float:
    """Return the half spread that the smallest order pays, in basis points. `asset`: its price,
    volume and sigma.
    """
    venue = find_venue(venue_name)
    terms = execution_terms(venue, TradingConfig(venue=venue, execution=preset))  # type: ignore[arg-type]
    assert terms is not None, preset
    reference = round(asset["price"] * venue.ticks_per_unit)
    quote = Quote(
        reference=reference,
        unit=venue.ticks_per_minor,
        terms=terms,
        sigma_ppb=round(asset["sigma"] * PPB),
        volume=round(asset["volume"] * venue.steps_per_unit),
        low=0,
        high=0,
    )
    return BPS * max(half_spread_ppb(quote) / PPB, terms.half_tick / reference)


# ---- comparison


@dataclass(frozen=True)
class Estimate:
    """What an estimator finds in a bucket, in basis points of half the spread."""

    half_spread: float
    interval: tuple[float, float]
    no_spread: float

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.half_spread:.0f} ({low:.0f} … {high:.0f}) [{self.no_spread:.0f}]"


@dataclass(frozen=True)
class Bucket:
    """Assets of like activity: the median one, what presets ask of it, and the estimates."""

    sigma: float
    activity: float
    presets: Mapping[str, float]  #: preset -> half spread in basis points
    estimates: Mapping[str, Estimate]  #: by estimator


def compare(market: Market, draws: int) -> list[Bucket]:
    """Return the buckets of a market, the least active assets first."""
    found = []
    for columns in np.array_split(np.argsort(market.activity), BUCKETS):
        price = float(np.median(market.price[columns]))
        value = float(np.median((market.volume * market.price)[columns]))
        sigma = float(np.median(market.sigma[columns]))
        asset = {"price": price, "volume": value / price, "sigma": sigma}
        bucket = Bucket(
            sigma=sigma,
            activity=float(np.median(market.activity[columns])),
            presets={name: preset_half_spread_bps(market.venue, name, asset) for name in PRESETS},
            estimates=_estimates(market, columns, draws),
        )
        found.append(bucket)

    return found


def _estimates(market: Market, columns: npt.NDArray[np.intp], draws: int) -> Mapping[str, Estimate]:
    own = market.prices
    prices = DailyPrices(own.high[:, columns], own.low[:, columns], own.close[:, columns])
    flat = _without_spread(float(np.median(market.sigma[columns])))
    months = np.unique(market.months)
    drawn = np.random.default_rng(SEED).integers(0, len(months), (draws, len(months)))

    found = {}
    for name, (terms_of, spread) in ESTIMATORS.items():
        terms = terms_of(prices)
        of_months = [terms[market.months == month] for month in months]
        sums = np.array([np.nansum(part) for part in of_months])
        counts = np.array([np.isfinite(part).sum() for part in of_months])
        means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
        low, high = np.quantile([spread(float(mean)) for mean in means], [0.025, 0.975])

        found[name] = Estimate(
            half_spread=BPS / 2 * spread(float(sums.sum() / counts.sum())),
            interval=(BPS / 2 * float(low), BPS / 2 * float(high)),
            no_spread=BPS / 2 * spread_of(flat, name),
        )

    return found


def print_market(market: Market, draws: int) -> None:
    """Print a table of buckets: half spreads of presets and estimators, and what the last one is
    above the presets.
    """
    print(f"\n{market.name}: {market.prices.close.shape[1]} assets, {len(market.months)} days")
    names = [*PRESETS, *ESTIMATORS, *(f"{_RESIDUAL} less {name}" for name in PRESETS)]
    print("| bucket | sigma % | activity (m) | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 3) + "|")
    for number, bucket in enumerate(compare(market, draws), start=1):
        cells = [str(number), f"{100 * bucket.sigma:.2f}", f"{bucket.activity / 1e6:,.1f}"]
        cells += [f"{half_spread:.1f}" for half_spread in bucket.presets.values()]
        cells += map(str, bucket.estimates.values())
        found = bucket.estimates[_RESIDUAL].half_spread
        cells += [f"{found - half_spread:+.0f}" for half_spread in bucket.presets.values()]
        print("| " + " | ".join(cells) + " |")


# ---- fills within the day


def print_slippage(name: str, bars: pd.DataFrame) -> None:
    """Print how far means of bars of an hour lie from the open. `bars`: code, day, open, high, low,
    close, volume of a session's bars in order.
    """
    typical = (bars["high"] + bars["low"] + bars["close"]) / 3.0
    days = bars.assign(typical=typical).groupby(["code", "day"])
    opens = days["open"].first()
    closes = days["close"].last()
    share = days["volume"].first() / days["volume"].sum()
    sigma = float(np.nanstd(np.log(closes).groupby("code").diff()))
    figures = {
        "first hour (typical price)": days["typical"].first() / opens - 1.0,
        "mean of the day's closes": days["close"].mean() / opens - 1.0,
        "close": closes / opens - 1.0,
    }

    print(f"\n{name}: {len(opens)} days of assets, sigma {100 * sigma:.2f} % a day,")
    print(f"first hour's share of the volume {100 * share.median():.0f} % (median)")
    print("| price instead of the open | mean bps (95 %) | median size bps | size / sigma |")
    print("|---|---|---|---|")
    for label, change in figures.items():
        by_day = change.groupby("day").mean() * BPS
        error = 1.96 * float(by_day.std(ddof=1)) / np.sqrt(len(by_day))
        size = float(change.abs().median())
        print(
            f"| {label} | {by_day.mean():+.1f} (± {error:.1f}) | {BPS * size:.1f} |"
            f" {size / sigma:.2f} |"
        )


# ---- real data


def a_shares(data: Path) -> Market:
    """CSI300 and wider, 2022 to 2026."""
    table = pd.read_parquet(data / "a_share" / "csi300_ever_daily.parquet")
    table = table[table["traded"] & (table["volume"] > 0)]
    return _market(
        "A-shares (every stock that was in the CSI300)", "a_share", table, "raw_", table["factor"]
    )


def us_stocks(data: Path) -> Market:
    """NASDAQ-100, June to October 2025."""
    table = pd.read_csv(data / "us_daily" / "nasdaq100_daily.csv.gz", parse_dates=["date"])
    # Its only split, 15 to 1
    is_before = (table["code"] == "ORLY") & (table["date"] < "2025-06-10")
    factor = pd.Series(np.where(is_before, 1.0, 15.0), table.index)
    factor = factor.where(table["code"] == "ORLY", 1.0)
    return _market("US stocks (NASDAQ-100)", "us_equity", table, "", factor)


def _market(
    name: str, venue: str, table: pd.DataFrame, prefix: str, factor: pd.Series[float]
) -> Market:
    grids = {}
    for field in ("high", "low", "close"):
        priced = table.assign(value=table[f"{prefix}{field}"] * factor)
        grids[field] = priced.pivot(index="date", columns="code", values="value")

    raw = table.pivot(index="date", columns="code", values=f"{prefix}close")
    volume = table.pivot(index="date", columns="code", values="volume")
    dates = grids["close"].index
    return Market(
        name=name,
        venue=venue,
        months=(dates.year * 12 + dates.month).to_numpy().astype(np.int64),
        prices=DailyPrices(*(grid.to_numpy(np.float64) for grid in grids.values())),
        price=raw.median().to_numpy(np.float64),
        volume=volume.mean().to_numpy(np.float64),
    )


def a_share_hours(data: Path) -> pd.DataFrame:
    """Bars of an hour of 50 A-shares, October and November 2025; they are named by their ends."""
    table = pd.read_csv(data / "a_share_sse50" / "A_stock_hourly.csv")
    times = pd.to_datetime(table["trade_date"])
    table = table.assign(code=table["stock_code"], time=times, day=times.dt.date)
    return table.sort_values(["code", "time"])


def us_hours(data: Path) -> pd.DataFrame:
    """Bars of an hour of the NASDAQ-100 from 10:00 on; they are named by their starts."""
    table = pd.read_csv(data / "us_daily" / "nasdaq100_60min.csv.gz", parse_dates=["datetime"])
    hours = table["datetime"].dt.hour
    table = table.assign(time=table["datetime"], day=table["datetime"].dt.date)
    return table[(hours >= 10) & (hours < 16)].sort_values(["code", "time"])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("shared/data"))
    parser.add_argument("--draws", type=int, default=400)
    options = parser.parse_args(arguments)

    for market in (a_shares(options.data), us_stocks(options.data)):
        print_market(market, options.draws)

    print_slippage("A-shares (SSE 50) by the hour", a_share_hours(options.data))
    print_slippage("US stocks (NASDAQ-100) by the hour, from 10:00", us_hours(options.data))
    print(
        "\nNot calibrated: impact, its permanent part and the cap. They need orders with their"
        " sizes, sides and times (or signed trades and quotes); bars have none."
    )


if __name__ == "__main__":
    main()
