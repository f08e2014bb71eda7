"""`ktdeval run` and `ktdeval score`: evaluate a model, or recompute the cards of a run."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click
from rich.console import Console

from ktdeval.cards.check import load_card
from ktdeval.cards.show import print_card
from ktdeval.cli.options import config_option, config_options, open_plugins
from ktdeval.cli.progress import ProgressObserver
from ktdeval.config import RunConfig
from ktdeval.errors import EpisodeFailure, StoreError
from ktdeval.runner.run import RunResult, execute_run, prepare_run
from ktdeval.runner.score import rescore


@contextlib.contextmanager
def _stopping_between_steps(stop: threading.Event) -> Iterator[None]:
    """On Ctrl-C or a termination signal, tell episodes on other threads to stop, then interrupt this one."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@click.command("run")
@config_options
def run(config: RunConfig) -> None:
    """Evaluate a model on tasks. The same command again resumes; after a finish it runs nothing twice."""
    plugins = open_plugins(config.plugin)
    prepared = prepare_run(config, plugins)
    console = Console(file=sys.stderr, quiet=config.quiet)
    stop = threading.Event()
    try:
        with ProgressObserver(console, len(prepared.plan.specs)) as progress, _stopping_between_steps(stop):
            plugins.register_observer(progress)
            result = execute_run(prepared, stop)
    except KeyboardInterrupt:
        click.echo(f"stopped; finished steps are kept in {prepared.folder.path}: run the same command again to resume", err=True)
        raise
    finally:
        prepared.folder.release()
    _report(result)


def _report(result: RunResult) -> None:
    for path in result.cards:
        print_card(load_card(path))
        click.echo(f"\ncard    {path}\nverify  ktdeval card verify {path}")
    if result.cards:
        click.echo(f"score   ktdeval score {result.folder}")
    if result.failed:
        first = result.failed[0]
        where = f"{first.spec.task} {first.spec.window.name} seed {first.spec.seed}"
        raise EpisodeFailure(
            f"{len(result.failed)} episode(s) did not finish, the first is {where}: {first.error}; "
            "run the same command again to resume"
        )


@click.command("score")
@click.argument("run_folder", type=click.Path(path_type=Path), metavar="RUN")
@config_option("data", "data_args", "metrics", "rules", "plugin")
def score(run_folder: Path, **options: object) -> None:
    """Recompute the metrics and cards of RUN from its records, without any model."""
    given = {name: value for name, value in options.items() if value is not None}
    plugins = open_plugins(tuple(given.pop("plugin", ())))  # type: ignore[arg-type]
    cards = rescore(run_folder, plugins, given)
    if not cards:
        raise StoreError(f"{run_folder}: no episode is complete yet; run it again to resume")
    for path in cards:
        print_card(load_card(path))
        click.echo(f"\ncard    {path}")
