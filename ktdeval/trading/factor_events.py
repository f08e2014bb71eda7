"""Adjustment-factor changes larger than rounding, and the resulting prices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import FloatArray, MarketSnapshot
from ktdeval.trading.venue_terms import PPB

IntArray = npt.NDArray[np.int64]
FACTOR_JITTER = 1e-5
MAX_FACTOR_RATIO = 1e5


class FactorEvent(Struct, frozen=True):
    """A factor change of one asset on one day."""

    ratio_ppb: int  #: today's factor divided by the previous day's, in parts per billion
    previous_ticks: int  #: the mark at the previous close, in the previous day's terms
    #: the previous mark in today's terms: `previous_ticks / ratio`, rounded down to a tick. It is
    #: the reference price for the day's limits, and the mark if the asset does not trade.
    ex_ticks: int


def ex_price_ticks(previous_ticks: int, ratio_ppb: int) -> int:
    """Return the previous price in today's terms. It is rounded down to a tick, so that the cash in
    lieu is never negative.
    """
    return previous_ticks * PPB // ratio_ppb


def check_factor(snapshot: MarketSnapshot) -> None:
    """Raise DataError if a factor is not positive or differs too much from the previous
    day's factor.
    """
    factor = snapshot.factor
    bad = ~(np.isfinite(factor) & (factor > 0))
    if not bad.any() and len(factor) > 1:
        ratio = factor[1:] / factor[:-1]
        bad[1:] = (ratio > MAX_FACTOR_RATIO) | (ratio < 1 / MAX_FACTOR_RATIO)

    if bad.any():
        row, asset = (int(indices[0]) for indices in np.nonzero(bad))
        raise DataError(
            f"adjustment factor of {snapshot.codes[asset]} on {snapshot.days[row]} is"
            f" {factor[row, asset]:g}: not positive, or far from the day before; check the source's"
            " factor column"
        )


def settled_factor(factor: FloatArray) -> FloatArray:
    """Return factors without jitter. A factor changes only when it differs by more than
    `FACTOR_JITTER` from the last returned factor. Shape: [T, N].
    """
    settled = factor.copy()
    rows = np.flatnonzero((factor[1:] != factor[:-1]).any(axis=1)) + 1
    for row, end in zip(rows.tolist(), [*rows[1:].tolist(), len(factor)], strict=False):
        previous = settled[row - 1]
        still = np.abs(factor[row] - previous) <= FACTOR_JITTER * previous
        settled[row:end] = np.where(still, previous, factor[row])

    return settled


def marks_of(
    closes: IntArray, factor: FloatArray
) -> tuple[IntArray, IntArray, dict[int, dict[int, FactorEvent]]]:
    """Return marks and reference prices, both [T, N] in ticks, and the factor events by row."""
    # The mark is the last close; `last` is the row of this close.
    rows_with_close = np.where(closes == 0, 0, np.arange(len(closes))[:, None])
    last = np.maximum.accumulate(rows_with_close, axis=0)
    marks = np.take_along_axis(closes, last, axis=0)

    before, assets = np.nonzero(factor[1:] != factor[:-1])
    rows = before + 1
    ratios = np.rint(factor[rows, assets] / factor[before, assets] * PPB).astype(np.int64)
    lacks_close = closes[rows, assets] == 0
    changes = zip(
        rows.tolist(), assets.tolist(), ratios.tolist(), lacks_close.tolist(), strict=True
    )

    # In chronological order, since the mark of an asset without a close may change more than once.
    events: dict[int, dict[int, FactorEvent]] = {}
    for row, asset, ratio_ppb, is_without_close in changes:
        previous = int(marks[row - 1, asset])
        if previous <= 0:
            continue

        # Events are rare enough for Python integers, which can't overflow at high adjusted prices.
        event = FactorEvent(ratio_ppb, previous, ex_price_ticks(previous, ratio_ppb))
        events.setdefault(row, {})[asset] = event

        if is_without_close:  # serves as the mark until the next close
            is_until_next = last[row:, asset] == last[row, asset]
            marks[row:, asset][is_until_next] = event.ex_ticks

    references = np.zeros_like(closes)
    references[1:] = marks[:-1]
    for row, changed in events.items():
        for asset, event in changed.items():
            references[row, asset] = event.ex_ticks

    return marks, references, events
