"""Ledgers of simple strategies, played through the executor without a model: inputs for tests of
statistics.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ktdeval.harness.agent import Decision, StepCounts
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.runner.episodes.bookkeeper import Bookkeeper
from ktdeval.trading.ledger import Ledger
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Account, Action, Order, TradingConfig

Strategy = Callable[[Account, int], Action]
"""Account and row of the decision -> orders."""


def play(
    market: MarketSnapshot, strategy: Strategy, rows: range, config: TradingConfig | None = None
) -> Ledger:
    """The ledger of a strategy that decides on each of `rows` and fills on the next."""
    config = config or TradingConfig()
    books = Bookkeeper(market, MarketTape.from_snapshot(market, config), config, rows.start)
    steps = [
        books.book(
            number,
            Decision(strategy(books.account, row), "model", "because", ()),
            StepCounts().record(),
        )
        for number, row in enumerate(rows)
    ]

    return Ledger({"task": "test", "seed": 0}, config.initial_cash * 100, steps)


def rotation(
    market: MarketSnapshot, seed: int, names: int = 20, swaps: int = 3, every: int = 1
) -> Strategy:
    """Holds `names` members by a score drawn anew each day, swapping at most `swaps` of them every
    so many days.
    """
    rng = np.random.default_rng(seed)

    def strategy(account: Account, row: int) -> Action:
        scores = rng.random(len(market.codes))
        if row % every:
            return ()

        good = [
            int(asset)
            for asset in np.argsort(-scores)
            if market.member[row, asset] and market.volume[row, asset] > 0
        ]
        held = sorted(account.positions, key=lambda asset: float(scores[asset]))
        out = held[:swaps] if len(held) >= names else []
        fresh = [asset for asset in good if asset not in account.positions][
            : names - len(held) + len(out)
        ]
        confidence = [
            float(value) for value in np.round(0.5 + 0.5 * rng.random(len(out) + len(fresh)), 2)
        ]
        sells = [
            Order(
                asset, "SELL", confidence.pop(), "rotation", None, account.positions[asset].shares
            )
            for asset in out
        ]
        buys = [
            Order(asset, "BUY", confidence.pop(), "rotation", 0.95 / names, None) for asset in fresh
        ]

        return (*sells, *buys)

    return strategy
