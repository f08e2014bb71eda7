"""Wordings of the embedded market's articles (`news.yaml`), and how articles are written from
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, Protocol, runtime_checkable

import msgspec
import numpy as np

from ktdeval.values import Value, derive_seed, from_plain, load_yaml
from ktdeval_qfinzero.data.rows import EventType, Importance, Market, NewsRow
from ktdeval_qfinzero.data.synthetic.macro import MONTHS
from ktdeval_qfinzero.data.synthetic.minute_grid import stream
from ktdeval_qfinzero.timestamps import day_of

Slots = dict[str, object]  #: Values that fill the slots of a text, by name

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@runtime_checkable
class HasTicker(Protocol):
    """A company or coin that an article is about."""

    @property
    def ticker(self) -> str:
        """Ticker."""


class CompanyNewsKind(Value, frozen=True, kw_only=True):
    """A kind of a company's own news; `titles, openings, remarks` are alternatives of the article's
    parts.
    """

    size: float  #: jump of the price in standard deviations of a day
    importance: Importance
    titles: tuple[str, ...]
    openings: tuple[str, ...]
    remarks: tuple[str, ...]
    keywords: tuple[str, ...]
    reasoning: str
    sectors: tuple[str, ...] = ()  #: where it occurs; in all where empty
    reason: str = ""  #: reason that a day's summary gives for a move; none where empty


class Article(Value, frozen=True, kw_only=True):
    """Template of an article; every text has slots. A paragraph that comes out empty is left
    out.
    """

    key: str
    event_type: EventType
    title: str
    description: str
    paragraphs: tuple[str, ...]
    importance: Importance = "low"
    keywords: tuple[str, ...] = ()
    sentiment: str = "neutral"
    reasoning: str = ""
    market: Market = "us"


class Wordings(Value, frozen=True, kw_only=True):
    """Contents of `news.yaml`."""

    publishers: dict[str, str]
    first_names: tuple[str, ...]
    last_names: tuple[str, ...]
    partners: tuple[str, ...]
    bidders: tuple[str, ...]
    brokers: tuple[str, ...]
    company_news: dict[str, CompanyNewsKind]
    phrases: dict[str, str]
    choices: dict[str, tuple[str, ...]]
    articles: dict[str, Article]


@cache
def wordings() -> Wordings:
    """Return the contents of `news.yaml`, which is read when the first market is generated."""
    path = Path(__file__).with_name("news.yaml")
    return from_plain(load_yaml(path), Wordings, str(path))


class Newsroom:
    """Writes the articles of a market. `seed`: of the market."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def write(
        self,
        name: str,
        time_ns: int,
        slots: Mapping[str, object],
        tones: Sequence[tuple[str, str]] | None = None,
        tickers: Sequence[str] | None = None,
        **changes: object,
    ) -> NewsRow:
        """Return the article of a template, with a publisher, an author and addresses that exist
        nowhere. A `stock` among `slots` is what it is about where `tickers` are not given; `tones`:
        ticker and sentiment of each insight; `changes`: fields of the template to replace.
        """
        form = msgspec.structs.replace(wordings().articles[name], **changes)
        stock = slots.get("stock")
        about: list[str] = [stock.ticker] if isinstance(stock, HasTicker) else []
        if tones is None:
            tones = [(ticker, form.sentiment) for ticker in about]
        if tickers is None:
            tickers = about

        key = fill(form.key, **slots)
        title = fill(form.title, **slots)
        rng = stream(self.seed, "news", key)
        publishers = list(wordings().publishers.items())
        publisher, domain = publishers[int(rng.integers(len(publishers)))]
        identity = f"news_{derive_seed(self.seed, 'news id', key):016x}"
        paragraphs = [fill(text, **slots).rstrip() for text in form.paragraphs]
        reasoning = fill(form.reasoning, **slots)
        insights = [
            {"ticker": ticker, "sentiment": tone, "reasoning": reasoning} for ticker, tone in tones
        ]

        return NewsRow(
            id=identity,
            event_type=form.event_type,
            title=title,
            published_ns=time_ns,
            importance=form.importance,
            tickers=tuple(tickers),
            description=fill(form.description, **slots),
            body="\n\n".join(text for text in paragraphs if text),
            article_url=f"https://{domain}/{day_of(time_ns):%Y/%m/%d}/{_slug(title)}",
            author=_person(rng),
            publisher={
                "name": publisher,
                "homepage_url": f"https://{domain}",
                "logo_url": f"https://{domain}/logo.png",
            },
            market=form.market,
            keywords=tuple(fill(text, **slots) for text in form.keywords),
            image_url=f"https://{domain}/images/{identity}.jpg",
            insights=tuple(insights),
        )

    def stream(self, *words: str) -> np.random.Generator:
        """Return a stream of chance of the articles."""
        return stream(self.seed, *words)

    def chief(self, ticker: str) -> str:
        """Return the name of a company's chief executive."""
        return _person(stream(self.seed, "chief", ticker))


def _slug(title: str) -> str:
    """Return a title as the end of an address: lower case, joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")[:80].strip("-")


def fill(text: str, **slots: object) -> str:
    """Return a text with its slots filled. A slot is written as in `str.format`, or with one of the
    names in `FORMATS` behind the colon, or with two or three alternatives: `{up:gains|loses}` for
    true and false, `{step:holds|raises|cuts}` for zero, above and below.
    """
    return _FORMATTER.vformat(text, (), slots)


def phrase(name: str, **slots: object) -> str:
    """Return a part of an article that has one wording."""
    return fill(wordings().phrases[name], **slots)


def choice(rng: np.random.Generator, name: str, **slots: object) -> str:
    """Return a part of an article that has several wordings."""
    return fill(choose(rng, wordings().choices[name]), **slots)


def choose(rng: np.random.Generator, texts: Sequence[str]) -> str:
    """Draw one of some texts."""
    return texts[int(rng.integers(len(texts)))]


def sentiment(value: float, neutral: float = 0.0) -> str:
    """Return `positive`, `neutral` or `negative`."""
    if abs(value) <= neutral:
        return "neutral"
    return "positive" if value > 0 else "negative"


def dollars(amount: float) -> str:
    """Return `$1.25 billion`, `$340 million`, `$12.50`."""
    if abs(amount) >= 1e9:
        return f"${amount / 1e9:.2f} billion"
    if abs(amount) >= 1e8:
        return f"${amount / 1e6:.0f} million"
    if abs(amount) >= 1e6:
        return f"${amount / 1e6:.1f} million".replace(".0 ", " ")
    if amount < 0:
        return f"-${-amount:,.2f}"

    return f"${amount:,.2f}"


def profit(eps: float) -> str:
    """Return `earnings of $0.31 a share`, or `a loss of $0.12 a share`."""
    if eps < 0:
        return f"a loss of {dollars(-eps)} a share"
    return f"earnings of {dollars(eps)} a share"


def _short_profit(eps: float) -> str:
    return profit(eps).removeprefix("a ")


def _describe_move(percent: float) -> str:
    """Return `rose 2.3%`, `fell 0.4%`, `was little changed`."""
    if abs(percent) < 0.05:
        return "was little changed"

    verb = "rose" if percent > 0 else "fell"
    return f"{verb} {abs(percent):.1f}%"


def _percent_text(percent: float) -> str:
    return f"{abs(percent):.1f}%"


def _short_day(day: date) -> str:
    return f"{MONTHS[day.month - 1]} {day.day}"


def _long_day(day: date) -> str:
    return f"{WEEKDAYS[day.weekday()]}, {_short_day(day)}"


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


FORMATS: Mapping[str, Callable[[Any], str]] = {
    "capitalised": _capitalise,
    "dollars": dollars,
    "long_day": _long_day,
    "lowered": _lower_first,
    "moved": _describe_move,
    "profit": profit,
    "short_day": _short_day,
    "short_profit": _short_profit,
    "size": _percent_text,
}  #: Ways to write a slot: `{amount:dollars}`, `{day:long_day}`


class _SlotFormatter(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in FORMATS:
            return FORMATS[format_spec](value)
        if "|" not in format_spec:
            return str(super().format_field(value, format_spec))

        texts = format_spec.split("|")
        if len(texts) == 2:
            return texts[0] if value else texts[1]
        if value == 0:
            return texts[0]

        return texts[1] if value > 0 else texts[2]


_FORMATTER = _SlotFormatter()


def _person(rng: np.random.Generator) -> str:
    return f"{choose(rng, wordings().first_names)} {choose(rng, wordings().last_names)}"
