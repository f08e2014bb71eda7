"""The file of what informed traders earned (`informed_returns.csv`), and the tables made of it."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
from scipy import stats

FILE = Path(__file__).with_suffix(".csv")


@dataclass(frozen=True)
class Row:
    """What a trader earned in a window of a task."""

    task: str
    trader: str
    window: str
    return_pct: float
    day_found: str  #: over all windows, in words
    labels_named: str


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a file of returns."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in fields(Row)])
        writer.writerows(astuple(row) for row in rows)


def read_rows(path: Path = FILE) -> list[Row]:
    """Read a file of returns."""
    rows = []
    with path.open(encoding="utf-8", newline="") as file:
        for cells in csv.DictReader(file):
            names = (cells["task"], cells["trader"], cells["window"])
            value = float(cells["return_pct"])
            rows.append(Row(*names, value, cells["day_found"], cells["labels_named"]))

    return rows


def student_interval(returns: Sequence[float]) -> tuple[float, float]:
    """Return Student's 95 % interval of a mean; NaN of one value."""
    count = len(returns)
    if count < 2:
        return math.nan, math.nan

    mean = float(np.mean(returns))
    half = float(stats.t.ppf(0.975, count - 1) * np.std(returns, ddof=1) / math.sqrt(count))
    return mean - half, mean + half


@dataclass(frozen=True)
class Earned:
    """A mean over windows in per cent, with Student's 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, returns: Sequence[float]) -> Earned:
        """Summarise returns."""
        return cls(float(np.mean(returns)), *student_interval(returns))

    def __str__(self) -> str:
        if self.low == self.high == 0.0:
            return "0.0 %"
        digits = 0 if abs(self.mean) >= 100 else 1
        mean, low, high = (_signed(value, digits) for value in (self.mean, self.low, self.high))
        return f"{mean} % ({low} … {high})"


def _signed(value: float, digits: int) -> str:
    return f"{value:+,.{digits}f}".replace("-", "−")


def earned(rows: Sequence[Row], task: str, trader: str) -> Earned:
    """What a trader earned in a task."""
    return Earned.of([row.return_pct for row in rows if (row.task, row.trader) == (task, trader)])


def best_attacker(rows: Sequence[Row], task: str) -> Row:
    """A row of the trader that looks up and earned most on average in a task."""
    traders = {row.trader: row for row in rows if row.task == task and "informed" in row.trader}
    return max(traders.values(), key=lambda row: earned(rows, task, row.trader).mean)


# ---- tables of the documentation

FORESIGHT = "perfect foresight"
SHOWN = (
    "blinded_open_research",
    "stock_blind_open_research",
    "date_blind_open_research",
    "blinded_fixed_candidate",
    "stock_blind_fixed_candidate",
    "date_blind_fixed_candidate",
    "blinded_open_research_paper",
    "stock_blind_open_research_paper",
    "date_blind_open_research_paper",
)
HIDDEN = (
    "blinded_memory_only",
    "stock_blind_memory_only",
    "date_blind_memory_only",
    "blinded_memory_only_paper",
    "stock_blind_memory_only_paper",
    "date_blind_memory_only_paper",
)
REBASED = ("blinded_rebased_open_research", "blinded_rebased_fixed_candidate")


def table(rows: Sequence[Row], tasks: Sequence[str], rules: Sequence[str]) -> str:
    """A table of tasks: rules that know nothing, the best attacker, and the bound."""
    heads = [f"`builtin/{rule}`" for rule in rules]
    heads = ["task", *heads, "the holder, at least", "foresight, at most", "day found"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for task in tasks:
        best = best_attacker(rows, task)
        traders = [*(f"builtin/{rule}" for rule in rules), best.trader, FORESIGHT]
        cells = [str(earned(rows, task, trader)) for trader in traders]
        found = best.day_found or "not found"
        if task.startswith("stock_blind"):
            found = "shown"
        lines.append(f"| {' | '.join([f'`{task}`', *cells, found])} |")

    return "\n".join(lines)


def at_least_and_most(rows: Sequence[Row], task: str) -> str:
    """Both figures of a task in words."""
    least = earned(rows, task, best_attacker(rows, task).trader)
    most = earned(rows, task, FORESIGHT)
    return f"at least {least} an episode; perfect foresight earns at most {most}"


def main() -> None:
    rows = read_rows()
    for tasks, rules in (
        (SHOWN, ("first_listed", "momentum", "random")),
        (HIDDEN, ("first_listed", "random")),
        (REBASED, ("momentum", "random")),
    ):
        print(table(rows, tasks, rules), end="\n\n")
    for task in (*SHOWN, *HIDDEN, *REBASED):
        print(f"{task}: {best_attacker(rows, task).trader}: {at_least_and_most(rows, task)}")


if __name__ == "__main__":
    main()
