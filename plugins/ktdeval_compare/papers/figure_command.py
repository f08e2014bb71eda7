"""`ktdeval paper figure`: figures from papers, made from the user's own runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ktdeval.cards import count
from ktdeval.cli import (
    OutputPath,
    RunPath,
    example,
    flag,
    line_width,
    open_plugins,
    options_of,
    print_json,
)
from ktdeval.errors import UsageError
from ktdeval.values import dumps_pretty, make_folder, write_atomic
from ktdeval_compare.papers.paper_options import PaperOptions, list_papers

if TYPE_CHECKING:
    import pandas as pd

    from ktdeval_compare.papers.figures.definitions import PaperFigure

_FORMS = (".svg", ".html", ".json")


@dataclass(frozen=True, kw_only=True)
class FigureOptions(PaperOptions):
    """Options for `paper figure`."""

    out: Path | None = flag(
        None,
        type=OutputPath("file"),
        metavar="FILE",
        help=(
            "file of the figure: FILE.svg, a page FILE.html, or a Vega-Lite spec FILE.json with "
            "its data [default: print the data as a table]"
        ),
    )
    form: Literal["text", "csv"] = flag(
        "text", name="--format", help="format of the printed data; CSV has every digit"
    )
    tasks: tuple[str, ...] = flag(
        (), metavar="NAME,…", help="use only cards of these tasks, by name or pattern"
    )
    events: tuple[str, ...] = flag(
        (),
        name="--event",
        metavar="DAY,…",
        help="days to mark in ama-3 [default: chosen by news and price]",
    )


@example("ktdeval paper figure deepfund-3 ktdeval-runs/a ktdeval-runs/b --out figure.svg")
@click.command()
@click.argument("name", required=False, metavar="[NAME]")
@click.argument("runs", nargs=-1, type=RunPath(), metavar="RUN…")
@options_of(FigureOptions)
def figure(name: str | None, runs: tuple[Path, ...], options: FigureOptions) -> None:
    """Draw a figure of a paper from your own runs, or list the figures.

    RUN is a run folder, from which all cards are used, or a card inside one. A figure has the
    paper's axes and lines, shows counts and intervals for means, and names its runs.
    """
    # imported here to keep help fast
    from ktdeval_compare.papers.figures.definitions import (
        FigureChoices,
        figure_frame,
        find_paper_figure,
        known_figures,
    )

    if name is None:
        list_papers(known_figures().values(), options.as_json, ["needs"])
        return

    made = find_paper_figure(name)
    if not runs:
        raise UsageError(f"{made.name}: give {made.needs}")
    if options.out is not None and options.out.suffix not in _FORMS:
        raise UsageError(f"--out {options.out}: a figure is written as {', '.join(_FORMS)}")

    plugins = open_plugins(options.plugin)
    frame = figure_frame(made, runs, options.choices(FigureChoices, plugins))
    if options.out is not None:
        content = _draw_figure(made, frame, options.out.suffix)
        make_folder(options.out.parent)
        write_atomic(options.out, content)
        click.echo(f"figure  {options.out} ({made.name}, {count(len(frame), 'row')})")
        return

    _print_data(made, frame, options)


def _draw_figure(made: PaperFigure, frame: pd.DataFrame, form: str) -> str | bytes:
    """Return the contents of a figure's file."""
    if form == ".svg":
        from ktdeval_compare.papers.figures.drawing import figure_svg

        return figure_svg(made, frame)
    if form == ".html":
        from ktdeval_compare.papers.figures.page import figure_page

        return figure_page(made, frame)

    from ktdeval_compare.papers.figures.vega_specs import vega_spec

    return dumps_pretty(vega_spec(made, frame)) + "\n"


def _print_data(made: PaperFigure, frame: pd.DataFrame, options: FigureOptions) -> None:
    from ktdeval_compare.papers.table_writing import table_json, write_table

    if options.as_json:
        print_json(table_json(made, frame))
    elif options.form == "csv":
        click.echo(write_table(made, frame.reset_index(drop=True), "csv"), nl=False)
    else:
        click.echo(write_table(made, frame, "text", line_width()), nl=False)
