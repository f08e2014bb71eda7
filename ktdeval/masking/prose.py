"""Masks for text: what gives an asset or a day away in a text is replaced by its handle, or the text is dropped.

Hidden are the entities of the market's documents, codes, names and industries of the snapshot, and every date that the leak guard
knows. An asset that is in the universe by the day of the decision becomes its handle, another one `[company]`; a full date up
to that day becomes `day_-12` (the last trading day up to it), any other one, a year or a weekday, `[date]`.

A text can't be masked safely where a word may mean several assets and the document is filed under none or several of them, or where
the leak guard still finds an identity afterwards; it is dropped, and callers count it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator
from datetime import date
from functools import cached_property, lru_cache
from json.encoder import encode_basestring
from typing import NamedTuple

import numpy as np

from ktdeval.market.documents import Document
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.date_names import find_named, name_hints
from ktdeval.masking.entities import AliasKind, EntityIndex, is_caseless
from ktdeval.masking.identifiers import Identifier, find_identifiers
from ktdeval.masking.identities import FROM_CHINESE, Hit, IdentityIndex, identities_of, name_variants
from ktdeval.masking.lens import Lens
from ktdeval.masking.payload import AssetRef, DayRef, Prose, SectorRef
from ktdeval.masking.short_names import short_names
from ktdeval.masking.text import normalise, normalise_with_places

COMPANY, DATE = "[company]", "[date]"
_ROUNDS = 4
_REMEMBERED = 1 << 14
_MARK = "\ue000"  # a private-use character stands for what was taken out while the rest is searched
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december|sept|" + "|".join(_MONTHS)
_FULL_DATES = (
    re.compile(r"(?<![0-9])(?P<y>(?:19|20)[0-9]{2})([-/.])(?P<m>[0-9]{1,2})\2(?P<d>[0-9]{1,2})(?![0-9])"),
    re.compile(r"(?P<y>(?:19|20)[0-9]{2}) ?年 ?(?P<m>[0-9]{1,2}) ?月 ?(?P<d>[0-9]{1,2}) ?[日号]"),
    re.compile(
        rf"(?<![A-Za-z])(?P<n>{_MONTH})\.? (?P<d>[0-9]{{1,2}})(?:st|nd|rd|th)?,? (?P<y>(?:19|20)[0-9]{{2}})(?![0-9])", re.IGNORECASE
    ),
    re.compile(
        rf"(?<![0-9])(?P<d>[0-9]{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<n>{_MONTH})\.?,? (?P<y>(?:19|20)[0-9]{{2}})(?![0-9])",
        re.IGNORECASE,
    ),
)
_HEADLINE_DATES = (
    re.compile(r"(?<=[A-Za-z] )(?:1[0-2]|0?[1-9])/(?:3[01]|[12][0-9]|0?[1-9])(?=:)"),  # Market wrap 8/21:
    re.compile(r"(?<![0-9./-])[0-3]?[0-9]/[0-3]?[0-9]/(?:9[0-9]|[0-3][0-9])(?![0-9/]|[- ]?day)"),  # 8/2/24
    re.compile(r"(?<![a-z])(?:jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec)\.? (?:3[01]|[12]?[0-9])(?:st|nd|rd|th)?(?![0-9%])", re.I),
)
# In texts without capitals a title often runs into what follows it.
_GLUED_DATES = (
    re.compile(r"(?<![0-9.,$])(?:199[0-9]|20[0-3][0-9])(?=[a-z]{3})"),
    re.compile(r"(?<![a-z])(?:january|february|september|october|november|december)(?=[a-z])"),
)
_COMPACT_DATE = re.compile(r"((?:19|20)[0-9]{2})([0-9]{2})([0-9]{2})(?![0-9])")
_FOUR_DIGITS = re.compile(r"(?<![0-9])(?:19|20)[0-9]{2}(?![0-9])")
_TWO_DIGITS = re.compile(r"(?<![0-9])[0-9]{1,2}(?![0-9])")
_SEVERAL = frozenset({-1, -2})  # means any asset
_DATES_TOGETHER = re.compile(r"\A[ ,./-]{0,2}\Z")


class Hidden(NamedTuple):
    """A span of a text that a mask hides; exactly one of what it stands for, or none of them for what has no handle."""

    start: int
    end: int
    kind: str  #: `asset`, `industry` or `date`
    assets: frozenset[int] = frozenset()  #: columns of the assets that it may mean
    industry: str = ""
    is_derived: bool = False  #: whether a short name that no one listed means the assets
    day: date | None = None  #: of a date with day, month and year


class ShownDocument(NamedTuple):
    """A document as a mask shows it."""

    assets: tuple[AssetRef, ...]  #: those it is filed under that are in the universe by now, in an order that no code enters
    source: Prose
    kind: Prose
    title: Prose
    text: Prose
    is_cut: bool = False  #: whether the document's text is longer


class TextMask:
    """Masks texts as a lens does numbers. Equal texts give equal results; nothing after the day asked for enters."""

    def __init__(self, lens: Lens, snapshot: MarketSnapshot) -> None:
        self._lens, self._snapshot, self._days = lens, snapshot, snapshot.days

    @cached_property
    def _finder(self) -> _Finder:
        # Made when the first text comes: most tasks show none.
        guard = identities_of(self._snapshot, assets=self._lens.hides_assets, dates=self._lens.hides_dates)
        industries = tuple(dict.fromkeys(self._snapshot.industries))
        return _finder_of(guard, _named(self._snapshot), industries, self._lens.hides_assets, self._lens.hides_dates)

    def mask(self, text: str, day: int, assets: Collection[int] = ()) -> Prose | None:
        """Return a text as it may be shown at the close of row `day`; None where it can't be masked safely. `assets`: columns of
        the assets it is filed under, which tell what a word means that may mean several. Without a mask it is the text as it is.
        """
        if not (self._lens.hides_assets or self._lens.hides_dates):
            return Prose((text,))
        text = _PRIVATE.sub(" ", text)
        spans = self._finder.find(text)
        if spans is None:
            return None
        parts: list[str | AssetRef | DayRef | SectorRef] = []
        done = 0
        for hidden in spans:
            target = self._target(hidden, day, assets)
            if target is None:
                return None
            between = text[done : hidden.start]
            if not (target == DATE and parts and parts[-1] == DATE and _DATES_TOGETHER.match(between)):
                parts += [between, target] if between else [target]
            done = hidden.end
        prose = Prose((*parts, text[done:]))
        return prose if self._is_safe(prose) else None

    def show(self, document: Document, day: int, most: int | None = None) -> ShownDocument | None:
        """Return a document as it may be shown at the close of row `day`; None where a part of it can't be masked safely. `most`:
        characters of the text; it is masked whole, shortened between words, and searched again.
        """
        columns = (self._snapshot.asset_index.get(code) for code in document.assets)
        assets = sorted((column for column in columns if column is not None), key=self._lens.rank.__getitem__)
        cells = []
        for part in (document.source, document.kind, document.title, document.text):
            if (cell := self.mask(part, day, assets)) is None:
                return None
            cells.append(cell)
        source, kind, title, text = cells
        is_cut = False
        if most is not None:
            text, is_cut = text.shorten(most)
            if is_cut and not self._is_safe(text):
                return None
        shown = tuple(AssetRef(asset) for asset in assets if self._lens.has_joined(asset, day))
        return ShownDocument(shown, source, kind, title, text, is_cut)

    def _is_safe(self, prose: Prose) -> bool:
        """Return whether the leak guard finds nothing in a text as a prompt has it, quoted."""
        return not (self._lens.hides_assets or self._lens.hides_dates) or not self._finder.has_any(encode_basestring(prose.plain))

    def hidden(self, text: str) -> tuple[Hidden, ...] | None:
        """Spans of a text that the mask hides, by offset; None where the leak guard still has hits after the last round."""
        return self._finder.find(_PRIVATE.sub(" ", text))

    def _target(self, hidden: Hidden, day: int, assets: Collection[int]) -> str | AssetRef | DayRef | SectorRef | None:
        if hidden.kind == "date":
            return self._day(hidden.day, day)
        if hidden.industry:
            return SectorRef(hidden.industry)
        meant = hidden.assets if len(hidden.assets) < 2 else hidden.assets.intersection(assets)
        if len(meant) > 1 or (hidden.assets and not meant):
            return COMPANY if hidden.is_derived else None
        joined = [asset for asset in meant if asset >= 0 and self._lens.has_joined(asset, day)]
        return AssetRef(joined[0]) if joined else COMPANY

    def _day(self, day: date | None, cursor: int) -> DayRef | str:
        if day is None:
            return DATE
        row = int(np.searchsorted(self._days[: cursor + 1], np.datetime64(day), side="right")) - 1
        return DayRef(row) if row >= 0 and np.datetime64(day) <= self._days[cursor] else DATE


Name = tuple[int, AliasKind, str]  #: Column (-1: of no asset of the market), kind and text


def _named(snapshot: MarketSnapshot) -> tuple[Name, ...]:
    """Everything that names an asset, as entities."""
    column = snapshot.asset_index
    names: list[Name] = [(asset, "name", name) for asset, name in enumerate(snapshot.names) if name != snapshot.codes[asset]]
    names += [(column[spell.code], "former", spell.name) for spell in snapshot.spells]
    names += [(asset, "ticker", code) for asset, code in enumerate(snapshot.codes)]
    names += [(column[snapshot.canonical(then)], "ticker", then) for then in snapshot.former_codes]
    names += [(column.get(entity.code, -1), entity.kind, entity.text) for entity in snapshot.documents.entities]
    return (*names, *_derived(names))


def _derived(names: Iterable[Name]) -> Iterator[Name]:
    """Short names of official ones, unless somebody listed them as a name of their own."""
    listed = {normalise(text).strip().lower() for _, kind, text in names if kind != "ticker"}
    for asset, kind, text in names:
        if kind in ("name", "former"):
            yield from ((asset, "short", short) for short in sorted(short_names(text)) if short.lower() not in listed)


class _Finder:
    """Finds what a kind of mask hides in the texts of a market. Episodes share it, with what it remembers of texts."""

    def __init__(
        self, guard: IdentityIndex, named: tuple[Name, ...], industries: tuple[str, ...], hides_assets: bool, hides_dates: bool
    ) -> None:
        self._guard, self._hides_dates = guard, hides_dates
        self._entities = EntityIndex(named) if hides_assets else None
        self._meaning = _meanings(named)
        self._industries = {variant: name for name in industries for variant in name_variants(name)}
        self.find = lru_cache(maxsize=_REMEMBERED)(self._find)
        self.has_any = lru_cache(maxsize=_REMEMBERED)(guard.has_any)

    def _find(self, text: str) -> tuple[Hidden, ...] | None:
        """All spans, by offset: entities and dates first, then what the guard still finds between them."""
        spans: list[Hidden] = []
        no_case = is_caseless(text)
        for _ in range(_ROUNDS):
            work, starts = _marked(text, spans)
            new = self._spans(work, no_case, first=not spans)
            if not new:
                return tuple(spans)
            moved = [span._replace(start=_origin(span.start, starts), end=_origin(span.end, starts)) for span in new]
            spans = sorted([*_disjoint(spans, moved), *moved], key=_bounds)
        return None

    def _spans(self, text: str, no_case: bool, first: bool) -> list[Hidden]:
        """Spans that do not overlap, the longest of those that would."""
        normalised, offsets = normalise_with_places(text)
        spans: list[Hidden] = []
        if self._entities is not None:
            for mention in self._entities.find(normalised, no_case):
                spans.append(Hidden(mention.start, mention.end, "asset", mention.assets, is_derived=mention.is_derived))
            if first:
                spans += [self._identified(found, normalised) for found in find_identifiers(normalised)]
        if self._hides_dates and first:
            spans += _full_dates(normalised)
            patterns = (*_HEADLINE_DATES, *_GLUED_DATES) if no_case else _HEADLINE_DATES
            spans += [Hidden(*match.span(), "date") for pattern in patterns for match in pattern.finditer(normalised)]
        spans = [span._replace(start=offsets[span.start], end=offsets[span.end]) for span in spans]
        rest = [self._read(hit, text) for hit in self._guard.find(text, "document" if first else "prompt")]
        chosen = _longest([*spans, *(hit for hit in rest if hit.kind == "date")])
        return sorted([*chosen, *_disjoint(rest, chosen)], key=_bounds)

    def _identified(self, found: Identifier, normalised: str) -> Hidden:
        """The asset of an identifier, if the ticker in it is one of the market; else a company."""
        for spelled in (normalised[found.start : found.end], found.code):
            assets = self._meaning.get(name_variants(spelled)[0], frozenset()) if spelled else frozenset()
            if len(assets) == 1:
                return Hidden(found.start, found.end, "asset", assets)
        return Hidden(found.start, found.end, "asset")

    def _read(self, hit: Hit, text: str) -> Hidden:
        """What a hit of the guard stands for. A code that no asset of the market has is a company all the same."""
        if hit.kind == "calendar date":
            return Hidden(hit.start, hit.end, "date", day=_only_day(normalise(text[hit.start : hit.end])))
        spelled = text[hit.start : hit.end]
        if hit.kind == "security code":
            digits = "".join(re.findall("[0-9]", normalise(spelled).translate(FROM_CHINESE)))[-6:]
            return Hidden(hit.start, hit.end, "asset", self._meaning.get(digits, frozenset()))
        for variant in name_variants(spelled):
            if variant in self._meaning:
                return Hidden(hit.start, hit.end, "asset", self._meaning[variant])
            if variant in self._industries:
                return Hidden(hit.start, hit.end, "industry", industry=self._industries[variant])
        return Hidden(hit.start, hit.end, "asset", _SEVERAL)


_finder_of = lru_cache(maxsize=4)(_Finder)


def _meanings(named: tuple[Name, ...]) -> dict[str, frozenset[int]]:
    """Digits of a code, or a name without spaces and case -> columns of the assets that it may mean."""
    assets: dict[str, set[int]] = {}
    for asset, kind, text in named:
        if kind == "short":
            continue
        for variant in {text[:6] if kind == "ticker" else "", *name_variants(text)} - {""}:
            assets.setdefault(variant, set()).add(asset)
    return {variant: frozenset(columns) for variant, columns in assets.items()}


def _full_dates(normalised: str) -> Iterator[Hidden]:
    for pattern in _FULL_DATES:
        for match in pattern.finditer(normalised):
            parts = match.groupdict()
            month = int(parts["m"]) if parts.get("m") else _MONTHS.index(parts["n"][:3].lower()) + 1
            try:
                yield Hidden(*match.span(), "date", day=date(int(parts["y"]), month, int(parts["d"])))
            except ValueError:
                continue


def _only_day(normalised: str) -> date | None:
    """The day of a date with day, month and year; None if there is none, or more than one."""
    if (compact := _COMPACT_DATE.match(normalised)) is not None:
        year, month, day = map(int, compact.groups())
        found = [(year, month, day)]
    else:
        days = {full.day for full in _full_dates(normalised)}
        if days:
            return days.pop() if len(days) == 1 else None
        months = {month for _, _, month in find_named(normalised, name_hints()) if month}
        years, numbers = _FOUR_DIGITS.findall(normalised), _TWO_DIGITS.findall(normalised)
        is_full = len(months) == len(years) == len(numbers) == 1
        found = [(int(years[0]), months.pop(), int(numbers[0]))] if is_full else []
    try:
        return date(*found[0]) if found else None
    except ValueError:
        return None


def _bounds(span: Hidden) -> tuple[int, int, bool]:
    return span.start, span.end, span.is_derived


def _longest(spans: Iterable[Hidden]) -> list[Hidden]:
    """Spans that do not overlap: of those that do, the longest, then the first; those of one asset become one."""
    joined: list[Hidden] = []
    for span in sorted(spans, key=_bounds):
        last = joined[-1] if joined else None
        if last is not None and span.start < last.end and span.assets == last.assets and span.kind == last.kind == "asset":
            joined[-1] = last._replace(end=max(last.end, span.end))
        else:
            joined.append(span)
    chosen: list[Hidden] = []
    for span in sorted(joined, key=lambda hidden: (hidden.start - hidden.end, hidden.start)):
        if _overlaps_none(span, chosen):
            insort(chosen, span)
    return chosen


def _disjoint(spans: Iterable[Hidden], others: list[Hidden]) -> list[Hidden]:
    """Spans that overlap with none of `others`, which are sorted and do not overlap themselves."""
    return [span for span in spans if _overlaps_none(span, others)]


def _overlaps_none(span: Hidden, others: list[Hidden]) -> bool:
    after = bisect_left(others, span.start, key=lambda other: other.start)
    return (not after or others[after - 1].end <= span.start) and (after == len(others) or others[after].start >= span.end)


def _marked(text: str, spans: list[Hidden]) -> tuple[str, list[tuple[int, int]]]:
    """The text with a mark for each span, and where its pieces begin: there, and in the text."""
    pieces, starts, done, length = [], [], 0, 0
    for span in [*spans, None]:
        piece = text[done : span.start if span else None]
        starts.append((length, done))
        pieces.append(piece)
        length += len(piece) + 1
        done = span.end if span else done
    return _MARK.join(pieces), starts


def _origin(offset: int, starts: list[tuple[int, int]]) -> int:
    """Offset in the text of an offset in the marked one."""
    begin, start = starts[bisect_right(starts, (offset, len(starts) + (1 << 60))) - 1]
    return start + offset - begin
