"""`ktdeval deepfund replay`: validity, consistency and distributions of a database of DeepFund."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ktdeval.cli import LazyCommand, LazyGroup, grid_lines, print_json
from ktdeval_arena.consistency import ACTIONS, SIGNALS
from ktdeval_arena.replay import Row, analyst_rows, decision_rows, notes, read_database, summary_rows

_REPLAY = LazyCommand(__name__, "replay", "Report validity and consistency of the signals and decisions in a database of DeepFund.")
deepfund = LazyGroup("ktdeval deepfund", {"replay": _REPLAY}, help="Records of DeepFund.")
_NONE = "-"


@click.command()
@click.argument("database", type=click.Path(path_type=Path), metavar="FILE.db")
@click.option("--decisions", is_flag=True, help="list each decision with its signals")
@click.option("--json", "as_json", is_flag=True, help="print JSON: every table, shares as fractions")
def replay(database: Path, decisions: bool, as_json: bool) -> None:
    """Report validity and consistency of the signals and decisions in a database of DeepFund.

    FILE.db is an SQLite database of DeepFund's public code, such as its src/example/deepfund.db. It is only read.
    """
    found = read_database(database)
    models, analysts, decided = summary_rows(found), analyst_rows(found), decision_rows(found)
    if as_json:
        print_json({"models": models, "analysts": analysts, "decisions": decided, "notes": notes()})
        return
    heads = ["model", "experiment", "signals", "errors", "valid", "decisions", "errors", "valid", "consistent", "held rule"]
    lines = [*grid_lines([*heads, *ACTIONS], [_summary(row) for row in models], ("model", "experiment")), ""]
    heads = ["model / analyst", "signals", "errors", *SIGNALS]
    shown = [[row["model"], row["signals"], row["signal_errors"], *map(row.get, SIGNALS)] for row in models]
    shown += [[row["analyst"], row["signals"], row["errors"], *map(row.get, SIGNALS)] for row in analysts]
    lines += grid_lines(heads, [list(map(str, row)) for row in shown], ("model / analyst",))
    if decisions:
        lines += ["", *_decision_lines(decided)]
    click.echo("\n".join([*lines, *(f"- {note}" for note in notes())]))


def _summary(row: Row) -> list[str]:
    counts = [_part(row[name], row["judged"]) for name in ("consistent", "consistent_held")]
    made = []
    for kind in ("signal", "decision"):
        made += [str(row[f"{kind}s"]), str(row[f"{kind}_errors"]), _per_cent(row[f"{kind}_validity"])]
    return [row["model"], row["experiment"], *made, *counts, *(str(row[name]) for name in ACTIONS)]


def _part(count: int, whole: int) -> str:
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
