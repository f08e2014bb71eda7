"""Articles about one company: its own news, analysts, dividends, splits, listing, halt and bid, and its quarterly reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ktdeval_qfinzero.data.rows import NewsRow
from ktdeval_qfinzero.data.synthetic.corporate import BID_PREMIUM, Life, Size, Stock
from ktdeval_qfinzero.data.synthetic.earnings import IMPORTANCE_OF, Report
from ktdeval_qfinzero.data.synthetic.grid import new_york, shift_sessions
from ktdeval_qfinzero.data.synthetic.prices import ACTIONS, Happening, Quotes
from ktdeval_qfinzero.data.synthetic.wordings import Newsroom, choice, choose, dollars, fill, phrase, profit, sentiment, wordings
from ktdeval_qfinzero.moments import MINUTE, day_of, moment_text

_AMOUNTS: dict[Size, float] = {"mega": 2.2e9, "large": 4.5e8, "mid": 9.0e7, "thin": 2.0e7}


def happening_article(room: Newsroom, stock: Stock, happening: Happening, quotes: Quotes) -> NewsRow | None:
    """Return the article about a piece of news, or about an analyst's action; None where there is no price yet."""
    last = float(quotes.before[stock.ticker][happening.row])
    if not np.isfinite(last):
        return None
    moment = moment_text(happening.time_ns)
    slots: dict[str, Any] = {"stock": stock, "happening": happening, "moment": moment, "last": last}
    return _action(room, slots) if happening.kind in ACTIONS else _news(room, slots)


def life_articles(room: Newsroom, life: Life, quotes: Quotes) -> Iterator[NewsRow]:
    """Yield articles about what happens to a company's shares."""
    stock, grid = life.stock, quotes.grid
    for dividend in life.dividends:
        if dividend.declared_ns >= int(grid.open_ns[0]):
            slots = {"stock": stock, "dividend": dividend, "amount": dividend.amount_e4 / 1e4}
            yield room.write("dividend", dividend.declared_ns + 5 * MINUTE, slots)
    for split in life.splits:
        reverse = split.new < split.old
        slots = {"stock": stock, "split": split, "reverse": reverse, "several": split.old > 1, "chief": room.chief(stock.ticker)}
        yield room.write("split", split.announced_ns, slots, sentiment="neutral" if reverse else "positive")
        yield room.write("split_day", new_york(split.ex_day, 8), slots)
    if life.first_row:
        close = float(quotes.close[stock.ticker][life.first_row])
        change = (close / stock.price - 1.0) * 100.0
        slots = {"stock": stock, "close": close, "up": change > 0, "size": abs(change)}
        yield room.write("listing", int(grid.close_ns[life.first_row]) + 15 * MINUTE, slots, sentiment=sentiment(change, 0.5))
    if life.halted_row is not None:
        yield from _halt(room, life, quotes, life.halted_row)
    if life.bid_row is not None:
        yield from _bid(room, life, quotes, life.bid_row)


def report_articles(room: Newsroom, stock: Stock, report: Report, quotes: Quotes) -> Iterator[NewsRow]:
    """Yield all articles about a quarterly report: a moved date, a preview, the results, the price's answer, a correction."""
    rng = room.stream("report articles", report.ticker, report.period)
    slots: dict[str, Any] = {"stock": stock, "report": report}
    if report.first_time_ns is not None:
        first_day = day_of(report.first_time_ns)
        moved = {"first_day": first_day, "later": report.day > first_day}
        yield room.write("moved_date", report.announced_ns + 20 * MINUTE, slots | moved)
    preview_day = shift_sessions(report.day, -2)
    if preview_day >= quotes.grid.days[0]:
        yield _preview(room, rng, slots, new_york(preview_day, 10, int(rng.integers(60))))
    yield _results(room, rng, slots)
    if report.reaction_row is not None and np.isfinite(change := quotes.change(report.ticker, report.reaction_row)):
        yield _answer(room, rng, slots | {"change": change}, quotes)
    if report.revision is not None:
        time_ns, eps = report.revision
        yield room.write("correction", time_ns + 30 * MINUTE, slots | {"eps": eps}, sentiment=sentiment(eps - report.eps))


def _news(room: Newsroom, slots: dict[str, Any]) -> NewsRow:
    stock, happening = slots["stock"], slots["happening"]
    rng = room.stream("news of", f"{happening.kind} {stock.ticker} {slots['moment']}")
    kind = wordings().happenings[happening.kind]
    scale = 0.002 if happening.kind == "insider_buying" else 1.0
    words = {
        "name": stock.name,
        "ticker": stock.ticker,
        "business": stock.business,
        "chief": room.chief(stock.ticker),
        "amount": dollars(float(np.round(_AMOUNTS[stock.size] * scale * rng.uniform(0.4, 1.8), -4 if scale < 1 else -6))),
        "partner": choose(rng, wordings().partners),
        "percent": int(rng.integers(3, 12)),
        "years": int(rng.integers(2, 6)),
    }
    parts = {
        name: fill(choose(rng, texts), **words)
        for name, texts in (("opening", kind.openings), ("title", kind.titles), ("remark", kind.remarks))
    }
    time_ns, slots, tone = happening.time_ns, slots | parts, sentiment(kind.size)
    return room.write(
        "happening", time_ns, slots, importance=kind.importance, keywords=kind.keywords, sentiment=tone, reasoning=kind.reasoning
    )


def _action(room: Newsroom, slots: dict[str, Any]) -> NewsRow:
    happening, last = slots["happening"], slots["last"]
    target, before = _target(happening.target * last), _target(happening.target_before * last)
    changes = happening.rating != happening.rating_before
    slots |= {"broker": happening.broker, "rating": happening.rating, "before": happening.rating_before, "target": target}
    slots |= {"target_before": before, "above": target > last, "distance": abs(target / last - 1) * 100}
    slots["kind"] = happening.kind.replace("_", " ")
    slots |= {
        "title": phrase(f"analyst_{happening.kind}", **slots),
        "did": phrase("analyst_changed" if changes else "analyst_kept", **slots),
        "reason": phrase("analyst_up" if happening.shock.size > 0 else "analyst_down", **slots),
    }
    importance, tone = "medium" if changes else "low", sentiment(happening.shock.size)
    return room.write("analyst", happening.time_ns, slots, importance=importance, sentiment=tone)


def _target(price: float) -> float:
    """Round as analysts do: to a dollar, below twenty dollars to half a one."""
    return round(price) if price >= 20 else round(price * 2) / 2


def _halt(room: Newsroom, life: Life, quotes: Quotes, row: int) -> Iterator[NewsRow]:
    grid = quotes.grid
    good = bool(life.shocks) and life.shocks[0].size > 0
    slots = {"stock": life.stock, "good": good, "chief": room.chief(life.stock.ticker)}
    yield room.write("halt", new_york(grid.days[row], 9), slots)
    if row + 1 < len(grid):
        tone = sentiment(life.shocks[0].size)
        yield room.write("halt_result", new_york(grid.days[row], 18, 30), slots, sentiment=tone)


def _bid(room: Newsroom, life: Life, quotes: Quotes, row: int) -> Iterator[NewsRow]:
    stock, grid = life.stock, quotes.grid
    slots = {
        "stock": stock,
        "bidder": choose(room.stream("bidder", stock.ticker), wordings().bidders),
        "offer": round(float(quotes.before[stock.ticker][row]) * (1.0 + BID_PREMIUM), 2),
        "premium": BID_PREMIUM * 100,
    }
    yield room.write("bid", new_york(grid.days[row], 7), slots)
    if life.last_row < len(grid) - 1:
        yield room.write("delisting", int(grid.close_ns[life.last_row]) + 40 * MINUTE, slots)


def _preview(room: Newsroom, rng: np.random.Generator, slots: dict[str, Any], time_ns: int) -> NewsRow:
    report = slots["report"]
    changed = report.estimate_changed_ns is not None and report.estimate_changed_ns <= time_ns
    differs = changed and report.estimate != report.first_estimate
    slots = slots | {
        "estimate": report.estimate if changed else report.first_estimate,
        "trend": phrase("estimates_changed" if differs else "estimates_unchanged", report=report),
    }
    return room.write("preview", time_ns, slots | {"title": choice(rng, "preview_title", **slots)})


def _results(room: Newsroom, rng: np.random.Generator, slots: dict[str, Any]) -> NewsRow:
    stock, report = slots["stock"], slots["report"]
    surprise = report.eps - report.estimate
    growth = (report.revenue / report.revenue_year_ago - 1.0) * 100.0
    slots = slots | {
        "surprise": surprise,
        "revenue_above": report.revenue > report.revenue_estimate,
        "growth": growth,
        "grows": growth > 0,
        "ending": {"raised": ", raises outlook", "maintained": "", "lowered": ", cuts outlook"}[report.guidance],
        "outlook": choice(rng, f"outlook_{report.guidance}", stock=stock),
    }
    time_ns = report.time_ns + int(rng.integers(2, 9)) * MINUTE
    slots["remark"] = choice(rng, f"remark_{report.guidance}", chief=room.chief(stock.ticker))
    return room.write("results", time_ns, slots, importance=IMPORTANCE_OF[stock.size], sentiment=sentiment(surprise))


def _answer(room: Newsroom, rng: np.random.Generator, slots: dict[str, Any], quotes: Quotes) -> NewsRow:
    report, change = slots["report"], slots["change"]
    row = report.reaction_row
    expected = (change > 0) == (report.eps > report.estimate)
    slots = slots | {
        "up": change > 0,
        "close": float(quotes.close[report.ticker][row]),
        "day": quotes.grid.days[row],
        "surprise": report.eps - report.estimate,
        "result": profit(report.eps),
        "estimate": profit(report.estimate).removeprefix("earnings of "),
        "contrast": "" if expected else phrase("against_surprise"),
    }
    time_ns = int(quotes.grid.close_ns[row]) + int(rng.integers(25, 55)) * MINUTE
    importance = "low" if abs(change) < 4 else "medium"
    return room.write("answer", time_ns, slots, importance=importance, sentiment=sentiment(change, 0.05))
