"""Articles about the market as a whole: the close of each session, economic releases, coins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

import numpy as np

from ktdeval_qfinzero.data.rows import Bars
from ktdeval_qfinzero.data.synthetic.earnings import Report
from ktdeval_qfinzero.data.synthetic.grid import stream
from ktdeval_qfinzero.data.synthetic.macro import Reading
from ktdeval_qfinzero.data.synthetic.names import Coin, Stock
from ktdeval_qfinzero.data.synthetic.news_base import Draft, Quotes, choose, dollars, long_day, moved, sentiment, short_day
from ktdeval_qfinzero.moments import DAY, MINUTE, day_of

_LARGE_MOVE = 7.0
"""Percent from which a coin's day is news."""


@dataclass(frozen=True, eq=False)
class Agenda:
    """What explains the day, and what comes next.

    Attributes:
        stocks: by ticker.
        reasons: (ticker, row) -> why its price moved, if anything is known.
        readings: economic releases.
        reports: all companies' reports.
    """

    stocks: Mapping[str, Stock]
    reasons: Mapping[tuple[str, int], str]
    readings: Sequence[Reading]
    reports: Sequence[Report] = field(default_factory=tuple)


def close_article(seed: int, quotes: Quotes, row: int, agenda: Agenda) -> Draft | None:
    """The close of a session; None on the first day, which nothing can be compared with."""
    changes = quotes.changes(row)
    if not changes:
        return None
    grid, day = quotes.grid, quotes.grid.days[row]
    rng = stream(seed, "close", str(day))
    mean = float(np.mean(list(changes.values())))
    order = sorted(changes, key=lambda ticker: (changes[ticker], ticker))
    best, worst = order[::-1][:2], order[:2]
    up = sum(change > 0 for change in changes.values())
    mood = "Stocks end higher" if mean > 0.15 else "Stocks slip" if mean < -0.15 else "Stocks little changed"
    leader = best[0] if mean >= 0 else worst[0]
    name = agenda.stocks[leader].name
    title = choose(rng, ("{mood} as {name} {verb}", "{mood}; {name} {verb}", "Closing bell: {name} {verb}, {small}")).format(
        mood=mood, name=name, verb="leads gains" if mean >= 0 else "leads losses", small=mood[0].lower() + mood[1:]
    )
    paragraphs = [
        f"{mood} on {long_day(day)}: the average of {len(changes)} stocks {moved(mean)}, with {up} of them up. "
        f"{_sectors(agenda, changes)}".rstrip(),
        f"Largest gains: {_movers(agenda, changes, best, row)}. Largest losses: {_movers(agenda, changes, worst, row)}.",
    ]
    if released := _released(agenda, int(grid.close_ns[row]), day):
        paragraphs.append(released)
    if row + 1 < len(grid) and (coming := _coming(agenda, int(grid.close_ns[row]), grid.days[row + 1])):
        paragraphs.append(coming)
    return Draft(
        key=f"close {day}",
        event_type="daily_news",
        time_ns=int(grid.close_ns[row]) + int(rng.integers(18, 50)) * MINUTE,
        importance="medium" if abs(mean) > 1.2 else "low",
        tickers=(*best, *worst) if len(changes) >= 4 else tuple(order),
        title=title,
        description=f"The average stock {moved(mean)}; {name} {moved(changes[leader])}.",
        paragraphs=tuple(paragraphs),
        keywords=("market close",),
        insights=tuple(
            (ticker, sentiment(changes[ticker], 0.05), "Among the day’s largest moves.") for ticker in (best[0], worst[0])
        ),
    )


def reading_article(seed: int, reading: Reading) -> Draft | None:
    """The article about an economic release; None where the number is no news."""
    series = reading.series
    if (series.importance == "low" and series.market == "us") or (series.key == "claims" and abs(reading.surprise) < 1.0):
        return None
    rng = stream(seed, "reading", reading.event_id)
    paragraphs = _decision(reading) if series.period == "none" else _number(rng, reading)
    return Draft(
        key=f"reading {reading.event_id}",
        event_type="breaking_news" if series.importance == "high" else "daily_news",
        time_ns=reading.time_ns + int(rng.integers(1, 7)) * MINUTE,
        importance=series.importance,
        tickers=(),
        title=_reading_title(reading),
        description=f"{series.describe}: {_written(reading.actual, reading)}; expected {_written(reading.consensus, reading)}.",
        paragraphs=paragraphs,
        keywords=("economy", series.title.casefold()),
        market=series.market,
    )


def coin_articles(seed: int, coins: Mapping[str, tuple[Coin, Bars]]) -> Iterator[Draft]:
    """A look at each week, on Mondays, and days of large moves; from complete bars of days only."""
    if not coins:
        return
    for coin, bars in coins.values():
        change = (bars.close_e4[1:] / bars.close_e4[:-1] - 1.0) * 100.0
        for place in np.flatnonzero(np.abs(change) >= _LARGE_MOVE).tolist():
            yield _coin_move(coin, int(bars.start_ns[place + 1]), float(change[place]), float(bars.close_e4[place + 1]) / 1e4)
    starts = next(iter(coins.values()))[1].start_ns
    for place in range(7, len(starts)):
        monday = int(starts[place])
        if day_of(monday).weekday() == 0:
            yield _coin_week(seed, coins, place, monday)


def _sectors(agenda: Agenda, changes: Mapping[str, float]) -> str:
    groups: dict[str, list[float]] = {}
    for ticker, change in changes.items():
        groups.setdefault(agenda.stocks[ticker].sector, []).append(change)
    means = sorted((float(np.mean(values)), sector) for sector, values in groups.items())
    if len(means) < 2:
        return ""
    (low, worst), (high, best) = means[0], means[-1]
    return f"{best.capitalize()} did best ({high:+.1f}%), {worst} worst ({low:+.1f}%)."


def _movers(agenda: Agenda, changes: Mapping[str, float], tickers: Sequence[str], row: int) -> str:
    texts = []
    for ticker in tickers:
        reason = agenda.reasons.get((ticker, row), "")
        texts.append(f"{agenda.stocks[ticker].name} ({ticker}) {changes[ticker]:+.1f}%" + (f" {reason}" if reason else ""))
    return " and ".join(texts)


def _released(agenda: Agenda, now_ns: int, day: date) -> str:
    done = [reading for reading in agenda.readings if reading.day == day and reading.time_ns < now_ns]
    main = [reading for reading in done if reading.series.importance != "low" and reading.series.market == "us"]
    if not main:
        return ""
    texts = [
        f"{reading.title} at {_written(reading.actual, reading)} (expected {_written(reading.consensus, reading)})"
        for reading in main
    ]
    return f"Released today: {'; '.join(texts)}."


def _coming(agenda: Agenda, now_ns: int, day: date) -> str:
    due = [
        reading.title
        for reading in agenda.readings
        if reading.day == day and reading.announced_ns <= now_ns and reading.series.importance != "low"
    ]
    due += [
        f"{agenda.stocks[report.ticker].name} results"
        for report in agenda.reports
        if report.day == day and report.announced_ns <= now_ns
    ]
    return f"On the next session’s calendar: {', '.join(due)}." if due else ""


def _written(value: float, reading: Reading) -> str:
    if reading.series.unit == "pct":
        return f"{value:.{reading.series.digits}f}%"
    return f"{value:,.0f}" if reading.series.unit == "count" else f"{value:.1f}"


def _reading_title(reading: Reading) -> str:
    series, actual = reading.series, _written(reading.actual, reading)
    if series.period == "none":
        step = reading.actual - reading.previous
        did = "holds rate at" if step == 0 else "cuts rate to" if step < 0 else "raises rate to"
        return f"{series.title.removesuffix(' Rate Decision').removesuffix(' Deposit')} {did} {actual}"
    if reading.actual == reading.consensus:
        return f"{reading.title} as expected at {actual}"
    return f"{reading.title} {'above' if reading.actual > reading.consensus else 'below'} expectations at {actual}"


def _number(rng: np.random.Generator, reading: Reading) -> tuple[str, ...]:
    actual, consensus = _written(reading.actual, reading), _written(reading.consensus, reading)
    gap = "in line with" if actual == consensus else "above" if reading.actual > reading.consensus else "below"
    verdict = choose(
        rng,
        (
            "Economists said that one number should not be given too much weight.",
            "The number will be read for what it means for the next rate decision.",
            "Earlier numbers can still be corrected with the next release.",
        ),
    )
    return (
        f"{reading.title} came out at {actual}, {gap} the {consensus} that economists had expected. "
        f"The previous number was {_written(reading.previous, reading)}.",
        f"{_measured(reading)} {verdict}",
    )


def _decision(reading: Reading) -> tuple[str, ...]:
    body = {
        "US": "The Federal Open Market Committee",
        "EU": "The European Central Bank",
        "JP": "The Bank of Japan",
    }[reading.series.country]
    step = reading.actual - reading.previous
    did = "left its rate at" if step == 0 else f"{'lowered' if step < 0 else 'raised'} its rate by a quarter of a point to"
    expected = "as economists had expected" if reading.actual == reading.consensus else (
        f"while economists had expected {_written(reading.consensus, reading)}"
    )  # fmt: skip
    rate = reading.series.describe.removesuffix(", percent")
    rate = rate[0].lower() + rate[1:]
    tone = "The statement was little changed."
    if reading.series.country == "US" and abs(reading.surprise) > 0.3:
        tone = (
            "The statement stressed that inflation is still above the goal."
            if reading.surprise > 0
            else "The statement spoke of a softer labour market."
        )
    return (f"{body} {did} {_written(reading.actual, reading)}, {expected}.", f"{tone} The rate given is the {rate}.")


def _measured(reading: Reading) -> str:
    text = reading.series.describe
    return f"The number is given as: {text[0].lower()}{text[1:]}."


def _coin_move(coin: Coin, start_ns: int, change: float, close: float) -> Draft:
    day = day_of(start_ns)
    return Draft(
        key=f"coin move {coin.ticker} {day}",
        event_type="breaking_news",
        time_ns=start_ns + DAY + 10 * MINUTE,
        importance="medium" if abs(change) < 2 * _LARGE_MOVE else "high",
        tickers=(coin.ticker,),
        title=f"{coin.name} {'jumps' if change > 0 else 'drops'} {abs(change):.1f}% in a day",
        description=f"{coin.ticker} ended {short_day(day)} (UTC) at {dollars(close)}.",
        paragraphs=(
            f"{coin.name} ({coin.ticker}) {moved(change)} on {long_day(day)} and ended the day (UTC) at {dollars(close)}.",
            "Traders spoke of "
            + ("forced buying by those who had bet on lower prices." if change > 0 else "forced sales of positions on credit."),
        ),
        keywords=("coins",),
        insights=((coin.ticker, sentiment(change), "A large move within a day."),),
        market="crypto",
    )


def _coin_week(seed: int, coins: Mapping[str, tuple[Coin, Bars]], place: int, monday_ns: int) -> Draft:
    moves = {ticker: float(bars.close_e4[place - 1] / bars.open_e4[place - 7] - 1) * 100 for ticker, (_, bars) in coins.items()}
    order = sorted(moves, key=lambda ticker: (-moves[ticker], ticker))
    first, last = day_of(monday_ns) - timedelta(days=7), day_of(monday_ns) - timedelta(days=1)
    lead = coins[order[0]][0].name
    rng = stream(seed, "coin week", str(first))
    lines = [
        f"{coins[ticker][0].name} ({ticker}) {moved(moves[ticker])} to {dollars(float(coins[ticker][1].close_e4[place - 1]) / 1e4)}"
        for ticker in order
    ]
    return Draft(
        key=f"coin week {first}",
        event_type="daily_news",
        time_ns=monday_ns + int(rng.integers(20, 90)) * MINUTE,
        importance="low",
        tickers=tuple(order),
        title=choose(rng, ("Coins in the week: {lead} ahead", "The week in coins: {lead} does best")).format(lead=lead),
        description=f"From {short_day(first)} to {short_day(last)}, {lead} did best.",
        paragraphs=(f"In the week from {short_day(first)} to {short_day(last)} (UTC): {'; '.join(lines)}.",),
        keywords=("coins", "weekly"),
        insights=tuple((ticker, sentiment(moves[ticker], 1.0), "The week’s change of price.") for ticker in order),
        market="crypto",
    )
