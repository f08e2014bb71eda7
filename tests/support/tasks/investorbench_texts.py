"""The news of InvestorBench (`shared/data/investorbench`) as documents of a market, and labels of
what a mask must hide in them.

`investorbench_mentions.csv` holds 174 texts, drawn by chance, marked by a broad word list and
corrected in reading each of them: where they name their company or coin (its names, tickers,
subsidiaries, products, officers, words of its own), where a calendar date, and where an event or a
person in office that dates the text. It holds places and hashes, no text. The entities are those of `ktdeval_investorbench`, written from public lists of
subsidiaries, brands and officers.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

import ktdeval_investorbench
from ktdeval.market import Close, Document, Documents, MarketSnapshot, SnapshotMeta
from ktdeval.masking import Hidden, Lens, MaskConfig, TextMask
from ktdeval_raw_markets.sources.document_files import read_entities

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "investorbench"
CODES = ("BTC", "JNJ", "MSFT")
NAMES = ("Bitcoin", "Johnson & Johnson", "Microsoft Corporation")
BASE_ROW = 20


@dataclass(frozen=True)
class Labelled:
    """A text with the spans that a reader marked."""

    code: str
    text: str
    assets: tuple[tuple[int, int], ...]
    dates: tuple[tuple[int, int], ...]
    events: tuple[tuple[int, int], ...]


@cache
def news(code: str) -> tuple[tuple[str, str], ...]:
    """Day and text of each item of one asset."""
    days = json.loads((FOLDER / f"{code.lower()}.json").read_text(encoding="utf-8"))
    items = []

    for day, cells in days.items():
        items += [(day, text) for text in cells["news"]]

    return tuple(items)


@cache
def market() -> MarketSnapshot:
    """Three assets on every day of the files, whose prices mean nothing, with all their news."""
    days = np.arange(np.datetime64("2020-03-12"), np.datetime64("2023-12-20"))
    grid = np.ones((len(days), 3))
    entities = [
        one
        for one in read_entities(Path(ktdeval_investorbench.__path__[0], "entities.csv"))
        if one.code in CODES
    ]
    items = []

    for code in CODES:
        items += [_item(code, day, text) for day, text in news(code)]

    return MarketSnapshot(
        SnapshotMeta("investorbench", "its news", synthetic=False, has_factor=True, benchmark="X"),
        days=days,
        codes=CODES,
        names=NAMES,
        industries=("unknown",) * 3,
        open=grid,
        high=grid,
        low=grid,
        close=grid,
        volume=grid,
        amount=grid,
        factor=grid,
        member=grid > 0,
        indices={"X": np.ones(len(days))},
        index_names={},
        documents=Documents.of(items, Close.parse("24:00 UTC"), entities),
    )


def text_mask(kind: str = "blinded") -> tuple[Lens, TextMask]:
    """A lens on the market, and its mask for texts."""
    lens = Lens(MaskConfig(kind), 1, market(), BASE_ROW)  # type: ignore[arg-type]
    return lens, TextMask(lens, market())


def labelled() -> Iterator[Labelled]:
    """Every labelled text. Raises ValueError: a text is not the one that was labelled."""
    files = {
        code.lower(): json.loads((FOLDER / f"{code.lower()}.json").read_text(encoding="utf-8"))
        for code in CODES
    }

    for row in _rows("investorbench_mentions.csv"):
        text = files[row["file"]][row["day"]]["news"][int(row["number"])]
        if sha256(text.encode()).hexdigest()[:12] != row["sha256"]:
            raise ValueError(
                f"{row['file']} {row['day']} {row['number']}: another text than the one that was"
                " labelled"
            )

        assets, dates, events = (_spans(row[kind]) for kind in ("assets", "dates", "events"))
        yield Labelled(row["file"].upper(), text, assets, dates, events)


@dataclass
class Score:
    """How well a mask does on labelled texts."""

    mentions: int = 0  #: labelled spans
    masked: int = 0  #: of them, those of which every letter and digit is hidden
    hidden: int = 0  #: spans that the mask hides
    false: int = 0  #: of them, those that touch no label
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def measure() -> Score:
    """Recall and false masking of the blinded mask on the labelled texts."""
    score, (_, mask) = Score(), text_mask()
    for one in labelled():
        spans = mask.find_hidden(one.text) or ()
        labels = (*one.assets, *one.dates, *one.events)
        score.mentions += len(labels)
        score.hidden += len(spans)
        for start, end in labels:
            if all(
                _is_covered(offset, spans)
                for offset in range(start, end)
                if one.text[offset].isalnum()
            ):
                score.masked += 1
            else:
                score.missed.append(f"{one.code} {one.text[max(0, start - 20) : end + 10]!r}")

        for span in spans:
            if not any(span.start < end and start < span.end for start, end in labels):
                score.false += 1
                score.wrong.append(
                    f"{one.code} {one.text[max(0, span.start - 20) : span.end + 10]!r}"
                )

    return score


def _is_covered(offset: int, spans: tuple[Hidden, ...]) -> bool:
    return any(span.start <= offset < span.end for span in spans)


def _item(code: str, day: str, text: str) -> Document:
    moment = datetime.fromisoformat(f"{day}T12:00:00+00:00")
    return Document(moment, moment, "news", "news", (code,), "", text)


def _rows(name: str) -> list[dict[str, str]]:
    with Path(__file__).with_name(name).open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _spans(text: str) -> tuple[tuple[int, int], ...]:
    pairs = [piece.split("-") for piece in text.split()]
    return tuple((int(start), int(end)) for start, end in pairs)
