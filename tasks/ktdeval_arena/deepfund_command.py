"""`ktdeval deepfund`: validity, consistency and distributions of DeepFund's database or of runs,
and results by week.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from ktdeval.cards import clean
from ktdeval.cli import (
    FilePath,
    LazyCommand,
    LazyGroup,
    RunPath,
    example,
    grid_lines,
    line_width,
    open_plugins,
    plugin_option,
    print_json,
    warn,
)
from ktdeval.market import MarketSnapshot
from ktdeval.runner import recorded_market
from ktdeval.values.jsonio import JsonValue
from ktdeval.values.typed import to_object, to_plain
from ktdeval.values.yamlio import load_yaml
from ktdeval_arena.consistency import Record, analyst_rows, decision_rows, summary_rows
from ktdeval_arena.fund_runs import (
    WeekRow,
    read_groups,
    read_record,
    result_rows,
    weekly_rows,
)
from ktdeval_arena.replay import RULES, notes, read_database

_COMMANDS = {
    "replay": (
        "Report validity and consistency of the signals and decisions in a database of DeepFund."
    ),
    "report": (
        "Report validity, consistency, effectiveness and cost-efficiency of the decisions of runs."
    ),
    "weekly": "Print NAV, return or drawdown of runs at the end of each week.",
}
_LAZY = {name: LazyCommand(__name__, name, summary) for name, summary in _COMMANDS.items()}
deepfund = LazyGroup(
    "ktdeval deepfund",
    _LAZY,
    help="Records of DeepFund and of runs on its tasks.",
    examples=("ktdeval deepfund report ktdeval-runs/fund",),
)
_DECISIONS = click.option("--decisions", is_flag=True, help="list each decision with its signals")
_FORMAT = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "csv", "json"]),
    default="text",
    show_default=True,
    help="how it is written; CSV and JSON have every digit, shares as fractions",
)
_RUNS = click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN…")
_NONE = "-"
_WEEK_FIGURES = {
    "nav": "{nav:,.2f}",
    "cr": "{total_return_pct:+.2f} %",
    "week": "{week_return_pct:+.2f} %",
    "mdd": "{max_drawdown_pct:.2f} %",
}


@example("ktdeval deepfund replay deepfund.db --decisions")
@click.command()
@click.argument("database", type=FilePath(), metavar="FILE.db")
@_DECISIONS
@click.option(
    "--json", "as_json", is_flag=True, help="print JSON: every table, shares as fractions"
)
def replay(database: Path, decisions: bool, as_json: bool) -> None:
    """Report validity and consistency of the signals and decisions in a database of DeepFund.

    FILE.db is an SQLite database of DeepFund's public code, such as its src/example/deepfund.db. It
    is only read.
    """
    _print(_tables(read_database(database)), notes(), "json" if as_json else "text", decisions)


@example("ktdeval deepfund report ktdeval-runs/fund")
@click.command()
@_RUNS
@_DECISIONS
@click.option("--data", metavar="DATA", help="the market, where it has moved since the run")
@plugin_option
@_FORMAT
def report(
    runs: tuple[Path, ...], decisions: bool, data: str | None, extra: tuple[str, ...], form: str
) -> None:
    """Report validity, consistency, effectiveness and cost-efficiency of signals and decisions of
    runs.

    RUN is a run folder, which is only read, of an agent team whose analysts give signals, such as
    `deepfund`. Finished episodes count. CSV has a line for each decision.
    """
    groups = read_groups(runs)
    plugins = open_plugins(extra)
    missing = "Without the market it is not known which decisions were effective"
    markets: dict[Path, MarketSnapshot | str] = {}
    for group in groups:
        path = group.folder.path
        if path not in markets:
            markets[path] = recorded_market(group.folder, plugins, data, missing)

    for market in markets.values():
        if isinstance(market, str):
            warn(market)

    tables = _tables(read_record(groups))
    tables["results"] = _rows(result_rows(groups, markets))
    _print(tables, notes("run"), form, decisions)


@example("ktdeval deepfund weekly ktdeval-runs/fund")
@click.command()
@_RUNS
@click.option(
    "--figure",
    type=click.Choice(list(_WEEK_FIGURES)),
    default="nav",
    show_default=True,
    help="NAV, return since the first decision, return in the week, or maximum drawdown so far",
)
@_FORMAT
def weekly(runs: tuple[Path, ...], figure: str, form: str) -> None:
    """Print a figure of runs at the end of each week, as DeepFund's Table 4 does.

    RUN is a run folder or a card in one. A figure is the mean over a task's seeds of the seed's own
    NAV, return or drawdown. Weeks end on Sundays. JSON and CSV have every figure.
    """
    weeks = weekly_rows(read_groups(runs))
    if form == "json":
        print_json(to_plain(weeks))
    elif form == "csv":
        _print_csv(_rows(weeks))
    else:
        click.echo("\n".join(_week_lines(weeks, _WEEK_FIGURES[figure])))


def _week_lines(weeks: Sequence[WeekRow], form: str) -> list[str]:
    """Lines of a table of weeks by portfolio; portfolios are numbered, for their names are long."""
    cells: dict[str, dict[str, str]] = {}  #: week -> portfolio -> figure
    for week in weeks:
        parts = (week.model, week.experiment, week.window)
        name = " · ".join(part for part in parts if part)
        cells.setdefault(week.week, {})[name] = _format(to_object(week), form)

    names: dict[str, None] = {}
    for of_week in cells.values():
        names.update(dict.fromkeys(of_week))

    rows = []
    for day in sorted(cells):
        rows.append([day, *(cells[day].get(name, _NONE) for name in names)])

    heads = ["week to", *(str(number) for number in range(1, len(names) + 1))]
    legend = [f"{number}  {clean(name)}" for number, name in enumerate(names, 1)]
    return [*legend, "", *grid_lines(heads, rows, heads[:1], line_width())]


#: A row as it is printed: field -> value
_Row = dict[str, JsonValue]


def _rows(values: Iterable[object]) -> list[_Row]:
    """Typed rows as they are printed."""
    return [to_object(value) for value in values]


def _tables(record: Record) -> dict[str, list[_Row]]:
    return {
        "models": _rows(summary_rows(record)),
        "analysts": _rows(analyst_rows(record)),
        "decisions": _rows(decision_rows(record)),
    }


def _print(
    tables: dict[str, list[_Row]], remarks: Sequence[str], form: str, decisions: bool
) -> None:
    """Print tables by the layout of `replay.yaml`, and remarks on them."""
    if form == "json":
        print_json({**tables, "notes": remarks})
        return
    if form == "csv":
        _print_csv(tables["decisions"])
        return

    # The table of analysts begins with the sums of each model.
    models = []
    for row in tables["models"]:
        models.append({**row, "analyst": row["model"], "errors": row["signal_errors"]})

    shown = {
        **tables,
        "analysts": [*models, *tables["analysts"]],
        "decisions": tables["decisions"] if decisions else [],
    }
    lines: list[str] = []
    for name, columns in load_yaml(RULES)["tables"].items():
        rows = shown.get(name)
        if rows:
            lines += _table_lines(rows, columns)
            lines.append("")

    click.echo("\n".join([*lines[:-1], *(f"- {note}" for note in remarks)]))


def _table_lines(rows: Sequence[_Row], columns: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; a column is its head, its key, and a format of a row's fields."""
    heads = [head for head, _, _ in columns]
    left = [head for head, key, _ in columns if isinstance(rows[0][key], str)]
    cells = []
    for row in rows:
        shown = []
        for _, key, form in columns:
            # An undefined figure is a dash, also where its format names other fields.
            shown.append(_NONE if row[key] is None else _format(row, form))

        cells.append(shown)

    return grid_lines(heads, cells, left, line_width())


def _format(row: _Row, form: str) -> str:
    """Fields of a row by a format, in which `NAME_pct` is a fraction in per cent."""
    fields = dict(row)
    for name, value in row.items():
        if isinstance(value, bool):
            fields[name] = "yes" if value else "no"
        elif isinstance(value, float):
            fields[f"{name}_pct"] = 100.0 * value

    return form.format(**fields)


def _print_csv(rows: Sequence[_Row]) -> None:
    import pandas as pd  # not at the top, so that help is quick

    click.echo(pd.DataFrame(rows).to_csv(index=False), nl=False)
