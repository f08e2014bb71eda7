"""From random draws to bars: minute log returns, the price path, trades per minute, minute bars and
daily bars.

A shock moves the price between two minutes, so the bar that starts when a piece of news is
published opens at the new price: nobody who reads the news then can trade at the old price.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.data.rows import Bars, FloatArray, IntArray, group_bars
from ktdeval_qfinzero.data.synthetic.minute_grid import (
    SESSION_MINUTES,
    MinuteGrid,
    stream,
    variance_shape,
    volume_shape,
)
from ktdeval_qfinzero.timestamps import MINUTE

_PERSISTENCE = 0.95  #: Persistence of log volatility from day to day
_FIRST_TRADE = (
    #: Distance of a minute's first trade from the previous minute's last trade, in standard
    #: deviations of one minute
    0.2
)
_TAIL_FREEDOM = 5  #: Degrees of freedom of the overnight return


@dataclass(frozen=True, slots=True)
class PriceShock:
    """A jump in the price just before a minute opens; minute 0 is the overnight gap. `row`,
    `minute`: index of the day, and minute of the session.
    """

    row: int
    minute: int
    size: float  #: log return
    burst: float = 1.0  #: volatility multiplier for the next half hour


@dataclass(frozen=True, eq=False)
class RiskMoves:
    """Log returns of one source of risk."""

    jumps: FloatArray  #: [D, W] return just before each minute opens
    steps: FloatArray  #: [D, W] return from the open to the close of each minute
    volatility: FloatArray  #: [D] standard deviation of the day's return without news jumps
    base: float  #: volatility on an ordinary day


@dataclass(frozen=True, eq=False)
class TradingTerms:
    """Terms on which an instrument trades."""

    price: float  #: price in dollars before the first minute
    #: [D] logarithm of the price factor from splits and dividends up to the day
    log_factor: FloatArray
    open_days: npt.NDArray[np.bool_]  #: [D] whether the instrument trades on each day
    trades_a_day: float  #: mean number of trades on an ordinary day
    trade_size: FloatArray  #: [D] mean trade size in units
    whole: bool = True  #: whether volumes are whole numbers; otherwise they have four decimals


@dataclass(frozen=True, eq=False)
class InstrumentTape:
    """All bars of one instrument."""

    minutes: Bars  #: minute bars of all minutes with a trade, on all days
    days: Bars  #: daily bars aggregated from the minute bars
    day_row: IntArray  #: [n] row of each minute's day

    def minutes_between(self, first_ns: int, end_ns: int) -> Bars:
        """Return a copy of the minute bars that start in [first, end)."""
        first, end = np.searchsorted(self.minutes.start_ns, (first_ns, end_ns))
        kept = self.minutes.take(slice(int(first), int(end)))
        return kept.take(np.arange(len(kept)))


def draw_moves(
    seed: int, words: tuple[str, ...], grid: MinuteGrid, volatility: float, drift: float = 0.0
) -> RiskMoves:
    """Draw returns with persistent volatility and fat tails. `words` name the source of risk, which
    has its own random streams.
    """
    days = len(grid)
    level = volatility * np.exp(volatility_path(stream(seed, *words, "volatility"), days, 0.4))
    shape = np.sqrt((1.0 - grid.night_share) * variance_shape(grid))
    steps = (
        stream(seed, *words, "steps").standard_normal((days, grid.width)) * shape * level[:, None]
    )
    jumps = np.zeros((days, grid.width))
    tails = stream(seed, *words, "nights").standard_t(_TAIL_FREEDOM, days) / np.sqrt(
        _TAIL_FREEDOM / (_TAIL_FREEDOM - 2)
    )
    jumps[:, 0] = drift + np.sqrt(grid.night_share) * level * tails

    return RiskMoves(jumps, steps, level, volatility)


def volatility_path(rng: np.random.Generator, days: int, spread: float) -> FloatArray:
    """Return the [D] logarithm of volatility around its mean: a stationary autoregression with
    standard deviation `spread`.
    """
    noise = rng.standard_normal(days) * spread * np.sqrt(1.0 - _PERSISTENCE**2)
    path = np.empty(days)
    last = float(rng.standard_normal()) * spread

    for day in range(days):
        last = _PERSISTENCE * last + noise[day]
        path[day] = last

    return path - spread**2


def with_shocks(moves: RiskMoves, shocks: Sequence[PriceShock]) -> RiskMoves:
    """Return the moves with jumps added, and with higher volatility in the half hour after each
    jump with a `burst`.
    """
    jumps = moves.jumps.copy()
    steps = moves.steps.copy()
    for shock in shocks:
        jumps[shock.row, shock.minute] += shock.size
        if shock.burst > 1.0:
            steps[shock.row, shock.minute : shock.minute + 30] *= shock.burst

    return RiskMoves(jumps, steps, moves.volatility, moves.base)


def combine(
    parts: Sequence[tuple[float, RiskMoves]], exposure: FloatArray | None = None
) -> RiskMoves:
    """Return the weighted sum of independent moves. `exposure`: [D] fraction of the sum that each
    day keeps.
    """
    shape = parts[0][1].steps.shape
    jumps = np.zeros(shape)
    steps = np.zeros(shape)
    variance = np.zeros(shape[0])

    for weight, moves in parts:
        jumps += weight * moves.jumps
        steps += weight * moves.steps
        variance += (weight * moves.volatility) ** 2

    base = float(np.sqrt(math.fsum((weight * moves.base) ** 2 for weight, moves in parts)))
    kept = np.ones(shape[0]) if exposure is None else exposure
    return RiskMoves(jumps * kept[:, None], steps * kept[:, None], np.sqrt(variance) * kept, base)


def make_tape(
    seed: int, words: tuple[str, ...], grid: MinuteGrid, moves: RiskMoves, traded: TradingTerms
) -> InstrumentTape:
    """Return the bars of the price path that the moves form.

    A minute's high and low are those of a Brownian bridge between its open and close. A minute with
    one or two trades has no further extremes, and a minute without trades has no bar.
    """
    rng = stream(seed, *words, "trades")
    trades = rng.poisson(_trade_rate(rng, grid, moves, traded))
    index = np.flatnonzero((trades > 0) & grid.is_open & traded.open_days[:, None])
    day_row = index // grid.width
    sizes = traded.trade_size[day_row] * rng.standard_gamma(4.0, trades.shape).ravel()[index] / 4.0
    first_chance, high_chance, low_chance = (
        draw(trades.shape).ravel()[index] for draw in (rng.standard_normal, rng.random, rng.random)
    )
    opens, closes = (logarithm.ravel()[index] for logarithm in _path(moves, traded))
    few = trades.ravel()[index]
    units = sizes * few
    spread = (
        moves.volatility[:, None] * np.sqrt((1.0 - grid.night_share) * variance_shape(grid))
    ).ravel()[index]
    opens = np.where(few == 1, closes, opens + _FIRST_TRADE * spread * first_chance)
    room = np.where(few <= 2, 0.0, spread) ** 2 * -2.0
    up = (opens + closes + np.sqrt((closes - opens) ** 2 + room * np.log1p(-high_chance))) / 2
    down = (opens + closes - np.sqrt((closes - opens) ** 2 + room * np.log1p(-low_chance))) / 2
    open_e4 = _to_e4(opens)
    close_e4 = _to_e4(closes)
    least: FloatArray = few.astype(np.float64) if traded.whole else np.full(len(few), 1e-4)
    rounded: FloatArray = np.round(units, 0 if traded.whole else 4)
    bars = Bars(
        grid.open_ns[day_row] + (index % grid.width) * MINUTE,
        open_e4,
        np.maximum(_to_e4(up), np.maximum(open_e4, close_e4)),
        np.minimum(_to_e4(down), np.minimum(open_e4, close_e4)),
        close_e4,
        np.maximum(rounded, least),
        few.astype(np.int64),
    )

    return InstrumentTape(bars, day_bars(bars, day_row, grid.midnight_ns), day_row)


def day_bars(minutes: Bars, day_row: IntArray, midnight_ns: IntArray) -> Bars:
    """Aggregate minute bars to daily bars by `day_row`, the [n] row of each minute's day: first
    open, highest high, …, last close, and sums.
    """
    rows, first = np.unique(day_row, return_index=True)
    if not len(rows):
        return minutes
    days = group_bars(minutes, first, midnight_ns[rows])
    return replace(days, volume=np.round(days.volume, 4))


def _trade_rate(
    rng: np.random.Generator, grid: MinuteGrid, moves: RiskMoves, traded: TradingTerms
) -> FloatArray:
    """Return the [D, W] expected number of trades, which is higher on volatile days and on the day
    of a jump.
    """
    wild = moves.volatility / moves.base
    news = 1.0 + np.minimum(3.0, np.abs(moves.jumps).max(axis=1) / (3.0 * moves.base))
    mood = np.exp(0.25 * rng.standard_normal(len(grid)) - 0.03)
    weekend = np.ones(len(grid))

    if grid.width != SESSION_MINUTES:
        weekend = np.array([0.7 if day.weekday() >= 5 else 1.0 for day in grid.days])

    rate: FloatArray = (
        traded.trades_a_day * volume_shape(grid) * (np.sqrt(wild) * news * mood * weekend)[:, None]
    )
    return rate


def _path(moves: RiskMoves, traded: TradingTerms) -> tuple[FloatArray, FloatArray]:
    """Return the [D, W] log open and log close of each minute. Moves while trading is halted appear
    when it resumes.
    """
    close = np.cumsum((moves.jumps + moves.steps).ravel()).reshape(moves.steps.shape)
    close += np.log(traded.price) + traded.log_factor[:, None]
    return close - moves.steps, close


def _to_e4(logarithm: FloatArray) -> IntArray:
    """Convert log prices to prices rounded to the cent, at least one cent."""
    return np.maximum(np.rint(np.exp(logarithm) * 100.0).astype(np.int64), 1) * 100
