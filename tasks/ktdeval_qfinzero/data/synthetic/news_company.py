"""Articles about one company: its own news, analysts, dividends, splits, listing, halt and bid, and
its quarterly reports.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktdeval_qfinzero.data.rows import NewsRow
from ktdeval_qfinzero.data.synthetic.companies import BID_PREMIUM, CompanyLife, Size, Stock
from ktdeval_qfinzero.data.synthetic.earnings import IMPORTANCE_OF, QuarterlyReport
from ktdeval_qfinzero.data.synthetic.minute_grid import new_york, shift_sessions
from ktdeval_qfinzero.data.synthetic.prices import ACTIONS, CompanyNews, StockCloses
from ktdeval_qfinzero.data.synthetic.wordings import (
    Newsroom,
    Slots,
    choice,
    choose,
    dollars,
    fill,
    phrase,
    profit,
    sentiment,
    wordings,
)
from ktdeval_qfinzero.timestamps import MINUTE, day_of, moment_text

_AMOUNTS: dict[Size, float] = {"mega": 2.2e9, "large": 4.5e8, "mid": 9.0e7, "thin": 2.0e7}
_ENDINGS = {"raised": ", raises outlook", "maintained": "", "lowered": ", cuts outlook"}


def company_news_article(
    room: Newsroom, stock: Stock, item: CompanyNews, quotes: StockCloses
) -> NewsRow | None:
    """Return the article about a piece of news, or about an analyst's action; None where there is
    no price yet.
    """
    last = float(quotes.before[stock.ticker][item.row])
    if not np.isfinite(last):
        return None
    if item.kind in ACTIONS:
        return _action(room, stock, item, last)

    return _news(room, stock, item, last)


def life_articles(room: Newsroom, life: CompanyLife, quotes: StockCloses) -> Iterator[NewsRow]:
    """Yield articles about what happens to a company's shares."""
    yield from _dividends(room, life, quotes)
    yield from _splits(room, life)
    if life.first_row:
        yield _listing(room, life, quotes, life.first_row)
    if life.halted_row is not None:
        yield from _halt(room, life, quotes, life.halted_row)
    if life.bid_row is not None:
        yield from _bid(room, life, quotes, life.bid_row)


def _dividends(room: Newsroom, life: CompanyLife, quotes: StockCloses) -> Iterator[NewsRow]:
    """Dividends that are declared after the first day's open."""
    first_ns = int(quotes.grid.open_ns[0])
    for dividend in life.dividends:
        if dividend.declared_ns >= first_ns:
            slots: Slots = {
                "stock": life.stock,
                "dividend": dividend,
                "amount": dividend.amount_e4 / 1e4,
            }
            yield room.write("dividend", dividend.declared_ns + 5 * MINUTE, slots)


def _splits(room: Newsroom, life: CompanyLife) -> Iterator[NewsRow]:
    stock = life.stock
    for split in life.splits:
        reverse = split.new < split.old
        slots: Slots = {
            "stock": stock,
            "split": split,
            "reverse": reverse,
            "several": split.old > 1,
            "chief": room.chief(stock.ticker),
        }
        tone = "neutral" if reverse else "positive"
        yield room.write("split", split.announced_ns, slots, sentiment=tone)
        yield room.write("split_day", new_york(split.ex_day, 8), slots)


def _listing(room: Newsroom, life: CompanyLife, quotes: StockCloses, row: int) -> NewsRow:
    stock = life.stock
    close = float(quotes.close[stock.ticker][row])
    change = (close / stock.price - 1.0) * 100.0
    slots: Slots = {"stock": stock, "close": close, "up": change > 0, "size": abs(change)}
    time_ns = int(quotes.grid.close_ns[row]) + 15 * MINUTE
    return room.write("listing", time_ns, slots, sentiment=sentiment(change, 0.5))


def report_articles(
    room: Newsroom, stock: Stock, report: QuarterlyReport, quotes: StockCloses
) -> Iterator[NewsRow]:
    """Yield all articles about a quarterly report: a moved date, a preview, the results, the
    price's answer, a correction.
    """
    rng = room.stream("report articles", report.ticker, report.period)
    if report.first_time_ns is not None:
        yield _moved_date(room, stock, report, report.first_time_ns)

    preview_day = shift_sessions(report.day, -2)
    if preview_day >= quotes.grid.days[0]:
        preview_ns = new_york(preview_day, 10, int(rng.integers(60)))
        yield _preview(room, rng, stock, report, preview_ns)

    yield _results(room, rng, stock, report)
    if report.reaction_row is not None:
        change = quotes.change(report.ticker, report.reaction_row)
        if np.isfinite(change):
            yield _reaction(room, rng, stock, report, quotes)

    if report.revision is not None:
        time_ns, eps = report.revision
        slots: Slots = {"stock": stock, "report": report, "eps": eps}
        tone = sentiment(eps - report.eps)
        yield room.write("correction", time_ns + 30 * MINUTE, slots, sentiment=tone)


def _news(room: Newsroom, stock: Stock, item: CompanyNews, last: float) -> NewsRow:
    moment = moment_text(item.time_ns)
    rng = room.stream("news of", f"{item.kind} {stock.ticker} {moment}")
    kind = wordings().company_news[item.kind]
    # the order of draws is part of the market: amount, partner, percent, years, then the texts
    words: Slots = {
        "name": stock.name,
        "ticker": stock.ticker,
        "business": stock.business,
        "chief": room.chief(stock.ticker),
        "amount": dollars(_amount(rng, stock, item)),
        "partner": choose(rng, wordings().partners),
        "percent": int(rng.integers(3, 12)),
        "years": int(rng.integers(2, 6)),
    }
    slots: Slots = {
        "stock": stock,
        "item": item,
        "moment": moment,
        "last": last,
        "opening": fill(choose(rng, kind.openings), **words),
        "title": fill(choose(rng, kind.titles), **words),
        "remark": fill(choose(rng, kind.remarks), **words),
    }

    return room.write(
        "company_news",
        item.time_ns,
        slots,
        importance=kind.importance,
        keywords=kind.keywords,
        sentiment=sentiment(kind.size),
        reasoning=kind.reasoning,
    )


def _amount(rng: np.random.Generator, stock: Stock, item: CompanyNews) -> float:
    """Draw the dollars of a piece of news, rounded as companies write them: to millions, purchases
    of insiders to ten thousands.
    """
    usual = _AMOUNTS[stock.size]
    if item.kind == "insider_buying":
        return float(np.round(usual * 0.002 * rng.uniform(0.4, 1.8), -4))
    return float(np.round(usual * 1.0 * rng.uniform(0.4, 1.8), -6))


def _action(room: Newsroom, stock: Stock, item: CompanyNews, last: float) -> NewsRow:
    """Article about an analyst's action."""
    target = _target(item.target * last)
    changes = item.rating != item.rating_before
    tone = "up" if item.shock.size > 0 else "down"
    slots: Slots = {
        "stock": stock,
        "item": item,
        "moment": moment_text(item.time_ns),
        "last": last,
        "broker": item.broker,
        "rating": item.rating,
        "before": item.rating_before,
        "target": target,
        "target_before": _target(item.target_before * last),
        "above": target > last,
        "distance": abs(target / last - 1) * 100,
        "kind": item.kind.replace("_", " "),
    }
    slots |= {
        "title": phrase(f"analyst_{item.kind}", **slots),
        "did": phrase("analyst_changed" if changes else "analyst_kept", **slots),
        "reason": phrase(f"analyst_{tone}", **slots),
    }

    return room.write(
        "analyst",
        item.time_ns,
        slots,
        importance="medium" if changes else "low",
        sentiment=sentiment(item.shock.size),
    )


def _target(price: float) -> float:
    """Round as analysts do: to a dollar, below twenty dollars to half a one."""
    return round(price) if price >= 20 else round(price * 2) / 2


def _halt(room: Newsroom, life: CompanyLife, quotes: StockCloses, row: int) -> Iterator[NewsRow]:
    grid = quotes.grid
    stock = life.stock
    good = bool(life.shocks) and life.shocks[0].size > 0
    slots: Slots = {"stock": stock, "good": good, "chief": room.chief(stock.ticker)}
    yield room.write("halt", new_york(grid.days[row], 9), slots)

    if row + 1 < len(grid):
        tone = sentiment(life.shocks[0].size)
        yield room.write("halt_result", new_york(grid.days[row], 18, 30), slots, sentiment=tone)


def _bid(room: Newsroom, life: CompanyLife, quotes: StockCloses, row: int) -> Iterator[NewsRow]:
    stock = life.stock
    grid = quotes.grid
    slots: Slots = {
        "stock": stock,
        "bidder": choose(room.stream("bidder", stock.ticker), wordings().bidders),
        "offer": round(float(quotes.before[stock.ticker][row]) * (1.0 + BID_PREMIUM), 2),
        "premium": BID_PREMIUM * 100,
    }
    yield room.write("bid", new_york(grid.days[row], 7), slots)

    if life.last_row < len(grid) - 1:
        yield room.write("delisting", int(grid.close_ns[life.last_row]) + 40 * MINUTE, slots)


def _moved_date(
    room: Newsroom, stock: Stock, report: QuarterlyReport, first_time_ns: int
) -> NewsRow:
    first_day = day_of(first_time_ns)
    slots: Slots = {
        "stock": stock,
        "report": report,
        "first_day": first_day,
        "later": report.day > first_day,
    }
    return room.write("moved_date", report.announced_ns + 20 * MINUTE, slots)


def _preview(
    room: Newsroom, rng: np.random.Generator, stock: Stock, report: QuarterlyReport, time_ns: int
) -> NewsRow:
    estimate = report.first_estimate
    if report.estimate_changed_ns is not None and report.estimate_changed_ns <= time_ns:
        estimate = report.estimate

    trend = "estimates_unchanged"
    if estimate != report.first_estimate:
        trend = "estimates_changed"

    slots: Slots = {
        "stock": stock,
        "report": report,
        "estimate": estimate,
        "trend": phrase(trend, report=report),
    }
    slots["title"] = choice(rng, "preview_title", **slots)

    return room.write("preview", time_ns, slots)


def _results(
    room: Newsroom, rng: np.random.Generator, stock: Stock, report: QuarterlyReport
) -> NewsRow:
    surprise = report.eps - report.estimate
    growth = (report.revenue / report.revenue_year_ago - 1.0) * 100.0
    # the order of draws is part of the market: outlook, time, remark
    outlook = choice(rng, f"outlook_{report.guidance}", stock=stock)
    time_ns = report.time_ns + int(rng.integers(2, 9)) * MINUTE
    remark = choice(rng, f"remark_{report.guidance}", chief=room.chief(stock.ticker))
    slots: Slots = {
        "stock": stock,
        "report": report,
        "surprise": surprise,
        "revenue_above": report.revenue > report.revenue_estimate,
        "growth": growth,
        "grows": growth > 0,
        "ending": _ENDINGS[report.guidance],
        "outlook": outlook,
        "remark": remark,
    }

    return room.write(
        "results",
        time_ns,
        slots,
        importance=IMPORTANCE_OF[stock.size],
        sentiment=sentiment(surprise),
    )


def _reaction(
    room: Newsroom,
    rng: np.random.Generator,
    stock: Stock,
    report: QuarterlyReport,
    quotes: StockCloses,
) -> NewsRow:
    """Article about the price after a report."""
    row = report.reaction_row
    assert row is not None
    change = quotes.change(report.ticker, row)
    surprise = report.eps - report.estimate
    is_expected = (change > 0) == (report.eps > report.estimate)
    slots: Slots = {
        "stock": stock,
        "report": report,
        "change": change,
        "up": change > 0,
        "close": float(quotes.close[report.ticker][row]),
        "day": quotes.grid.days[row],
        "surprise": surprise,
        "result": profit(report.eps),
        "estimate": profit(report.estimate).removeprefix("earnings of "),
        "contrast": "" if is_expected else phrase("against_surprise"),
    }
    time_ns = int(quotes.grid.close_ns[row]) + int(rng.integers(25, 55)) * MINUTE

    return room.write(
        "answer",
        time_ns,
        slots,
        importance="low" if abs(change) < 4 else "medium",
        sentiment=sentiment(change, 0.05),
    )
