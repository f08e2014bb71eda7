"""Find six-digit security codes that are not written as digits, in a normalised text. A model could
use such spellings to pass a code to itself.

Found are Chinese numerals, including financial ones (`陆零零伍壹玖`), English and Pinyin digit words
(`six zero zero five one nine`, `double zero`), and letters that look like digits (`6OO519`).
Encodings of a whole text (base64, hexadecimal, reversed digits, Roman numerals, ciphers) are not
found (`docs/masks.md`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktdeval.masking.text_normalisation import TextViews

_DIGITS = 6
_CHARACTERS = {
    **dict(zip("〇零一二三四五六七八九", "00123456789", strict=True)),
    **dict(zip("壹贰叁肆伍陆柒捌玖", "123456789", strict=True)),
    **dict(zip("弌弍弎两幺洞拐勾", "12321079", strict=True)),
}
_LOOKALIKES = str.maketrans("OoQDIl|iZSGB", "000011112568")
_LOOKALIKE_CODE = re.compile(
    r"(?<![0-9A-Za-z])(?=[A-Za-z|]*[0-9][A-Za-z|]*[0-9])[0-9OoQDIl|iZSGB]{6}(?![0-9A-Za-z])"
)
_WORDS = {
    "zero": "0",
    "one": "1",
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ling": "0",
    "yi": "1",
    "er": "2",
    "san": "3",
    "si": "4",
    "wu": "5",
    "liu": "6",
    "qi": "7",
    "ba": "8",
    "jiu": "9",
    "oh": "0",
    "nought": "0",
    "null": "0",
    "yao": "1",
    "niner": "9",
}
_REPEATED = {"double": 2, "triple": 3}
_ANY_WORD = "|".join(_WORDS)
_SPELLED = rf"(?:{'|'.join(_REPEATED)})[ -](?:{_ANY_WORD}|[0-9])|{_ANY_WORD}"
_TOKEN = re.compile(
    rf"(?P<word>(?<![A-Za-z])(?i:{_SPELLED})(?![A-Za-z]))|[0-9{re.escape(''.join(_CHARACTERS))}]"
)
_BETWEEN = re.compile(r"[ \t,._·-]{0,2}")
_LETTER = re.compile("[A-Za-z0-9]")


_SPELLED_WORDS = frozenset(word.encode() for word in (*_WORDS, *_REPEATED))


def find_spelled_codes(text: str, shape: TextViews | None = None) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and digits of every run of exactly six digits, at least one of which is not
    written as a digit. `shape`: the text's shape, if known.
    """
    for match in _LOOKALIKE_CODE.finditer(text):
        if not match[0].isdecimal():
            yield (*match.span(), match[0].translate(_LOOKALIKES))

    shape = shape or TextViews(text)
    if text.isascii() and _SPELLED_WORDS.isdisjoint(shape.words):
        return

    run: list[tuple[int, int, str]] = []
    between = None
    for match in _TOKEN.finditer(text):
        gap = text[run[-1][1] : match.start()] if run else ""
        if run and (_BETWEEN.fullmatch(gap) is None or between not in (None, gap)):
            yield from _code(text, run)
            run = []
            between = None
        elif run:
            between = gap

        run.append((*match.span(), _digits(match)))

    yield from _code(text, run)


def _digits(match: re.Match[str]) -> str:
    text = match[0]
    if match["word"] is None:
        return _CHARACTERS.get(text, text)

    *repeated, digit = re.split("[ -]", text.lower())
    times = _REPEATED[repeated[0]] if repeated else 1
    return _WORDS.get(digit, digit) * times


def _code(text: str, run: list[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    digits = "".join(digit for _, _, digit in run)
    if len(digits) != _DIGITS:
        return

    start = run[0][0]
    end = run[-1][1]
    is_part = bool(_LETTER.match(text, end)) or bool(start and _LETTER.match(text, start - 1))

    if not is_part and any(
        character.isalpha() or character == "〇" for character in text[start:end]
    ):
        yield start, end, digits
