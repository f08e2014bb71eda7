"""`ktdeval grid PLAN`: show what is new and what it is estimated to cost, then run the plan to
completion.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from ktdeval.cli import (
    WORDS,
    OutputPath,
    PluginOptions,
    RunOptionsCommand,
    cores,
    example,
    flag,
    line_width,
    open_plugins,
    options_of,
    plugin_words,
    resume_line,
)
from ktdeval.errors import UsageError
from ktdeval.values import decode_json, encode_canonical, make_folder, maker, shown_path
from ktdeval_grid.launch.driver import (
    LOGS,
    Driver,
    LaunchResult,
    Request,
    check_result,
    read_request,
)
from ktdeval_grid.launch.json_events import EndLine, LaunchLine
from ktdeval_grid.launch.launch_display import make_watcher, print_line
from ktdeval_grid.planning.estimate_types import GridEstimate
from ktdeval_grid.planning.plan import GridPlan, batched_systems
from ktdeval_grid.planning.plan_overrides import PLAN, RUN_NAMES, PlanOptions, plan_of_line
from ktdeval_grid.state.amend import Amendment, amendment
from ktdeval_grid.state.layout import GridPlace, bytes_kept, open_place
from ktdeval_grid.state.printed_status import estimate_lines, status_lines
from ktdeval_grid.state.records import GRID
from ktdeval_grid.state.status import GridStatus, load_record
from ktdeval_grid.state.subprocess_command import own_command, run_forked

FOLDER = "ktdeval-grids"  #: default parent folder for grids
UNNAMED = "grid"  #: default name of a plan
_preload = maker("ktdeval_grid.launch.preload:preload")  # imports everything that workers run
_FAILED_ALONE = "--only failed: the grid does not exist yet; leave it out to begin one"


@dataclass(frozen=True, kw_only=True)
class LaunchOptions(PlanOptions):
    """Options of a launch, in addition to those of `ktdeval run`."""

    out: Path | None = flag(
        None,
        help=f"folder of the grid [default: {FOLDER}/NAME]",
        type=OutputPath("folder"),
        metavar="DIR",
    )
    workers: int | None = flag(
        None,
        help="worker processes [default: this machine's cores]",
        type=click.IntRange(1, 10_000),
        metavar="N",
    )
    only: Literal["failed"] | None = flag(
        None, help="run only units that failed before", type=click.Choice(["failed"])
    )
    as_json: bool = flag(
        False, name="--json", help="print one JSON object a line: launch, units, end"
    )
    detach: bool = flag(False, help="run in the background, with a log in the folder")
    yes: bool = flag(False, name="--yes -y", help="do not ask before money is spent")


@example("ktdeval grid ktd-fin --models builtin/random --out anchor")
@click.command(cls=RunOptionsCommand, run_names=RUN_NAMES)
@PLAN
@options_of(LaunchOptions)
def launch(plan: str | None, options: LaunchOptions, **values: Any) -> int:
    """Run a plan to its end: episodes, cards, tables, pages.

    Repeating the command resumes the grid and retries failed units. A changed plan amends the grid:
    only new units run. If a budget stops the launch, it prints the command that resumes with a
    larger one.
    """
    runner = values.pop("runner") or "local"
    made = plan_of_line(plan, options, values)
    place = open_place(_folder(made, options.out))
    request = Request(
        plan=made,
        out=str(place.root),
        workers=_workers(made, options.workers, runner),
        runner=runner,
        only="all" if options.only is None else "failed",
        words=click.get_current_context().meta[WORDS],
    )
    news = _news(place, request)
    may_fork: bool = _preload(request.plan, request.runner)
    estimate = forecast(request, begins=True, may_fork=may_fork)
    if not options.as_json:
        _tell_news(news, place)
        for line in estimate_lines(estimate, line_width()):
            click.echo(line)

    _confirm(estimate, has_agreed=options.yes or options.as_json)
    intent = _LaunchIntent(request, place, news, estimate, options.as_json, may_fork)
    if options.detach:
        return _detach(intent)

    return _drive_here(intent)


def _workers(plan: GridPlan, given: int | None, runner: str) -> int:
    """Return the number of workers. Raises UsageError if a grid with `--batch` would have
    several.
    """
    if not batched_systems(plan):
        return given or cores()
    if given not in (None, 1) or runner != "local":
        raise UsageError(
            "--batch: one worker makes the calls of all episodes; leave --workers and --runner out"
        )
    return 1


def _folder(plan: GridPlan, out: Path | None) -> str:
    """Return the folder for a grid.

    Raises UsageError if neither `out` nor the name of a plan is given.
    """
    if out is not None:
        return str(out)
    if plan.name == UNNAMED:
        raise UsageError("--out: name the folder of the grid, or give its plan a name")
    return f"{FOLDER}/{plan.name}"


def _news(place: GridPlace, request: Request) -> Amendment | None:
    """Return how the plan amends the grid; None if the grid is new. Raises UsageError."""
    if not place.store.exists(GRID):
        if request.only == "failed":
            raise UsageError(_FAILED_ALONE)
        return None

    return amendment(load_record(place.store).plan, request.plan)


def _tell_news(news: Amendment | None, place: GridPlace) -> None:
    where = shown_path(place.root)
    if news is None:
        click.echo(f"grid    {where} (new)")
    elif news.is_empty:
        click.echo(f"grid    {where} (goes on)")
    else:
        click.echo(f"grid    {where} (amended)")
        for line in news.lines():
            click.echo(line)


def forecast(request: Request, *, begins: bool = False, may_fork: bool = False) -> GridEstimate:
    """Estimate the work that remains in a grid, in a separate process, so that this process creates
    no API client.

    `begins`: also check that a system can start. `may_fork`: whether the other process may be a
    fork of this one. Raises UsageError with the other process's error.
    """
    words = ["grid", "forecast"]
    words += plugin_words(request.plan.plugin)
    if begins:
        words.append("--begins")

    content = encode_canonical(request).encode()
    if may_fork:
        done = run_forked(words, content)
    else:
        done = subprocess.run(  # noqa: S603 - our own command
            own_command(*words), input=content, capture_output=True, check=False
        )

    errors = done.stderr.decode("utf-8", errors="replace")
    if done.returncode:
        _, _, message = errors.strip().rpartition("ktdeval: error: ")
        raise UsageError(message or f"the estimate ended with {done.returncode}")

    click.echo(errors, err=True, nl=False)
    return decode_json(done.stdout, GridEstimate, "estimate")


def _confirm(estimate: GridEstimate, *, has_agreed: bool) -> None:
    """If the command runs in a terminal, ask for confirmation before money is spent.

    Raises click.Abort.
    """
    is_asked = sys.stdin.isatty() and sys.stderr.isatty()
    if estimate.costs_money and is_asked and not has_agreed:
        click.confirm("run it?", abort=True, err=True)


# ---- driving


@dataclass(frozen=True)
class _LaunchIntent:
    """A launch to be run, and how it is reported."""

    request: Request
    place: GridPlace
    news: Amendment | None  #: None if the grid is new
    estimate: GridEstimate | None
    as_json: bool
    may_fork: bool = False  #: whether workers may be forks of this process

    def line(self, launch: str, pid: int, log: Path | None) -> LaunchLine:
        """Return the line that announces the launch to programs."""
        news = self.news or Amendment((), (), ())
        return LaunchLine(
            launch=launch,
            name=self.request.plan.name,
            place=self.request.out,
            workers=self.request.workers,
            runner=self.request.runner,
            pid=pid,
            log=None if log is None else str(log),
            added=news.added,
            removed=news.removed,
            changed=news.changed,
            estimate=self.estimate,
        )


def _drive_here(intent: _LaunchIntent) -> int:
    """Drive a launch in this process and report how it ended."""
    request = intent.request
    plugins = open_plugins(request.plan.plugin)
    driver = Driver(request, intent.place, plugins, may_fork=intent.may_fork)
    if intent.as_json:
        print_line(intent.line(driver.launch.id, os.getpid(), None))

    watcher = make_watcher(intent.as_json)
    try:
        result = driver.run(watcher)
    except KeyboardInterrupt as interrupt:
        where = shown_path(intent.place.root)
        click.echo(
            f"stopped; finished steps are kept in {where}: run the same command again to resume",
            err=True,
        )
        raise click.Abort from interrupt
    finally:
        watcher.close()

    _tell_end(result, intent)
    check_result(result)
    return result.exit_code


def _tell_end(result: LaunchResult, intent: _LaunchIntent) -> None:
    if result.status is None:
        return

    resume = _resume_line(result.status, intent.request)
    if intent.as_json:
        _print_end(result, result.status, resume)
        return

    place = intent.place
    is_on_screen = sys.stderr.isatty() and sys.stdout.isatty()  # the table stays
    if not is_on_screen:
        for text in status_lines(result.status, line_width()):
            click.echo(text)

    done = result.status.total.done
    if done:
        each = bytes_kept(place.root) // done
        click.echo(f"kept    {each:,} bytes an episode, in {shown_path(place.root)}")

    if result.site is not None:
        click.echo(f"tables  {shown_path(result.site.parent.parent / 'tables')}")
        click.echo(f"site    {shown_path(result.site)}")

    if resume is not None:
        click.echo(f"resume  {resume}")


def _resume_line(status: GridStatus, request: Request) -> str | None:
    """Return the command that resumes the launch with larger budgets; None if no budget stopped a
    unit.
    """
    if status.needed is None:
        return None

    limits = {"max_cost": request.plan.max_cost, "max_tokens": request.plan.max_tokens}
    return resume_line(request.words, limits, status.needed)


def _print_end(result: LaunchResult, status: GridStatus, resume: str | None) -> None:
    """Print how a launch ended, as a JSON line."""
    line = EndLine(
        launch=result.launch,
        exit_code=result.exit_code,
        total=status.total,
        models=status.models,
        site=None if result.site is None else str(result.site),
        problems=result.problems,
        resume=resume,
    )
    print_line(line)


# ---- in the background


def _detach(intent: _LaunchIntent) -> int:
    """Start a driver in a new session, as a process that outlives this process and its terminal."""
    folder = intent.place.root / LOGS
    make_folder(folder)
    log = folder / "driver.log"
    words = ["grid", "drive", *plugin_words(intent.request.plan.plugin)]
    with log.open("ab") as stream:
        process = subprocess.Popen(  # noqa: S603 - our own command
            own_command(*words),
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )

    assert process.stdin is not None
    process.stdin.write(encode_canonical(intent.request).encode())
    process.stdin.close()
    if intent.as_json:
        print_line(intent.line("", process.pid, log))
    else:
        where = shown_path(intent.place.root)
        click.echo(f"driver  process {process.pid}, log {shown_path(log)}")
        click.echo(f"look    ktdeval grid status {where} --watch")
        click.echo(f"steer   ktdeval grid ctl {where} pause")

    # the driver is detached, so avoid the warning about a child that is still running
    process.returncode = 0
    return 0


@click.command(hidden=True)
@options_of(PluginOptions)
def drive(options: PluginOptions) -> int:  # noqa: ARG001 - `open_plugins` reads the line
    """Drive the launch described on standard input; called by `--detach`."""
    request = read_request(sys.stdin.buffer.read())
    may_fork: bool = _preload(request.plan, request.runner)
    place = open_place(request.out)
    intent = _LaunchIntent(request, place, None, None, as_json=False, may_fork=may_fork)
    return _drive_here(intent)
