"""Traders of the same turnover whose names are drawn at random.

Each trader swaps the names of the entrant's orders by a random permutation. It buys for the same
amounts and sells the same shares of what it holds, at the same moments, so its turnover is that of
the entrant; only the choice of names is luck.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktdeval.values import derive_seed
from ktdeval_published.prices import Array, BoardBars, Stamps
from ktdeval_published.replay import ReplayTrade, day_ends

DRAWS = 999


def random_final_values(
    trades: Sequence[ReplayTrade], bars: BoardBars, cash: float, end: Stamps, name: str
) -> Array:
    """Return the final value of each random trader, without costs. Shape: [draws]. `end`: the last
    day. A name without a price at a fill is skipped: the trader then keeps its cash.
    """
    names = _tradable(bars, trades)
    generator = np.random.default_rng(derive_seed(name, "random names"))
    size = len(bars.symbols)
    mapping = np.empty((DRAWS, size), dtype=np.int64)
    for draw in range(DRAWS):
        mapping[draw] = np.arange(size)
        mapping[draw, names] = generator.permutation(names)

    held = np.zeros((DRAWS, size))
    money = np.full(DRAWS, cash)
    own = np.zeros(size)
    draws = np.arange(DRAWS)
    for trade in trades:
        columns = mapping[:, trade.column]
        price = bars.open[trade.row, columns]
        price = np.where(np.isnan(price), bars.last_close[trade.row, columns], price)
        price = np.where(np.isnan(price), np.inf, price)
        if trade.quantity > 0:
            spent = np.minimum(trade.quantity * trade.price, np.maximum(money, 0.0))
            spent = np.where(np.isfinite(price), spent, 0.0)
            bought = spent / price
            held[draws, columns] += bought
            money -= spent
        else:
            share = min(-trade.quantity / own[trade.column], 1.0) if own[trade.column] else 0.0
            sold = held[draws, columns] * share
            held[draws, columns] -= sold
            money += np.where(np.isfinite(price), sold * price, 0.0)
        own[trade.column] += trade.quantity

    row = day_ends(bars, end)[-1]
    closes = np.nan_to_num(bars.last_close[row])
    return np.asarray(money + held @ closes)


def _tradable(bars: BoardBars, trades: Sequence[ReplayTrade]) -> np.ndarray:
    """Return the columns with a price at every fill."""
    rows = sorted({trade.row for trade in trades})
    return np.flatnonzero(~np.isnan(bars.open[rows]).any(axis=0))
