"""`ktdeval compare power`: which differences a plan with given numbers of windows and seeds can
detect, before the plan is run.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ktdeval.cli import (
    FiniteNumber,
    JsonOptions,
    complete_names,
    example,
    flag,
    options_of,
)
from ktdeval.errors import UsageError
from ktdeval_compare.commands import RUN_PATH, settings_of
from ktdeval_compare.plans.published_options import PublishedOptions
from ktdeval_compare.study import show
from ktdeval_compare.study_options import LevelOptions

_spread = FiniteNumber(0, 1000)


@dataclass(frozen=True, kw_only=True)
class PowerOptions(PublishedOptions, LevelOptions, JsonOptions):
    """Options for `compare power`."""

    windows: int | None = flag(
        None,
        type=click.IntRange(1, 300),
        metavar="N",
        help="number of windows [default: as on the cards, or 10]",
    )
    seeds: int | None = flag(
        None,
        type=click.IntRange(1, 1000),
        metavar="N",
        help="number of seeds per window [default: as on the cards, or 1]",
    )
    effect: float | None = flag(
        None,
        type=FiniteNumber(-1e6, 1e6),
        metavar="X",
        help=(
            "difference between two agents to detect per window, in the metric's unit (for a "
            "return, a fraction)"
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
        help="standard deviation over seeds of one agent's figure in one window",
    )
    tracking_error: float | None = flag(
        None,
        type=_spread,
        metavar="X",
        help="instead of --window-sd: annual standard deviation of the difference in return",
    )
    window_days: int | None = flag(
        None,
        type=click.IntRange(1),
        metavar="N",
        help="trading days per window [default: as on the cards, or 43]",
    )
    days_per_year: float | None = flag(
        None,
        type=FiniteNumber(1, 1000),
        metavar="N",
        help="trading days per year [default: as in the cards' market, or 252]",
    )
    memory: float | None = flag(
        None,
        type=FiniteNumber(0.000001, 1),
        metavar="X",
        help=(
            "instead of a difference: detect a memory of this share of facts between bright and "
            "blinded"
        ),
    )
    wanted: float = flag(
        0.8,
        name="--power",
        type=FiniteNumber(0.01, 0.999),
        help="required probability of detecting it",
    )
    comparisons: int = flag(
        1, type=click.IntRange(1), metavar="N", help="number of tests that share alpha (Bonferroni)"
    )
    metric: str = flag(
        "total_return",
        metavar="NAME",
        complete=complete_names("metrics"),
        help="metric to estimate from cards",
    )


@example("ktdeval compare power --windows 10 --tracking-error 0.1")
@click.command()
@click.argument("cards", nargs=-1, type=RUN_PATH, metavar="[CARD…]")
@options_of(PowerOptions)
@click.pass_context
def power(context: click.Context, /, cards: tuple[Path, ...], options: PowerOptions) -> None:
    """Report which differences a plan of windows and seeds can detect, before it is run.

    The test is that of `ktdeval compare agents`: Wilcoxon signed-rank over windows. Spreads come
    from --window-sd and --seed-sd, from --tracking-error, or from the differences between two or
    more cards; without any, effects are in standard deviations. Windows share days as they do on
    the cards; without cards, none are shared. With --memory: whether windows that share days like
    W1 to W10 would reveal, between bright and blinded, that a model remembers this share of the
    market.
    """
    if options.published is not None:
        from ktdeval_compare.plans.published_report import show_published

        show_published(options.published, dataclasses.asdict(options), cards)
        return

    from ktdeval_compare.plans.power import PowerPlan, plan_report, spreads_of_cards
    from ktdeval_compare.plans.power_texts import power_parts
    from ktdeval_compare.table_columns import print_result

    if options.memory is not None:
        _show_memory_power(context, cards, options)
        return

    spread = [options.window_sd, options.tracking_error]
    given = sum(value is not None for value in spread)
    if given > 1 or (given and cards):
        raise UsageError("give the spread once: --window-sd, --tracking-error, or cards")
    if options.seed_sd is not None and not given:
        raise UsageError("--seed-sd needs --window-sd or --tracking-error too")

    settings = settings_of(options)
    for elsewhere in ("memory", "published"):
        del settings[elsewhere]

    metric = settings.pop("metric")
    chosen = {name: value for name, value in settings.items() if value is not None}
    plan = PowerPlan(**chosen)
    reports = []
    if cards:
        for pair, fields in spreads_of_cards(cards, metric):
            # Options override values that come from cards.
            unset: dict[str, Any] = {
                name: value for name, value in fields.items() if name not in chosen
            }
            reports.append(plan_report(dataclasses.replace(plan, **unset), pair))
    else:
        reports.append(plan_report(plan))

    document = reports if cards else reports[0]
    print_result(document, power_parts(reports), None, options.as_json)


def _show_memory_power(
    context: click.Context, cards: tuple[Path, ...], options: PowerOptions
) -> None:
    """Print the power of a plan to detect a memory, based on the study that is shipped with the
    package.
    """
    from ktdeval_compare import functions
    from ktdeval_compare.doses.dose_response import memory_power
    from ktdeval_compare.doses.dose_rows import shipped_origin, shipped_study
    from ktdeval_compare.doses.dose_texts import memory_parts

    taken = {"memory", "windows", "alpha", "wanted", "as_json"}
    for name in (field.name for field in dataclasses.fields(options)):
        source = context.get_parameter_source(name)
        if name not in taken and source is not click.core.ParameterSource.DEFAULT:
            raise UsageError(
                "--memory takes only --windows, --alpha and --power: the spread comes from the "
                "choice of remembered facts, so seeds have no effect"
            )

    if cards or options.memory is None:
        raise UsageError("--memory plans a study before it is run: leave the cards out")

    windows = 10 if options.windows is None else options.windows
    report = memory_power(shipped_study(), options.memory, windows, options.alpha, options.wanted)
    show(functions.Tables(report, memory_parts(report, shipped_origin())), options.as_json)
