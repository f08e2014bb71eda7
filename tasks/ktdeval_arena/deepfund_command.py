"""`ktdeval deepfund`: validity, consistency and distributions of DeepFund's database or of runs, and results by week."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import pandas as pd

from ktdeval.cards import clean
from ktdeval.cli import FilePath, LazyCommand, LazyGroup, grid_lines, open_plugins, plugin_option, print_json, warn
from ktdeval.runner import recorded_market
from ktdeval.yamlio import load_yaml
from ktdeval_arena.consistency import Record, Row, analyst_rows, decision_rows, summary_rows
from ktdeval_arena.fund_runs import read_groups, read_record, result_rows, weekly_rows
from ktdeval_arena.replay import RULES, notes, read_database

_COMMANDS = {
    "replay": "Report validity and consistency of the signals and decisions in a database of DeepFund.",
    "report": "Report validity, consistency, effectiveness and cost-efficiency of the decisions of runs.",
    "weekly": "Print NAV, return or drawdown of runs at the end of each week.",
}
_LAZY = {name: LazyCommand(__name__, name, summary) for name, summary in _COMMANDS.items()}
deepfund = LazyGroup("ktdeval deepfund", _LAZY, help="Records of DeepFund and of runs on its tasks.")
_DECISIONS = click.option("--decisions", is_flag=True, help="list each decision with its signals")
_FORMAT = click.option("--format", "form", type=click.Choice(["text", "csv", "json"]), default="text", show_default=True,
                       help="how it is written; CSV and JSON have every digit, shares as fractions")  # fmt: skip
_RUNS = click.argument("runs", nargs=-1, required=True, type=FilePath(), metavar="RUN…")
_NONE = "-"
_WEEK_FIGURES = {
    "nav": "{nav:,.2f}",
    "cr": "{total_return_pct:+.2f} %",
    "week": "{week_return_pct:+.2f} %",
    "mdd": "{max_drawdown_pct:.2f} %",
}


@click.command()
@click.argument("database", type=FilePath(), metavar="FILE.db")
@_DECISIONS
@click.option("--json", "as_json", is_flag=True, help="print JSON: every table, shares as fractions")
def replay(database: Path, decisions: bool, as_json: bool) -> None:
    """Report validity and consistency of the signals and decisions in a database of DeepFund.

    FILE.db is an SQLite database of DeepFund's public code, such as its src/example/deepfund.db. It is only read.
    """
    _print(_tables(read_database(database)), notes(), "json" if as_json else "text", decisions)


@click.command()
@_RUNS
@_DECISIONS
@click.option("--data", metavar="DATA", help="the market, where it has moved since the run")
@plugin_option
@_FORMAT
def report(runs: tuple[Path, ...], decisions: bool, data: str | None, extra: tuple[str, ...], form: str) -> None:
    """Report validity, consistency, effectiveness and cost-efficiency of signals and decisions of runs.

    RUN is a run folder, which is only read, of an agent team whose analysts give signals, such as `deepfund`. Finished episodes
    count. CSV has a line for each decision.
    """
    groups, plugins = read_groups(runs), open_plugins(extra)
    missing = "Without the market it is not known which decisions were effective"
    folders = {group.folder.path: group.folder for group in groups}
    markets = {path: recorded_market(folder, plugins, data, missing) for path, folder in folders.items()}
    for market in markets.values():
        if isinstance(market, str):
            warn(market)
    _print({**_tables(read_record(groups)), "results": result_rows(groups, markets)}, notes("run"), form, decisions)


@click.command()
@_RUNS
@click.option("--figure", type=click.Choice(list(_WEEK_FIGURES)), default="nav", show_default=True,
              help="NAV, return since the first decision, return in the week, or maximum drawdown so far")  # fmt: skip
@_FORMAT
def weekly(runs: tuple[Path, ...], figure: str, form: str) -> None:
    """Print a figure of runs at the end of each week, as DeepFund's Table 4 does.

    RUN is a run folder or a card in one. A figure is the mean over a task's seeds of the seed's own NAV, return or drawdown. Weeks
    end on Sundays. JSON and CSV have every figure.
    """
    rows = weekly_rows(read_groups(runs))
    if form != "text":
        print_json(rows) if form == "json" else _print_csv(rows)
        return
    weeks: dict[str, dict[str, str]] = {}
    for row in rows:
        name = " · ".join(filter(None, (row["model"], row["experiment"], row["window"])))
        weeks.setdefault(row["week"], {})[name] = _cells(row, [("", "nav", _WEEK_FIGURES[figure])])[0]
    columns = dict.fromkeys(name for week in weeks.values() for name in week)
    cells = [[week, *(weeks[week].get(name, _NONE) for name in columns)] for week in sorted(weeks)]
    legend = [f"{number}  {clean(name)}" for number, name in enumerate(columns, 1)]
    heads = ["week to", *(str(number) for number in range(1, len(columns) + 1))]
    click.echo("\n".join([*legend, "", *grid_lines(heads, cells, heads[:1])]))


def _tables(record: Record) -> dict[str, list[Row]]:
    return {"models": summary_rows(record), "analysts": analyst_rows(record), "decisions": decision_rows(record)}


def _print(tables: dict[str, list[Row]], remarks: Sequence[str], form: str, decisions: bool) -> None:
    """Print tables by the layout of `replay.yaml`, and remarks on them."""
    if form != "text":
        print_json({**tables, "notes": remarks}) if form == "json" else _print_csv(tables["decisions"])
        return
    models = [{**row, "analyst": row["model"], "errors": row["signal_errors"]} for row in tables["models"]]
    shown = {**tables, "analysts": [*models, *tables["analysts"]], "decisions": tables["decisions"] if decisions else []}
    lines = []
    for name, columns in load_yaml(RULES)["tables"].items():
        if rows := shown.get(name):
            left = [head for head, key, _ in columns if isinstance(rows[0][key], str)]
            lines += [*grid_lines([head for head, _, _ in columns], [_cells(row, columns) for row in rows], left), ""]
    click.echo("\n".join([*lines[:-1], *(f"- {note}" for note in remarks)]))


def _cells(row: Row, columns: Sequence[Sequence[str]]) -> list[str]:
    """Cells of a row, each by a format of its fields (`NAME_pct`: in per cent); empty where the column's key is None."""
    shown = {key: ("no", "yes")[value] if isinstance(value, bool) else value for key, value in row.items()}
    shown |= {f"{key}_pct": 100.0 * value for key, value in row.items() if isinstance(value, float)}
    return [_NONE if row[key] is None else how.format(**shown) for _, key, how in columns]


def _print_csv(rows: Sequence[Row]) -> None:
    click.echo(pd.DataFrame(rows).to_csv(index=False), nl=False)
