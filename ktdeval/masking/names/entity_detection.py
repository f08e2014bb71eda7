"""Find names of assets, companies and persons in a text, in a single pass for any number of names.

Rules of spelling:

* The longest match is taken.
* A capitalised name that is also an English word is found only if its first word is capitalised in
  the text. Case is ignored for other names, in texts entirely in upper or lower case, and in
  addresses (`apple.com`, `@apple`).
* A name without capitals (`bitcoin`) is found in any case.
* Tickers of four letters or more that are not English words are found in any case. Other tickers
  must have the listed case, and tickers of one or two letters must be next to `$`, `:` or a
  bracket.
* A possessive stays (`asset_0042's`); a legal form (`Corporation`) is part of the name.
* Latin names must be separate words. The exceptions are long names (`bitcoiners`), and tickers
  without vowels, because a title may run into the text. Such tickers need at least four letters
  (`dataxdgc`), or three in texts without capitals (`databtc`).
* A person's last name counts if the full name is in the same text, or in the title of the text.
* `ktdeval.masking.names.respelled` finds other spellings (`N-vidia`, `Micr0soft`, `TeslaBot`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import add
from typing import Literal

from ktdeval.market.snapshots.documents import EntityKind
from ktdeval.masking.names.headquarters import end_of_region
from ktdeval.masking.names.ordinary_words import (
    COMMON_WORDS,
    ENTITY_WORDS,
    is_ordinary,
    is_word_boundary,
    listed_words,
    needs_capital,
)
from ktdeval.masking.names.respelled import KnownName, RespelledIndex
from ktdeval.masking.text_normalisation import lower_text, normalise, places_of, touches_letter

_LEGAL_AS_LISTED = {row["word"] for row in ENTITY_WORDS if row["kind"] == "legal form"}
_LEGAL = _LEGAL_AS_LISTED | {word.upper() for word in _LEGAL_AS_LISTED}
LEGAL_FORMS = tuple(sorted(_LEGAL))
_FORMS = "|".join(map(re.escape, sorted(_LEGAL, key=len, reverse=True)))
_FORM_AFTER = re.compile(rf"(?:,? (?:{_FORMS})(?![A-Za-z-])(?:\.(?! [A-Z])|\.(?=,))?)+")
_TOKEN = re.compile(r"[a-z]+|[0-9]+|[&+]|[^\x00-\x7f]")
_WORD = re.compile(r"[a-z]+|[0-9]+")
_LETTERS = re.compile("[A-Za-z]*")
_NEXT_WORD = re.compile("[ -]([A-Za-z]+)")
_ADDRESS = re.compile(r"(?:https?://|www\.|[@#])\S+|(?<![\w-])[\w-]+(?:\.[a-z]{2,})+(?:/\S*)?")
_BESIDE_TICKER = re.compile(r"[$:(（：] ?\Z")
_BEHIND_TICKER = re.compile(
    r"\.(?:OQ?|[NKAP]|US)(?![0-9A-Za-z])| U[NQWRAP](?![0-9A-Za-z])"
    r"| US(?=[),;:/]|\Z|\.?\Z|\. | (?:[Ee]quity|shares|stock|at)(?![a-z]))"
)
_GLUED = 7  # minimum letters of a name for finding it inside a word
_GRAM = 3  # number of first letters by which such a name is looked up
_SHORT_TICKER = 2  # maximum letters of a ticker that needs a mark such as `$`
_RARE = 4  # minimum letters of a name for finding it in any case
_SHORT_PERSON = 2  # number of Chinese characters of a person's name that may join two words
_TAG = re.compile(r"[@#][A-Za-z]\w+")
_PADDING = re.compile(r"[ _·•・‧*.-]+")
_VOWELS = frozenset("aeiouy")


AliasKind = EntityKind | Literal["short", "nickname", "filed", "term"]
"""Kind of a spelling: of an entity, a short name that was derived from an official one
(`ktdeval.masking.names.short_names`), or a listed word of a known company
(`ktdeval.masking.names.known_companies`).
"""

_UNOFFICIAL = frozenset(("short", "nickname"))
_SEPARATE_WORDS = frozenset(("short", "nickname", "filed", "term"))
_ONE_SPELLING = frozenset(("person", "filed", "term"))


LastName = tuple[str, frozenset[int]]
"""Last name of a person in lower case, and the columns of the assets with this person."""


@dataclass(frozen=True, slots=True)
class EntityMention:
    """A mention of an entity in a text."""

    start: int
    end: int
    #: columns of the assets to which the name may refer; ambiguous if there are several
    assets: frozenset[int]
    kind: AliasKind

    @property
    def is_derived(self) -> bool:
        """True if the mention is a derived short name or a nickname, not an official name."""
        return self.kind in _UNOFFICIAL


class _EntityAlias:
    """One spelling of a name, compiled when it first becomes a candidate."""

    def __init__(self, text: str, kind: AliasKind) -> None:
        self.text = normalise(text).strip()
        self.kind = kind
        self.assets: set[int] = set()
        self.tokens: list[str] = _TOKEN.findall(self.text.lower())
        self.is_latin = self.text.isascii()

        # Only single words that are unlikely to be part of another word are searched for inside
        # words.
        is_word = len(self.tokens) == 1 and self.is_latin and self.text.isalpha()
        is_long = kind in ("name", "former") and len(self.text) >= _GLUED
        is_rare = (
            kind == "ticker"
            and len(self.text) > _SHORT_TICKER
            and _VOWELS.isdisjoint(self.text.lower())
        )
        self.is_glued = is_word and (is_long or is_rare)

        self.is_cased = self.text != self.text.lower()
        self.is_abbreviation = kind == "short" and self.text.isupper() and self.text.isascii()
        self.is_symbol = kind == "ticker" or self.is_abbreviation
        is_short_person = kind == "person" and len(self.text) == _SHORT_PERSON
        self.is_separate_word = kind in _SEPARATE_WORDS or is_short_person

    @cached_property
    def is_rare(self) -> bool:
        """True if the letters have no other meaning, so that they match in any case."""
        if not self.is_latin or self.kind == "person":
            return False
        if self.is_symbol and not self.text.isalpha():
            return False
        return any(
            len(token) >= _RARE and not is_ordinary(token) and not needs_capital(token)
            for token in self.tokens
        )

    def by_letters(self) -> Iterator[KnownName[_EntityAlias]]:
        """Yield the alias as letters, for finding other spellings, and also without the `s` of a
        possessive. Yields nothing for persons, words of one asset and aliases that can't be matched
        only by their letters.
        """
        parts = [part for part in self.tokens if part != "&"]
        letters = self.letters
        if self.kind in _ONE_SPELLING or not (letters.isascii() and letters.isalpha()):
            return

        if len(letters) > _SHORT_TICKER:
            yield KnownName(letters, self.is_symbol, len(self.tokens) == 1, self)
        if parts[1:] == ["s"]:
            yield KnownName(parts[0], self.is_symbol, True, self)

    @property
    def letters(self) -> str:
        return "".join(self.tokens).replace("&", "")

    @property
    def is_full_name(self) -> bool:
        """True if the alias is a person's first and last name, in Latin letters. The last character
        of a Chinese name is not a name.
        """
        return self.kind == "person" and self.is_latin and len(self.tokens) > 1

    @property
    def last_name(self) -> LastName:
        return self.tokens[-1], frozenset(self.assets)

    @cached_property
    def has_optional_and(self) -> bool:
        """True if the name consists of capital letters joined by an optional `&` (`AT&T`,
        `ATT`).
        """
        return "&" in self.tokens and len(self.letters) > _SHORT_TICKER and self.text.isupper()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        spelled = ""
        previous = ""
        for word in self.tokens:
            if word == "&":
                spelled += r"(?: ?(?:&|and) ?)" + ("?" if self.has_optional_and else "")
            elif previous in ("", "&"):
                spelled += re.escape(word)
            else:
                spelled += r"[ .'_/·•・‧*-]{0,2}" + re.escape(word)

            previous = word

        if self.is_latin and len(self.tokens) > 1 and not self.is_symbol:
            spelled += "(?:s(?![a-z]))?"  # Coca-Colas

        if self.is_latin and not self.is_glued:
            before = "[A-Za-z]" if self.tokens[0][0].isalpha() else "[0-9]"
            after = "[A-Za-z]" if self.tokens[-1][-1].isalpha() else "[0-9]"
            if len(self.tokens) > 1 and len(self.tokens[-1]) == 1:
                after = "[0-9A-Za-z]"  # Model Y, not Model Y2K
            spelled = rf"(?<!{before}){spelled}(?!{after})"

        return re.compile(spelled, re.IGNORECASE)

    def keys(self) -> Iterator[str]:
        """Yield the words under which the alias is looked up: its first tokens, also joined, since
        a text may omit the space between them.
        """
        joined = ""
        for token in self.tokens:
            joined += token
            yield joined

        if self.has_optional_and:
            yield self.letters

    def fits(self, text: str, start: int, end: int, no_case: bool) -> bool:
        """Return whether the letters at [start, end) match the alias's case."""
        if self.is_glued and _is_in_ordinary_word(text, start, end):
            return False
        if self.is_latin and _begins_phrase(text, start, end):
            return False
        if self.is_symbol:
            return self._fits_ticker(text, start, end, no_case)
        if not self.is_latin and self.is_separate_word:
            return is_word_boundary(text, start, end)
        if self.has_optional_and and text[start:end].isalpha():
            return text[start:end].isupper()
        if no_case or not self.is_cased or self.is_rare:
            return True

        first_word = text[start : start + len(self.tokens[0])]
        return not first_word.islower()

    def mention_at(self, text: str, start: int, end: int) -> EntityMention:
        """Return the mention for an occurrence, including the legal form that follows the name."""
        if self.kind in ("name", "former", "short", "nickname"):
            form = _FORM_AFTER.match(text, end)
            if form is not None:
                end = form.end()

        if self.kind == "place":
            end = end_of_region(text, end)

        return EntityMention(start, end, frozenset(self.assets), self.kind)

    def _fits_ticker(self, text: str, start: int, end: int, no_case: bool) -> bool:
        is_marked = _BESIDE_TICKER.search(text, max(0, start - 2), start) is not None
        if text[start - 1 : start] != ".":
            is_marked = is_marked or _BEHIND_TICKER.match(text, end) is not None
        if text[start - 1 : start] == "$" or (is_marked and text[start:end].isupper()):
            return True
        if end - start <= _SHORT_TICKER:
            return False
        if self.is_glued and (no_case or self.is_rare):
            return True

        neighbours = text[start - 1 : start] + text[end : end + 1]
        if any(letter.isalpha() and letter.isascii() for letter in neighbours):
            return False
        if self.is_rare:
            return True
        if no_case or not self.is_cased:
            return text[start:end].lower() not in COMMON_WORDS

        return text[start:end] == self.text


class EntityIndex:
    """Index of the names of a market's assets. `named`: column, kind and text of each name; kinds
    are those of `Entity`.
    """

    def __init__(self, named: Iterable[tuple[int, AliasKind, str]]) -> None:
        aliases: dict[tuple[str, AliasKind], _EntityAlias] = {}
        for asset, kind, text in named:
            for spelled in _spellings(text, kind):
                alias = aliases.setdefault((spelled, kind), _EntityAlias(spelled, kind))
                alias.assets.add(asset)

        self._by_word: dict[str, list[_EntityAlias]] = {}
        self._by_gram: dict[str, list[_EntityAlias]] = {}
        for alias in aliases.values():
            if not alias.tokens:
                continue

            if alias.is_glued:
                self._by_gram.setdefault(alias.tokens[0][:_GRAM], []).append(alias)
            elif alias.is_latin:
                for key in set(alias.keys()):
                    self._by_word.setdefault(key, []).append(alias)
            else:
                begin = _PADDING.sub("", alias.text.lower())[:2]
                self._by_gram.setdefault(begin, []).append(alias)

        self._respelled = RespelledIndex(
            known for alias in aliases.values() for known in alias.by_letters()
        )

    def find(
        self,
        normalised: str,
        no_case: bool | None = None,
        last_names: Iterable[LastName] = (),
    ) -> list[EntityMention]:
        """Return every mention in a normalised text; mentions may overlap.

        `no_case`: whether to ignore case; by default `is_caseless(normalised)`. For a part of a
        longer text, pass `is_caseless` of the whole text. `last_names`: last names of persons whose
        full names appear elsewhere, for example in the text's title.
        """
        lower = lower_text(normalised)
        if no_case is None:
            no_case = is_caseless(normalised)

        addresses = _addresses(normalised, no_case)
        words = _WORD.findall(lower)
        mentions = []
        persons = set(last_names)

        for alias in self._candidates(lower, words):
            for start, end in _places(alias, normalised, no_case, addresses):
                mentions.append(alias.mention_at(normalised, start, end))
                if alias.is_full_name:
                    persons.add(alias.last_name)

        for start, end, alias in self._respelled.find(normalised, words, no_case, addresses):
            mentions.append(alias.mention_at(normalised, start, end))

        for name, assets in _join_last_names(persons).items():
            for start in places_of(lower, name):
                end = start + len(name)
                has_case = no_case or normalised[start].isupper()
                if has_case and not touches_letter(lower, start, end):
                    mentions.append(EntityMention(start, end, assets, "person"))

        return mentions

    def last_names(self, normalised: str) -> frozenset[LastName]:
        """Return the last names of persons whose full names are in a normalised text."""
        lower = lower_text(normalised)
        no_case = is_caseless(normalised)
        addresses = _addresses(normalised, no_case)
        names = set()
        for alias in self._candidates(lower, _WORD.findall(lower)):
            if alias.is_full_name and any(_places(alias, normalised, no_case, addresses)):
                names.add(alias.last_name)

        return frozenset(names)

    def _candidates(self, lower: str, words: Iterable[str]) -> Collection[_EntityAlias]:
        """Return the names of which a word, or the first letters, occur in the text."""
        chosen: dict[int, _EntityAlias] = {}
        for word in self._by_word.keys() & set(words):
            chosen.update((id(alias), alias) for alias in self._by_word[word])

        if self._by_gram:
            pairs = list(map(add, lower, lower[1:]))
            grams = set(map(add, pairs, lower[2:]))
            # in other scripts, names are looked up by their first two characters
            if not lower.isascii():
                squashed = _PADDING.sub("", lower)
                grams.update(pairs, map(add, squashed, squashed[1:]))

            for gram in self._by_gram.keys() & grams:
                chosen.update((id(alias), alias) for alias in self._by_gram[gram])

        return chosen.values()


def _addresses(normalised: str, no_case: bool) -> list[tuple[int, int]]:
    address = _TAG if no_case else _ADDRESS
    return [match.span() for match in address.finditer(normalised)]


def _places(
    alias: _EntityAlias, normalised: str, no_case: bool, addresses: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the spans of a name where its case in the text fits."""
    for match in alias.pattern.finditer(normalised):
        start, end = match.span()
        in_address = any(first <= start < last for first, last in addresses)
        if alias.fits(normalised, start, end, no_case or in_address):
            yield start, end


def _join_last_names(persons: Iterable[LastName]) -> dict[str, frozenset[int]]:
    """Map each last name to the assets of all persons who have it."""
    joined: dict[str, frozenset[int]] = {}
    for name, assets in persons:
        joined[name] = joined.get(name, frozenset()) | assets

    return joined


def _is_in_ordinary_word(text: str, start: int, end: int) -> bool:
    """Return whether [start, end) is part of a longer English word."""
    first = start
    while first and text[first - 1].isascii() and text[first - 1].isalpha():
        first -= 1

    last = _LETTERS.match(text, end).end()  # type: ignore[union-attr]
    return last - first > end - start and is_ordinary(text[first:last].lower())


def _begins_phrase(text: str, start: int, end: int) -> bool:
    """Return whether a word begins a phrase that is not a company name (`Target price`)."""
    next_word = _NEXT_WORD.match(text, end)
    if next_word is None:
        return False
    return f"{text[start:end]}-{next_word[1]}".lower() in listed_words("phrase")


def is_caseless(text: str) -> bool:
    """Return whether a text is entirely in upper or lower case, so that case carries no
    information.
    """
    return text in (text.lower(), text.upper())


def _spellings(text: str, kind: AliasKind) -> set[str]:
    """Return the text and, if it is a name, also the text without its legal form."""
    text = text.strip()
    bare = text
    if kind in ("name", "former"):
        bare = _FORM_AFTER.sub("", text).strip()

    return {spelled for spelled in (text, bare) if len(spelled) > 1 or kind == "ticker"}
