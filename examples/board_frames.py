"""Write the tables of a board as Parquet and CSV, from its repository and its built site.

    ktdeval leaderboard build my-board --out site
    python examples/board_frames.py my-board site frames

`rows` has a row for each row of each division, `daily` one for each day of each executed episode.
Fractions are fractions: 0.1 is 10 %.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ktdeval.values import without_formula

_FACTS = ("card", "label", "model", "agent", "settings", "strategy", "submitter", "submitted_on")
_STANDING = ("baseline", "tier", "ranked", "rank", "shared_rank", "worst_rank", "alpha_rank")


def list_rows(site: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of all divisions over all windows; `why`: reasons against a rank."""
    for path in sorted(site.glob("data/division/*/all.json")):
        table = json.loads(path.read_text(encoding="utf-8"))
        for row in table["rows"]:
            cells = {"division": table["division"]}
            cells |= {name: row[name] for name in (*_FACTS, *_STANDING)}
            cells["why"] = "; ".join(row["why"])
            cells["labels"] = "; ".join(row["labels"])
            for place, name in enumerate(table["columns"]):
                cells[name] = row["values"][place]
                cells[f"{name}_low"] = row["low"][place]
                cells[f"{name}_high"] = row["high"][place]
                cells[f"{name}_bounds"] = row["interval"][place]
                cells[f"{name}_n"] = row["n"][place]
                cells[f"{name}_reason"] = row["reasons"].get(name)

            yield cells


def list_days(board: Path) -> Iterator[dict[str, Any]]:
    """Yield NAV and benchmark, over their values before the first day, by day of each episode."""
    for path in sorted(board.glob("series/*.json")):
        series = json.loads(path.read_text(encoding="utf-8"))
        for episode in series["episodes"]:
            names = {"card": series["card"], "episode": episode["id"]}
            names |= {name: episode[name] for name in ("window", "seed")}
            benchmark = episode["benchmark"] or [None] * len(episode["nav"])
            levels = zip(episode["days"], episode["nav"][1:], benchmark[1:], strict=True)
            for day, nav, index in levels:
                yield {**names, "day": day, "nav": nav, "benchmark": index}


def main(board: Path, site: Path, out: Path) -> None:
    """Write the two tables into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in (("rows", list_rows(site)), ("daily", list_days(board))):
        frame = pd.DataFrame(rows)
        frame.to_parquet(out / f"{name}.parquet", index=False)
        # A spreadsheet would run a text that begins as a formula does; submitters choose names.
        plain = frame.map(lambda cell: without_formula(cell) if isinstance(cell, str) else cell)
        plain.to_csv(out / f"{name}.csv", index=False)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
