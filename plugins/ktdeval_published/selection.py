"""Selection of a ladder: the part of its gain that neither the market nor nine styles explain."""

from __future__ import annotations

import numpy as np

from ktdeval.attribution import Fit, fit_factors
from ktdeval.market import Instrument, MarketSnapshot, SnapshotMeta, Venue
from ktdeval.stats import Bootstrap
from ktdeval_published.prices import Array, BoardBars
from ktdeval_published.report import IntervalEstimate

_HISTORY = 260  #: days of prices that the slowest style needs before the first return


def fit_styles(bars: BoardBars, venue: Venue, first: np.datetime64) -> Fit | None:
    """Return the daily regressions of all names' returns on the styles known at the close before,
    from a day on; None if the prices begin too late. There are no industries in a board's files.
    """
    days = np.array(list(bars.day_rows))
    first_row = int(np.searchsorted(days, first))
    if first_row < _HISTORY or len(days) != len(bars.stamps):
        return None

    order = np.argsort(np.array(bars.symbols))
    codes = tuple(bars.symbols[column] for column in order)
    close = bars.close[:, order]
    volume = np.where(np.isnan(close), 0.0, bars.volume[:, order])
    shape = close.shape
    snapshot = MarketSnapshot(
        meta=SnapshotMeta("board", "prices of a board", False, False, ""),
        days=days.astype("datetime64[D]"),
        codes=codes,
        names=codes,
        industries=("unknown",) * len(codes),
        open=bars.open[:, order],
        high=bars.high[:, order],
        low=bars.low[:, order],
        close=close,
        volume=volume,
        amount=close * volume,
        factor=np.ones(shape),
        member=~np.isnan(close),
        indices={},
        index_names={},
        instruments=(Instrument("stock", venue.currency, venue.name),) * len(codes),
    )
    return fit_factors(snapshot, first_row, len(days) - 1, "paper")


def selection_gains(weights: Array, exits: Array, fit: Fit, symbols: tuple[str, ...]) -> Array:
    """Return the selection of each day of a ladder, in currency. `weights`: [T, N] at the entry, in
    the order of `symbols`; `exits`: the days on which they end, each the day after the entry.
    """
    column = {code: place for place, code in enumerate(fit.codes)}
    order = [column[symbol] for symbol in symbols]
    rows = np.searchsorted(fit.days, exits)
    residuals = np.where(fit.has_return, fit.residuals, 0.0)[rows][:, order]
    return np.asarray((weights * residuals).sum(axis=1))


def selection_of(gains: Array) -> IntervalEstimate:
    """Return the sum of daily selection with its 95 % interval, in currency."""
    total = float(gains.sum())
    if len(gains) < 2:
        return IntervalEstimate(value=total, n=len(gains), reason="fewer than two days")
    interval = Bootstrap(gains).sum()
    return IntervalEstimate(
        value=total,
        low=interval.low,
        high=interval.high,
        n=len(gains),
        kind="blocks of days",
        reason=interval.reason or "",
    )
