"""A second market that differs from a first one in all of one kind: what a mode or a mask hides.

Columns, rows and whatever else the kind does not name stay, so that a task that hides the kind must
show the same bytes of both.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta

import numpy as np

from ktdeval.market import Documents, MarketSnapshot, MinuteBars, window_rows
from ktdeval.market.snapshots.snapshot import BAR_FIELDS
from ktdeval.task_api import EpisodeSpec, Window
from ktdeval.values import derive_seed

PRICES = ("open", "high", "low", "close")
_DAY_SHIFT = np.timedelta64(1_001, "D")  # as many weeks and no day of the week
_ROWS_A_GAP = 40  # every so many rows a day more is left out
_BOARD_CODE = re.compile(r"(\d{3})(\d{3})(\.[A-Z]{2})")
_LEGAL = frozenset({"Corp", "Inc", "Company", "unknown"})


class FixedDraw(EpisodeSpec):
    """Episode whose mask draws the same on whatever days its window lies."""

    def hidden_seed(self, purpose: str, bits: int = 63) -> int:
        return derive_seed("drawn", self.seed, self.task, self.mask or "", purpose, bits=bits)

    @classmethod
    def of(cls, spec: EpisodeSpec) -> FixedDraw:
        return cls(**{field.name: getattr(spec, field.name) for field in fields(EpisodeSpec)})


@dataclass(frozen=True)
class Shown:
    """What a close may show: its row, what is asked about or listed, and what is held."""

    spec: EpisodeSpec
    row: int
    columns: Collection[int]  #: of the assets that a prompt or an answer is about
    held: Sequence[int] = ()  #: of these, the two that are held in equal numbers of shares


def once_a_market(
    make: Callable[[MarketSnapshot], MarketSnapshot],
) -> Callable[..., MarketSnapshot]:
    """Make the other market of the latest one once: tasks of a family share theirs."""
    latest: list[tuple[MarketSnapshot, MarketSnapshot]] = []

    def made(market: MarketSnapshot) -> MarketSnapshot:
        if not latest or latest[0][0] is not market:
            latest[:] = [(market, make(market))]

        return latest[0][1]

    return made


Other = Callable[[MarketSnapshot, Shown], tuple[MarketSnapshot, EpisodeSpec]]


def later(market: MarketSnapshot, shown: Shown) -> tuple[MarketSnapshot, EpisodeSpec]:
    """Everything after the close is different: bars, factors, members, indices, documents."""
    tail = slice(shown.row + 1, None)

    def spoiled(values: np.ndarray) -> np.ndarray:
        other = values.copy()
        other[tail] = ~values[tail] if values.dtype == bool else 7.77
        return other

    changed = {name: spoiled(getattr(market, name)) for name in (*BAR_FIELDS, "member")}
    changed["factor"] = market.factor.copy()
    changed["factor"][tail] *= 1.7  # what the market refuses is factors that leap
    known = len(market.documents.as_of(market.days[: shown.row + 1]))
    minutes = market.minutes

    if minutes:
        is_later = minutes.rows["ends_at"] > market.days[shown.row] + np.timedelta64(2, "D")
        rows = minutes.rows.copy()
        for name in (*PRICES, "volume"):
            rows[name][is_later] = 7.77

        minutes = MinuteBars(minutes.codes, rows)

    other = replace(
        market,
        **changed,
        indices={code: spoiled(levels) for code, levels in market.indices.items()},
        documents=market.documents.first(known),
        minutes=minutes,
    )

    return other, shown.spec


def index(market: MarketSnapshot, shown: Shown) -> tuple[MarketSnapshot, EpisodeSpec]:
    """All levels of all indices are different."""
    chance = np.random.default_rng(1)
    indices = {
        code: 1_000.0 * np.exp(np.cumsum(chance.normal(0, 0.02, len(levels))))
        for code, levels in market.indices.items()
    }

    return replace(market, indices=indices), shown.spec


def prices(market: MarketSnapshot, shown: Shown) -> tuple[MarketSnapshot, EpisodeSpec]:
    """All prices, volumes and suspensions are different. Two holdings change their bars, so that
    their sum, and the NAV, stays.
    """
    chance = np.random.default_rng(2)
    shape = market.close.shape
    close = np.round(30 * np.exp(np.cumsum(chance.normal(0, 0.02, shape), axis=0)), 2)
    close[chance.random(shape) < 0.1] = np.nan
    bars = dict.fromkeys(PRICES, close)
    silent = np.isnan(close)
    bars["volume"] = np.where(silent, 0.0, 1e6)
    bars["amount"] = np.where(silent, np.nan, 3e7)
    factor = np.ones(shape)

    if shown.held:
        one, two = shown.held
        for name in bars:
            bars[name] = bars[name].copy()
            bars[name][:, [one, two]] = getattr(market, name)[:, [two, one]]

        factor[:, [one, two]] = market.factor[:, [two, one]]

    return replace(market, **bars, factor=factor), shown.spec


def others(market: MarketSnapshot, shown: Shown) -> tuple[MarketSnapshot, EpisodeSpec]:
    """Assets that are neither shown nor held have other prices and volumes, and the same amounts
    and returns: so they rank as before.
    """
    chance = np.random.default_rng(3)
    scale = chance.uniform(0.2, 5.0, len(market.codes))
    scale[[*shown.columns, *shown.held]] = 1.0

    assert (scale != 1.0).any() or len(market.codes) == len({*shown.columns, *shown.held})

    bars = {name: getattr(market, name) * scale for name in PRICES}

    return replace(market, **bars, volume=market.volume / scale), shown.spec


def calendar(market: MarketSnapshot, shown: Shown) -> tuple[MarketSnapshot, EpisodeSpec]:
    """Days are others, of another year, season and weekday and with other gaps; documents and
    minutes move with them.
    """
    other = _on_other_days(market)
    first, stop = window_rows(market.days, shown.spec.span.first, shown.spec.span.last)
    window = Window(shown.spec.span.name, str(other.days[first]), str(other.days[stop - 1]))

    return other, replace(shown.spec, window=window)


@once_a_market
def _on_other_days(market: MarketSnapshot) -> MarketSnapshot:
    rows = np.arange(len(market.days))
    days = market.days + _DAY_SHIFT + (rows // _ROWS_A_GAP).astype("m8[D]")
    new = {str(day): str(other) for day, other in zip(market.days, days, strict=True)}

    def shift_of(row: int) -> timedelta:
        row = min(row, len(days) - 1)
        return timedelta(days=int((days[row] - market.days[row]).astype(int)))

    def dated(text: str) -> str:
        return re.sub(r"\d{4}-\d{2}-\d{2}", lambda day: new.get(day[0], day[0]), text)

    known = market.documents.as_of(market.days)
    items = []
    for row in range(len(known)):
        item = market.documents[row]
        shift = shift_of(int(known.day_of(row)))
        texts = {"title": dated(item.title), "text": dated(item.text)}
        times = {"known_at": item.known_at + shift, "published_at": item.published_at + shift}
        items.append(item._replace(**times, **texts))

    minutes = market.minutes
    if minutes:
        bars = minutes.rows.copy()
        on = (bars["ends_at"] - np.timedelta64(1, "m")).astype("M8[D]")
        at = np.clip(np.searchsorted(market.days, on), 0, len(days) - 1)
        bars["ends_at"] += (days[at] - market.days[at]).astype("m8[m]")
        minutes = MinuteBars(minutes.codes, bars)

    documents = Documents.of(items, market.documents.close, market.documents.entities)

    return replace(market, days=days, documents=documents, minutes=minutes)


def names(market: MarketSnapshot, shown: Shown) -> tuple[MarketSnapshot, EpisodeSpec]:
    """Codes, names, industries and names of indices are others, of the same board and order;
    documents call them so. Codes that a task itself names stay.
    """
    return _under_other_names(market), shown.spec


@once_a_market
def _under_other_names(market: MarketSnapshot) -> MarketSnapshot:
    code_of = _codes(market.codes)
    documents = market.documents
    industries = _in_order(market.industries)
    names = " ".join([*market.names, *(entity.text for entity in documents.entities)])
    letters = re.compile(r"[^\W\d_]+")
    new_word = {word: _renamed(word) for word in letters.findall(names)}
    pattern = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9]|[A-Za-z]")

    def word(text: str) -> str:
        return letters.sub(lambda found: new_word.get(found[0], found[0]), text)

    def told(text: str) -> str:
        for name, other in industries.items():
            text = text.replace(name, other)

        return word(pattern.sub(lambda found: code_of.get(found[0], found[0]), text))

    items = []
    for row in range(len(documents)):
        item = documents[row]
        filed = tuple(sorted(code_of[code] for code in item.assets))
        items.append(item._replace(assets=filed, title=told(item.title), text=told(item.text)))

    entities = [
        entity._replace(code=code_of[entity.code], text=word(entity.text))
        for entity in documents.entities
    ]

    return replace(
        market,
        codes=tuple(code_of.values()),
        names=tuple(code_of.get(name, word(name)) for name in market.names),
        industries=tuple(industries[name] for name in market.industries),
        index_names={code: f"Vakon {row}" for row, code in enumerate(market.indices)},
        documents=Documents.of(items, documents.close, entities),
        minutes=MinuteBars(
            tuple(code_of[code] for code in market.minutes.codes), market.minutes.rows
        ),
    )


def _codes(codes: Sequence[str]) -> dict[str, str]:
    """Return another code of the same board and order for each A-share; other codes stay, since
    tasks name them.
    """
    new = {}
    taken: dict[str, int] = {}
    boards = [match[1] for match in map(_BOARD_CODE.fullmatch, codes) if match]

    for code in codes:
        match = _BOARD_CODE.fullmatch(code)
        if match is None:
            new[code] = code
            continue

        head = match[1]
        number = taken.get(head, 998 - 2 * boards.count(head)) + 2
        taken[head] = number
        new[code] = f"{head}{number:03d}{match[3]}"

    return new


def _in_order(industries: Sequence[str]) -> Mapping[str, str]:
    """Return another name of each industry in the same order."""
    known = sorted(set(industries) - {"unknown"})
    return {"unknown": "unknown"} | {
        name: f"{chr(65 + row // 26)}{chr(97 + row % 26)}quorfen Works"
        for row, name in enumerate(known)
    }


def _renamed(word: str) -> str:
    if word in _LEGAL:
        return word

    if word.endswith("coin"):
        return codecs.encode(word.removesuffix("coin"), "rot13") + "coin"

    return codecs.encode(word, "rot13")


KINDS: Mapping[str, Other] = {
    "later": later,
    "index": index,
    "prices": prices,
    "others": others,
    "calendar": calendar,
    "names": names,
}
"""Kinds of a difference by name, as the table of tests names them."""
