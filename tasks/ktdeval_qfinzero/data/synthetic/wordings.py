"""Wordings of the embedded market's articles (`news.yaml`), and the functions that write articles
from these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from jinja2 import Environment, StrictUndefined, Template

from ktdeval.values import Value, derive_seed, from_plain, load_yaml
from ktdeval_qfinzero.data.rows import Importance, NewsRow
from ktdeval_qfinzero.data.synthetic.macro import MONTHS, Series
from ktdeval_qfinzero.data.synthetic.minute_grid import stream
from ktdeval_qfinzero.timestamps import day_of, moment_text

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class CompanyNewsKind(Value, frozen=True, kw_only=True):
    """A kind of a company's own news. `titles`, `openings`, `remarks` are alternatives for parts of
    the article.
    """

    size: float  #: jump in the price, in standard deviations of a day
    importance: Importance
    titles: tuple[str, ...]
    openings: tuple[str, ...]
    remarks: tuple[str, ...]
    keywords: tuple[str, ...]
    reasoning: str
    sectors: tuple[str, ...] = ()  #: sectors in which this kind occurs; empty: all
    reason: str = ""  #: reason for a move, as given in a day's summary; empty: none


class Article(Value, frozen=True, kw_only=True):
    """Article in the form of Jinja templates, with expressions in single braces. Paragraphs that
    render empty are omitted.
    """

    key: str
    event_type: str
    title: str = ""  #: empty if the title is drawn
    description: str
    paragraphs: tuple[str, ...]
    words: dict[str, str] = msgspec.field(
        default_factory=dict
    )  #: texts used by the others, filled first and in order
    importance: str = "low"
    keywords: tuple[str, ...] = ()
    sentiment: str = "neutral"  #: sentiment for each ticker that the article is about
    reasoning: str = ""
    market: str = "us"


class Wordings(Value, frozen=True, kw_only=True):
    """Contents of `news.yaml`."""

    publishers: dict[str, str]
    first_names: tuple[str, ...]
    last_names: tuple[str, ...]
    partners: tuple[str, ...]
    bidders: tuple[str, ...]
    brokers: tuple[str, ...]
    company_news: dict[str, CompanyNewsKind]
    reasons: dict[str, str]
    choices: dict[str, tuple[str, ...]]
    articles: dict[str, Article]


@cache
def wordings() -> Wordings:
    """Return the contents of `news.yaml`, which is read when the first market is generated."""
    path = Path(__file__).with_name("news.yaml")
    return from_plain(load_yaml(path), Wordings, str(path))


class Newsroom:
    """Writer of a market's articles. `seed`: the market's seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def write(
        self,
        name: str,
        time_ns: int,
        values: Mapping[str, Any],
        *,
        tones: Sequence[tuple[str, str]] | None = None,
        tickers: Sequence[str] | None = None,
        words: Mapping[str, str] | None = None,
        **changes: object,
    ) -> NewsRow:
        """Return an article about the `stock` among `values`, or about `tickers`, with an invented
        publisher, author and addresses.

        `tones`: ticker and sentiment of each insight; `words`: additional variables for the
        template; `changes`: fields of the article to replace.
        """
        form = msgspec.structs.replace(wordings().articles[name], **changes)
        known = dict(values)
        for word, text in {**form.words, **(words or {})}.items():
            known[word] = fill(text, known)

        if tickers is None:
            tickers = [known["stock"].ticker] if "stock" in known else []
        if tones is None:
            sentiment = fill(form.sentiment, known)
            tones = [(ticker, sentiment) for ticker in tickers]

        key = fill(form.key, known)
        rng = stream(self.seed, "news", key)
        publishers = list(wordings().publishers.items())
        publisher, domain = publishers[int(rng.integers(len(publishers)))]
        identity = f"news_{derive_seed(self.seed, 'news id', key):016x}"
        paragraphs = [fill(text, known).rstrip() for text in form.paragraphs]
        reasoning = fill(form.reasoning, known)
        texts: dict[str, Any] = {}
        for field in ("event_type", "title", "importance", "description", "market"):
            texts[field] = fill(getattr(form, field), known)

        return NewsRow(
            id=identity,
            published_ns=time_ns,
            tickers=tuple(tickers),
            body="\n\n".join(text for text in paragraphs if text),
            article_url=f"https://{domain}/{day_of(time_ns):%Y/%m/%d}/{_slug(texts['title'])}",
            author=_person(rng),
            publisher={
                "name": publisher,
                "homepage_url": f"https://{domain}",
                "logo_url": f"https://{domain}/logo.png",
            },
            keywords=tuple(fill(text, known) for text in form.keywords),
            image_url=f"https://{domain}/images/{identity}.jpg",
            insights=tuple(
                {"ticker": ticker, "sentiment": tone, "reasoning": reasoning}
                for ticker, tone in tones
            ),
            **texts,
        )

    def stream(self, *words: str) -> np.random.Generator:
        """Return a random stream for the articles."""
        return stream(self.seed, *words)

    def chief(self, ticker: str) -> str:
        """Return the name of a company's chief executive."""
        return _person(stream(self.seed, "chief", ticker))


def _slug(title: str) -> str:
    """Return a title in the form used at the end of an address: lower case, joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")[:80].strip("-")


def fill(text: str, values: Mapping[str, Any]) -> str:
    """Return a template's text."""
    return _template(text).render(values)


@cache
def _template(text: str) -> Template:
    return _environment().from_string(text)


@cache
def _environment() -> Environment:
    environment = Environment(
        undefined=StrictUndefined,
        variable_start_string="{",
        variable_end_string="}",
        autoescape=False,  # noqa: S701 - texts of articles, not of a page
    )
    environment.filters |= _FILTERS
    return environment


def choice(rng: np.random.Generator, name: str) -> str:
    """Draw one of the wordings for a part of an article, unfilled."""
    return choose(rng, wordings().choices[name])


def choose(rng: np.random.Generator, texts: Sequence[str]) -> str:
    """Draw one of several texts."""
    return texts[int(rng.integers(len(texts)))]


def sentiment(value: float, neutral: float = 0.0) -> str:
    """Return `positive`, `neutral` or `negative`."""
    if abs(value) <= neutral:
        return "neutral"
    return "positive" if value > 0 else "negative"


def dollars(amount: float) -> str:
    """Format an amount, such as `$1.25 billion`, `$340 million` or `$12.50`."""
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
    """Return text such as `earnings of $0.31 a share` or `a loss of $0.12 a share`."""
    if eps < 0:
        return f"a loss of {dollars(-eps)} a share"
    return f"earnings of {dollars(eps)} a share"


def _short_profit(eps: float) -> str:
    return profit(eps).removeprefix("a ")


def _describe_move(percent: float) -> str:
    """Return text such as `rose 2.3%`, `fell 0.4%` or `was little changed`."""
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


def _choose_by_sign(value: float, zero: str, above: str, below: str) -> str:
    if value == 0:
        return zero
    return above if value > 0 else below


def _whole_text(amount: float) -> str:
    return f"{amount:,.0f}"


def _in_unit(value: float, series: Series) -> str:
    """Format a value in the unit of its series."""
    match series.unit:
        case "pct":
            return f"{value:.{series.digits}f}%"
        case "count":
            return _whole_text(value)
        case "index":
            return f"{value:.1f}"


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "capitalised": lambda text: text[:1].upper() + text[1:],
    "day": day_of,
    "dollars": dollars,
    "in_unit": _in_unit,
    "long_day": _long_day,
    "lowered": lambda text: text[:1].lower() + text[1:],
    "moment": moment_text,
    "moved": _describe_move,
    "profit": profit,
    "short_day": _short_day,
    "short_profit": _short_profit,
    "size": _percent_text,
    "tone": sentiment,
    "way": _choose_by_sign,
    "whole": _whole_text,
}  #: Formatters for values: `{amount|dollars}`, `{change|way('even', 'up', 'down')}`


def _person(rng: np.random.Generator) -> str:
    return f"{choose(rng, wordings().first_names)} {choose(rng, wordings().last_names)}"
