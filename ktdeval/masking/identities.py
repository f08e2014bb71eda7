"""Every real identity that a mask hides, indexed so that a text is searched in one pass, whatever the number of names.

Codes are found as digits of a known code, standing alone or split (`600-519`), and as any six digits with an exchange next to
them (`SH600519`, `600519.XSHG`, `sh.600519`). Names are found by their rarest part: Latin names by a word of theirs,
Chinese ones by their first two characters. Dates are those of `ktdeval.masking.dates`.

In a model's answer, short names, identifiers (ISIN, …) and codes in words or look-alike letters count, too. What is not found: a
company's nickname, a translation of its name, and codings of a whole text (base64, reversed, Roman numerals). These can't come
out of a payload; a model that writes them tells itself nothing new, but another role of its team may read them (`docs/masks.md`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from operator import add
from typing import TYPE_CHECKING, Literal, NamedTuple

from ktdeval.errors import LeakError
from ktdeval.jsonio import JsonValue, loads_strict
from ktdeval.market.snapshot import Board, MarketSnapshot, parse_code
from ktdeval.masking.dates import WORD_HINTS, Span, find_dates, is_amount, is_money
from ktdeval.masking.entities import COMMON_WORDS, EntityIndex
from ktdeval.masking.free_dates import find_free_dates
from ktdeval.masking.identifiers import find_identifiers
from ktdeval.masking.payload import render_json
from ktdeval.masking.short_names import short_names
from ktdeval.masking.spelled_codes import find_spelled_codes
from ktdeval.masking.text import SPLITTERS, Shape, lowered, normalise, normalise_with_places, places_of

if TYPE_CHECKING:
    from ktdeval.masking.lens import Lens

WITHHELD = "[withheld]"  #: What stands in a text for an identity that was taken out. Offered as an identity, it counts as one.
IdentityKind = Literal["security code", "company or industry name", "calendar date"]
Scope = Literal["prompt", "document", "answer"]
"""Who wrote a text. The suite's prompts hold numbers that only look like dates or codes. In a document they are what they look
like; in a model's answer six digits of the A-share numbering are a code, too, though the snapshot has no such asset.
"""
_EXCHANGES = frozenset(["xshg", "shse", "sse", "shh", "sh", "ss", "xshe", "szse", "shz", "sz", "xbse", "bse", "bjse", "bj"])
_CODE_AFTER_EXCHANGE = re.compile(r"[ .:_-]{0,2}[0-9]{6}(?![0-9])")
_CODE_BEFORE_EXCHANGE = re.compile(r"(?<![0-9])(?<![0-9]\.)[0-9]{6}[ .:_-]{0,2}\Z")
_MARKET_ID = re.compile(r"[01]\.([0-9]{6})(?![0-9]|[eE][0-9])")  # 1.600519: market number, then code
_SPLIT_CODE = re.compile(rf"(?<![0-9])(?<![0-9]\.)[0-9](?:[ \t\n{re.escape(SPLITTERS)}]?[0-9]){{5,}}(?!\.?[0-9])")
_GROUPS = re.compile(r"[0-9]+")
_A_SHARE = re.compile(r"(?:60[0135]|68[89]|00[0-3]|30[0-2]|399|43[0-9]|8[37-9][0-9]|92[0-9])[0-9]{3}")
_CHINESE_DIGITS = "〇零一二三四五六七八九"
_CHINESE_CODE = re.compile(rf"(?<![{_CHINESE_DIGITS}])[{_CHINESE_DIGITS}]{{6}}(?![{_CHINESE_DIGITS}])")
FROM_CHINESE = str.maketrans(_CHINESE_DIGITS, "00123456789")
_CODE_DIGITS = re.compile(r"([0-9]{6})(?:\.[A-Za-z]+)?")
_WORD_OR_NUMBER = re.compile(r"[a-z]+|[0-9]+")
_PADDING = re.compile(r"[\s_·•・‧*.\-]+")
_SHARE_CLASS = re.compile(r"\A(?:s?\*?st|xd|xr|dr|[nc])(?=[^\x00-\x7f])|(?<=[^\x00-\x7f])-?(?:uw|ud|wd|[abhduvw])\Z")
_NO_IDENTITY = frozenset({"", "unknown", "other", "others", "none", "nan", "null", "未知", "其他", *Board})
_MIN_LATIN_LETTERS = 3
_LONGEST_ARGUMENT = 500
_ROUNDS = 4  # a replacement can leave digits standing alone that did not before


class Hit(NamedTuple):
    """Hidden identity in a text: its kind, and its bounds in the text as given."""

    kind: IdentityKind
    start: int
    end: int


class Named(NamedTuple):
    """Everything of a snapshot that names something."""

    codes: tuple[str, ...]
    indices: tuple[str, ...]
    names: tuple[str, ...]
    industries: tuple[str, ...]


def identities_of(snapshot: MarketSnapshot, *, assets: bool, dates: bool) -> IdentityIndex:
    """Index of a snapshot's hidden identities: codes, names and industries, or calendar dates; equal names share one."""
    codes = (*snapshot.codes, *snapshot.former_codes)
    names = (*snapshot.names, *(spell.name for spell in snapshot.spells))
    return _index_of(Named(codes, tuple(snapshot.indices), names, snapshot.industries), assets=assets, dates=dates)


class IdentityIndex:
    """The hidden identities of a snapshot: codes, names and industries (`assets`), calendar dates (`dates`). Immutable."""

    def __init__(self, snapshot: Named | MarketSnapshot, *, assets: bool, dates: bool) -> None:
        self._assets = assets
        self._dates = dates
        self._digits: frozenset[str] = frozenset()
        self._latin: dict[str, list[tuple[str, ...]]] = {}
        self._chinese: dict[str, set[str]] = {}
        self._common: dict[str, set[str]] = {}
        """Symbols and names that are common words (`COST`, `Target`), by these: found as they are spelled, others in any case."""
        codes = (*snapshot.codes, *snapshot.indices)
        self._digits = frozenset(match[1] for code in codes if (match := _CODE_DIGITS.fullmatch(code)))
        self._names: tuple[str, ...] = snapshot.names if assets else ()
        if assets:
            own_names = set(snapshot.names).difference(snapshot.codes)
            odd_codes = {code for code in codes if not _CODE_DIGITS.fullmatch(code)}
            for name in sorted(own_names | odd_codes | set(snapshot.industries)):
                if (word := name.lower()) in COMMON_WORDS and word not in _NO_IDENTITY:
                    self._common.setdefault(word, set()).add(name)
                else:
                    self._add_name(name)
        visible = () if assets or not dates else {*snapshot.names, *snapshot.industries}
        self._dated_names = tuple(sorted(name for name in map(normalise, visible) if self._has_date(name)))
        """Visible names that read as dates (`April Foods`) and are none."""
        self._chinese_begins = frozenset(begin[0] for begin in self._chinese)
        keys = {*self._latin, *self._common, *(_EXCHANGES if assets else ()), *(WORD_HINTS if dates else ())}
        self._keys = frozenset(key.encode() for key in keys)

    def find(self, text: str, scope: Scope = "prompt") -> list[Hit]:
        """All hidden identities in `text`, by offset, overlapping ones merged."""
        if not (self._assets or self._dates):
            return []
        normalised = normalise(text)
        hits = sorted(self._scan(normalised, scope), key=lambda hit: (hit.start, -hit.end))
        if not hits:
            return []
        _, offsets = normalise_with_places(text)
        merged: list[Hit] = []
        for kind, start, end in hits:
            hit = Hit(kind, offsets[start], offsets[end])
            if merged and hit.start < merged[-1].end:
                merged[-1] = merged[-1]._replace(end=max(merged[-1].end, hit.end))
            else:
                merged.append(hit)
        return merged

    def has_any(self, text: str) -> bool:
        """Does the text hold a hidden identity of the snapshot?"""
        return (self._assets or self._dates) and next(self._scan(normalise(text), "prompt"), None) is not None

    def names_identity(self, text: str) -> bool:
        """Is `text`, offered as an argument, a hidden identity? Here any well-formed code counts, known or not."""
        if not (self._assets or self._dates):
            return False
        if WITHHELD in text or self.is_code(text):
            return True
        return next(self._scan(normalise(text[:_LONGEST_ARGUMENT]), "answer"), None) is not None

    def is_code(self, text: str) -> bool:
        """Is the whole text a code in some vendor's style, known or not, while codes are hidden?"""
        return self._assets and len(text) <= _LONGEST_ARGUMENT and parse_code(normalise(text)) is not None

    def is_common(self, text: str) -> bool:
        """Is the text a common word (`COST`) by which the market calls something?"""
        return text in self._common.get(text.lower(), ())

    def withhold(self, text: str) -> str:
        """Text of a model with each hidden identity (any code) replaced by `[withheld]`. In it, `has_any` is False."""
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
        return WITHHELD if self.find(text, "answer") else text

    # --- building

    @staticmethod
    def _has_date(name: str) -> bool:
        shape = Shape(name)
        words = WORD_HINTS.intersection(word.decode() for word in shape.words)
        return next(find_dates(name, shape, words), None) is not None

    def _add_name(self, name: str) -> None:
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
        while len(words) >= 2 and parts[-1].isdigit():  # `Lunthra Veskol 12` is known by its words too
            parts = parts[:-1]
        keys = {words[0], "".join(words)} | {"".join(words[:count]) for count in range(1, len(words))}
        for key in keys:
            self._latin.setdefault(key, []).append(parts)

    # --- searching

    def _scan(self, normalised: str, scope: Scope) -> Iterator[Hit]:
        shape = Shape(normalised)
        matched = [key.decode() for key in self._keys.intersection(shape.words)]
        if self._assets:
            yield from (Hit("security code", *span) for span in self._codes_in(normalised, shape, _EXCHANGES.intersection(matched)))
            if scope == "answer":
                yield from self._in_answer(normalised, shape)
            names = {parts for key in matched for parts in self._latin.get(key, ())}
            yield from (Hit("company or industry name", *span) for span in _latin_names_in(normalised, names))
            for name in (name for word in matched for name in self._common.get(word, ())):
                matches = re.finditer(rf"(?<![A-Za-z]){name}(?![A-Za-z])", normalised)
                yield from (Hit("company or industry name", *match.span()) for match in matches)
            if not normalised.isascii():
                yield from self._chinese_in(normalised)
        if self._dates:
            text = normalised
            for name in self._dated_names:
                text = text.replace(name, "*" * len(name))
            shape = shape if text is normalised else Shape(text)
            yield from (Hit("calendar date", *span) for span in find_dates(text, shape, WORD_HINTS.intersection(matched)))
            if scope != "prompt":
                spans = find_free_dates(text, shape, lambda digits: self._may_be_code(digits, scope))
                yield from (Hit("calendar date", *span) for span in spans)

    def _in_answer(self, normalised: str, shape: Shape) -> Iterator[Hit]:
        """Identities that only a model would write: any code, identifiers, short names."""
        yield from (Hit("security code", *span) for span in _codes_of_any_asset(normalised, shape))
        for start, end, digits in find_spelled_codes(normalised):
            if digits in self._digits or _A_SHARE.fullmatch(digits) is not None:
                yield Hit("security code", start, end)
        yield from (Hit("security code", found.start, found.end) for found in find_identifiers(normalised))
        yield from (Hit("company or industry name", found.start, found.end) for found in self._short_names.find(normalised))

    @cached_property
    def _short_names(self) -> EntityIndex:
        return EntityIndex((0, "short", short) for name in self._names for short in short_names(name))

    def _may_be_code(self, digits: str, scope: Scope) -> bool:
        """Return whether six digits that read as a day are rather a code: of the market, or in an answer of any A-share."""
        return digits in self._digits or (scope == "answer" and _A_SHARE.fullmatch(digits) is not None)

    def _codes_in(self, text: str, shape: Shape, exchanges: Iterable[str]) -> Iterator[Span]:
        has_six = b"000000" in shape.runs
        for start in _six_digits(shape):
            if text[start : start + 6] in self._digits and _stands_alone(text, start, start + 6):
                yield start, start + 6
        for offset in places_of(shape.runs, b"x0.000000x") if has_six else ():
            if (match := _MARKET_ID.match(text, offset)) is not None and match[1] in self._digits:
                yield match.span()
        if b"x000000x" in shape.joined or b"x000000x" in shape.joined_over_spaces:
            for run in _SPLIT_CODE.finditer(text):
                yield from self._known_in_run(text, run.start(), run.end())
        if exchanges and has_six:
            yield from _vendor_codes_in(text, exchanges)

    def _known_in_run(self, text: str, start: int, end: int) -> Iterator[Span]:
        """Known codes made of neighbouring groups of digits."""
        groups = [match.span() for match in _GROUPS.finditer(text, start, end)]
        for first, (begin, _) in enumerate(groups):
            digits = ""
            for count, (left, right) in enumerate(groups[first : first + 6], 1):
                digits += text[left:right]
                if len(digits) >= 6:
                    if count > 1 and digits in self._digits and _is_one_code(text, begin, right, count):
                        yield begin, right
                    break

    def _chinese_in(self, normalised: str) -> Iterator[Hit]:
        for match in _CHINESE_CODE.finditer(normalised):
            if match[0].translate(FROM_CHINESE) in self._digits:
                yield Hit("security code", *match.span())
        lower = lowered(normalised)
        if self._chinese_begins.isdisjoint(lower):
            return
        squashed = _PADDING.sub("", lower)
        begins = self._chinese.keys() & set(map(add, squashed, squashed[1:]))
        if not begins:
            return
        kept = [index for index, character in enumerate(lower) if not _PADDING.match(character)]
        for name in sorted(name for begin in begins for name in self._chinese[begin]):
            for offset in places_of(squashed, name):
                yield Hit("company or industry name", kept[offset], kept[offset + len(name) - 1] + 1)


_index_of = lru_cache(maxsize=16)(IdentityIndex)


def _six_digits(shape: Shape) -> Iterator[int]:
    """Where six or more digits begin that are no digits after a decimal point."""
    if b"000000" not in shape.runs:
        return
    for hint, width in ((b"x000000", 0), (b"e000000", 0), (b"x.000000", 1)):
        for offset in places_of(shape.runs, hint):
            yield offset + width


def _codes_of_any_asset(text: str, shape: Shape) -> Iterator[Span]:
    for start in _six_digits(shape):
        end = start + 6
        if _A_SHARE.match(text, start) and _stands_alone(text, start, end) and not is_amount(text, start, end):
            yield start, end


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Is a known code's number a code here, and neither the digits of a decimal number nor an amount of money?"""
    if text[start - 1 : start] == "." and text[start - 2 : start - 1].isdigit():
        return False
    after = text[end : end + 2]
    if after[:1].isdigit() or (after[:1] == "." and after[1:].isdigit()):
        return False
    # 600000 is a code and a round number: there `600000 shares` is enough to tell, elsewhere it takes a currency.
    is_number = is_amount if text[start:end].endswith("000") else is_money
    return not is_number(text, start, end)


def _vendor_codes_in(text: str, exchanges: Iterable[str]) -> Iterator[Span]:
    """Any six digits with an exchange's name next to them."""
    lower = text.lower()
    for exchange in sorted(exchanges):
        for start in places_of(lower, exchange):
            end = start + len(exchange)
            if not lower[start - 1 : start].isalpha() and (match := _CODE_AFTER_EXCHANGE.match(text, end)) is not None:
                yield start, match.end()
            if not lower[end : end + 1].isalpha() and (match := _CODE_BEFORE_EXCHANGE.search(text, max(0, start - 10), start)):
                yield match.start(), end


def _is_one_code(text: str, start: int, end: int, groups: int) -> bool:
    """Are these groups of digits meant as one number? Not `asset_0025 55`; by spaces only in threes or ones."""
    if re.search(r"[A-Za-z]_[+-]?\Z", text[max(0, start - 3) : start]):
        return False
    spelled = text[start:end]
    return " " not in spelled or groups == 6 or (groups == 2 and len(spelled.split(" ")[0]) == 3)


def _latin_names_in(text: str, names: Iterable[tuple[str, ...]]) -> Iterator[Span]:
    for parts in names:
        spelled = r"[\W_]{0,3}".join(parts)
        no_letter, no_digit = "[A-Za-z]", "[0-9]"
        before, after = (no_letter if part.isalpha() else no_digit for part in (parts[0], parts[-1]))
        for match in re.finditer(rf"(?<!{before}){spelled}(?!{after})", text, re.IGNORECASE):
            yield match.span()


def name_variants(name: str) -> tuple[str, str]:
    """Return a name in lower case without spaces and punctuation, and the same without the mark of a share class."""
    normalised = normalise(name).strip().lower()
    squashed = re.sub(r"[\W_]+", "", normalised) if normalised.isascii() else _PADDING.sub("", normalised)
    return squashed, _SHARE_CLASS.sub("", squashed)


class LeakGuard:
    """Scans text that leaves for the model: `check` what the suite wrote, where a hidden identity is a defect; `redact` what the
    model wrote itself and is sent back to it.
    """

    def __init__(self, lens: Lens, snapshot: MarketSnapshot) -> None:
        self._index = identities_of(snapshot, assets=lens.hides_assets, dates=lens.hides_dates)
        # Prompts, tool descriptions and a model's turns come back with every call; a few answers are worth keeping.
        self._has_any = lru_cache(maxsize=64)(self._index.has_any)
        self._withhold = lru_cache(maxsize=64)(self._index.withhold)

    def check(self, text: str, what: str = "text for the model") -> None:
        """Raise LeakError when `text` holds a hidden identity: names its kind and offset, and the text only of a common word."""
        if not self._has_any(text):
            return
        hit = self._index.find(text)[0]
        found, way = f"a {hit.kind}", "build it from payload field types (AssetRef, DayRef, SectorRef, …) instead of text"
        if self._index.is_common(word := text[hit.start : hit.end]):
            found = f"{word!r}, a code, name or industry of this market,"
            way = "if it is only a word of a prompt, rename it in the market's source and import it again, or leave the asset out"
        elif word.isdecimal() and hit.kind == "calendar date":
            way = f"if it is a number in the task's config, which reads as a day, choose another one; otherwise {way}"
        place = f"at characters {hit.start}…{hit.end} of {len(text)}"
        raise LeakError(f"leak guard: {what} holds {found} {place}, which the mask hides; {way}")

    def redact(self, text: str) -> str:
        """Text with hidden identities replaced by `[withheld]`, also codes that the snapshot lacks; it then passes `check`."""
        return self._withhold(text)

    def redact_json(self, text: str) -> str:
        """`redact` for the JSON text of a tool call, which stays JSON; strings and bare numbers that are an identity as a whole
        (`{"stock_id": 600519}`) become the string `[withheld]`.
        """
        if not self._index.find(text, "answer"):
            return text
        try:
            value = loads_strict(text)
        except ValueError:
            return self.redact(text)
        cleaned = render_json(self._redact_value(value))
        return render_json({"arguments": WITHHELD}) if self._index.find(cleaned, "answer") else cleaned

    def _redact_value(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return WITHHELD if self._index.is_code(value) else self.redact(value)
        if isinstance(value, dict):
            return {self.redact(key): self._redact_value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._redact_value(item) for item in value]
        if isinstance(value, int) and not isinstance(value, bool) and len(str(value)) == 6 and self._index.has_any(str(value)):
            return WITHHELD
        return value
