"""Adjustment factors that contradict prices: jumps that the price does not follow, and factors that
divide rather than multiply.

At a split or dividend the price moves in the opposite direction to the factor. If the factor
restarts after a halt or in the next file, or is wrong on isolated days, it jumps while the price
does not.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ktdeval.market import BoolArray, FloatArray
from ktdeval_raw_markets.sources.raw_tables import BarTable, IntArray, RawMarket

_SMALLEST = 0.01  # |log| of the smallest jump examined: rounding and small dividends stay below it
_FALL = 0.015  # |log| of the smallest fall examined: vendors' corrections are smaller
# minimum mismatch for a falling factor, as a multiple of the usual overnight move
_FALL_NOISE = 3.0
_RISE_NOISE = 8.0
_RISE = 0.15  # |log| of a factor rise that the price must follow if there is no price limit
_BEYOND = 1.1  # no adjusted price move exceeds this multiple of the daily limit
_QUIET = 0.005  # minimum usual overnight move
_MAX_OF_ONE = 50.0  # cap on the log-likelihood ratio of a single jump
_KNOWN = 2  # minimum days with an unchanged factor for estimating the usual move
_SPIKE = 5  # maximum duration of a temporary factor jump, in bars
_SAME = 1e-6  # tolerance, in logs, for a factor that has returned to its old value
_SOME = 3.0  # a code is counted above this log-likelihood ratio
_CODES = 5  # minimum codes with an inverse factor to judge the whole market inverse
_SPLIT = 0.25  # |log| of the smallest jump that may be a split: 3-for-2 is 0.41
_STEP_SLACK = 0.1  # tolerance, in logs, for the price step that matches a split
_NEAR_BARS = 20  # number of bars on each side of a jump that are searched for its price step
_ENOUGH = 12.0  # log-likelihood ratio from which a factor is treated as inverse


@dataclass(frozen=True)
class FactorFaults:
    """Faults in a market's adjustment factors, as revealed by its prices; arrays are [rows]."""

    jump: BoolArray  #: the factor has jumped since the last bar with trades; the price has not
    #: bars of codes whose prices move with the factor rather than opposite to it
    inverse: BoolArray


@dataclass(frozen=True)
class _BarPairs:
    """Bars with trades, each paired with the same code's previous bar with trades; arrays are
    [pairs].
    """

    now: IntArray  #: row of the bar
    before: IntArray  #: row of the previous bar
    column: IntArray  #: column of the code
    step: FloatArray  #: log of this bar's factor over the previous bar's factor
    opened: FloatArray  #: log of this bar's open over the previous bar's close
    closed: FloatArray  #: log of this bar's close over the previous bar's close


@np.errstate(divide="ignore", invalid="ignore")
def factor_faults(raw: RawMarket) -> FactorFaults:
    """Check a market's factors against its unadjusted prices."""
    limits = np.log1p(raw.daily_limits)
    size = len(raw.table.codes)
    evidence = np.zeros((2, size))
    has_steps = np.zeros(size, dtype=np.bool_)
    jumps = []

    for part in raw.table.parts():
        jump = np.zeros(len(part.row), dtype=np.bool_)
        jumps.append(jump)
        if (part["factor"] == 1).all():
            continue

        pairs = _bar_pairs(part)
        noise = _usual_move(pairs, size)
        jump[pairs.now] = _is_unexplained(pairs, limits[pairs.column], noise)
        evidence += _evidence_of_inverse(pairs, noise, size)
        has_steps |= np.bincount(pairs.column, np.abs(pairs.step) > 0, size) > 0

    inverse = (_inverse_codes(evidence) & has_steps)[raw.table.column]
    return FactorFaults(np.concatenate(jumps) & ~inverse, inverse)


def last_bars(table: BarTable) -> tuple[IntArray, IntArray]:
    """Return the rows of bars that have trades, a close and a factor. For each of them, also return
    the row of the same code's previous bar of this kind.
    """
    factor = table["factor"]
    close = table["close"]
    rows = np.flatnonzero(table.traded & (factor > 0) & np.isfinite(factor) & (close > 0))
    follows = table.column[rows[1:]] == table.column[rows[:-1]]

    return rows[1:][follows], rows[:-1][follows]


def price_steps_near(table: BarTable, jump: BoolArray) -> dict[int, tuple[int, int]]:
    """Find splits that are dated away from their price steps. Each large factor jump maps to a
    nearby bar at which the price moves by the same size in the opposite direction while the factor
    stays constant. Keys are rows of jumps; values are the row of the nearby bar and the row before
    it.
    """
    if not jump.any():
        return {}

    now, before = last_bars(table)
    moves = np.log(table["close"][now] / table["close"][before])
    steps = np.log(table["factor"][now] / table["factor"][before])
    column = table.column[now]
    found = {}
    for place in np.flatnonzero(jump[now] & (np.abs(steps) > _SPLIT)).tolist():
        nearby = np.arange(max(0, place - _NEAR_BARS), min(len(now), place + _NEAR_BARS + 1))
        own = nearby[(column[nearby] == column[place]) & (np.abs(steps[nearby]) < _SMALLEST)]
        distance = np.abs(moves[own] + steps[place])
        if len(own) and distance.min() < _STEP_SLACK:
            step = own[distance.argmin()]
            found[int(now[place])] = (int(now[step]), int(before[step]))
    return found


def _bar_pairs(table: BarTable) -> _BarPairs:
    now, before = last_bars(table)
    factor = table["factor"]
    close = table["close"]
    first = table["open"][now]
    first = np.where(first > 0, first, close[now])

    return _BarPairs(
        now=now,
        before=before,
        column=table.column[now],
        step=np.log(factor[now] / factor[before]),
        opened=np.log(first / close[before]),
        closed=np.log(close[now] / close[before]),
    )


def _usual_move(pairs: _BarPairs, size: int) -> FloatArray:
    """Return each code's usual overnight move while its factor is constant; NaN if not known.
    Shape: [pairs].
    """
    is_quiet = np.abs(pairs.step) < _SMALLEST
    own = pd.Series(np.where(is_quiet, np.abs(pairs.opened), np.nan)).groupby(pairs.column)
    usual = own.median().where(own.count() >= _KNOWN).reindex(range(size))
    moves = np.maximum(usual.to_numpy(dtype=np.float64) * 1.5, _QUIET)

    return np.asarray(moves[pairs.column])


def _is_unexplained(pairs: _BarPairs, limits: FloatArray, noise: FloatArray) -> BoolArray:
    """Return whether the factor jumps while the price moves as if it had not. Shape: [pairs]."""
    step = pairs.step
    opened = pairs.opened
    is_nearer = np.abs(opened) < np.abs(opened + step)  # closer to no split than to this split
    falls = (-step > np.maximum(noise, _FALL)) & (np.abs(opened + step) > _FALL_NOISE * noise)

    rises = np.ones(len(step), dtype=np.bool_)
    for move in (opened, pairs.closed):
        adjusted = np.abs(move + step)
        beyond = (adjusted > _BEYOND * limits) & (np.abs(move) <= limits)
        far = adjusted > np.maximum(_RISE, _RISE_NOISE * noise)
        far &= np.abs(move) < np.abs(step) / 3
        rises &= np.where(np.isfinite(limits), beyond, far)

    may_be = (np.abs(step) > _SMALLEST) & is_nearer & np.isfinite(noise)
    return _with_returns(may_be & (falls | rises), may_be, pairs.column, np.cumsum(step))


def _with_returns(
    jump: BoolArray,
    may_be: BoolArray,
    column: IntArray,
    level: FloatArray,
) -> BoolArray:
    """Return the given jumps, and each jump that returns the factor to its old value within a few
    bars. Shape: [pairs].
    """
    before = np.append(0.0, level[:-1])
    whole = jump.copy()
    for later in range(1, _SPIKE + 1):
        there = slice(None, -later)
        back = slice(later, None)
        is_spike = (column[there] == column[back]) & (np.abs(level[back] - before[there]) < _SAME)
        is_spike &= may_be[there] & may_be[back] & (jump[there] | jump[back])
        whole[there] |= is_spike
        whole[back] |= is_spike

    return whole


def _evidence_of_inverse(pairs: _BarPairs, noise: FloatArray, size: int) -> FloatArray:
    """Return log-likelihood ratios for an inverse factor, one by which prices are divided. Shape:
    [2, codes].

    The two alternatives are a factor that multiplies prices, and a factor that prices do not
    follow. Moves are assumed normal; the contribution of each jump is capped.
    """
    move = pairs.opened
    step = pairs.step
    jumps = (np.abs(step) > _SMALLEST) & np.isfinite(noise)
    nearest = np.minimum(np.abs(move - step), np.abs(move + step))
    moved = nearest < np.abs(move)  # moved differently than on other days
    ratios = (
        np.where(jumps & moved, 2 * move * step / noise**2, 0.0),
        np.where(jumps, (2 * move * step - step**2) / (2 * noise**2), 0.0),
    )
    bounded = [np.clip(ratio, -_MAX_OF_ONE, _MAX_OF_ONE) for ratio in ratios]

    return np.stack([np.bincount(pairs.column, ratio, size) for ratio in bounded])


def _inverse_codes(evidence: FloatArray) -> BoolArray:
    """Return whether a code's prices move with the factor. The judgement is by code or, if the
    evidence is strong enough, for nearly the whole market. Shape: [codes].
    """
    against_right, against_none = evidence
    sides = [int((against_right * sign > _SOME).sum()) for sign in (1, -1)]
    is_of_all = sides[0] >= _CODES and sides[0] > 2 * sides[1] and against_none.sum() > 0
    if is_of_all:
        return np.asarray(against_right > -_ENOUGH)

    return np.asarray((against_right > _ENOUGH) & (against_none > 0))


# ---- repairs


def chain_factor(raw: RawMarket) -> tuple[RawMarket, int]:
    """Remove factor jumps that the price does not follow. After a removed jump, the factor
    continues from its earlier value.
    """
    if not raw.has_factor:
        return raw, 0

    table = raw.table
    faults = factor_faults(raw)
    if not faults.jump.any():
        return raw, 0

    factor = table["factor"]
    rows, before = last_bars(table)
    rows, before = rows[faults.jump[rows]], before[faults.jump[rows]]
    steps = np.zeros(len(factor))
    steps[rows] = np.log(factor[rows] / factor[before])

    total = np.cumsum(steps)
    starts = np.maximum.accumulate(np.where(table.new_code, np.arange(len(factor)), 0))
    chained = factor * np.exp((total - steps)[starts] - total)

    for row, last in zip(rows.tolist(), before.tolist(), strict=True):
        chained[last + 1 : row] = chained[last]

    changed = int((chained != factor).sum())
    bars = raw.bars.assign(factor=table.in_source(chained))
    return dataclasses.replace(raw, bars=bars), changed


def invert_factor(raw: RawMarket) -> tuple[RawMarket, int]:
    """Replace the factor by 1 / factor for codes whose prices move with their factor."""
    if not raw.has_factor:
        return raw, 0

    table = raw.table
    faults = factor_faults(raw)
    own = faults.inverse & (table["factor"] > 0)
    factor = np.where(own, 1 / np.where(own, table["factor"], 1.0), table["factor"])
    bars = raw.bars.assign(factor=table.in_source(factor)) if own.any() else raw.bars

    return dataclasses.replace(raw, bars=bars), int(own.sum())


def factor_of_one(raw: RawMarket) -> tuple[RawMarket, int]:
    """Set the factor to 1 on all days for codes that never have a valid factor."""
    if not raw.has_factor:
        return raw, 0

    table = raw.table
    without = without_factor(raw)[table.column]
    factor = np.where(without, 1.0, table["factor"])
    bars = raw.bars.assign(factor=table.in_source(factor)) if without.any() else raw.bars

    return dataclasses.replace(raw, bars=bars), int((without & table.traded).sum())


def without_factor(raw: RawMarket) -> BoolArray:
    """Return whether a code trades but never has a factor above zero. Shape: [codes of the
    table].
    """
    table = raw.table
    factor = table["factor"]
    size = len(table.codes)
    known = np.bincount(table.column[(factor > 0) & np.isfinite(factor)], minlength=size)
    traded = np.bincount(table.column[table.traded], minlength=size)

    return np.asarray((known == 0) & (traded > 0))
