"""Embedded market as a whole: prices, options, rates, lending, calendars and news, all from one
seed.

Every part has its own named random streams, so adding a stock does not change the bars of other
stocks, and the order in which parts are made does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
    NewsRow,
    PriceRows,
    SplitRow,
    SymbolRow,
    row_key,
)
from ktdeval_qfinzero.data.synthetic.companies import COINS, STOCKS, Coin, Stock, symbol_row
from ktdeval_qfinzero.data.synthetic.earnings import report_events
from ktdeval_qfinzero.data.synthetic.engine import InstrumentTape, RiskMoves
from ktdeval_qfinzero.data.synthetic.macro import draw_readings, macro_event, market_shocks
from ktdeval_qfinzero.data.synthetic.minute_grid import MinuteGrid, calendar_grid, session_grid
from ktdeval_qfinzero.data.synthetic.news import NewsFacts, make_news
from ktdeval_qfinzero.data.synthetic.option_bars import make_options
from ktdeval_qfinzero.data.synthetic.params import DayRanges, SyntheticMarketParams, ranges_of
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
    """In-memory contents of a dataset."""

    prices: PriceRows  #: bars and the related tables
    events: tuple[EventRow, ...]  #: calendar events, sorted by time
    news: tuple[NewsRow, ...]  #: articles, sorted by time
    info: DatasetInfo  #: without a content id, which is assigned on storing


@dataclass(frozen=True, eq=False)
class _Draft:
    """Market under construction, to which stocks and crypto assets are added."""

    seed: int
    ranges: DayRanges
    grid: MinuteGrid
    curves: DailyCurves
    common: CommonMoves
    facts: NewsFacts
    events: list[EventRow]
    bars: dict[BarKey, Bars] = field(default_factory=dict)
    symbols: list[SymbolRow] = field(default_factory=list)
    contracts: list[ContractRow] = field(default_factory=list)
    dividends: list[DividendRow] = field(default_factory=list)
    splits: list[SplitRow] = field(default_factory=list)
    locates: list[BorrowRow] = field(default_factory=list)

    def add_stock(self, stock: Stock, has_options: bool, has_option_minutes: bool) -> None:
        """Draw a stock with its options and small tables."""
        course = draw_course(self.seed, stock, self.grid)
        life = course.life
        tape = make_stock(self.seed, self.grid, self.common, course)
        self.store_bars("stock", stock.ticker, tape)
        if has_options:
            self.add_options(course, tape, has_option_minutes)

        self.symbols.append(symbol_row(life, self.grid, has_options))
        self.dividends.extend(life.dividends)
        self.splits.extend(life.splits)
        self.locates.extend(borrow_rows(self.seed, life, self.grid))
        self.events.extend(report_events(life, course.reports))

        close, before = closes_of(self.grid, tape, life)
        self.facts.quotes.close[stock.ticker] = close
        self.facts.quotes.before[stock.ticker] = before
        self.facts.courses.append(course)

    def add_options(self, course: CompanyCourse, tape: InstrumentTape, has_minutes: bool) -> None:
        """Draw the options on a stock."""
        rows = range(0)
        if has_minutes:
            rows = _rows_between(self.grid, *self.ranges.option_minutes)

        options = make_options(self.seed, self.grid, course, tape, self.curves, rows)
        self.bars.update(options.bars)
        self.contracts.extend(options.contracts)
        self.facts.flows[course.life.stock.ticker] = options.flow

    def add_coin(self, coin: Coin, grid: MinuteGrid, common: RiskMoves) -> None:
        """Draw a crypto asset."""
        tape = make_coin(self.seed, grid, common, coin)
        self.store_bars("crypto", coin.ticker, tape)
        self.symbols.append(coin_row(coin, self.grid))
        self.facts.coins[coin.ticker] = (coin, tape.days)

    def store_bars(self, asset_class: AssetClass, ticker: str, tape: InstrumentTape) -> None:
        """Store all daily bars, and the minute bars of a date range."""
        self.bars[asset_class, ticker, "day"] = tape.days
        first_day, last_day = self.ranges.minutes
        minutes = tape.minutes_between(day_start(first_day), day_start(last_day) + DAY)
        if len(minutes):
            self.bars[asset_class, ticker, "minute"] = minutes


def generate(params: SyntheticMarketParams) -> SyntheticMarket:
    """Return the market for `params`; equal parameters give equal rows. Raises DataError if the
    days can't form a market.
    """
    seed = params.seed
    ranges = ranges_of(params)
    grid = session_grid(*ranges.days)
    readings = draw_readings(seed, grid)
    draft = _Draft(
        seed=seed,
        ranges=ranges,
        grid=grid,
        curves=draw_curves(seed, readings, grid),
        common=common_moves(seed, grid, market_shocks(readings, grid)),
        facts=NewsFacts(StockCloses(grid), readings),
        events=[macro_event(reading) for reading in readings],
    )

    stocks = STOCKS[: params.stocks]
    with_options = [stock for stock in stocks if stock.optionable][: params.option_underlyings]
    with_minutes = with_options[: params.option_minute_underlyings]
    for stock in stocks:
        draft.add_stock(stock, stock in with_options, stock in with_minutes)

    if params.coins:
        days = calendar_grid(*ranges.days)
        common = coin_moves(seed, days)
        for coin in COINS[: params.coins]:
            draft.add_coin(coin, days, common)

    prices = PriceRows(
        draft.bars,
        draft.symbols,
        draft.contracts,
        rate_rows(draft.curves, grid),
        draft.dividends,
        draft.splits,
        draft.locates,
    )
    events = tuple(sorted(draft.events, key=row_key))

    return SyntheticMarket(prices, events, make_news(seed, draft.facts), _info(ranges, grid))


def _rows_between(grid: MinuteGrid, first: date, last: date) -> range:
    start = grid.row_on_or_after(first)
    after = grid.row_on_or_after(last + timedelta(days=1))
    end = len(grid) if after is None else after

    return range(end if start is None else start, end)


def _info(ranges: DayRanges, grid: MinuteGrid) -> DatasetInfo:
    as_of_rows = [row for row, day in enumerate(grid.days) if day <= ranges.as_of_day]
    as_of_row = as_of_rows[-1] if as_of_rows else 0
    minutes = _rows_between(grid, *ranges.minutes)
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
