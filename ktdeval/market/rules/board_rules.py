"""A-share board rules by date: daily price limits, days without a limit after listing, and order
sizes. The rules are stored in `board_rules.csv`, where each row states its source.

A limit price is the reference price times 1 ± the limit, where the reference price is the previous
close, adjusted for the day's corporate actions. It is rounded half up to a fen (in Beijing, to the
last fen within the limit) and is at least one fen away from the reference price.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.market.rules.own_sessions import session_groups
from ktdeval.market.snapshots.snapshot import (
    Board,
    BoolArray,
    DayArray,
    FloatArray,
    MarketSnapshot,
    NameSpell,
    board_of,
)
from ktdeval.values.disk.files import csv_rows

RuleName = Literal[
    "limit_pct",
    "special_limit_pct",
    "free_days",
    "delisting_free_days",
    "inward",
    "smallest_buy",
    "buy_step",
]
IntArray = npt.NDArray[np.int64]

_PARTS = 1000  # a limit of 10 % is 100 of these
_NO_END = "9999-12-31"
# Matches ST and *ST, also after the day's prefixes (XD, XR, DR, N) or after S, which marks a share
# without split-share reform. Before a Latin letter, ST is part of a word, such as STAR.
_TREATED = re.compile(r"(?:XD|XR|DR|N|S)?\*?ST(?![A-Za-z])")
# Shanghai puts the delisting-period mark before the name, Shenzhen and Beijing after it.
_DELISTING = re.compile(r"退市.*|.*退")


@dataclass(frozen=True, slots=True)
class BoardRule:
    """One rule of a board, with its first and last day of validity."""

    first: np.datetime64
    last: np.datetime64
    value: float
    source: str


@dataclass(frozen=True, slots=True)
class OrderSizes:
    """Permitted sizes of buys on a board, in shares."""

    smallest: int  #: smallest buy; a smaller holding can only be sold whole
    step: int  #: increment of buys above the smallest


@cache
def board_rules() -> Mapping[tuple[Board, RuleName], tuple[BoardRule, ...]]:
    """Return each board's rules by rule name, earliest first."""
    rules: dict[tuple[Board, RuleName], list[BoardRule]] = {}

    for row in csv_rows(Path(__file__).with_name("board_rules.csv")):
        first = np.datetime64(row["first"], "D")
        last = np.datetime64(row["last"] or _NO_END, "D")
        key: tuple[Board, RuleName] = (Board(row["board"]), row["rule"])  # type: ignore[assignment]
        rules.setdefault(key, []).append(BoardRule(first, last, float(row["value"]), row["source"]))

    return {key: tuple(own) for key, own in rules.items()}


def order_sizes(board: Board) -> OrderSizes:
    """Return the permitted buy sizes on a board; they have not changed since it opened."""
    (smallest,) = board_rules()[board, "smallest_buy"]
    (step,) = board_rules()[board, "buy_step"]
    return OrderSizes(int(smallest.value), int(step.value))


def limit_prices(
    references: IntArray, limits: IntArray, fen: IntArray, inward: BoolArray
) -> tuple[IntArray, IntArray]:
    """Return the lower and upper limit prices for given reference prices, all in ticks.

    `limits`: in parts of 1,000; `fen`: ticks per fen; `inward`: True where a limit price is the
    last fen within the limit instead of the nearest fen. All arguments broadcast.
    """
    reference = (references + fen // 2) // fen
    half = _PARTS // 2
    # Limit prices that the BSE publishes are never rounded beyond the limit.
    for_upper = np.where(inward, 0, half)
    for_lower = np.where(inward, _PARTS - 1, half)

    upper = (reference * (_PARTS + limits) + for_upper) // _PARTS
    lower = (reference * (_PARTS - limits) + for_lower) // _PARTS
    upper = np.maximum(upper, reference + 1)
    lower = np.minimum(lower, reference - 1)

    return lower * fen, upper * fen


def rounds_inward(codes: Sequence[str]) -> BoolArray:
    """Return whether an A-share's limit prices are rounded to the last fen within the limit. Shape:
    [codes].
    """
    return np.array([(board_of(code), "inward") in board_rules() for code in codes], dtype=np.bool_)


def daily_limits(snapshot: MarketSnapshot, columns: Sequence[int]) -> IntArray:
    """Return the daily price limits of A-shares in parts of 1,000, by board, day and special
    treatment; -1 on days without a limit. Shape: [T, columns].
    """
    days = snapshot.days
    special = special_treatment(snapshot)
    delisting = _delisting(snapshot)
    has_bar = np.isfinite(snapshot.close)
    listings = _listings(snapshot)
    limits = np.full((len(days), len(columns)), -1, dtype=np.int64)
    usual = {board: _limit_parts(board, "limit_pct", days) for board in Board}
    # Limit for ST shares on the main board: 5 % until 2026-07-05, then 10 % (Trading Rules of SSE
    # and SZSE)
    narrow = {board: _limit_parts(board, "special_limit_pct", days) for board in Board}

    for index, column in enumerate(columns):
        board = board_of(snapshot.codes[column])
        parts = usual[board]
        if special is not None:
            treated = narrow[board]
            parts = np.where(special[:, column] & (treated >= 0), treated, parts)

        free = _is_free(listings[column], board, days, has_bar[:, column])
        limits[:, index] = np.where(free, -1, parts)

        for spell in delisting.get(snapshot.codes[column], ()):
            _free_first_days(limits[:, index], spell, days, board, has_bar[:, column])

    return limits


def _delisting(snapshot: MarketSnapshot) -> dict[str, list[NameSpell]]:
    """Return each code's delisting periods, from dated names."""
    periods: dict[str, list[NameSpell]] = {}
    for spell in snapshot.spells:
        if _DELISTING.fullmatch(_normalised_name(spell.name)):
            periods.setdefault(spell.code, []).append(spell)

    return periods


def _free_first_days(
    limits: IntArray, spell: NameSpell, days: DayArray, board: Board, has_bar: BoolArray
) -> None:
    """Lift the limit, in place, on the first days of a delisting period. Does nothing if the period
    began before the market's first day, since its first days are then not known.
    """
    first = _parse_day(spell.first)
    if first < days[0]:
        return

    # Under the delisting rules of SSE and SZSE (2020-12-31), the period's first day has no limit.
    free_days = int(_in_force(board, "delisting_free_days", np.array([first]))[0])
    traded = np.flatnonzero(has_bar & (days >= first) & (days <= _parse_day(spell.last)))
    limits[traded[: max(0, free_days)]] = -1


def special_treatment(snapshot: MarketSnapshot) -> BoolArray | None:
    """Return whether an asset is under special treatment, from the data or else from its dated
    names. None if neither is known. During a delisting period, the board's usual limit applies
    again. Shape: [T, N].
    """
    given = snapshot.price_limits.special
    if given is None and not snapshot.spells:
        return None

    days = snapshot.days
    special = np.zeros((len(days), len(snapshot.codes)), dtype=np.bool_)
    if given is not None:
        special = given.copy()

    for spell in snapshot.spells:
        name = _normalised_name(spell.name)
        inside = (days >= _parse_day(spell.first)) & (days <= _parse_day(spell.last))
        asset = snapshot.asset_index[spell.code]

        if _DELISTING.fullmatch(name):
            special[inside, asset] = False
        elif given is None and _TREATED.match(name):
            special[inside, asset] = True

    return special


@dataclass(frozen=True, slots=True)
class _AssetListing:
    """An asset's listing during the days of a market, or shortly before them."""

    day: np.datetime64
    before: int  #: trading days since the listing of which the market has no record


def _listings(snapshot: MarketSnapshot) -> list[_AssetListing | None]:
    """Return the listing of each asset; None if it is not known. Shape: [N].

    The listing day is taken from the data. If the data lack it, the day of the asset's first record
    is used, unless this is the market's first day, since most of that day's assets were listed
    earlier.
    """
    given = snapshot.price_limits.listed or ("",) * len(snapshot.codes)
    # A suspended day before the first bar shows that the asset was listed earlier.
    has_record = np.isfinite(snapshot.volume) | np.isfinite(snapshot.close)
    listings: list[_AssetListing | None] = [None] * len(given)

    for group in session_groups(snapshot):
        days = snapshot.days[group.rows]
        if not len(days):
            continue

        first_records = group.of(has_record).argmax(axis=0).tolist()
        columns = np.arange(len(given))[group.columns].tolist()
        for column, first_record in zip(columns, first_records, strict=True):
            listings[column] = _listing(given[column], days, first_record)

    return listings


def _listing(given: str, days: DayArray, first_record: int) -> _AssetListing | None:
    """Return an asset's listing. None if the listing day is not known. `given`: listing day from
    the data, or empty; `days`: sessions of the asset's calendar; `first_record`: index of the first
    session with a record.
    """
    if not given:
        return _AssetListing(days[first_record], 0) if first_record > 0 else None

    listed = _parse_day(given)
    if listed >= days[0]:
        # Days without a record are taken as trading days: a day with an unnecessary limit is better
        # than a day that lacks its limit.
        before = max(0, first_record - int(np.searchsorted(days, listed)))
    else:
        # Holidays are taken as trading days, for the same reason.
        before = int(np.busday_count(listed, days[0]))

    return _AssetListing(listed, before)


def _is_free(
    listing: _AssetListing | None, board: Board, days: DayArray, has_bar: BoolArray
) -> BoolArray:
    """Return whether a day follows the listing so closely that the asset has no price limit. Shape:
    [T].
    """
    if listing is None:
        return np.zeros(len(has_bar), dtype=np.bool_)

    # Listings under the registration system: STAR from 2019, ChiNext from 2020, main board from
    # 2023
    free_days = int(_in_force(board, "free_days", np.array([listing.day]))[0])
    traded = has_bar & (days >= listing.day)
    number = listing.before + np.cumsum(traded)  # 1 on the first trading day
    return np.asarray(traded & (number <= free_days))


def _limit_parts(board: Board, name: RuleName, days: DayArray) -> IntArray:
    """Return a limit in parts of 1,000; -1 on days without a limit. Shape: [T]."""
    percent = _in_force(board, name, days)
    return np.where(percent >= 0, np.rint(percent * _PARTS / 100), -1).astype(np.int64)


def _in_force(board: Board, name: RuleName, days: DayArray) -> FloatArray:
    """Return the value of a rule on each day; -1 on days on which the board has no such rule.
    Shape: [T].
    """
    values = np.full(len(days), -1.0)
    for rule in board_rules().get((board, name), ()):
        values[(days >= rule.first) & (days <= rule.last)] = rule.value

    return values


def _normalised_name(name: str) -> str:
    """Return a name with full-width letters and signs converted to ordinary ones."""
    return unicodedata.normalize("NFKC", name).strip()


def _parse_day(text: str) -> np.datetime64:
    return np.datetime64(text, "D")
