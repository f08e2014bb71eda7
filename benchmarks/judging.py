"""Answers of attackers judged by the truth, and the exact chances of an answer at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.values import JsonValue
from ktdeval_deanon.certificate.lookup_attackers import TOP, AttackerGuess, RandomAttacker

DATE_TOLERANCES = (5, 20, 60)
"""Trading days that a guessed date may be off (KTD-Fin §4.3, Appendix K); the first is that of
joint success.
"""


class Gold(NamedTuple):
    """What a payload hides.

    Attributes:
        ticker: code.
        day: ISO date.
        sector: industry.
        board: exchange board.
    """

    ticker: str
    day: str
    sector: str
    board: str

    @classmethod
    def of(cls, market: MarketSnapshot, asset: int, row: int) -> Gold:
        """The truth about an asset and a day of a snapshot."""
        return cls(
            market.codes[asset],
            str(market.days[row]),
            market.industries[asset],
            str(market.boards[asset]),
        )


class Hits(NamedTuple):
    """What an answer got right.

    Attributes:
        ticker_top1: the first ticker is the one.
        ticker_top5: one of the first five is.
        board, sector: these are.
        date_within_5, date_within_20, date_within_60: the date is at most so many trading days off.
        joint: the ticker is among the first five and the date at most five trading days off.
    """

    ticker_top1: bool
    ticker_top5: bool
    board: bool
    sector: bool
    date_within_5: bool
    date_within_20: bool
    date_within_60: bool
    joint: bool


class Chances(NamedTuple):
    """The probability of each of `Hits` for an answer by chance."""

    ticker_top1: float
    ticker_top5: float
    board: float
    sector: float
    date_within_5: float
    date_within_20: float
    date_within_60: float
    joint: float


def judge(guess: AttackerGuess, gold: Gold, rows: Mapping[str, int]) -> Hits:
    """Score one answer.

    Args:
        guess: the answer; what it names may be of no stock and no trading day, and is then wrong.
        gold: the truth.
        rows: ISO date -> row of the calendar, so that distances count trading days.

    Raises:
        DataError: the true day is not in the calendar.
    """
    if gold.day not in rows:
        raise DataError(f"the day of a probe, {gold.day}, is no trading day of the calendar")
    off = abs(rows[guess.day] - rows[gold.day]) if guess.day in rows else max(DATE_TOLERANCES) + 1
    is_among = gold.ticker in guess.tickers[:TOP]
    within = [off <= days for days in DATE_TOLERANCES]
    return Hits(
        gold.ticker in guess.tickers[:1],
        is_among,
        guess.board == gold.board,
        guess.sector == gold.sector,
        within[0],
        within[1],
        within[2],
        is_among and within[0],
    )


def chances_of(attacker: RandomAttacker, payload: Mapping[str, JsonValue], gold: Gold) -> Chances:
    """The exact probability of each success of `guess` on a payload whose truth is `gold`.

    Raises:
        DataError: the payload is not what the tools give, or the true day is not in the calendar.
    """
    pool, history = attacker.pool(payload), attacker.history
    if gold.day not in history.rows:
        raise DataError(f"the day of a probe, {gold.day}, is no trading day of the calendar")
    asset, row = history.market.asset_index.get(gold.ticker), history.rows[gold.day]
    count = len(pool)
    is_inside = asset is not None and bool((pool == asset).any())
    top5 = min(TOP, count) / count if is_inside else 0.0
    off = np.abs(np.array(attacker.rows) - row)
    within = [float((off <= days).mean()) for days in DATE_TOLERANCES]
    return Chances(
        1.0 / count if is_inside else 0.0,
        top5,
        float((history.boards[pool] == gold.board).mean()),
        float((history.industries[pool] == gold.sector).mean()),
        within[0],
        within[1],
        within[2],
        top5 * within[0],
    )
