"""Parts that every run needs: the local runner, the ReAct agent, the metric panel, and the
attribution of the total return.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import csv_rows, later, maker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ktdeval.task_api import EpisodeOutcome, EpisodeSpec, RunningWorkers, WorkerJob


class ThreadRunner:
    """Runs up to `concurrency` episodes at once on threads, since model calls mostly wait for the
    network. With a concurrency of 1 it uses no threads.
    """

    def run(
        self,
        specs: Sequence[EpisodeSpec],
        execute: Callable[[EpisodeSpec], EpisodeOutcome],
        concurrency: int,
    ) -> list[EpisodeOutcome]:
        """Run every spec once; see `ktdeval.task_api.Runner`."""
        from concurrent.futures import ThreadPoolExecutor

        from ktdeval.values import undone_on_error

        if concurrency == 1 or len(specs) <= 1:
            return [execute(spec) for spec in specs]

        with ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="episode") as pool:
            futures = [pool.submit(execute, spec) for spec in specs]
            # After an interrupt, or a defect in an episode, no further episode starts. Episodes in
            # progress stop between steps.
            with undone_on_error(lambda _: [future.cancel() for future in futures]):
                return [future.result() for future in futures]

    def start_workers(self, job: WorkerJob) -> RunningWorkers:
        """Start workers as processes on this machine; see `ktdeval.task_api.WorkersRunner`."""
        workers: RunningWorkers = maker("ktdeval_builtin.worker_processes:WorkerProcesses")(job)
        return workers


@hookimpl
def ktdeval_runners() -> Sequence[Spec]:
    """Return the runner for this machine."""
    return [Spec("local", ThreadRunner, "Episodes in parallel threads on this machine")]


@hookimpl
def ktdeval_agents() -> Sequence[Spec]:
    """Return the reference agent."""
    summary = "Two phases: free research with tools, then one forced submission with retries"
    return [Spec("react", lambda *_: later("ktdeval_builtin.react:ReactAgent")()(), summary)]


@hookimpl
def ktdeval_metrics() -> list[Spec]:
    """Return the metric panel and its diagnostics, in the order in which a card shows them, and the
    attribution parts of the total return.
    """
    rows = csv_rows(Path(__file__).with_name("metrics.csv"))
    makers = {
        True: "ktdeval_builtin.attribution_metrics:attribution_metric",
        False: "ktdeval.stats:panel_metric",
    }
    return [
        Spec(row["name"], maker(makers[bool(row["version"])], row["name"]), row["summary"])
        for row in rows
    ]
