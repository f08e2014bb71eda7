"""All articles of a market, each published after what it tells is public."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktdeval_qfinzero.data.rows import Bars, NewsRow
from ktdeval_qfinzero.data.synthetic.happenings import ACTIONS
from ktdeval_qfinzero.data.synthetic.macro import Reading
from ktdeval_qfinzero.data.synthetic.names import Coin
from ktdeval_qfinzero.data.synthetic.news_base import Draft, Quotes, publish
from ktdeval_qfinzero.data.synthetic.news_company import happening_article, life_articles
from ktdeval_qfinzero.data.synthetic.news_earnings import report_articles
from ktdeval_qfinzero.data.synthetic.news_market import Agenda, close_article, coin_articles, reading_article
from ktdeval_qfinzero.data.synthetic.news_options import flow_articles
from ktdeval_qfinzero.data.synthetic.option_bars import Flow
from ktdeval_qfinzero.data.synthetic.prices import Course

_REASONS = {
    "outlook_raised": "after it raised its outlook",
    "outlook_cut": "after it cut its outlook",
    "contract": "on a new contract",
    "approval": "on a regulator’s approval",
    "probe": "on an inquiry into its accounts",
    "lost_customer": "on the loss of a customer",
    "chief_leaves": "on the leave of its chief",
    "upgrade": "after an upgrade",
    "downgrade": "after a downgrade",
}


@dataclass(frozen=True, eq=False)
class Facts:
    """What articles are written from.

    Attributes:
        quotes: closes of the stocks.
        courses: what happened to each company.
        readings: economic releases.
        flows: ticker -> volumes of its options.
        coins: ticker -> coin, and its bars of days.
    """

    quotes: Quotes
    courses: Sequence[Course]
    readings: Sequence[Reading]
    flows: Mapping[str, Flow]
    coins: Mapping[str, tuple[Coin, Bars]]


def make_news(seed: int, facts: Facts) -> tuple[NewsRow, ...]:
    """The articles that are published until the last day's end, by time."""
    end_ns = int(facts.quotes.grid.midnight_ns[-1]) + 86_400 * 1_000_000_000
    rows = [publish(seed, draft) for draft in _drafts(seed, facts) if draft.time_ns < end_ns]
    return tuple(sorted(rows, key=lambda row: (row.published_ns, row.id)))


def _drafts(seed: int, facts: Facts) -> Iterator[Draft]:
    agenda = Agenda(
        {course.life.stock.ticker: course.life.stock for course in facts.courses},
        _reasons(facts.courses),
        facts.readings,
        tuple(report for course in facts.courses for report in course.reports),
    )
    for course in facts.courses:
        yield from _of_company(seed, course, facts)
    for row in range(len(facts.quotes.grid)):
        if (draft := close_article(seed, facts.quotes, row, agenda)) is not None:
            yield draft
    for reading in facts.readings:
        if (draft := reading_article(seed, reading)) is not None:
            yield draft
    yield from coin_articles(seed, facts.coins)


def _of_company(seed: int, course: Course, facts: Facts) -> Iterator[Draft]:
    stock = course.life.stock
    yield from life_articles(seed, course.life, facts.quotes)
    for report in course.reports:
        yield from report_articles(seed, stock, report, facts.quotes)
    for happening in course.happenings:
        if (draft := happening_article(seed, stock, happening, facts.quotes)) is not None:
            yield draft
    if stock.ticker in facts.flows:
        yield from flow_articles(seed, stock, facts.quotes.grid, facts.flows[stock.ticker])


def _reasons(courses: Sequence[Course]) -> dict[tuple[str, int], str]:
    """Why prices moved, as far as it is public at the close: reports before news of the company, news before analysts."""
    reasons: dict[tuple[str, int], str] = {}
    for course in courses:
        ticker = course.life.stock.ticker
        for happening in sorted(course.happenings, key=lambda happening: happening.kind not in ACTIONS):
            if happening.kind in _REASONS:
                reasons[ticker, happening.row] = _REASONS[happening.kind]
        for report in course.reports:
            if report.reaction_row is not None:
                reasons[ticker, report.reaction_row] = f"after its {report.period} report"
        if course.life.bid_row is not None:
            reasons[ticker, course.life.bid_row] = "after a bid"
    return reasons
