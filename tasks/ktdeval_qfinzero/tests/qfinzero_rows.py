"""Random calendar events, articles and queries for property tests: few tickers, words and moments,
so that they often meet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from ktdeval_qfinzero.data.rows import (
    CALENDAR_TYPES,
    IMPORTANCE,
    NEWS_TYPES,
    EventRelease,
    EventRow,
    MomentSpan,
    NewsRow,
    PageBounds,
    TagFilters,
)
from ktdeval_qfinzero.timestamps import MINUTE
from support.qfinzero.qfinzero_world import at

START = at("2025-01-06T14:00:00Z")
MOMENTS = st.integers(0, 30).map(lambda minute: START + minute * MINUTE)
TICKERS = st.lists(st.sampled_from(["AVLN", "BRKT", "CSTL", "ZZZZ"]), max_size=3).map(tuple)
MARKETS = ("us", "global", "crypto")
WORDS = [
    "Avalon",
    "avalon's",
    "Q4",
    "AT&T",
    "straße",
    "STRASSE",
    "ﬁne",
    "fine",
    "NEAR",
    "AND",
    "OR",
    "NOT",
    "a*b",
    '"quoted"',
    "x:y",
    "é",
    "e",
    "Ｑ４",
    "e\u0301",
    "贵州 茅台",
    "column - 3.5%",
    "snake_case",
    "\x00",
    "^up",
    "{set}",
]
TEXTS = st.one_of(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), st.text(max_size=6))
NUMBERS = st.one_of(st.integers(-5, 5), st.floats(-5, 5), st.none(), st.text(max_size=3))
VALUES = st.dictionaries(
    st.sampled_from(["actual", "consensus", "eps_actual", "note"]), NUMBERS, max_size=3
)


@st.composite
def _events(draw: Any) -> EventRow:
    moments = sorted(draw(st.lists(MOMENTS, max_size=3)))
    return EventRow(
        f"e{draw(st.integers(0, 10**6))}",
        draw(st.sampled_from(CALENDAR_TYPES)),
        draw(TEXTS),
        draw(MOMENTS),
        draw(MOMENTS),
        draw(st.sampled_from(IMPORTANCE)),
        draw(TICKERS),
        draw(st.sampled_from(["US", "DE"])),
        draw(st.sampled_from(MARKETS)),
        draw(VALUES),
        tuple(EventRelease(moment, draw(VALUES)) for moment in moments),
    )


@st.composite
def _articles(draw: Any) -> NewsRow:
    return NewsRow(
        f"n{draw(st.integers(0, 10**6))}",
        draw(st.sampled_from(NEWS_TYPES)),
        draw(TEXTS),
        draw(MOMENTS),
        draw(st.sampled_from(IMPORTANCE)),
        draw(TICKERS),
        draw(TEXTS),
        draw(TEXTS),
        "https://news.example/1",
        "A. Writer",
        draw(st.sampled_from([{"name": "Example Wire"}, {"name": "Große Post"}, {}])),
        draw(st.sampled_from(MARKETS)),
        draw(st.lists(st.sampled_from(WORDS), max_size=2).map(tuple)),
        insights=({"ticker": "AVLN", "sentiment": "positive"},),
    )


def storable(row: Any) -> Any:
    """A row as one that a file takes: a title, each ticker once, releases from its announcement on,
    and the prefix of articles.
    """
    row = replace(row, title=row.title or "-", tickers=tuple(dict.fromkeys(row.tickers)))
    if isinstance(row, NewsRow):
        return replace(row, id=f"news_{row.id.removeprefix('news_')}")

    moments = [row.announced_ns, *(release.available_ns for release in row.releases)]
    return replace(row, announced_ns=min(moments))


def _unique(rows: Any, name: str) -> Any:
    return st.lists(rows, max_size=8, unique_by=lambda row: getattr(row, name))


EVENT_LISTS = _unique(_events(), "event_id")
ARTICLE_LISTS = _unique(_articles(), "id")
SPANS = st.tuples(MOMENTS, MOMENTS).map(lambda pair: MomentSpan(min(pair), max(pair) + 1))
TAGS = st.builds(
    TagFilters,
    types=st.lists(st.sampled_from([*CALENDAR_TYPES, *NEWS_TYPES]), max_size=3).map(tuple),
    tickers=TICKERS,
    markets=st.lists(st.sampled_from(MARKETS), max_size=2).map(tuple),
    least=st.sampled_from(IMPORTANCE),
    text=st.one_of(st.just(""), st.sampled_from(WORDS), st.text(max_size=4)),
    publisher=st.sampled_from(["", "wire", "GROSSE", "ex%", "name\x00"]),
)
PAGES = st.builds(
    PageBounds,
    st.integers(0, 5),
    st.one_of(st.none(), st.tuples(MOMENTS, st.sampled_from(["", "e5", "n5", "news_n5", "~"]))),
)
