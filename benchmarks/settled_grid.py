"""Error and savings of grids that end where the order of their systems is settled: the last table of
docs/uncertainty.md, and the same for a recorded grid.

    python benchmarks/settled_grid.py [--trials 2000] [--seed 0]   # simulated grids
    python benchmarks/settled_grid.py --grid FOLDER                # a finished grid with `settle`

Each trial is a grid of four systems on ten windows, which the grid's own code looks at. It is run to
its end, and once more window by window without the units of systems whose pairs are all settled. Figures
are a normal effect of the window, which all systems share, and normal noise of each system.

* no effect: all systems are alike, so that each settled pair is an error;
* one leads: the first system is better by one standard deviation of a difference;
* in a row: each system is better than the next by as much.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import structs

from ktdeval.stats.distributions import beta_quantile
from ktdeval.stores import LocalStore
from ktdeval_grid.planning.plan import plan_of, systems
from ktdeval_grid.state.grid_control import Control
from ktdeval_grid.state.records import GRID_VERSION, GridRecord, GridSystem, GridUnit
from ktdeval_grid.state.settled_pairs import (
    PairLook,
    find_pairs,
    find_settling_looks,
    looks_to_make,
    units_not_run,
    windows_by_task,
)
from ktdeval_grid.state.status import look, reader_of

TASK = "blinded_open_research"
WINDOWS = 10
LOOKS = (6, 8, 10)
ALPHA = 0.05
MODELS = ("builtin/momentum", "builtin/reversal", "builtin/hold", "builtin/random")
LAWS: Mapping[str, tuple[float, ...]] = {
    "no effect": (0.0, 0.0, 0.0, 0.0),
    "one leads": (1.0, 0.0, 0.0, 0.0),
    "in a row": (3.0, 2.0, 1.0, 0.0),
}
RULES = ("obrien-fleming", "pocock")


@dataclass(frozen=True)
class Ended:
    """A grid, as it ended."""

    decisions: dict[str, tuple[int, int]]  #: look and sign by pair, of settled pairs
    run: int  #: units that were run
    unrun: frozenset[str]


def simulated_record(spending: str, alpha: float) -> GridRecord:
    """Return the record of a grid that no worker has begun."""
    settle = {
        "metric": "total_return",
        "looks": list(LOOKS),
        "effect": 0.01,
        "spending": spending,
        "alpha": alpha,
    }
    names = [f"W{number}" for number in range(1, WINDOWS + 1)]
    plan = plan_of(
        {
            "models": list(MODELS),
            "tasks": [TASK],
            "windows": names,
            "settle": settle,
            "stop_when": "settled",
        },
        "plan",
    )
    made = []
    for number, system in enumerate(systems(plan)):
        units = tuple(GridUnit(f"{number}-{name}", TASK, name, 0) for name in names)
        made.append(
            GridSystem(system.slug, system.model.short, system.agent.short, None, None, units)
        )

    return GridRecord(GRID_VERSION, "0", plan, "0" * 32, None, "", tuple(made))


def run_whole(record: GridRecord, figures: Mapping[str, float | None]) -> Ended:
    """Return how a grid ends whose units are all run."""
    looks = {made.name: made for made in looks_to_make(record, figures, {})}
    return Ended(_decisions(looks), len(figures), frozenset())


def run_by_window(record: GridRecord, figures: Mapping[str, float | None]) -> Ended:
    """Return how a grid ends that runs a window of all systems after the other, without the units
    that are not run any more.
    """
    done: dict[str, float | None] = {}
    looks: dict[str, PairLook] = {}
    unrun: dict[str, str] = {}
    for task, names in windows_by_task(record).items():
        for name in names:
            for _, unit in record.units():
                is_due = (unit.task, unit.window) == (task, name) and unit.id in figures
                if is_due and unit.id not in unrun:
                    done[unit.id] = figures[unit.id]

            looks |= {made.name: made for made in looks_to_make(record, done, looks)}
            unrun = units_not_run(record, looks, Control(), done)

    return Ended(_decisions(looks), len(done), frozenset(unrun))


def _decisions(looks: Mapping[str, PairLook]) -> dict[str, tuple[int, int]]:
    return {pair: (made.look, made.sign) for pair, made in find_settling_looks(looks).items()}


def drawn_figures(
    record: GridRecord, means: Sequence[float], rng: np.random.Generator
) -> dict[str, float | None]:
    """Return a figure for each unit; a difference of two systems has standard deviation 1."""
    shared = rng.standard_normal(WINDOWS)
    figures: dict[str, float | None] = {}
    for system, mean in zip(record.systems, means, strict=True):
        own = rng.standard_normal(WINDOWS) / math.sqrt(2.0)
        for unit, value in zip(system.units, mean + shared + own, strict=True):
            figures[unit.id] = float(value)

    return figures


def table_lines(trials: int, seed: int) -> Iterator[str]:
    """Yield the table of simulated grids."""
    yield (
        "| law | rule | error of a pair | 95 % interval | any error, alpha / 6 | pairs settled |"
        " other decisions than to the end | units saved |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for number, (law, means) in enumerate(LAWS.items()):
        for spending in RULES:
            yield _row(law, means, spending, trials, np.random.default_rng([seed, number]))


def _row(
    law: str, means: Sequence[float], spending: str, trials: int, rng: np.random.Generator
) -> str:
    record = simulated_record(spending, ALPHA)
    pairs = list(find_pairs(record))
    strict = simulated_record(spending, ALPHA / len(pairs))
    alike = _alike_pairs(record, means)
    wrong = any_wrong = first_wrong = settled = others = saved = 0
    for _ in range(trials):
        figures = drawn_figures(record, means, rng)
        ended = run_by_window(record, figures)
        others += ended.decisions != run_whole(record, figures).decisions
        errors = alike & ended.decisions.keys()
        wrong += len(errors)
        first_wrong += pairs[-1].name in errors
        settled += len(ended.decisions)
        saved += len(figures) - ended.run
        any_wrong += bool(alike & run_by_window(strict, figures).decisions.keys())

    low, high = _error_bounds(first_wrong, trials)
    units = trials * WINDOWS * len(MODELS)
    error = bounds = family = "–"
    if alike:
        error = f"{wrong / (trials * len(alike)):.2%}"
        bounds = f"{low:.2%} … {high:.2%}"
        family = f"{any_wrong / trials:.2%}"

    return (
        f"| {law} | {spending} | {error} | {bounds} | {family} |"
        f" {settled / (trials * len(pairs)):.1%} | {others} of {trials} | {saved / units:.1%} |"
    )


def _alike_pairs(record: GridRecord, means: Sequence[float]) -> set[str]:
    """Return the names of the pairs of systems with the same mean."""
    mean_of = {system.slug: mean for system, mean in zip(record.systems, means, strict=True)}
    alike = set()
    for pair in find_pairs(record):
        if mean_of[pair.first.slug] == mean_of[pair.second.slug]:
            alike.add(pair.name)

    return alike


def _error_bounds(errors: int, trials: int) -> tuple[float, float]:
    """Return the exact 95 % interval of an error rate, of one pair for each grid: other pairs of it
    are not independent.
    """
    low = 0.0
    if errors:
        low = beta_quantile(errors, trials - errors + 1, 0.025)
    return low, beta_quantile(errors + 1, trials - errors, 0.975)


def recorded_lines(folder: Path) -> Iterator[str]:
    """Yield how a recorded grid would have ended with and without `stop_when: settled`."""
    found, _ = look(reader_of(LocalStore(folder)))
    record = found.record
    figures = {unit: entry.figure for unit, entry in found.done.items()}
    stopped = structs.replace(record, plan=structs.replace(record.plan, stop_when="settled"))
    whole = run_whole(record, figures)
    ended = run_by_window(stopped, figures)
    calls = sum(entry.calls for entry in found.done.values())
    saved = sum(entry.calls for unit, entry in found.done.items() if unit in ended.unrun)
    yield f"{len(figures)} finished units, {len(list(find_pairs(record)))} pairs"
    yield f"settled to the end: {len(whole.decisions)}, when stopped: {len(ended.decisions)}"
    yield f"equal decisions: {whole.decisions == ended.decisions}"
    yield f"units saved: {len(figures) - ended.run} ({1 - ended.run / len(figures):.1%})"
    yield f"model calls saved: {saved:,} of {calls:,}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or what a recorded grid saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--grid", type=Path, help="folder of a finished grid")
    options = parser.parse_args(arguments)
    lines = table_lines(options.trials, options.seed)
    if options.grid is not None:
        lines = recorded_lines(options.grid)

    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
