"""Embedded market put together: prices, options, rates, lending, calendars and news, all from one seed.

Every part has streams of chance of its own, named by what it is. So a market with one more stock has the same bars of all others,
and the order in which parts are made does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from ktdeval_qfinzero.data.rows import AssetClass, BarKey, Bars, DatasetInfo, EventRow, FloatArray, NewsRow, PriceRows, row_key
from ktdeval_qfinzero.data.synthetic.corporate import COINS, STOCKS, Coin, symbol_row
from ktdeval_qfinzero.data.synthetic.earnings import report_events
from ktdeval_qfinzero.data.synthetic.engine import MarketTape
from ktdeval_qfinzero.data.synthetic.grid import Grid, calendar_grid, session_grid
from ktdeval_qfinzero.data.synthetic.macro import Reading, draw_readings, macro_event, market_shocks
from ktdeval_qfinzero.data.synthetic.news import Facts, make_news
from ktdeval_qfinzero.data.synthetic.option_bars import OptionMarket, make_options
from ktdeval_qfinzero.data.synthetic.params import Ranges, SyntheticParams, ranges_of
from ktdeval_qfinzero.data.synthetic.prices import (
    Common,
    Course,
    Curves,
    Quotes,
    borrow_rows,
    closes_of,
    coin_moves,
    coin_row,
    common_moves,
    draw_course,
    draw_curves,
    make_coin,
    make_stock,
    rate_rows,
)
from ktdeval_qfinzero.moments import DAY, day_start


@dataclass(frozen=True)
class SyntheticMarket:
    """Everything that a dataset is made of, in memory."""

    prices: PriceRows  #: bars and what belongs to them
    events: tuple[EventRow, ...]  #: the calendar, by time
    news: tuple[NewsRow, ...]  #: articles, by time
    info: DatasetInfo  #: without an id of the content, which storing gives


@dataclass(frozen=True, eq=False)
class _World:
    params: SyntheticParams
    ranges: Ranges
    grid: Grid
    readings: tuple[Reading, ...]
    curves: Curves
    common: Common


@dataclass(frozen=True, eq=False)
class _Part:
    """One stock: what happens to it, its bars that are kept, its closes (as `closes_of` gives them), and its options."""

    course: Course
    bars: dict[BarKey, Bars]
    closes: tuple[FloatArray, FloatArray]
    options: OptionMarket | None


def generate(params: SyntheticParams) -> SyntheticMarket:
    """Return the market of some parameters; equal ones give equal bytes. Raises DataError: days that make no market."""
    world = _world(params)
    stocks = STOCKS[: params.stocks]
    optionable = [stock.ticker for stock in stocks if stock.optionable][: params.option_underlyings]
    with_minutes = optionable[: params.option_minute_underlyings]
    courses = [draw_course(params.seed, stock, world.grid) for stock in stocks]
    parts = [
        _stock_part(world, course, course.life.stock.ticker in optionable, course.life.stock.ticker in with_minutes)
        for course in courses
    ]
    coins = _coins(world)
    table = {key: bars for part in parts for key, bars in part.bars.items()}
    table |= {key: bars for _, bars_of in coins.values() for key, bars in bars_of.items()}
    grid = world.grid
    lives = [part.course.life for part in parts]
    prices = PriceRows(
        table,
        [symbol_row(life, grid, life.stock.ticker in optionable) for life in lives]
        + [coin_row(coin, grid) for coin, _ in coins.values()],
        [contract for part in parts if part.options is not None for contract in part.options.contracts],
        rate_rows(world.curves, grid),
        [dividend for life in lives for dividend in life.dividends],
        [split for life in lives for split in life.splits],
        [row for life in lives for row in borrow_rows(params.seed, life, grid)],
    )
    closes = {part.course.life.stock.ticker: part.closes for part in parts}
    facts = Facts(
        Quotes(grid, *({ticker: pair[number] for ticker, pair in closes.items()} for number in (0, 1))),
        courses,
        world.readings,
        {part.course.life.stock.ticker: part.options.flow for part in parts if part.options is not None},
        {ticker: (coin, bars["crypto", ticker, "day"]) for ticker, (coin, bars) in coins.items()},
    )
    events = [macro_event(reading) for reading in world.readings]
    for course in courses:
        events += report_events(course.life, course.reports)
    return SyntheticMarket(prices, tuple(sorted(events, key=row_key)), make_news(params.seed, facts), _info(world))


def _world(params: SyntheticParams) -> _World:
    ranges = ranges_of(params)
    grid = session_grid(*ranges.days)
    readings = draw_readings(params.seed, grid)
    common = common_moves(params.seed, grid, market_shocks(readings, grid))
    return _World(params, ranges, grid, readings, draw_curves(params.seed, readings, grid), common)


def _stock_part(world: _World, course: Course, has_options: bool, has_option_minutes: bool) -> _Part:
    grid, stock = world.grid, course.life.stock
    tape = make_stock(world.params.seed, grid, world.common, course)
    splits = {row: split.new / split.old for split in course.life.splits if (row := grid.row_on_or_after(split.ex_day)) is not None}
    bars = _kept("stock", stock.ticker, tape, world.ranges)
    options = None
    if has_options:
        rows = _rows_between(grid, *world.ranges.option_minutes) if has_option_minutes else range(0)
        options = make_options(world.params.seed, grid, course, tape, world.curves, rows)
        bars |= options.bars
    return _Part(course, bars, closes_of(grid, tape, splits), options)


def _rows_between(grid: Grid, first: date, last: date) -> range:
    start, after = grid.row_on_or_after(first), grid.row_on_or_after(last + timedelta(days=1))
    end = len(grid) if after is None else after
    return range(end if start is None else start, end)


def _coins(world: _World) -> dict[str, tuple[Coin, dict[BarKey, Bars]]]:
    if not world.params.coins:
        return {}
    grid = calendar_grid(*world.ranges.days)
    common = coin_moves(world.params.seed, grid)
    return {
        coin.ticker: (coin, _kept("crypto", coin.ticker, make_coin(world.params.seed, grid, common, coin), world.ranges))
        for coin in COINS[: world.params.coins]
    }


def _kept(asset_class: AssetClass, ticker: str, tape: MarketTape, ranges: Ranges) -> dict[BarKey, Bars]:
    bars: dict[BarKey, Bars] = {(asset_class, ticker, "day"): tape.days}
    minutes = tape.minutes_between(day_start(ranges.minutes[0]), day_start(ranges.minutes[1]) + DAY)
    return bars | {(asset_class, ticker, "minute"): minutes} if len(minutes) else bars


def _info(world: _World) -> DatasetInfo:
    grid, ranges = world.grid, world.ranges
    minutes = _rows_between(grid, *ranges.minutes)
    as_of_row = max(row for row, day in enumerate(grid.days) if day <= ranges.as_of_day or row == 0)
    first, last = (minutes.start, minutes.stop - 1) if len(minutes) else (0, 0)
    days = (grid.days[0], grid.days[-1], grid.days[first], grid.days[last])
    return DatasetInfo("synthetic", True, "", *days, int(grid.close_ns[as_of_row]))
