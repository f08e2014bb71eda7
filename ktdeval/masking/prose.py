"""Mask texts: replace words that identify an asset or a day by handles, or drop the text.

The mask hides the entities in the market's documents, the snapshot's codes, names and industries,
and every date that the leak guard finds. An asset that has joined the universe by the day of the
decision becomes its handle; any other asset becomes `[company]`. A person becomes `[person]` and a
product becomes `[product]`, whatever the company; a company's places become `[place]` and words of
one asset `[term]`, mostly only in documents filed under it. A full date up to the day of the decision becomes
the handle of the last trading day up to this date, such as `day_-12`. Any other date, year or
weekday becomes `[date]`, and an event that dates the text (a pandemic) `[event]`.

A text can't be masked safely if a word may mean several assets and the document is not filed under
exactly one of them, or if the leak guard still finds an identity afterwards. Such a text is
dropped, and callers count it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from json.encoder import encode_basestring

import numpy as np

from ktdeval.market.snapshots.documents import Document
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.dates.events import find_events
from ktdeval.masking.dates.foreign_date_names import find_named, name_hints
from ktdeval.masking.hidden_spans import (
    COMPANY,
    EVENT,
    PERSON,
    Hidden,
    bounds,
    disjoint,
    longest,
)
from ktdeval.masking.lens import Lens
from ktdeval.masking.names.asset_names import (
    FILED_KINDS,
    NOUNS,
    Name,
    asset_names,
    meanings,
    nouns_of,
)
from ktdeval.masking.names.entity_detection import (
    EntityIndex,
    EntityMention,
    LastName,
    is_caseless,
)
from ktdeval.masking.names.headquarters import is_seat
from ktdeval.masking.names.identifiers import Identifier, find_identifiers
from ktdeval.masking.names.identity_index import (
    FROM_CHINESE,
    IdentityHit,
    IdentityIndex,
    identities_of,
    name_variants,
)
from ktdeval.masking.names.subject_names import SubjectNames, subject_of_code
from ktdeval.masking.payload_types import AssetRef, DayRef, Prose, SectorRef
from ktdeval.masking.text_normalisation import lower_text, normalise, normalise_with_places

DATE = "[date]"
_ROUNDS = 4
_REMEMBERED = 1 << 14
_MARK = "\ue000"  # private-use character that replaces a hidden span during later searches
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    "january|february|march|april|may|june|july|august|september|october|november|december|sept|"
    + "|".join(_MONTHS)
)
_FULL_DATES = (
    re.compile(
        r"(?<![0-9])(?P<y>(?:19|20)[0-9]{2})([-/.])(?P<m>[0-9]{1,2})\2(?P<d>[0-9]{1,2})(?![0-9])"
    ),
    re.compile(r"(?P<y>(?:19|20)[0-9]{2}) ?年 ?(?P<m>[0-9]{1,2}) ?月 ?(?P<d>[0-9]{1,2}) ?[日号]"),
    re.compile(
        rf"(?<![A-Za-z])(?P<n>{_MONTH})\.? (?P<d>[0-9]{{1,2}})(?:st|nd|rd|th)?,?"
        r" (?P<y>(?:19|20)[0-9]{2})(?![0-9])",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?<![0-9])(?P<d>[0-9]{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<n>{_MONTH})\.?,?"
        r" (?P<y>(?:19|20)[0-9]{2})(?![0-9])",
        re.IGNORECASE,
    ),
)
_HEADLINE_DATES = (
    # Market wrap 8/21:
    re.compile(r"(?<=[A-Za-z] )(?:1[0-2]|0?[1-9])/(?:3[01]|[12][0-9]|0?[1-9])(?=:)"),
    # 8/2/24
    re.compile(r"(?<![0-9./-])[0-3]?[0-9]/[0-3]?[0-9]/(?:9[0-9]|[0-3][0-9])(?![0-9/]|[- ]?day)"),
    re.compile(
        r"(?<![a-z])(?:jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec)\.?"
        r" (?:3[01]|[12]?[0-9])(?:st|nd|rd|th)?(?![0-9%])",
        re.I,
    ),
)
# In texts without capitals, a title often runs into the next word.
_GLUED_DATES = (
    re.compile(r"(?<![0-9.,$])(?:199[0-9]|20[0-3][0-9])(?=[a-z]{3})"),
    re.compile(r"(?<![a-z])(?:january|february|september|october|november|december)(?=[a-z])"),
)
_COMPACT_DATE = re.compile(r"((?:19|20)[0-9]{2})([0-9]{2})([0-9]{2})(?![0-9])")
_FOUR_DIGITS = re.compile(r"(?<![0-9])(?:19|20)[0-9]{2}(?![0-9])")
_TWO_DIGITS = re.compile(r"(?<![0-9])[0-9]{1,2}(?![0-9])")
_LETTERS = re.compile("[a-z]+")
_OBJECT_AFTER = re.compile(r" (?:its|their|his|her|our)(?![a-z])", re.IGNORECASE)
_SEVERAL = frozenset({-1, -2})  # may mean any asset
_DATES_TOGETHER = re.compile(r"\A[ ,./-]{0,2}\Z")


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """A document, as shown under a mask."""

    #: assets under which the document is filed and that are in the universe, in an order
    #: independent of codes
    assets: tuple[AssetRef, ...]
    source: Prose
    kind: Prose
    title: Prose
    text: Prose
    sentiment: Prose  #: empty if the source gives no sentiment
    is_cut: bool = False  #: whether the document's whole text is longer

    @property
    def shown_sentiment(self) -> Prose | None:
        """Return the sentiment as a table cell; None if there is no sentiment."""
        return self.sentiment if self.sentiment.plain else None


class TextMask:
    """Masks texts, as a lens masks numbers. Equal texts give equal results, and results do not
    depend on anything after the requested day.
    """

    def __init__(self, lens: Lens, snapshot: MarketSnapshot) -> None:
        self._lens = lens
        self._snapshot = snapshot
        self._days = snapshot.days

    @cached_property
    def _finder(self) -> _HiddenSpanFinder:
        # Built for the first text, since most tasks show no texts.
        hides_assets = self._lens.hides_assets
        hides_dates = self._lens.hides_dates
        guard = identities_of(self._snapshot, assets=hides_assets, dates=hides_dates)
        industries = tuple(dict.fromkeys(self._snapshot.industries))
        return _finder_of(guard, asset_names(self._snapshot), industries, hides_assets, hides_dates)

    def mask(
        self,
        text: str,
        day: int,
        assets: Collection[int] = (),
        unlisted: Collection[str] = (),
        beside: str = "",
    ) -> Prose | None:
        """Return a text masked for display at the close of row `day`, or None if it can't be shown
        safely.

        `assets`: columns of the assets under which the text is filed. They decide the meaning of an
        ambiguous word, and their codes are masked wherever they are in capitals. `unlisted`: codes
        under which the text is filed and that are not in the market. `beside`: text shown next to
        this text; persons named there are recognised by their last names. If the mask hides
        nothing, the text is unchanged.
        """
        if not (self._lens.hides_assets or self._lens.hides_dates):
            return Prose((text,))

        spans = self.find_hidden(text, assets, unlisted, beside)
        if spans is None:
            return None

        text = _PRIVATE.sub(" ", text)

        parts: list[str | AssetRef | DayRef | SectorRef] = []
        done = 0
        for hidden in spans:
            target = self._target(hidden, day, assets)
            if target is None:
                return None

            # Adjacent parts of one date, such as a weekday and a year, become a single `[date]`.
            between = text[done : hidden.start]
            follows_date = target == DATE and bool(parts) and parts[-1] == DATE
            if not (follows_date and _DATES_TOGETHER.match(between)):
                if between:
                    parts.append(between)

                parts.append(target)

            done = hidden.end

        prose = Prose((*parts, text[done:]))
        if not self._is_safe(prose):
            return None
        return prose

    def show(self, document: Document, day: int, most: int | None = None) -> ShownDocument | None:
        """Return a document as it may be shown at the close of row `day`, or None if it can't be
        shown safely.

        `most`: maximum characters of the text. The whole text is masked, then shortened by the
        rules of `masking.shorten`, and then searched again.
        """
        asset_index = self._snapshot.asset_index
        codes = dict.fromkeys(map(self._snapshot.canonical, document.assets))
        assets = [asset_index[code] for code in codes if code in asset_index]
        assets.sort(key=self._lens.rank.__getitem__)
        unlisted = [code for code in codes if code not in asset_index]

        cells = []
        texts = (
            *(document.source, document.kind, document.title),
            *(document.text, document.sentiment),
        )
        beside = f"{document.title}\n{document.text}"
        for part in texts:
            cell = self.mask(part, day, assets, unlisted, beside)
            if cell is None:
                return None

            cells.append(cell)

        source, kind, title, text, sentiment = cells
        is_cut = False
        if most is not None:
            text, is_cut = text.shorten(most)
            if is_cut and not self._is_safe(text):
                return None

        shown = tuple(AssetRef(asset) for asset in assets if self._lens.has_joined(asset, day))
        return ShownDocument(shown, source, kind, title, text, sentiment, is_cut)

    def _is_safe(self, prose: Prose) -> bool:
        """Return whether the leak guard finds nothing in the text as it appears in a prompt, in
        quotes.
        """
        if not (self._lens.hides_assets or self._lens.hides_dates):
            return True
        return not self._finder.has_any(encode_basestring(prose.plain))

    def find_hidden(
        self,
        text: str,
        assets: Collection[int] = (),
        unlisted: Collection[str] = (),
        beside: str = "",
    ) -> tuple[Hidden, ...] | None:
        """Return the spans of a text that the mask hides, sorted by offset; arguments are those of
        `mask`.

        None if the leak guard still has hits after the last round.
        """
        subjects = (*sorted(assets), *sorted(unlisted))
        last_names = self._finder.last_names(beside)
        return self._finder.find(_PRIVATE.sub(" ", text), subjects, last_names)

    def _target(
        self, hidden: Hidden, day: int, assets: Collection[int]
    ) -> str | AssetRef | DayRef | SectorRef | None:
        """Return the replacement for a span; None if the span is ambiguous, in which case the text
        is dropped.
        """
        if hidden.noun != COMPANY:
            return hidden.noun
        if hidden.kind == "date":
            return self._day(hidden.day, day)
        if hidden.industry:
            return SectorRef(hidden.industry)

        # A word that may mean several assets means the one under which the document is filed.
        meant = hidden.assets
        if len(meant) > 1:
            meant = meant.intersection(assets)

        if len(meant) > 1 or (hidden.assets and not meant):
            return COMPANY if hidden.is_derived else None

        for asset in meant:
            if asset >= 0 and self._lens.has_joined(asset, day):
                return AssetRef(asset)
        return COMPANY

    def _day(self, day: date | None, cursor: int) -> DayRef | str:
        """Return the last trading day up to a date, or `[date]` if the date is not full or is after
        row `cursor`.
        """
        if day is None:
            return DATE

        exact = np.datetime64(day)
        row = int(np.searchsorted(self._days[: cursor + 1], exact, side="right")) - 1
        if row < 0 or exact > self._days[cursor]:
            return DATE
        return DayRef(row)


class _HiddenSpanFinder:
    """Finds the spans that one mask kind hides in a market's texts.

    Episodes share this finder and its cached results.
    """

    def __init__(
        self,
        guard: IdentityIndex,
        named: tuple[Name, ...],
        industries: tuple[str, ...],
        hides_assets: bool,
        hides_dates: bool,
    ) -> None:
        self._guard = guard
        self._hides_dates = hides_dates
        self._entities = EntityIndex(named) if hides_assets else None
        self._named = named
        self._subjects: dict[int, SubjectNames] = {}
        self._meaning = meanings(named)
        self._nouns = nouns_of(named)
        self._industries = {variant: name for name in industries for variant in name_variants(name)}
        self.find = lru_cache(maxsize=_REMEMBERED)(self._find)
        self.last_names = lru_cache(maxsize=_REMEMBERED)(self._last_names)
        self.has_any = lru_cache(maxsize=_REMEMBERED)(guard.has_any)

    def _last_names(self, text: str) -> frozenset[LastName]:
        """Return the last names of persons whose full names are in a text."""
        if self._entities is None or not text:
            return frozenset()
        return self._entities.last_names(normalise(text))

    def _find(
        self, text: str, subjects: tuple[int | str, ...], last_names: frozenset[LastName]
    ) -> tuple[Hidden, ...] | None:
        """Return all spans, sorted by offset: first entities and dates, then what the guard still
        finds between them. `subjects`: assets under which the text is filed, by column, or by code
        if they are not in the market. `last_names`: last names of persons named in the text shown
        next to it.
        """
        spans: list[Hidden] = []
        no_case = is_caseless(text)
        for _ in range(_ROUNDS):
            work, starts = _mark_spans(text, spans)
            new = self._spans(work, no_case, subjects, last_names, first=not spans)
            if not new:
                return tuple(spans)

            moved = [
                span._replace(start=_origin(span.start, starts), end=_origin(span.end, starts))
                for span in new
            ]
            spans = sorted([*disjoint(spans, moved), *moved], key=bounds)

        return None

    def _spans(
        self,
        text: str,
        no_case: bool,
        subjects: tuple[int | str, ...],
        last_names: frozenset[LastName],
        first: bool,
    ) -> list[Hidden]:
        """Return non-overlapping spans. Of several overlapping spans, the longest is kept."""
        normalised, offsets = normalise_with_places(text)
        spans: list[Hidden] = []
        if self._entities is not None:
            for subject in subjects:
                spans.extend(self._of_subject(subject, normalised, no_case))

            for mention in self._entities.find(normalised, no_case, last_names):
                if _is_meant(mention, subjects, normalised):
                    spans.append(_hide_mention(mention))

            if first:
                for identifier in find_identifiers(normalised):
                    spans.append(self._identify_asset(identifier, normalised))

        if self._hides_dates and first:
            spans.extend(_full_dates(normalised))
            spans.extend(_dates_of_news(normalised, no_case))
            spans.extend(_events(normalised))

        spans = [span._replace(start=offsets[span.start], end=offsets[span.end]) for span in spans]
        hits = self._guard.find(text, "document" if first else "prompt")
        rest = [self._read(hit, text) for hit in hits]
        chosen = longest([*spans, *(hit for hit in rest if hit.kind == "date")])

        return sorted([*chosen, *disjoint(rest, chosen)], key=bounds)

    def _of_subject(self, subject: int | str, normalised: str, no_case: bool) -> Iterator[Hidden]:
        """Yield the words that denote the asset under which the text is filed."""
        assets: frozenset[int] = frozenset()
        if isinstance(subject, str):
            words = subject_of_code(subject)
        else:
            assets = frozenset({subject})
            words = self._subject(subject)

        for start, end in words.find(normalised, no_case):
            yield Hidden(start, end, "asset", assets)

    def _subject(self, column: int) -> SubjectNames:
        if column not in self._subjects:
            own = [(kind, text) for asset, kind, text in self._named if asset == column]
            self._subjects[column] = SubjectNames(
                [text for kind, text in own if kind == "ticker"],
                [text for kind, text in own if kind in ("name", "former")],
            )
        return self._subjects[column]

    def _identify_asset(self, found: Identifier, normalised: str) -> Hidden:
        """Return the asset of an identifier if its ticker is in the market, else a company."""
        for spelled in (normalised[found.start : found.end], found.code):
            if not spelled:
                continue

            assets = self._meaning.get(name_variants(spelled)[0], frozenset())
            if len(assets) == 1:
                return Hidden(found.start, found.end, "asset", assets)
        return Hidden(found.start, found.end, "asset")

    def _read(self, hit: IdentityHit, text: str) -> Hidden:
        """Return the meaning of a hit by the guard. A code that belongs to no asset in the market
        still denotes a company.
        """
        if hit.kind == "calendar date":
            return Hidden(
                hit.start, hit.end, "date", day=_only_day(normalise(text[hit.start : hit.end]))
            )

        spelled = text[hit.start : hit.end]
        if hit.kind == "security code":
            digits = "".join(re.findall("[0-9]", normalise(spelled).translate(FROM_CHINESE)))[-6:]
            return Hidden(hit.start, hit.end, "asset", self._meaning.get(digits, frozenset()))

        for variant in name_variants(spelled):
            if variant in self._meaning:
                meant = self._meaning[variant]
                noun = self._nouns.get(variant, COMPANY)
                return Hidden(hit.start, hit.end, "asset", meant, noun=noun)
            if variant in self._industries:
                return Hidden(hit.start, hit.end, "industry", industry=self._industries[variant])

        return Hidden(hit.start, hit.end, "asset", _SEVERAL)


_finder_of = lru_cache(maxsize=4)(_HiddenSpanFinder)


def _is_meant(mention: EntityMention, subjects: Collection[int | str], normalised: str) -> bool:
    """Return whether a mention identifies an asset there. A place and a word of one asset do so in
    documents filed under the asset, and a place also where it is a company's seat.
    """
    if mention.kind not in FILED_KINDS:
        return True
    if mention.kind == "term" and _OBJECT_AFTER.match(normalised, mention.end):
        return False  # halving its dividend
    if not mention.assets.isdisjoint(subjects):
        return True
    return mention.kind == "place" and is_seat(normalised, mention.start, mention.end)


def _hide_mention(mention: EntityMention) -> Hidden:
    """Return the span that hides a mention."""
    return Hidden(
        mention.start,
        mention.end,
        "asset",
        mention.assets,
        is_derived=mention.is_derived,
        noun=NOUNS.get(mention.kind, COMPANY),
    )


def _full_dates(normalised: str) -> Iterator[Hidden]:
    for pattern in _FULL_DATES:
        for match in pattern.finditer(normalised):
            parts = match.groupdict()
            if parts.get("m"):
                month = int(parts["m"])
            else:
                month = _MONTHS.index(parts["n"][:3].lower()) + 1

            try:
                day = date(int(parts["y"]), month, int(parts["d"]))
                yield Hidden(*match.span(), "date", day=day)
            except ValueError:
                continue


def _dates_of_news(normalised: str, no_case: bool) -> Iterator[Hidden]:
    """Yield dates in the forms of headlines and, if case carries no information, of titles that run
    into the next word.
    """
    patterns: tuple[re.Pattern[str], ...] = _HEADLINE_DATES
    if no_case:
        patterns = (*_HEADLINE_DATES, *_GLUED_DATES)

    for pattern in patterns:
        for match in pattern.finditer(normalised):
            yield Hidden(*match.span(), "date")


def _events(normalised: str) -> Iterator[Hidden]:
    """Yield events that reveal the date of the text."""
    words = _LETTERS.findall(lower_text(normalised))
    for (start, end), is_person in find_events(normalised, words):
        yield Hidden(start, end, "date", noun=PERSON if is_person else EVENT)


def _only_day(normalised: str) -> date | None:
    """Return the date in a text if it has exactly one date with day, month and year, else None."""
    compact = _COMPACT_DATE.match(normalised)
    if compact is not None:
        year, month, day = map(int, compact.groups())
        found = [(year, month, day)]
    else:
        days = {full.day for full in _full_dates(normalised)}
        if days:
            return days.pop() if len(days) == 1 else None

        months = {month for _, _, month in find_named(normalised, name_hints()) if month}
        years = _FOUR_DIGITS.findall(normalised)
        numbers = _TWO_DIGITS.findall(normalised)
        is_full = len(months) == len(years) == len(numbers) == 1
        found = [(int(years[0]), months.pop(), int(numbers[0]))] if is_full else []

    try:
        return date(*found[0]) if found else None
    except ValueError:
        return None


def _mark_spans(text: str, spans: list[Hidden]) -> tuple[str, list[tuple[int, int]]]:
    """Return the text with a mark in place of each span, and the offset of each piece in the marked
    and in the original text.
    """
    pieces = []
    starts = []
    done = 0
    length = 0

    for span in [*spans, None]:
        piece = text[done : span.start if span else None]
        starts.append((length, done))
        pieces.append(piece)
        length += len(piece) + 1
        done = span.end if span else done

    return _MARK.join(pieces), starts


def _origin(offset: int, starts: list[tuple[int, int]]) -> int:
    """Convert an offset in the marked text to an offset in the original text."""
    begin, start = starts[bisect_right(starts, (offset, len(starts) + (1 << 60))) - 1]
    return start + offset - begin
