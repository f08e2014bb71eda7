"""`ktdeval run`, `score`, `card` and `plan`: evaluate a model, recompute a run's cards, read and verify cards, estimate a run."""

from __future__ import annotations

import contextlib
import gc
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from ktdeval.cards import count, dollars
from ktdeval.cli.options import FilePath, GroupedCommand, config_option, config_options, open_plugins
from ktdeval.cli.table import grid_lines, print_json
from ktdeval.config import RunConfig, load_config
from ktdeval.errors import EpisodeFailure, KtdevalError, StoreError, VerificationError
from ktdeval.fields import shown_path, working_folder

if TYPE_CHECKING:
    from ktdeval.calls.stop import StopSignal
    from ktdeval.registry import Plugins
    from ktdeval.runner.estimate import Amount, Finished, RunEstimate
    from ktdeval.runner.run import RunResult

_COLLECTED_AFTER = 20_000  #: New objects between collections, some megabytes; Python's own 700 come every 16 steps


@contextlib.contextmanager
def _stopping_between_steps(stop: StopSignal) -> Iterator[None]:
    """On Ctrl-C or a termination signal, tell episodes on other threads to stop, then interrupt this one.

    Calls to a model that are under way are waited for, because they are paid for; a second signal does not wait.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            getattr(sys.stderr, "raw", sys.stderr).write("\x1b[?25h" if sys.stderr.isatty() else "")
            os._exit(130)
        stop.interrupt()
        raise KeyboardInterrupt

    # Only the main thread may set handlers; on another one, the caller has to stop the run.
    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_shown(config: RunConfig, plugins: Plugins) -> RunResult:
    """Run a config from plan to cards, with progress on stderr. Raises KtdevalError, or KeyboardInterrupt with the run's folder."""
    from rich.console import Console

    from ktdeval.calls.stop import StopSignal
    from ktdeval.cards import clean
    from ktdeval.cli.progress import ProgressObserver
    from ktdeval.runner.run import execute_run, prepare_run

    console = Console(file=getattr(sys.stderr, "raw", sys.stderr), quiet=config.quiet)  # it moves the cursor
    stop = StopSignal()
    with _stopping_between_steps(stop):
        with console.status("preparing (embedded data are generated at first use) …"):
            prepared = prepare_run(config, plugins, stop)
        for note in prepared.plan.notes:
            console.print(f"note: {clean(note)}", markup=False, highlight=False)
        try:
            with collector_held_back(), ProgressObserver(console, len(prepared.plan.specs)) as progress:
                plugins.register_observer(progress)
                return execute_run(prepared)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(
                f"stopped; finished steps are kept in {prepared.folder.path}: run the same command again to resume"
            ) from interrupt
        finally:
            prepared.close()


@contextlib.contextmanager
def collector_held_back() -> Iterator[None]:
    """Let Python's collector run less often meanwhile: a step leaves almost nothing behind that refers to itself."""
    before = gc.get_threshold()
    gc.set_threshold(_COLLECTED_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def check_finished(result: RunResult) -> None:
    """Raise the reason why a run stopped before its end, or EpisodeFailure where an episode did not finish."""
    if result.stopped is not None and result.failed:
        kept = f"{len(result.failed)} of {result.episodes} episodes are not finished, their steps so far are kept"
        raise type(result.stopped)(f"{result.stopped} ({kept} in {result.folder})")
    if result.failed:
        first, count = result.failed[0], len(result.failed)
        which = "1 episode did not finish," if count == 1 else f"{count} episodes did not finish, the first is"
        hint = "" if "same command again" in str(first.error) else "; run the same command again to resume"
        raise EpisodeFailure(f"{which} {first.spec.label}: {first.error}{hint}")


@click.command("run", cls=GroupedCommand)
@config_options
def run(config: RunConfig) -> None:
    """Evaluate a model on tasks. The same command again resumes; after a finish it runs nothing twice."""
    if config.dry_run:
        print_plan(config)
        return
    here = working_folder()
    try:
        result = run_shown(config, open_plugins(config.plugin))
    except KeyboardInterrupt as interrupt:
        if not str(interrupt):  # before the first step
            raise
        click.echo(str(interrupt), err=True)
        raise click.Abort from interrupt  # as click does, less its empty line
    if here is not None:
        os.chdir(here)  # a plugin may have left it
    folder, *cards = map(shown_path, (result.folder, *result.cards))
    _print_cards(cards)
    if cards:
        given = {"items": config.items, "plugin": ",".join(config.plugin)}
        same = "".join(f" --{name} {shlex.quote(value)}" for name, value in given.items() if value)
        click.echo(f"verify  ktdeval card verify {shlex.quote(str(cards[0] if len(cards) == 1 else folder))}{same}")
        click.echo(f"score   ktdeval score {shlex.quote(str(folder))}{same}")
    check_finished(result)


@click.command("score")
@click.argument("run_folder", type=FilePath(), metavar="RUN")
@config_option("data", "data_args", "metrics", "rules", "certificate", "items", "plugin")
def score(run_folder: Path, **options: object) -> None:
    """Recompute the metrics and cards of RUN from its records, without any model."""
    from ktdeval.runner.score import rescore

    changes = {name: value for name, value in options.items() if value is not None}
    load_config(None, {"model": "-", "tasks": ("-",), **changes})  # refuse what a run would refuse
    plugins = open_plugins(tuple(changes.pop("plugin", ())))  # type: ignore[arg-type]
    cards = rescore(run_folder, plugins, changes)
    if not cards:
        raise StoreError(f"{run_folder}: no episode is complete yet; run it again to resume")
    _print_cards(cards)


# ---- cards


def _print_cards(paths: Sequence[Path]) -> None:
    """Print the first screen of a card, or a table of several, and where to see all of it."""
    from ktdeval.cards.check import load_card
    from ktdeval.cards.show import card_lines, print_lines, summary_lines

    cards = [load_card(path) for path in paths]
    print_lines(card_lines(cards[0], whole=False) if len(cards) == 1 else summary_lines(cards))
    for number, path in enumerate(paths):
        click.echo(f"{'' if number else chr(10)}all     ktdeval card show {shlex.quote(str(path))} --all")


_PATH = click.argument("path", type=FilePath())


@click.group()
def card() -> None:
    """Show, validate and verify result cards.

    PATH is a card file, or a run folder, whose cards are taken one after the other.
    """


@card.command()
@click.argument("paths", nargs=-1, required=True, type=FilePath(), metavar="PATH…")
@click.option("--all", "whole", is_flag=True, help="all of a card: facts, diagnostics, windows, activity, notes")
@click.option("--plain", is_flag=True, help="aligned text without colours, also in a terminal")
def show(paths: tuple[Path, ...], whole: bool, plain: bool) -> None:
    """Print a card: its panel and what it claims; several side by side, a column each."""
    from rich.text import Text

    from ktdeval.cards.check import card_files, load_card
    from ktdeval.cards.show import card_lines, plain_text, print_lines, side_by_side

    cards = [load_card(file) for file in card_files(paths)]
    if whole or len(cards) == 1:
        lines = [line for card in cards for line in (*card_lines(card, whole), *([Text()] if len(cards) > 1 else []))]
    else:
        lines = list(side_by_side(cards))
    if plain:
        click.echo(plain_text(lines), nl=False)
    else:
        print_lines(lines)
    if not whole:
        click.echo(f"\nall     ktdeval card show {shlex.join(map(str, paths))} --all")


@card.command()
@_PATH
def validate(path: Path) -> None:
    """Check a card against its schema and against its own episodes."""
    from ktdeval.cards.check import card_kinds, load_card

    def judge(file: Path) -> str:
        checked = load_card(file)
        return f"valid ({card_kinds(checked.kind)[checked.kind].content(checked)})"

    _judge_cards(path, judge, "valid")


@card.command(short_help="Execute the recorded decisions again and recompute every figure.")
@_PATH
@config_option("data", "data_args", "items", "plugin")
def verify(path: Path, plugin: tuple[str, ...] | None, **changes: object) -> None:
    """Re-execute the recorded decisions, recompute every figure, and name the first line that differs.

    --data and --data-args are only needed when the snapshot has moved since the run, --items when the run had that option.
    """
    from ktdeval.runner.verify import verify_card

    plugins = open_plugins(plugin or ())
    moved = {name: value for name, value in changes.items() if value is not None}

    def judge(file: Path) -> str:
        verification = verify_card(file, plugins, moved)
        for finding in verification.findings[1:]:
            click.echo(f"also differs: {finding}")
        if verification.findings:
            raise VerificationError(f"{file}: does not verify: {verification.findings[0]}")
        executed = f"episodes: {verification.episodes}, steps executed again: {verification.steps}"
        return f"verified ({executed}, of these traced to the model's own submission: {verification.traced_steps})"

    _judge_cards(path, judge, "verified")


def _judge_cards(path: Path, judge: Callable[[Path], str], passed: str) -> None:
    """Print what each card is judged to be. When all are judged, raise the failure of the first one that fails."""
    from ktdeval.cards.check import card_files

    files, failures = card_files([path]), list[KtdevalError]()
    for file in files:
        try:
            click.echo(f"{file}: {judge(file)}")
        except KtdevalError as error:
            failures.append(error)
    for failure in failures[1:]:
        click.echo(f"also fails: {' '.join(str(failure).split())}")
    if failures and len(files) > 1:
        click.echo(f"{len(files) - len(failures)} of {len(files)} cards {passed}")
    if failures:
        raise failures[0]


# ---- plan


@click.command("plan")
@config_options
@click.option("--json", "as_json", is_flag=True, help="as JSON")
def plan(config: RunConfig, as_json: bool) -> None:
    """Print what a run would ask, cost and take: low, typical and high.

    Takes the options of `run`. Asks no model and needs no key. Of a run that was begun, it shows what is left.
    """
    print_plan(config, as_json)


def print_plan(config: RunConfig, as_json: bool = False) -> None:
    """Estimate the run of a config and print it: facts, a table for each task and for all, what it rests on, and warnings."""
    from ktdeval.runner.estimate import estimate_run
    from ktdeval.typed import to_plain

    estimate = estimate_run(config, open_plugins(config.plugin))
    if as_json:
        print_json(to_plain(estimate))
        return
    for name, words in _facts(estimate):
        click.echo(f"{name:<10}{words}")
    for task in estimate.tasks:
        done = task.finished.steps
        steps = f"{task.steps - done:,} of {task.steps:,} steps left" if done else f"{task.steps:,} steps"
        click.echo()
        _print_table(f"{task.name}: {count(task.episodes, 'episode')}, {steps}", task.finished, task.left)
    if len(estimate.tasks) > 1:
        click.echo()
        _print_table("all tasks, steps that are left", None, estimate.left)
    click.echo("\nassumed")
    for sentence in estimate.assumptions:
        click.echo(f"  {sentence}")
    for sentence in estimate.warnings:
        click.echo(f"\nwarning: {sentence}")


def _facts(estimate: RunEstimate) -> list[tuple[str, str]]:
    tools = "" if estimate.protocol is None else f", tools offered by {estimate.protocol}"
    price = estimate.price
    if price is None:
        cost = "not known; give one with --price input=…,output=… or --price-table"
    else:
        origin = ", ".join(part for part in (price.as_of and f"as of {price.as_of}", price.source) if part)
        cost = f"{price.input:g} in, {price.output:g} out USD a million tokens{f' ({origin})' if origin else ''}"
    done = sum(task.finished.steps for task in estimate.tasks)
    state = f", {done:,} of {sum(task.steps for task in estimate.tasks):,} steps are finished" if done else ""
    facts = [("model", f"{estimate.model}{tools}"), ("price", cost), ("folder", f"{estimate.folder}{state}")]
    if estimate.paid.cost_usd or estimate.paid.possibly_usd:
        besides = f", possibly {dollars(estimate.paid.possibly_usd)} more" if estimate.paid.possibly_usd else ""
        facts.append(("paid", f"{dollars(estimate.paid.cost_usd)} USD{besides}"))
    return [*facts, ("at once", count(estimate.concurrency, "episode"))]


def _print_table(title: str, finished: Finished | None, left: Mapping[str, Amount]) -> None:
    """Print one column a scenario; before them the use of the finished steps, where there are any."""
    cells = [["", "calls", "input tokens", "output tokens", "cost, USD", "hours"]]
    if finished is not None and finished.steps:
        cells.append(["used so far", *_amounts(finished), ""])
    for scenario, amount in left.items():
        cells.append([scenario, *_amounts(amount), f"{amount.hours:,.1f}" if amount.hours >= 10 else f"{amount.hours:.2f}"])
    click.echo(title)
    columns, *rows = zip(*cells, strict=True)
    for line in grid_lines(columns, rows, left=columns[:1]):
        click.echo(f"  {line}")


def _amounts(used: Finished | Amount) -> tuple[str, ...]:
    cost = "?" if used.cost_usd is None else dollars(used.cost_usd)
    return (f"{used.calls:,}", f"{used.input_tokens:,}", f"{used.output_tokens:,}", cost)
