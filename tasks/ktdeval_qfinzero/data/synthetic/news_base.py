"""What articles are made of: publishers, wording of numbers, and the facts of the market that were public at a moment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np

from ktdeval.api import derive_seed
from ktdeval_qfinzero.data.rows import EventType, FloatArray, Importance, Market, NewsRow
from ktdeval_qfinzero.data.synthetic.engine import Tape
from ktdeval_qfinzero.data.synthetic.grid import Grid, stream
from ktdeval_qfinzero.data.synthetic.macro_table import MONTHS
from ktdeval_qfinzero.moments import day_of

_PUBLISHERS = (
    ("Harbor Wire", "harborwire.example"),
    ("The Ledger Post", "ledgerpost.example"),
    ("Meridian Markets", "meridianmarkets.example"),
    ("Kestrel Financial News", "kestrelnews.example"),
    ("Opening Bell Daily", "openingbell.example"),
    ("Northgate Investor", "northgateinvestor.example"),
)
_FIRST_NAMES = (
    "Amara", "Bastian", "Celia", "Dorian", "Elif", "Fiona", "Gideon", "Hana", "Imre", "Jolene", "Kaspar", "Leonie",
    "Mateo", "Nadia", "Orla", "Pascal", "Renata", "Silas", "Tamsin", "Yusuf",
)  # fmt: skip
_LAST_NAMES = (
    "Ashgrove", "Bellweather", "Castellan", "Drummore", "Eastlake", "Fairholt", "Greythorn", "Hollins", "Inverdale", "Kestrow",
    "Lindqvist", "Marchetti", "Norwick", "Oyelaran", "Prescott", "Quillan", "Rosenfeld", "Sandoval", "Thackeray", "Winslow",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class Draft:
    """An article before a publisher and an author are given to it.

    Attributes:
        key: what it is about; no two articles share one.
        event_type, time_ns, importance, tickers, title, description, keywords, market: as in `NewsRow`.
        paragraphs: of the body.
        insights: ticker, sentiment (positive, neutral, negative), reasoning.
    """

    key: str
    event_type: EventType
    time_ns: int
    importance: Importance
    tickers: tuple[str, ...]
    title: str
    description: str
    paragraphs: Sequence[str]
    keywords: tuple[str, ...] = ()
    insights: tuple[tuple[str, str, str], ...] = ()
    market: Market = "us"


@dataclass(frozen=True, eq=False)
class Quotes:
    """Closes of all stocks.

    Attributes:
        grid: days.
        close: ticker -> [D] dollars; NaN on days without a bar.
        before: ticker -> [D] the last close before each day in that day's shares (a split divides it); NaN before the listing.
    """

    grid: Grid
    close: Mapping[str, FloatArray] = field(default_factory=dict)
    before: Mapping[str, FloatArray] = field(default_factory=dict)

    def change(self, ticker: str, row: int) -> float:
        """Percent from the last close to a day's; NaN where there is none."""
        return float((self.close[ticker][row] / self.before[ticker][row] - 1.0) * 100.0)

    def changes(self, row: int) -> dict[str, float]:
        """Percent of all stocks that have one, by ticker."""
        found = {ticker: self.change(ticker, row) for ticker in sorted(self.close)}
        return {ticker: change for ticker, change in found.items() if np.isfinite(change)}


def closes_of(grid: Grid, tape: Tape, splits: Mapping[int, float]) -> tuple[FloatArray, FloatArray]:
    """[D] closes of a stock, and [D] the last close before each day in that day's shares.

    Args:
        grid: days.
        tape: the stock's bars.
        splits: row of an ex-day -> shares for each old one.
    """
    close = np.full(len(grid), np.nan)
    close[np.searchsorted(grid.midnight_ns, tape.days.start_ns)] = tape.days.close_e4 / 1e4
    before = np.full(len(grid), np.nan)
    last = np.nan
    for row in range(len(grid)):
        last /= splits.get(row, 1.0)
        before[row] = last
        last = close[row] if np.isfinite(close[row]) else last
    return close, before


def publish(seed: int, draft: Draft) -> NewsRow:
    """The article, with a publisher, an author and addresses that exist nowhere."""
    rng = stream(seed, "news", draft.key)
    name, domain = _PUBLISHERS[int(rng.integers(len(_PUBLISHERS)))]
    identity = f"news_{derive_seed(seed, 'news id', draft.key):016x}"
    day = day_of(draft.time_ns)
    slug = re.sub(r"[^a-z0-9]+", "-", draft.title.casefold()).strip("-")[:80].strip("-")
    return NewsRow(
        id=identity,
        event_type=draft.event_type,
        title=draft.title,
        published_ns=draft.time_ns,
        importance=draft.importance,
        tickers=draft.tickers,
        description=draft.description,
        body="\n\n".join(draft.paragraphs),
        article_url=f"https://{domain}/{day:%Y/%m/%d}/{slug}",
        author=person(rng),
        publisher={"name": name, "homepage_url": f"https://{domain}", "logo_url": f"https://{domain}/logo.png"},
        market=draft.market,
        keywords=draft.keywords,
        image_url=f"https://{domain}/images/{identity}.jpg",
        insights=tuple(
            {"ticker": ticker, "sentiment": sentiment, "reasoning": reasoning} for ticker, sentiment, reasoning in draft.insights
        ),
    )


def person(rng: np.random.Generator) -> str:
    """An invented name."""
    return f"{_FIRST_NAMES[int(rng.integers(len(_FIRST_NAMES)))]} {_LAST_NAMES[int(rng.integers(len(_LAST_NAMES)))]}"


def chief(seed: int, ticker: str) -> str:
    """A company's chief executive."""
    return person(stream(seed, "chief", ticker))


def choose(rng: np.random.Generator, texts: Sequence[str]) -> str:
    """One of some wordings."""
    return texts[int(rng.integers(len(texts)))]


def dollars(amount: float) -> str:
    """`$1.25 billion`, `$340 million`, `$12.50`."""
    if abs(amount) >= 1e9:
        return f"${amount / 1e9:.2f} billion"
    if abs(amount) >= 1e6:
        return f"${amount / 1e6:.0f} million" if abs(amount) >= 1e8 else f"${amount / 1e6:.1f} million".replace(".0 ", " ")
    return f"-${-amount:,.2f}" if amount < 0 else f"${amount:,.2f}"


def profit(eps: float) -> str:
    """`earnings of $0.31 a share`, or `a loss of $0.12 a share`."""
    return f"a loss of {dollars(-eps)} a share" if eps < 0 else f"earnings of {dollars(eps)} a share"


def moved(percent: float) -> str:
    """`rose 2.3%`, `fell 0.4%`, `was little changed`."""
    if abs(percent) < 0.05:
        return "was little changed"
    return f"{'rose' if percent > 0 else 'fell'} {abs(percent):.1f}%"


def long_day(day: date) -> str:
    """`Tuesday, February 4`."""
    return f"{WEEKDAYS[day.weekday()]}, {MONTHS[day.month - 1]} {day.day}"


def short_day(day: date) -> str:
    """`February 4`."""
    return f"{MONTHS[day.month - 1]} {day.day}"


def sentiment(value: float, neutral: float = 0.0) -> str:
    """`positive`, `neutral` or `negative`."""
    return "neutral" if abs(value) <= neutral else "positive" if value > 0 else "negative"
