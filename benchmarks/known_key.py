"""What a mask key is worth: a trader that computes every label from it, and holds the market's history.

With the key and the window, the first label of `blinded_memory_only` names its stock, although the
task shows no figure of the market. A key is known to whoever drew it, to whoever was given it
(`--mask-key`), and to everybody once a board has published it. The trader buys what rises most over
the next days (`foresight_trading`), under the rules of the task.

    python benchmarks/known_key.py --data csi300
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from foresight_bound import foresight_bound
from informed_traders import INITIAL_MINOR, InformedTrader, baseline, opened
from known_history import KnownHistory
from played_episodes import PLUGINS, market_of, total_return

from ktdeval.market import window_rows

TASKS = ("blinded_memory_only", "stock_blind_memory_only", "date_blind_memory_only")
WINDOWS = tuple(f"W{number}" for number in range(1, 11))


@dataclass(frozen=True)
class Row:
    """Returns of one window, as fractions."""

    task: str
    window: str
    first_listed: float
    known_key: float
    foresight: float  #: most that any account can earn

    def __str__(self) -> str:
        returns = (self.first_listed, self.known_key, self.foresight)
        shown = " | ".join(f"{100 * value:+,.1f} %" for value in returns)
        return f"| `{self.task}` | {self.window} | {shown} |"


class KeyHolder(InformedTrader):
    """A trader that knows the first day, and the stock of each label, before it is asked."""

    @classmethod
    def of(cls, history: KnownHistory, name: str, window: str, seed: int) -> KeyHolder:
        """Compute what the key of `opened` shows of an episode."""
        task = PLUGINS.make_task(name)
        market = history.market
        span = task.windows[window]
        start, stop = window_rows(market.days, span.first, span.last)
        trader = cls(history, windows={start - 1: stop - 1}, trading=task.trading)
        trader.known.base = start - 1

        lens = opened(market, name, trader, window, seed).lens
        for asset in range(len(market.codes)):
            trader.known.named[lens.asset_handle(asset)] = asset

        return trader


def row_of(history: KnownHistory, name: str, window: str, seed: int = 0) -> Row:
    """Play a window of a task with and without its key."""
    market = history.market
    task = PLUGINS.make_task(name)
    trader = KeyHolder.of(history, name, window, seed)
    plain = baseline(market, name, "builtin/first_listed", [window], 1).mean
    known = total_return(opened(market, name, trader, window, seed), INITIAL_MINOR)
    bound = foresight_bound(market, task.windows[window], task.trading, None)
    return Row(name, window, plain, known, bound)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="synthetic", help="a snapshot's folder")
    parser.add_argument("--tasks", default=TASKS[0])
    parser.add_argument("--windows", default=",".join(WINDOWS))
    options = parser.parse_args()

    history = KnownHistory(market_of(options.data))
    print("| task | window | `first_listed` | known key | at most |\n|---|---|--:|--:|--:|")
    for name in options.tasks.split(","):
        rows = []
        for window in options.windows.split(","):
            rows.append(row_of(history, name, window))
            print(rows[-1], flush=True)

        ahead = sum(row.known_key > row.first_listed for row in rows)
        mean = 100 * float(np.mean([row.known_key for row in rows]))
        print(f"\n{name}: ahead in {ahead} of {len(rows)} windows, mean {mean:+,.0f} %\n")


if __name__ == "__main__":
    main()
