"""What to hold, for whoever knows the days to come: the values of the bound on perfect foresight
(`foresight_bound`), as a rule of trading.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from foresight_bound import Choices, DayValues, choices_of, values_of_days
from known_history import KnownHistory

from ktdeval.trading.types import TradingConfig

AHEAD = 8  #: fill days looked ahead
TOPPED_UP = 0.01  #: least weight that is worth a purchase more


@dataclass(frozen=True)
class Plan:
    """Weights to buy up to, the best first, and what to sell; by label."""

    buys: Mapping[str, float]
    sales: Sequence[str]


class Foresight:
    """What the next days are worth, for each stock and for one that is not known."""

    def __init__(
        self, history: KnownHistory, trading: TradingConfig, windows: Mapping[int, int]
    ) -> None:
        self._history = history
        self._trading = trading
        self._windows = windows  #: row of day_+0 -> row of the last fill day

    def values(self, bases: Sequence[int], step: int, unnamed: np.ndarray) -> DayValues:
        """Values of the next fill day's choices: each stock, then one of those unnamed ([N]), at the
        mean of all of them. Of several first days that an episode may have, the mean.
        """
        parts = [self._choices(base, step, unnamed) for base in bases]
        length = min(len(part.growth) for part in parts)
        growth = np.mean([part.growth[:length] for part in parts], axis=0)
        can_open = np.mean([part.can_open[:length] for part in parts], axis=0) >= 0.5
        mean = replace(
            parts[0],
            growth=growth,
            gain=growth - 1.0,
            can_open=can_open,
            cap=parts[0].cap[:length],
            budget_holds=parts[0].budget_holds[:length],
        )
        return values_of_days(mean)[0]

    def wanted(self, base: int, step: int) -> np.ndarray:
        """[N] worth of knowing each stock's label over the next days."""
        choices = self._choices(base, step, np.zeros(0, dtype=int))
        worth = np.zeros(choices.growth.shape[1] - 1)
        for number, day in enumerate(values_of_days(choices)):
            ratio = np.maximum(0.0, day.ratio[:-1])
            worth += 0.8**number * ratio**4

        return worth / max(worth.max(), 1e-12)

    def _choices(self, base: int, step: int, unnamed: np.ndarray) -> Choices:
        tape = self._history.tape(self._trading)
        first = base + step + 1
        last = min(self._windows.get(base, len(tape.open_ticks) - 1), first + AHEAD - 1)
        rows = np.arange(first, max(last, first) + 1)
        rows = rows[rows < len(tape.open_ticks)]
        if not len(rows):
            rows = np.array([len(tape.open_ticks) - 1])

        choices = choices_of(tape, rows)
        count = choices.growth.shape[1]
        others = np.where(choices.can_open[:, unnamed], choices.growth[:, unnamed], np.nan)
        with warnings.catch_warnings(action="ignore"):
            mean = np.nan_to_num(np.nanmean(others, axis=1, keepdims=True), nan=1.0)

        def widened(values: np.ndarray) -> np.ndarray:
            return np.append(values, values[:1]) if count else values

        return replace(
            choices,
            growth=np.hstack([choices.growth, mean]),
            gain=np.hstack([choices.gain, mean - 1.0]),
            can_open=np.hstack([choices.can_open, np.ones_like(mean, dtype=bool)]),
            cap=np.hstack([choices.cap, np.full_like(mean, choices.weight)]),
            opening_fee=widened(choices.opening_fee),
            closing_fee=widened(choices.closing_fee),
            budget=widened(choices.budget),
        )


def planned(
    values: DayValues,
    columns: Mapping[str, int],
    held: Mapping[str, float],
    limits: tuple[TradingConfig, float],
) -> Plan:
    """What to buy and sell. `columns`: of the labels that can be bought; `held`: label -> weight;
    `limits`: the task's rules, and the largest weight of all together.
    """
    trading, in_stocks = limits
    sales = [label for label in held if label in columns and not values.is_kept[columns[label]]]
    kept = {label: weight for label, weight in held.items() if label not in sales}
    room = trading.max_positions - len(kept)
    left = in_stocks - sum(kept.values())

    rising = [label for label in columns if values.ratio[columns[label]] > 0.0]
    rising.sort(key=lambda label: -values.ratio[columns[label]])
    buys: dict[str, float] = {}
    for label in rising:
        before = kept.get(label, 0.0)
        more = min(trading.max_weight - before, left)
        if label in sales or more < TOPPED_UP or (label not in kept and not room):
            continue

        room -= label not in kept
        left -= more
        buys[label] = before + more

    return Plan(buys, sales)
