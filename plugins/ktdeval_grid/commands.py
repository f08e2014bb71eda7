"""`ktdeval grid status`, `estimate` and `plans`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from ktdeval.cli import FilePath, OutputPath, example, line_width, print_json
from ktdeval.errors import UsageError
from ktdeval.values.fields import near_matches
from ktdeval.values.typed import to_plain
from ktdeval_grid.driver import Request
from ktdeval_grid.launching import forecast
from ktdeval_grid.layout import open_place
from ktdeval_grid.plan import GridPlan
from ktdeval_grid.plan_options import plan_options
from ktdeval_grid.pruning import shipped_rules
from ktdeval_grid.screen import assumption_lines, estimate_lines, status_lines
from ktdeval_grid.shipped import shipped_plans
from ktdeval_grid.status import GridStatus, GridWatch, look, reader_of
from ktdeval_grid.watchers import make_watcher

_LOOK_S = 1.0
_FOLDER = click.argument("folder", type=FilePath(), metavar="DIR")


# ---- status


@example("ktdeval grid status anchor --watch")
@click.command()
@_FOLDER
@click.option("--watch", is_flag=True, help="go on until nothing runs any more")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def status(folder: Path, watch: bool, as_json: bool) -> None:
    """Show where a grid stands: done, running, failed, cost and time left, by model.

    It reads the folder alone, so it works from any machine that sees it, while the grid runs and
    afterwards.
    """
    place = open_place(folder)
    reader = reader_of(place.store)
    if watch:
        _watch(reader, as_json)
        return

    found, now = look(reader)
    if as_json:
        print_json({**_plain(now), "running": sorted(found.running)})
        return

    for line in status_lines(now, line_width()):
        click.echo(line)


def _watch(reader: GridWatch, as_json: bool) -> None:
    """Show a grid until no unit of it is running."""
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


def _plain(value: GridStatus) -> dict[str, object]:
    plain = to_plain(value)
    return dict(plain) if isinstance(plain, dict) else {}


# ---- estimate, plans


@example("ktdeval grid estimate ktd-fin-appendix-j")
@click.command()
@plan_options
@click.option(
    "--out",
    type=OutputPath("folder"),
    metavar="DIR",
    help="folder of the grid, for what is left of it",
)
@click.option(
    "--workers", type=click.IntRange(1, 10_000), default=1, metavar="N", help="worker processes"
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def estimate(plan: GridPlan, out: Path | None, workers: int, as_json: bool) -> None:
    """Estimate calls, tokens, dollars and hours of a plan: low, typical and high, by model.

    Calls no model and needs no key.
    """
    place = str(out or f"ktdeval-grids/{plan.name}")
    found = forecast(Request(plan=plan, out=place, workers=workers, runner="local"))
    if as_json:
        print_json(to_plain(found))
        return

    for line in (*estimate_lines(found, line_width()), *assumption_lines(found)):
        click.echo(line)


@example("ktdeval grid plans ktd-fin > mine.yaml")
@click.command()
@click.argument("name", required=False)
def plans(name: str | None) -> None:
    """List the plans and rules of pruning that ship, or print one plan, to be copied and changed."""
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

    click.echo("rules of pruning")
    for rule in shipped_rules().values():
        click.echo(f"  {rule.name}: {rule.reason}")
