"""DeepFund's tables: validity, consistency and distributions of signals and decisions, from a
DeepFund database or from runs, and weekly results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from ktdeval.cli import warn
from ktdeval.errors import UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.registry import PaperTable, TableChoices
from ktdeval.runner import recorded_market
from ktdeval.values import JsonValue, to_object
from ktdeval_arena.deepfund_database import notes, read_database
from ktdeval_arena.deepfund_runs import (
    EpisodeGroup,
    read_groups,
    read_record,
    result_rows,
    weekly_rows,
)
from ktdeval_arena.signal_decision_consistency import (
    SignalRecord,
    analyst_rows,
    decision_rows,
    summary_rows,
)

_Row = dict[str, JsonValue]  #: field -> value
_DATABASE = ".db"  #: file extension of a database


def record_frame(paths: Sequence[Path], table: PaperTable, choices: TableChoices) -> pd.DataFrame:
    """Return the rows of one part (`models`, `analysts`, `decisions` or `results`), from a DeepFund
    database or from run folders of a team whose analysts give signals.

    Raises UsageError if `results` are requested from a database, or if runs and a database are
    given together; DataError or StoreError if a file can't be read.
    """
    part = table.settings["part"]
    databases = [path for path in paths if path.suffix == _DATABASE]
    if not databases:
        groups = read_groups(paths)
        if part == "results":
            rows = _effectiveness(groups, choices)
        else:
            rows = _part_rows(read_record(groups), part)
        return _frame(rows, notes("run"))

    if len(paths) > 1:
        raise UsageError(f"{databases[0]}: give either one database or run folders, not both")
    if part == "results":
        raise UsageError(f"{table.name}: a DeepFund database has no later prices; give run folders")
    return _frame(_part_rows(read_database(databases[0]), part), notes())


def week_frame(paths: Sequence[Path], table: PaperTable, choices: TableChoices) -> pd.DataFrame:  # noqa: ARG001 - as tables are made
    """Return one row for each week of a task and window. Weeks end on Sundays. Each figure is
    computed for each seed and then averaged over seeds.
    """
    return _frame(_printed_rows(weekly_rows(read_groups(paths))), ())


def _part_rows(record: SignalRecord, part: str) -> list[_Row]:
    if part == "models":
        return _printed_rows(summary_rows(record))
    if part == "decisions":
        return _printed_rows(decision_rows(record))
    return _signals(record)


def _signals(record: SignalRecord) -> list[_Row]:
    """Return one row per analyst, preceded by each model's totals."""
    analysts = _printed_rows(analyst_rows(record))
    sums = []
    for row in _printed_rows(summary_rows(record)):
        named = {**row, "analyst": row["model"], "errors": row["signal_errors"]}
        sums.append({name: named[name] for name in _SIGNAL_FIELDS})

    return [*sums, *analysts]


_SIGNAL_FIELDS = ("analyst", "signals", "errors", "Bullish", "Bearish", "Neutral")


def _effectiveness(groups: Sequence[EpisodeGroup], choices: TableChoices) -> list[_Row]:
    """Return the rows of results, and warn about each market that can't be read."""
    missing = "Without the market, effective decisions can't be counted"
    markets: dict[Path, MarketSnapshot | str] = {}
    for group in groups:
        path = group.folder.path
        if path not in markets:
            markets[path] = recorded_market(group.folder, choices.plugins, choices.data, missing)

    for market in markets.values():
        if isinstance(market, str):
            warn(market)

    return _printed_rows(result_rows(groups, markets))


def _printed_rows(values: Iterable[object]) -> list[_Row]:
    """Convert typed rows for printing."""
    return [to_object(value) for value in values]


def _frame(rows: Sequence[_Row], remarks: Sequence[str]) -> pd.DataFrame:
    # With object dtype, counts stay integers even if some are missing.
    frame = pd.DataFrame(rows, dtype=object)
    frame.attrs["notes"] = tuple(remarks)
    return frame
