"""Adjustment factors that prices contradict: jumps without a move, and factors to be divided by.

At a split or dividend the price moves the other way than the factor. A factor that restarts after a
halt or with the next file, and one that is wrong on single days, jumps while the price does not.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ktdeval.market.snapshots.snapshot import BoolArray, FloatArray
from ktdeval.market.sources.raw_tables import BarTable, IntArray, RawMarket

_SMALLEST = 0.01  # |log| of a jump that is looked at: rounding and small dividends are below it
_FALL = 0.015  # |log| of a fall: vendors correct theirs by less
_FALL_NOISE = 3.0  # times the usual overnight move, by which a falling factor must miss the price
_RISE_NOISE = 8.0
_RISE = 0.15  # |log| of a rising factor that the price must follow, where there is no price limit
_BEYOND = 1.1  # times the daily limit, which no adjusted price goes beyond
_QUIET = 0.005  # least usual overnight move
_MAX_OF_ONE = 50.0  # log likelihood ratio of a single jump
_KNOWN = 2  # days on which the factor stays, from which the usual move is known
_SPIKE = 5  # bars of a factor that jumps for a few days
_SAME = 1e-6  # difference of logs where it is back
_SOME = 3.0  # log likelihood ratio of a code that counts where codes are counted
_CODES = 5  # with a factor to be divided by, from which all of a market may have one
_SPLIT = 0.25  # |log| of a jump that may be a split: 3 for 2 is 0.41
_STEP_SLACK = 0.1  # log: by which the price may move beside its split
_NEAR_BARS = 20  # bars around a jump in which its price step is searched
_ENOUGH = 12.0  # log likelihood ratio for a factor to be divided by


@dataclass(frozen=True)
class FactorFaults:
    """Faults of a market's factors, as its prices show them; arrays are [rows]."""

    jump: BoolArray  #: the factor jumps since the last bar with trade; the price does not
    inverse: BoolArray  #: bars of codes whose prices move with the factor, not against it


@dataclass(frozen=True)
class _BarPairs:
    """Bars with trade, each with the one before it of its code; arrays are [pairs]."""

    now: IntArray  #: row
    before: IntArray  #: row
    column: IntArray  #: code
    step: FloatArray  #: log of the factor over the one before
    opened: FloatArray  #: log of the open over the close before
    closed: FloatArray  #: log of the close over the one before


@np.errstate(divide="ignore", invalid="ignore")
def factor_faults(raw: RawMarket) -> FactorFaults:
    """Judge the factors of a market by its unadjusted prices."""
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
    """Rows of bars with trade, a close and a factor, and of the one before each in its code."""
    factor = table["factor"]
    close = table["close"]
    rows = np.flatnonzero(table.traded & (factor > 0) & np.isfinite(factor) & (close > 0))
    follows = table.column[rows[1:]] == table.column[rows[:-1]]

    return rows[1:][follows], rows[:-1][follows]


def price_steps_near(table: BarTable, jump: BoolArray) -> dict[int, tuple[int, int]]:
    """Row of each large jump of a factor -> row of the bar nearby at which the price moves by as
    much the other way while the factor stays, and of the one before it: the split is dated off its
    price step.
    """
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
    """[pairs] usual overnight move of the code while its factor stays; NaN: not known."""
    is_quiet = np.abs(pairs.step) < _SMALLEST
    own = pd.Series(np.where(is_quiet, np.abs(pairs.opened), np.nan)).groupby(pairs.column)
    usual = own.median().where(own.count() >= _KNOWN).reindex(range(size))
    moves = np.maximum(usual.to_numpy(dtype=np.float64) * 1.5, _QUIET)

    return np.asarray(moves[pairs.column])


def _is_unexplained(pairs: _BarPairs, limits: FloatArray, noise: FloatArray) -> BoolArray:
    """[pairs] whether the factor jumps, and the price moves as if it had not."""
    step = pairs.step
    opened = pairs.opened
    is_nearer = np.abs(opened) < np.abs(opened + step)  # to no split than to this one
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
    """[pairs] jumps, each with the one that brings the factor back after a few bars."""
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
    """[2, codes] log likelihood ratio of a factor to be divided by.

    Against one to be multiplied with, and one that prices do not follow; of normal moves, each
    jump bounded.
    """
    move = pairs.opened
    step = pairs.step
    jumps = (np.abs(step) > _SMALLEST) & np.isfinite(noise)
    nearest = np.minimum(np.abs(move - step), np.abs(move + step))
    moved = nearest < np.abs(move)  # not as on other days
    ratios = (
        np.where(jumps & moved, 2 * move * step / noise**2, 0.0),
        np.where(jumps, (2 * move * step - step**2) / (2 * noise**2), 0.0),
    )
    bounded = [np.clip(ratio, -_MAX_OF_ONE, _MAX_OF_ONE) for ratio in ratios]

    return np.stack([np.bincount(pairs.column, ratio, size) for ratio in bounded])


def _inverse_codes(evidence: FloatArray) -> BoolArray:
    """[codes] prices move with the factor: of single codes, or of nearly all of the market."""
    against_right, against_none = evidence
    sides = [int((against_right * sign > _SOME).sum()) for sign in (1, -1)]
    is_of_all = sides[0] >= _CODES and sides[0] > 2 * sides[1] and against_none.sum() > 0
    if is_of_all:
        return np.asarray(against_right > -_ENOUGH)

    return np.asarray((against_right > _ENOUGH) & (against_none > 0))


# ---- repairs


def chain_factor(raw: RawMarket) -> tuple[RawMarket, int]:
    """Remove jumps from factors that the price does not follow: later factors continue from the
    level before.
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
    """Take 1 / factor of codes whose prices move with their factor."""
    if not raw.has_factor:
        return raw, 0

    table = raw.table
    faults = factor_faults(raw)
    own = faults.inverse & (table["factor"] > 0)
    factor = np.where(own, 1 / np.where(own, table["factor"], 1.0), table["factor"])
    bars = raw.bars.assign(factor=table.in_source(factor)) if own.any() else raw.bars

    return dataclasses.replace(raw, bars=bars), int(own.sum())


def factor_of_one(raw: RawMarket) -> tuple[RawMarket, int]:
    """Set the factor to 1 on all days of codes that have no factor on any day."""
    if not raw.has_factor:
        return raw, 0

    table = raw.table
    without = without_factor(raw)[table.column]
    factor = np.where(without, 1.0, table["factor"])
    bars = raw.bars.assign(factor=table.in_source(factor)) if without.any() else raw.bars

    return dataclasses.replace(raw, bars=bars), int((without & table.traded).sum())


def without_factor(raw: RawMarket) -> BoolArray:
    """[codes of the table] there is trade, and no day with a factor above zero."""
    table = raw.table
    factor = table["factor"]
    size = len(table.codes)
    known = np.bincount(table.column[(factor > 0) & np.isfinite(factor)], minlength=size)
    traded = np.bincount(table.column[table.traded], minlength=size)

    return np.asarray((known == 0) & (traded > 0))
