"""Embedded market put together: prices, options, rates, lending, calendars and news, all from one
seed.

Every part has streams of chance of its own, named by what it is. So a market with one more stock
has the same bars of all others, and the order in which parts are made does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from ktdeval_qfinzero.data.rows import (
    AssetClass,
    BarKey,
    Bars,
    BorrowRow,
    ContractRow,
    DatasetInfo,
    DividendRow,
    EventRow,
    FloatArray,
    NewsRow,
    PriceRows,
    SplitRow,
    SymbolRow,
    row_key,
)
from ktdeval_qfinzero.data.synthetic.companies import COINS, STOCKS, Coin, symbol_row
from ktdeval_qfinzero.data.synthetic.earnings import report_events
from ktdeval_qfinzero.data.synthetic.engine import MarketTape
from ktdeval_qfinzero.data.synthetic.macro import (
    SeriesRelease,
    draw_readings,
    macro_event,
    market_shocks,
)
from ktdeval_qfinzero.data.synthetic.minute_grid import MinuteGrid, calendar_grid, session_grid
from ktdeval_qfinzero.data.synthetic.news import NewsFacts, make_news
from ktdeval_qfinzero.data.synthetic.option_bars import OptionFlow, OptionMarket, make_options
from ktdeval_qfinzero.data.synthetic.params import DayRanges, SyntheticParams, ranges_of
from ktdeval_qfinzero.data.synthetic.prices import (
    CommonMoves,
    CompanyCourse,
    DailyCurves,
    StockCloses,
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
from ktdeval_qfinzero.timestamps import DAY, day_start


@dataclass(frozen=True)
class SyntheticMarket:
    """Everything that a dataset is made of, in memory."""

    prices: PriceRows  #: bars and what belongs to them
    events: tuple[EventRow, ...]  #: the calendar, by time
    news: tuple[NewsRow, ...]  #: articles, by time
    info: DatasetInfo  #: without an id of the content, which storing gives


@dataclass(frozen=True, eq=False)
class _MarketWorld:
    params: SyntheticParams
    ranges: DayRanges
    grid: MinuteGrid
    readings: tuple[SeriesRelease, ...]
    curves: DailyCurves
    common: CommonMoves


@dataclass(frozen=True, eq=False)
class _StockPart:
    """A stock: what happens to it, its bars, its closes and its options."""

    course: CompanyCourse
    bars: dict[BarKey, Bars]
    close: FloatArray  #: [D] as `closes_of` gives it, like the next one
    before: FloatArray
    options: OptionMarket | None

    @property
    def ticker(self) -> str:
        """Ticker of the stock."""
        return self.course.life.stock.ticker


@dataclass(frozen=True, eq=False)
class _CoinPart:
    """A coin and its bars."""

    coin: Coin
    bars: dict[BarKey, Bars]


def generate(params: SyntheticParams) -> SyntheticMarket:
    """Return the market of some parameters; equal ones give equal rows. Raises DataError: days
    that make no market.
    """
    world = _world(params)
    stocks = _stocks(world)
    coins = _coins(world)
    events = [macro_event(reading) for reading in world.readings]
    for stock in stocks:
        events += report_events(stock.course.life, stock.course.reports)

    return SyntheticMarket(
        prices=_price_rows(world, stocks, coins),
        events=tuple(sorted(events, key=row_key)),
        news=make_news(params.seed, _news_facts(world, stocks, coins)),
        info=_info(world),
    )


def _world(params: SyntheticParams) -> _MarketWorld:
    ranges = ranges_of(params)
    grid = session_grid(*ranges.days)
    readings = draw_readings(params.seed, grid)

    return _MarketWorld(
        params=params,
        ranges=ranges,
        grid=grid,
        readings=readings,
        curves=draw_curves(params.seed, readings, grid),
        common=common_moves(params.seed, grid, market_shocks(readings, grid)),
    )


def _stocks(world: _MarketWorld) -> list[_StockPart]:
    params = world.params
    chosen = STOCKS[: params.stocks]
    optionable = [stock.ticker for stock in chosen if stock.optionable]
    with_options = optionable[: params.option_underlyings]
    with_minutes = with_options[: params.option_minute_underlyings]

    parts: list[_StockPart] = []
    for stock in chosen:
        course = draw_course(params.seed, stock, world.grid)
        has_options = stock.ticker in with_options
        parts.append(_stock_part(world, course, has_options, stock.ticker in with_minutes))

    return parts


def _stock_part(
    world: _MarketWorld, course: CompanyCourse, has_options: bool, has_option_minutes: bool
) -> _StockPart:
    seed = world.params.seed
    grid = world.grid
    tape = make_stock(seed, grid, world.common, course)
    bars = _stored_bars("stock", course.life.stock.ticker, tape, world.ranges)
    options: OptionMarket | None = None

    if has_options:
        minute_rows = range(0)
        if has_option_minutes:
            minute_rows = _rows_between(grid, *world.ranges.option_minutes)

        options = make_options(seed, grid, course, tape, world.curves, minute_rows)
        bars |= options.bars

    close, before = closes_of(grid, tape, _split_ratios(grid, course))
    return _StockPart(course, bars, close, before, options)


def _split_ratios(grid: MinuteGrid, course: CompanyCourse) -> dict[int, float]:
    """Row of an ex-day -> new shares for one."""
    ratios: dict[int, float] = {}
    for split in course.life.splits:
        row = grid.row_on_or_after(split.ex_day)
        if row is not None:
            ratios[row] = split.new / split.old

    return ratios


def _rows_between(grid: MinuteGrid, first: date, last: date) -> range:
    start = grid.row_on_or_after(first)
    after = grid.row_on_or_after(last + timedelta(days=1))
    end = len(grid) if after is None else after

    return range(end if start is None else start, end)


def _coins(world: _MarketWorld) -> list[_CoinPart]:
    params = world.params
    if not params.coins:
        return []

    grid = calendar_grid(*world.ranges.days)
    common = coin_moves(params.seed, grid)
    parts: list[_CoinPart] = []
    for coin in COINS[: params.coins]:
        tape = make_coin(params.seed, grid, common, coin)
        parts.append(_CoinPart(coin, _stored_bars("crypto", coin.ticker, tape, world.ranges)))

    return parts


def _stored_bars(
    asset_class: AssetClass, ticker: str, tape: MarketTape, ranges: DayRanges
) -> dict[BarKey, Bars]:
    """Bars that a dataset stores: all days, and the minutes of a range of days."""
    bars: dict[BarKey, Bars] = {(asset_class, ticker, "day"): tape.days}
    first_day, last_day = ranges.minutes
    minutes = tape.minutes_between(day_start(first_day), day_start(last_day) + DAY)
    if len(minutes):
        bars[asset_class, ticker, "minute"] = minutes

    return bars


def _price_rows(
    world: _MarketWorld, stocks: Sequence[_StockPart], coins: Sequence[_CoinPart]
) -> PriceRows:
    """Bars of all instruments, and the rows of the other tables of prices."""
    grid = world.grid
    bars: dict[BarKey, Bars] = {}
    symbols: list[SymbolRow] = []
    contracts: list[ContractRow] = []
    dividends: list[DividendRow] = []
    splits: list[SplitRow] = []
    locates: list[BorrowRow] = []

    for stock in stocks:
        life = stock.course.life
        bars |= stock.bars
        symbols.append(symbol_row(life, grid, stock.options is not None))
        if stock.options is not None:
            contracts += stock.options.contracts

        dividends += life.dividends
        splits += life.splits
        locates += borrow_rows(world.params.seed, life, grid)

    for coin in coins:
        bars |= coin.bars
        symbols.append(coin_row(coin.coin, grid))

    return PriceRows(
        bars, symbols, contracts, rate_rows(world.curves, grid), dividends, splits, locates
    )


def _news_facts(
    world: _MarketWorld, stocks: Sequence[_StockPart], coins: Sequence[_CoinPart]
) -> NewsFacts:
    """What articles are written about."""
    quotes = StockCloses(
        world.grid,
        close={stock.ticker: stock.close for stock in stocks},
        before={stock.ticker: stock.before for stock in stocks},
    )
    flows: dict[str, OptionFlow] = {}
    for stock in stocks:
        if stock.options is not None:
            flows[stock.ticker] = stock.options.flow

    days_of_coins: dict[str, tuple[Coin, Bars]] = {}
    for part in coins:
        ticker = part.coin.ticker
        days_of_coins[ticker] = (part.coin, part.bars["crypto", ticker, "day"])

    courses = [stock.course for stock in stocks]
    return NewsFacts(quotes, courses, world.readings, flows, days_of_coins)


def _info(world: _MarketWorld) -> DatasetInfo:
    grid = world.grid
    as_of_rows = [row for row, day in enumerate(grid.days) if day <= world.ranges.as_of_day]
    as_of_row = as_of_rows[-1] if as_of_rows else 0
    minutes = _rows_between(grid, *world.ranges.minutes)
    first, last = (minutes[0], minutes[-1]) if minutes else (0, 0)

    return DatasetInfo(
        "synthetic",
        True,
        "",
        grid.days[0],
        grid.days[-1],
        grid.days[first],
        grid.days[last],
        int(grid.close_ns[as_of_row]),
    )
