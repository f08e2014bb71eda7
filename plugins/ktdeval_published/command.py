"""`ktdeval published`: what public boards of trading agents show, executed again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ktdeval.cli import (
    FilePath,
    JsonOptions,
    OutputPath,
    example,
    flag,
    options_of,
    print_grid,
    print_json,
)
from ktdeval.errors import UsageError
from ktdeval.values import to_object, write_atomic

if TYPE_CHECKING:
    from ktdeval_published.report import BoardReport


@dataclass(frozen=True, kw_only=True)
class BoardOutputOptions(JsonOptions):
    """Options that `show` and `table` share."""

    prices: Path | None = flag(
        None,
        type=FilePath(file_okay=False),
        metavar="FOLDER",
        help="folder with price tables that a recipe names and the clone lacks",
    )
    no_logs: bool = flag(False, help="do not search the logs for later days")
    out: Path | None = flag(
        None,
        type=OutputPath("file"),
        metavar="FILE",
        help="write a page, CSV or LaTeX to this file",
    )
    form: Literal["text", "page", "csv", "latex", "markdown"] = flag(
        "text", name="--as", help="form of the result"
    )


@dataclass(frozen=True, kw_only=True)
class BoardShowOptions(BoardOutputOptions):
    """Options for `show`."""

    source: Path = flag(
        type=FilePath(file_okay=False),
        metavar="CLONE",
        help="clone of the board, or its files unpacked",
    )
    commits: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help="table with columns committed_utc and path, for a folder without git",
    )
    fail_on: Literal["nothing", "late-days"] = flag(
        "nothing", help="what makes the exit code 1: a day that was published after its prices"
    )
    since: str = flag("", metavar="DAY", help="with --fail-on, consider only days from this one on")


@dataclass(frozen=True, kw_only=True)
class BoardTableOptions(BoardOutputOptions):
    """Options for `table`."""

    sources: Path = flag(
        type=FilePath(file_okay=False),
        metavar="FOLDER",
        help="folder with a clone or an archive of each board",
    )
    only: tuple[str, ...] = flag((), metavar="NAME,…", help="boards to show [default: all]")


@example("ktdeval published show agent-stock-benchmark --source AgentStockBenchmarkResults")
@click.group(name="published")
def published_group() -> None:
    """Execute public boards of trading agents again, and report what they show.

    A board is a recipe: YAML that names its files, its market, and the moment of publication. Nothing
    of a board is executed as code, and nothing is fetched: clone the repository first.
    """


@example("ktdeval published list")
@published_group.command(name="list")
@options_of(JsonOptions)
def list_recipes(options: JsonOptions) -> None:
    """List the bundled recipes with their repositories and commits."""
    from ktdeval_published.recipe import find_recipe, recipe_names

    recipes = [find_recipe(name) for name in recipe_names()]
    if options.as_json:
        print_json(
            [
                {
                    "name": one.name,
                    "title": one.title,
                    "repository": one.source.repository,
                    "commit": one.source.commit,
                    "licence": one.source.licence,
                    "period": one.period,
                }
                for one in recipes
            ]
        )
        return
    rows = [
        (one.name, one.title, f"{one.source.repository}@{one.source.commit}", one.source.licence)
        for one in recipes
    ]
    print_grid(("name", "board", "repository", "licence"), rows, ("board", "repository", "licence"))


@example("ktdeval published show agent-stock-benchmark --source AgentStockBenchmarkResults")
@published_group.command()
@click.argument("name", metavar="NAME|RECIPE.yaml")
@options_of(BoardShowOptions)
@click.pass_context
def show(context: click.Context, /, name: str, options: BoardShowOptions) -> None:
    """Show one board: all entrants as declared and as executed, and what was found.

    NAME is a bundled recipe (`ktdeval published list`) or a path to a YAML file. The clone must be
    at the commit of the recipe.
    """
    from ktdeval_published.boards import BoardRunOptions, run_board
    from ktdeval_published.clone import open_clone
    from ktdeval_published.late_days import late_days
    from ktdeval_published.recipe import find_recipe

    recipe = find_recipe(name)
    clone = open_clone(options.source, recipe.source.commit)
    chosen = BoardRunOptions(options.prices, options.commits, not options.no_logs)
    report = run_board(recipe, clone, chosen)
    _give([report], options)
    if options.fail_on == "nothing":
        return

    late = late_days(recipe, clone, options.commits, options.since)
    for line in late:
        click.echo(line, err=True)
    context.exit(1 if late else 0)


@example("ktdeval published table --sources boards --as markdown --out published-agents.md")
@published_group.command()
@options_of(BoardTableOptions)
def table(options: BoardTableOptions) -> None:
    """Show all bundled boards, each from its clone or archive in a folder.

    FOLDER holds for each board a clone named as in the recipe's `archive`, or that name with
    `.tar.zst`. A board that can't be read is an error of one line.
    """
    from ktdeval_published.all_boards import run_all

    reports = run_all(options.sources, options.only, options.prices, not options.no_logs)
    _give(reports, options)


def _give(reports: list[BoardReport], options: BoardOutputOptions) -> None:
    """Print the reports, or write them to a file."""
    if options.as_json:
        documents = [to_object(report) for report in reports]
        print_json(documents[0] if len(documents) == 1 else documents)
        return

    text = _render(reports, options)
    if text is None:
        _print_reports(reports)
        return
    if options.out is None:
        click.echo(text, nl=False)
        return
    write_atomic(options.out, text)
    click.echo(f"wrote {options.out}")


def _render(reports: list[BoardReport], options: BoardOutputOptions) -> str | None:
    """Return the reports in the chosen form; None for text."""
    if options.form == "text":
        if options.out is not None:
            raise UsageError("--out needs a form: --as page, csv, latex or markdown")
        return None
    if options.form == "csv":
        from ktdeval_published.texts import csv_text

        return csv_text(reports)
    if options.form == "latex":
        from ktdeval_published.texts import latex_text

        return latex_text(reports)
    if options.form == "page":
        from ktdeval_published.page import page_of

        return page_of(reports)

    from ktdeval_published.markdown import markdown_of

    return markdown_of(reports)


def _print_reports(reports: list[BoardReport]) -> None:
    from ktdeval_published.texts import HEADS, further_lines, head_lines, table_rows

    for place, report in enumerate(reports):
        if place:
            click.echo("\n")
        for line in head_lines(report):
            click.echo(line)
        if report.entrants:
            click.echo("")
            print_grid(HEADS, table_rows(report))
        for line in further_lines(report):
            click.echo(line)
