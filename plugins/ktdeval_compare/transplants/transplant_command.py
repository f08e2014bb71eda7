"""`ktdeval compare transplant`: execute a run's decisions again with different capital and costs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from ktdeval.cli import (
    FiniteNumber,
    JsonOptions,
    MarketOptions,
    OutputPath,
    PluginOptions,
    RunPath,
    capital_of,
    example,
    flag,
    open_plugins,
    options_of,
    work_shown,
)


@dataclass(frozen=True, kw_only=True)
class TransplantOptions(MarketOptions, PluginOptions, JsonOptions):
    """Options for `compare transplant`."""

    cash: tuple[str, ...] = flag(
        (),
        metavar="N,…",
        help=("initial capitals, such as 1e6,1e7,1e8 [default: 1, 10 and 100 times the run's own]"),
    )
    execution: str | None = flag(
        None,
        metavar="NAME",
        help="costs of execution: none, spread, sqrt [default: the run's own]",
    )
    spread: float | None = flag(
        None,
        type=FiniteNumber(0, 1000),
        metavar="BPS",
        help="half spread in basis points, instead of the preset's",
    )
    tasks: tuple[str, ...] = flag(
        (), metavar="NAME,…", help="only these trading tasks of the run [default: all]"
    )
    out: Path | None = flag(
        None,
        type=OutputPath("new folder", "transplant.json"),
        metavar="DIR",
        help="folder of figures, cards and ledgers [default: RUN-transplanted]",
    )


@example("ktdeval compare transplant ktdeval-runs/a --cash 1e6,1e7,1e8,1e9 --execution sqrt")
@click.command()
@click.argument("run", type=RunPath(), metavar="RUN")
@options_of(TransplantOptions)
def transplant(run: Path, options: TransplantOptions) -> None:
    """Execute a run's decisions again with other capitals and costs, and report where the edge
    vanishes.

    RUN is a run folder, which is only read, or the folder of a transplant, which is shown again. No
    model is called: lots, limits and caps are applied again to the same decisions. Orders by target
    weights are unchanged; orders by shares are scaled by the capital. The model did not see these
    fills, so the cards are labelled `transplanted` and never ranked. Returns are withheld if less
    than 80 % of the ordered amount is filled.
    """
    # imported here to keep help fast
    from ktdeval_compare.table_columns import print_result
    from ktdeval_compare.transplants.transplant_run import (
        TransplantSettings,
        load_again,
        transplant_run,
    )
    from ktdeval_compare.transplants.transplant_texts import transplant_parts

    settings = TransplantSettings(
        capitals=tuple(capital_of(text) for text in options.cash),
        execution=options.execution,
        spread=options.spread,
        tasks=options.tasks,
        data=options.data,
    )
    file = load_again(run, settings)
    made = None
    if file is None:
        with work_shown() as tell:
            plugins = open_plugins(options.plugin)
            file, folder = transplant_run(run, settings, plugins, options.out, tell)
            made = "transplant", folder

    print_result(file, transplant_parts(file), made, options.as_json)


def at_capital(cards: tuple[Path, ...], capital: str | None) -> tuple[Path, ...]:
    """Return the folders of the runs' transplants with this capital. If no capital is given, return
    the paths unchanged.
    """
    if capital is None:
        return cards

    from ktdeval.runner import transplanted_at

    return tuple(transplanted_at(path, capital_of(capital, "--at")) for path in cards)
