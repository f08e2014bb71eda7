"""Bars of options: how much each contract trades on a day, and at which prices. What nobody trades has no bar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ktdeval_qfinzero.data.rows import BAR_COLUMNS, BarKey, Bars, ContractRow, FloatArray, IntArray, Resolution
from ktdeval_qfinzero.data.synthetic.engine import MarketTape
from ktdeval_qfinzero.data.synthetic.grid import Grid, stream
from ktdeval_qfinzero.data.synthetic.names import Size
from ktdeval_qfinzero.data.synthetic.option_prices import Terms, dividends_before, make_surface, moneyness, smile, value
from ktdeval_qfinzero.data.synthetic.option_terms import Contracts, list_contracts
from ktdeval_qfinzero.data.synthetic.option_trades import Trades, draw_trades, minute_bars
from ktdeval_qfinzero.data.synthetic.prices import Course, usual_volatility
from ktdeval_qfinzero.data.synthetic.rates import Curves

_CONTRACTS_A_DAY: dict[Size, float] = {"mega": 1_700.0, "large": 420.0, "mid": 100.0, "thin": 10.0}
_SESSION_YEARS = 6.5 / 24 / 365
_SURGE_EVERY = 34  #: Mean sessions between two days on which one side of a chain is traded wildly


@dataclass(frozen=True, eq=False)
class Flow:
    """Volumes of the options on an underlying. `calls, puts`: [D] contracts."""

    calls: FloatArray
    puts: FloatArray
    top: Mapping[tuple[int, bool], tuple[ContractRow, int]]  #: (row, is call) -> the most traded contract and its volume


@dataclass(frozen=True, eq=False)
class OptionMarket:
    """Options on one underlying: contracts, bars, and the day's flow."""

    contracts: tuple[ContractRow, ...]
    bars: Mapping[BarKey, Bars]
    flow: Flow


def make_options(seed: int, grid: Grid, course: Course, tape: MarketTape, curves: Curves, minute_rows: range) -> OptionMarket:
    """Return all options on an underlying; on the days of `minute_rows` with bars of minutes. The stock of the course trades on
    every session and never splits.
    """
    ticker = course.life.stock.ticker
    closes = tape.days.close_e4 / 1e4
    reference = np.append(tape.days.open_e4[:1] / 1e4, closes[:-1])
    contracts = list_contracts(ticker, grid, reference)
    traded = _traded(seed, grid, course, tape, curves, contracts)
    days = _day_bars(stream(seed, "options", ticker, "prices"), grid, tape.days, traded)
    bars: dict[BarKey, Bars] = {}
    inside = np.flatnonzero((traded.row >= minute_rows.start) & (traded.row < minute_rows.stop))
    if len(inside):
        part = traded.take(inside)
        drawn = draw_trades(stream(seed, "options", ticker, "minutes"), grid, tape.minutes, part)
        minutes, of_day, contract = minute_bars(grid, part, drawn)
        days = _replaced(days, inside, of_day)
        bars |= _by_contract(contracts, contract, minutes, "minute")
    bars |= _by_contract(contracts, traded.contract, days, "day")
    return OptionMarket(contracts.rows, bars, _flow(grid, contracts, traded))


def _traded(seed: int, grid: Grid, course: Course, tape: MarketTape, curves: Curves, contracts: Contracts) -> Trades:
    stock = course.life.stock
    ticker = stock.ticker
    contract, row = _alive(contracts)
    years = _years(contracts, grid, contract, row)
    reports = [report.reaction_row for report in course.reports if report.reaction_row is not None]
    mood = stream(seed, "options", ticker, "surface")
    surface = make_surface(mood, tape.days.close_e4 / 1e4, usual_volatility(stock), reports)
    level = surface.at_the_money(row, contracts.end_row[contract], years)
    strike, is_call = contracts.strike[contract], contracts.is_call[contract]
    standard = moneyness((tape.days.open_e4 / 1e4)[row], strike, years, level)
    rng = stream(seed, "options", ticker, "volume")
    expected = _CONTRACTS_A_DAY[stock.size] * _interest(standard, years, is_call) * (1.0 + contracts.monthly[contract])
    expected *= _activity(rng, tape.days.volume)[row] * _surges(rng, len(grid))[row, is_call.astype(np.int64)]
    volume = rng.poisson(expected * rng.standard_gamma(1.4, len(row)) / 1.4).astype(np.float64)
    kept = np.flatnonzero(volume)
    contract, row, volume = contract[kept], row[kept], volume[kept]
    rate = curves.before(row.astype(np.float64), np.maximum(years[kept], 1 / 365))
    terms = Terms(
        strike[kept],
        is_call[kept],
        rate,
        smile(level[kept], standard[kept]),
        dividends_before(course.life.dividends, grid, row, contracts.last_day[contract], rate),
    )
    trades = np.minimum(volume, np.ceil(volume / (3.0 + 5.0 * rng.random(len(kept))))).astype(np.int64)
    return Trades(contract, row, volume, trades, terms, years[kept])


def _alive(contracts: Contracts) -> tuple[IntArray, IntArray]:
    """Contract and day of every day that each contract may trade on, ascending."""
    counts = contracts.last_row - contracts.first_row + 1
    contract = np.repeat(np.arange(len(counts)), counts)
    start = np.cumsum(counts) - counts
    return contract, contracts.first_row[contract] + np.arange(len(contract)) - start[contract]


def _years(contracts: Contracts, grid: Grid, contract: IntArray, row: IntArray) -> FloatArray:
    days = np.array(grid.days, dtype="datetime64[D]")[row]
    years: FloatArray = (contracts.last_day[contract] - days).astype(np.float64) / 365.0
    return years


def _interest(standard: FloatArray, years: FloatArray, is_call: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> FloatArray:
    """[n] a contract's share of attention: more near the money, out of it, soon to expire, and for calls."""
    inside = np.maximum(np.where(is_call, -standard, standard), 0.0)
    wanted: FloatArray = np.exp(-1.1 * standard**2 - 1.2 * inside - years / 0.11) * np.where(is_call, 1.0, 0.8)
    return wanted


def _activity(rng: np.random.Generator, volume: FloatArray) -> FloatArray:
    """[D] options are traded more where the stock is."""
    mood = np.exp(0.2 * rng.standard_normal(len(volume)))
    active: FloatArray = (volume / np.median(volume)) ** 0.8 * mood
    return active


def _surges(rng: np.random.Generator, days: int) -> FloatArray:
    """[D, 2] factor of puts and calls; a few days have many times the usual."""
    return np.where(rng.random((days, 2)) < 0.5 / _SURGE_EVERY, rng.uniform(3.0, 7.0, (days, 2)), 1.0)


def _day_bars(rng: np.random.Generator, grid: Grid, days: Bars, traded: Trades) -> Bars:
    """[n] bars from the underlying's open, high, low and close; the fewer the trades, the nearer extremes lie to open and close."""
    prices = {name: getattr(days, f"{name}_e4")[traded.row] / 1e4 for name in ("open", "high", "low", "close")}
    noise = np.exp(0.006 * rng.standard_normal((2, len(traded.row))))
    opens = _e4(traded.terms, prices["open"], traded.years + _SESSION_YEARS, noise[0])
    closes = _e4(traded.terms, prices["close"], traded.years, noise[1])
    best = np.where(traded.terms.is_call, prices["high"], prices["low"])
    worst = np.where(traded.terms.is_call, prices["low"], prices["high"])
    middle = traded.years + _SESSION_YEARS / 2
    high, low = _e4(traded.terms, best, middle, noise[1]), _e4(traded.terms, worst, middle, noise[1])
    opens = np.where(traded.trades == 1, closes, opens)
    reach = (traded.trades - 1) / (traded.trades + 7.0)
    top, bottom = np.maximum(opens, closes), np.minimum(opens, closes)
    return Bars(
        grid.midnight_ns[traded.row],
        opens,
        top + _cents(reach * np.maximum(high - top, 0)),
        bottom - _cents(reach * np.maximum(bottom - low, 0)),
        closes,
        traded.volume,
        traded.trades,
    )


def _e4(terms: Terms, spot: FloatArray, years: FloatArray, noise: FloatArray) -> IntArray:
    intrinsic, rest = value(terms, spot, years)
    return np.maximum(np.rint((intrinsic + rest * noise) * 100.0).astype(np.int64), 1) * 100


def _cents(amount_e4: FloatArray) -> IntArray:
    return (amount_e4 // 100).astype(np.int64) * 100


def _replaced(days: Bars, inside: IntArray, of_day: Bars) -> Bars:
    """Return the bars of days with those put in that their minutes make."""
    columns = {name: getattr(days, name).copy() for name in BAR_COLUMNS}
    for name, column in columns.items():
        column[inside] = getattr(of_day, name)
    return Bars(**columns)


def _by_contract(contracts: Contracts, contract: IntArray, bars: Bars, resolution: Resolution) -> dict[BarKey, Bars]:
    found, first = np.unique(contract, return_index=True)
    bounds = np.append(first, len(contract)).tolist()
    return {
        ("option", contracts.rows[place].symbol, resolution): bars.take(slice(bounds[count], bounds[count + 1]))
        for count, place in enumerate(found.tolist())
    }


def _flow(grid: Grid, contracts: Contracts, traded: Trades) -> Flow:
    is_call = traded.terms.is_call
    totals = [np.bincount(traded.row, traded.volume * side, len(grid)).astype(np.float64) for side in (is_call, ~is_call)]
    order = np.lexsort((traded.contract, traded.volume, is_call, traded.row))
    key = traded.row[order] * 2 + is_call[order]
    last = np.flatnonzero(np.append(key[1:] != key[:-1], True)) if len(key) else np.empty(0, np.int64)
    top = {
        (int(traded.row[place]), bool(is_call[place])): (contracts.rows[traded.contract[place]], int(traded.volume[place]))
        for place in order[last].tolist()
    }
    return Flow(totals[0], totals[1], top)
