"""Commands that operate on cards. Each prints its report as JSON or as aligned plain-text tables.
The modules that do the computation are imported only when a command runs, so that help is fast.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ktdeval.cards import count
from ktdeval.cli import (
    JsonOptions,
    OutputPath,
    RunPath,
    example,
    flag,
    options_of,
)
from ktdeval.errors import UsageError
from ktdeval.values import Address
from ktdeval_compare.study import show
from ktdeval_compare.study_options import (
    CohortOptions,
    CommonOptions,
    LevelOptions,
    MetricTestOptions,
)

if TYPE_CHECKING:
    pass

RUN_PATH = RunPath()
_cards = click.argument("cards", nargs=-1, required=True, type=RUN_PATH, metavar="CARD…")


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Selection of the cards to compare."""

    tasks: tuple[str, ...] = flag(
        (), metavar="NAME,…", help="only cards of these tasks, names or globs [default: all]"
    )


def settings_of(options: JsonOptions) -> dict[str, Any]:
    """Return a command's options by name, for passing to the function that does the computation."""
    settings = dataclasses.asdict(options)
    del settings["as_json"]
    return settings


# --- agents


@dataclass(frozen=True, kw_only=True)
class AgentsOptions(TaskOptions, MetricTestOptions, JsonOptions):
    """Options of `compare agents`."""

    factors: tuple[str, ...] = flag(
        (),
        name="--factor",
        metavar="NAME,…",
        help="instead of tests: split the metric's variance by agent, model, asset, window or seed",
    )
    by: Literal["regime", "venue", "year"] | None = flag(
        None,
        help=(
            "instead of one test: figures and differences in each regime of the market (trend,"
            " volatility, breadth), at each venue, or in each year"
        ),
    )
    unit: Literal["window", "episode", "day"] = flag(
        "window",
        name="--pairs",
        help=(
            "unit of a pair: a window (median over its seeds), or each window and seed as in the "
            "paper; with --by a window or a day"
        ),
    )
    data: tuple[Address, ...] = flag(
        (),
        type=click.STRING,
        metavar="DATA",
        help=(
            "with --by: current location of a market that has moved since the run; may be repeated"
        ),
    )
    side: Literal["before", "after"] | None = flag(
        None,
        help=(
            "only windows that lie entirely before or after the cutoff of every card that "
            "records one"
        ),
    )
    against_first: bool = flag(
        False, help="compare only the first card with each of the others: fewer tests, more power"
    )
    pool: bool = flag(
        False, help="instead of tests: one estimate over the windows of cards of several markets"
    )
    at: str | None = flag(
        None,
        metavar="CASH",
        help="compare the runs as executed by `ktdeval compare transplant` at this capital, such as 1e8",
    )


@example("ktdeval compare ktdeval-runs/a ktdeval-runs/b")
@click.command()
@click.argument("cards", nargs=-1, type=RUN_PATH, metavar="CARD…")
@options_of(AgentsOptions)
@click.pass_context
def agents(context: click.Context, /, cards: tuple[Path, ...], options: AgentsOptions) -> None:
    """Test whether agents differ, paired by window and seed.

    CARD is a card file, or a run folder, whose cards are compared task by task. Daily tests need
    the run folder around the card. Cards of scoring tasks are compared score by score, and tested
    sample by sample. A verdict is a difference that is significant after Holm's correction over the
    whole table; anything else is tied. With --factor agent,model: shares of the metric's variance
    due to agent and model; a CSV file of runs, or ama-1 (AMA's Table 1), may then replace the
    cards. With --by regime: where an agent is better, by regimes of the index as known at the
    decision. With --pool: one estimate of the difference between two systems (or of one system's
    selection) over the windows of several markets, and how much markets differ.
    """
    from ktdeval_compare import functions
    from ktdeval_compare.transplants.transplant_command import at_capital
    from ktdeval_compare.variances.variance_runs import table_among

    if not cards:
        raise UsageError(
            "compare agents needs two cards or run folders, or with --factor a table of runs"
        )

    cards = at_capital(cards, options.at)

    table = table_among(cards)
    settings = settings_of(options)
    del settings["at"]
    if options.by is not None:
        _check_cells(context, options)
        for name in ("seed", "factors", "pool"):
            del settings[name]

        show(functions.compare_tables(*cards, **settings), options.as_json)
        return

    if options.data or options.unit == "day":
        raise UsageError("--data and --pairs day apply with --by only")

    for name in ("by", "data"):
        del settings[name]

    if options.factors:
        _check_factors(options)
        for name in ("unit", "side", "against_first", "pool"):
            del settings[name]
    elif table is not None:
        raise UsageError(
            f"{table}: is a table of runs; name the factors to split it by with --factor NAME,…"
        )

    runs = () if table is not None else cards
    show(functions.compare_tables(*runs, table=table, **settings), options.as_json)


def _check_factors(options: AgentsOptions) -> None:
    """Refuse options that do not apply when a variance is decomposed."""
    if options.pool:
        raise UsageError("--pool and --factor are different reports; give one of them")
    if options.unit != "window" or options.side or options.against_first:
        raise UsageError(
            "--pairs, --side and --against-first apply to paired tests, not to --factor"
        )


def _check_cells(context: click.Context, options: AgentsOptions) -> None:
    """Refuse options that do not apply to a comparison by cell."""
    if options.factors:
        raise UsageError("--factor splits a variance; leave it out with --by")
    if options.pool:
        raise UsageError("--pool and --by are different reports; give one of them")
    if options.unit == "episode":
        raise UsageError("--by counts windows or days; use --pairs window or --pairs day")
    if context.get_parameter_source("seed") is not click.core.ParameterSource.DEFAULT:
        raise UsageError("--by involves no random draws; leave --seed out")


# --- masks


@dataclass(frozen=True, kw_only=True)
class MasksOptions(TaskOptions, MetricTestOptions, JsonOptions):
    """Options of `compare masks`."""

    dose_response: bool = flag(
        False,
        help=(
            "instead of cards: run builtin/memory at several doses, and report the smallest that "
            "is detected"
        ),
    )
    doses: tuple[str, ...] = flag(
        (),
        metavar="SHARE,…",
        help="with --dose-response: shares of facts to remember [default: 0,0.001,…,1]",
    )
    seeds: int | None = flag(
        None,
        type=click.IntRange(1, 1000),
        metavar="N",
        help="with --dose-response: number of draws of the remembered facts [default: 3]",
    )
    controls: int | None = flag(
        None,
        type=click.IntRange(0, 10_000),
        metavar="N",
        help="with --dose-response: number of studies of a control without knowledge [default: 0]",
    )
    windows: tuple[str, ...] = flag(
        (), metavar="NAME,…", help="with --dose-response [default: W1 to W10]"
    )
    out: Path | None = flag(
        None,
        type=OutputPath("folder"),
        metavar="DIR",
        help="with --dose-response: folder of its runs; finished runs are not repeated",
    )


_STUDY_OPTIONS = ("doses", "seeds", "controls", "windows", "out")


@example("ktdeval compare masks ktdeval-runs/bright ktdeval-runs/blinded")
@click.command()
@click.argument("cards", nargs=-1, type=RUN_PATH, metavar="CARD…")
@options_of(MasksOptions)
def masks(cards: tuple[Path, ...], options: MasksOptions) -> None:
    """Report the value of stock, date, data and tools, from an agent's cards under several masks
    and modes.

    CARD is a card file or a run folder. Bright and blinded give the memory premium; all four masks
    also the stock effect, the date effect and their interaction; several modes give the information
    ladder, whose contributions add up exactly. With --dose-response no cards are needed: it
    measures the smallest memory that this comparison can detect (docs/detection.md).
    """
    from ktdeval_compare import functions

    settings = settings_of(options)
    del settings["dose_response"]
    if options.dose_response:
        _run_doses(cards, options)
        return

    for name in _STUDY_OPTIONS:
        if settings.pop(name) not in (None, ()):
            raise UsageError(f"--{name} goes with --dose-response")

    if not cards:
        raise UsageError("compare masks needs cards or run folders, or --dose-response")

    show(functions.effects(*cards, **settings), options.as_json)


def _run_doses(cards: tuple[Path, ...], options: MasksOptions) -> None:
    """Run the `--dose-response` study and print its report."""
    from ktdeval.cli import open_plugins, work_shown
    from ktdeval_compare import functions
    from ktdeval_compare.doses.dose_response import dose_report
    from ktdeval_compare.doses.dose_study import plan_of, run_study, write_study
    from ktdeval_compare.doses.dose_texts import dose_parts

    if cards or options.tasks or options.metrics or options.common:
        raise UsageError(
            "--dose-response makes its own runs: leave out cards, --tasks, --metric and --common"
        )

    plan = plan_of(options.doses, options.seeds, options.controls, options.windows)
    out = options.out or Path("ktdeval-runs/dose-response")
    click.echo(
        f"{count(plan.episodes, 'episode')} in {count(len(list(plan.units())), 'run')}"
        f" under {out}: about"
        f" {plan.core_minutes:.0f} minutes of one core",
        err=True,
    )
    with work_shown() as tell:
        study = run_study(plan, out, open_plugins(()), tell)

    report = dose_report(study, options.alpha)
    write_study(out, study.rows, report)
    show(functions.Tables(report, dose_parts(report)), options.as_json)


# --- luck


@dataclass(frozen=True, kw_only=True)
class LuckOptions(JsonOptions):
    """Options of `compare luck`."""

    stores: tuple[Path, ...] = flag(
        (),
        name="--runs",
        type=RUN_PATH,
        metavar="DIR",
        help=(
            "folder whose runs also count as trials, in addition to the cards' own; may be repeated"
        ),
    )
    players: int | None = flag(
        None,
        type=click.IntRange(100, 100_000),
        metavar="N",
        help=(
            "also play N random players of each episode, with the same days, turnover and number "
            "of names, and report each card's rank among them"
        ),
    )
    seed: int | None = flag(
        None,
        type=click.IntRange(0, 2**31 - 1),
        metavar="N",
        help="with --players: seed of their draws [default: 0]",
    )


@example("ktdeval compare luck ktdeval-runs/a ktdeval-runs/b")
@click.command()
@_cards
@options_of(LuckOptions)
def luck(cards: tuple[Path, ...], options: LuckOptions) -> None:
    """Report how much of a result is luck, and whether rankings by return and by selection agree.

    CARD is a card file inside its run folder, or a run folder. Every planned episode of the runs is
    one trial, including limited and unfinished ones: the deflated Sharpe ratio must exceed the best
    expected from that number of trials without skill. For a run of `judge --study`, the tries of
    its study are the trials.
    """
    from ktdeval.cli import work_shown
    from ktdeval_compare import functions

    if options.seed is not None and options.players is None:
        raise UsageError("--seed goes with --players")

    with work_shown() as tell:
        report = functions.luck(
            *cards,
            stores=options.stores,
            players=options.players,
            seed=options.seed or 0,
            tell=tell,
        )

    show(report, options.as_json)


# --- labels


@dataclass(frozen=True, kw_only=True)
class LabelsOptions(LevelOptions, CommonOptions, JsonOptions):
    """Options of `compare labels`."""

    over: Literal["episode", "window"] = flag(
        "episode",
        help=(
            "unit of the intervals: each (window, seed) with its own labels, or each window as "
            "the mean of its seeds"
        ),
    )
    keys: int | None = flag(
        None,
        type=click.IntRange(20, 100_000),
        metavar="N",
        help=(
            "instead: simulate a model that buys the first names listed under N mask keys, and "
            "rank each card's key among them"
        ),
    )
    positions: int | None = flag(
        None,
        type=click.IntRange(1, 1000),
        metavar="N",
        help="with --keys: number of names that the model buys [default: 10]",
    )


@example("ktdeval compare labels ktdeval-runs/key-1 ktdeval-runs/key-2")
@click.command()
@click.argument("cards", nargs=-1, required=True, type=RUN_PATH, metavar="RUN…")
@options_of(LabelsOptions)
@click.pass_context
def labels(context: click.Context, /, cards: tuple[Path, ...], options: LabelsOptions) -> None:
    """Report how much results change if only the labels change: runs of one plan under several mask
    keys.

    RUN is a run folder, or a card in one. Each run shows the same market with other aliases and
    another order of rows; any change is noise that affects every comparison of masked runs. A key
    given twice shows the model's own randomness for comparison, and several seeds show the effect
    of another call seed. With --keys one run is enough: the report shows the spread of returns over
    mask keys, and whether this run's key was lucky.
    """
    from ktdeval_compare import functions

    settings = settings_of(options)
    if options.keys is None:
        if options.positions is not None:
            raise UsageError("--positions goes with --keys")
    else:
        unset = click.core.ParameterSource.DEFAULT
        for name in ("alpha", "common", "over"):
            if context.get_parameter_source(name) is not unset:
                raise UsageError(
                    f"--{name} applies to runs under several keys; leave it out with --keys"
                )

            del settings[name]

    show(functions.invariance(*cards, **settings), options.as_json)


# --- cohorts


@dataclass(frozen=True, kw_only=True)
class CohortsOptions(CohortOptions, JsonOptions):
    """Options of `compare cohorts`."""


@example("ktdeval compare cohorts runs/* --cohort 'ML=qlib/*' --cohort 'LLM=openai/*'")
@click.command()
@click.argument("cards", nargs=-1, type=RUN_PATH, metavar="[RUN…]")
@options_of(CohortsOptions)
def cohorts(cards: tuple[Path, ...], options: CohortsOptions) -> None:
    """Report how cohorts of models differ: style exposures, returns over seeds, trades declined
    behind the mask.

    RUN is a run folder, or a card. The units are models: runs of one model with other seeds, of
    calls or of training, are one model. With cards of bright and blinded tasks, the report adds in
    how many windows and seeds a model placed no order under each mask.
    """
    from ktdeval_compare import functions

    show(functions.cohort(*cards, **settings_of(options)), options.as_json)
