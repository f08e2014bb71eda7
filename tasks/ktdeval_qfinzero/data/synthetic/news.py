"""All articles of a market, each published after its facts are public; here those about the market as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from ktdeval_qfinzero.data.rows import Bars, NewsRow
from ktdeval_qfinzero.data.synthetic.corporate import Coin, Stock
from ktdeval_qfinzero.data.synthetic.grid import Grid
from ktdeval_qfinzero.data.synthetic.macro import Reading
from ktdeval_qfinzero.data.synthetic.news_company import happening_article, life_articles, report_articles
from ktdeval_qfinzero.data.synthetic.option_bars import Flow
from ktdeval_qfinzero.data.synthetic.prices import ACTIONS, Course, Quotes
from ktdeval_qfinzero.data.synthetic.wordings import Newsroom, choice, phrase, sentiment, wordings
from ktdeval_qfinzero.moments import DAY, MINUTE, day_of

_LARGE_MOVE = 7.0  #: Percent from which a coin's day is news
_WINDOW = 20
_UNUSUAL = 2.4  #: Times the mean of the window before, from which a volume of options is news


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts that articles are written from."""

    quotes: Quotes  #: closes of the stocks
    courses: Sequence[Course]  #: what happened to each company
    readings: Sequence[Reading]  #: economic releases
    flows: Mapping[str, Flow]  #: ticker -> volumes of its options
    coins: Mapping[str, tuple[Coin, Bars]]  #: ticker -> coin, and its bars of days

    @cached_property
    def stocks(self) -> dict[str, Stock]:
        """Companies by ticker."""
        return {course.life.stock.ticker: course.life.stock for course in self.courses}

    @cached_property
    def reasons(self) -> dict[tuple[str, int], str]:
        """Reasons of prices' moves by (ticker, row), as far as public at the close: reports before news, news before analysts."""
        reason_of = {kind: form.reason for kind, form in wordings().happenings.items() if form.reason}
        reason_of |= {action: phrase(f"reason_{action}") for action in ("upgrade", "downgrade")}
        reasons: dict[tuple[str, int], str] = {}
        for course in self.courses:
            ticker = course.life.stock.ticker
            for happening in sorted(course.happenings, key=lambda happening: happening.kind not in ACTIONS):
                if happening.kind in reason_of:
                    reasons[ticker, happening.row] = reason_of[happening.kind]
            for report in course.reports:
                if report.reaction_row is not None:
                    reasons[ticker, report.reaction_row] = phrase("reason_report", report=report)
            if course.life.bid_row is not None:
                reasons[ticker, course.life.bid_row] = phrase("reason_bid")
        return reasons


def make_news(seed: int, facts: Facts) -> tuple[NewsRow, ...]:
    """Return the articles that are published until the last day's end, by time."""
    end_ns = int(facts.quotes.grid.midnight_ns[-1]) + DAY
    rows = [row for row in _articles(Newsroom(seed), facts) if row is not None and row.published_ns < end_ns]
    return tuple(sorted(rows, key=lambda row: (row.published_ns, row.id)))


def _articles(room: Newsroom, facts: Facts) -> Iterator[NewsRow | None]:
    quotes = facts.quotes
    for course in facts.courses:
        stock = course.life.stock
        yield from life_articles(room, course.life, quotes)
        for report in course.reports:
            yield from report_articles(room, stock, report, quotes)
        for happening in course.happenings:
            yield happening_article(room, stock, happening, quotes)
        if stock.ticker in facts.flows:
            yield from _flow_articles(room, stock, quotes.grid, facts.flows[stock.ticker])
    for row in range(len(quotes.grid)):
        yield _close_article(room, facts, row)
    for reading in facts.readings:
        yield _reading_article(room, reading)
    yield from _coin_articles(room, facts.coins)


def _close_article(room: Newsroom, facts: Facts, row: int) -> NewsRow | None:
    """Return the article about a session's close; None on the first day, which nothing can be compared with."""
    quotes = facts.quotes
    changes = quotes.changes(row)
    if not changes:
        return None
    grid, day = quotes.grid, quotes.grid.days[row]
    rng = room.stream("close", str(day))
    mean = float(np.mean(list(changes.values())))
    order = sorted(changes, key=lambda ticker: (changes[ticker], ticker))
    best, worst = order[::-1][:2], order[:2]
    leader = best[0] if mean >= 0 else worst[0]
    close_ns = int(grid.close_ns[row])
    up = {"mood": phrase("mood", way=0.0 if abs(mean) <= 0.15 else mean), "mean": mean, "up": mean >= 0}
    lead = {"leader": facts.stocks[leader], "leader_change": changes[leader], "sectors": _sectors(facts, changes)}
    moved = {"gains": _movers(facts, changes, best, row), "losses": _movers(facts, changes, worst, row)}
    counts = {"count": len(changes), "rising": sum(change > 0 for change in changes.values())}
    coming = _coming(facts, close_ns, grid.days[row + 1]) if row + 1 < len(grid) else ""
    slots = {"day": day, **up, **lead, **counts, **moved, "released": _released(facts, close_ns, day), "coming": coming}
    slots["title"] = choice(rng, "close_title", **slots)
    return room.write(
        "close",
        close_ns + int(rng.integers(18, 50)) * MINUTE,
        slots,
        [(ticker, sentiment(changes[ticker], 0.05)) for ticker in (best[0], worst[0])],
        (*best, *worst) if len(changes) >= 4 else order,
        importance="medium" if abs(mean) > 1.2 else "low",
    )


def _reading_article(room: Newsroom, reading: Reading) -> NewsRow | None:
    """Return the article about an economic release; None where the number is not news."""
    series = reading.series
    if (series.importance == "low" and series.market == "us") or (series.key == "claims" and abs(reading.surprise) < 1.0):
        return None
    rng = room.stream("reading", reading.event_id)
    decision = series.period == "none"
    slots = {"reading": reading, "series": series, "keyword": series.title.casefold(), **_figures(reading)}
    slots |= _decision(reading) if decision else {"verdict": choice(rng, "verdict")}
    return room.write(
        "decision" if decision else "number",
        reading.time_ns + int(rng.integers(1, 7)) * MINUTE,
        slots,
        event_type="breaking_news" if series.importance == "high" else "daily_news",
        importance=series.importance,
        market=series.market,
    )


def _coin_articles(room: Newsroom, coins: Mapping[str, tuple[Coin, Bars]]) -> Iterator[NewsRow]:
    """Yield a look at each week, on Mondays, and days of large moves; from complete bars of days only."""
    if not coins:
        return
    for coin, bars in coins.values():
        changes = (bars.close_e4[1:] / bars.close_e4[:-1] - 1.0) * 100.0
        for index in np.flatnonzero(np.abs(changes) >= _LARGE_MOVE).tolist():
            change, start_ns = float(changes[index]), int(bars.start_ns[index + 1])
            close = float(bars.close_e4[index + 1]) / 1e4
            slots = {"coin": coin, "day": day_of(start_ns), "up": change > 0, "change": change, "close": close}
            tones = [(coin.ticker, sentiment(change))]
            importance = "medium" if abs(change) < 2 * _LARGE_MOVE else "high"
            yield room.write("coin_move", start_ns + DAY + 10 * MINUTE, slots, tones, [coin.ticker], importance=importance)
    starts = next(iter(coins.values()))[1].start_ns
    for index in range(7, len(starts)):
        if day_of(int(starts[index])).weekday() == 0:
            yield _coin_week(room, coins, index, int(starts[index]))


def _flow_articles(room: Newsroom, stock: Stock, grid: Grid, flow: Flow) -> Iterator[NewsRow]:
    """Yield an article for each day on which calls or puts were traded many times as much as in the twenty sessions before."""
    for row in range(_WINDOW, len(grid)):
        for is_call, volumes, others in ((True, flow.calls, flow.puts), (False, flow.puts, flow.calls)):
            usual, volume = float(np.mean(volumes[row - _WINDOW : row])), float(volumes[row])
            if not (usual > 0 and volume > _UNUSUAL * usual and (row, is_call) in flow.top):
                continue
            contract, top = flow.top[row, is_call]
            rng = room.stream("flow", stock.ticker, str(row), "call" if is_call else "put")
            slots = {
                "stock": stock,
                "day": grid.days[row],
                "is_call": is_call,
                "volume": volume,
                "usual": usual,
                "sessions": _WINDOW,
            }
            slots |= {"ratio": volume / usual, "other": float(others[row]), "contract": contract, "top": top}
            slots["strike"] = contract.strike_e4 / 1e4
            time_ns = int(grid.close_ns[row]) + int(rng.integers(20, 60)) * MINUTE
            yield room.write("flow", time_ns, slots, importance="medium" if volume / usual > 4 else "low")


def _sectors(facts: Facts, changes: Mapping[str, float]) -> str:
    groups: dict[str, list[float]] = {}
    for ticker, change in changes.items():
        groups.setdefault(facts.stocks[ticker].sector, []).append(change)
    means = sorted((float(np.mean(values)), sector) for sector, values in groups.items())
    if len(means) < 2:
        return ""
    (low, worst), (high, best) = means[0], means[-1]
    return phrase("sectors", best=best, high=high, worst=worst, low=low)


def _movers(facts: Facts, changes: Mapping[str, float], tickers: Sequence[str], row: int) -> str:
    reasons = {ticker: facts.reasons.get((ticker, row), "") for ticker in tickers}
    return " and ".join(
        phrase("mover", stock=facts.stocks[ticker], change=changes[ticker], reason=f" {reason}" if reason else "")
        for ticker, reason in reasons.items()
    )


def _released(facts: Facts, now_ns: int, day: date) -> str:
    done = [reading for reading in facts.readings if reading.day == day and reading.time_ns < now_ns]
    main = [reading for reading in done if reading.series.importance != "low" and reading.series.market == "us"]
    texts = [phrase("reading", reading=reading, **_figures(reading)) for reading in main]
    return phrase("released", readings="; ".join(texts)) if texts else ""


def _coming(facts: Facts, now_ns: int, day: date) -> str:
    main = [reading for reading in facts.readings if reading.day == day and reading.series.importance != "low"]
    due = [reading.title for reading in main if reading.announced_ns <= now_ns]
    reports = [(course.life.stock.name, report) for course in facts.courses for report in course.reports if report.day == day]
    due += [f"{name} results" for name, report in reports if report.announced_ns <= now_ns]
    return phrase("coming", titles=", ".join(due)) if due else ""


def _figures(reading: Reading) -> dict[str, Any]:
    """Values of a release as texts write them, and how the actual one stands to the consensus."""
    form = {"pct": f".{reading.series.digits}f", "count": ",.0f", "index": ".1f"}[reading.series.unit]
    unit = "%" if reading.series.unit == "pct" else ""
    names = ("actual", "consensus", "previous")
    texts = {name: f"{getattr(reading, name):{form}}{unit}" for name in names}
    gap = reading.actual - reading.consensus
    return {**texts, "gap": gap, "shown_gap": 0.0 if texts["actual"] == texts["consensus"] else gap}


def _decision(reading: Reading) -> dict[str, Any]:
    series, tone = reading.series, "even"
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


def _coin_week(room: Newsroom, coins: Mapping[str, tuple[Coin, Bars]], index: int, monday_ns: int) -> NewsRow:
    moves = {ticker: float(bars.close_e4[index - 1] / bars.open_e4[index - 7] - 1) * 100 for ticker, (_, bars) in coins.items()}
    order = sorted(moves, key=lambda ticker: (-moves[ticker], ticker))
    first, last = day_of(monday_ns) - timedelta(days=7), day_of(monday_ns) - timedelta(days=1)
    rng = room.stream("coin week", str(first))
    lines = [
        phrase("coin", coin=coins[ticker][0], change=moves[ticker], close=float(coins[ticker][1].close_e4[index - 1]) / 1e4)
        for ticker in order
    ]
    time_ns = monday_ns + int(rng.integers(20, 90)) * MINUTE
    slots = {"first": first, "last": last, "lead": coins[order[0]][0], "lines": "; ".join(lines)}
    slots["title"] = choice(rng, "coin_week_title", **slots)
    return room.write("coin_week", time_ns, slots, [(ticker, sentiment(moves[ticker], 1.0)) for ticker in order], order)
