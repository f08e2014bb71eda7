"""`ktdeval plan`: estimate the calls, cost and time of a run or grid without calling a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ktdeval.cards import count, dollars
from ktdeval.cli.help.examples import example
from ktdeval.cli.options import (
    JsonOptions,
    RunOptionsCommand,
    config_of,
    open_plugins,
    options_of,
)
from ktdeval.cli.terminal_tables import grid_lines, line_width, print_json
from ktdeval.errors import UsageError

if TYPE_CHECKING:
    from ktdeval.runner.estimate_values import Amount, Finished, RunEstimate, TaskEstimate
    from ktdeval.runner.plans.config import RunConfig

_INDENT = "  "  #: indent of a table below its title
_OF_GRIDS = "plan grid"  #: plugin command that estimates grids
_MODELS = "--models"  #: option that marks a command line without PLAN as being about a grid


class _PlanCommand(RunOptionsCommand):
    """Command `plan`, which leaves grids to the grid plugin."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the context of this command, or of the command that estimates grids."""
        words = list(args)  # click empties `args`
        if _means_grid(words):
            return _of_grids().make_context(info_name, words, parent, **extra)

        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.NoSuchOption as error:
            if not _is_option_of_grids(error.option_name):
                raise
        else:
            if context.params.get("plan_file") is None:
                return context

        return _of_grids().make_context(info_name, words, parent, **extra)


def _means_grid(args: list[str]) -> bool:
    """Return whether a command line is about a grid, because it begins with PLAN or contains
    `--models`.
    """
    if args and not args[0].startswith("-"):
        return True
    return any(word.partition("=")[0] == _MODELS for word in args)


def _is_option_of_grids(name: str) -> bool:
    """Return whether this is an option for grids, such as `--workers`."""
    if _OF_GRIDS not in open_plugins().specs("commands"):
        return False
    return any(name in parameter.opts for parameter in _of_grids().params)


def _of_grids() -> click.Command:
    """Return the command that estimates grids. Raises UsageError if no plugin offers it."""
    plugins = open_plugins()
    if _OF_GRIDS not in plugins.specs("commands"):
        raise UsageError(
            "plan: PLAN and --models apply to grids, and no installed plugin has grids; name one"
            " model by --model"
        )

    command: click.Command = plugins.make("commands", _OF_GRIDS)
    return command


def _complete_plan(
    context: click.Context, _parameter: click.Parameter, text: str
) -> list[CompletionItem]:
    """Complete the plan of a grid as the grid plugin does."""
    plan, *_ = _of_grids().params
    return plan.shell_complete(context, text)


@example("ktdeval plan --model openai/gpt-5-mini --tasks blinded_open_research")
@click.command("plan", cls=_PlanCommand)
@click.argument("plan_file", required=False, metavar="[PLAN]", shell_complete=_complete_plan)
@options_of(JsonOptions)
def plan(plan_file: str | None, options: JsonOptions, **values: Any) -> None:
    """Estimate calls, tokens, cost and hours of a run or a grid: low, typical and high.

    Calls no model and needs no key. For what has begun, it shows what is left. PLAN is the plan of a
    grid, PLAN.yaml or the name of one that ships (`ktdeval list plans`); with it the options are
    those of `ktdeval grid` (see `ktdeval plan PLAN --help`).
    """
    assert plan_file is None  # another command estimates grids
    print_plan(config_of(values), options.as_json)


def print_plan(config: RunConfig, as_json: bool = False) -> None:
    """Print an estimate of a run: facts, a table for each task, totals, assumptions and
    warnings.
    """
    from ktdeval.runner.estimate import estimate_run
    from ktdeval.runner.execution.run import check_run_output
    from ktdeval.values.documents.typed_json import to_plain

    check_run_output(config)
    estimate = estimate_run(config, open_plugins(config.plugin))
    if as_json:
        print_json(to_plain(estimate))
        return

    for name, text in _estimate_facts(estimate):
        click.echo(f"{name:<10}{text}")

    for task in estimate.tasks:
        click.echo()
        _print_task(task, estimate.max_output_tokens)

    if len(estimate.tasks) > 1:
        click.echo()
        _print_table("all tasks, steps that are left", None, estimate.left)

    click.echo("\nassumed")
    for sentence in estimate.assumptions:
        click.echo(f"  {sentence}")

    for sentence in estimate.warnings:
        click.echo(f"\nwarning: {sentence}")


def _print_task(task: TaskEstimate, max_output_tokens: int) -> None:
    """Print the table for a task, and the size of its largest prompt."""
    done = task.finished.steps
    steps = count(task.steps, "step")
    if done:
        steps = f"{task.steps - done:,} of {task.steps:,} steps left"

    title = f"{task.name}: {count(task.episodes, 'episode')}, {steps}"
    _print_table(title, task.finished, task.left)
    if task.largest_prompt is not None:
        tokens = " / ".join(f"{number:,}" for number in task.largest_prompt.values())
        click.echo(
            f"  largest prompt {tokens} tokens, and up to {max_output_tokens:,} of the reply"
        )


def _estimate_facts(estimate: RunEstimate) -> list[tuple[str, str]]:
    """Return the lines above the tables, as pairs of name and text."""
    model = estimate.model
    facts = [("model", model)]
    if estimate.protocol is not None:
        facts = [("model", f"{model}, tool calling: {estimate.protocol}")]
        context = "not known; give it with --context-tokens"
        if estimate.context is not None:
            context = f"{estimate.context.tokens:,} tokens {estimate.context.source}"

        facts.append(("context", context))

    facts.append(("price", _price_text(estimate)))
    folder = str(estimate.folder)
    done = sum(task.finished.steps for task in estimate.tasks)
    if done:
        steps = sum(task.steps for task in estimate.tasks)
        folder += f", {done:,} of {steps:,} steps are finished"

    facts.append(("folder", folder))
    paid = estimate.paid
    if paid.cost_usd or paid.possibly_usd:
        spent = f"{dollars(paid.cost_usd)} USD"
        if paid.possibly_usd:
            spent += f", possibly {dollars(paid.possibly_usd)} more"

        facts.append(("paid", spent))

    facts.append(("at once", count(estimate.concurrency, "episode")))
    return facts


def _price_text(estimate: RunEstimate) -> str:
    """Return the model's price, with its date and source if they are known."""
    price = estimate.price
    if price is None:
        return "not known; give one with --price input=…,output=… or --price-table"

    origin = []
    if price.as_of:
        origin.append(f"as of {price.as_of}")

    if price.source:
        origin.append(price.source)

    rates = f"{price.input:g} in, {price.output:g} out USD a million tokens"
    if not origin:
        return rates
    return f"{rates} ({', '.join(origin)})"


def _print_table(title: str, finished: Finished | None, left: Mapping[str, Amount]) -> None:
    """Print a table with a column for each scenario. If some steps are finished, a column with
    their usage comes first.

    If the price of cached tokens is known, the table has two lines of costs. The bill for the
    finished steps is on the second one.
    """
    is_cached = any(amount.cached_cost_usd is not None for amount in left.values())
    costs = ["cost, USD"]
    if is_cached:
        costs = ["cost, no cache, USD", "cost, cached, USD"]

    cells = [["", "calls", "input tokens", "output tokens", *costs, "hours"]]
    if finished is not None and finished.steps:
        without = [""] * is_cached
        cells.append(["used so far", *_tokens(finished), *without, _cost(finished.cost_usd), ""])

    for scenario, amount in left.items():
        hours = f"{amount.hours:,.1f}" if amount.hours >= 10 else f"{amount.hours:.2f}"
        both = [_cost(amount.cost_usd), _cost(amount.cached_cost_usd)]
        cells.append([scenario, *_tokens(amount), *both[: len(costs)], hours])

    click.echo(title)
    columns, *rows = zip(*cells, strict=True)
    for line in grid_lines(columns, rows, columns[:1], line_width(), _INDENT):
        click.echo(line)


def _tokens(used: Finished | Amount) -> tuple[str, ...]:
    return (f"{used.calls:,}", f"{used.input_tokens:,}", f"{used.output_tokens:,}")


def _cost(cost_usd: float | None) -> str:
    return "?" if cost_usd is None else dollars(cost_usd)
