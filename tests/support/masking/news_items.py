"""Made-up news about a market's assets, with everything in it that a mask must hide."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from ktdeval.market import Close, Document, Documents, Entity, MarketSnapshot

SENTENCES = (
    "Sales of {name}|{name} ({code}) said on {day} that its {product} sells well.",
    "On margins|Analysts of {other} see {name}'s margin at {number} % in {year}.",
    "{code} is down|{code} fell; {other} rose, {industry} as a whole was flat on {weekday}.",
    "Dividend at {name}|Dividend of {number} fen a share, says the board of {name}.",
)


def with_news(market: MarketSnapshot, first: int, last: int) -> MarketSnapshot:
    """The market with two items a day from row `first` to `last`, known around its closes, and a
    product of each asset.
    """
    rng = np.random.default_rng(3)
    close = Close()
    entities = [
        Entity(code, "product", f"Zarvok{chr(65 + index % 26)}{index}")
        for index, code in enumerate(market.codes)
    ]
    items = []

    for row in range(first, last + 1):
        for number in range(2):
            asset, other = rng.integers(0, len(market.codes), 2).tolist()
            title, text = (
                SENTENCES[int(rng.integers(0, len(SENTENCES)))]
                .format(
                    name=market.names[asset],
                    code=market.codes[asset],
                    other=market.names[other],
                    industry=market.industries[asset],
                    day=market.days[row],
                    year=str(market.days[row])[:4],
                    weekday="Monday",
                    product=entities[asset].text,
                    number=number,
                )
                .split("|")
            )
            known = datetime.fromtimestamp(close.instant(market.days[row]) / 1e6, UTC) + timedelta(
                hours=float(rng.integers(-8, 9))
            )
            filed = (market.codes[asset],) if number % 3 else ()
            items.append(
                Document(
                    known - timedelta(minutes=1),
                    known,
                    f"{market.names[other]} wire",
                    "news",
                    filed,
                    title,
                    text,
                )
            )

    return replace(market, documents=Documents.of(items, close, entities))


def poisoned_news(market: MarketSnapshot, row: int, seed: int = 0) -> Documents:
    """The documents with other ones in place of all that were not known at the close of `row`, and
    far more of them.
    """
    documents = market.documents
    rng = np.random.default_rng(seed)
    end = len(documents.as_of(market.days[: row + 1]))
    close = datetime.fromtimestamp(documents.close.instant(market.days[row]) / 1e6, UTC)
    later = [
        Document(
            close - timedelta(days=3),
            close + timedelta(microseconds=int(shift)),
            "poison",
            "poison",
            tuple(rng.permutation(market.codes)[:3]),
            "POISON",
            f"POISON dividend {market.names[0]} {shift}",
        )
        for shift in (1, 2, *rng.integers(3, 10**12, 40))
    ]

    return Documents.of(
        [*(documents[index] for index in range(end)), *later], documents.close, documents.entities
    )
