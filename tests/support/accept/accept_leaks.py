"""A scanner for leaks that shares nothing with the leak guard: naive searches for whatever could
name a stock or a day.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain

from ktdeval.market.snapshots.snapshot import MarketSnapshot

SIX_DIGITS = re.compile(r"(?<![0-9])[0-9]{6}(?![0-9])")
EXCHANGE = r"(?:SH|SS|SSE|SZ|SZSE|BJ|BSE|XSHG|XSHE|XBSE)"
CODE_WITH_EXCHANGE = re.compile(
    rf"{EXCHANGE}[ .:_-]?[0-9]{{6}}|[0-9]{{6}}[ .:_-]?{EXCHANGE}(?![A-Za-z])", re.IGNORECASE
)
SUFFIX = re.compile(r"\.(?:SH|SS|SZ|BJ|XSHG|XSHE)\b", re.IGNORECASE)
MONTHS = "January|February|April|June|July|August|September|October|November|December"
WEEKDAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
DATES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<![0-9])(?:19|20)[0-9]{2}[-/.][0-9]{1,2}[-/.][0-9]{1,2}(?![0-9])",  # 2024-09-24
        # 20240924
        r"(?<![0-9])(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?![0-9])",
        # a bare year; numbers like one carry `.0`
        r"(?<![0-9.+_A-Za-z-])(?:199[0-9]|20(?!00)[0-3][0-9])(?![0-9.A-Za-z])",
        # 2000 alone is a round lot, so a word must call it a year
        r"\b(?:in|since|year|of|during|until) 2000(?![0-9.A-Za-z])",
        r"[0-9〇零一二三四五六七八九十]+ ?[年月日号]",
        r"(?:周|星期|礼拜)[一二三四五六日天]",
        rf"(?i:\b(?:{MONTHS}|{WEEKDAYS})s?\b)",
        (
            r"\b(?:in|since|by|until|of|before|after) (?:March|May)\b|\b(?:March|May) [0-9]|[0-9]"
            r" (?:March|May)\b"
        ),
        r"\b(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat)\b",
        (
            r"(?i:spring festival|national day|golden week|new year|labou?r"
            r" day|mid-autumn|qingming|dragon boat)"
        ),
    )
)
OFFERED_CODES = ("600519", "600036", "000001", "300750", "688981", "000858", "000300")
"""Codes that `builtin/chaos` writes. They are real ones, whatever the market."""


class Scanner:
    """Looks for identities of a market in text."""

    def __init__(self, market: MarketSnapshot) -> None:
        self.codes = {code[:6] for code in (*market.codes, *market.indices)} | set(OFFERED_CODES)
        names = {
            name for name, code in zip(market.names, market.codes, strict=True) if name != code
        }
        names |= set(market.industries)

        if market.meta.synthetic:  # each invented word names one thing
            words = chain.from_iterable(name.split() for name in names)
            names |= {word for word in words if len(word) > 4 and not word.isdigit()} - TRADES

        self.names = sorted({_plain(name).strip() for name in names} - {"unknown"})
        self.indices = sorted(map(_plain, market.index_names.values()))

    def codes_in(self, text: str) -> Iterator[str]:
        """Codes of the market in any vendor's form, and anything that has an exchange's suffix."""
        yield from (digits for digits in SIX_DIGITS.findall(text) if digits in self.codes)
        for pattern in (CODE_WITH_EXCHANGE, SUFFIX):
            for match in pattern.finditer(text):
                yield match[0]

    def names_in(self, text: str) -> Iterator[str]:
        """Names of companies and industries."""
        return (name for name in self.names if name in text)

    def indices_in(self, text: str) -> list[str]:
        """Names of indices."""
        return [name for name in self.indices if name in _plain(text)]

    def dates_in(self, text: str) -> Iterator[str]:
        """Dates, years, months, weekdays, holidays."""
        for pattern in DATES:
            for match in pattern.finditer(text):
                yield match[0]

    def leaks(self, texts: Iterable[str], assets: bool, dates: bool) -> set[str]:
        """Every identity in any of the texts, of the kinds that are to be hidden."""
        identities: set[str] = set()
        for form in set(chain.from_iterable(map(_forms, texts))):
            if assets:
                identities.update(self.codes_in(form), self.names_in(_plain(form)))

            if dates:
                identities.update(self.dates_in(form))

        return identities


TRADES = frozenset(
    {
        "Lending",
        "Insurance",
        "Brokerage",
        "Metals",
        "Chemicals",
        "Cement",
        "Steel",
        "Machinery",
        "Electrics",
        "Autos",
        "Semiconductors",
        "Software",
        "Telecom",
        "Media",
        "Pharma",
        "Devices",
        "Liquor",
        "Foods",
        "Utilities",
        "Transport",
        "Property",
        "Defence",
    }
)
"""Ordinary words in the synthetic market's industry names."""


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).lower()


def _forms(text: str) -> Iterator[str]:
    """A text as it is, with JSON escapes resolved, and with full-width and unseen characters made
    plain.
    """
    resolved = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    plain = "".join(
        c for c in unicodedata.normalize("NFKC", resolved) if unicodedata.category(c) != "Cf"
    )

    return iter({text, resolved, plain})
