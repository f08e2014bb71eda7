"""`ktdeval fork`: repeat a run's decisions with one input changed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktdeval.cli import (
    JsonOptions,
    MarketOptions,
    OutputPath,
    PluginOptions,
    RunPath,
    config_option,
    example,
    flag,
    open_plugins,
    options_of,
    work_shown,
)

if TYPE_CHECKING:
    from ktdeval_compare.forks.fork_run import ForkCost


@dataclass(frozen=True, kw_only=True)
class ForkOptions(MarketOptions, PluginOptions, JsonOptions):
    """Options for `fork`."""

    step: tuple[str, ...] = flag(("0",), metavar="K,…|all", help="steps of each episode to repeat")
    change: tuple[str, ...] = flag(
        ("each",),
        metavar="FIELD=VALUE,…",
        help="inputs to change, one at a time; each: all inputs that the step shows",
    )
    samples: int | None = flag(
        None,
        type=click.IntRange(1, 1000),
        metavar="N",
        help="number of decisions per change and step [default: 5; 1 for a deterministic model]",
    )
    windows: tuple[str, ...] = flag((), metavar="NAME,…", help="only these windows of the run")
    tasks: tuple[str, ...] = flag((), metavar="NAME,…", help="only these trading tasks of the run")
    seed: int = flag(0, type=click.IntRange(0), metavar="N", help="seed of tests and intervals")
    out: Path | None = flag(
        None,
        type=OutputPath("folder"),
        metavar="DIR",
        help="folder of decisions and figures [default: RUN-fork]",
    )
    yes: bool = flag(False, name="--yes -y", help="spend money without asking for confirmation")


@example("ktdeval fork ktdeval-runs/a --step all")
@click.command()
@click.argument("run", type=RunPath(), metavar="RUN")
@options_of(ForkOptions)
@config_option("base_url", "max_cost", "max_tokens", "cache")
def fork(run: Path, options: ForkOptions, **changes: Any) -> None:
    """Repeat a run's steps with one input changed, and report which inputs affect its decisions.

    RUN is a finished run, which is only read, or the folder of a fork, which is shown again. Each
    input is changed before the mask is applied; the null consists of repeats without a change, with
    another order, and with other labels. FIELD is a column of the candidates, SECTION.FIELD, or
    order; VALUE is a number, a text, +1 %, *-1, reversed or shuffled. A fork produces no card and
    is never ranked.
    """
    # imported here to keep help fast
    from ktdeval_compare.forks.fork_run import ForkSettings, fork_run, load_fork_again
    from ktdeval_compare.forks.fork_texts import fork_parts
    from ktdeval_compare.table_columns import print_result

    settings = ForkSettings(
        steps=options.step,
        changes=options.change,
        samples=options.samples,
        windows=options.windows,
        tasks=options.tasks,
        seed=options.seed,
        data=options.data,
        run={name: value for name, value in changes.items() if value is not None},
    )

    def agree(cost: ForkCost) -> None:
        _agree(cost, has_agreed=options.yes or options.as_json)

    file = load_fork_again(run, settings)
    made = None
    if file is None:
        with work_shown() as tell:
            plugins = open_plugins(options.plugin)
            file, folder = fork_run(run, settings, plugins, agree, options.out, tell)
            made = "fork", folder

    print_result(file, fork_parts(file), made, options.as_json)


def _agree(cost: ForkCost, *, has_agreed: bool) -> None:
    """Print the cost of a fork. In an interactive terminal, also ask for consent before money is
    spent. Raises click.Abort if the user declines.
    """
    click.echo(f"fork: {cost.words}", err=True)
    is_asked = sys.stdin.isatty() and sys.stderr.isatty()
    if cost.decisions and not cost.is_free and is_asked and not has_agreed:
        click.confirm("ask them?", abort=True, err=True)
