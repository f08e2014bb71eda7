"""From chance to bars: log returns by minute, the price's path, the trades of each minute, bars of minutes and of days.

A shock moves the price between two minutes, so the bar that starts at the moment of a piece of news opens at the new price:
nobody who reads the news at that moment can trade at the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.data.rows import Bars, FloatArray, IntArray
from ktdeval_qfinzero.data.synthetic.grid import SESSION_MINUTES, Grid, stream, variance_shape, volume_shape
from ktdeval_qfinzero.moments import MINUTE

_PERSISTENCE = 0.95
"""Of the logarithm of volatility, from day to day."""
_FIRST_TRADE = 0.2
"""How far a minute's first trade lies from the last one of the minute before, in standard deviations of a minute."""
_TAIL_FREEDOM = 5
"""Degrees of freedom of the return over night."""


@dataclass(frozen=True, slots=True)
class Shock:
    """A jump of the price just before a minute opens; minute 0 is the gap over night.

    Attributes:
        row, minute: where.
        size: log return.
        burst: how much wilder the next half hour is, as a factor.
    """

    row: int
    minute: int
    size: float
    burst: float = 1.0


@dataclass(frozen=True, eq=False)
class Moves:
    """Log returns of one source of risk.

    Attributes:
        jumps: [D, W] just before each minute opens.
        steps: [D, W] from the open to the close of each minute.
        volatility: [D] standard deviation of the day's return, jumps of news aside.
        base: what volatility is on an ordinary day.
    """

    jumps: FloatArray
    steps: FloatArray
    volatility: FloatArray
    base: float


@dataclass(frozen=True, eq=False)
class Traded:
    """How an instrument trades.

    Attributes:
        price: dollars before the first minute.
        log_factor: [D] logarithm of what splits and dividends up to the day do to the price.
        open_days: [D] whether it trades on the day.
        trades_a_day: mean number of trades of an ordinary day.
        trade_size: [D] mean units of a trade.
        whole: whether volume is whole; otherwise it has four decimals.
    """

    price: float
    log_factor: FloatArray
    open_days: npt.NDArray[np.bool_]
    trades_a_day: float
    trade_size: FloatArray
    whole: bool = True


@dataclass(frozen=True, eq=False)
class Tape:
    """All bars of one instrument.

    Attributes:
        minutes: every minute with a trade, of all days.
        days: the bars of days made of them.
        day_row: [n] row of the day of each minute.
    """

    minutes: Bars
    days: Bars
    day_row: IntArray

    def minutes_between(self, first_ns: int, end_ns: int) -> Bars:
        """A copy of the minutes that start in [first, end)."""
        first, end = np.searchsorted(self.minutes.start_ns, (first_ns, end_ns))
        kept = self.minutes.take(slice(int(first), int(end)))
        return kept.take(np.arange(len(kept)))


def draw_moves(seed: int, words: tuple[str, ...], grid: Grid, volatility: float, drift: float = 0.0) -> Moves:
    """Returns with persistent volatility and fat tails.

    Args:
        seed: of the market.
        words: name of the source; each has its own streams.
        grid: days and minutes.
        volatility: standard deviation of an ordinary day's return.
        drift: mean of a day's return.
    """
    days = len(grid)
    level = volatility * np.exp(volatility_path(stream(seed, *words, "volatility"), days, 0.4))
    shape = np.sqrt((1.0 - grid.night_share) * variance_shape(grid))
    steps = stream(seed, *words, "steps").standard_normal((days, grid.width)) * shape * level[:, None]
    jumps = np.zeros((days, grid.width))
    tails = stream(seed, *words, "nights").standard_t(_TAIL_FREEDOM, days) / np.sqrt(_TAIL_FREEDOM / (_TAIL_FREEDOM - 2))
    jumps[:, 0] = drift + np.sqrt(grid.night_share) * level * tails
    return Moves(jumps, steps, level, volatility)


def volatility_path(rng: np.random.Generator, days: int, spread: float) -> FloatArray:
    """[D] logarithm of volatility around its mean: a stationary autoregression of standard deviation `spread`."""
    noise = rng.standard_normal(days) * spread * np.sqrt(1.0 - _PERSISTENCE**2)
    path = np.empty(days)
    last = float(rng.standard_normal()) * spread
    for day in range(days):
        last = _PERSISTENCE * last + noise[day]
        path[day] = last
    return path - spread**2


def with_shocks(moves: Moves, shocks: Sequence[Shock]) -> Moves:
    """The moves with jumps, and wilder half hours after those that say so."""
    jumps, steps = moves.jumps.copy(), moves.steps.copy()
    for shock in shocks:
        jumps[shock.row, shock.minute] += shock.size
        if shock.burst > 1.0:
            steps[shock.row, shock.minute : shock.minute + 30] *= shock.burst
    return Moves(jumps, steps, moves.volatility, moves.base)


def combine(parts: Sequence[tuple[float, Moves]], exposure: FloatArray | None = None) -> Moves:
    """The weighted sum of independent moves.

    Args:
        parts: weight and moves of each.
        exposure: [D] how much of the sum a day keeps; all where None.
    """
    shape = parts[0][1].steps.shape
    jumps, steps, variance = np.zeros(shape), np.zeros(shape), np.zeros(shape[0])
    for weight, moves in parts:
        jumps += weight * moves.jumps
        steps += weight * moves.steps
        variance += (weight * moves.volatility) ** 2
    base = float(np.sqrt(sum((weight * moves.base) ** 2 for weight, moves in parts)))
    kept = np.ones(shape[0]) if exposure is None else exposure
    return Moves(jumps * kept[:, None], steps * kept[:, None], np.sqrt(variance) * kept, base)


def make_tape(seed: int, words: tuple[str, ...], grid: Grid, moves: Moves, traded: Traded) -> Tape:
    """Bars of the path that the moves draw.

    A minute's high and low are those of a Brownian bridge between its open and close. Where a minute has few trades there is
    no room for extremes, and where it has none there is no bar.
    """
    rng = stream(seed, *words, "trades")
    trades = rng.poisson(_trade_rate(rng, grid, moves, traded))
    place = np.flatnonzero((trades > 0) & grid.is_open & traded.open_days[:, None])
    sizes = _volumes(rng, trades.shape, traded)
    start, close_log = _path(moves, traded)
    bars = _bars(
        _Minutes(
            grid.open_ns[place // grid.width] + (place % grid.width) * MINUTE,
            start.ravel()[place],
            close_log.ravel()[place],
            (moves.volatility[:, None] * np.sqrt((1.0 - grid.night_share) * variance_shape(grid))).ravel()[place],
            trades.ravel()[place],
        ),
        sizes.ravel()[place] * trades.ravel()[place],
        _Chance(*(draw(trades.shape).ravel()[place] for draw in (rng.standard_normal, rng.random, rng.random))),
        traded.whole,
    )
    day_row = place // grid.width
    return Tape(bars, day_bars(bars, day_row, grid.midnight_ns), day_row)


def day_bars(minutes: Bars, day_row: IntArray, midnight_ns: IntArray) -> Bars:
    """Bars of days made of bars of minutes: first open, highest high, lowest low, last close, sums.

    Args:
        minutes: [n] ascending.
        day_row: [n] the day of each.
        midnight_ns: [D] start of each day's bar.
    """
    rows, first = np.unique(day_row, return_index=True)
    if not len(rows):
        return minutes
    last = np.append(first[1:], len(day_row)) - 1
    volume: FloatArray = np.add.reduceat(minutes.volume, first)
    volume = np.round(volume, 4)
    return Bars(
        midnight_ns[rows],
        minutes.open_e4[first],
        np.maximum.reduceat(minutes.high_e4, first),
        np.minimum.reduceat(minutes.low_e4, first),
        minutes.close_e4[last],
        volume,
        np.add.reduceat(minutes.transactions, first),
    )


@dataclass(frozen=True, eq=False)
class _Minutes:
    """Minutes with trades: [n] start, logarithms of open and close, standard deviation of the step, number of trades."""

    start_ns: IntArray
    open_log: FloatArray
    close_log: FloatArray
    spread: FloatArray
    trades: IntArray


@dataclass(frozen=True, eq=False)
class _Chance:
    """[n] of a minute's first trade (normal), of its high and of its low (uniform)."""

    first: FloatArray
    high: FloatArray
    low: FloatArray


def _trade_rate(rng: np.random.Generator, grid: Grid, moves: Moves, traded: Traded) -> FloatArray:
    """[D, W] expected trades: more on wild days, and on the day of a jump."""
    wild = moves.volatility / moves.base
    news = 1.0 + np.minimum(3.0, np.abs(moves.jumps).max(axis=1) / (3.0 * moves.base))
    mood = np.exp(0.25 * rng.standard_normal(len(grid)) - 0.03)
    weekend = np.ones(len(grid))
    if grid.width != SESSION_MINUTES:
        weekend = np.array([0.7 if day.weekday() >= 5 else 1.0 for day in grid.days])
    rate: FloatArray = traded.trades_a_day * volume_shape(grid) * (np.sqrt(wild) * news * mood * weekend)[:, None]
    return rate


def _volumes(rng: np.random.Generator, shape: tuple[int, ...], traded: Traded) -> FloatArray:
    """[D, W] mean units of a trade in each minute."""
    sizes: FloatArray = traded.trade_size[:, None] * rng.standard_gamma(4.0, shape) / 4.0
    return sizes


def _path(moves: Moves, traded: Traded) -> tuple[FloatArray, FloatArray]:
    """[D, W] logarithms of each minute's open and close; what happens while it does not trade shows when it does again."""
    close = np.cumsum((moves.jumps + moves.steps).ravel()).reshape(moves.steps.shape)
    close += np.log(traded.price) + traded.log_factor[:, None]
    return close - moves.steps, close


def _bars(minutes: _Minutes, units: FloatArray, chance: _Chance, whole: bool) -> Bars:
    first, last, few = minutes.open_log, minutes.close_log, minutes.trades
    first = np.where(few == 1, last, first + _FIRST_TRADE * minutes.spread * chance.first)
    room = np.where(few <= 2, 0.0, minutes.spread) ** 2 * -2.0
    up = (first + last + np.sqrt((last - first) ** 2 + room * np.log1p(-chance.high))) / 2
    down = (first + last - np.sqrt((last - first) ** 2 + room * np.log1p(-chance.low))) / 2
    opens, closes = _to_e4(first), _to_e4(last)
    least: FloatArray = few.astype(np.float64) if whole else np.full(len(few), 1e-4)
    rounded: FloatArray = np.round(units, 0 if whole else 4)
    return Bars(
        minutes.start_ns,
        opens,
        np.maximum(_to_e4(up), np.maximum(opens, closes)),
        np.minimum(_to_e4(down), np.minimum(opens, closes)),
        closes,
        np.maximum(rounded, least),
        few.astype(np.int64),
    )


def _to_e4(logarithm: FloatArray) -> IntArray:
    """Prices to the cent, a cent at least."""
    return np.maximum(np.rint(np.exp(logarithm) * 100.0).astype(np.int64), 1) * 100
