"""`ktdeval deepfund`: validity, consistency and distributions of DeepFund's database or of runs, and results by week."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pandas as pd

from ktdeval.cards import clean
from ktdeval.cli import LazyCommand, LazyGroup, grid_lines, open_plugins, plugin_option, print_json, warn
from ktdeval.harness import SIGNALS
from ktdeval.runner import recorded_market
from ktdeval_arena.consistency import ACTIONS, Record, Row, analyst_rows, decision_rows, summary_rows
from ktdeval_arena.fund_runs import read_groups, read_record, result_rows, weekly_rows
from ktdeval_arena.replay import notes, read_database

_REPLAY = LazyCommand(__name__, "replay", "Report validity and consistency of the signals and decisions in a database of DeepFund.")
_REPORT = LazyCommand(
    __name__, "report", "Report validity, consistency, effectiveness and cost-efficiency of the decisions of runs."
)
_WEEKLY = LazyCommand(__name__, "weekly", "Print NAV, return or drawdown of runs at the end of each week.")
deepfund = LazyGroup(
    "ktdeval deepfund",
    {"replay": _REPLAY, "report": _REPORT, "weekly": _WEEKLY},
    help="Records of DeepFund and of runs on its tasks.",
)
_FORMAT = click.option("--format", "form", type=click.Choice(["text", "csv", "json"]), default="text", show_default=True,
                       help="how it is written; CSV and JSON have every digit, shares as fractions")  # fmt: skip
_RUNS = click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN…")
_NONE = "-"
_WEEK_FIGURES = {
    "nav": ("nav", "{:,.2f}"),
    "cr": ("total_return", "{:+.2%}"),
    "week": ("week_return", "{:+.2%}"),
    "mdd": ("max_drawdown", "{:.2%}"),
}


@click.command()
@click.argument("database", type=click.Path(path_type=Path), metavar="FILE.db")
@click.option("--decisions", is_flag=True, help="list each decision with its signals")
@click.option("--json", "as_json", is_flag=True, help="print JSON: every table, shares as fractions")
def replay(database: Path, decisions: bool, as_json: bool) -> None:
    """Report validity and consistency of the signals and decisions in a database of DeepFund.

    FILE.db is an SQLite database of DeepFund's public code, such as its src/example/deepfund.db. It is only read.
    """
    found = read_database(database)
    if as_json:
        print_json({**_tables(found), "notes": notes()})
    else:
        click.echo("\n".join([*_lines(_tables(found), decisions), *(f"- {note}" for note in notes())]))


@click.command()
@_RUNS
@click.option("--decisions", is_flag=True, help="list each decision with its signals")
@click.option("--data", metavar="DATA", help="the market, where it has moved since the run")
@plugin_option
@_FORMAT
def report(runs: tuple[Path, ...], decisions: bool, data: str | None, extra: tuple[str, ...], form: str) -> None:
    """Report validity, consistency, effectiveness and cost-efficiency of signals and decisions of runs.

    RUN is a run folder, which is only read, of an agent team whose analysts give signals, such as `deepfund`. Finished episodes
    count. CSV has a line for each decision.
    """
    groups = read_groups(runs)
    found, plugins = read_record(groups), open_plugins(extra)
    missing = "Without the market it is not known which decisions were effective"
    folders = {group.folder.path: group.folder for group in groups}
    markets = {path: recorded_market(folder, plugins, data, missing) for path, folder in folders.items()}
    for problem in filter(lambda market: isinstance(market, str), markets.values()):
        warn(str(problem))
    tables, results = _tables(found), result_rows(groups, markets)
    if form == "json":
        print_json({**tables, "results": results, "notes": notes("run")})
    elif form == "csv":
        _print_csv(tables["decisions"])
    else:
        heads = ["model", "experiment", "effective buys", "effective sells", "CR", "USD", "CR per USD"]
        lines = [*_lines(tables, decisions), "", *grid_lines(heads, [_result(row) for row in results], ("model", "experiment"))]
        click.echo("\n".join([*lines, *(f"- {note}" for note in notes("run"))]))


@click.command()
@_RUNS
@click.option("--figure", type=click.Choice(list(_WEEK_FIGURES)), default="nav", show_default=True,
              help="NAV, return since the first decision, return in the week, or maximum drawdown so far")  # fmt: skip
@_FORMAT
def weekly(runs: tuple[Path, ...], figure: str, form: str) -> None:
    """Print a figure of runs at the end of each week, as DeepFund's Table 4 does.

    RUN is a run folder or a card in one; a task's seeds stand as their mean NAV. Weeks end on Sundays. JSON and CSV have every
    figure.
    """
    rows = weekly_rows(read_groups(runs))
    if form == "json":
        print_json(rows)
    elif form == "csv":
        _print_csv(rows)
    else:
        click.echo("\n".join(_week_lines(rows, *_WEEK_FIGURES[figure])))


def _week_lines(rows: Sequence[Row], key: str, how: str) -> list[str]:
    columns = dict.fromkeys((row["model"], row["experiment"], row["window"] or "") for row in rows)
    values = {(row["week"], row["model"], row["experiment"], row["window"] or ""): row[key] for row in rows}
    weeks = sorted({row["week"] for row in rows})
    legend = [f"{number}  {' · '.join(filter(None, names))}" for number, names in enumerate(columns, 1)]
    cells = [[week, *(_told(how, values.get((week, *names))) for names in columns)] for week in weeks]
    return [
        *map(clean, legend),
        "",
        *grid_lines(["week to", *(str(number) for number in range(1, len(columns) + 1))], cells, ("week to",)),
    ]


def _print_csv(rows: Sequence[Row]) -> None:
    click.echo(pd.DataFrame(rows).to_csv(index=False), nl=False)


def _tables(found: Record) -> dict[str, list[Row]]:
    return {"models": summary_rows(found), "analysts": analyst_rows(found), "decisions": decision_rows(found)}


def _lines(tables: dict[str, list[Row]], decisions: bool) -> list[str]:
    models, analysts, decided = tables["models"], tables["analysts"], tables["decisions"]
    heads = ["model", "experiment", "signals", "errors", "valid", "decisions", "errors", "valid", "consistent", "held rule"]
    lines = [*grid_lines([*heads, *ACTIONS], [_summary(row) for row in models], ("model", "experiment")), ""]
    heads = ["model / analyst", "signals", "errors", *SIGNALS]
    shown = [[row["model"], row["signals"], row["signal_errors"], *map(row.get, SIGNALS)] for row in models]
    shown += [[row["analyst"], row["signals"], row["errors"], *map(row.get, SIGNALS)] for row in analysts]
    lines += grid_lines(heads, [list(map(str, row)) for row in shown], ("model / analyst",))
    if decisions:
        lines += ["", *_decision_lines(decided)]
    return lines


def _result(row: Row) -> list[str]:
    counts = [_part(row[f"effective_{name}"], row[name]) for name in ("buys", "sells")]
    dollars, efficiency = _told("{:.4f}", row["usd"]), _told("{:.4g}", row["return_per_usd"])
    return [row["model"], row["experiment"], *counts, _per_cent(row["total_return"]), dollars, efficiency]


def _told(how: str, value: float | None) -> str:
    return _NONE if value is None else how.format(value)


def _summary(row: Row) -> list[str]:
    counts = [_part(row[name], row["judged"]) for name in ("consistent", "consistent_held")]
    made = []
    for kind in ("signal", "decision"):
        made += [str(row[f"{kind}s"]), str(row[f"{kind}_errors"]), _per_cent(row[f"{kind}_validity"])]
    return [row["model"], row["experiment"], *made, *counts, *(str(row[name]) for name in ACTIONS)]


def _part(count: int | None, whole: int | None) -> str:
    return f"{count} of {whole}" if whole else _NONE


def _per_cent(value: float | None) -> str:
    return _NONE if value is None else f"{100 * value:.1f} %"


def _decision_lines(rows: Sequence[Row]) -> Iterator[str]:
    keys = ("model", "day", "ticker", *SIGNALS, "action", "shares", "held", "consistent", "consistent_held")
    cells = [[_cell(row[key]) for key in keys] for row in rows]
    yield from grid_lines([*keys[:-1], "held rule"], cells, ("model", "day", "ticker", "action"))


def _cell(value: str | float | bool | None) -> str:
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
