"""Articles of a market, each published after its facts are public. This module covers the market as
a whole; `news_company.py` covers single companies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property

import numpy as np

from ktdeval_qfinzero.data.rows import E4, Bars, NewsRow
from ktdeval_qfinzero.data.synthetic.companies import Coin, Stock
from ktdeval_qfinzero.data.synthetic.macro import SeriesRelease
from ktdeval_qfinzero.data.synthetic.minute_grid import MinuteGrid
from ktdeval_qfinzero.data.synthetic.news_company import (
    company_news_article,
    life_articles,
    report_articles,
)
from ktdeval_qfinzero.data.synthetic.option_bars import OptionFlow
from ktdeval_qfinzero.data.synthetic.prices import ACTIONS, CompanyCourse, StockCloses
from ktdeval_qfinzero.data.synthetic.wordings import (
    Newsroom,
    choice,
    fill,
    sentiment,
    wordings,
)
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_of

_LARGE_MOVE = 7.0  #: Minimum daily move of a crypto asset, in percent, that makes news
_WINDOW = 20  #: Number of sessions whose mean option volume defines the usual level
_UNUSUAL = 2.4  #: Minimum multiple of the usual option volume that makes news


@dataclass(frozen=True, eq=False)
class NewsFacts:
    """Facts from which articles are written."""

    quotes: StockCloses  #: closes of the stocks
    readings: Sequence[SeriesRelease]  #: economic releases
    courses: list[CompanyCourse] = field(default_factory=list)  #: events of each company
    #: ticker -> volumes of its options
    flows: dict[str, OptionFlow] = field(default_factory=dict)
    #: ticker -> crypto asset and its daily bars
    coins: dict[str, tuple[Coin, Bars]] = field(default_factory=dict)

    @cached_property
    def stocks(self) -> dict[str, Stock]:
        """Companies by ticker."""
        return {course.life.stock.ticker: course.life.stock for course in self.courses}

    @cached_property
    def reasons(self) -> dict[tuple[str, int], str]:
        """Main reason for a stock's move, keyed by (ticker, row), if the reason is public at the
        close.
        """
        reason_of = dict(wordings().reasons)
        for kind, form in wordings().company_news.items():
            reason_of[kind] = form.reason

        # Later assignments replace earlier ones: a bid outranks a report, a report outranks news,
        # and news outranks an analyst's action.
        reasons: dict[tuple[str, int], str] = {}
        for course in self.courses:
            ticker = course.life.stock.ticker
            for item in sorted(course.news, key=lambda item: item.kind not in ACTIONS):
                if reason_of.get(item.kind):
                    reasons[ticker, item.row] = reason_of[item.kind]

            for report in course.reports:
                if report.reaction_row is not None:
                    text = fill(reason_of["report"], {"report": report})
                    reasons[ticker, report.reaction_row] = text

            if course.life.bid_row is not None:
                reasons[ticker, course.life.bid_row] = reason_of["bid"]

        return reasons


@dataclass(frozen=True, slots=True)
class _StockMove:
    stock: Stock
    change: float  #: percent
    reason: str  #: empty if no reason is public


def make_news(seed: int, facts: NewsFacts) -> tuple[NewsRow, ...]:
    """Return the articles published before the last day ends, sorted by time."""
    end_ns = int(facts.quotes.grid.midnight_ns[-1]) + DAY
    articles: list[NewsRow] = []
    for row in _articles(Newsroom(seed), facts):
        if row is not None and row.published_ns < end_ns:
            articles.append(row)

    return tuple(sorted(articles, key=lambda row: (row.published_ns, row.id)))


def _articles(room: Newsroom, facts: NewsFacts) -> Iterator[NewsRow | None]:
    quotes = facts.quotes
    for course in facts.courses:
        stock = course.life.stock
        yield from life_articles(room, course.life, quotes)
        for report in course.reports:
            yield from report_articles(room, stock, report, quotes)

        for item in course.news:
            yield company_news_article(room, stock, item, quotes)

        if stock.ticker in facts.flows:
            yield from _flow_articles(room, stock, quotes.grid, facts.flows[stock.ticker])

    for row in range(len(quotes.grid)):
        yield _close_article(room, facts, row)

    for reading in facts.readings:
        yield _reading_article(room, reading)

    yield from _coin_articles(room, facts.coins)


def _close_article(room: Newsroom, facts: NewsFacts, row: int) -> NewsRow | None:
    """Return the article about a session's close; None for the first day, which has no changes."""
    grid = facts.quotes.grid
    changes = facts.quotes.changes(row)
    if not changes:
        return None

    day = grid.days[row]
    close_ns = int(grid.close_ns[row])
    order = sorted(changes, key=lambda ticker: (changes[ticker], ticker))
    moves: list[_StockMove] = []
    for ticker in order:
        reason = facts.reasons.get((ticker, row), "")
        moves.append(_StockMove(facts.stocks[ticker], changes[ticker], reason))

    best = moves[::-1][:2]
    worst = moves[:2]
    mean = float(np.mean(list(changes.values())))
    coming: list[str] = []
    if row + 1 < len(grid):
        coming = _coming(facts, close_ns, grid.days[row + 1])

    leader = best[0]
    if mean < 0:
        leader = worst[0]

    values = {
        "day": day,
        "mean": mean,
        "leader": leader,
        "moves": list(changes.values()),
        "best": best,
        "worst": worst,
        "sectors": _sectors(facts, changes),
        "released": _list_releases(facts, close_ns, day),
        "coming": coming,
    }
    rng = room.stream("close", str(day))
    title = choice(rng, "close_title")
    published_ns = close_ns + int(rng.integers(18, 50)) * MINUTE
    tones = [(move.stock.ticker, sentiment(move.change, 0.05)) for move in (best[0], worst[0])]
    # With fewer than four stocks, the best and the worst overlap.
    mentioned = order
    if len(order) >= 4:
        mentioned = [move.stock.ticker for move in (*best, *worst)]

    return room.write("close", published_ns, values, tones=tones, tickers=mentioned, title=title)


def _reading_article(room: Newsroom, reading: SeriesRelease) -> NewsRow | None:
    """Return the article about an economic release; None if the number is not news."""
    if not _is_news(reading):
        return None

    rng = room.stream("reading", reading.event_id)
    values = {"reading": reading, "series": reading.series}
    words: dict[str, str] = {}
    # Only decisions on interest rates have no reference period.
    template = "decision"
    if reading.series.period != "none":
        template = "number"
        words["verdict"] = choice(rng, "verdict")

    published_ns = reading.time_ns + int(rng.integers(1, 7)) * MINUTE
    return room.write(template, published_ns, values, words=words)


def _is_news(reading: SeriesRelease) -> bool:
    series = reading.series
    if series.importance == "low" and series.market == "us":
        return False
    if series.key == "claims":
        # These series are weekly, so only a surprise is news.
        return abs(reading.surprise) >= 1.0
    return True


def _coin_articles(room: Newsroom, coins: Mapping[str, tuple[Coin, Bars]]) -> Iterator[NewsRow]:
    """Yield an article about each day with a large move, and on Mondays about the week before. Only
    complete daily bars are used.
    """
    if not coins:
        return

    for coin, bars in coins.values():
        changes = (bars.close_e4[1:] / bars.close_e4[:-1] - 1.0) * 100.0
        for index in np.flatnonzero(np.abs(changes) >= _LARGE_MOVE).tolist():
            change = float(changes[index])
            yield _coin_move(room, coin, bars, index + 1, change)

    _, first_bars = next(iter(coins.values()))
    for index in range(7, len(first_bars.start_ns)):
        start_ns = int(first_bars.start_ns[index])
        if day_of(start_ns).weekday() == 0:
            yield _coin_week(room, coins, index, start_ns)


def _coin_move(room: Newsroom, coin: Coin, bars: Bars, index: int, change: float) -> NewsRow:
    """Return the article about one day's large move in a crypto asset, in percent."""
    start_ns = int(bars.start_ns[index])
    values = {
        "coin": coin,
        "day": day_of(start_ns),
        "change": change,
        "close": float(bars.close_e4[index]) / E4,
    }
    tones = [(coin.ticker, sentiment(change))]

    return room.write(
        "coin_move", start_ns + DAY + 10 * MINUTE, values, tones=tones, tickers=[coin.ticker]
    )


def _flow_articles(
    room: Newsroom, stock: Stock, grid: MinuteGrid, flow: OptionFlow
) -> Iterator[NewsRow]:
    """Yield an article for each day with an unusual volume of calls or puts."""
    others_of = {"call": flow.puts, "put": flow.calls}
    for row in range(_WINDOW, len(grid)):
        for right, volumes in (("call", flow.calls), ("put", flow.puts)):
            usual = float(np.mean(volumes[row - _WINDOW : row]))
            volume = float(volumes[row])
            side = (row, right == "call")
            is_unusual = usual > 0 and volume > _UNUSUAL * usual
            if not is_unusual or side not in flow.top:
                continue

            contract, top = flow.top[side]
            values = {
                "stock": stock,
                "day": grid.days[row],
                "right": right,
                "volume": volume,
                "usual": usual,
                "sessions": _WINDOW,
                "other": float(others_of[right][row]),
                "contract": contract,
                "top": top,
            }
            rng = room.stream("flow", stock.ticker, str(row), right)
            published_ns = int(grid.close_ns[row]) + int(rng.integers(20, 60)) * MINUTE
            yield room.write("flow", published_ns, values)


def _sectors(facts: NewsFacts, changes: Mapping[str, float]) -> list[tuple[float, str]]:
    """Return the mean change of each sector, in ascending order."""
    groups: dict[str, list[float]] = {}
    for ticker, change in changes.items():
        groups.setdefault(facts.stocks[ticker].sector, []).append(change)

    return sorted((float(np.mean(values)), sector) for sector, values in groups.items())


def _list_releases(facts: NewsFacts, now_ns: int, day: date) -> list[SeriesRelease]:
    """Return the main US releases of the day so far."""
    released: list[SeriesRelease] = []
    for reading in facts.readings:
        is_main = reading.series.importance != "low" and reading.series.market == "us"
        if is_main and reading.day == day and reading.time_ns < now_ns:
            released.append(reading)

    return released


def _coming(facts: NewsFacts, now_ns: int, day: date) -> list[str]:
    """Return the releases and reports due on a day that are announced by now."""
    titles: list[str] = []
    for reading in facts.readings:
        is_main = reading.series.importance != "low"
        if is_main and reading.day == day and reading.announced_ns <= now_ns:
            titles.append(reading.title)

    for course in facts.courses:
        for report in course.reports:
            if report.day == day and report.announced_ns <= now_ns:
                titles.append(f"{course.life.stock.name} results")

    return titles


def _coin_week(
    room: Newsroom, coins: Mapping[str, tuple[Coin, Bars]], index: int, monday_ns: int
) -> NewsRow:
    """Return the article about the week before a Monday; `index` is the index of the Monday's daily
    bar.
    """
    moves: dict[str, float] = {}
    for ticker, (_, bars) in coins.items():
        moves[ticker] = float(bars.close_e4[index - 1] / bars.open_e4[index - 7] - 1) * 100

    order = sorted(moves, key=lambda ticker: (-moves[ticker], ticker))
    lines: list[tuple[Coin, float, float]] = []
    for ticker in order:
        coin, bars = coins[ticker]
        lines.append((coin, moves[ticker], float(bars.close_e4[index - 1]) / E4))

    first = day_of(monday_ns - 7 * DAY)
    lead, _ = coins[order[0]]
    values = {"first": first, "last": day_of(monday_ns - DAY), "lead": lead, "lines": lines}
    rng = room.stream("coin week", str(first))
    published_ns = monday_ns + int(rng.integers(20, 90)) * MINUTE
    title = choice(rng, "coin_week_title")
    tones = [(ticker, sentiment(moves[ticker], 1.0)) for ticker in order]

    return room.write("coin_week", published_ns, values, tones=tones, tickers=order, title=title)
