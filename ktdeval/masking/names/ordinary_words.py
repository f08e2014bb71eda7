"""Words that are not names on their own: words from prompts, from common company names, and from
general English.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ktdeval.values.disk.files import csv_rows

_FOLDER = Path(__file__).parent
ENTITY_WORDS = csv_rows(_FOLDER / "entity_words.csv")
COMMON_WORDS = frozenset(row["word"] for row in ENTITY_WORDS if row["kind"] == "common")
NOT_NAMES = COMMON_WORDS - {"meta"}  # "meta" is a word in prompts, but a company if capitalised


@cache
def listed_words(kind: str) -> frozenset[str]:
    """Return the words of a kind in `name_words.csv`."""
    words: set[str] = set()
    for row in csv_rows(_FOLDER / "name_words.csv"):
        if row["kind"] == kind:
            words.update(row["words"].split())

    return frozenset(words)


def is_listed(word: str) -> bool:
    """Return whether a lower-case word is listed as an ordinary word, a person's name, a place or a
    line of business.
    """
    return word in _ordinary_words()


def is_ordinary(word: str) -> bool:
    """Return whether a lower-case word, with or without a plural `s`, has a meaning other than a
    company.
    """
    return word in _english() or word.removesuffix("s") in _english()


def needs_capital(word: str) -> bool:
    """Return whether a word denotes a company if capitalised, and something else in lower case."""
    return word in listed_words("small letters")


def is_chinese_word(pair: str) -> bool:
    """Return whether two characters are a common Chinese word."""
    return pair[1:] in _second_characters().get(pair[:1], ())


def is_word_boundary(text: str, start: int, end: int) -> bool:
    """Return whether Chinese characters at [start, end) are a separate word there, rather than the
    end of one word and the start of the next, such as `中芯` in `其中芯片` or `工行` in `加工行业`.
    """
    begins_inside = is_chinese_word(text[max(0, start - 1) : start + 1])
    ends_inside = is_chinese_word(text[end - 1 : end + 1])
    may_split = ends_inside or text[end - 1] in _ALONE or is_chinese_word(text[start + 1 : end])
    if begins_inside and may_split:
        return False
    if ends_inside and text[start] in _SUFFIXES:
        return False

    # 保利润 is 保 and 利润, because 润 is not a word by itself; 保利将 is 保利 and 将.
    if ends_inside and text[end] not in _ALONE and not is_chinese_word(text[end : end + 2]):
        return False

    longest = text[start : end + _LONGEST_ENDING]
    return not any(longest.startswith(word) for word in listed_words("Chinese longer"))


@cache
def _second_characters() -> dict[str, frozenset[str]]:
    """Return, for each first character, the second characters that form a word with it (from
    jieba's dictionary, whose licence is in the file).
    """
    lines = (_FOLDER / "chinese_words.txt").read_text(encoding="utf-8").splitlines()
    return {line[0]: frozenset(line[1:]) for line in lines if not line.startswith("#")}


# characters that are words by themselves after a name
_ALONE = frozenset(
    "的了在是和与及将也又已再被把为对从向以于至到就都还仅较约有无未不可能会要让使令给由因但或若如更最"
    "称说表拟获跌涨降升"
)
_SUFFIXES = frozenset("上下中里内外前后")
_LONGEST_ENDING = 4  # maximum characters of a longer word after a name


@cache
def _ordinary_words() -> frozenset[str]:
    kinds = ("ordinary", "given", "place", "generic")
    return NOT_NAMES.union(*map(listed_words, kinds))


@cache
def _english() -> frozenset[str]:
    """Return English words of four letters or more (from SCOWL, size 35, whose licence is in the
    file), and the listed words.
    """
    lines = (_FOLDER / "english_words.txt").read_text(encoding="ascii").splitlines()
    words = (line for line in lines if not line.startswith("#"))
    return _ordinary_words().union(words)
