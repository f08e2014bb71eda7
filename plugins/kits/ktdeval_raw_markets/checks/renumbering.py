"""Assets that continue under another code: one code ends where another begins, at a price that
continues the old code's prices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ktdeval.market import FloatArray
from ktdeval_raw_markets.sources.raw_tables import BarTable, IntArray, RawMarket

_LONGEST_GAP = 10  # maximum trading days between an asset's two codes in Beijing
_LIMIT_OF_BEIJING = 0.3  # daily price limit in Beijing
_NEAR = 0.1  # if the closes differ by more, the new code is another asset
# prefix of Beijing codes since October 2025; their last three digits are unchanged
_NEW_IN_BEIJING = "92"


@dataclass(frozen=True)
class Renumbering:
    """Two codes that look like the same asset."""

    former: str
    last: str  #: ISO day of the old code's last bar
    code: str
    first: str  #: ISO day of the new code's first bar

    def __str__(self) -> str:
        return f"{self.former} ends {self.last}, {self.code} begins {self.first}"


@dataclass(frozen=True)
class _CodeLives:
    """First and last days of the codes in a table, with the closes on these days."""

    first: IntArray  #: [codes] row of the first day with trades
    last: IntArray
    first_close: FloatArray
    last_close: FloatArray


def renumberings(raw: RawMarket) -> list[Renumbering]:
    """Return pairs of codes that look like one asset but appear as two in the tables, sorted by
    code.
    """
    table = raw.table
    lives = _lives(table)
    pairs = [*_successor_pairs(raw, lives)]
    formers = Counter(old for old, _ in pairs)
    presents = Counter(new for _, new in pairs)
    clear = [(old, new) for old, new in pairs if formers[old] == 1 and presents[new] == 1]

    def day(row: int) -> str:
        return str(table.days[row])

    found = []
    for old, new in clear:
        last = day(lives.last[old])
        first = day(lives.first[new])
        found.append(Renumbering(table.codes[old], last, table.codes[new], first))

    return found


def _lives(table: BarTable) -> _CodeLives:
    """Return where each code begins and ends, by days with trades and a close; -1 if it has
    none.
    """
    count = len(table.codes)
    close = table["close"]
    rows = np.flatnonzero(table.traded & (close > 0))
    column = table.column[rows]
    first = np.full(count, -1, dtype=np.int64)
    last = first.copy()
    closes = np.full((2, count), np.nan)
    # If an index occurs more than once, the last assignment wins.
    first[column[::-1]] = table.row[rows[::-1]]
    last[column] = table.row[rows]
    closes[0, column[::-1]] = close[rows[::-1]]
    closes[1, column] = close[rows]

    return _CodeLives(first, last, closes[0], closes[1])


def _successor_pairs(raw: RawMarket, lives: _CodeLives) -> Iterator[tuple[int, int]]:
    """Yield pairs of code columns in which the second code begins where the first one ends."""
    table = raw.table
    ended = np.flatnonzero((lives.last >= 0) & (lives.last < len(table.days) - 1))
    begun = np.flatnonzero(lives.first > 0)

    for old in ended.tolist():
        gap = lives.first[begun] - lives.last[old]
        for new in begun[(gap >= 1) & (gap <= _LONGEST_GAP)].tolist():
            if _goes_on(raw, lives, old, new):
                yield old, new


def _goes_on(raw: RawMarket, lives: _CodeLives, old: int, new: int) -> bool:
    """Return whether the second code looks like a new code for the first code's asset."""
    former = raw.table.codes[old]
    code = raw.table.codes[new]
    move = abs(lives.first_close[new] / lives.last_close[old] - 1)
    if raw.instrument(former) != raw.instrument(code):
        return False

    if former.endswith(".BJ") and code.endswith(".BJ"):
        is_new = code.startswith(_NEW_IN_BEIJING) and not former.startswith(_NEW_IN_BEIJING)
        return bool(is_new and former[3:6] == code[3:6] and move <= _LIMIT_OF_BEIJING)

    return bool(lives.first[new] - lives.last[old] == 1 and move <= _NEAR)
