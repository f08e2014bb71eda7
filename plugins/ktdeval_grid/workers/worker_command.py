"""`ktdeval grid worker`: one of any number of processes that work on a grid."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Literal

import click
from msgspec import structs

from ktdeval.cli import (
    FilePath,
    OutputPath,
    PluginOptions,
    can_fork,
    example,
    flag,
    handle_signals,
    open_plugins,
    options_of,
)
from ktdeval.errors import UsageError
from ktdeval.stores import open_store, read_value
from ktdeval.task_api import WITH_PARENT
from ktdeval_grid.outputs.final_outputs_process import WaitingTables, make_tables
from ktdeval_grid.planning.plan import load_plan
from ktdeval_grid.state.layout import open_place
from ktdeval_grid.state.records import Launch, launch_key
from ktdeval_grid.workers.gather_runs import AtEnd
from ktdeval_grid.workers.worker_session import (
    LEASE_S,
    GridSession,
    WorkerOptions,
    WorkerReport,
    check_report,
)

_STANDARD_INPUT = 0


@dataclass(frozen=True, kw_only=True)
class WorkOptions(PluginOptions):
    """Options of `grid worker`."""

    out: Path = flag(
        help="folder of the grid, which all workers share",
        type=OutputPath("folder"),
        metavar="DIR",
    )
    launch: str | None = flag(
        None, help="work on the plan of this launch of the grid", metavar="ID"
    )
    only: Literal["failed"] | None = flag(
        None, help="run only units that failed before", type=click.Choice(["failed"])
    )
    no_tables: bool = flag(
        False, help="do not make tables and pages; `ktdeval grid tables` makes them later"
    )
    lease_s: float = flag(
        LEASE_S,
        name="--lease",
        help=(
            "time without a heartbeat after which other workers take over a worker's units; the "
            "same for all workers"
        ),
        type=click.FloatRange(min=1, max=86_400),
        metavar="SECONDS",
    )


@example("ktdeval grid worker PLAN.yaml --out lab")
@click.command()
@click.argument("plan", type=FilePath(), metavar="[PLAN.yaml]", required=False)
@options_of(WorkOptions)
def worker(plan: Path | None, options: WorkOptions) -> None:
    """Work on a grid until nothing is left: run episodes, gather runs, make cards.

    Any number of workers share a grid: on one machine, or on the nodes of a cluster. Each takes
    units that no other worker holds; units of a dead worker are continued without repeating a step
    or a paid call.
    """
    work = _options(plan, str(options.out), options.launch)
    work = replace(work, lease_s=options.lease_s)
    if options.plugin and plan is not None:
        named = structs.replace(work.plan, plugin=options.plugin)
        work = replace(work, plan=named)

    if options.only is not None:
        work = replace(work, only_failed=True)

    plugins = open_plugins(work.plan.plugin)
    with ExitStack() as stack:
        at_end = None if options.no_tables else _tables(work.out, options.plugin, stack)
        session = GridSession(work, plugins, at_end)
        if os.environ.get(WITH_PARENT):
            threading.Thread(target=_stop_at_end_of_input, args=(session,), daemon=True).start()

        try:
            with stopping_on_signals(session):
                report = session.run()
        except KeyboardInterrupt as interrupt:
            where = options.out
            click.echo(
                f"stopped; finished steps are kept in {where}: run it again to resume", err=True
            )
            raise click.Abort from interrupt

    click.echo(_report_line(report), err=True)
    check_report(report)


def _tables(out: str, plugins: Sequence[str], stack: ExitStack) -> AtEnd:
    """Return a function that makes tables and pages, and that the stack closes.

    Must be called before any thread is started.
    """
    if can_fork():
        return stack.enter_context(WaitingTables(open_place(out), plugins))
    return partial(make_tables, tuple(plugins))


def _options(plan: Path | None, out: str, launch: str | None) -> WorkerOptions:
    """Return options with the plan from a file or from a launch. Raises UsageError, StoreError."""
    if plan is not None and launch is None:
        return WorkerOptions(load_plan(plan), out)
    if plan is not None or launch is None:
        raise UsageError("name a plan, PLAN.yaml, or a launch, --launch ID; one of the two")

    store = open_store(out)
    recorded = read_value(store, launch_key(launch), Launch)
    is_partial = recorded.only == "failed"
    return WorkerOptions(recorded.plan, out, only_failed=is_partial, launch=launch)


def _report_line(report: WorkerReport) -> str:
    return f"worker {report.name}: {report.done} of {report.planned} episodes of the grid are done"


def _stop_at_end_of_input(session: GridSession) -> None:
    """Stop a session when the process at the other end of standard input has ended."""
    # sys.stdin is not used, since a thread waiting for it would keep Python from exiting.
    while os.read(_STANDARD_INPUT, 1):
        pass

    session.stop()


def stopping_on_signals(session: GridSession) -> AbstractContextManager[None]:
    """Stop a session between steps on the first interrupt or termination signal; on the second, end
    the process.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if session.is_stopping:
            os._exit(130)

        session.stop()

    return handle_signals(interrupt)
