"""Studies of cards. Each study has a folder with its options, a function that is called with the
cards, columns, and optionally a figure. `ktdeval_compare.cutoffs` is an example. Packages add
studies through the `ktdeval_commands` hook.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import click

from ktdeval.cli import (
    JsonOptions,
    OutputPath,
    RunPath,
    example,
    flag,
    line_width,
    options_of,
)
from ktdeval.errors import UsageError
from ktdeval.values import (
    dumps_pretty,
    later,
    load_yaml,
    make_folder,
    to_object,
    write_atomic,
)
from ktdeval_compare.table_columns import Part, declared_table, note_parts
from ktdeval_pages.rendering import svg_of

COLUMNS = "columns.yaml"
FIGURE = "figure.json"


class Printable(Protocol):
    """A report that can be printed as JSON or as text."""

    @property
    def report(self) -> Any:
        """Contents of the report."""

    def text(self, width: int | None) -> str:
        """Return the report as text whose lines have at most `width` columns. If `width` is None,
        the length of lines is not limited.
        """


def show(tables: Printable, as_json: bool) -> None:
    """Print a report as JSON or as text."""
    if as_json:
        click.echo(dumps_pretty(tables.report), nl=False)
    else:
        click.echo(tables.text(line_width()))


@dataclass(frozen=True, kw_only=True)
class StudyFigureOptions(JsonOptions):
    """Options for a study that has a figure."""

    out: Path | None = flag(
        None,
        type=OutputPath("file"),
        metavar="FILE",
        help="also draw the figure: FILE.svg, or a Vega-Lite spec FILE.json with its data",
    )


@dataclass(frozen=True, kw_only=True)
class CompareStudy:
    """A study. The command `ktdeval compare NAME CARD…` reads the cards, then computes and prints
    the study's report.

    Example:
        CompareStudy(
            name="spread",
            help="Report the best and the worst episode of each card.",
            folder=Path(__file__).parent,
            options=SpreadOptions,
            compute="my_lab.spread.compute:spread",
        )
    """

    name: str
    help: str
    #: folder with `columns.yaml`, which has the columns of each table under the report field that
    #: contains the table's rows. If `options` are StudyFigureOptions, the folder also has
    #: `figure.json`, a Vega-Lite spec for the first table
    folder: Path
    options: type[JsonOptions]
    #: `module:function`, called with the trading cards (a list of `EntrantCard`) and the options.
    #: It returns a dataclass with the rows of each table, with `notes`, and with `alpha` if a
    #: column contains intervals.
    compute: str
    #: `module:function` that returns the text of a report, if the text is more than the tables
    parts: str = ""
    example: str = ""


def study_command(study: CompareStudy) -> click.Command:
    """Return the command that runs a study."""

    @example(study.example or f"ktdeval compare {study.name} ktdeval-runs/a ktdeval-runs/b")
    @click.command(study.name, help=study.help)
    @click.argument("cards", nargs=-1, required=True, type=RunPath(), metavar="CARD…")
    @options_of(study.options)
    def command(cards: tuple[Path, ...], options: JsonOptions) -> None:
        reading = import_module("ktdeval_compare.pairs.compared_cards")
        entrants = reading.label(reading.load_entrants(cards))
        report = later(study.compute)()(entrants, options)
        if isinstance(options, StudyFigureOptions) and options.out is not None:
            write_figure(study, report, options.out)

        parts = later(study.parts)()(report) if study.parts else study_parts(study, report)
        tables = later("ktdeval_compare.functions:Tables")()
        show(tables(report, parts), options.as_json)

    return command


def study_parts(study: CompareStudy, report: Any) -> Iterator[Part]:
    """Yield the tables in a report, each below the name of the field that contains its rows, and
    then the report's notes.
    """
    for name, columns in load_yaml(study.folder / COLUMNS).items():
        yield name
        yield declared_table(columns, getattr(report, name), getattr(report, "alpha", 0.05))

    yield from note_parts(report.notes)


def write_figure(study: CompareStudy, report: Any, path: Path) -> None:
    """Draw a study's figure from the rows of its first table.

    Raises UsageError if the file has an unsupported extension, or if vl-convert (extra `report`) is
    not installed.
    """
    if path.suffix not in (".svg", ".json"):
        raise UsageError(f"--out {path}: a figure of a study is written as .svg or .json")

    table = next(iter(load_yaml(study.folder / COLUMNS)))
    drawn = load_yaml(study.folder / FIGURE)  # JSON is a subset of YAML
    spec = {**drawn, "data": {"values": to_object(report)[table]}}
    content = svg_of(spec) if path.suffix == ".svg" else dumps_pretty(spec)
    make_folder(path.parent)
    write_atomic(path, content)
