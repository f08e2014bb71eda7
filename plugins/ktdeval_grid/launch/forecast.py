"""Estimate of the work that remains for a launch, given what its grid has already done."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import click

from ktdeval.cli import PluginOptions, flag, open_plugins, options_of
from ktdeval.errors import UsageError
from ktdeval.runner import why_not_asked
from ktdeval.stores import value_name
from ktdeval.values import encode_canonical
from ktdeval_grid.launch.driver import Request, read_request
from ktdeval_grid.planning.estimate import estimate_grid
from ktdeval_grid.planning.estimate_types import GridEstimate
from ktdeval_grid.planning.plan import PlannedSystem, systems
from ktdeval_grid.planning.pruning_rules import PlannedCell
from ktdeval_grid.state.layout import GridPlace, open_place
from ktdeval_grid.state.records import DONE, GRID
from ktdeval_grid.state.status import load_record
from ktdeval_grid.workers.worker_run_folders import CALLS_AT_ONCE

#: key of an episode in a grid: system slug, task, window, seed
Known = tuple[str, str, str | None, int]


def estimate_request(request: Request) -> GridEstimate:
    """Estimate the work that remains in a launch's grid. Raises KtdevalError."""
    done = finished_cells(open_place(request.out))

    def is_done(system: PlannedSystem, cell: PlannedCell) -> bool:
        return (system.slug, cell.task, cell.window_name, cell.seed) in done

    plan = request.plan
    concurrency = plan.concurrency or request.workers * CALLS_AT_ONCE
    return estimate_grid(plan, open_plugins(plan.plugin), is_done, concurrency)


def finished_cells(place: GridPlace) -> set[Known]:
    """Return the finished episodes of a grid; empty if it has not begun."""
    store = place.store
    if not store.exists(GRID):
        return set()

    ids = {value_name(stat.key) for stat in store.list(DONE)}
    return {
        (system.slug, unit.task, unit.window, unit.seed)
        for system, unit in load_record(store).units()
        if unit.id in ids
    }


def check_beginning(request: Request, estimate: GridEstimate) -> None:
    """Raise UsageError if a launch has no system whose models can be called from this machine.

    If at least one system can start, problems with the others are reported when they occur.
    """
    # workers elsewhere have different API keys and a different network
    if request.runner != "local":
        return

    waiting = {model.name for model in estimate.models if model.episodes}
    plugins = open_plugins(request.plan.plugin)
    problems = []
    for system in systems(request.plan):
        if system.model.short not in waiting:
            continue

        problem = why_not_asked(system.config, plugins)
        if problem is None:
            return

        problems.append(f"{system.slug}: {problem}")

    if problems:
        unique = "; ".join(dict.fromkeys(problems))
        raise UsageError(f"no system of the grid can begin: {unique}")


@dataclass(frozen=True, kw_only=True)
class ForecastOptions(PluginOptions):
    """Options for the command that a launch calls."""

    begins: bool = flag(False, help="also check that a system can begin")


@click.command(hidden=True)
@options_of(ForecastOptions)
def forecast(options: ForecastOptions) -> None:
    """Print the estimate of the launch described on standard input as JSON; called by a launch."""
    request = read_request(sys.stdin.buffer.read())
    estimate = estimate_request(request)
    if options.begins:
        check_beginning(request, estimate)

    click.echo(encode_canonical(estimate))
