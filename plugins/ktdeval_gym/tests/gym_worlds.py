"""Tasks on a market made by hand, for environments; what environments return, as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ktdeval.market import Instrument, MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import choose_windows
from ktdeval.testing import snapshot_of_days
from ktdeval_gym.open_task import OpenedTask, TaskChoice
from ktdeval_markets.task import MarketTask

MSFT = "investorbench_msft_history"


def as_bytes(value: Any) -> Any:
    """An array or number as bytes; arrays by name as bytes by name."""
    if isinstance(value, dict):
        return {name: np.asarray(array).tobytes() for name, array in value.items()}

    return np.asarray(value).tobytes()


# ---- tasks on a small market of US shares


CODES = ("AAA", "BBB", "CCC", "DDD")
BASE = 70  #: row of the first decision
LEVELS = (1000.0, 1010.0)  #: of the index on even and odd rows


def moved_market() -> MarketSnapshot:
    """A market that stands still until the close of `BASE`, on which AAA rises by 10%, BBB triples
    and CCC falls by 1%. Then each day opens where the day before has closed; AAA gains 20% on the
    first, and leaves the index after the second. DDD is new: it has ten days before `BASE`.
    """
    days = BASE + 6
    closes: list[list[float | None]] = [
        [50.0, 20.0, 100.0, None if row < BASE - 10 else 10.0] for row in range(days)
    ]
    closes[BASE] = [55.0, 60.0, 99.0, 10.0]
    closes[BASE + 1] = [66.0, 60.0, 99.0, 10.0]
    closes[BASE + 2] = [64.0, 63.0, 97.0, 10.5]
    closes[BASE + 3] = [68.0, 61.0, 98.0, 10.1]
    closes[BASE + 4] = [67.0, 62.0, 95.0, 9.9]
    closes[BASE + 5] = [69.0, 64.0, 96.0, 9.7]
    opens = [closes[0], *closes[:-1]]
    opens[BASE - 10] = [50.0, 20.0, 100.0, 10.0]
    market = snapshot_of_days(
        CODES,
        opens,
        closes,
        member=[[row <= BASE + 2, True, True, row >= BASE - 10] for row in range(days)],
        instruments=tuple(Instrument("stock", "USD", "us_equity") for _ in CODES),
    )
    levels = np.array([LEVELS[row % 2] for row in range(days)])
    weekdays = np.busday_offset(np.datetime64("2024-01-01"), np.arange(days), roll="forward")

    return replace(market, days=weekdays, indices={"000300.SH": levels})


def opened_on(
    market: MarketSnapshot, name: str, days: Sequence[tuple[int, int]], **changes: Any
) -> OpenedTask:
    """A task of the markets' family, with changes of its config, opened on a market; windows from
    the row of a first fill to that of a last one.
    """
    plugins = load_plugins()
    task = plugins.make_task(name)

    assert isinstance(task, MarketTask)

    config = replace(task._config, **changes)

    if config.assets:
        config = replace(config, assets=market.codes)

    chosen = tuple(f"{market.days[first]}:{market.days[last]}" for first, last in days)
    own = MarketTask(name, config)
    windows = tuple(window for window in choose_windows(own, chosen) if window is not None)

    return OpenedTask(TaskChoice(name, windows=chosen), plugins, own, market, windows)
