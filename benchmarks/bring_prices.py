"""What a program can bring to a masked task: the file for `informed_program.py`.

    python benchmarks/bring_prices.py --data csi300 --windows W1 --out brought.json
    ktdeval --model remote/informed --agent command --data csi300 --windows W1 --tasks blinded_open_research \
        --agent-args 'run=python3 informed_program.py brought.json' --out run

For each day of the windows the file has the index return that names the day, each member's close that
names its label, the screens to ask for, and what each stock is worth at the next open. All of it follows
from public prices, so nothing that the sandbox could find is needed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from best_screens import best_screens
from foresight_trading import Foresight
from known_history import KnownHistory

from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.registry import load_plugins

TASK = "blinded_open_research"
CALLS = 12


def brought(history: KnownHistory, windows: Sequence[str]) -> list[dict[str, Any]]:
    """A record of each day on which something is decided."""
    market = history.market
    task = load_plugins().make_task(TASK)
    days = []
    for window in windows:
        span = task.windows[window]
        start, stop = window_rows(market.days, span.first, span.last)
        base = start - 1
        foresight = Foresight(history, task.trading, {base: stop - 1})
        for step in range(stop - start):
            row = base + step
            members = np.flatnonzero(market.member[row])
            values = foresight.values([base], step, np.zeros(0, dtype=int))
            wanted = foresight.wanted(base, step) + 1e-4
            known = members[np.isfinite(history.last_closes[row, members])].tolist()
            rising = [a for a in range(len(market.codes)) if values.ratio[a] > 0.0]
            days.append(
                {
                    "index": round(float(history.index_returns_pct[row, 0]), 3),
                    "closes": {a: round(float(history.last_closes[row, a]), 2) for a in known},
                    "screens": best_screens(history, row, wanted, CALLS),
                    "best": sorted(rising, key=lambda a: -values.ratio[a]),
                    "sell": np.flatnonzero(~values.is_kept[:-1]).tolist(),
                }
            )

    return days


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="a snapshot's folder")
    parser.add_argument("--windows", default="W1")
    parser.add_argument("--out", type=Path, default=Path("brought.json"))
    options = parser.parse_args()
    history = KnownHistory(load_snapshot(Path(options.data)))
    options.out.write_text(json.dumps(brought(history, options.windows.split(","))))
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
