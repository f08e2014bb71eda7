"""Articles about quarterly reports: a moved date, a preview, the results, the price's answer, a correction."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktdeval_qfinzero.data.synthetic.earnings import IMPORTANCE_OF, Report
from ktdeval_qfinzero.data.synthetic.grid import new_york, shift_sessions, stream
from ktdeval_qfinzero.data.synthetic.names import Stock
from ktdeval_qfinzero.data.synthetic.news_base import (
    Draft,
    Quotes,
    chief,
    choose,
    dollars,
    long_day,
    moved,
    profit,
    sentiment,
    short_day,
)
from ktdeval_qfinzero.moments import MINUTE, day_of

_OUTLOOK = {
    "raised": (
        "The company also raised its outlook for the full year, citing firm demand in {business}.",
        "Management lifted its full-year forecast and said orders in {business} had started the quarter well.",
    ),
    "maintained": (
        "The company kept its outlook for the full year.",
        "Management repeated its full-year forecast and called conditions in {business} steady.",
    ),
    "lowered": (
        "The company also cut its outlook for the full year, pointing to weaker demand in {business}.",
        "Management lowered its full-year forecast and warned of slower orders in {business}.",
    ),
}
_REMARKS = {
    "raised": (
        "“We enter the next quarter with more orders than we have ever had,” said {chief}, the chief executive.",
        "“Customers are committing earlier and for longer,” chief executive {chief} told analysts.",
    ),
    "maintained": (
        "“We are where we said we would be,” said {chief}, the chief executive.",
        "“There was little in the quarter that surprised us,” chief executive {chief} told analysts.",
    ),
    "lowered": (
        "“Some customers are waiting before they commit,” said {chief}, the chief executive.",
        "“We would rather be cautious now than sorry later,” chief executive {chief} told analysts.",
    ),
}


def report_articles(seed: int, stock: Stock, report: Report, quotes: Quotes) -> Iterator[Draft]:
    """All articles about one report."""
    rng = stream(seed, "report articles", report.ticker, report.period)
    if report.first_time_ns is not None:
        yield _moved_date(stock, report, report.first_time_ns)
    preview_day = shift_sessions(report.day, -2)
    if preview_day >= quotes.grid.days[0]:
        yield _preview(rng, stock, report, new_york(preview_day, 10, int(rng.integers(60))))
    yield _results(rng, stock, report, chief(seed, stock.ticker))
    if report.reaction_row is not None:
        yield from _answer(rng, stock, report, quotes)
    if report.revision is not None:
        yield _correction(stock, report, report.revision)


def _beat(report: Report) -> str:
    return "beats" if report.eps > report.estimate else "misses" if report.eps < report.estimate else "meets"


def _preview(rng: np.random.Generator, stock: Stock, report: Report, time_ns: int) -> Draft:
    changed = report.estimate_changed_ns is not None and report.estimate_changed_ns <= time_ns
    estimate = report.estimate if changed else report.first_estimate
    when = "before the market opens" if report.before_open else "after the market closes"
    year_ago = f"A year ago it reported {profit(report.eps_year_ago)} on revenue of {dollars(report.revenue_year_ago)}."
    trend = "Estimates have not changed in recent weeks."
    if changed and report.estimate != report.first_estimate:
        trend = f"When the date was set, the average estimate was {profit(report.first_estimate)}."
    title = choose(
        rng,
        ("What to expect from the {period} report of {name}", "{name} earnings preview: analysts look for {eps}"),
    ).format(name=stock.name, period=report.period, eps=profit(estimate))
    return Draft(
        key=f"preview {report.ticker} {report.period}",
        event_type="daily_news",
        time_ns=time_ns,
        importance="low",
        tickers=(report.ticker,),
        title=title,
        description=f"{stock.name} ({report.ticker}) reports {report.period} results on {long_day(report.day)}, {when}.",
        paragraphs=(
            f"{stock.name} ({report.ticker}) is due to report results for {report.period} on {long_day(report.day)}, {when}.",
            f"Analysts expect {profit(estimate)} on revenue of {dollars(report.revenue_estimate)}, "
            f"according to a survey by the desk. {year_ago} {trend}",
            f"Investors will look for what the company says about {stock.business} and about the rest of the year.",
        ),
        keywords=("earnings", "preview"),
        insights=((report.ticker, "neutral", "Results are still to come."),),
    )


def _results(rng: np.random.Generator, stock: Stock, report: Report, speaker: str) -> Draft:
    verb = _beat(report)
    tone = sentiment(report.eps - report.estimate)
    revenue = "above" if report.revenue > report.revenue_estimate else "below"
    outlook = choose(rng, _OUTLOOK[report.guidance]).format(business=stock.business)
    ending = {"raised": ", raises outlook", "maintained": "", "lowered": ", cuts outlook"}[report.guidance]
    growth = (report.revenue / report.revenue_year_ago - 1.0) * 100.0
    compared = {"beats": "better than", "misses": "worse than", "meets": "the same as"}[verb]
    return Draft(
        key=f"results {report.ticker} {report.period}",
        event_type="breaking_news",
        time_ns=report.time_ns + int(rng.integers(2, 9)) * MINUTE,
        importance=IMPORTANCE_OF[stock.size],
        tickers=(report.ticker,),
        title=f"{stock.name} {verb} estimates for {report.period}{ending}",
        description=f"{stock.name} reported {profit(report.eps)}; analysts had expected {profit(report.estimate)}.",
        paragraphs=(
            f"{stock.name} ({report.ticker}) reported {profit(report.eps)} for {report.period}, {compared} "
            f"the {profit(report.estimate).removeprefix('a ')} that analysts had expected. "
            f"A year earlier it reported {profit(report.eps_year_ago)}.",
            f"Revenue came to {dollars(report.revenue)}, {revenue} the average estimate of {dollars(report.revenue_estimate)} and "
            f"{abs(growth):.1f}% {'more' if growth > 0 else 'less'} than a year before.",
            f"{outlook} {choose(rng, _REMARKS[report.guidance]).format(chief=speaker)}",
        ),
        keywords=("earnings", f"guidance {report.guidance}"),
        insights=((report.ticker, tone, f"Results were {compared} expected; the outlook was {report.guidance}."),),
    )


def _answer(rng: np.random.Generator, stock: Stock, report: Report, quotes: Quotes) -> Iterator[Draft]:
    row = report.reaction_row
    if row is None or not np.isfinite(change := quotes.change(report.ticker, row)):
        return
    verb = {"beats": "beat", "misses": "missed", "meets": "met"}[_beat(report)]
    result, estimate = profit(report.eps), profit(report.estimate).removeprefix("earnings of ")
    expected = (change > 0) == (report.eps > report.estimate)
    contrast = (
        "" if expected else "That was against the direction of the surprise: investors seemed to have hoped for something else."
    )
    yield Draft(
        key=f"answer {report.ticker} {report.period}",
        event_type="daily_news",
        time_ns=int(quotes.grid.close_ns[row]) + int(rng.integers(25, 55)) * MINUTE,
        importance="low" if abs(change) < 4 else "medium",
        tickers=(report.ticker,),
        title=f"{stock.name} shares {'gain' if change > 0 else 'lose'} {abs(change):.1f}% after {report.period} report",
        description=f"{report.ticker} closed at {dollars(float(quotes.close[report.ticker][row]))} after its results.",
        paragraphs=(
            f"Shares of {stock.name} ({report.ticker}) {moved(change)} to close at "
            f"{dollars(float(quotes.close[report.ticker][row]))} on {long_day(quotes.grid.days[row])}, the first session after the "
            f"company’s {report.period} results.",
            f"{result[:1].upper()}{result[1:]} {verb} the average estimate of {estimate}, and the company {report.guidance} "
            f"its outlook. {contrast}".rstrip(),
        ),
        keywords=("earnings", "share price"),
        insights=((report.ticker, sentiment(change, 0.05), "The share price’s answer to the results."),),
    )


def _moved_date(stock: Stock, report: Report, first_time_ns: int) -> Draft:
    first_day = day_of(first_time_ns)
    later = report.day > first_day
    return Draft(
        key=f"moved {report.ticker} {report.period}",
        event_type="daily_news",
        time_ns=report.announced_ns + 20 * MINUTE,
        importance="low",
        tickers=(report.ticker,),
        title=f"{stock.name} moves {report.period} report to {short_day(report.day)}",
        description=f"The report had been planned for {short_day(first_day)}.",
        paragraphs=(
            f"{stock.name} ({report.ticker}) will report {report.period} results on {long_day(report.day)}, "
            f"{'later' if later else 'earlier'} than first planned. The old date was {long_day(first_day)}.",
            "The company gave no reason for the change.",
        ),
        keywords=("earnings", "calendar"),
        insights=((report.ticker, "neutral", "Only the date has changed."),),
    )


def _correction(stock: Stock, report: Report, revision: tuple[int, float]) -> Draft:
    time_ns, eps = revision
    return Draft(
        key=f"correction {report.ticker} {report.period}",
        event_type="daily_news",
        time_ns=time_ns + 30 * MINUTE,
        importance="low",
        tickers=(report.ticker,),
        title=f"{stock.name} restates {report.period} earnings",
        description=f"Earnings are now given as {dollars(eps)} a share, after {dollars(report.eps)}.",
        paragraphs=(
            f"In its quarterly filing {stock.name} ({report.ticker}) gives earnings for {report.period} as {dollars(eps)} a share. "
            f"It had reported {dollars(report.eps)} on {long_day(report.day)}.",
            "The company traced the difference to the timing of tax items and said that cash flow was not affected.",
        ),
        keywords=("earnings", "restatement"),
        insights=((report.ticker, sentiment(eps - report.eps), "A small correction of reported earnings."),),
    )
