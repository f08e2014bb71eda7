"""Commands on several cards: options in; out comes the report as JSON, or as tables of aligned
plain text. What computes is imported when a command runs, so that help is quick.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ktdeval.cli import (
    JsonOptions,
    Number,
    RunPath,
    complete_names,
    example,
    flag,
    line_width,
    options_of,
)
from ktdeval.errors import UsageError
from ktdeval.values.strict_json import dumps_pretty
from ktdeval.values.typed_json import to_plain

if TYPE_CHECKING:
    from ktdeval_compare import functions

_PATH = RunPath()
_spread = Number(0, 1000)
_cards = click.argument("cards", nargs=-1, required=True, type=_PATH, metavar="CARD…")


@dataclass(frozen=True, kw_only=True)
class CardOptions:
    """Which cards are compared, and by which metrics."""

    tasks: tuple[str, ...] = flag(
        (), metavar="NAME,…", help="only cards of these tasks, names or globs [default: all]"
    )
    metrics: tuple[str, ...] = flag(
        (),
        name="--metric",
        metavar="NAME,…",
        help="metric, may be repeated [default: total_return]",
    )


@dataclass(frozen=True, kw_only=True)
class LevelOptions:
    """How sure a verdict is."""

    alpha: float = flag(
        0.05,
        type=Number(0.0001, 0.5),
        help="level of verdicts; intervals hold with 1 - alpha",
    )


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """What happens where cards differ in what they hold."""

    common: bool = flag(
        False, help="where cards differ in windows or seeds, use those that all have"
    )


@dataclass(frozen=True, kw_only=True)
class ChanceOptions:
    """Where chance comes from."""

    seed: int = flag(
        0, type=click.IntRange(0), metavar="N", help="seed of simulations and bootstraps"
    )


def _show(tables: functions.Tables, as_json: bool) -> None:
    """Print a report as JSON, or its text."""
    if as_json:
        click.echo(dumps_pretty(tables.report), nl=False)
    else:
        click.echo(tables.text(line_width()))


def _settings(options: JsonOptions) -> dict[str, Any]:
    """Return the options of a command by name, for the function that it calls."""
    settings = dataclasses.asdict(options)
    del settings["as_json"]
    return settings


# --- agents


@dataclass(frozen=True, kw_only=True)
class AgentsOptions(CardOptions, LevelOptions, CommonOptions, ChanceOptions, JsonOptions):
    """Options of `compare agents`."""

    factors: tuple[str, ...] = flag(
        (),
        name="--factor",
        metavar="NAME,…",
        help="instead of tests: split the metric's variance by agent, model, asset, window or seed",
    )
    unit: Literal["window", "episode"] = flag(
        "window",
        name="--pairs",
        help=(
            "what counts as one pair: a window (median over its seeds), or each window and seed as"
            " in the paper"
        ),
    )
    side: Literal["before", "after"] | None = flag(
        None, help="only windows wholly before or after the cutoff of every card that records one"
    )
    against_first: bool = flag(
        False, help="only the first card against each of the others: fewer tests, more power"
    )


@example("ktdeval compare ktdeval-runs/a ktdeval-runs/b")
@click.command()
@click.argument("cards", nargs=-1, type=_PATH, metavar="CARD…")
@options_of(AgentsOptions)
def agents(cards: tuple[Path, ...], options: AgentsOptions) -> None:
    """Test whether agents differ, paired by window and seed.

    CARD is a card file, or a run folder, whose cards are compared task by task. Daily tests need
    the run folder around the card. Cards of scoring tasks are compared score by score, and tested
    sample by sample. A verdict is a difference that is significant after Holm's correction over the
    whole table; anything else is tied. With --factor agent,model: how much of the metric's variance
    is the agent's and how much the model's; a CSV file of runs, or ama-1 (AMA's Table 1), may then
    stand in place of cards.
    """
    from ktdeval_compare import functions
    from ktdeval_compare.variance_runs import table_among

    if not cards:
        raise UsageError(
            "compare agents needs two cards or run folders, or with --factor a table of runs"
        )

    table = table_among(cards)
    settings = _settings(options)
    if options.factors:
        if options.unit != "window" or options.side or options.against_first:
            raise UsageError(
                "--pairs, --side and --against-first are of paired tests, not of --factor"
            )

        for name in ("unit", "side", "against_first"):
            del settings[name]
    elif table is not None:
        raise UsageError(f"{table}: is a table of runs, which --factor NAME,… splits; give it too")

    runs = () if table is not None else cards
    _show(functions.compare(*runs, table=table, **settings), options.as_json)


# --- masks


@dataclass(frozen=True, kw_only=True)
class MasksOptions(CardOptions, LevelOptions, CommonOptions, ChanceOptions, JsonOptions):
    """Options of `compare masks`."""


@example("ktdeval compare masks ktdeval-runs/bright ktdeval-runs/blinded")
@click.command()
@_cards
@options_of(MasksOptions)
def masks(cards: tuple[Path, ...], options: MasksOptions) -> None:
    """Report the value of stock, date, data and tools, from an agent's cards under several masks
    and modes.

    CARD is a card file or a run folder. Bright and blinded give the memory premium; all four masks
    also the stock effect, the date effect and their interaction; several modes give the information
    ladder, whose contributions add up exactly.
    """
    from ktdeval_compare import functions

    _show(functions.effects(*cards, **_settings(options)), options.as_json)


# --- luck


@dataclass(frozen=True, kw_only=True)
class LuckOptions(JsonOptions):
    """Options of `compare luck`."""

    stores: tuple[Path, ...] = flag(
        (),
        name="--runs",
        type=_PATH,
        metavar="DIR",
        help="folder of runs to count trials in, besides the cards' own; may be repeated",
    )


@example("ktdeval compare luck ktdeval-runs/a ktdeval-runs/b")
@click.command()
@_cards
@options_of(LuckOptions)
def luck(cards: tuple[Path, ...], options: LuckOptions) -> None:
    """Report how much of a result is luck, and whether a ranking by return is one by selection.

    CARD is a card file inside its run folder, or a run folder. Every episode that the runs planned
    counts as a trial, limited and unfinished ones too: the deflated Sharpe ratio asks for more than
    the best that so many worthless trials would have shown.
    """
    from ktdeval_compare import functions

    _show(functions.luck(*cards, stores=options.stores), options.as_json)


# --- labels


@dataclass(frozen=True, kw_only=True)
class LabelsOptions(LevelOptions, CommonOptions, JsonOptions):
    """Options of `compare labels`."""

    over: Literal["episode", "window"] = flag(
        "episode",
        help=(
            "what intervals vary over: each (window, seed), whose labels are its own, or windows,"
            " each the mean of its seeds"
        ),
    )
    keys: int | None = flag(
        None,
        type=click.IntRange(20, 100_000),
        metavar="N",
        help=(
            "instead: a model that buys the first names listed, over N mask keys, and each card's"
            " key among them"
        ),
    )
    positions: int | None = flag(
        None,
        type=click.IntRange(1, 1000),
        metavar="N",
        help="with --keys: names that it buys [default: 10]",
    )


@example("ktdeval compare labels ktdeval-runs/key-1 ktdeval-runs/key-2")
@click.command()
@click.argument("cards", nargs=-1, required=True, type=_PATH, metavar="RUN…")
@options_of(LabelsOptions)
@click.pass_context
def labels(context: click.Context, /, cards: tuple[Path, ...], options: LabelsOptions) -> None:
    """Report how much changes when only the labels do: runs of one plan under several mask keys.

    RUN is a run folder, or a card in one. Each run shows the same market under other aliases and in
    another order of rows; whatever then changes is noise that every comparison of masked runs
    carries. A key given twice shows the model's own chance beside it, and several seeds what
    another call seed does. With --keys one run is enough: how much a mask key alone is worth, and
    whether this run's is a lucky one.
    """
    from ktdeval_compare import functions

    settings = _settings(options)
    if options.keys is None:
        if options.positions is not None:
            raise UsageError("--positions goes with --keys")
    else:
        unset = click.core.ParameterSource.DEFAULT
        for name in ("alpha", "common", "over"):
            if context.get_parameter_source(name) is not unset:
                raise UsageError(
                    f"--{name} is of runs under several keys, not of --keys; leave it out"
                )

            del settings[name]

    _show(functions.invariance(*cards, **settings), options.as_json)


# --- cohorts


@dataclass(frozen=True, kw_only=True)
class CohortsOptions(LevelOptions, CommonOptions, JsonOptions):
    """Options of `compare cohorts`."""

    cohorts: tuple[str, ...] = flag(
        (),
        name="--cohort",
        type=click.STRING,
        metavar="NAME=ITEM,…",
        help=(
            "a cohort: patterns of systems, run folders or cards; repeat it for each [default: all"
            " systems]"
        ),
    )
    task: str | None = flag(
        None,
        metavar="NAME",
        complete=complete_names("tasks"),
        help=(
            "task of exposures and figures, where cards are of several [default: that of most"
            " models]"
        ),
    )


@example("ktdeval compare cohorts runs/* --cohort 'ML=qlib/*' --cohort 'LLM=openai/*'")
@click.command()
@click.argument("cards", nargs=-1, type=_PATH, metavar="[RUN…]")
@options_of(CohortsOptions)
def cohorts(cards: tuple[Path, ...], options: CohortsOptions) -> None:
    """Report how cohorts of models differ: style exposures, returns over seeds, trades declined
    behind the mask.

    RUN is a run folder, or a card. Models are what varies: runs of one model under other seeds, its
    own or those of its training, are one model. Cards of bright and blinded tasks add in how many
    windows and seeds a model placed no order under each mask.
    """
    from ktdeval_compare import functions

    _show(functions.cohort(*cards, **_settings(options)), options.as_json)


# --- cutoff


@dataclass(frozen=True, kw_only=True)
class CutoffOptions(LevelOptions, JsonOptions):
    """Options of `compare cutoff`."""

    cutoffs: tuple[str, ...] = flag(
        (),
        name="--cutoff",
        type=click.STRING,
        metavar="MODEL=DATE",
        help=(
            "end of the training data of a model or pattern of systems: a day, a month, none"
            " (nothing trained), unknown"
        ),
    )


@example("ktdeval compare cutoff ktdeval-runs/a --cutoff openai/gpt-5-mini=2024-06")
@click.command()
@_cards
@options_of(CutoffOptions)
def cutoff(cards: tuple[Path, ...], options: CutoffOptions) -> None:
    """Set a model's results in its training time against those after it.

    CARD is a card file inside its run folder, or a run folder. A model may remember days before its
    training data end; what it earns after them is what it can do.
    """
    from ktdeval_compare import functions
    from ktdeval_compare.compared_cards import load_entrants
    from ktdeval_compare.cutoff import cutoff as find_decays
    from ktdeval_compare.report_texts import cutoff_parts

    dates: dict[str, str] = {}
    for given in options.cutoffs:
        name, _, date = given.rpartition("=")
        if not name:
            raise UsageError(f"--cutoff {given!r}: expected MODEL=DATE")
        if name in dates:
            raise UsageError("--cutoff: a model is given twice; give its date once")

        dates[name] = date

    report = find_decays(load_entrants(cards), dates, options.alpha)
    _show(functions.Tables(report, cutoff_parts(report)), options.as_json)


# --- power


@dataclass(frozen=True, kw_only=True)
class PowerOptions(LevelOptions, JsonOptions):
    """Options of `compare power`."""

    windows: int | None = flag(
        None,
        type=click.IntRange(1, 300),
        metavar="N",
        help="windows of the plan [default: those of the cards, or 10]",
    )
    seeds: int | None = flag(
        None,
        type=click.IntRange(1, 1000),
        metavar="N",
        help="seeds of each window [default: those of the cards, or 1]",
    )
    effect: float | None = flag(
        None,
        type=Number(-1e6, 1e6),
        metavar="X",
        help=(
            "difference in a window's figure that must be found, in the metric's unit: of a return,"
            " a fraction"
        ),
    )
    window_sd: float | None = flag(
        None,
        type=_spread,
        metavar="X",
        help=(
            "standard deviation over windows of the true difference of two agents, as a fraction"
            " (0.05 is 5 %)"
        ),
    )
    seed_sd: float | None = flag(
        None,
        type=_spread,
        metavar="X",
        help="the same over seeds of one agent's figure in one window",
    )
    tracking_error: float | None = flag(
        None,
        type=_spread,
        metavar="X",
        help="in place of --window-sd: annual, of the difference in return",
    )
    window_days: int | None = flag(
        None,
        type=click.IntRange(1),
        metavar="N",
        help="trading days of a window [default: those of the cards, or 43]",
    )
    days_per_year: float | None = flag(
        None,
        type=Number(1, 1000),
        metavar="N",
        help="trading days of a year [default: those of the cards' market, or 252]",
    )
    wanted: float = flag(
        0.8, name="--power", type=Number(0.01, 0.999), help="wanted probability of finding it"
    )
    comparisons: int = flag(
        1, type=click.IntRange(1), metavar="N", help="tests that share alpha (Bonferroni)"
    )
    metric: str = flag(
        "total_return",
        metavar="NAME",
        complete=complete_names("metrics"),
        help="metric to estimate from cards",
    )


@example("ktdeval compare power --windows 10 --tracking-error 0.1")
@click.command()
@click.argument("cards", nargs=-1, type=_PATH, metavar="[CARD…]")
@options_of(PowerOptions)
def power(cards: tuple[Path, ...], options: PowerOptions) -> None:
    """Report what a plan of windows and seeds can tell apart, before it is run.

    The test is that of `ktdeval compare agents`: Wilcoxon signed-rank over windows, exact. Spreads
    come from --window-sd and --seed-sd, from --tracking-error, or from the differences of two or
    more cards; without any, effects are in standard deviations.
    """
    from ktdeval_compare.power import PowerPlan, plan_report, spreads_of_cards
    from ktdeval_compare.power_texts import power_parts
    from ktdeval_compare.table_columns import lines_of

    spread = [options.window_sd, options.tracking_error]
    given = sum(value is not None for value in spread)
    if given > 1 or (given and cards):
        raise UsageError("give the spread once: --window-sd, --tracking-error, or cards")
    if options.seed_sd is not None and not given:
        raise UsageError("--seed-sd needs --window-sd or --tracking-error beside it")

    settings = _settings(options)
    metric = settings.pop("metric")
    chosen = {name: value for name, value in settings.items() if value is not None}
    plan = PowerPlan(**chosen)
    reports = []
    if cards:
        for pair, fields in spreads_of_cards(cards, metric):
            # Options count more than what cards say.
            unset: dict[str, Any] = {
                name: value for name, value in fields.items() if name not in chosen
            }
            reports.append(plan_report(dataclasses.replace(plan, **unset), pair))
    else:
        reports.append(plan_report(plan))

    if not options.as_json:
        click.echo("\n".join(lines_of(power_parts(reports), line_width())))
    elif cards:
        click.echo(dumps_pretty(to_plain(reports)), nl=False)
    else:
        click.echo(dumps_pretty(to_plain(reports[0])), nl=False)
