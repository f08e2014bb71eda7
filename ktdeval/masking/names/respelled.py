"""Find names in a normalised text that are spelled differently from their known form.

For `Quillmark` and its ticker `QLMK`, the following are found:

* derived words: plurals and verbs (`Quillmarks`, `Quillmarking`, `QLMKs`); if the name is an
  ordinary word, only in capitals (`ALPHABETs`);
* a ticker with a quote currency (`qlmkUSD`), and words that begin with a ticker of five letters
  (`Googler` of `GOOGL`);
* repeated letters (`Quillmaaark`);
* with a separator: between two parts (`Quill mark`, `Q-uillmark`, `Quillmark's` of `Quillmarks`),
  or between all letters (`Q.L.M.K.`, `q-l-m-k`, `Q u i l l m a r k`), and initials (`J.P. Morgan`);
* with other characters for letters: look-alikes (`Qu1llmark`, `QLM$`), or `*` for any
  (`Quill*ark`);
* as a part of a word in mixed case (`QuillmarkBot`, `longQLMK`), and at either end of a hashtag,
  handle or address (`@quillmarknews`).

Spellings that are ordinary English words are excluded. So are words derived from a name that is an
ordinary word (`Apples`). Misspelled names (`Qilulmark`) are not found.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import add
from typing import Generic, TypeVar

from ktdeval.masking.names.ordinary_words import COMMON_WORDS, NOT_NAMES, is_ordinary, needs_capital

T = TypeVar("T")

_RARE = 4  # minimum letters of a name for recognising it in any case
_SPLIT = 5  # minimum letters of a name for finding it in two parts
_TAGGED = 5  # minimum letters of a name at an end of a tag, if the rest is a word
_SURE = 7  # minimum letters of a name at an end of a tag, whatever the rest is
_MASKED = 5  # minimum letters of a name for finding it with asterisks in place of letters
_MAX_PARTS = 4  # maximum parts of a mixed-case word that form one name
_SYMBOL = 3  # minimum letters of a ticker
_SUFFIXES = (
    "s es ed ing er ers ish esque ian ians ite ites like ness fy fied ified fication ification"
    " ize ized izing ization ise ised ising isation"
)
_QUOTES = "usd usdt usdc busd usdperp usdtperp perp eur gbp jpy krw inr btc eth"
_BEGINS = 5  # number of letters of a ticker that may begin a word
_MIN_SYMBOL_FORMS = ("s", "er", "ers")
_DRAWN_OUT = re.compile(r"([A-Za-z])\1{2,}")
_INITIALS = re.compile(r"(?<![A-Za-z])([A-Z])\. ?([A-Z])\.? ([A-Z][a-z]+)(?![a-z])")
_BETWEEN = r"[ .'_*·/|~+-]"
_SPACED_LETTERS = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z](?P<between>[ ._*·/|~-] ?)[A-Za-z]"
    r"(?:(?P=between)[A-Za-z])+(?![A-Za-z0-9])"
)
_INNER_CAPITAL = re.compile("[a-z0-9][A-Z]|[A-Z]{3}[a-z]")
_PART = re.compile("[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+|[0-9]+")
_CAPITALS = re.compile("[A-Z]{4,}(?=[a-z])")
_SIGNS = str.maketrans("0134578$@!|€+", "oleastbsaiiet")
_OTHER_SIGNS = str.maketrans("1|!", "ill")
_SIGN = "0134578$@!|€+"
# A sign between letters, with three letters after it or before it. Every match begins with a sign,
# so the search can skip all other text quickly.
_ODD = re.compile(
    rf"[{_SIGN}*](?:(?<=[A-Za-z].)[{_SIGN}*]{{0,2}}(?=[A-Za-z])"
    r"|(?<![A-Za-z0-9@#].)(?=[A-Za-z]{3})|(?<=[A-Za-z]{3}.)(?![A-Za-z0-9]))"
)
_OF_WORD = re.compile(r"[A-Za-z0-9]*")
_BACK_TO_WORD = re.compile(r"[A-Za-z0-9]*\Z")
_OF_ODD = re.compile(rf"[A-Za-z{_SIGN}*]*")
_BACK_TO_ODD = re.compile(rf"[A-Za-z{_SIGN}*]*\Z")
_LETTERS = re.compile("[A-Za-z]+")
_REACH = 40  # maximum characters examined on either side of a match


@dataclass(frozen=True, slots=True)
class KnownName(Generic[T]):
    """A name, reduced to its letters."""

    letters: str  #: in lower case
    #: whether the name is a ticker or an abbreviation, which is written in capitals
    is_symbol: bool
    is_one_word: bool
    owner: T

    @property
    def is_rare(self) -> bool:
        """Return whether the letters have no other meaning in any case."""
        return len(self.letters) >= _RARE and not is_ordinary(self.letters)


Found = tuple[int, int, KnownName[T]]  #: start, end, and the name that is meant


class RespelledIndex(Generic[T]):
    """Index of names for the spellings listed above."""

    def __init__(self, names: Iterable[KnownName[T]]) -> None:
        self._known: dict[str, list[KnownName[T]]] = defaultdict(list)
        for known in names:
            self._known[known.letters].append(known)

        #: names by their derived forms
        self._derived: dict[str, list[KnownName[T]]] = defaultdict(list)
        #: names by their derived forms, if the name must be in capitals and its ending in lower
        #: case
        self._in_capitals: dict[str, list[KnownName[T]]] = defaultdict(list)
        #: rare tickers by their first letters
        self._begins: dict[str, list[KnownName[T]]] = defaultdict(list)
        #: rare names that consist of one word
        self._rare: dict[str, list[KnownName[T]]] = {}
        for letters, alike in self._known.items():
            rare = [known for known in alike if known.is_rare]
            if rare:
                self._rare[letters] = rare

            for known in alike:
                for form in _forms(known):
                    if form not in self._known and not is_ordinary(form):
                        self._derived[form].append(known)

                for ending in _MIN_SYMBOL_FORMS if known.is_symbol else ("s",):
                    self._in_capitals[letters + ending].append(known)

                if known.is_symbol and known.is_rare and len(letters) >= _BEGINS:
                    self._begins[letters[:_BEGINS]].append(known)

    def find(
        self, text: str, words: Sequence[str], no_case: bool, tags: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[int, int, T]]:
        """Yield start, end and owner of every respelled name; spans may overlap.

        `words`: words and numbers of the text in lower case, in order. `no_case`: whether case
        carries no information. `tags`: spans of addresses, handles and hashtags.
        """
        for start, end, known in self._find(text, words, no_case, tags):
            spelled = text[start:end]
            is_word = spelled.isalpha() and spelled.islower() and needs_capital(known.letters)
            if no_case or not is_word:
                yield start, end, known.owner

    def _find(
        self, text: str, words: Sequence[str], no_case: bool, tags: Iterable[tuple[int, int]]
    ) -> Iterator[Found[T]]:
        vocabulary = set(words)
        yield from self._derived_words(text, vocabulary)
        yield from self._two_parts(text, words, no_case)
        if not no_case:
            yield from self._plurals(text, vocabulary)

        yield from self._apart(text)
        yield from self._drawn_out(text)

        for span in _around(_INNER_CAPITAL, text, _BACK_TO_WORD, _OF_WORD):
            yield from self._mixed_case(text, *span)

        for span in _around(_ODD, text, _BACK_TO_ODD, _OF_ODD):
            yield from self._with_signs(text, *span)

        for first, last in tags:
            for word in _LETTERS.finditer(text, first, last):
                yield from self._in_tag(word)

    def _derived_words(self, text: str, words: Collection[str]) -> Iterator[Found[T]]:
        for form in self._derived.keys() & words:
            for match in _whole_words(form, text):
                yield from ((*match.span(), known) for known in self._derived[form])

        for word in words:
            if word[:_BEGINS] not in self._begins or is_ordinary(word):
                continue
            for match in _whole_words(word, text):
                for known in self._begins[word[:_BEGINS]]:
                    if word.startswith(known.letters) and not match[0].islower():
                        yield (*match.span(), known)

    def _plurals(self, text: str, words: Collection[str]) -> Iterator[Found[T]]:
        for form in self._in_capitals.keys() & words:
            for match in _whole_words(form, text):
                for known in self._in_capitals[form]:
                    stem = match[0][: len(known.letters)]
                    ending = match[0][len(known.letters) :]
                    if stem.isupper() and ending.islower():
                        yield (*match.span(), known)

    def _apart(self, text: str) -> Iterator[Found[T]]:
        for match in _SPACED_LETTERS.finditer(text):
            yield from self._find_spaced(text, match)

        for match in _INITIALS.finditer(text):
            for known in self._rare.get("".join(match.groups()).lower(), ()):
                yield (*match.span(), known)

    def _drawn_out(self, text: str) -> Iterator[Found[T]]:
        for start, end in _around(_DRAWN_OUT, text, _BACK_TO_WORD, _OF_WORD):
            word = text[start:end].lower()
            for letters in {_DRAWN_OUT.sub(times, word) for times in (r"\1", r"\1\1")}:
                yield from ((start, end, known) for known in self._rare.get(letters, ()))

    def _two_parts(self, text: str, words: Sequence[str], no_case: bool) -> Iterator[Found[T]]:
        joined = self._rare.keys() & set(map(add, words, words[1:]))
        if not joined:
            return

        for head, tail in set(pairwise(words)):
            if head + tail not in joined or len(head + tail) < _RARE:
                continue

            spelled = rf"(?<![A-Za-z0-9]){head}{_BETWEEN}{tail}(?![A-Za-z0-9])"
            for match in re.finditer(spelled, text, re.IGNORECASE):
                for known in self._rare[head + tail]:
                    if known.is_one_word and _are_parts(match, head, tail, known, no_case):
                        yield (*match.span(), known)

    def _find_spaced(self, text: str, match: re.Match[str]) -> Iterator[Found[T]]:
        between = match["between"]
        letters = match[0].replace(between, "")
        end = match.end()
        if between.startswith(".") and _continues(text, end):
            end += 1

        for known in self._meant(letters.lower()):
            if known.is_symbol and not (letters.isupper() or known.is_rare):
                continue
            if len(letters) < _RARE and known.letters in COMMON_WORDS:
                continue

            yield match.start(), end, known

    def _mixed_case(self, text: str, start: int, end: int) -> Iterator[Found[T]]:
        parts = [part.span() for part in _PART.finditer(text, start, end)]
        for first, (begin, _) in enumerate(parts):
            for _, stop in parts[first : first + _MAX_PARTS]:
                for known in self._known.get(text[begin:stop].lower(), ()):
                    if _is_part(text, begin, stop, start, known):
                        yield begin, stop, known

        for run in _CAPITALS.finditer(text, start, end):
            for symbol in (run[0], run[0][:-1]):
                for known in self._rare.get(symbol.lower(), ()):
                    if known.is_symbol:
                        yield run.start(), run.start() + len(symbol), known

    def _with_signs(self, text: str, start: int, end: int) -> Iterator[Found[T]]:
        spelled = text[start:end].rstrip("!|+*")
        while spelled[:1] in ("@", "$", "!", "+", "*", "|") and not spelled[1:].isalpha():
            start += 1
            spelled = spelled[1:]

        letters = sum(map(str.isalpha, spelled))
        if letters < _SYMBOL or letters == len(spelled):
            return

        if "*" in spelled:
            yield from self._with_asterisks(spelled.lower(), start)
            return

        plain = spelled.lower()
        for meant in {plain.translate(_SIGNS), plain.translate(_OTHER_SIGNS).translate(_SIGNS)}:
            for known in self._meant(meant):
                is_spelled = spelled.upper() == spelled or not known.is_symbol
                if is_spelled and not _is_plain(known) and len(meant) >= _RARE:
                    yield start, start + len(spelled), known

    def _with_asterisks(self, spelled: str, start: int) -> Iterator[Found[T]]:
        if len(spelled) < _MASKED or spelled.count("*") * 2 > len(spelled):
            return

        pattern = re.compile(re.escape(spelled).replace(r"\*", "[a-z]"))
        for letters, alike in self._rare.items():
            if len(letters) == len(spelled) and pattern.fullmatch(letters):
                yield from ((start, start + len(spelled), known) for known in alike)

    def _in_tag(self, word: re.Match[str]) -> Iterator[Found[T]]:
        letters = word[0].lower()
        if len(letters) <= _TAGGED or letters in self._known or is_ordinary(letters):
            return

        for cut in range(_RARE, len(letters) - 1):
            for known in self._rare.get(letters[:cut], ()):
                if _is_tagged(known, letters[cut:]):
                    yield word.start(), word.start() + cut, known

            for known in self._rare.get(letters[-cut:], ()):
                if _is_tagged(known, letters[:-cut]):
                    yield word.end() - cut, word.end(), known

    def _meant(self, letters: str) -> Sequence[KnownName[T]]:
        return self._known.get(letters, []) or self._derived.get(letters, [])


def _forms(known: KnownName[T]) -> Iterator[str]:
    """Yield words derived from a name: a symbol with a quote currency, and further forms if the
    name is rare.
    """
    if known.is_symbol:
        yield from (known.letters + quote for quote in _QUOTES.split())
        if known.is_rare:
            yield f"{known.letters}s"
        return

    if not known.is_rare or not known.is_one_word:
        return

    last = known.letters[-1]
    for suffix in _SUFFIXES.split():
        yield known.letters + suffix
        if suffix[0] in "ei":
            yield known.letters + last + suffix  # paypalled
        if last == "e" and suffix[0] in "ei":
            yield known.letters[:-1] + suffix

    if last == "a":
        yield f"{known.letters}n"
        yield f"{known.letters}ns"
    if last == "s" and len(known.letters) > _SPLIT:
        yield known.letters[:-1]


def _whole_words(word: str, text: str) -> Iterator[re.Match[str]]:
    return re.finditer(rf"(?<![A-Za-z]){word}(?![A-Za-z])", text, re.IGNORECASE)


def _are_parts(
    match: re.Match[str], head: str, tail: str, known: KnownName[T], no_case: bool
) -> bool:
    """Return whether two adjacent words are the two parts of one name."""
    spelled = match[0]
    if known.is_symbol:
        return spelled.isupper() and not no_case

    if not (_is_usual(head) and _is_usual(tail)):
        return len(known.letters) >= _SPLIT or spelled[0].isupper()
    if spelled[len(head)] != " ":
        return no_case or not spelled.islower()
    if no_case or not spelled[0].isupper():
        return False

    before = match.string[max(0, match.start() - 2) : match.start()]
    return spelled[len(head) + 1].isupper() or before[:1].islower()


def _is_tagged(known: KnownName[T], rest: str) -> bool:
    """Return whether the name's letters, which are joined to the rest of a tag, denote the name."""
    if len(known.letters) >= _SURE:
        return True
    return _is_usual(rest) and (known.is_symbol or len(known.letters) >= _TAGGED)


def _is_usual(part: str) -> bool:
    """Return whether a part of a word may be a word itself: an English word or a few letters."""
    return len(part) < _RARE or is_ordinary(part)


def _is_part(text: str, start: int, end: int, word: int, known: KnownName[T]) -> bool:
    """Return whether [start, end), in a mixed-case word that begins at `word`, is the name."""
    part = text[start:end]
    if known.is_symbol:
        is_first = start == word and text[end : end + 1].isupper()
        is_last = text[word:start].islower() and not text[end : end + 1].isalnum()  # stETH
        is_end = is_first or is_last
        return part.isupper() and not _is_plain(known) and (known.is_rare or is_end)
    if known.is_rare:
        return True
    return len(part) >= _RARE and part[0].isupper() and not _is_plain(known)


def _is_plain(known: KnownName[T]) -> bool:
    """Return whether a name or ticker is a common word."""
    return known.letters in (COMMON_WORDS if known.is_symbol else NOT_NAMES)


def _continues(text: str, end: int) -> bool:
    """Return whether a dot at `end` belongs to initials, that is, whether the sentence continues
    after it.
    """
    return re.match(r"\.(?:[,;:)'’]| [a-z])", text[end : end + 3]) is not None


def _around(
    pattern: re.Pattern[str], text: str, back: re.Pattern[str], on: re.Pattern[str]
) -> Iterator[tuple[int, int]]:
    """Yield each word around the matches of a pattern once."""
    done = -1
    for match in pattern.finditer(text):
        if match.start() < done:
            continue

        before = back.search(text, max(0, match.start() - _REACH), match.start())
        after = on.match(text, match.end(), match.end() + _REACH)
        start = before.start() if before else match.start()
        done = after.end() if after else match.end()
        yield start, done
