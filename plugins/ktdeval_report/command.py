"""`ktdeval view report`: render run folders as a page with plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ktdeval.cards import ScoringCard, count
from ktdeval.cli import (
    JsonOptions,
    MarketOptions,
    OutputPath,
    PluginOptions,
    RunPath,
    example,
    flag,
    open_plugins,
    options_of,
    print_json,
    warn,
    work_shown,
)
from ktdeval.errors import UsageError, wrap_os_error
from ktdeval.runner import paths_of_runs
from ktdeval.values import JsonValue, filling, make_folder, user_path, write_atomic

if TYPE_CHECKING:
    from ktdeval_report.page import FinishedReport

_FORMATS = ("png", "svg")


@dataclass(frozen=True, kw_only=True)
class ReportOptions(MarketOptions, PluginOptions, JsonOptions):
    """Options of `view report`."""

    out: Path = flag(Path("report.html"), type=OutputPath("file"), metavar="FILE", help="the page")
    plots: Path | None = flag(
        None,
        type=OutputPath("folder"),
        metavar="DIR",
        help="also write each plot as a separate file into this folder",
    )
    formats: tuple[str, ...] = flag(
        ("png",), name="--format", metavar="png,svg", help="formats of these files [default: png]"
    )
    windows: tuple[str, ...] = flag(
        (), metavar="NAME,…", help="windows to draw [default: chosen by the benchmark's return]"
    )
    metrics: tuple[str, ...] = flag(
        (),
        name="--metric",
        metavar="NAME,…",
        help="metrics for mask and mode effects [default: total_return]",
    )
    rules: Literal["strict", "paper"] | None = flag(
        None, help="compute metrics under this rule set [default: each card's]"
    )
    paths: int = flag(
        200, type=click.IntRange(20, 5000), metavar="N", help="number of random traders per window"
    )
    seed: int = flag(0, type=click.IntRange(0), metavar="N", help="seed of the random traders")


@example("ktdeval view report ktdeval-runs/a ktdeval-runs/b --out report.html")
@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN…")
@options_of(ReportOptions)
def report(runs: tuple[Path, ...], options: ReportOptions) -> None:
    """Draw runs as one self-contained HTML page.

    RUN is a run folder, whose cards are all taken, or a card inside one. A card on its own gives
    tables without daily plots. The page needs no network and no script; cards and records are only
    read.
    """
    # not imported at the top, so that help is fast
    from ktdeval_pages.rendering import require_renderer
    from ktdeval_report.canvas import plot_file
    from ktdeval_report.card_figures import ChanceSettings
    from ktdeval_report.inputs import ReportSources, load_evaluations
    from ktdeval_report.page import ReportPageOptions, make_report

    require_renderer("a report")
    formats = list(dict.fromkeys(options.formats))
    for name in formats:
        if name not in _FORMATS:
            raise UsageError(f"--format {name!r}: plots are written as {' or '.join(_FORMATS)}")

    sources = ReportSources(open_plugins(options.plugin), options.data, options.rules)
    evaluations, scored = load_evaluations(runs, sources)
    for evaluation in evaluations:
        if evaluation.problem:
            warn(f"{evaluation.path}: {evaluation.problem}")

    settings = ChanceSettings(options.paths, options.seed)
    with work_shown() as tell:
        page = make_report(
            evaluations,
            ReportPageOptions(options.windows, options.metrics, settings),
            scored,
            tell,
        )

    written = []
    out, plots = options.out, options.plots
    if plots is not None:
        with (
            wrap_os_error(f"{plots}: can't write", "choose another folder with --plots"),
            filling(plots) as fresh,
        ):
            for name, plot in page.plots.items():
                for form in formats:
                    file = f"{name}.{form}"
                    write_atomic(fresh / file, plot_file(plot, form))
                    written.append(plots / file)

    make_folder(out.parent)
    write_atomic(out, page.html)
    if options.as_json:
        print_json(_json_outcome(out, page, written, scored))
        return

    if plots is not None:
        click.echo(f"plots   {plots} ({count(len(written), 'file')})")

    size = f"{len(page.html.encode()) / 1e6:.1f} MB"
    click.echo(
        f"report  {out} ({count(len(evaluations) + len(scored), 'card')},"
        f" {count(len(page.plots), 'plot')}, {size})"
    )


def _json_outcome(
    out: Path, page: FinishedReport, plots: Sequence[Path], scored: Sequence[ScoringCard]
) -> dict[str, JsonValue]:
    """Return what `view report --json` prints: the paths of the written files, and the figures of
    each card.
    """
    cards: list[JsonValue] = []
    for row in page.rows:
        card = row.of.card
        mean = asdict(row.mean)
        cards.append(
            {
                "card": str(row.of.path),
                "label": row.of.label,
                "task": card.task.name,
                "model": card.model.name,
                "labels": list(card.labels),
                "excess_return": row.excess,
                "selection": row.selection,
                "mean_excess": {name: mean[name] for name in ("value", "low", "high", "reason")},
                "problem": row.of.problem,
            }
        )

    scoring: list[JsonValue] = []
    for each in scored:
        scores: dict[str, JsonValue] = {name: line.value for name, line in each.scores.items()}
        task, model = each.task.name, each.model.name
        scoring.append({"task": task, "model": model, "scores": scores})

    return {
        "report": str(out),
        "bytes": len(page.html.encode()),
        "plots": [str(path) for path in plots],
        "cards": cards,
        "scoring_cards": scoring,
    }


def draw_report(*runs: object, out: str | Path = "report.html", **options: object) -> Path:
    """`ktdeval.report`: the command as a function. `runs`: folders, cards or what
    `ktdeval.evaluate` returns; `options`: those of the command (`plots="figures"`), or None.
    Returns the page's path. Raises KtdevalError, or click's UsageError for a bad option.

    Example:
        ktdeval.report(run, other, out="report.html").name  # report.html
    """
    page = user_path(out)
    words = [str(path) for path in paths_of_runs(runs)]
    words += ["--out", str(page)]
    for name, value in options.items():
        if value is not None:
            words += [f"--{name}", str(value)]

    report.main(words, prog_name="report", standalone_mode=False)

    return page
