"""Words that denote an asset only in documents filed under it.

In most texts, a code of one or two letters (`KO`, `V`) is an English word, an abbreviation or part
of a name. In a document filed under the asset, such letters are the code wherever they are in
capitals: `sees KO at twice its price`. In such a document, the following are also found:

* the code without its exchange, quote currency or share class: `0700`, `BTC`, `BRK`;
* in a text without capitals, a code of two or more letters that is not a word;
* the first word of the official name, if capitalised (`Delta` of `Delta Air Lines`);
* short Chinese names that are ordinary words (`平安`), and the first and third character (`东财`).

An article at the beginning of a sentence is not found (`A strong quarter`, filed under `A`), and
neither is a letter that is part of another word (`C-suite`, `Class A`, `P/E`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from ktdeval.masking.dates.date_detection import Span, is_amount
from ktdeval.masking.names.ordinary_words import (
    COMMON_WORDS,
    is_ordinary,
    is_word_boundary,
    listed_words,
)
from ktdeval.masking.names.short_names import first_word, subject_cores
from ktdeval.masking.text_normalisation import lower_text, normalise, places_of

_PARTS = re.compile(r"[A-Z]+|[0-9]+")
_BASE = re.compile(r"([0-9A-Z]+)[.:/_ -]")
_COIN = re.compile(r"([0-9A-Z]{2,10}?)(?:USD[TC]?|BUSD|EUR|GBP|JPY|KRW|BTC|ETH)")
_MIN_DIGITS = 4  # minimum digits of a numeric code, such as `7203`
_NUMBER = r"(?<![0-9A-Za-z.,$€£¥%+-]){}(?![0-9A-Za-z%-]|[.,][0-9])"
_WORD = r"(?<![A-Za-z]){}(?:[-/_.:]?(?:USD[TC]?|EUR|GBP|PERP)|s)?(?![A-Za-z])"
# a single letter that is not part of `U.S.`, `R&D`, `P/E`, `T+1`, `C-suite` or `V8`
_LETTER = (
    r"(?<![A-Za-z0-9&$])(?<![A-Za-z]\.)(?<![A-Za-z0-9]-)(?<![A-Za-z]/){}"
    r"(?![A-Za-z0-9&+%])(?!/[A-Za-z](?![A-Za-z]))(?!\.[A-Z]\.)"
    r"(?!-(?!(?:led|backed|owned|linked|run|issued|listed|related|branded)(?![a-z]))[A-Za-z0-9])"
)
_LABEL_BEFORE = re.compile(
    r"(?<![A-Za-z])(?:class|series|vitamin|plan|grade|type|tier|phase|title|part|item|section|note|"
    r"schedule|appendix|exhibit|annex|hepatitis|factor|group|route|model|point) \Z",
    re.IGNORECASE,
)
_ARTICLE = "A"
_SENTENCE_START = re.compile(r"(?:\A|[.!?:;\n\"'“(\[•*-])[\s\"'“(]*\Z")
_AFTER_CODE = re.compile(
    r"(?:'s|[ ]?[,;:).%]|\Z| (?:is|was|are|were|has|had|to|at|by|and|or|vs|will|would|can|could|"
    r"should|may|might|did|does|fell|rose|jumped|gained|lost|hit|cut|[a-z]+(?:ses|[^su]s))(?![a-z]))",
    re.IGNORECASE,
)
_PLACE_BEFORE = re.compile(
    r"(?<![A-Za-z])(?:(?i:in|from|near|at|of|to|across|outside|the)|[A-Z][a-z]+,) \Z"
)
_CAPITAL_BEFORE = re.compile(r"([A-Z][A-Za-z'-]*) \Z")
_CAPITAL_AFTER = re.compile(r" [A-Z][a-z]")
_NO_NAMES = frozenset(("the", "a", "an", "and", "but", "or", "in", "on", "at", "as", "for", "why"))
_REACH = 24  # number of characters examined before a word


class SubjectNames:
    """Words that denote one asset. `codes`: the asset's codes and tickers; `names`: its official
    names.
    """

    def __init__(self, codes: Iterable[str], names: Iterable[str] = ()) -> None:
        forms = dict.fromkeys(form for code in codes for form in code_forms(code))
        self._codes = [(form, _code_pattern(form)) for form in forms]

        in_small_letters = [form.lower() for form in forms if form.isalpha() and len(form) > 1]
        self._small = [_small_pattern(word) for word in in_small_letters if not _is_word(word)]

        listed = tuple(names)
        first_words = dict.fromkeys(filter(None, map(first_word, listed)))
        self._first_words = [(word, _first_word_pattern(word)) for word in first_words]
        self._cores = tuple(dict.fromkeys(core for name in listed for core in subject_cores(name)))

    def find(self, text: str, no_case: bool) -> Iterator[Span]:
        """Yield the spans of these words in a normalised text; spans may overlap. `no_case`:
        whether case carries no information.
        """
        for form, pattern in self._codes:
            for match in pattern.finditer(text):
                if _is_code(match, form, no_case):
                    yield match.span()

        if not no_case:
            yield from self._names_in(text)
        elif text.islower():
            for pattern in self._small:
                yield from (match.span() for match in pattern.finditer(text))

        if not text.isascii():
            yield from self._chinese_in(lower_text(text))

    def _names_in(self, text: str) -> Iterator[Span]:
        for word, pattern in self._first_words:
            for match in pattern.finditer(text):
                if _is_company(match, word):
                    yield match.span()

    def _chinese_in(self, lower: str) -> Iterator[Span]:
        for core in self._cores:
            for start in places_of(lower, core):
                if is_word_boundary(lower, start, start + len(core)):
                    yield start, start + len(core)


@lru_cache(maxsize=256)
def subject_of_code(code: str) -> SubjectNames:
    """Return the words for an asset of which only the code is known."""
    return SubjectNames((code,))


def code_forms(code: str) -> Iterator[str]:
    """Yield the forms of a code in a text: the whole code, and the code without exchange, class or
    quote currency.
    """
    plain = normalise(code).strip().upper()
    base = _BASE.match(plain) or _COIN.fullmatch(plain)
    forms = [plain, base[1]] if base is not None else [plain]
    for form in forms:
        if form.isascii() and (not form.isdigit() or len(form) >= _MIN_DIGITS):
            yield form


def _code_pattern(form: str) -> re.Pattern[str]:
    if form.isdigit():
        return re.compile(_NUMBER.format(form))

    parts = _PARTS.findall(form)
    if len(form) == 1:
        return re.compile(_LETTER.format(form))
    return re.compile(_WORD.format(r"[ ._'/-]{0,2}".join(parts)))


def _small_pattern(word: str) -> re.Pattern[str]:
    return re.compile(_WORD.format(word))


def _first_word_pattern(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z-])(?:{word}|{word.upper()}s?)(?![A-Za-z-])")


def _is_code(match: re.Match[str], form: str, no_case: bool) -> bool:
    """Return whether a match is the code, rather than a number, a letter in a label or an
    article.
    """
    text = match.string
    start, end = match.span()
    if form.isdigit():
        return not is_amount(text, start, end)
    if len(form) == 1 and _LABEL_BEFORE.search(text, max(0, start - _REACH), start):
        return False
    if form != _ARTICLE:
        return True

    may_be_article = no_case or _SENTENCE_START.search(text, max(0, start - _REACH), start)
    return not may_be_article or _AFTER_CODE.match(text, end) is not None


def _is_word(letters: str) -> bool:
    """Return whether letters are a word or an abbreviation of something else."""
    return letters in COMMON_WORDS or letters in listed_words("short word") or is_ordinary(letters)


def _is_company(match: re.Match[str], word: str) -> bool:
    """Return whether the first word of a name denotes the company here, rather than being part of
    another name (`Mississippi Delta`) or a place (`in Texas`).
    """
    text = match.string
    start, end = match.span()
    back = max(0, start - _REACH)
    before = _CAPITAL_BEFORE.search(text, back, start)
    if before is not None and before[1].lower() not in _NO_NAMES:
        return False
    if word.lower() in listed_words("place"):
        return text.startswith("'s", end) or not _PLACE_BEFORE.search(text, back, start)
    return _CAPITAL_AFTER.match(text, end) is None or text[start:end].isupper()
