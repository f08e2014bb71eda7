"""Numbers in a text, each with its asset and its printed precision."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix

# Commas group digits in prose, but separate numbers in `[5,100,200]` and in CSV.
_NUMBER = re.compile(
    r"(?<![0-9A-Za-z_.])(?<![0-9][:/-])[+-]?"
    r"(?:(?<![\[,:])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]{1,15})(?:\.[0-9]{1,10})?"
    r"(?:e[+-]?[0-9]{1,2})?(?![0-9A-Za-z_]|[.:/-][0-9])",
    re.IGNORECASE,
)
_PERCENT_AFTER = re.compile(r" ?(?:%|per ?cent|pct)", re.IGNORECASE)
_RETURN_KEY = re.compile(r"return|chg|change|pct|perf", re.IGNORECASE)
_NEAR = 300  # number of characters before a number that are searched for the name of its asset
_MAX_NUMBERS = 20_000  # maximum number of numbers that are read from a text
_MAX_DEPTH = 10  # maximum number of beginnings within beginnings, whatever a market's names are
_FLAT_OBJECT = re.compile(r"\{[^{}]{1,2000}\}")


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A number in a text."""

    value: float
    step: float  #: unit of the last nonzero digit; half of it is the maximum rounding error
    start: int
    end: int
    asset: int | None  #: index of the asset in the market's codes; None if the text names no asset
    is_return: bool  #: whether the number is marked as a percentage change


@dataclass(frozen=True)
class AssetNames:
    """Finds mentions of a market's assets in a text, by code or by full name."""

    pattern: re.Pattern[str] | None
    rows: Mapping[str, int]

    @classmethod
    def of(cls, codes: Sequence[str], names: Sequence[str]) -> AssetNames:
        """Return a finder for assets with these codes and names."""
        rows: dict[str, int] = {}
        for number, (code, name) in enumerate(zip(codes, names, strict=True)):
            for word in (code, code.partition(".")[0], name):
                if word:
                    rows.setdefault(word, number)

        if not rows:
            return cls(None, rows)

        return cls(re.compile(rf"(?<![0-9A-Za-z]){_any_of(rows)}(?![0-9A-Za-z])"), rows)

    def places(self, text: str) -> list[tuple[int, int, int]]:
        """Return the start, the end and the asset's row for each mention, ordered by offset."""
        if self.pattern is None:
            return []
        return [(*match.span(), self.rows[match[0]]) for match in self.pattern.finditer(text)]


def _any_of(words: Iterable[str], depth: int = 0) -> str:
    """Return a pattern that matches any of the words, the longest first. Words with the same
    beginning share it: a list of all words would be tried word by word at each place of a text.
    """
    ordered = sorted(words, key=len, reverse=True)
    if depth == _MAX_DEPTH or len(ordered) == 1:
        return f"(?:{'|'.join(map(re.escape, ordered))})"

    by_first: dict[str, list[str]] = defaultdict(list)
    for word in ordered:
        by_first[word[:1]].append(word)

    branches = []
    for alike in by_first.values():  # the empty word is the last
        begin = commonprefix(alike)  # noqa: RUF071 - letter by letter is meant
        rests = _any_of((word[len(begin) :] for word in alike), depth + 1)
        branches.append(re.escape(begin) + rests)

    return f"(?:{'|'.join(branches)})"


def numbers_in(text: str, assets: AssetNames) -> Iterator[PrintedNumber]:
    """Yield the numbers in a text. In a flat JSON object, a number's asset is the one mentioned in
    the object. Elsewhere, it is the nearest asset mentioned before the number.
    """
    mentions = assets.places(text)
    own = _json_assets(text, mentions)
    inside = [(start, end) for start, end, _ in mentions]
    position = 0
    for count, match in enumerate(_NUMBER.finditer(text)):
        if count >= _MAX_NUMBERS:
            return

        start, end = match.span()
        while position < len(mentions) and mentions[position][1] <= start:
            position += 1

        if any(first <= start < stop for first, stop in inside[position : position + 1]):
            continue  # these are digits of a code

        asset = own.get(start)
        if asset is None and position and start - mentions[position - 1][1] <= _NEAR:
            asset = mentions[position - 1][2]

        value, step = _reading(match[0])
        yield PrintedNumber(value, step, start, end, asset, _is_return(text, start, end))


def _reading(spelled: str) -> tuple[float, float]:
    """Return the value of a number, and the unit of its last significant digit. Trailing zeros are
    not treated as significant, because round numbers are common.
    """
    plain = spelled.replace(",", "").lower()
    digits, _, power = plain.partition("e")
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    if fraction:
        exponent = -len(fraction)
    else:
        exponent = len(whole) - len(whole.rstrip("0")) if whole.strip("+-0") else 0
    exponent += int(power or 0)
    return float(plain), 10.0**exponent


def _is_return(text: str, start: int, end: int) -> bool:
    if _PERCENT_AFTER.match(text, end):
        return True

    before = text[max(0, start - 40) : start]
    key = before.rpartition('"')[0].rpartition('"')[2]
    return before.rstrip().endswith(":") and bool(_RETURN_KEY.search(key))


# ---- the code inside a JSON object


def _json_assets(text: str, mentions: Sequence[tuple[int, int, int]]) -> dict[int, int]:
    """Return asset rows by the offset of the number, for numbers in JSON objects that name exactly
    one asset, even if it is named after the number.

    Only flat objects are read, such as `{"close": 21.64, "code": "ACME"}`. In table rows, as in
    prose, the code comes first.
    """
    own: dict[int, int] = {}
    for match in _FLAT_OBJECT.finditer(text):
        inner = [row for start, _, row in mentions if match.start() < start < match.end()]
        if len(set(inner)) != 1:
            continue

        for number in _NUMBER.finditer(text, match.start(), match.end()):
            own[number.start()] = inner[0]
    return own
