"""`ktdeval report`: draw run folders as a page and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktdeval.cards import ScoringCard, count
from ktdeval.cli import (
    OutputPath,
    RunPath,
    complete_data,
    complete_names,
    example,
    json_option,
    open_plugins,
    plugin_option,
    print_json,
    warn,
    work_shown,
)
from ktdeval.errors import UsageError, explained
from ktdeval.runner import paths_of_runs
from ktdeval.values.fields import user_path
from ktdeval.values.jsonio import JsonValue, make_folder, write_atomic
from ktdeval.values.temporary import filling

if TYPE_CHECKING:
    from ktdeval_report.page import Report

_FORMATS = ("png", "svg")


@example("ktdeval report ktdeval-runs/a ktdeval-runs/b --out report.html")
@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN…")
@click.option(
    "--out",
    type=OutputPath("file"),
    default=Path("report.html"),
    show_default=True,
    metavar="FILE",
    help="the page",
)
@click.option(
    "--plots",
    type=OutputPath("folder"),
    metavar="DIR",
    help="write each plot as a file of its own into this folder too",
)
@click.option(
    "--format",
    "formats",
    default="png",
    show_default=True,
    metavar="png,svg",
    help="formats of these files",
)
@click.option(
    "--windows",
    metavar="NAME,…",
    shell_complete=complete_names("windows"),
    help="windows to draw [default: chosen by the benchmark's return]",
)
@click.option(
    "--metric",
    "metrics",
    metavar="NAME,…",
    shell_complete=complete_names("metrics"),
    help="metrics of mask and mode effects [default: total_return]",
)
@click.option(
    "--rules",
    type=click.Choice(["strict", "paper"]),
    help="compute metrics under this rule set [default: that of each card]",
)
@click.option(
    "--data",
    metavar="DATA",
    shell_complete=complete_data,
    help="the market, where it has moved since the run: a snapshot folder or data provider",
)
@click.option(
    "--paths",
    type=click.IntRange(20, 5000),
    default=200,
    show_default=True,
    metavar="N",
    help="random traders of a window",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="seed of the random traders",
)
@plugin_option
@json_option
def report(
    runs: tuple[Path, ...],
    out: Path,
    plots: Path | None,
    formats: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Draw runs as one self-contained HTML page.

    RUN is a run folder, whose cards are all taken, or a card inside one. A card on its own gives
    tables without daily plots. The page needs no network and no script; cards and records are only
    read.
    """
    # not at the top, so that help is quick
    from ktdeval_report.canvas import plot_file, require_matplotlib
    from ktdeval_report.inputs import Sources, load_evaluations
    from ktdeval_report.page import Options, make_report
    from ktdeval_report.study import Settings

    require_matplotlib()
    forms = _names(formats) or _FORMATS[:1]
    for name in forms:
        if name not in _FORMATS:
            raise UsageError(f"--format {name!r}: plots are written as {' or '.join(_FORMATS)}")

    sources = Sources(open_plugins(options["extra"]), options["data"], options["rules"])
    evaluations, scored = load_evaluations(runs, sources)
    for evaluation in evaluations:
        if evaluation.problem:
            warn(f"{evaluation.path}: {evaluation.problem}")

    settings = Settings(options["paths"], options["seed"])
    with work_shown() as tell:
        page = make_report(
            evaluations,
            Options(_names(options["windows"]), _names(options["metrics"]), settings),
            scored,
            tell,
        )

    written = []
    if plots is not None:
        with (
            explained(f"{plots}: can't write", "choose another folder with --plots"),
            filling(plots) as fresh,
        ):
            for name, plot in page.plots.items():
                for form in forms:
                    file = f"{name}.{form}"
                    write_atomic(fresh / file, plot_file(plot, form))
                    written.append(plots / file)

    make_folder(out.parent)
    write_atomic(out, page.html)
    if as_json:
        print_json(_outcome(out, page, written, scored))
        return

    if plots is not None:
        click.echo(f"plots   {plots} ({count(len(written), 'file')})")

    size = f"{len(page.html.encode()) / 1e6:.1f} MB"
    click.echo(
        f"report  {out} ({count(len(evaluations) + len(scored), 'card')},"
        f" {count(len(page.plots), 'plot')}, {size})"
    )


def _outcome(
    out: Path, page: Report, plots: Sequence[Path], scored: Sequence[ScoringCard]
) -> dict[str, JsonValue]:
    """Return what `report --json` prints: the files written, and the figures of each card."""
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


def _names(text: object) -> tuple[str, ...]:
    names = [name.strip() for name in str(text or "").split(",")]
    return tuple(dict.fromkeys(name for name in names if name))


def draw_report(*runs: object, out: str | Path = "report.html", **options: object) -> Path:
    """`ktdeval.report`: the command as a function. `runs`: folders, cards or what
    `ktdeval.evaluate` returns; `options`: those of the command (`plots="figures"`), or None.
    Returns the page's path. Raises KtdevalError, or click's UsageError for a bad option.
    """
    page = user_path(out)
    words = [str(path) for path in paths_of_runs(runs)]
    words += ["--out", str(page)]
    for name, value in options.items():
        if value is not None:
            words += [f"--{name}", str(value)]

    report.main(words, prog_name="report", standalone_mode=False)

    return page
