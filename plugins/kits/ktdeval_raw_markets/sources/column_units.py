"""Interpretation of a source's columns: units by code, board and period, and the role of the
factor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ktdeval.errors import UsageError
from ktdeval.market import Board, DayArray, FloatArray, board_of, parse_code, parse_symbol
from ktdeval.values import near_matches

VALUE = 0.0  #: scale for a volume column of traded values: shares are derived from the day's prices
VOLUME_UNITS: Mapping[str, float] = {"share": 1.0, "lot": 100.0, "value": VALUE}
AMOUNT_UNITS: Mapping[str, float] = {"CNY": 1.0, "thousand_CNY": 1e3, "ten_thousand_CNY": 1e4}
_DAY = r"(?:\d{4}-\d\d-\d\d)?"
_SCOPE = re.compile(rf"(?P<name>[^@]*?)(?:@?(?P<first>{_DAY})\.\.(?P<last>{_DAY}))?")
_HELP = (
    "write a unit, optionally followed by CODE=UNIT, BOARD=UNIT, FIRST..LAST=UNIT or"
    " CODE@FIRST..LAST=UNIT"
)


@dataclass(frozen=True)
class UnitScope:
    """The bars to which a unit applies: a date range of one code, one board or all codes."""

    name: str = ""  #: a code, a board (main, chinext, star, bse), or empty for all
    first: str = ""  #: ISO date; empty: from the start
    last: str = ""  #: ISO date; empty: to the end

    def __str__(self) -> str:
        if not self.first and not self.last:
            return self.name

        days = f"{self.first}..{self.last}"
        return f"{self.name}@{days}" if self.name else days

    def has(self, code: str) -> bool:
        """Return whether a code belongs to the scope."""
        if not self.name:
            return True

        if self.name in set(Board):
            return parse_code(code) == code and board_of(code) == self.name
        return code in (self.name, parse_code(self.name), parse_symbol(self.name))


@dataclass(frozen=True)
class Unit:
    """Unit of a column: a default scale, and scales for scopes that differ from it."""

    scale: float = 1.0
    #: if several apply to a bar, the last one wins
    scopes: tuple[tuple[UnitScope, float], ...] = ()

    @classmethod
    def parse(cls, text: str, units: Mapping[str, float], where: str) -> Unit:
        """Parse a unit such as `lot,688981.SH=share`. `units`: scales by unit name. Raises
        UsageError if the text does not have this form.
        """
        scale = 1.0
        scopes = []
        for part in filter(None, map(str.strip, text.split(","))):
            scope, equals, word = part.rpartition("=")
            value = _scale(word, units, where)

            if equals:
                scopes.append((_scope(scope, where), value))
            else:
                scale = value

        return cls(scale, tuple(scopes))

    def check(self, codes: Sequence[str], where: str) -> None:
        """Raise UsageError if a scope is neither a board nor one of the codes."""
        for scope, _ in self.scopes:
            if scope.name in set(Board) or any(scope.has(code) for code in codes):
                continue

            boards = [board.value for board in Board]
            near = near_matches(scope.name, (*codes, *boards)) or f"; boards: {', '.join(boards)}"
            raise UsageError(
                f"{where}: {scope.name!r} is neither a code of the bars nor a board{near}"
            )

    def scales(self, codes: Sequence[str], column: np.ndarray, days: DayArray) -> FloatArray:
        """Return the scale of each bar. Shape: [rows]. `codes`: distinct codes; `column`, `days`:
        code index and day of each bar.
        """
        scales = np.full(len(column), self.scale)
        for scope, scale in self.scopes:
            own = np.array([scope.has(code) for code in codes], dtype=np.bool_)[column]

            if scope.first:
                own &= days >= np.datetime64(scope.first)

            if scope.last:
                own &= days <= np.datetime64(scope.last)

            scales[own] = scale

        return scales


def _scale(word: str, units: Mapping[str, float], where: str) -> float:
    if word in units:
        return units[word]

    try:
        scale = float(word)
    except ValueError:
        scale = np.nan

    if not (0 < scale < np.inf):
        known = near_matches(word, units) or f"; units: {', '.join(units)}, or a number above 0"
        raise UsageError(f"{where}: {word!r} is not a unit{known}; {_HELP}")

    return scale


def _scope(text: str, where: str) -> UnitScope:
    match = _SCOPE.fullmatch(text.strip())
    name = (match["name"] if match else "").strip()
    first = (match and match["first"]) or ""
    last = (match and match["last"]) or ""

    if not (name or first or last):
        raise UsageError(f"{where}: {text!r} lacks a code, board or days; {_HELP}")

    for day in filter(None, (first, last)):
        _check_day(day, where)

    return UnitScope(name, first, last)


def _check_day(text: str, where: str) -> None:
    try:
        np.datetime64(text)
    except ValueError as error:
        raise UsageError(f"{where}: {text!r} is not a day; write 2024-01-02") from error


@dataclass(frozen=True)
class Conventions:
    """Conventions by which the columns of the bars were interpreted."""

    prices: Literal["unadjusted", "adjusted"] = "unadjusted"  #: adjusted: divided by the factor
    volume: Literal["raw", "divided"] = "raw"  #: divided: multiplied by the factor
    volume_unit: Unit = Unit()
    amount_unit: Unit = Unit()
    stored_in_fen: bool = False  #: closes were in whole fen before division by the factor
    has_options: bool = False  #: whether options let the user specify units


AS_THEY_ARE = Conventions()
