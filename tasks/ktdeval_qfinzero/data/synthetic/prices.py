"""Prices of stocks and crypto assets, drawn from common moves, company news and analysts' actions,
with their bars; also yields and stock-loan supply.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ktdeval_qfinzero.data.rows import TENOR_YEARS, BorrowRow, FloatArray, RateRow, SymbolRow
from ktdeval_qfinzero.data.synthetic.companies import (
    SECTORS,
    Coin,
    CompanyLife,
    Size,
    Stock,
    live,
    log_factor,
)
from ktdeval_qfinzero.data.synthetic.earnings import QuarterlyReport, draw_reports
from ktdeval_qfinzero.data.synthetic.engine import (
    InstrumentTape,
    PriceShock,
    RiskMoves,
    TradingTerms,
    combine,
    draw_moves,
    make_tape,
    with_shocks,
)
from ktdeval_qfinzero.data.synthetic.macro import SeriesRelease, policy_rate, rate_changes
from ktdeval_qfinzero.data.synthetic.minute_grid import MinuteGrid, new_york, stream
from ktdeval_qfinzero.data.synthetic.wordings import wordings
from ktdeval_qfinzero.timestamps import DAY, day_start

_NEWS_A_YEAR = 6.5  #: Mean number of news items per company in 252 sessions
_ACTIONS_A_YEAR = 4.0  #: Mean number of analysts' actions, excluding those that follow a report
RATINGS = ("Sell", "Hold", "Buy")
ACTIONS = ("upgrade", "downgrade", "target_raised", "target_cut")


@dataclass(frozen=True, slots=True)
class CompanyNews:
    """A company's news, or an analyst's action, which uses the last five fields."""

    ticker: str
    kind: str  #: one of `company_news` in `news.yaml`, or of `ACTIONS`
    time_ns: int  #: when the news becomes public
    row: int  #: session in which the price reacts
    shock: PriceShock  #: jump in the price, never later than the first trade after `time_ns`
    broker: str = ""
    rating_before: str = ""
    rating: str = ""
    target: float = 0.0  #: price target as a multiple of the last close
    #: price target before the action, also as a multiple of the last close
    target_before: float = 0.0


def _news(seed: int, life: CompanyLife, grid: MinuteGrid) -> list[CompanyNews]:
    """Draw a company's news: during, before and after sessions."""
    stock = life.stock
    rng = stream(seed, "happenings", stock.ticker)
    forms = wordings().company_news
    kinds = [
        name for name, form in forms.items() if not form.sectors or stock.sector in form.sectors
    ]
    news = []
    last_kind = ""

    for row in np.flatnonzero(rng.random(len(grid)) < _NEWS_A_YEAR / 252).tolist():
        # All random numbers for a piece of news are drawn, whether or not they are used, so that a
        # company's later news does not depend on whether this piece is dropped.
        kind = str(rng.choice([name for name in kinds if name != last_kind]))
        when = float(rng.random())
        minute = int(rng.integers(5, max(6, grid.lengths[row] - 15)))
        strength = float(rng.uniform(0.6, 1.5))
        early = int(rng.integers(6 * 60, 9 * 60 + 10))
        late = int(rng.integers(16 * 60 + 20, 19 * 60))

        size = float(np.clip(forms[kind].size * stock.volatility * strength, -0.3, 0.3))
        if when < 0.6:
            reaction_row = row
            time_ns = grid.minute_ns(row, minute)
            shock = PriceShock(row, minute, size, 1.8)
        elif when <= 0.85:
            reaction_row = row
            time_ns = new_york(grid.days[row], *divmod(early, 60))
            shock = PriceShock(row, 0, size, 1.4)
        else:
            reaction_row = row + 1
            time_ns = new_york(grid.days[row], *divmod(late, 60))
            shock = PriceShock(reaction_row, 0, size, 1.4)

        if reaction_row >= len(grid) or life.quiet(row) or life.quiet(reaction_row):
            continue

        last_kind = kind
        news.append(CompanyNews(stock.ticker, kind, time_ns, reaction_row, shock))

    return news


def _actions(
    seed: int, life: CompanyLife, reports: Sequence[QuarterlyReport], grid: MinuteGrid
) -> list[CompanyNews]:
    """Draw analysts' actions before the open. A broker's rating starts from its previous rating."""
    stock = life.stock
    rng = stream(seed, "analysts", stock.ticker)
    ratings = {broker: int(rng.choice([0, 1, 1, 2, 2])) for broker in wordings().brokers}
    sides: dict[int, float] = {}
    for row in np.flatnonzero(rng.random(len(grid)) < _ACTIONS_A_YEAR / 252).tolist():
        sides[row] = float(rng.choice([-1.0, 1.0]))

    sides |= _after_reports(rng, reports)
    actions = []

    for row, side in sorted(sides.items()):
        broker = str(rng.choice(wordings().brokers))
        may_change = bool(rng.random() < 0.5)
        strength = float(rng.uniform(0.6, 1.4))
        minute_of_day = int(rng.integers(7 * 60, 9 * 60 + 15))
        if row >= len(grid) or life.quiet(row):
            continue

        before = ratings[broker]
        after = before
        if may_change and 0 <= before + int(side) < len(RATINGS):
            after = before + int(side)

        ratings[broker] = after
        force = 0.3 if after == before else 0.8
        size = side * stock.volatility * strength * force
        target = (0.93 + 0.11 * after) * (1.0 + 0.03 * strength)
        action = CompanyNews(
            ticker=stock.ticker,
            kind=_kind_of_action(before, after, side),
            time_ns=new_york(grid.days[row], *divmod(minute_of_day, 60)),
            row=row,
            shock=PriceShock(row, 0, size),
            broker=broker,
            rating_before=RATINGS[before],
            rating=RATINGS[after],
            target=target,
            target_before=target * (1.0 - side * 0.07 * strength),
        )
        actions.append(action)

    return actions


def _kind_of_action(before: int, after: int, side: float) -> str:
    """Name an action by the change in the rating or, if the rating is unchanged, by the change in
    the price target.
    """
    if after > before:
        return "upgrade"
    if after < before:
        return "downgrade"
    if side > 0:
        return "target_raised"
    return "target_cut"


def _after_reports(
    rng: np.random.Generator, reports: Sequence[QuarterlyReport]
) -> dict[int, float]:
    """Draw the rows of analysts' actions on the mornings after reports. Each has the sign of the
    report's surprise.
    """
    sides: dict[int, float] = {}
    for report in reports:
        acts = rng.random() < 0.6
        if acts and report.reaction_row is not None:
            # The price reacts on the same day to a report before the open, and a day later to other
            # reports.
            row = report.reaction_row + int(report.before_open)
            sides[row] = 1.0 if report.eps >= report.estimate else -1.0

    return sides


_MARKET_VOLATILITY = 0.0085
_MARKET_DRIFT = 0.0003
_SECTOR_VOLATILITY = 0.0045
_COIN_VOLATILITY = 0.026
_TRADES: Mapping[Size, tuple[float, float]] = {
    "mega": (260_000.0, 95.0),
    "large": (62_000.0, 82.0),
    "mid": (11_000.0, 75.0),
    "thin": (420.0, 90.0),
}  #: Number of trades on an ordinary day, and shares per trade
_COIN_TRADES = 90_000.0


@dataclass(frozen=True, eq=False)
class CommonMoves:
    """Moves of the market, and moves of each sector on top of these."""

    market: RiskMoves
    sectors: Mapping[str, RiskMoves]


@dataclass(frozen=True)
class CompanyCourse:
    """Events of a company, from which its price is drawn later."""

    life: CompanyLife  #: listing, splits, dividends, halt and bid
    reports: tuple[QuarterlyReport, ...]  #: earnings reports
    news: tuple[CompanyNews, ...]  #: news and analysts' actions
    shocks: tuple[PriceShock, ...]  #: price jumps caused by reports and news


@dataclass(frozen=True, eq=False)
class StockCloses:
    """Closes of all stocks."""

    grid: MinuteGrid  #: days
    #: ticker -> [D] closes in dollars; NaN on days without a bar
    close: dict[str, FloatArray] = field(default_factory=dict)
    #: ticker -> [D] previous close of each day, in the day's shares (a split divides it); NaN
    #: before the listing
    before: dict[str, FloatArray] = field(default_factory=dict)

    def change(self, ticker: str, row: int) -> float:
        """Return the change from the previous close to a day's close, in percent; NaN if a close
        is missing.
        """
        return float((self.close[ticker][row] / self.before[ticker][row] - 1.0) * 100.0)

    def changes(self, row: int) -> dict[str, float]:
        """Return the changes of all stocks that have one, in percent, keyed by ticker."""
        changes: dict[str, float] = {}
        for ticker in sorted(self.close):
            change = self.change(ticker, row)
            if np.isfinite(change):
                changes[ticker] = change

        return changes


def closes_of(
    grid: MinuteGrid, tape: InstrumentTape, life: CompanyLife
) -> tuple[FloatArray, FloatArray]:
    """Return a stock's [D] closes, and the [D] previous closes of the days, in the day's shares."""
    close = np.full(len(grid), np.nan)
    close[np.searchsorted(grid.midnight_ns, tape.days.start_ns)] = tape.days.close_e4 / 1e4
    before = np.full(len(grid), np.nan)
    last = np.nan
    ratios = {grid.row_on_or_after(split.ex_day): split.new / split.old for split in life.splits}

    for row in range(len(grid)):
        last /= ratios.get(row, 1.0)
        before[row] = last
        if np.isfinite(close[row]):
            last = close[row]

    return close, before


def common_moves(seed: int, grid: MinuteGrid, shocks: list[PriceShock]) -> CommonMoves:
    """Draw the moves of the market, with jumps at economic releases, and the moves of the
    sectors.
    """
    market = draw_moves(seed, ("equities",), grid, _MARKET_VOLATILITY, _MARKET_DRIFT)
    sectors: dict[str, RiskMoves] = {}
    for sector in SECTORS:
        sectors[sector] = draw_moves(seed, ("sector", sector), grid, _SECTOR_VOLATILITY)

    return CommonMoves(with_shocks(market, shocks), sectors)


def draw_course(seed: int, stock: Stock, grid: MinuteGrid) -> CompanyCourse:
    """Draw a company's events."""
    life = live(seed, stock, grid)
    reports, report_shocks = draw_reports(seed, life, grid)
    unsorted = [*_news(seed, life, grid), *_actions(seed, life, reports, grid)]
    news = sorted(unsorted, key=lambda item: (item.time_ns, item.kind))
    news_shocks = [item.shock for item in news]

    return CompanyCourse(life, reports, tuple(news), (*report_shocks, *news_shocks))


def make_stock(
    seed: int, grid: MinuteGrid, common: CommonMoves, course: CompanyCourse
) -> InstrumentTape:
    """Draw a stock's bars on all days."""
    life = course.life
    stock = course.life.stock
    drawn = draw_moves(seed, ("stock", stock.ticker), grid, stock.volatility)
    own = with_shocks(drawn, course.shocks)
    sector = common.sectors[stock.sector]
    combined = combine(
        [(stock.beta, common.market), (1.0, sector), (1.0, own)], life.exposure(len(grid))
    )
    # Shocks from the company's life, such as a bid, move the price whatever its exposure to the
    # market is.
    moves = with_shocks(combined, life.shocks)

    trades, size = _TRADES[stock.size]
    sizes = size * np.array([life.shares_per_first(day) for day in grid.days])
    factor = log_factor(life, grid, moves)
    traded = TradingTerms(stock.price, factor, life.open_days(len(grid)), trades, sizes)

    return make_tape(seed, ("stock", stock.ticker), grid, moves, traded)


def usual_volatility(stock: Stock) -> float:
    """Return the standard deviation of a stock's return on an ordinary day."""
    return math.hypot(stock.beta * _MARKET_VOLATILITY, _SECTOR_VOLATILITY, stock.volatility)


def coin_moves(seed: int, grid: MinuteGrid) -> RiskMoves:
    """Draw the moves that all crypto assets share."""
    return draw_moves(seed, ("all coins",), grid, _COIN_VOLATILITY, 0.0006)


def make_coin(seed: int, grid: MinuteGrid, common: RiskMoves, coin: Coin) -> InstrumentTape:
    """Draw a crypto asset's bars, in every minute of all days."""
    own = draw_moves(seed, ("coin", coin.ticker), grid, coin.volatility)
    moves = combine([(coin.beta, common), (1.0, own)])
    days = len(grid)
    size = np.full(days, coin.coins_a_day / _COIN_TRADES)
    traded = TradingTerms(
        coin.price, np.zeros(days), np.ones(days, dtype=np.bool_), _COIN_TRADES, size, whole=False
    )

    return make_tape(seed, ("coin", coin.ticker), grid, moves, traded)


def coin_row(coin: Coin, grid: MinuteGrid) -> SymbolRow:
    """Return a crypto asset's row in the symbols table; it was listed a year before the
    first day.
    """
    listed_ns = day_start(grid.days[0]) - 365 * DAY
    return SymbolRow(coin.ticker, "crypto", coin.name, "crypto", listed_ns)


_TENORS = np.array(list(TENOR_YEARS.values()))
_LENDABLE: dict[Size, int] = {"mega": 9_000_000, "large": 3_000_000, "mid": 600_000, "thin": 60_000}


@dataclass(frozen=True, eq=False)
class DailyCurves:
    """Yields on each day."""

    percent: FloatArray  #: [D, 7] yields by tenor, to two decimals

    def before(self, row: FloatArray, years: FloatArray) -> FloatArray:
        """Return [n] yields as fractions, interpolated between tenors, from the curve of the day
        before each row. The first row uses the curve of its own day.
        """
        day = np.maximum(row.astype(np.int64) - 1, 0)
        right = np.clip(np.searchsorted(_TENORS, years), 1, len(_TENORS) - 1)
        left = right - 1
        position = (years - _TENORS[left]) / (_TENORS[right] - _TENORS[left])
        weight = np.clip(position, 0.0, 1.0)
        percent = self.percent[day, left] * (1.0 - weight) + self.percent[day, right] * weight
        fractions: FloatArray = percent / 100.0

        return fractions


def draw_curves(seed: int, readings: Sequence[SeriesRelease], grid: MinuteGrid) -> DailyCurves:
    """Draw the curves. Each runs from the policy rate to a long yield, which is a mean-reverting
    random walk and reacts to economic surprises.
    """
    rng = stream(seed, "rates")
    wander = 0.045 * rng.standard_normal(len(grid)) + rate_changes(readings, grid)
    long = np.empty(len(grid))
    level = 4.3

    for day in range(len(grid)):
        level += 0.01 * (4.3 - level) + wander[day]
        long[day] = level

    short = policy_rate(readings, grid) - 0.12
    pull = 1.0 - np.exp(-_TENORS / 2.2)
    hump = 0.35 * (_TENORS / 30.0) - 0.25 * np.exp(-((np.log(_TENORS / 2.0)) ** 2))
    noise = 0.01 * rng.standard_normal((len(grid), len(_TENORS)))
    percent = short[:, None] * (1.0 - pull) + long[:, None] * pull + hump + noise

    return DailyCurves(np.round(np.maximum(percent, 0.05), 2))


def rate_rows(curves: DailyCurves, grid: MinuteGrid) -> list[RateRow]:
    """Return each day's curve, published at six in the evening."""
    names = tuple(TENOR_YEARS)
    rows: list[RateRow] = []
    for row, day in enumerate(grid.days):
        curve = dict(zip(names, curves.percent[row].tolist(), strict=True))
        rows.append(RateRow(day, curve, new_york(day, 18)))

    return rows


def borrow_rows(seed: int, life: CompanyLife, grid: MinuteGrid) -> list[BorrowRow]:
    """Draw the stock-loan supply, published before the first session of each week. It is ample at a
    low fee, or scarce at a high fee if the stock is hard to borrow.
    """
    rng = stream(seed, "borrow", life.stock.ticker)
    is_hard = life.stock.hard_to_borrow
    fee = float(rng.uniform(600, 2_400))
    rows = []
    lendable = _LENDABLE[life.stock.size]
    week = None

    for row, day in enumerate(grid.days):
        fee *= float(np.exp(0.05 * rng.standard_normal()))
        luck = float(rng.random())
        this_week = day.isocalendar()[:2]
        if this_week == week or not life.first_row <= row <= life.last_row:
            continue

        week = this_week
        if is_hard:
            share = 0.002 + 0.02 * luck
            bps = round(float(np.clip(fee, 300, 9_000)))
        else:
            share = 0.6 + 0.8 * luck
            bps = int(25 + 10 * (luck < 0.2))

        shares = int(lendable * share) // 100 * 100
        available_ns = _borrow_published(life, grid, row)
        rows.append(BorrowRow(life.stock.ticker, available_ns, shares, bps))

    if life.last_row < len(grid) - 1:
        # Shares of a stock that no longer trades can't be borrowed.
        rows.append(BorrowRow(life.stock.ticker, int(grid.close_ns[life.last_row]), 0, 0))

    return rows


def _borrow_published(life: CompanyLife, grid: MinuteGrid, row: int) -> int:
    """Return the time at which a day's supply of shares is published."""
    if row == 0:
        # Known when the data begin.
        return int(grid.midnight_ns[0]) - DAY
    if row == life.first_row:
        return int(grid.open_ns[row])
    return new_york(grid.days[row], 8)
