"""`ktdeval run` and `ktdeval score`: evaluate a model, and recompute cards from records."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal

import click

from ktdeval.cli.cards.card import print_cards
from ktdeval.cli.help.examples import example
from ktdeval.cli.options import (
    WORDS,
    GroupedCommand,
    JsonOptions,
    RecordedOptions,
    RunPath,
    config_options,
    given_of,
    open_plugins,
    options_of,
    run_flag,
)
from ktdeval.cli.resume_hint import resume_line
from ktdeval.cli.signal_handlers import handle_signals
from ktdeval.cli.terminal_tables import print_json
from ktdeval.errors import BudgetError, EpisodeFailure, StoreError
from ktdeval.runner.plans.config import RunConfig, load_config
from ktdeval.values.options.config_options import shown_path, working_folder

if TYPE_CHECKING:
    from ktdeval.calls.stop_flag import StopSignal
    from ktdeval.registry.plugin_registry import Plugins
    from ktdeval.runner.execution.run import RunResult
    from ktdeval.values.documents.strict_json import JsonValue


def _stopping_between_steps(stop: StopSignal) -> AbstractContextManager[None]:
    """On Ctrl-C or a termination signal, stop episodes on other threads, then interrupt this
    thread.

    Model calls in progress are completed first, because they have to be paid for. A second signal
    ends the process immediately.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            if sys.stderr.isatty():
                show_cursor = "\x1b[?25h"  # progress bars hide the cursor
                getattr(sys.stderr, "raw", sys.stderr).write(show_cursor)

            os._exit(130)

        stop.interrupt()
        raise KeyboardInterrupt

    # On threads other than the main thread, the caller has to stop the run.
    return handle_signals(interrupt)


def run_shown(config: RunConfig, plugins: Plugins) -> RunResult:
    """Run a config from plan to cards, with progress on stderr. Raises KtdevalError, or
    KeyboardInterrupt whose message names the run's folder.
    """
    from rich.console import Console

    from ktdeval.calls.stop_flag import StopSignal
    from ktdeval.cards import clean
    from ktdeval.cli.progress import CheckWaits, ProgressObserver
    from ktdeval.runner.execution.run import execute_run, prepare_run

    # the raw stream, because progress bars move the cursor
    console = Console(file=getattr(sys.stderr, "raw", sys.stderr), quiet=config.quiet)
    stop = StopSignal()
    plugins.register_observer(CheckWaits(console))
    with _stopping_between_steps(stop):
        with console.status("preparing (embedded data are generated at first use) …"):
            prepared = prepare_run(config, plugins, stop)

        if prepared.access.asks_person:
            # Progress bars would mix with the text that the person reads, and reveal the days that
            # the mask hides.
            console = Console(file=console.file, quiet=True, force_terminal=False)

        for note in prepared.plan.notes:
            console.print(f"note: {clean(note)}", markup=False, highlight=False)

        try:
            with ProgressObserver(console, len(prepared.plan.specs)) as progress:
                plugins.register_observer(progress)
                return execute_run(prepared)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(
                f"stopped; finished steps are kept in {prepared.folder.path}: run the same command"
                " again to resume"
            ) from interrupt
        finally:
            prepared.close()


def check_finished(result: RunResult) -> None:
    """If a run stopped early, raise the reason. Otherwise, raise EpisodeFailure if an episode did
    not finish.
    """
    if not result.failed:
        return

    failures = len(result.failed)
    if result.stopped is not None:
        raise type(result.stopped)(
            f"{result.stopped} ({failures} of {result.episodes} episodes are not finished, their"
            f" steps so far are kept in {result.folder})"
        )

    which = "1 episode did not finish,"
    if failures > 1:
        which = f"{failures} episodes did not finish, the first is"

    first = result.failed[0]
    message = f"{which} {first.spec.label}: {first.error}"
    if first.is_defect:
        message += f"; correct that code, and resume: finished steps are kept in {result.folder}"
    elif "same command again" not in str(first.error):
        message += "; run the same command again to resume"

    raise EpisodeFailure(message)


@example("ktdeval run --model builtin/momentum --tasks blinded_open_research")
@click.command("run", cls=GroupedCommand)
@config_options
@options_of(JsonOptions)
@click.pass_context
def run(context: click.Context, /, config: RunConfig, options: JsonOptions) -> None:
    """Evaluate a model on tasks. The same command again resumes; finished episodes don't run again."""
    if config.dry_run:
        from ktdeval.cli.plan import print_plan

        print_plan(config, options.as_json)
        return

    here = working_folder()
    try:
        result = run_shown(config, open_plugins(config.plugin))
    except KeyboardInterrupt as interrupt:
        if not str(interrupt):  # interrupted before the first step
            raise

        click.echo(str(interrupt), err=True)
        raise click.Abort from interrupt  # as click does, but without an empty line

    if here is not None:
        os.chdir(here)  # undo any change by a plugin

    folder = shown_path(result.folder)
    cards = [shown_path(path) for path in result.cards]
    resume = None
    if isinstance(result.stopped, BudgetError):
        limits = {"max_cost": config.max_cost, "max_tokens": config.max_tokens}
        resume = resume_line(context.meta[WORDS], limits, result.stopped.needed)

    if options.as_json:
        print_json(_run_outcome(result, folder, cards, resume))
    else:
        print_cards(cards)
        if cards:
            _print_next_commands(config, folder, cards)
        if resume is not None:
            click.echo(f"resume  {resume}")

    check_finished(result)


def _run_outcome(
    result: RunResult, folder: Path, cards: Sequence[Path], resume: str | None
) -> dict[str, JsonValue]:
    """Return the output of `run --json`: the folder, the paths of its cards, the unfinished
    episodes, and the command line that resumes a run stopped by a budget.
    """
    state = "finished"
    if result.failed:
        state = "failed" if resume is None else "stopped"

    unfinished: list[JsonValue] = []
    for outcome in result.failed:
        unfinished.append({"episode": outcome.spec.label, "why": outcome.error})

    return {
        "run": str(folder),
        "state": state,
        "cards": [str(path) for path in cards],
        "episodes": result.episodes,
        "unfinished": unfinished,
        "stopped": None if result.stopped is None else str(result.stopped),
        "resume": resume,
    }


def _print_next_commands(config: RunConfig, folder: Path, cards: Sequence[Path]) -> None:
    """Print commands that verify and score a run, with those options of the run that both commands
    need.
    """
    options = ""
    for name, value in (("items", config.items), ("plugin", ",".join(config.plugin))):
        if value:
            options += f" --{name} {shlex.quote(value)}"

    verified = cards[0] if len(cards) == 1 else folder
    click.echo(f"verify  ktdeval card verify {shlex.quote(str(verified))}{options}")
    click.echo(f"score   ktdeval score {shlex.quote(str(folder))}{options}")


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(RecordedOptions, JsonOptions):
    """Options for `score`."""

    metrics: tuple[str, ...] = run_flag("metrics")
    rules: Literal["strict", "paper"] | None = run_flag("rules")
    certificate: str | None = run_flag("certificate")


@example("ktdeval score ktdeval-runs/my-run --metrics brier")
@click.command("score")
@click.argument("run_folder", type=RunPath(), metavar="RUN")
@options_of(ScoreOptions)
def score(run_folder: Path, options: ScoreOptions) -> None:
    """Recompute the metrics and cards of RUN from its records, without any model."""
    from ktdeval.cli.progress import work_shown
    from ktdeval.runner.scoring.score import rescore

    changes = given_of(options)
    as_json = changes.pop("as_json")
    load_config(None, {"model": "-", "tasks": ("-",), **changes})  # reject what a run would reject
    plugins = open_plugins(changes.pop("plugin", ()))
    with work_shown() as tell:
        cards = rescore(run_folder, plugins, changes, tell)

    if not cards:
        raise StoreError(f"{run_folder}: no episode is complete yet; run it again to resume")

    if as_json:
        print_json({"run": str(run_folder), "cards": [str(path) for path in cards]})
    else:
        print_cards(cards)
