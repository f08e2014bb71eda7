"""Consistency of DeepFund's decisions with the signals of its analysts (§4.3), as pure functions.

The paper calls a Buy after dominant Bullish signals consistent, a Sell after dominant Bearish ones, and a Hold after Neutral or
mixed ones. *Dominant* is a strict plurality: more signals than of any other kind. By that rule alone, Bearish signals call for a
Sell also where nothing is held and nothing can be sold; `accepts_empty` counts a Hold there as consistent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

Signal = Literal["Bullish", "Bearish", "Neutral"]
Action = Literal["Buy", "Sell", "Hold"]
SIGNALS: tuple[Signal, ...] = ("Bullish", "Bearish", "Neutral")
ACTIONS: tuple[Action, ...] = ("Buy", "Sell", "Hold")
_CALLED_FOR: dict[Signal | None, Action] = {"Bullish": "Buy", "Bearish": "Sell", "Neutral": "Hold", None: "Hold"}


def dominant(signals: Sequence[Signal]) -> Signal | None:
    """Signal given more often than each other one; None where there is none, as of 2 Bearish and 2 Neutral."""
    counted = Counter(signals).most_common(2)
    if not counted or (len(counted) == 2 and counted[0][1] == counted[1][1]):
        return None
    return counted[0][0]


def is_consistent(signals: Sequence[Signal], action: Action, held: float, accepts_empty: bool = False) -> bool | None:
    """Whether a decision follows its signals by strict plurality; None where it had no signals.

    `held`: shares held before the decision. `accepts_empty`: a Hold after dominant Bearish signals with nothing held is consistent.
    """
    if not signals:
        return None
    side = dominant(signals)
    if accepts_empty and side == "Bearish" and action == "Hold" and held == 0:
        return True
    return action == _CALLED_FOR[side]


def share(flags: Sequence[bool | None]) -> float | None:
    """Share of True among the flags that are not None, a fraction; None where all are."""
    known = [flag for flag in flags if flag is not None]
    return sum(known) / len(known) if known else None
