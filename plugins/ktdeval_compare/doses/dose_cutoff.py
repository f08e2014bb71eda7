"""Planted cutoff: what `compare cutoff` finds if a memory ends between two windows.

A memory with `until` decides like a memory of the same dose up to and including that day, and like
a memory of dose 0 afterwards. The excess returns before a planted cutoff are therefore taken from
runs with the dose, and the excess returns after it from runs with dose 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.stats import TRADING_DAYS, benchmark_levels
from ktdeval.trading import Ledger
from ktdeval_compare.cutoffs.compute import decay
from ktdeval_compare.doses.dose_rows import BRIGHT, CUTOFF, CUTOFF_ERROR, DoseRow

Daily = Mapping[str, Mapping[str, float]]
"""Excess return by window and day."""
_Z95 = 1.959964


def daily_excess(ledger: Ledger, market: MarketSnapshot) -> dict[str, float]:
    """Return an episode's daily returns minus the benchmark's, keyed by day."""
    levels = benchmark_levels(ledger, market)
    excess = ledger.returns - (levels[1:] / levels[:-1] - 1.0)
    return {str(day): float(value) for day, value in zip(ledger.days, excess, strict=True)}


def cutoff_rows(studies: Mapping[tuple[float, int], Daily]) -> Iterator[DoseRow]:
    """Yield the effect of a planted cutoff for each dose and seed: the annualised mean excess
    return before the cutoff minus the mean after it, as an increase over the difference at dose 0.
    Also yield its standard error.

    `studies`: daily excess returns by dose and seed. Yields nothing if dose 0 is missing, or if no
    window lies wholly after the earlier half of the windows.
    """
    nothing = studies.get((0.0, 0))
    if nothing is None:
        return

    windows = sorted(nothing, key=lambda window: min(nothing[window]))
    before = windows[: len(windows) // 2]
    if not before:
        return

    cutoff = max(max(nothing[window]) for window in before)
    after = [window for window in windows if min(nothing[window]) > cutoff]
    if not after:
        return

    later = _days(nothing, after)
    base = decay(_days(nothing, before), later, years=(TRADING_DAYS, TRADING_DAYS))
    for (dose, seed), daily in studies.items():
        if dose <= 0:
            continue

        estimate = decay(_days(daily, before), later, years=(TRADING_DAYS, TRADING_DAYS))
        values = (estimate.value, estimate.low, estimate.high, base.value)
        if None in values:
            continue

        added = float(estimate.value or 0.0) - float(base.value or 0.0)
        error = (float(estimate.high or 0.0) - float(estimate.low or 0.0)) / (2 * _Z95)
        where = f"{before[0]}-{before[-1]}|{after[0]}-{after[-1]}"
        for kind, value in ((CUTOFF, added), (CUTOFF_ERROR, error)):
            yield DoseRow(kind=kind, dose=dose, seed=seed, mask=BRIGHT, window=where, value=value)


def _days(daily: Daily, windows: list[str]) -> FloatArray:
    """Return the mean for each day, over the windows that share the day, in chronological order."""
    samples: dict[str, list[float]] = {}
    for window in windows:
        for day, value in daily[window].items():
            samples.setdefault(day, []).append(value)

    return np.array([np.mean(samples[day]) for day in sorted(samples)])
