"""Index of the real identities that a mask hides. It searches a text for any number of names in a
single pass.

Codes are found as the digits of a known code, whole or split (`600-519`), and as any six digits
next to an exchange (`SH600519`, `600519.XSHG`, `sh.600519`). Names are found by their rarest part:
Latin names by one of their words, Chinese names by their first two characters. Dates are found by
`ktdeval.masking.dates.date_detection`.

In a model's answer, short and respelled names, products, persons, identifiers (ISIN, …) and
spelled-out codes are also found. Nicknames, translations, and encodings of a whole text (base64,
reversed) are not found. A model that writes such text learns nothing new, but another role in its
team may read the text (`docs/masks.md`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple  # tuples: they are sorted or kept by the thousand

from ktdeval.market.snapshots.documents import Entity
from ktdeval.market.snapshots.snapshot import Board, MarketSnapshot, parse_code
from ktdeval.masking.dates.date_detection import (
    WORD_HINTS,
    Span,
    find_dates,
    is_amount,
    is_money,
    names_no_day,
)
from ktdeval.masking.dates.free_dates import find_free_dates
from ktdeval.masking.names.entity_detection import EntityIndex
from ktdeval.masking.names.identifiers import find_identifiers
from ktdeval.masking.names.known_companies import known_entities
from ktdeval.masking.names.ordinary_words import COMMON_WORDS
from ktdeval.masking.names.short_names import spoken_names
from ktdeval.masking.names.spelled_codes import find_spelled_codes
from ktdeval.masking.text_normalisation import (
    SPLITTERS,
    TextViews,
    follows_letter,
    follows_point,
    lower_text,
    normalise,
    normalise_with_places,
    places_of,
    precedes_letter,
    squash,
)

#: Replaces an identity in a text. As a tool argument, this replacement is itself treated as an
#: identity.
WITHHELD = "[withheld]"
IdentityKind = Literal["security code", "company or industry name", "calendar date"]
Scope = Literal["prompt", "document", "answer"]
"""Author of a text. The suite's prompts contain numbers that only look like dates or codes. In a
document such numbers are dates and codes. In a model's answer, six digits of the A-share numbering
are also a code, even if the snapshot has no such asset.
"""
_SHANGHAI = ("xshg", "shse", "sse", "shh", "sh", "ss")
_SHENZHEN = ("xshe", "szse", "shz", "sz")
_BEIJING = ("xbse", "bse", "bjse", "bj")
_EXCHANGES = frozenset([*_SHANGHAI, *_SHENZHEN, *_BEIJING])
_CODE_AFTER_EXCHANGE = re.compile(r"[ .:_-]{0,2}[0-9]{6}(?![0-9])")
_CODE_BEFORE_EXCHANGE = re.compile(r"(?<![0-9])(?<![0-9]\.)[0-9]{6}[ .:_-]{0,2}\Z")
# 1.600519: market number, then code
_MARKET_ID = re.compile(r"[01]\.([0-9]{6})(?![0-9]|[eE][0-9])")
_SPLIT_CODE = re.compile(
    rf"(?<![0-9])(?<![0-9]\.)[0-9](?:[ \t\n{re.escape(SPLITTERS)}]?[0-9]){{5,}}(?!\.?[0-9])"
)
_GROUPS = re.compile(r"[0-9]+")
_A_SHARE = re.compile(
    r"(?:60[0135]|68[89]|00[0-3]|30[0-2]|399|43[0-9]|8[37-9][0-9]|92[0-9])[0-9]{3}"
)
_CHINESE_DIGITS = "〇零一二三四五六七八九"
_CHINESE_CODE = re.compile(
    rf"(?<![{_CHINESE_DIGITS}])[{_CHINESE_DIGITS}]{{6}}(?![{_CHINESE_DIGITS}])"
)
FROM_CHINESE = str.maketrans(_CHINESE_DIGITS, "00123456789")
_CODE_DIGITS = re.compile(r"([0-9]{6})(?:\.[A-Za-z]+)?")
_WORD_OR_NUMBER = re.compile(r"[a-z]+|[0-9]+")
_PADDING = re.compile(r"[\s_·•・‧*.\-]+")
_SHARE_CLASS = re.compile(
    r"\A(?:s?\*?st|xd|xr|dr|[nc])(?=[^\x00-\x7f])|(?<=[^\x00-\x7f])-?(?:uw|ud|wd|[abhduvw])\Z"
)
_NO_IDENTITY = frozenset(
    {"", "unknown", "other", "others", "none", "nan", "null", "未知", "其他", *Board}
)
_MIN_LATIN_LETTERS = 3
_LONGEST_ARGUMENT = 500
_ROUNDS = 4  # a replacement can separate digits, which may then form a code on their own


class IdentityHit(NamedTuple):
    """A hidden identity in a text: its kind and its bounds in the original text."""

    kind: IdentityKind
    start: int
    end: int


class IdentifyingNames(NamedTuple):
    """Codes and names in a snapshot that may identify an asset."""

    codes: tuple[str, ...]
    indices: tuple[str, ...]
    names: tuple[str, ...]
    industries: tuple[str, ...]
    #: names from its documents: products, persons, other names
    entities: tuple[Entity, ...] = ()


def identities_of(snapshot: MarketSnapshot, *, assets: bool, dates: bool) -> IdentityIndex:
    """Return the index of a snapshot's hidden identities.

    `assets`: whether codes, names and industries are hidden; `dates`: whether calendar dates are
    hidden. Snapshots with equal names share an index.
    """
    codes = (*snapshot.codes, *snapshot.former_codes)
    former_names = [spell.name for spell in snapshot.spells]
    names = (*snapshot.names, *former_names)
    listed = (one for one in snapshot.documents.entities if one.kind != "place")
    entities = (*listed, *known_entities(snapshot))
    named = IdentifyingNames(codes, tuple(snapshot.indices), names, snapshot.industries, entities)
    with _BUILDING:
        return _index_of(named, assets=assets, dates=dates)


class IdentityIndex:
    """Hidden identities of a snapshot: codes, names and industries (if `assets`), and calendar
    dates (if `dates`). Immutable.
    """

    def __init__(self, snapshot: IdentifyingNames, *, assets: bool, dates: bool) -> None:
        self._assets = assets
        self._dates = dates
        #: names by word, matched in any case
        self._latin: dict[str, list[tuple[str, ...]]] = {}
        #: names by their first two characters
        self._chinese: dict[str, set[str]] = {}
        #: symbols and names that are common words (`COST`, `Target`), matched only in their own
        #: case
        self._common: dict[str, set[str]] = {}
        self._names: tuple[str, ...] = ()
        self._symbols: tuple[str, ...] = ()
        self._entities = snapshot.entities

        digits = set()
        odd_codes = set()
        for code in (*snapshot.codes, *snapshot.indices):
            match = _CODE_DIGITS.fullmatch(code)
            if match is None:
                odd_codes.add(code)
            else:
                digits.add(match[1])

        self._digits = frozenset(digits)
        if assets:
            own_names = set(snapshot.names).difference(snapshot.codes)
            self._names = tuple(own_names)
            self._symbols = tuple(filter(str.isalpha, snapshot.codes))
            for name in sorted(own_names.union(odd_codes, snapshot.industries)):
                word = name.lower()
                if word in COMMON_WORDS and word not in _NO_IDENTITY:
                    self._common.setdefault(word, set()).add(name)
                else:
                    self._add_name(name)

        self._dated_names: tuple[str, ...] = ()
        """Visible names that look like dates (`April Foods`) but are not."""
        if dates and not assets:
            visible = map(normalise, {*snapshot.names, *snapshot.industries})
            self._dated_names = tuple(sorted(filter(self._has_date, visible)))

        self._chinese_begins = frozenset(begin[0] for begin in self._chinese)
        keys = {*self._latin, *self._common}
        if assets:
            keys.update(_EXCHANGES)

        if dates:
            keys.update(WORD_HINTS)

        self._keys = frozenset(key.encode() for key in keys)

    def find(self, text: str, scope: Scope = "prompt") -> list[IdentityHit]:
        """Return all hidden identities in `text`, sorted by offset, with overlaps merged."""
        if not (self._assets or self._dates):
            return []

        normalised = normalise(text)
        hits = sorted(self._scan(normalised, scope), key=lambda hit: (hit.start, -hit.end))
        if not hits:
            return []

        _, offsets = normalise_with_places(text)
        merged: list[IdentityHit] = []
        for kind, start, end in hits:
            hit = IdentityHit(kind, offsets[start], offsets[end])
            if merged and hit.start < merged[-1].end:
                merged[-1] = merged[-1]._replace(end=max(merged[-1].end, hit.end))
            else:
                merged.append(hit)

        return merged

    def has_any(self, text: str) -> bool:
        """Return whether the text contains a hidden identity of the snapshot."""
        if not (self._assets or self._dates):
            return False
        return next(self._scan(normalise(text), "prompt"), None) is not None

    def names_identity(self, text: str) -> bool:
        """Return whether a tool's argument is a hidden identity. Any well-formed code counts,
        whether known or not.
        """
        if not (self._assets or self._dates):
            return False
        if WITHHELD in text or self.is_code(text):
            return True
        said = normalise(text[:_LONGEST_ARGUMENT])
        hits = self._scan(said, "answer")
        return any(not names_no_day(said[hit.start : hit.end]) for hit in hits)

    def is_code(self, text: str) -> bool:
        """Return whether codes are hidden and the whole text is a code, in any vendor's style,
        whether known or not.
        """
        if not self._assets or len(text) > _LONGEST_ARGUMENT:
            return False
        return parse_code(normalise(text)) is not None

    def is_common(self, text: str) -> bool:
        """Return whether the text is a common word (`COST`) that is also a code or name in
        the market.
        """
        return text in self._common.get(text.lower(), ())

    def withhold(self, text: str) -> str:
        """Return a model's text with each hidden identity (including any code) replaced by
        `[withheld]`.

        `has_any` is False for the result.
        """
        for _ in range(_ROUNDS):
            hits = self.find(text, "answer")
            if not hits:
                return text

            parts = []
            done = 0
            for hit in hits:
                parts += [text[done : hit.start], WITHHELD]
                done = hit.end

            text = "".join([*parts, text[done:]])

        # Returning no text is better than revealing an identity.
        if self.find(text, "answer"):
            return WITHHELD
        return text

    # --- building

    @staticmethod
    def _has_date(name: str) -> bool:
        shape = TextViews(name)
        words = WORD_HINTS.intersection(word.decode() for word in shape.words)
        return next(find_dates(name, shape, words), None) is not None

    def _add_name(self, name: str) -> None:
        """Index a name by the parts that identify it in a text."""
        normalised = normalise(name).strip().lower()
        if normalised in _NO_IDENTITY:
            return

        if not normalised.isascii():
            for variant in name_variants(normalised):
                if len(variant) >= 2 and not variant.isascii():
                    self._chinese.setdefault(variant[:2], set()).add(variant)

            return

        parts = tuple(_WORD_OR_NUMBER.findall(normalised))
        words = [part for part in parts if part.isalpha()]
        if sum(map(len, words)) < _MIN_LATIN_LETTERS:
            return

        # `Lunthra Veskol 12` is identified even without its number.
        while len(words) >= 2 and parts[-1].isdigit():
            parts = parts[:-1]

        # Words may be joined in a text: `LunthraVeskol`.
        keys = {"".join(words[:count]) for count in range(1, len(words) + 1)}
        for key in keys:
            self._latin.setdefault(key, []).append(parts)

    # --- searching

    def _scan(self, normalised: str, scope: Scope) -> Iterator[IdentityHit]:
        """Yield the hidden identities in a text, in no particular order; they may overlap.

        The search is lazy, so `has_any` stops at the first hit. The text's shape, and the keys that
        occur in it, rule out most patterns before any pattern is tried.
        """
        shape = TextViews(normalised)
        matched = [key.decode() for key in self._keys.intersection(shape.words)]
        if self._assets:
            exchanges = _EXCHANGES.intersection(matched)
            yield from _hits("security code", self._codes_in(normalised, shape, exchanges))
            if scope == "answer":
                yield from self._in_answer(normalised, shape)

            yield from _hits("company or industry name", self._names_in(normalised, matched))
            if not normalised.isascii():
                yield from self._chinese_in(normalised)

        if self._dates:
            yield from _hits("calendar date", self._dates_in(normalised, shape, matched, scope))

    def _names_in(self, normalised: str, matched: Iterable[str]) -> Iterator[Span]:
        """Yield names in Latin letters of which a key occurs in the text."""
        names: set[tuple[str, ...]] = set()
        for key in matched:
            names.update(self._latin.get(key, ()))

        yield from _latin_names_in(normalised, names)
        for word in matched:
            for name in self._common.get(word, ()):
                for match in re.finditer(rf"(?<![A-Za-z]){name}(?![A-Za-z])", normalised):
                    yield match.span()

    def _dates_in(
        self, normalised: str, shape: TextViews, matched: Iterable[str], scope: Scope
    ) -> Iterator[Span]:
        """Yield calendar dates outside visible names."""
        text = normalised
        for name in self._dated_names:
            text = text.replace(name, "*" * len(name))

        if text is not normalised:
            shape = TextViews(text)

        yield from find_dates(text, shape, WORD_HINTS.intersection(matched))
        if scope != "prompt":
            yield from find_free_dates(
                text,
                shape,
                lambda digits: self._may_be_code(digits, scope),
                in_document=scope == "document",
            )

    def _in_answer(self, normalised: str, shape: TextViews) -> Iterator[IdentityHit]:
        """Yield identities that are searched for only in text by a model: arbitrary codes,
        identifiers and short names.
        """
        yield from _hits("security code", _codes_of_any_asset(normalised, shape))
        for start, end, digits in find_spelled_codes(normalised, shape):
            if digits in self._digits or _A_SHARE.fullmatch(digits) is not None:
                yield IdentityHit("security code", start, end)

        for identifier in find_identifiers(normalised):
            yield IdentityHit("security code", identifier.start, identifier.end)

        for entity in self._spoken.find(normalised):
            yield IdentityHit("company or industry name", entity.start, entity.end)

    @cached_property
    def _spoken(self) -> EntityIndex:  # built for the first answer
        return spoken_names(self._names, self._symbols, self._entities)

    def _may_be_code(self, digits: str, scope: Scope) -> bool:
        """Return whether six digits that look like a date may be a code instead: a code in the
        market or, in an answer, any A-share code.
        """
        if digits in self._digits:
            return True
        return scope == "answer" and _A_SHARE.fullmatch(digits) is not None

    def _codes_in(self, text: str, shape: TextViews, exchanges: Iterable[str]) -> Iterator[Span]:
        """Yield known codes, and any six digits next to an exchange."""
        for start in _six_digits(shape):
            end = start + 6
            if text[start:end] in self._digits and _stands_alone(text, start, end):
                yield start, end

        has_six = b"000000" in shape.runs
        if has_six:
            for offset in places_of(shape.runs, b"x0.000000x"):
                match = _MARKET_ID.match(text, offset)
                if match is not None and match[1] in self._digits:
                    yield match.span()

        if b"x000000x" in shape.joined or b"x000000x" in shape.joined_over_spaces:
            for run in _SPLIT_CODE.finditer(text):
                yield from self._known_in_run(text, run.start(), run.end())

        if exchanges and has_six:
            yield from _vendor_codes_in(text, exchanges)

    def _known_in_run(self, text: str, start: int, end: int) -> Iterator[Span]:
        """Yield known codes whose digits are split into adjacent groups."""
        groups = [match.span() for match in _GROUPS.finditer(text, start, end)]
        for first, (begin, _) in enumerate(groups):
            digits = ""
            for count, (left, right) in enumerate(groups[first : first + 6], 1):
                digits += text[left:right]
                if len(digits) < 6:
                    continue

                is_split = count > 1  # a single group has already been found as unsplit digits
                if is_split and digits in self._digits and _is_one_code(text, begin, right, count):
                    yield begin, right

                break

    def _chinese_in(self, normalised: str) -> Iterator[IdentityHit]:
        """Yield codes in Chinese digits, and Chinese names, even with padding between their
        characters.
        """
        for match in _CHINESE_CODE.finditer(normalised):
            if match[0].translate(FROM_CHINESE) in self._digits:
                yield IdentityHit("security code", *match.span())

        lower = lower_text(normalised)
        if self._chinese_begins.isdisjoint(lower):
            return

        squashed, begins, offsets = squash(lower, _PADDING, self._chinese.keys())
        names: set[str] = set()
        for begin in begins:
            names |= self._chinese[begin]

        for name in sorted(names):
            for offset in places_of(squashed, name):
                last = offset + len(name) - 1
                yield IdentityHit("company or industry name", offsets[offset], offsets[last] + 1)


_index_of = lru_cache(maxsize=16)(IdentityIndex)
# Many episodes start at once. Without the lock, each thread would build its own index.
_BUILDING = threading.Lock()


def _hits(kind: IdentityKind, spans: Iterable[Span]) -> Iterator[IdentityHit]:
    for start, end in spans:
        yield IdentityHit(kind, start, end)


def _six_digits(shape: TextViews) -> Iterator[int]:
    """Yield the offsets of runs of six or more digits, unless they follow a decimal point."""
    if b"000000" not in shape.runs:
        return

    for hint, width in ((b"x000000", 0), (b"e000000", 0), (b"x.000000", 1)):
        for offset in places_of(shape.runs, hint):
            yield offset + width


def _codes_of_any_asset(text: str, shape: TextViews) -> Iterator[Span]:
    """Yield spans of six digits in the A-share numbering, whether or not the market has
    the asset.
    """
    for start in _six_digits(shape):
        end = start + 6
        if not _A_SHARE.match(text, start) or is_amount(text, start, end):
            continue

        if _stands_alone(text, start, end):
            yield start, end


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Return whether six digits are a code here, not part of a decimal number or an amount
    of money.
    """
    if follows_point(text, start):
        return False

    after = text[end : end + 2]
    if after[:1].isdigit() or (after[:1] == "." and after[1:].isdigit()):
        return False

    # 600000 is both a code and a round number, so `600000 shares` marks it as an amount. Other
    # codes are an amount only with a currency.
    is_number = is_amount if text[start:end].endswith("000") else is_money
    return not is_number(text, start, end)


def _vendor_codes_in(text: str, exchanges: Iterable[str]) -> Iterator[Span]:
    """Yield any six digits that have an exchange's name before or after them."""
    lower = text.lower()
    for exchange in sorted(exchanges):
        for start in places_of(lower, exchange):
            end = start + len(exchange)
            if not follows_letter(lower, start):
                match = _CODE_AFTER_EXCHANGE.match(text, end)
                if match is not None:
                    yield start, match.end()

            if not precedes_letter(lower, end):
                match = _CODE_BEFORE_EXCHANGE.search(text, max(0, start - 10), start)
                if match is not None:
                    yield match.start(), end


def _is_one_code(text: str, start: int, end: int, groups: int) -> bool:
    """Return whether groups of digits form one number.

    Those in `asset_0025 55` do not. Spaces may separate only two groups of three digits, or single
    digits.
    """
    if re.search(r"[A-Za-z]_[+-]?\Z", text[max(0, start - 3) : start]):
        return False

    spelled = text[start:end]
    if " " not in spelled or groups == 6:
        return True
    return groups == 2 and len(spelled.split(" ")[0]) == 3


def _latin_names_in(text: str, names: Iterable[tuple[str, ...]]) -> Iterator[Span]:
    """Yield names in any case, with up to three other characters between their parts."""
    for parts in names:
        spelled = r"[\W_]{0,3}".join(parts)
        # `Veskol` is not found in `Veskols`, but it is found in `Veskol12`.
        before = "[A-Za-z]" if parts[0].isalpha() else "[0-9]"
        after = "[A-Za-z]" if parts[-1].isalpha() else "[0-9]"
        for match in re.finditer(rf"(?<!{before}){spelled}(?!{after})", text, re.IGNORECASE):
            yield match.span()


def name_variants(name: str) -> tuple[str, str]:
    """Return a name in lower case without spaces and punctuation, and the same string without a
    share-class suffix.
    """
    normalised = normalise(name).strip().lower()
    if normalised.isascii():
        squashed = re.sub(r"[\W_]+", "", normalised)
    else:
        squashed = _PADDING.sub("", normalised)

    return squashed, _SHARE_CLASS.sub("", squashed)
