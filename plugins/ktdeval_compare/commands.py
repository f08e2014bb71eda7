"""Commands on several cards: options in; out comes the report as JSON, or as tables of aligned
plain text. What computes is imported when a command runs, so that help is quick.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktdeval.cli import (
    Number,
    RunPath,
    complete_names,
    example,
    line_width,
)
from ktdeval.errors import UsageError
from ktdeval.values.fields import split_list
from ktdeval.values.jsonio import dumps_pretty
from ktdeval.values.typed import to_plain

if TYPE_CHECKING:
    from ktdeval_compare import functions

_PATH = RunPath()
_spread = Number(0, 1000)
_level = Number(0.0001, 0.5)
_cards = click.argument("cards", nargs=-1, required=True, type=_PATH, metavar="CARD…")
_metrics = click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_names("metrics"),
    help="metric, may be repeated [default: total_return]",
)
_tasks = click.option(
    "--tasks",
    multiple=True,
    metavar="NAME,…",
    shell_complete=complete_names("tasks"),
    help="only cards of these tasks, names or globs [default: all]",
)
_alpha = click.option("--alpha", type=_level, default=0.05, show_default=True,
                      help="level of verdicts; intervals hold with 1 - alpha")  # fmt: skip
_common = click.option(
    "--common", is_flag=True, help="where cards differ in windows or seeds, use those that all have"
)
_seed = click.option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="N",
                     help="seed of simulations and bootstraps")  # fmt: skip
_json = click.option("--json", "as_json", is_flag=True, help="print the whole report as JSON")


def _show(tables: functions.Tables, as_json: bool) -> None:
    """Print a report as JSON, or its text."""
    if as_json:
        click.echo(dumps_pretty(tables.report), nl=False)
    else:
        click.echo(tables.text(line_width()))


# --- compare


@example("ktdeval compare ktdeval-runs/a ktdeval-runs/b")
@click.command()
@click.argument("cards", nargs=-1, type=_PATH, metavar="CARD…")
@_tasks
@_metrics
@click.option(
    "--factor",
    "factors",
    metavar="NAME,…",
    help="instead of tests: split the metric's variance by agent, model, asset, window or seed",
)
@click.option(
    "--table",
    metavar="FILE",
    help="with --factor, in place of cards: a CSV file of runs, or ama-1 (AMA's Table 1)",
)
@click.option(
    "--pairs",
    "unit",
    type=click.Choice(["window", "episode"]),
    default="window",
    show_default=True,
    help=(
        "what counts as one pair: a window (median over its seeds), or each window and seed as in"
        " the paper"
    ),
)
@_alpha
@_common
@click.option(
    "--side",
    type=click.Choice(["before", "after"]),
    help="only windows wholly before or after the cutoff of every card that records one",
)
@click.option(
    "--against-first",
    is_flag=True,
    help="only the first card against each of the others: fewer tests, more power",
)
@_seed
@_json
def compare(
    cards: tuple[Path, ...],
    tasks: tuple[str, ...],
    metrics: tuple[str, ...],
    factors: str | None,
    table: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Test whether agents differ, paired by window and seed.

    CARD is a card file, or a run folder, whose cards are compared task by task. Daily tests need
    the run folder around the card. Cards of scoring tasks are compared score by score, and tested
    sample by sample. A verdict is a difference that is significant after Holm's correction over the
    whole table; anything else is tied. With --factor agent,model: how much of the metric's variance
    is the agent's and how much the model's.
    """
    from ktdeval_compare import functions
    from ktdeval_compare.variance import NO_FACTOR

    named = split_list(factors or "")
    if factors is None:
        if table is not None:
            raise UsageError("--table goes with --factor")
        if not cards:
            raise UsageError("compare needs two cards or run folders")
    elif options.pop("against_first") or options.pop("side") or options.pop("unit") != "window":
        raise UsageError("--pairs, --side and --against-first are of paired tests, not of --factor")
    elif not named:
        raise UsageError(NO_FACTOR)

    tables = functions.compare(
        *cards,
        factors=named,
        table=table,
        tasks=split_list(*tasks),
        metrics=split_list(*metrics),
        **options,
    )
    _show(tables, as_json)


# --- effects


@example("ktdeval effects ktdeval-runs/bright ktdeval-runs/blinded")
@click.command()
@_cards
@_tasks
@_metrics
@_alpha
@_common
@_seed
@_json
def effects(
    cards: tuple[Path, ...],
    tasks: tuple[str, ...],
    metrics: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Report the value of stock, date, data and tools, from an agent's cards under several masks
    and modes.

    CARD is a card file or a run folder. Bright and blinded give the memory premium; all four masks
    also the stock effect, the date effect and their interaction; several modes give the information
    ladder, whose contributions add up exactly.
    """
    from ktdeval_compare import functions

    chosen = split_list(*tasks)
    tables = functions.effects(*cards, tasks=chosen, metrics=split_list(*metrics), **options)
    _show(tables, as_json)


# --- luck


@example("ktdeval luck ktdeval-runs/a ktdeval-runs/b")
@click.command()
@_cards
@click.option(
    "--runs",
    "stores",
    multiple=True,
    type=_PATH,
    metavar="DIR",
    help="folder of runs to count trials in, besides the cards' own; may be repeated",
)
@_json
def luck(cards: tuple[Path, ...], stores: tuple[Path, ...], as_json: bool) -> None:
    """Report how much of a result is luck, and whether a ranking by return is one by selection.

    CARD is a card file inside its run folder, or a run folder. Every episode that the runs planned
    counts as a trial, limited and unfinished ones too: the deflated Sharpe ratio asks for more than
    the best that so many worthless trials would have shown.
    """
    from ktdeval_compare import functions

    _show(functions.luck(*cards, stores=stores), as_json)


# --- invariance


@example("ktdeval invariance ktdeval-runs/key-1 ktdeval-runs/key-2")
@click.command()
@click.argument("cards", nargs=-1, required=True, type=_PATH, metavar="RUN…")
@_alpha
@click.option(
    "--over",
    type=click.Choice(["episode", "window"]),
    default="episode",
    show_default=True,
    help=(
        "what intervals vary over: each (window, seed), whose labels are its own, or windows, each"
        " the mean of its seeds"
    ),
)
@_common
@click.option(
    "--keys",
    type=click.IntRange(20, 100_000),
    metavar="N",
    help=(
        "instead: a model that buys the first names listed, over N mask keys, and each card's key"
        " among them"
    ),
)
@click.option(
    "--positions",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="with --keys: names that it buys [default: 10]",
)
@_json
@click.pass_context
def invariance(
    context: click.Context, /, cards: tuple[Path, ...], as_json: bool, **options: Any
) -> None:
    """Report how much changes when only the labels do: runs of one plan under several mask keys.

    RUN is a run folder, or a card in one. Each run shows the same market under other aliases and in
    another order of rows; whatever then changes is noise that every comparison of masked runs
    carries. A key given twice shows the model's own chance beside it, and several seeds what
    another call seed does. With --keys one run is enough: how much a mask key alone is worth, and
    whether this run's is a lucky one.
    """
    from ktdeval_compare import functions

    if options["keys"] is not None:
        unset = click.core.ParameterSource.DEFAULT
        options = {
            name: value
            for name, value in options.items()
            if context.get_parameter_source(name) is not unset
        }
        unfit = options.keys() & {"alpha", "over", "common"}
        if unfit:
            raise UsageError(
                f"--{min(unfit)} is of runs under several keys, not of --keys; leave it out"
            )
    elif options["positions"] is not None:
        raise UsageError("--positions goes with --keys")

    _show(functions.invariance(*cards, **options), as_json)


# --- cohort


@example("ktdeval cohort runs/* --cohort 'ML=qlib/*' --cohort 'LLM=openai/*'")
@click.command()
@click.argument("cards", nargs=-1, type=_PATH, metavar="[RUN…]")
@click.option(
    "--cohort",
    "cohorts",
    multiple=True,
    metavar="NAME=ITEM,…",
    help=(
        "a cohort: patterns of systems, run folders or cards; repeat it for each [default: all"
        " systems]"
    ),
)
@click.option(
    "--task",
    metavar="NAME",
    shell_complete=complete_names("tasks"),
    help="task of exposures and figures, where cards are of several [default: that of most models]",
)
@_alpha
@click.option(
    "--common",
    is_flag=True,
    help="where models or seeds differ in windows, use those that all have",
)
@_json
def cohort(cards: tuple[Path, ...], as_json: bool, **options: Any) -> None:
    """Report how cohorts of models differ: style exposures, returns over seeds, trades declined
    behind the mask.

    RUN is a run folder, or a card. Models are what varies: runs of one model under other seeds, its
    own or those of its training, are one model. Cards of bright and blinded tasks add in how many
    windows and seeds a model placed no order under each mask.
    """
    from ktdeval_compare import functions

    _show(functions.cohort(*cards, **options), as_json)


# --- cutoff


@example("ktdeval cutoff ktdeval-runs/a --cutoff openai/gpt-5-mini=2024-06")
@click.command()
@_cards
@click.option(
    "--cutoff",
    "cutoffs",
    multiple=True,
    metavar="MODEL=DATE",
    help=(
        "end of the training data of a model or pattern of systems: a day, a month, none (nothing"
        " trained), unknown"
    ),
)
@click.option(
    "--alpha", type=_level, default=0.05, show_default=True, help="intervals hold with 1 - alpha"
)
@_json
def cutoff(cards: tuple[Path, ...], cutoffs: tuple[str, ...], alpha: float, as_json: bool) -> None:
    """Set a model's results in its training time against those after it.

    CARD is a card file inside its run folder, or a run folder. A model may remember days before its
    training data end; what it earns after them is what it can do.
    """
    from ktdeval_compare import functions
    from ktdeval_compare.cutoff import cutoff as find_decays
    from ktdeval_compare.entrants import load_entrants
    from ktdeval_compare.texts import cutoff_parts

    dates: dict[str, str] = {}
    for given in cutoffs:
        name, _, date = given.rpartition("=")
        if not name:
            raise UsageError(f"--cutoff {given!r}: expected MODEL=DATE")
        if name in dates:
            raise UsageError("--cutoff: a model is given twice; give its date once")

        dates[name] = date

    report = find_decays(load_entrants(cards), dates, alpha)
    _show(functions.Tables(report, cutoff_parts(report)), as_json)


# --- power


@example("ktdeval power --windows 10 --tracking-error 0.1")
@click.command()
@click.argument("cards", nargs=-1, type=_PATH, metavar="[CARD…]")
@click.option("--windows", type=click.IntRange(1, 300), metavar="N",
              help="windows of the plan [default: those of the cards, or 10]")  # fmt: skip
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="seeds of each window [default: those of the cards, or 1]",
)
@click.option(
    "--effect",
    type=Number(-1e6, 1e6),
    metavar="X",
    help=(
        "difference in a window's figure that must be found, in the metric's unit: of a return, a"
        " fraction"
    ),
)
@click.option(
    "--window-sd",
    type=_spread,
    metavar="X",
    help=(
        "standard deviation over windows of the true difference of two agents, as a fraction (0.05"
        " is 5 %)"
    ),
)
@click.option(
    "--seed-sd",
    type=_spread,
    metavar="X",
    help="the same over seeds of one agent's figure in one window",
)
@click.option("--tracking-error", type=_spread, metavar="X",
              help="in place of --window-sd: annual, of the difference in return")  # fmt: skip
@click.option("--window-days", type=click.IntRange(1), metavar="N",
              help="trading days of a window [default: those of the cards, or 43]")  # fmt: skip
@click.option(
    "--days-per-year",
    type=Number(1, 1000),
    metavar="N",
    help="trading days of a year [default: those of the cards' market, or 252]",
)
@click.option("--alpha", type=_level, default=0.05, show_default=True,
              help="two-sided level of the comparison")  # fmt: skip
@click.option("--power", "wanted", type=Number(0.01, 0.999), default=0.8, show_default=True,
              help="wanted probability of finding it")  # fmt: skip
@click.option("--comparisons", type=click.IntRange(1), default=1, show_default=True, metavar="N",
              help="tests that share alpha (Bonferroni)")  # fmt: skip
@click.option(
    "--metric",
    default="total_return",
    show_default=True,
    metavar="NAME",
    shell_complete=complete_names("metrics"),
    help="metric to estimate from cards",
)
@_seed
@_json
def power(cards: tuple[Path, ...], metric: str, as_json: bool, **options: float | None) -> None:
    """Report what a plan of windows and seeds can tell apart, before it is run.

    The test is that of `ktdeval compare`: Wilcoxon signed-rank over windows, exact. Spreads come
    from --window-sd and --seed-sd, from --tracking-error, or from the differences of two or more
    cards; without any, effects are in standard deviations.
    """
    from ktdeval_compare.columns import lines_of
    from ktdeval_compare.plan_texts import power_parts
    from ktdeval_compare.power import Plan, plan_report, spreads_of_cards

    spread = [options[name] for name in ("window_sd", "tracking_error")]
    given = sum(value is not None for value in spread)
    if given > 1 or (given and cards):
        raise UsageError("give the spread once: --window-sd, --tracking-error, or cards")
    if options["seed_sd"] is not None and not given:
        raise UsageError("--seed-sd needs --window-sd or --tracking-error beside it")

    plan = Plan(**{name: value for name, value in options.items() if value is not None})  # type: ignore[arg-type]
    reports = []
    if cards:
        for pair, fields in spreads_of_cards(cards, metric):
            # Options count more than what cards say.
            unset: dict[str, Any] = {
                name: value for name, value in fields.items() if options.get(name) is None
            }
            reports.append(plan_report(dataclasses.replace(plan, **unset), pair))
    else:
        reports.append(plan_report(plan))

    if not as_json:
        click.echo("\n".join(lines_of(power_parts(reports), line_width())))
    elif cards:
        click.echo(dumps_pretty(to_plain(reports)), nl=False)
    else:
        click.echo(dumps_pretty(to_plain(reports[0])), nl=False)
