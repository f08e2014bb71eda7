"""Answer form and answer parsing. Codes may follow any vendor's style; dates, industries and boards
may be spelled in many ways.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from ktdeval.harness import ToolSpec
from ktdeval.market import Board, DayArray, parse_code
from ktdeval.values import JsonValue, convert_value, load_yaml


class _Tickers(Struct):
    """Part of the answer form that limits the number of codes in an answer."""

    most: int = field(name="maxItems")


class _Fields(Struct):
    tickers: _Tickers


class _Form(Struct):
    properties: _Fields


ANSWER_FORM = ToolSpec(**load_yaml(Path(__file__).with_name("answer_form.yaml")))
MAX_TICKERS = convert_value(ANSWER_FORM.parameters, _Form).properties.tickers.most

_BOARD_WORDS = {
    Board.MAIN: re.compile(r"\bmain|主板"),
    Board.CHINEXT: re.compile(r"\bchinext\b|\bgem\b|growth enterprise|创业板"),
    Board.STAR: re.compile(r"\bstar\b|sci-?tech innovation|science and technology innovation|科创"),
    Board.BSE: re.compile(r"\bbse\b|\bbeijing\b|北交|北证|北京证券"),
}
_CODES = re.compile(r"[a-z0-9]+(?:\.[a-z0-9]+)*", re.IGNORECASE)
# labels of masks, with what stands around them
_LABEL = re.compile(r"(?:asset|stock|sector|index|day)_[+-]?[0-9]+", re.ASCII | re.IGNORECASE)
_ALTERNATIVES = re.compile(r"[,;/|()\[\]（），、；]")
_SECTOR_FILLERS = frozenset(
    {
        "sector",
        "industry",
        "industrie",
        "stock",
        "a",
        "share",
        "china",
        "chinese",
        "and",
        "the",
        "of",
    }
)
_CHINESE_ENDING = re.compile(r"(?:板块|概念|股|(?<!银)行业|业)\Z")
_WORD = re.compile(r"[a-z0-9]+|[^\x00-\x7f]+")


def tickers_of(answer: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Return the normalised codes in an answer, best first, without repeats and without strings
    that contain no code.

    A code may be part of a longer string (`600519 Kweichow Moutai`), because the score measures
    recovery, not spelling.
    """
    tickers = convert_value(answer["tickers"], list[str])
    codes = [_code_in(text) for text in tickers[:MAX_TICKERS]]
    return tuple(dict.fromkeys(code for code in codes if code is not None))


def is_stock_in_labels(answer: Mapping[str, JsonValue]) -> bool:
    """Return whether an answer names the stock by labels of the mask alone. It repeats what it was
    shown: that is not an attempt to recover the stock, so neither a hit nor a miss.
    """
    texts = [text for text in convert_value(answer["tickers"], list[str]) if text.strip()]
    return bool(texts) and all(map(_is_label, texts))


def is_sector_in_labels(answer: Mapping[str, JsonValue]) -> bool:
    """Return whether an answer names the industry by a label of the mask alone."""
    return _is_label(_answer_text(answer, "sector"))


def _is_label(text: str) -> bool:
    """Return whether a text has a label of a mask, and no other word or number."""
    rest, labels = _LABEL.subn("", unicodedata.normalize("NFKC", text))
    return labels > 0 and not any(character.isalnum() for character in rest)


def _answer_text(answer: Mapping[str, JsonValue], name: str) -> str:
    """Return a field of an answer, or an empty string if the field is null."""
    value = answer[name]
    return value if isinstance(value, str) else ""


def _code_in(text: str) -> str | None:
    plain = unicodedata.normalize("NFKC", text).strip()
    for piece in (plain, *_CODES.findall(plain)):
        code = parse_code(piece)
        if code is not None:
            return code
    return None


def days_off(answer: Mapping[str, JsonValue], days: DayArray, row: int) -> int | None:
    """Return the number of trading days between the date in an answer and the day of `row`; 0 if
    they are the same day.

    If the exchange was closed on the date in the answer, the neighbouring trading day nearer to the
    day of `row` is used instead. `days`: [T] the snapshot's trading days. Returns None if the date
    is missing, invalid (30 February) or outside the snapshot.
    """
    try:
        day = np.datetime64(date.fromisoformat(_answer_text(answer, "date").strip()), "D")
    except ValueError:
        return None

    if not days[0] <= day <= days[-1]:
        return None
    if day <= days[row]:
        return row - int(np.searchsorted(days, day, side="left"))

    return int(np.searchsorted(days, day, side="right")) - 1 - row


def board_of_answer(answer: Mapping[str, JsonValue]) -> Board | None:
    """Return the board that an answer names, in English or Chinese; None if it names no board or
    several.
    """
    text = unicodedata.normalize("NFKC", _answer_text(answer, "board")).casefold()
    named = [board for board, words in _BOARD_WORDS.items() if words.search(text)]
    return named[0] if len(named) == 1 else None


def names_sector(answer: Mapping[str, JsonValue], industry: str) -> bool:
    """Return whether an answer's sector matches an industry, either by its name in the data or by a
    known English or Chinese name.

    If an answer gives several sectors, only the first is used.
    """
    named = unicodedata.normalize("NFKC", _answer_text(answer, "sector"))
    pieces = [piece for piece in _ALTERNATIVES.split(named) if piece.strip()]
    return bool(pieces) and _sector_key(pieces[0]) in sector_keys(industry)


@cache
def sector_keys(industry: str) -> frozenset[str]:
    """Return all names of an industry, normalised for comparison. Two industries may share a name
    (`pharmaceuticals`).
    """
    names = (industry, *_industry_names().get(industry, ()))
    return frozenset(_sector_key(name) for name in names) - {""}


@cache
def _industry_names() -> Mapping[str, tuple[str, ...]]:
    """Return the other names of each industry, keyed by the industry name that A-share data vendors
    use. The list ships with the package.
    """
    return {
        name: tuple(others)
        for name, others in load_yaml(Path(__file__).with_name("industries.yaml")).items()
    }


@cache
def _sector_key(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold().replace("&", " and ")
    words = set()
    for word in _WORD.findall(folded):
        if not word.isascii():
            words.add(_CHINESE_ENDING.sub("", word))
        elif len(word) > 3 and word.endswith("s"):
            words.add(word[:-1])  # a plural
        else:
            words.add(word)
    return " ".join(sorted(words - _SECTOR_FILLERS))
