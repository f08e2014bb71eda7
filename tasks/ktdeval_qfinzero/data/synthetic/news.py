"""Write all articles of a market, each after its facts are public. This module has those about the
market as a whole; `news_company.py` has those about one company.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
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
    Slots,
    choice,
    phrase,
    sentiment,
    wordings,
)
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_of

_LARGE_MOVE = 7.0  #: Percent from which a coin's day is news
_WINDOW = 20  #: Sessions whose mean volume of options is the usual one
_UNUSUAL = 2.4  #: Multiple of the usual volume from which a volume of options is news


@dataclass(frozen=True, eq=False)
class NewsFacts:
    """Facts that articles are written from."""

    quotes: StockCloses  #: closes of the stocks
    courses: Sequence[CompanyCourse]  #: what happened to each company
    readings: Sequence[SeriesRelease]  #: economic releases
    flows: Mapping[str, OptionFlow]  #: ticker -> volumes of its options
    coins: Mapping[str, tuple[Coin, Bars]]  #: ticker -> coin, and its bars of days

    @cached_property
    def stocks(self) -> dict[str, Stock]:
        """Companies by ticker."""
        return {course.life.stock.ticker: course.life.stock for course in self.courses}

    @cached_property
    def reasons(self) -> dict[tuple[str, int], str]:
        """Main reason of a stock's move by (ticker, row), if it is public at the close."""
        reason_of: dict[str, str] = {}
        for kind, form in wordings().company_news.items():
            if form.reason:
                reason_of[kind] = form.reason
        for action in ("upgrade", "downgrade"):
            reason_of[action] = phrase(f"reason_{action}")

        # Each assignment replaces the one before: a bid counts more than a report, a report more
        # than news, news more than what an analyst says.
        reasons: dict[tuple[str, int], str] = {}
        for course in self.courses:
            ticker = course.life.stock.ticker
            for item in sorted(course.news, key=lambda item: item.kind not in ACTIONS):
                if item.kind in reason_of:
                    reasons[ticker, item.row] = reason_of[item.kind]

            for report in course.reports:
                if report.reaction_row is not None:
                    reasons[ticker, report.reaction_row] = phrase("reason_report", report=report)

            if course.life.bid_row is not None:
                reasons[ticker, course.life.bid_row] = phrase("reason_bid")

        return reasons


def make_news(seed: int, facts: NewsFacts) -> tuple[NewsRow, ...]:
    """Return the articles published before the last day ends, by time."""
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
    quotes = facts.quotes
    changes = quotes.changes(row)
    if not changes:
        return None

    grid = quotes.grid
    day = grid.days[row]
    rng = room.stream("close", str(day))
    mean = float(np.mean(list(changes.values())))
    order = sorted(changes, key=lambda ticker: (changes[ticker], ticker))
    best = order[::-1][:2]
    worst = order[:2]
    is_up = mean >= 0
    leader = worst[0]
    if is_up:
        leader = best[0]

    way = mean
    if abs(mean) <= 0.15:
        way = 0.0

    close_ns = int(grid.close_ns[row])
    coming = ""
    if row + 1 < len(grid):
        coming = _coming(facts, close_ns, grid.days[row + 1])

    slots: Slots = {
        "day": day,
        "mood": phrase("mood", way=way),
        "mean": mean,
        "up": is_up,
        "leader": facts.stocks[leader],
        "leader_change": changes[leader],
        "sectors": _sectors(facts, changes),
        "count": len(changes),
        "rising": sum(change > 0 for change in changes.values()),
        "gains": _movers(facts, changes, best, row),
        "losses": _movers(facts, changes, worst, row),
        "released": _list_releases(facts, close_ns, day),
        "coming": coming,
    }
    slots["title"] = choice(rng, "close_title", **slots)
    published_ns = close_ns + int(rng.integers(18, 50)) * MINUTE
    tones = [(ticker, sentiment(changes[ticker], 0.05)) for ticker in (best[0], worst[0])]
    # With fewer than four stocks, the best and the worst overlap.
    mentioned = [*best, *worst] if len(changes) >= 4 else order

    return room.write(
        "close",
        published_ns,
        slots,
        tones,
        mentioned,
        importance="medium" if abs(mean) > 1.2 else "low",
    )


def _reading_article(room: Newsroom, reading: SeriesRelease) -> NewsRow | None:
    """Return the article about an economic release; None if the number is not news."""
    if not _is_news(reading):
        return None

    series = reading.series
    rng = room.stream("reading", reading.event_id)
    slots: Slots = {
        "reading": reading,
        "series": series,
        "keyword": series.title.casefold(),
        **_release_figures(reading),
    }
    # Only decisions on interest rates have no reference period.
    if series.period == "none":
        template = "decision"
        slots |= _decision(reading)
    else:
        template = "number"
        slots["verdict"] = choice(rng, "verdict")

    return room.write(
        template,
        reading.time_ns + int(rng.integers(1, 7)) * MINUTE,
        slots,
        event_type="breaking_news" if series.importance == "high" else "daily_news",
        importance=series.importance,
        market=series.market,
    )


def _is_news(reading: SeriesRelease) -> bool:
    series = reading.series
    if series.importance == "low" and series.market == "us":
        return False
    if series.key == "claims":
        # These come each week: only a surprise is news.
        return abs(reading.surprise) >= 1.0
    return True


def _coin_articles(room: Newsroom, coins: Mapping[str, tuple[Coin, Bars]]) -> Iterator[NewsRow]:
    """Yield an article about each day with a large move, and on Mondays about the week before.
    They use complete daily bars only.
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
    """Return the article about one day's large move, in percent, of a coin."""
    start_ns = int(bars.start_ns[index])
    slots: Slots = {
        "coin": coin,
        "day": day_of(start_ns),
        "up": change > 0,
        "change": change,
        "close": float(bars.close_e4[index]) / E4,
    }

    return room.write(
        "coin_move",
        start_ns + DAY + 10 * MINUTE,
        slots,
        [(coin.ticker, sentiment(change))],
        [coin.ticker],
        importance="medium" if abs(change) < 2 * _LARGE_MOVE else "high",
    )


def _flow_articles(
    room: Newsroom, stock: Stock, grid: MinuteGrid, flow: OptionFlow
) -> Iterator[NewsRow]:
    """Yield an article for each day with an unusual volume of calls or of puts."""
    for row in range(_WINDOW, len(grid)):
        for is_call in (True, False):
            article = _flow_article(room, stock, grid, flow, row, is_call=is_call)
            if article is not None:
                yield article


def _flow_article(
    room: Newsroom, stock: Stock, grid: MinuteGrid, flow: OptionFlow, row: int, *, is_call: bool
) -> NewsRow | None:
    """Return the article about a day's volume of calls or puts; None if it is not unusual."""
    if is_call:
        right, volumes, others = "call", flow.calls, flow.puts
    else:
        right, volumes, others = "put", flow.puts, flow.calls

    usual = float(np.mean(volumes[row - _WINDOW : row]))
    volume = float(volumes[row])
    is_unusual = usual > 0 and volume > _UNUSUAL * usual
    if not is_unusual or (row, is_call) not in flow.top:
        return None

    contract, top = flow.top[row, is_call]
    ratio = volume / usual
    slots: Slots = {
        "stock": stock,
        "day": grid.days[row],
        "is_call": is_call,
        "volume": volume,
        "usual": usual,
        "sessions": _WINDOW,
        "ratio": ratio,
        "other": float(others[row]),
        "contract": contract,
        "top": top,
        "strike": contract.strike_e4 / E4,
    }
    rng = room.stream("flow", stock.ticker, str(row), right)
    published_ns = int(grid.close_ns[row]) + int(rng.integers(20, 60)) * MINUTE

    return room.write("flow", published_ns, slots, importance="medium" if ratio > 4 else "low")


def _sectors(facts: NewsFacts, changes: Mapping[str, float]) -> str:
    """Name the best and the worst sector; empty if there is only one."""
    groups: dict[str, list[float]] = {}
    for ticker, change in changes.items():
        groups.setdefault(facts.stocks[ticker].sector, []).append(change)

    means = sorted((float(np.mean(values)), sector) for sector, values in groups.items())
    if len(means) < 2:
        return ""

    low, worst = means[0]
    high, best = means[-1]
    return phrase("sectors", best=best, high=high, worst=worst, low=low)


def _movers(
    facts: NewsFacts, changes: Mapping[str, float], tickers: Sequence[str], row: int
) -> str:
    """Name stocks with their moves and, if public, the reasons."""
    texts: list[str] = []
    for ticker in tickers:
        reason = facts.reasons.get((ticker, row), "")
        if reason:
            reason = f" {reason}"

        stock = facts.stocks[ticker]
        texts.append(phrase("mover", stock=stock, change=changes[ticker], reason=reason))

    return " and ".join(texts)


def _list_releases(facts: NewsFacts, now_ns: int, day: date) -> str:
    """List the main American releases of a day until now; empty if there were none."""
    texts: list[str] = []
    for reading in facts.readings:
        is_main = reading.series.importance != "low" and reading.series.market == "us"
        if is_main and reading.day == day and reading.time_ns < now_ns:
            texts.append(phrase("reading", reading=reading, **_release_figures(reading)))

    if not texts:
        return ""
    return phrase("released", readings="; ".join(texts))


def _coming(facts: NewsFacts, now_ns: int, day: date) -> str:
    """List releases and reports of a day that are announced by now; empty if there are none."""
    titles: list[str] = []
    for reading in facts.readings:
        is_main = reading.series.importance != "low"
        if is_main and reading.day == day and reading.announced_ns <= now_ns:
            titles.append(reading.title)

    for course in facts.courses:
        for report in course.reports:
            if report.day == day and report.announced_ns <= now_ns:
                titles.append(f"{course.life.stock.name} results")

    if not titles:
        return ""
    return phrase("coming", titles=", ".join(titles))


def _release_figures(reading: SeriesRelease) -> Slots:
    """Return a release's values as texts, and the gap between the actual one and the consensus."""
    actual = _figure_text(reading, reading.actual)
    consensus = _figure_text(reading, reading.consensus)
    gap = reading.actual - reading.consensus
    # Words such as "above" must agree with the rounded figures beside them.
    shown_gap = 0.0 if actual == consensus else gap

    return {
        "actual": actual,
        "consensus": consensus,
        "previous": _figure_text(reading, reading.previous),
        "gap": gap,
        "shown_gap": shown_gap,
    }


def _figure_text(reading: SeriesRelease, value: float) -> str:
    """Write a value in the unit of its series."""
    match reading.series.unit:
        case "pct":
            return f"{value:.{reading.series.digits}f}%"
        case "count":
            return f"{value:,.0f}"
        case "index":
            return f"{value:.1f}"


def _decision(reading: SeriesRelease) -> Slots:
    """Return the slots of an article about a decision on interest rates."""
    series = reading.series
    tone = "even"
    # Other banks do what was expected: see `macro._policy`.
    if series.country == "US" and abs(reading.surprise) > 0.3:
        tone = "firm" if reading.surprise > 0 else "soft"

    return {
        "bank": series.title.removesuffix(" Rate Decision").removesuffix(" Deposit"),
        "body": phrase(f"decision_{series.country}"),
        "step": reading.actual - reading.previous,
        "as_expected": reading.actual == reading.consensus,
        "tone": phrase(f"tone_{tone}"),
        "rate": series.describe.removesuffix(", percent"),
    }


def _coin_week(
    room: Newsroom, coins: Mapping[str, tuple[Coin, Bars]], index: int, monday_ns: int
) -> NewsRow:
    """Return the article about the week before a Monday, whose daily bar has this index."""
    moves: dict[str, float] = {}
    for ticker, (_, bars) in coins.items():
        moves[ticker] = float(bars.close_e4[index - 1] / bars.open_e4[index - 7] - 1) * 100

    order = sorted(moves, key=lambda ticker: (-moves[ticker], ticker))
    lines: list[str] = []
    for ticker in order:
        coin, bars = coins[ticker]
        close = float(bars.close_e4[index - 1]) / E4
        lines.append(phrase("coin", coin=coin, change=moves[ticker], close=close))

    first = day_of(monday_ns) - timedelta(days=7)
    last = day_of(monday_ns) - timedelta(days=1)
    lead, _ = coins[order[0]]
    rng = room.stream("coin week", str(first))
    published_ns = monday_ns + int(rng.integers(20, 90)) * MINUTE
    slots: Slots = {"first": first, "last": last, "lead": lead, "lines": "; ".join(lines)}
    slots["title"] = choice(rng, "coin_week_title", **slots)
    tones = [(ticker, sentiment(moves[ticker], 1.0)) for ticker in order]

    return room.write("coin_week", published_ns, slots, tones, order)
