"""Articles about one company: its own news, analysts, dividends, splits, listing, halt and bid, and
its quarterly reports.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktdeval_qfinzero.data.rows import NewsRow
from ktdeval_qfinzero.data.synthetic.companies import BID_PREMIUM, CompanyLife, Size, Stock
from ktdeval_qfinzero.data.synthetic.earnings import QuarterlyReport
from ktdeval_qfinzero.data.synthetic.minute_grid import new_york, shift_sessions
from ktdeval_qfinzero.data.synthetic.prices import ACTIONS, CompanyNews, StockCloses
from ktdeval_qfinzero.data.synthetic.wordings import Newsroom, choice, choose, wordings
from ktdeval_qfinzero.timestamps import MINUTE, moment_text

_AMOUNTS: dict[Size, float] = {"mega": 2.2e9, "large": 4.5e8, "mid": 9.0e7, "thin": 2.0e7}


def company_news_article(
    room: Newsroom, stock: Stock, item: CompanyNews, quotes: StockCloses
) -> NewsRow | None:
    """Return the article about a piece of news or an analyst's action; None if the stock has no
    price yet.
    """
    last = float(quotes.before[stock.ticker][item.row])
    if not np.isfinite(last):
        return None

    values = {"stock": stock, "item": item, "last": last}
    if item.kind in ACTIONS:
        values["target"] = _round_target(item.target * last)
        values["target_before"] = _round_target(item.target_before * last)
        return room.write("analyst", item.time_ns, values)

    rng = room.stream("news of", f"{item.kind} {stock.ticker} {moment_text(item.time_ns)}")
    kind = wordings().company_news[item.kind]
    # the order of draws is part of the market: amount, partner, percent, years, then the texts
    values |= {
        "kind": kind,
        "chief": room.chief(stock.ticker),
        "amount": _amount(rng, stock, item),
        "partner": choose(rng, wordings().partners),
        "percent": int(rng.integers(3, 12)),
        "years": int(rng.integers(2, 6)),
    }
    opening = choose(rng, kind.openings)
    title = choose(rng, kind.titles)
    words = {"opening": opening, "remark": choose(rng, kind.remarks)}

    return room.write(
        "company_news", item.time_ns, values, words=words, title=title, keywords=kind.keywords
    )


def _amount(rng: np.random.Generator, stock: Stock, item: CompanyNews) -> float:
    """Draw the dollar amount in a piece of news, rounded as companies report it: to millions, or to
    ten thousands for insider purchases.
    """
    usual = _AMOUNTS[stock.size]
    if item.kind == "insider_buying":
        return float(np.round(usual * 0.002 * rng.uniform(0.4, 1.8), -4))
    return float(np.round(usual * 1.0 * rng.uniform(0.4, 1.8), -6))


def _round_target(price: float) -> float:
    """Round a price target as analysts do: to a dollar, or to half a dollar below twenty."""
    return round(price) if price >= 20 else round(price * 2) / 2


def life_articles(room: Newsroom, life: CompanyLife, quotes: StockCloses) -> Iterator[NewsRow]:
    """Yield articles about the events in the life of a company's shares."""
    stock = life.stock
    grid = quotes.grid
    about = {"stock": stock, "chief": room.chief(stock.ticker)}

    for dividend in life.dividends:
        if dividend.declared_ns >= grid.open_ns[0]:
            time_ns = dividend.declared_ns + 5 * MINUTE
            yield room.write("dividend", time_ns, about | {"dividend": dividend})

    for split in life.splits:
        yield room.write("split", split.announced_ns, about | {"split": split})
        yield room.write("split_day", new_york(split.ex_day, 8), about | {"split": split})

    if life.first_row:
        close = float(quotes.close[stock.ticker][life.first_row])
        values = about | {"close": close, "change": (close / stock.price - 1.0) * 100.0}
        yield room.write("listing", int(grid.close_ns[life.first_row]) + 15 * MINUTE, values)

    if life.halted_row is not None:
        day = grid.days[life.halted_row]
        yield room.write("halt", new_york(day, 9), about)
        for shock in life.shocks:
            yield room.write("halt_result", new_york(day, 18, 30), about | {"jump": shock.size})

    if life.bid_row is not None:
        last = float(quotes.before[stock.ticker][life.bid_row])
        values = about | {
            "bidder": choose(room.stream("bidder", stock.ticker), wordings().bidders),
            "offer": round(last * (1.0 + BID_PREMIUM), 2),
            "premium": BID_PREMIUM,
        }
        yield room.write("bid", new_york(grid.days[life.bid_row], 7), values)
        if life.last_row < len(grid) - 1:
            yield room.write("delisting", int(grid.close_ns[life.last_row]) + 40 * MINUTE, values)


def report_articles(
    room: Newsroom, stock: Stock, report: QuarterlyReport, quotes: StockCloses
) -> Iterator[NewsRow]:
    """Yield all articles about a quarterly report: a moved date, a preview, the results, the price
    reaction, and a correction.
    """
    grid = quotes.grid
    rng = room.stream("report articles", report.ticker, report.period)
    about = {"stock": stock, "report": report}
    if report.first_time_ns is not None:
        yield room.write("moved_date", report.announced_ns + 20 * MINUTE, about)

    preview_day = shift_sessions(report.day, -2)
    if preview_day >= grid.days[0]:
        time_ns = new_york(preview_day, 10, int(rng.integers(60)))
        changed_ns = report.estimate_changed_ns
        is_changed = changed_ns is not None and changed_ns <= time_ns
        estimate = report.first_estimate
        if is_changed:
            estimate = report.estimate

        title = choice(rng, "preview_title")
        yield room.write("preview", time_ns, about | {"estimate": estimate}, title=title)

    # the order of draws is part of the market: outlook, time, remark
    outlook = choice(rng, f"outlook_{report.guidance}")
    time_ns = report.time_ns + int(rng.integers(2, 9)) * MINUTE
    words = {"outlook": outlook, "remark": choice(rng, f"remark_{report.guidance}")}
    yield room.write("results", time_ns, about | {"chief": room.chief(stock.ticker)}, words=words)

    row = report.reaction_row
    if row is not None and np.isfinite(change := quotes.change(stock.ticker, row)):
        values = about | {
            "change": change,
            "close": float(quotes.close[stock.ticker][row]),
            "day": grid.days[row],
        }
        time_ns = int(grid.close_ns[row]) + int(rng.integers(25, 55)) * MINUTE
        yield room.write("answer", time_ns, values)

    if report.revision is not None:
        yield room.write("correction", report.revision[0] + 30 * MINUTE, about)
