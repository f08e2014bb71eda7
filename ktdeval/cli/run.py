"""`ktdeval run` and `ktdeval score`: evaluate a model, or recompute the cards of a run."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from ktdeval.cli.options import config_option, config_options, open_plugins
from ktdeval.config import RunConfig
from ktdeval.errors import EpisodeFailure, StoreError

if TYPE_CHECKING:
    from ktdeval.calls.stop import StopSignal
    from ktdeval.runner.run import RunResult


@contextlib.contextmanager
def _stopping_between_steps(stop: StopSignal) -> Iterator[None]:
    """On Ctrl-C or a termination signal, tell episodes on other threads to stop, then interrupt this one.

    Calls to a model that are under way are waited for, because they are paid for; a second signal does not wait.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            sys.stderr.write("\x1b[?25h" if sys.stderr.isatty() else "")  # the cursor, which a live bar hides
            os._exit(130)
        stop.interrupt()
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
    from rich.console import Console

    from ktdeval.calls.stop import StopSignal
    from ktdeval.cli.progress import ProgressObserver
    from ktdeval.runner.run import execute_run, prepare_run

    if config.dry_run:
        from ktdeval.cli.plan import print_plan

        print_plan(config)
        return
    plugins = open_plugins(config.plugin)
    console = Console(file=sys.stderr, quiet=config.quiet)
    stop = StopSignal()
    with _stopping_between_steps(stop):
        with console.status("opening the market (the embedded one is generated at first use) …"):
            prepared = prepare_run(config, plugins, stop)
        try:
            with ProgressObserver(console, len(prepared.plan.specs)) as progress:
                plugins.register_observer(progress)
                result = execute_run(prepared)
        except KeyboardInterrupt as interrupt:
            click.echo(
                f"stopped; finished steps are kept in {prepared.folder.path}: run the same command again to resume", err=True
            )
            raise click.Abort from interrupt  # as click does, less its empty line
        finally:
            prepared.close()
    _report(result)


def _report(result: RunResult) -> None:
    """Print the cards, how to go on from them, and last, as the command's error, what did not finish."""
    _print_cards(result.cards)
    if result.cards:
        click.echo(f"verify  ktdeval card verify {result.cards[0] if len(result.cards) == 1 else result.folder}")
        click.echo(f"score   ktdeval score {result.folder}")
    if result.stopped is not None and result.failed:
        kept = (
            f"{len(result.failed)} of {result.episodes} episodes are not finished, their steps so far are kept in {result.folder}"
        )
        raise type(result.stopped)(f"{result.stopped} ({kept})")
    if result.failed:
        first, count = result.failed[0], len(result.failed)
        where = f"{first.spec.task} {first.spec.window.name} seed {first.spec.seed}"
        which = f"1 episode did not finish, {where}" if count == 1 else f"{count} episodes did not finish, the first is {where}"
        hint = "" if "same command again" in str(first.error) else "; run the same command again to resume"
        raise EpisodeFailure(f"{which}: {first.error}{hint}")


def _print_cards(paths: Sequence[Path]) -> None:
    """Print each card, where it lies, and, of several, a summary."""
    from ktdeval.cards.check import load_card
    from ktdeval.cards.show import print_card, print_summary

    cards = [load_card(path) for path in paths]
    for place, (path, card) in enumerate(zip(paths, cards, strict=True)):
        if place:
            click.echo()
        print_card(card)
        click.echo(f"\ncard    {path}")
    if len(cards) > 1:
        print_summary(cards)
        click.echo()


@click.command("score")
@click.argument("run_folder", type=click.Path(path_type=Path), metavar="RUN")
@config_option("data", "data_args", "metrics", "rules", "certificate", "items", "plugin")
def score(run_folder: Path, **options: object) -> None:
    """Recompute the metrics and cards of RUN from its records, without any model."""
    from ktdeval.runner.score import rescore

    given = {name: value for name, value in options.items() if value is not None}
    plugins = open_plugins(tuple(given.pop("plugin", ())))  # type: ignore[arg-type]
    cards = rescore(run_folder, plugins, given)
    if not cards:
        raise StoreError(f"{run_folder}: no episode is complete yet; run it again to resume")
    _print_cards(cards)
