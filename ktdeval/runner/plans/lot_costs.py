"""Check before a run whether an account can buy the smallest lots of its market."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ktdeval.cards.table_types import percent
from ktdeval.market.snapshots.snapshot import FloatArray, MarketSnapshot
from ktdeval.task_api.episode_spec import Window
from ktdeval.task_api.trading_task import Task
from ktdeval.trading.market_rules import MarketRules

MAX_UNAFFORDABLE = 0.2
"""Largest share of the universe whose smallest lot may cost more than an equal part of the account.
Above it, the lot rule decides which orders are filled.
"""
_AFFORDED = 0.9
"""Share of the universe whose smallest lot the advised account can buy."""


@dataclass(frozen=True)
class LotCosts:
    """Cost of the smallest buys in a market, next to an equal part of an account."""

    costs: FloatArray  #: cost of the smallest buy of each asset, in currency units, [assets]
    part: float  #: cash for one name if all names that may be held have equal weights

    @property
    def share(self) -> float:
        """Share of the assets of which an equal part of the account can't buy a lot."""
        return float(np.mean(self.costs > self.part))

    @property
    def factor(self) -> float:
        """Factor by which the account must grow to buy a lot of `_AFFORDED` of the assets."""
        return float(np.quantile(self.costs, _AFFORDED)) / self.part


def lot_costs(task: Task, market: MarketSnapshot, first: str) -> LotCosts | None:
    """Return the cost of a lot of each member on the last day before `first`; None if no member has
    a price.
    """
    row = int(np.searchsorted(market.days, np.datetime64(first))) - 1
    if row < 0:
        return None

    rules = MarketRules.of(market, task.trading)
    smallest = [
        max(terms.lot, terms.min_buy) / scale.steps_per_unit
        for terms, scale in zip(rules.terms, rules.scales, strict=True)
    ]
    costs = np.array(smallest) * market.close[row]
    known = costs[market.member[row] & np.isfinite(costs)]
    if not len(known):
        return None

    weight = min(1.0 / task.trading.max_positions, task.trading.max_weight)
    return LotCosts(known, task.trading.initial_cash * weight)


def notes_on_lots(
    tasks: Iterable[Task], market: MarketSnapshot, windows: Iterable[Window]
) -> Iterator[str]:
    """Yield a note for each task whose account is too small for the lots of its market at the start
    of its first window.
    """
    starts = sorted(window.first for window in windows)
    for task in tasks if starts else ():
        found = lot_costs(task, market, starts[0])
        if found is None or found.share <= MAX_UNAFFORDABLE:
            continue

        trading = task.trading
        needed = _round_up(trading.initial_cash * found.factor)
        yield (
            f"{task.name}: {market.currency} {trading.initial_cash:,} in {trading.max_positions} names"
            f" is {found.part:,.0f} a name, less than the smallest lot of {percent(found.share, '.0f')}"
            f" of the universe (median {np.median(found.costs):,.0f}): the lot rule would reject most"
            f" such orders; give the account more cash, in a task file with `extends: {task.name}`"
            f" and `trading: {{initial_cash: {needed}}}` (docs/markets.md)"
        )


def _round_up(cash: float) -> int:
    """Return the next amount of 1, 2 or 5 times a power of ten."""
    power = 10 ** int(np.floor(np.log10(cash)))
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= cash))
