"""Facts of a market that can be asked about: codes of companies, directions of months, closes.

Only facts that are defined are listed. A day counts if the asset is a member and trades. A month
counts if the data hold it whole, and if its direction is the same with and without the adjustment
for splits and dividends.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ktdeval.market import BoolArray, FloatArray, MarketSnapshot, session_groups

_WORD = re.compile(r"\w+")
OPTIONS = 4  #: codes that a question of the kind code offers
TOLERANCE = 0.1  #: relative error up to which a close is right
_SMALLEST_SPLIT = 0.7
"""In data without an adjustment factor, a close below this multiple of the previous one, or above
its inverse, may be a split. Of the usual splits, 3 for 2 and all larger ones lie beyond it.
"""


@dataclass(frozen=True, slots=True)
class CodeFact:
    """Code of a company on a day (a row), with the assets of its industry as alternatives."""

    asset: int
    row: int
    peers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MonthFact:
    """Direction of an asset's price in a month: from the row of the last close before the month to
    the row of the month's last close.
    """

    asset: int
    before: int
    row: int
    rises: bool


@dataclass(frozen=True, slots=True)
class CloseFact:
    """Close of an asset on a day (a row)."""

    asset: int
    row: int


def tradable(snapshot: MarketSnapshot) -> BoolArray:
    """Return where an asset is a member and has a bar that is not a suspension. Shape: [T, N]."""
    result: BoolArray = snapshot.member & np.isfinite(snapshot.close) & ~(snapshot.volume == 0)
    return result


def possible_splits(snapshot: MarketSnapshot) -> BoolArray:
    """Return the days on which a close may not be comparable with the asset's previous close.
    Shape: [T, N].

    With an adjustment factor, these are the days on which the factor changes. Without one, they are
    the days with a move as large as that of a split.
    """
    changed = np.zeros(snapshot.close.shape, dtype=bool)
    if snapshot.meta.has_factor:
        changed[1:] = snapshot.factor[1:] != snapshot.factor[:-1]
        return changed

    closes = _filled_forward(snapshot.close)
    moves = np.abs(np.log(closes[1:] / closes[:-1]))
    changed[1:] = moves > -math.log(_SMALLEST_SPLIT)
    return changed


def _filled_forward(values: FloatArray) -> FloatArray:
    """Return values in which NaN repeats the last known value of the column. Shape: [T, N]."""
    rows = np.arange(len(values))[:, None]
    known = np.maximum.accumulate(np.where(np.isfinite(values), rows, 0), axis=0)
    filled: FloatArray = np.take_along_axis(values, known, axis=0)
    return filled


# ---- codes


def code_facts(snapshot: MarketSnapshot, start: int, stop: int) -> list[CodeFact]:
    """Return a fact for each asset that is a member in rows [start, stop) and whose name is known,
    unique and without the code, if at least three such assets share its industry.
    """
    member = snapshot.member[start:stop]
    row_of: dict[int, int] = {}
    name_of: dict[int, str] = {}
    for asset in np.flatnonzero(member.any(axis=0)).tolist():
        row = start + int(np.flatnonzero(member[:, asset])[-1])
        code, name = snapshot.name_asset(asset, row)
        if name.strip() and not _names_code(name, code):
            row_of[asset] = row
            name_of[asset] = name

    count_of = Counter(name_of.values())
    industry_of: dict[str, list[int]] = {}
    for asset, name in name_of.items():
        if count_of[name] == 1:
            industry_of.setdefault(snapshot.industries[asset], []).append(asset)

    facts = []
    for members in industry_of.values():
        if len(members) < OPTIONS:
            continue

        for asset in members:
            peers = tuple(other for other in members if other != asset)
            facts.append(CodeFact(asset, row_of[asset], peers))

    return sorted(facts, key=lambda fact: fact.asset)


def code_symbol(code: str) -> str:
    """Return a code without the suffix of its exchange."""
    return code.partition(".")[0]


def _names_code(name: str, code: str) -> bool:
    """Return whether a name repeats the code, as a name that is not known does."""
    return code_symbol(code).casefold() in _WORD.findall(name.casefold())


def spelled_alike(code: str, name: str) -> float:
    """Return the share of a code's letters that occur in the name in this order; 0 for a code
    without letters. `MSFT` and `Microsoft` give 1, `AAPL` and `Apple` 3/4.
    """
    letters = [letter for letter in code_symbol(code).casefold() if letter.isalpha()]
    if not letters:
        return 0.0

    found = 0
    rest = name.casefold()
    for letter in letters:
        _, match, after = rest.partition(letter)
        if match:
            found += 1
            rest = after

    return found / len(letters)


# ---- months


def month_facts(snapshot: MarketSnapshot, start: int, stop: int) -> list[MonthFact]:
    """Return the direction of each asset in each calendar month that lies in rows [start, stop) and
    whose end the data show, because a later month follows.
    """
    trades = tradable(snapshot)
    splits = np.zeros(1, dtype=np.intp)
    if not snapshot.meta.has_factor:
        splits = np.cumsum(possible_splits(snapshot), axis=0)

    facts: list[MonthFact] = []
    for group in session_groups(snapshot):
        columns = np.arange(len(snapshot.codes))[group.columns]
        rows = np.arange(len(snapshot.days))[group.rows]
        for before, end in _whole_months(snapshot, rows, start, stop):
            known = trades[before] & trades[end]
            if not snapshot.meta.has_factor:
                known &= splits[before] == splits[end]

            facts += _directions(snapshot, columns[known[columns]], before, end)

    return sorted(facts, key=lambda fact: (fact.asset, fact.row))


def _whole_months(
    snapshot: MarketSnapshot, rows: np.ndarray[tuple[int], np.dtype[np.intp]], start: int, stop: int
) -> list[tuple[int, int]]:
    """Return, for each whole month of an exchange, the rows of the last session before it and of
    its own last session. `rows`: rows of the exchange's sessions.
    """
    months = snapshot.days[rows].astype("datetime64[M]")
    ends = np.flatnonzero(months[1:] != months[:-1])  # the last month has no end
    whole = []
    for previous, last in pairwise(ends):
        is_next = int((months[last] - months[previous]).astype(int)) == 1
        if is_next and rows[previous + 1] >= start and rows[last] < stop:
            whole.append((int(rows[previous]), int(rows[last])))

    return whole


def _directions(
    snapshot: MarketSnapshot, columns: Sequence[int] | np.ndarray, before: int, end: int
) -> list[MonthFact]:
    """Return the directions of assets that moved, and in the same direction by both prices."""
    facts = []
    for asset in np.asarray(columns).tolist():
        traded = snapshot.close[end, asset] - snapshot.close[before, asset]
        adjusted = snapshot.adjusted_close[end, asset] - snapshot.adjusted_close[before, asset]
        if traded * adjusted > 0.0:
            facts.append(MonthFact(asset, before, end, bool(traded > 0.0)))

    return facts


# ---- closes


def close_facts(snapshot: MarketSnapshot, start: int, stop: int) -> dict[int, list[int]]:
    """Return the rows in [start, stop) on which an asset's close can be asked, keyed by asset."""
    asked = tradable(snapshot) & ~possible_splits(snapshot)
    rows_of = {}
    for asset in np.flatnonzero(asked[start:stop].any(axis=0)).tolist():
        rows_of[asset] = (start + np.flatnonzero(asked[start:stop, asset])).tolist()

    return rows_of


def is_close_right(answer: float, close: float) -> bool:
    """Return whether an answer lies within the tolerance of a close."""
    return abs(answer - close) <= TOLERANCE * close


def best_constant_share(closes: FloatArray, weights: FloatArray) -> float:
    """Return the largest share of closes, each with a weight, for which one constant answer is
    right.

    An answer a is right for the closes in [a / 1.1, a / 0.9], so that the best interval begins at
    one of the closes.
    """
    order = np.argsort(closes)
    values = closes[order]
    sums = np.concatenate(([0.0], np.cumsum(weights[order])))
    widest = (1.0 + TOLERANCE) / (1.0 - TOLERANCE) * (1.0 + 1e-12)
    ends = np.searchsorted(values, values * widest, side="right")
    share = float((sums[ends] - sums[:-1]).max() / sums[-1])
    return min(1.0, share)
