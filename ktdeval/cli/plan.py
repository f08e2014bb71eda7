"""`ktdeval plan`: what a run would ask, cost and take. The same figures come from `ktdeval run --dry-run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ktdeval.cli.options import config_options, open_plugins
from ktdeval.cli.table import print_json
from ktdeval.config import RunConfig

if TYPE_CHECKING:
    from ktdeval.runner.estimate import Amount, Finished, RunEstimate, TaskEstimate

_UNKNOWN = "?"


@click.command("plan")
@config_options
@click.option("--json", "as_json", is_flag=True, help="as JSON")
def plan(config: RunConfig, as_json: bool) -> None:
    """Print what a run would ask, cost and take: low, typical and high.

    Takes the options of `run`. Asks no model and needs no key. Of a run that was begun, it says what is left.
    """
    print_plan(config, as_json)


def print_plan(config: RunConfig, as_json: bool = False) -> None:
    """Estimate the run of a config and print it.

    Raises:
        KtdevalError: anything in the config that can't work, in one line.
    """
    from ktdeval.runner.estimate import estimate_run
    from ktdeval.typed import to_plain

    estimate = estimate_run(config, open_plugins(config.plugin))
    if as_json:
        print_json(to_plain(estimate))
    else:
        print_estimate(estimate)


def print_estimate(estimate: RunEstimate) -> None:
    """Print an estimate as text: facts, a table for each task and for all, what it rests on, and warnings."""
    for name, words in _facts(estimate):
        click.echo(f"{name:<10}{words}")
    for task in estimate.tasks:
        click.echo()
        _print_table(_task_title(task), task.finished, task.left)
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
        besides = f", possibly {estimate.paid.possibly_usd:,.2f} more" if estimate.paid.possibly_usd else ""
        facts.append(("paid", f"{estimate.paid.cost_usd:,.2f} USD{besides}"))
    return [*facts, ("at once", f"{estimate.concurrency:,} episode{'' if estimate.concurrency == 1 else 's'}")]


def _task_title(task: TaskEstimate) -> str:
    episodes = f"{task.episodes:,} episode{'' if task.episodes == 1 else 's'}"
    left = task.steps - task.finished.steps
    steps = f"{task.steps:,} steps" if not task.finished.steps else f"{left:,} of {task.steps:,} steps left"
    return f"{task.name}: {episodes}, {steps}"


def _print_table(title: str, finished: Finished | None, left: Mapping[str, Amount]) -> None:
    """One column a case; before them what the finished steps used, where there are any."""
    columns: list[tuple[str, Sequence[str]]] = [("", ("calls", "input tokens", "output tokens", "cost, USD", "hours"))]
    if finished is not None and finished.steps:
        tokens = (f"{finished.input_tokens:,}", f"{finished.output_tokens:,}")
        columns.append(("used so far", (f"{finished.calls:,}", *tokens, _dollars(finished.cost_usd), "")))
    for case, amount in left.items():
        tokens = (f"{amount.input_tokens:,}", f"{amount.output_tokens:,}")
        columns.append((case, (f"{amount.calls:,}", *tokens, _dollars(amount.cost_usd), _hours(amount.hours))))
    click.echo(title)
    cells = [[head, *texts] for head, texts in columns]
    widths = [max(map(len, column)) for column in cells]
    for row in zip(*cells, strict=True):
        first, *others = row
        line = "".join(f"  {text:>{width}}" for text, width in zip(others, widths[1:], strict=True))
        click.echo(f"  {first:<{widths[0]}}{line}".rstrip())


def _dollars(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:,.2f}"


def _hours(value: float) -> str:
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}"
