"""`ktdeval demo`: demonstrate the two claims that the suite makes, on the embedded market, in under
a minute and without an API key.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktdeval.cli import (
    OutputPath,
    check_finished,
    example,
    flag,
    line_width,
    options_of,
    run_shown,
)
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig

if TYPE_CHECKING:
    from ktdeval_compare.ranking.luck import LuckReport

RECALLING = "builtin/memory"
MASKED = "ktdfin"
RANKED = "blinded_open_research"
MEMORY_WINDOWS = ("W3", "W4")
STRATEGIES = ("equal_weight", "low_volatility", "momentum", "reversal", "random")


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """Options for `demo`."""

    out: Path = flag(
        Path("ktdeval-runs/demo"),
        type=OutputPath("folder"),
        metavar="DIR",
        help="folder of the runs; finished runs are not repeated",
    )
    quiet: bool = flag(False, help="no progress: neither bars nor the name of what runs")


@example("ktdeval demo")
@click.command()
@options_of(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Show what masks and attribution are for: remembering is no skill, and a return is not
    selection.

    Runs a model that remembers the embedded market under every mask and mode, and five strategies
    that know nothing over the long window.
    """
    # imported here to keep help fast
    from ktdeval.registry import TableChoices
    from ktdeval_compare.pairs.compared_cards import load_entrants
    from ktdeval_compare.papers.paper_tables import find_paper_table, paper_frame
    from ktdeval_compare.papers.table_writing import write_table
    from ktdeval_compare.ranking.luck import luck
    from ktdeval_compare.ranking.luck_texts import luck_parts
    from ktdeval_compare.table_columns import lines_of

    plugins = load_plugins()
    plugins.model_spec_name(RECALLING)  # Raises an exception before anything is printed.
    click.echo("1. Does it invest, or remember? builtin/memory has seen this market before.\n")
    memory = _run_model(RECALLING, MASKED, MEMORY_WINDOWS, options)
    modes = find_paper_table("ktdfin-3", plugins)
    # The labels of these cards are what the demo intends: a public key, and no trade without prices.
    frame = paper_frame(modes, [memory], TableChoices(plugins=plugins), tell=_say_nothing)
    click.echo(write_table(modes, frame, "text", line_width()))
    click.echo(
        "When codes and days are visible it earns what it remembers, even if it sees no prices "
        "at all (memory_only).\nUnder the mask it can't recall anything: it trades by what it is "
        "shown, and holds cash if it is shown nothing.\n"
    )
    click.echo(
        "2. Does it select, or ride the market and its factors? Five strategies without any"
        " knowledge, 548 days.\n"
    )
    runs = [_run_model(f"builtin/{name}", RANKED, (), options) for name in STRATEGIES]
    report = luck(load_entrants(runs), ())
    parts = list(luck_parts(report))
    first = parts[: parts.index("")]
    click.echo("\n".join(lines_of(first, line_width())))
    click.echo(f"\n{_selection_sentence(report)}")
    click.echo(
        f"\nmore    ktdeval card show {runs[0]}\n        ktdeval view report "
        f"{' '.join(map(str, runs))}"
    )


def _selection_sentence(report: LuckReport) -> str:
    """Return what the strategy with the highest return selects."""
    best = next(row for row in report.cards if row.return_rank == 1)
    return (
        f"The highest return is that of {best.card}. By selection, which is what market, industries,"
        f" style\nand trading leave, it is number {best.selection_rank:.0f} of {len(report.cards)}: a return"
        " alone does not show who selects."
    )


def _say_nothing(note: str) -> None:
    """Take a caveat that the demo's own sentences cover."""


def _run_model(model: str, tasks: str, windows: tuple[str, ...], options: DemoOptions) -> Path:
    shows_bars = sys.stderr.isatty()
    if not shows_bars and not options.quiet:
        click.echo(f"running {model} …", err=True)

    config = RunConfig(
        model=model,
        tasks=(tasks,),
        windows=windows,
        mask_key="0" * 32,
        out=str(options.out / model.partition("/")[2]),
        quiet=options.quiet or not shows_bars,
    )
    result = run_shown(config, load_plugins())
    check_finished(result)

    return result.folder
