"""Option trades and their bars: the volume and prices of each contract on each day. Contracts
without trades have no bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    BarKey,
    Bars,
    ContractRow,
    FloatArray,
    IntArray,
    Resolution,
    group_bars,
)
from ktdeval_qfinzero.data.synthetic.companies import Size
from ktdeval_qfinzero.data.synthetic.engine import InstrumentTape
from ktdeval_qfinzero.data.synthetic.minute_grid import MinuteGrid, stream, volume_shape
from ktdeval_qfinzero.data.synthetic.option_prices import (
    OptionContracts,
    OptionTerms,
    dividends_before,
    list_contracts,
    make_surface,
    moneyness,
    smile,
    value,
)
from ktdeval_qfinzero.data.synthetic.prices import CompanyCourse, DailyCurves, usual_volatility
from ktdeval_qfinzero.timestamps import MINUTE

_MINUTES_A_YEAR = 365 * 1440


@dataclass(frozen=True, eq=False)
class OptionTrades:
    """[n] contract-days in ascending order: contract, day, volume, number of trades, terms, and
    years from the close to expiry.
    """

    contract: IntArray
    row: IntArray
    volume: FloatArray
    trades: IntArray
    terms: OptionTerms
    years: FloatArray

    def take(self, rows: IntArray) -> OptionTrades:
        """Return a selection of the contract-days."""
        contract, row, trades = (column[rows] for column in (self.contract, self.row, self.trades))
        return OptionTrades(
            contract, row, self.volume[rows], trades, self.terms.take(rows), self.years[rows]
        )


def minute_bars(
    rng: np.random.Generator, grid: MinuteGrid, stock: Bars, part: OptionTrades
) -> tuple[Bars, Bars, IntArray]:
    """Draw trades at times when the underlying trades, each at the option's value at the time,
    rounded to the cent. Return the minute bars, the daily bars of the contracts, and the contract
    of each minute bar.
    """
    contract_day = np.repeat(np.arange(len(part.row)), part.trades)
    row = part.row[contract_day]
    chance = rng.random(len(contract_day))
    within = rng.random(len(contract_day))
    minute = np.empty(len(contract_day), np.int64)
    spot = np.empty(len(contract_day))
    shape = volume_shape(grid)

    for day in np.unique(row).tolist():
        here = np.flatnonzero(row == day)
        first, end = np.searchsorted(stock.start_ns, (grid.open_ns[day], grid.close_ns[day]))
        traded = (stock.start_ns[first:end] - grid.open_ns[day]) // MINUTE
        likely = np.cumsum(shape[day, traded])
        pick = np.minimum(
            np.searchsorted(likely, chance[here] * likely[-1], "right"), len(traded) - 1
        )
        minute[here] = traded[pick]
        opens = stock.open_e4[first:end][pick]
        closes = stock.close_e4[first:end][pick]
        spot[here] = (opens + (closes - opens) * within[here]) / 1e4

    left = grid.lengths[row] - minute - within
    noise = np.exp(0.008 * rng.standard_normal(len(contract_day)))
    price = _e4(
        part.terms.take(contract_day),
        spot,
        part.years[contract_day] + left / _MINUTES_A_YEAR,
        noise,
    )
    size = _sizes(rng, part)
    order = np.lexsort((within, minute, contract_day))
    contract_day = contract_day[order]
    minute = minute[order]
    price = price[order]
    time_ns = grid.open_ns[part.row[contract_day]] + minute * MINUTE
    trades = Bars(time_ns, price, price, price, price, size, np.ones_like(price))
    key = contract_day * grid.width + minute
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    minutes = group_bars(trades, first, time_ns[first])
    day_first = np.flatnonzero(np.append(True, contract_day[1:] != contract_day[:-1]))
    days = group_bars(trades, day_first, grid.midnight_ns[part.row])

    return minutes, days, part.contract[contract_day[first]]


def _sizes(rng: np.random.Generator, part: OptionTrades) -> FloatArray:
    """Return the [t] integer trade sizes, each at least one, that sum to the volume of each
    contract-day, in order.
    """
    contract_day = np.repeat(np.arange(len(part.row)), part.trades)
    first = np.cumsum(part.trades) - part.trades
    weight = np.cumsum(rng.standard_gamma(0.8, len(contract_day)))
    before = np.append(0.0, weight)[first]
    share = (weight - before[contract_day]) / (weight[first + part.trades - 1] - before)[
        contract_day
    ]
    extra = np.floor(share * (part.volume - part.trades)[contract_day] + 1e-9)
    extra[first + part.trades - 1] = part.volume - part.trades
    steps = np.diff(extra, prepend=0.0)
    steps[first] = extra[first]
    sizes: FloatArray = 1.0 + steps

    return sizes


_CONTRACTS_A_DAY: dict[Size, float] = {"mega": 1_700.0, "large": 420.0, "mid": 100.0, "thin": 10.0}
_SESSION_YEARS = 6.5 / 24 / 365
_SURGE_EVERY = 34  #: Mean number of sessions between volume surges on one side of a chain


@dataclass(frozen=True, eq=False)
class OptionFlow:
    """Option volumes on an underlying. `calls`, `puts`: [D] number of contracts."""

    calls: FloatArray
    puts: FloatArray
    #: (row, is call) -> the most traded contract and its volume
    top: Mapping[tuple[int, bool], tuple[ContractRow, int]]


@dataclass(frozen=True, eq=False)
class OptionMarket:
    """Options on one underlying: contracts, bars, and the daily flow."""

    contracts: tuple[ContractRow, ...]
    bars: Mapping[BarKey, Bars]
    flow: OptionFlow


def make_options(
    seed: int,
    grid: MinuteGrid,
    course: CompanyCourse,
    tape: InstrumentTape,
    curves: DailyCurves,
    minute_rows: range,
) -> OptionMarket:
    """Make the options on an underlying that never splits. The days in `minute_rows` also have
    minute bars.
    """
    ticker = course.life.stock.ticker
    closes = tape.days.close_e4 / 1e4
    reference = np.append(tape.days.open_e4[:1] / 1e4, closes[:-1])
    contracts = list_contracts(ticker, grid, reference)
    traded = _draw_trades(seed, grid, course, tape, curves, contracts)
    days = _day_bars(stream(seed, "options", ticker, "prices"), grid, tape.days, traded)
    bars: dict[BarKey, Bars] = {}
    inside = np.flatnonzero((traded.row >= minute_rows.start) & (traded.row < minute_rows.stop))

    if len(inside):
        part = traded.take(inside)
        minutes, of_day, contract = minute_bars(
            stream(seed, "options", ticker, "minutes"), grid, tape.minutes, part
        )
        days = _replace_bars(days, inside, of_day)
        bars |= _by_contract(contracts, contract, minutes, "minute")

    bars |= _by_contract(contracts, traded.contract, days, "day")
    return OptionMarket(contracts.rows, bars, _flow(grid, contracts, traded))


def _draw_trades(
    seed: int,
    grid: MinuteGrid,
    course: CompanyCourse,
    tape: InstrumentTape,
    curves: DailyCurves,
    contracts: OptionContracts,
) -> OptionTrades:
    stock = course.life.stock
    ticker = stock.ticker
    contract, row = _alive(contracts)
    years = _years(contracts, grid, contract, row)
    reports = [report.reaction_row for report in course.reports if report.reaction_row is not None]
    mood = stream(seed, "options", ticker, "surface")
    surface = make_surface(mood, tape.days.close_e4 / 1e4, usual_volatility(stock), reports)
    level = surface.at_the_money(row, contracts.end_row[contract], years)
    strike = contracts.strike[contract]
    is_call = contracts.is_call[contract]
    standard = moneyness((tape.days.open_e4 / 1e4)[row], strike, years, level)
    rng = stream(seed, "options", ticker, "volume")
    expected = (
        _CONTRACTS_A_DAY[stock.size]
        * _interest(standard, years, is_call)
        * (1.0 + contracts.monthly[contract])
    )
    expected *= (
        _activity(rng, tape.days.volume)[row]
        * _surges(rng, len(grid))[row, is_call.astype(np.int64)]
    )
    volume = rng.poisson(expected * rng.standard_gamma(1.4, len(row)) / 1.4).astype(np.float64)
    kept = np.flatnonzero(volume)
    contract = contract[kept]
    row = row[kept]
    volume = volume[kept]
    rate = curves.before(row.astype(np.float64), np.maximum(years[kept], 1 / 365))
    terms = OptionTerms(
        strike[kept],
        is_call[kept],
        rate,
        smile(level[kept], standard[kept]),
        dividends_before(course.life.dividends, grid, row, contracts.last_day[contract], rate),
    )
    trades = np.minimum(volume, np.ceil(volume / (3.0 + 5.0 * rng.random(len(kept))))).astype(
        np.int64
    )

    return OptionTrades(contract, row, volume, trades, terms, years[kept])


def _alive(contracts: OptionContracts) -> tuple[IntArray, IntArray]:
    """Return the contract and the day of every contract-day on which trading is possible, in
    ascending order.
    """
    counts = contracts.last_row - contracts.first_row + 1
    contract = np.repeat(np.arange(len(counts)), counts)
    start = np.cumsum(counts) - counts

    return contract, contracts.first_row[contract] + np.arange(len(contract)) - start[contract]


def _years(
    contracts: OptionContracts, grid: MinuteGrid, contract: IntArray, row: IntArray
) -> FloatArray:
    days = np.array(grid.days, dtype="datetime64[D]")[row]
    years: FloatArray = (contracts.last_day[contract] - days).astype(np.float64) / 365.0
    return years


def _interest(
    standard: FloatArray, years: FloatArray, is_call: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> FloatArray:
    """Return the [n] relative trading interest in a contract, which is higher near the money, out
    of the money, close to expiry, and for calls.
    """
    inside = np.maximum(np.where(is_call, -standard, standard), 0.0)
    interest: FloatArray = np.exp(-1.1 * standard**2 - 1.2 * inside - years / 0.11) * np.where(
        is_call, 1.0, 0.8
    )
    return interest


def _activity(rng: np.random.Generator, volume: FloatArray) -> FloatArray:
    """Return the [D] option activity, which is higher on days with higher stock volume."""
    mood = np.exp(0.2 * rng.standard_normal(len(volume)))
    active: FloatArray = (volume / np.median(volume)) ** 0.8 * mood
    return active


def _surges(rng: np.random.Generator, days: int) -> FloatArray:
    """Return the [D, 2] volume factors for puts and calls; a few days have many times the usual
    volume.
    """
    return np.where(
        rng.random((days, 2)) < 0.5 / _SURGE_EVERY, rng.uniform(3.0, 7.0, (days, 2)), 1.0
    )


def _day_bars(rng: np.random.Generator, grid: MinuteGrid, days: Bars, traded: OptionTrades) -> Bars:
    """Return [n] daily bars from the underlying's open, high, low and close. The fewer the trades,
    the closer the extremes are to open and close.
    """
    prices = {
        name: getattr(days, f"{name}_e4")[traded.row] / 1e4
        for name in ("open", "high", "low", "close")
    }
    noise = np.exp(0.006 * rng.standard_normal((2, len(traded.row))))
    opens = _e4(traded.terms, prices["open"], traded.years + _SESSION_YEARS, noise[0])
    closes = _e4(traded.terms, prices["close"], traded.years, noise[1])
    best = np.where(traded.terms.is_call, prices["high"], prices["low"])
    worst = np.where(traded.terms.is_call, prices["low"], prices["high"])
    middle = traded.years + _SESSION_YEARS / 2
    high = _e4(traded.terms, best, middle, noise[1])
    low = _e4(traded.terms, worst, middle, noise[1])
    opens = np.where(traded.trades == 1, closes, opens)
    reach = (traded.trades - 1) / (traded.trades + 7.0)
    top = np.maximum(opens, closes)
    bottom = np.minimum(opens, closes)

    return Bars(
        grid.midnight_ns[traded.row],
        opens,
        top + _cents(reach * np.maximum(high - top, 0)),
        bottom - _cents(reach * np.maximum(bottom - low, 0)),
        closes,
        traded.volume,
        traded.trades,
    )


def _e4(terms: OptionTerms, spot: FloatArray, years: FloatArray, noise: FloatArray) -> IntArray:
    """Return option prices rounded to the cent, at least one cent."""
    intrinsic, rest = value(terms, spot, years)
    return np.maximum(np.rint((intrinsic + rest * noise) * 100.0).astype(np.int64), 1) * 100


def _cents(amount_e4: FloatArray) -> IntArray:
    return (amount_e4 // 100).astype(np.int64) * 100


def _replace_bars(days: Bars, inside: IntArray, of_day: Bars) -> Bars:
    """Return the daily bars. If a day has minute bars, its daily bar is replaced by the aggregate
    of these.
    """
    columns = {name: getattr(days, name).copy() for name in BAR_COLUMNS}
    for name, column in columns.items():
        column[inside] = getattr(of_day, name)
    return Bars(**columns)


def _by_contract(
    contracts: OptionContracts, contract: IntArray, bars: Bars, resolution: Resolution
) -> dict[BarKey, Bars]:
    distinct, first = np.unique(contract, return_index=True)
    bounds = np.append(first, len(contract)).tolist()
    return {
        ("option", contracts.rows[row].symbol, resolution): bars.take(
            slice(bounds[count], bounds[count + 1])
        )
        for count, row in enumerate(distinct.tolist())
    }


def _flow(grid: MinuteGrid, contracts: OptionContracts, traded: OptionTrades) -> OptionFlow:
    is_call = traded.terms.is_call
    totals = [
        np.bincount(traded.row, traded.volume * side, len(grid)).astype(np.float64)
        for side in (is_call, ~is_call)
    ]
    order = np.lexsort((traded.contract, traded.volume, is_call, traded.row))
    key = traded.row[order] * 2 + is_call[order]
    last = (
        np.flatnonzero(np.append(key[1:] != key[:-1], True)) if len(key) else np.empty(0, np.int64)
    )
    top = {
        (int(traded.row[index]), bool(is_call[index])): (
            contracts.rows[traded.contract[index]],
            int(traded.volume[index]),
        )
        for index in order[last].tolist()
    }

    return OptionFlow(totals[0], totals[1], top)
