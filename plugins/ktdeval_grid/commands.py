"""`ktdeval grid status`, `ktdeval plan` for a grid, and `ktdeval list plans`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ktdeval.cli import (
    FilePath,
    JsonOptions,
    OutputPath,
    RunOptionsCommand,
    complete_words,
    example,
    flag,
    line_width,
    options_of,
    print_json,
)
from ktdeval.errors import UsageError
from ktdeval.values import near_matches, to_plain
from ktdeval_grid.launch.driver import Request
from ktdeval_grid.launch.launch_command import forecast
from ktdeval_grid.launch.launch_display import make_watcher
from ktdeval_grid.planning.plan_overrides import PLAN, RUN_NAMES, PlanOptions, plan_of_line
from ktdeval_grid.planning.pruning_rules import shipped_rules
from ktdeval_grid.planning.shipped_plans import shipped_plans
from ktdeval_grid.state.layout import open_place
from ktdeval_grid.state.printed_status import assumption_lines, estimate_lines, status_lines
from ktdeval_grid.state.status import GridStatus, GridWatch, look, reader_of

_LOOK_S = 1.0
_FOLDER = click.argument("folder", type=FilePath(), metavar="DIR")


# ---- status


@dataclass(frozen=True, kw_only=True)
class StatusOptions(JsonOptions):
    """Options of `grid status`."""

    watch: bool = flag(False, help="keep watching until no unit is running")


@example("ktdeval grid status anchor --watch")
@click.command()
@_FOLDER
@options_of(StatusOptions)
def status(folder: Path, options: StatusOptions) -> None:
    """Show the state of a grid: units done, running and failed, cost and time left, by model.

    It only reads the folder, so it works on any machine that sees it, while the grid runs and
    afterwards.
    """
    place = open_place(folder)
    reader = reader_of(place.store)
    if options.watch:
        _watch(reader, options.as_json)
        return

    found, now = look(reader)
    if options.as_json:
        print_json({**_plain_status(now), "running": sorted(found.running)})
        return

    for line in status_lines(now, line_width()):
        click.echo(line)


def _watch(reader: GridWatch, as_json: bool) -> None:
    """Show a grid until none of its units is running."""
    watcher = make_watcher(as_json)
    try:
        while True:
            found, now = look(reader)
            watcher.show(found, now)
            if not found.running and (now.is_finished or not now.paused):
                break
            time.sleep(_LOOK_S)
    finally:
        watcher.close()


def _plain_status(value: GridStatus) -> dict[str, object]:
    plain = to_plain(value)
    return dict(plain) if isinstance(plain, dict) else {}


# ---- estimate, plans


@dataclass(frozen=True, kw_only=True)
class EstimateOptions(PlanOptions, JsonOptions):
    """Options of `ktdeval plan` for a grid that `ktdeval run` does not have."""

    out: Path | None = flag(
        None,
        help="folder of the grid, to estimate its remaining work",
        type=OutputPath("folder"),
        metavar="DIR",
    )
    workers: int = flag(1, help="worker processes", type=click.IntRange(1, 10_000), metavar="N")


@example("ktdeval plan ktd-fin-appendix-j")
@click.command(cls=RunOptionsCommand, run_names=RUN_NAMES)
@PLAN
@options_of(EstimateOptions)
def estimate(plan: str | None, options: EstimateOptions, **values: Any) -> None:
    """Estimate calls, tokens, dollars and hours of a grid: low, typical and high, by model.

    Calls no model and needs no key.
    """
    made = plan_of_line(plan, options, values)
    place = str(options.out or f"ktdeval-grids/{made.name}")
    request = Request(plan=made, out=place, workers=options.workers, runner="local")
    found = forecast(request)
    if options.as_json:
        print_json(to_plain(found))
        return

    for line in (*estimate_lines(found, line_width()), *assumption_lines(found)):
        click.echo(line)


@example("ktdeval list plans")
@click.command()
@click.argument("name", required=False, shell_complete=complete_words(shipped_plans()))
def plans(name: str | None) -> None:
    """List the plans of grids and the rules of pruning that ship, or print one plan, to be copied
    and changed.
    """
    shipped = shipped_plans()
    if name is not None:
        if name not in shipped:
            raise UsageError(
                f"no plan {name!r}{near_matches(name, shipped)}; plans are {', '.join(shipped)}"
            )
        click.echo(shipped[name].read_text(encoding="utf-8"), nl=False)
        return

    click.echo("plans")
    for each in shipped:
        click.echo(f"  {each}")

    click.echo("pruning rules")
    for rule in shipped_rules().values():
        click.echo(f"  {rule.name}: {rule.reason}")
