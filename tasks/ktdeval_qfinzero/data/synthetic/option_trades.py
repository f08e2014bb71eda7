"""Single trades of options within sessions, and the bars of minutes and days that they make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ktdeval_qfinzero.data.rows import Bars, FloatArray, IntArray
from ktdeval_qfinzero.data.synthetic.grid import Grid, volume_shape
from ktdeval_qfinzero.data.synthetic.option_prices import Terms, value
from ktdeval_qfinzero.moments import MINUTE

_MINUTES_A_YEAR = 365 * 1440


@dataclass(frozen=True, eq=False)
class Trades:
    """[n] days of contracts, ascending: contract, day, volume, number of trades, terms, years to the expiry at the close."""

    contract: IntArray
    row: IntArray
    volume: FloatArray
    trades: IntArray
    terms: Terms
    years: FloatArray

    def take(self, rows: IntArray) -> Trades:
        """Return some of them."""
        contract, row, trades = (column[rows] for column in (self.contract, self.row, self.trades))
        return Trades(contract, row, self.volume[rows], trades, self.terms.take(rows), self.years[rows])


@dataclass(frozen=True, eq=False)
class Drawn:
    """[t] trades in order of contract, day and time: which of the contracts' days, minute, price and size."""

    place: IntArray
    minute: IntArray
    price_e4: IntArray
    size: FloatArray


def draw_trades(rng: np.random.Generator, grid: Grid, stock: Bars, part: Trades) -> Drawn:
    """Trades at times when the underlying trades, each at what the option is worth then, to the cent."""
    place = np.repeat(np.arange(len(part.row)), part.trades)
    row = part.row[place]
    chance, within = rng.random(len(place)), rng.random(len(place))
    minute, spot = np.empty(len(place), np.int64), np.empty(len(place))
    shape = volume_shape(grid)
    for day in np.unique(row).tolist():
        here = np.flatnonzero(row == day)
        first, end = np.searchsorted(stock.start_ns, (grid.open_ns[day], grid.close_ns[day]))
        traded = (stock.start_ns[first:end] - grid.open_ns[day]) // MINUTE
        likely = np.cumsum(shape[day, traded])
        pick = np.minimum(np.searchsorted(likely, chance[here] * likely[-1], "right"), len(traded) - 1)
        minute[here] = traded[pick]
        opens, closes = stock.open_e4[first:end][pick], stock.close_e4[first:end][pick]
        spot[here] = (opens + (closes - opens) * within[here]) / 1e4
    left = grid.lengths[row] - minute - within
    intrinsic, rest = value(part.terms.take(place), spot, part.years[place] + left / _MINUTES_A_YEAR)
    noise = np.exp(0.008 * rng.standard_normal(len(place)))
    price = np.maximum(np.rint((intrinsic + rest * noise) * 100.0).astype(np.int64), 1) * 100
    size = _sizes(rng, part)
    order = np.lexsort((within, minute, place))
    return Drawn(place[order], minute[order], price[order], size)


def minute_bars(grid: Grid, part: Trades, drawn: Drawn) -> tuple[Bars, Bars, IntArray]:
    """Bars of the trades: of minutes, of the contracts' days, and the contract of each bar of a minute."""
    key = drawn.place * grid.width + drawn.minute
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    start = grid.open_ns[part.row[drawn.place[first]]] + drawn.minute[first] * MINUTE
    minutes = _bars(drawn, first, start)
    day_first = np.flatnonzero(np.append(True, drawn.place[1:] != drawn.place[:-1]))
    days = _bars(drawn, day_first, grid.midnight_ns[part.row])
    return minutes, days, part.contract[drawn.place[first]]


def _bars(drawn: Drawn, first: IntArray, start_ns: IntArray) -> Bars:
    last = np.append(first[1:], len(drawn.place)) - 1
    return Bars(
        start_ns,
        drawn.price_e4[first],
        np.maximum.reduceat(drawn.price_e4, first),
        np.minimum.reduceat(drawn.price_e4, first),
        drawn.price_e4[last],
        np.add.reduceat(drawn.size, first),
        np.diff(np.append(first, len(drawn.place))),
    )


def _sizes(rng: np.random.Generator, part: Trades) -> FloatArray:
    """[t] whole sizes, one at least, that sum to each day's volume; in order of the contracts' days."""
    place = np.repeat(np.arange(len(part.row)), part.trades)
    first = np.cumsum(part.trades) - part.trades
    weight = np.cumsum(rng.standard_gamma(0.8, len(place)))
    before = np.append(0.0, weight)[first]
    share = (weight - before[place]) / (weight[first + part.trades - 1] - before)[place]
    extra = np.floor(share * (part.volume - part.trades)[place] + 1e-9)
    extra[first + part.trades - 1] = part.volume - part.trades
    steps = np.diff(extra, prepend=0.0)
    steps[first] = extra[first]
    sizes: FloatArray = 1.0 + steps
    return sizes
