"""Prices of stocks and coins: what moves them all, what moves each (news, analysts), their bars; yields, and shares to borrow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ktdeval_qfinzero.data.rows import TENOR_YEARS, BorrowRow, FloatArray, RateRow, SymbolRow
from ktdeval_qfinzero.data.synthetic.corporate import SECTORS, Coin, Life, Size, Stock, live, log_factor
from ktdeval_qfinzero.data.synthetic.earnings import Report, draw_reports
from ktdeval_qfinzero.data.synthetic.engine import MarketTape, Moves, Shock, Traded, combine, draw_moves, make_tape, with_shocks
from ktdeval_qfinzero.data.synthetic.grid import Grid, new_york, stream
from ktdeval_qfinzero.data.synthetic.macro import Reading, policy_rate, rate_changes
from ktdeval_qfinzero.data.synthetic.wordings import wordings
from ktdeval_qfinzero.moments import DAY, day_start

_A_YEAR = 6.5  #: Mean number of pieces of news of a company in 252 sessions
_ACTIONS_A_YEAR = 4.0  #: Mean number of analysts' actions besides those that follow a report
RATINGS = ("Sell", "Hold", "Buy")
ACTIONS = ("upgrade", "downgrade", "target_raised", "target_cut")


@dataclass(frozen=True, slots=True)
class Happening:
    """A piece of news. `broker, rating_before, rating`: of an analyst's action."""

    ticker: str  #: whose
    kind: str  #: one of the happenings of `news.yaml`, or of `ACTIONS`
    time_ns: int  #: when it becomes public
    row: int  #: the session that takes it
    shock: Shock  #: the jump of the price, never later than the first trade after `time_ns`
    broker: str = ""
    rating_before: str = ""
    rating: str = ""
    target: float = 0.0  #: price target in multiples of the last close
    target_before: float = 0.0  #: the one before it, likewise


def _news(seed: int, life: Life, grid: Grid) -> list[Happening]:
    stock = life.stock
    rng = stream(seed, "happenings", stock.ticker)
    kinds = [name for name, kind in wordings().happenings.items() if not kind.sectors or stock.sector in kind.sectors]
    happenings = []
    last_kind = ""
    for row in np.flatnonzero(rng.random(len(grid)) < _A_YEAR / 252).tolist():
        kind = str(rng.choice([name for name in kinds if name != last_kind]))
        when, minute = float(rng.random()), int(rng.integers(5, max(6, grid.lengths[row] - 15)))
        strength = float(rng.uniform(0.6, 1.5))
        size = float(np.clip(wordings().happenings[kind].size * stock.volatility * strength, -0.3, 0.3))
        early, late = int(rng.integers(6 * 60, 9 * 60 + 10)), int(rng.integers(16 * 60 + 20, 19 * 60))
        takes = row + 1 if when > 0.85 else row
        if takes >= len(grid) or life.quiet(row) or life.quiet(takes):
            continue
        if when < 0.6:
            time_ns, shock = grid.minute_ns(row, minute), Shock(row, minute, size, 1.8)
        elif when <= 0.85:
            time_ns, shock = new_york(grid.days[row], *divmod(early, 60)), Shock(row, 0, size, 1.4)
        else:
            time_ns, shock = new_york(grid.days[row], *divmod(late, 60)), Shock(takes, 0, size, 1.4)
        last_kind = kind
        happenings.append(Happening(stock.ticker, kind, time_ns, takes, shock))
    return happenings


def _actions(seed: int, life: Life, reports: Sequence[Report], grid: Grid) -> list[Happening]:
    """Return analysts' actions before the open; the ratings of each broker follow from one another."""
    stock = life.stock
    rng = stream(seed, "analysts", stock.ticker)
    ratings = {broker: int(rng.choice([0, 1, 1, 2, 2])) for broker in wordings().brokers}
    sides = {row: float(rng.choice([-1.0, 1.0])) for row in np.flatnonzero(rng.random(len(grid)) < _ACTIONS_A_YEAR / 252).tolist()}
    sides |= _after_reports(rng, reports)
    actions = []
    for row, side in sorted(sides.items()):
        broker, moves = str(rng.choice(wordings().brokers)), bool(rng.random() < 0.5)
        strength, at = float(rng.uniform(0.6, 1.4)), int(rng.integers(7 * 60, 9 * 60 + 15))
        before = ratings[broker]
        after = before + int(side) if moves and 0 <= before + int(side) < len(RATINGS) else before
        if row >= len(grid) or life.quiet(row):
            continue
        kind = ACTIONS[0 if after > before else 1 if after < before else 2 if side > 0 else 3]
        ratings[broker] = after
        base = 0.93 + 0.11 * after
        size = side * stock.volatility * strength * (0.8 if after != before else 0.3)
        target, shock = base * (1.0 + 0.03 * strength), Shock(row, 0, size)
        action = (broker, RATINGS[before], RATINGS[after], target, target * (1.0 - side * 0.07 * strength))
        actions.append(Happening(stock.ticker, kind, new_york(grid.days[row], *divmod(at, 60)), row, shock, *action))
    return actions


def _after_reports(rng: np.random.Generator, reports: Sequence[Report]) -> dict[int, float]:
    """Rows of the mornings after reports on which an analyst acts, and on which side: that of the surprise."""
    rows = {}
    for report in reports:
        acts = rng.random() < 0.6
        if acts and report.reaction_row is not None:
            rows[report.reaction_row + int(report.before_open)] = 1.0 if report.eps >= report.estimate else -1.0
    return rows


_MARKET_VOLATILITY, _MARKET_DRIFT = 0.0085, 0.0003
_SECTOR_VOLATILITY = 0.0045
_COIN_VOLATILITY = 0.026
_TRADES: Mapping[Size, tuple[float, float]] = {
    "mega": (260_000.0, 95.0),
    "large": (62_000.0, 82.0),
    "mid": (11_000.0, 75.0),
    "thin": (420.0, 90.0),
}  #: Trades on an ordinary day, and shares of one
_COIN_TRADES = 90_000.0


@dataclass(frozen=True, eq=False)
class Common:
    """Moves of the market, and of each sector on top of it."""

    market: Moves
    sectors: Mapping[str, Moves]


@dataclass(frozen=True)
class Course:
    """Happenings of a company, before it is known what that does to its price."""

    life: Life  #: listing, splits, dividends, halt, bid
    reports: tuple[Report, ...]  #: its earnings
    happenings: tuple[Happening, ...]  #: news of its own, and what analysts say
    shocks: tuple[Shock, ...]  #: jumps that reports and happenings cause


@dataclass(frozen=True, eq=False)
class Quotes:
    """Closes of all stocks."""

    grid: Grid  #: days
    close: Mapping[str, FloatArray] = field(default_factory=dict)  #: ticker -> [D] dollars; NaN on days without a bar
    #: ticker -> [D] the last close before each day in that day's shares (a split divides it); NaN before the listing
    before: Mapping[str, FloatArray] = field(default_factory=dict)

    def change(self, ticker: str, row: int) -> float:
        """Percent from the last close to a day's; NaN where there is none."""
        return float((self.close[ticker][row] / self.before[ticker][row] - 1.0) * 100.0)

    def changes(self, row: int) -> dict[str, float]:
        """Percent of all stocks that have one, by ticker."""
        percents = {ticker: self.change(ticker, row) for ticker in sorted(self.close)}
        return {ticker: change for ticker, change in percents.items() if np.isfinite(change)}


def closes_of(grid: Grid, tape: MarketTape, splits: Mapping[int, float]) -> tuple[FloatArray, FloatArray]:
    """[D] closes of a stock, and [D] the last close before each day in that day's shares; `splits`: row of an ex-day -> ratio."""
    close = np.full(len(grid), np.nan)
    close[np.searchsorted(grid.midnight_ns, tape.days.start_ns)] = tape.days.close_e4 / 1e4
    before = np.full(len(grid), np.nan)
    last = np.nan
    for row in range(len(grid)):
        last /= splits.get(row, 1.0)
        before[row] = last
        last = close[row] if np.isfinite(close[row]) else last
    return close, before


def common_moves(seed: int, grid: Grid, shocks: list[Shock]) -> Common:
    """Return what moves all stocks, with the jumps of economic releases."""
    market = draw_moves(seed, ("equities",), grid, _MARKET_VOLATILITY, _MARKET_DRIFT)
    sectors = {sector: draw_moves(seed, ("sector", sector), grid, _SECTOR_VOLATILITY) for sector in SECTORS}
    return Common(with_shocks(market, shocks), sectors)


def draw_course(seed: int, stock: Stock, grid: Grid) -> Course:
    """Return what happens to a company."""
    life = live(seed, stock, grid)
    reports, report_shocks = draw_reports(seed, life, grid)
    unsorted = [*_news(seed, life, grid), *_actions(seed, life, reports, grid)]
    happenings = tuple(sorted(unsorted, key=lambda happening: (happening.time_ns, happening.kind)))
    return Course(life, reports, happenings, (*report_shocks, *(happening.shock for happening in happenings)))


def make_stock(seed: int, grid: Grid, common: Common, course: Course) -> MarketTape:
    """Return a stock's bars on all days."""
    life, stock = course.life, course.life.stock
    own = with_shocks(draw_moves(seed, ("stock", stock.ticker), grid, stock.volatility), course.shocks)
    parts = [(stock.beta, common.market), (1.0, common.sectors[stock.sector]), (1.0, own)]
    moves = with_shocks(combine(parts, life.exposure(len(grid))), life.shocks)
    trades, size = _TRADES[stock.size]
    sizes = size * np.array([life.shares_per_first(day) for day in grid.days])
    traded = Traded(stock.price, log_factor(life, grid, moves), life.open_days(len(grid)), trades, sizes)
    return make_tape(seed, ("stock", stock.ticker), grid, moves, traded)


def usual_volatility(stock: Stock) -> float:
    """Standard deviation of an ordinary day's return of a stock."""
    return math.hypot(stock.beta * _MARKET_VOLATILITY, _SECTOR_VOLATILITY, stock.volatility)


def coin_moves(seed: int, grid: Grid) -> Moves:
    """Return what moves all coins."""
    return draw_moves(seed, ("all coins",), grid, _COIN_VOLATILITY, 0.0006)


def make_coin(seed: int, grid: Grid, common: Moves, coin: Coin) -> MarketTape:
    """Return a coin's bars on all days, every minute of them."""
    own = draw_moves(seed, ("coin", coin.ticker), grid, coin.volatility)
    moves = combine([(coin.beta, common), (1.0, own)])
    days = len(grid)
    size = np.full(days, coin.coins_a_day / _COIN_TRADES)
    traded = Traded(coin.price, np.zeros(days), np.ones(days, dtype=np.bool_), _COIN_TRADES, size, whole=False)
    return make_tape(seed, ("coin", coin.ticker), grid, moves, traded)


def coin_row(coin: Coin, grid: Grid) -> SymbolRow:
    """Return the coin's listing, known from a year before the first day."""
    return SymbolRow(coin.ticker, "crypto", coin.name, "crypto", day_start(grid.days[0]) - 365 * DAY)


_TENORS = np.array(list(TENOR_YEARS.values()))
_LENDABLE: dict[Size, int] = {"mega": 9_000_000, "large": 3_000_000, "mid": 600_000, "thin": 60_000}


@dataclass(frozen=True, eq=False)
class Curves:
    """Yields of each day."""

    percent: FloatArray  #: [D, 7] by tenor, to two decimals

    def before(self, row: FloatArray, years: FloatArray) -> FloatArray:
        """[n] yields as fractions, on the curve of the day before each row (the first day's own), interpolated in time."""
        day = np.maximum(row.astype(np.int64) - 1, 0)
        right = np.clip(np.searchsorted(_TENORS, years), 1, len(_TENORS) - 1)
        weight = np.clip((years - _TENORS[right - 1]) / (_TENORS[right] - _TENORS[right - 1]), 0.0, 1.0)
        fractions: FloatArray = (self.percent[day, right - 1] * (1.0 - weight) + self.percent[day, right] * weight) / 100.0
        return fractions


def draw_curves(seed: int, readings: Sequence[Reading], grid: Grid) -> Curves:
    """Return a curve from the policy rate to a long yield that wanders and takes the economic surprises."""
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
    return Curves(np.round(np.maximum(percent, 0.05), 2))


def rate_rows(curves: Curves, grid: Grid) -> list[RateRow]:
    """Return each day's curve, published at six in the evening."""
    names = tuple(TENOR_YEARS)
    return [
        RateRow(day, dict(zip(names, curves.percent[row].tolist(), strict=True)), new_york(day, 18))
        for row, day in enumerate(grid.days)
    ]


def borrow_rows(seed: int, life: Life, grid: Grid) -> list[BorrowRow]:
    """Return what can be borrowed, stated anew before the first session of each week: plenty and cheap, or little and dear."""
    rng = stream(seed, "borrow", life.stock.ticker)
    hard = life.stock.hard_to_borrow
    fee, rows = float(rng.uniform(600, 2_400)), []
    plenty = _LENDABLE[life.stock.size]
    week = None
    for row, day in enumerate(grid.days):
        fee *= float(np.exp(0.05 * rng.standard_normal()))
        luck = float(rng.random())
        this_week = day.isocalendar()[:2]
        if this_week == week or not life.first_row <= row <= life.last_row:
            continue
        week = this_week
        shares = int(plenty * (0.002 + 0.02 * luck if hard else 0.6 + 0.8 * luck)) // 100 * 100
        bps = round(float(np.clip(fee, 300, 9_000))) if hard else int(25 + 10 * (luck < 0.2))
        opened = int(grid.midnight_ns[0]) - DAY if row == 0 else new_york(day, 8)
        available = int(grid.open_ns[row]) if row == life.first_row > 0 else opened
        rows.append(BorrowRow(life.stock.ticker, available, shares, bps))
    if life.last_row < len(grid) - 1:
        rows.append(BorrowRow(life.stock.ticker, int(grid.close_ns[life.last_row]), 0, 0))
    return rows
