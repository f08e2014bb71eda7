"""Quantities mentioned in reasons, and the state fields that hold them.

`quantities.csv` has a row for each, with its unit, its fields, and its words in English and
Chinese. In the words, `{n}` is a window (`20-day`, `20日`), and `{d}` its number of days, which
replaces `{d}` or `{n}` in a field. The name of a shown field is also a word for it (`RV_60`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from ktdeval.values import csv_rows
from ktdeval_rationale.claims.text_figures import windows

TABLE = Path(__file__).with_name("quantities.csv")

#: `change`: per cent, with a sign; `loss`: a distance below, printed with either sign; `fall`: a
#: change below 0, printed without its sign; `share`: a fraction of 1; `price`, `money`, `count`, `ratio`: as shown
Unit = Literal["price", "money", "count", "ratio", "percent", "share", "change", "loss", "fall"]
ACCOUNT = frozenset(
    {
        "cash",
        "cash_weight",
        "nav",
        "positions_held",
        "portfolio_return",
        "benchmark_return",
        "excess_return",
        "max_weight",
        "max_positions",
    }
)
"""Quantities of the account and its rules, which need no asset."""

_CJK = re.compile(r"[\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity as a reason mentions it."""

    name: str
    unit: Unit
    fields: tuple[str, ...]  #: names of the state's fields, in lower case
    days: int | None = None  #: number of days in the quantity's window

    @property
    def is_of_account(self) -> bool:
        """Return whether the quantity belongs to the account, not to an asset."""
        return self.name in ACCOUNT


@dataclass(frozen=True, slots=True)
class QuantityMention:
    """A quantity and its position in a normalised text."""

    quantity: Quantity
    span: tuple[int, int]
    text: str


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    unit: Unit
    fields: tuple[str, ...]
    pattern: re.Pattern[str]


def quantity_mentions(text: str, shown_fields: Collection[str] = ()) -> list[QuantityMention]:
    """Return the quantities in a normalised text, in order. At each position, the longest reading
    is chosen.
    """
    found = [*_named_fields(text, shown_fields), *_find_worded(text)]
    found.sort(key=lambda mention: (-_length(mention), mention.span))
    kept: list[QuantityMention] = []
    for mention in found:
        start, end = mention.span
        if all(end <= other.span[0] or start >= other.span[1] for other in kept):
            kept.append(mention)

    return sorted(kept, key=lambda mention: mention.span)


def return_over(days: int) -> Quantity:
    """Return the quantity for a price change over some trading days."""
    row = next(row for row in _rows() if row.name == "return")
    fields = _fill_fields(row.fields, days)
    if days == 1:
        fields = (*fields, "return_pct")
    return Quantity("return", "change", fields, days)


def drawdown_over(days: int | None) -> Quantity:
    """Return the quantity for a price's distance below its high."""
    if days is None:
        return _name_quantity("any_drawdown", None)
    return _name_quantity("drawdown", days)


def quantity_named(name: str) -> Quantity:
    """Return a quantity from the table."""
    return _name_quantity(name, None)


def _name_quantity(name: str, days: int | None) -> Quantity:
    row = next(row for row in _rows() if row.name == name)
    return Quantity(row.name, row.unit, _fill_fields(row.fields, days), days)


def _length(mention: QuantityMention) -> int:
    return mention.span[1] - mention.span[0]


def _find_worded(text: str) -> Iterator[QuantityMention]:
    """Yield mentions that use the table's words."""
    lengths = dict(windows(text))
    for row in _rows():
        for match in row.pattern.finditer(text):
            days = _days_of(match, lengths)
            quantity = Quantity(row.name, row.unit, _fill_fields(row.fields, days), days)
            yield QuantityMention(quantity, match.span(), match[0])


def _days_of(match: re.Match[str], lengths: dict[tuple[int, int], int]) -> int | None:
    name = next((name for name, text in match.groupdict().items() if text), None)
    if name is None:
        return None
    if match[name].isdecimal():  # `MA20`
        return int(match[name])

    start, end = match.span(name)
    for (first, last), days in lengths.items():
        if start <= first and last <= end:
            return days
    return None


def _named_fields(text: str, shown_fields: Collection[str]) -> Iterator[QuantityMention]:
    """Yield mentions of fields by the fields' own names, such as `MOM_12_1`, `return_20d_pct` or
    `RV_60`.
    """
    for match in re.finditer(
        r"(?<![A-Za-z0-9_])[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+(?![A-Za-z0-9_])", text
    ):
        name = match[0].lower()
        if name in shown_fields:
            yield QuantityMention(Quantity(name, _unit_of(name), (name,)), match.span(), match[0])
    for name in ("SKEW", "ILLIQ", "CORR_PV"):
        if name.lower() in shown_fields:
            for match in re.finditer(rf"(?<![A-Za-z0-9_]){name}(?![A-Za-z0-9_])", text):
                quantity = Quantity(name.lower(), "ratio", (name.lower(),))
                yield QuantityMention(quantity, match.span(), match[0])


def _unit_of(field: str) -> Unit:
    for row in _rows():
        for name in row.fields:
            pattern = re.escape(name).replace(r"\{d\}", r"\d+").replace(r"\{n\}", r"\d+")
            if re.fullmatch(pattern, field):
                return row.unit

    if field.endswith("_pct"):
        return "change"
    return "ratio"


def _fill_fields(fields: Iterable[str], days: int | None) -> tuple[str, ...]:
    """Return fields with the window's days filled in. Without a window, return only the fields that
    need no days.
    """
    if days is None:
        return tuple(name for name in fields if "{" not in name)
    return tuple(name.format(d=days, n=days) for name in fields)


@cache
def _rows() -> tuple[_Row, ...]:
    return tuple(
        _Row(row["name"], _checked_unit(row["unit"]), tuple(row["fields"].split("|")), _any(row))
        for row in csv_rows(TABLE)
    )


def _checked_unit(text: str) -> Unit:
    if text not in get_args(Unit):
        raise ValueError(f"{TABLE}: no unit {text!r}")
    return text  # type: ignore[return-value]


#: A number of days has few digits and starts at its first digit. Otherwise, a long row of digits
#: would be tried from each digit.
_NUMBER = r"(?<!\d)\d{1,6}"
_WINDOW_WORDS = (
    rf"(?:{_NUMBER}[\s-]?(?:trading[\s-])?(?:days?|sessions?|weeks?|months?|d)"
    r"|(?:one|two|three|four|five|ten|twenty|sixty)[\s-](?:trading[\s-])?(?:days?|sessions?)"
    rf"|(?:过去|近|最近)?{_NUMBER}\s?个?(?:交易日|日|天|周|个月))"
)


def _any(row: dict[str, str]) -> re.Pattern[str]:
    """Return a pattern for all words in a row, longest first."""
    words = sorted(row["words"].split("|"), key=len, reverse=True)
    parts = [_pattern(word, number) for number, word in enumerate(words)]
    return re.compile("|".join(parts), re.IGNORECASE)


def _pattern(word: str, number: int) -> str:
    pattern = re.escape(word).replace(r"\ ", r"[\s-]")
    pattern = pattern.replace(r"\{n\}", f"(?P<n{number}>{_WINDOW_WORDS})")
    pattern = re.sub(r"\\\{(20)\\\}", r"20[\\s-]?days?", pattern)
    pattern = pattern.replace(r"\{d\}", f"(?P<n{number}>\\d{{1,3}})")
    if _CJK.search(word):
        return pattern

    return rf"(?<![A-Za-z0-9_/]){pattern}(?![A-Za-z0-9_/])"
