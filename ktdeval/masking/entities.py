"""Words that give an asset away in a text, found in one pass however many there are.

Rules of spelling: the longest match counts. A word with capitals is found only where its first letter is a capital, unless the text
has capitals only or none, and in addresses (`apple.com`, `@apple`), where case tells nothing; one without capitals (`bitcoin`) is
found in any case. Tickers are found as they are spelled, those of one or two letters only next to `$`, `:` or a bracket. A
possessive stays (`asset_0042's`), a legal form (`Corporation`) goes with its name. Latin words must stand alone, except long names
(`bitcoiners`) and, in texts without capitals, tickers without vowels (`databtc`, where a title runs into a text). A person's last
name counts where the full name stands in the same text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from operator import add
from pathlib import Path
from typing import Literal, NamedTuple

from ktdeval.jsonio import csv_rows
from ktdeval.market.documents import EntityKind
from ktdeval.masking.text import lowered, normalise, places_of, touches_letter

_WORDS = csv_rows(Path(__file__).with_name("entity_words.csv"))
_LEGAL = {word for row in _WORDS if row["kind"] == "legal form" for word in (row["word"], row["word"].upper())}
LEGAL_FORMS = tuple(sorted(_LEGAL))
_FORMS = "|".join(map(re.escape, sorted(_LEGAL, key=len, reverse=True)))
_FORM_AFTER = re.compile(rf"(?:,? (?:{_FORMS})(?![A-Za-z-])(?:\.(?! [A-Z])|\.(?=,))?)+")
COMMON_WORDS = frozenset(row["word"] for row in _WORDS if row["kind"] == "common")
_TOKEN = re.compile(r"[a-z]+|[0-9]+|[&+]|[^\x00-\x7f]+")
_WORD = re.compile(r"[a-z]+|[0-9]+")
_ADDRESS = re.compile(r"(?:https?://|www\.|[@#])\S+|(?<![\w-])[\w-]+(?:\.[a-z]{2,})+(?:/\S*)?")
_BESIDE_TICKER = re.compile(r"[$:(（：] ?\Z")
_GLUED = 7  # letters of a name that is found in the middle of a word
_GRAM = 3  # first letters by which such a name is looked up
_SHORT_TICKER = 2
_VOWELS = frozenset("aeiouy")


AliasKind = EntityKind | Literal["short"]
"""Kind of a spelling: of an entity, or a short name that was derived from an official one (`ktdeval.masking.short_names`)."""


class Mention(NamedTuple):
    """Mention of an entity in a text."""

    start: int
    end: int
    assets: frozenset[int]  #: columns of the assets that the words may mean; more than one: ambiguous
    is_derived: bool = False  #: whether it is a short name that no one listed


class _Alias:
    """One spelling, compiled when it is first a candidate."""

    def __init__(self, text: str, kind: AliasKind) -> None:
        self.text, self.kind = normalise(text).strip(), kind
        self.assets: set[int] = set()
        self.tokens: list[str] = _TOKEN.findall(self.text.lower())
        self.is_latin = self.text.isascii()
        is_word = len(self.tokens) == 1 and self.is_latin and self.text.isalpha()
        is_long = kind in ("name", "former") and len(self.text) >= _GLUED
        is_rare = kind == "ticker" and len(self.text) > _SHORT_TICKER and _VOWELS.isdisjoint(self.text.lower())
        self.is_glued = is_word and (is_long or is_rare)
        self.is_cased = self.text != self.text.lower()
        self.is_abbreviation = kind == "short" and self.text.isupper() and self.text.isascii()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        spelled = ""
        for index, word in enumerate(self.tokens):
            if word == "&":
                spelled += r" ?(?:&|and) ?"
            else:
                spelled += ("" if not index or self.tokens[index - 1] == "&" else r"[ .'_-]{0,2}") + re.escape(word)
        if self.is_latin and not self.is_glued:
            before = "[A-Za-z]" if self.tokens[0][0].isalpha() else "[0-9]"
            after = "[A-Za-z]" if self.tokens[-1][-1].isalpha() else "[0-9]"
            spelled = rf"(?<!{before}){spelled}(?!{after})"
        return re.compile(spelled, re.IGNORECASE)

    def keys(self) -> Iterator[str]:
        """First words of the spellings, as they may stand together."""
        joined = ""
        for token in self.tokens:
            joined += token
            yield joined

    def fits(self, text: str, start: int, end: int, no_case: bool) -> bool:
        """Is the case at [start, end) that of the alias?"""
        if self.kind == "ticker" or self.is_abbreviation:
            return self._fits_ticker(text, start, end, no_case)
        return no_case or not self.is_cased or not text[start].islower()

    def _fits_ticker(self, text: str, start: int, end: int, no_case: bool) -> bool:
        is_marked = _BESIDE_TICKER.search(text, max(0, start - 2), start) is not None
        if text[start - 1 : start] == "$" or (is_marked and text[start:end].isupper()):
            return True
        if end - start <= _SHORT_TICKER:
            return False
        if no_case and self.is_glued:
            return True
        if any(letter.isalpha() and letter.isascii() for letter in text[start - 1 : start] + text[end : end + 1]):
            return False
        if no_case or not self.is_cased:
            return text[start:end].lower() not in COMMON_WORDS
        return text[start:end] == self.text


class EntityIndex:
    """Aliases of the assets of a market. `named`: column, kind and text of each; kinds are those of `Entity`."""

    def __init__(self, named: Iterable[tuple[int, AliasKind, str]]) -> None:
        aliases: dict[tuple[str, AliasKind], _Alias] = {}
        for asset, kind, text in named:
            for spelled in _spellings(text, kind):
                alias = aliases.setdefault((spelled, kind), _Alias(spelled, kind))
                alias.assets.add(asset)
        self._by_word: dict[str, list[_Alias]] = {}
        self._by_gram: dict[str, list[_Alias]] = {}
        for alias in aliases.values():
            if not alias.tokens:
                continue
            if alias.is_glued:
                self._by_gram.setdefault(alias.tokens[0][:_GRAM], []).append(alias)
            elif alias.is_latin:
                for key in set(alias.keys()):
                    self._by_word.setdefault(key, []).append(alias)
            else:
                self._by_gram.setdefault(alias.text.lower()[:2], []).append(alias)

    def find(self, normalised: str, no_case: bool | None = None) -> list[Mention]:
        """Every mention in a normalised text; they may overlap. `no_case`: `is_caseless` of the text of which this is the rest."""
        lower = lowered(normalised)
        no_case = is_caseless(normalised) if no_case is None else no_case
        mentions = []
        addresses = [] if no_case else [match.span() for match in _ADDRESS.finditer(normalised)]
        persons: dict[str, set[int]] = {}
        for alias in self._candidates(lower):
            for match in alias.pattern.finditer(normalised):
                start, end = match.span()
                if not alias.fits(normalised, start, end, no_case or any(first <= start < last for first, last in addresses)):
                    continue
                if alias.kind in ("name", "former", "short") and (form := _FORM_AFTER.match(normalised, end)) is not None:
                    end = form.end()
                mentions.append(Mention(start, end, frozenset(alias.assets), alias.kind == "short"))
                if alias.kind == "person" and len(alias.tokens) > 1:
                    persons.setdefault(alias.tokens[-1], set()).update(alias.assets)
        for name, assets in persons.items():
            for start in places_of(lower, name):
                end = start + len(name)
                if (no_case or normalised[start].isupper()) and not touches_letter(lower, start, end):
                    mentions.append(Mention(start, end, frozenset(assets)))
        return mentions

    def _candidates(self, lower: str) -> Collection[_Alias]:
        chosen: dict[int, _Alias] = {}
        for word in self._by_word.keys() & set(_WORD.findall(lower)):
            chosen.update((id(alias), alias) for alias in self._by_word[word])
        if self._by_gram:
            pairs = list(map(add, lower, lower[1:]))
            for gram in self._by_gram.keys() & {*pairs, *map(add, pairs, lower[2:])}:
                chosen.update((id(alias), alias) for alias in self._by_gram[gram])
        return chosen.values()


def is_caseless(text: str) -> bool:
    """Has the text capitals only, or none, so that case tells nothing?"""
    return text in (text.lower(), text.upper())


def _spellings(text: str, kind: AliasKind) -> set[str]:
    """The text, and for names without their legal form."""
    text = text.strip()
    bare = _FORM_AFTER.sub("", text).strip() if kind in ("name", "former") else text
    return {spelled for spelled in (text, bare) if len(spelled) > 1 or kind == "ticker"}
