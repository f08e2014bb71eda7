"""Tables of a zipline run: returns, positions and transactions as pyfolio takes them, and the run's own
table.

A row's index is the session as midnight UTC; the index of a transaction is the moment of its fill, UTC.
An order of one session is filled in the next, at its close in daily mode. Positions are amounts of
money after the fills of their day, so that a row's sum with `cash` is the account's value.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import day_of, read_table, read_wide
from ktdeval_judge.readers.frames import (
    RETURNS_ONLY,
    by_day,
    compound_returns,
    signed_fill,
    trades_of,
    values_of,
)
from ktdeval_judge.readers.sample import FileSample, ReadOptions, sample_of

name = "zipline"
_FILLS = ("amount", "price", "symbol")
_ASSET = re.compile(r"[A-Za-z]+\([0-9]+ \[(.+)\]\)")  # as `Equity(2 [AAPL])`


def recognises(sample: FileSample) -> bool:
    """Whether a file is a table of zipline or pyfolio."""
    if sample.has_columns(*_FILLS, "txn_dollars") or sample.has_columns(*_FILLS, "order_id"):
        return True
    if sample.has_columns("portfolio_value", "starting_cash"):
        return True

    index, *others = sample.columns or ("-",)
    is_unnamed = index in ("", "index", "__index_level_0__")
    return is_unnamed and (others == ["returns"] or (len(others) > 1 and others[-1] == "cash"))


def read(path: Path, options: ReadOptions) -> Declared:
    """Return what a file declares. Raises DataError: the first fault, with its place."""
    sample = sample_of(path)
    if sample.has_columns("amount") or sample.has_columns("symbol"):
        return _of_transactions(path, options)
    if sample.has_columns("portfolio_value"):
        return _of_run(path)
    if "cash" in sample.columns:
        return _of_positions(path)

    return _of_returns(path)


def code_of(asset: str) -> str:
    """Return the code in a name such as `Equity(2 [AAPL])`, or the name itself."""
    found = _ASSET.fullmatch(asset)
    return found[1] if found else asset


def _of_transactions(path: Path, options: ReadOptions) -> Declared:
    fills = []
    renamed = {_index_of(path): "dt"}
    for row in read_table(path, ("dt", *_FILLS), ("commission",), renamed):
        moment = row.moment("dt", options.clock)
        fill = signed_fill(row, moment, code_of(row.text("symbol")), "amount", "price")
        # pyfolio writes no commission as an empty cell or as nan.
        has_fee = row.has("commission") and row.cells["commission"] != "nan"
        fills.append(fill.with_fee(row.number("commission") if has_fee else None))

    notes = ("zipline does not write the day of a decision; it fills in the session after.",)
    return Declared(program=name, source=path.name, trades=trades_of(fills, path), notes=notes)


def _index_of(path: Path) -> str:
    """Return the column with the moments of fills: the unnamed index, or one with a name."""
    columns = sample_of(path).columns
    for column in ("dt", "date", "index", "", "__index_level_0__"):
        if column in columns:
            return column

    raise DataError(f"{path}: lacks the column dt; its columns: {', '.join(columns)[:200]}")


def _of_run(path: Path) -> Declared:
    rows, _ = read_wide(path)
    pairs = [(row, day_of(row.moment("day")), row.number("portfolio_value")) for row in rows]
    values = values_of(by_day(pairs, "day"), path)
    first = min(rows, key=lambda row: row.moment("day"))
    cash = None
    if first.has("starting_cash") and first.has("starting_value"):
        cash = first.number("starting_cash") + first.number("starting_value")

    return Declared(program=name, source=path.name, values=values, cash=cash)


def _of_positions(path: Path) -> Declared:
    rows, assets = read_wide(path)
    pairs = []
    for row in rows:
        value = math.fsum(row.number(asset) for asset in assets if row.has(asset))
        pairs.append((row, day_of(row.moment("day")), value))

    values = values_of(by_day(pairs, "day"), path)
    notes = ("The account's value is the sum of its positions and cash.",)
    return Declared(program=name, source=path.name, values=values, notes=notes)


def _of_returns(path: Path) -> Declared:
    rows, columns = read_wide(path)
    if len(columns) != 1:
        shown = ", ".join(columns)[:200] or "none"
        raise DataError(f"{path}: expected one column of returns, found: {shown}; keep one")

    pairs = [(row, day_of(row.moment("day")), row.number(columns[0])) for row in rows]
    values = compound_returns(by_day(pairs, "day"), path)
    return Declared(program=name, source=path.name, values=values, cash=1.0, notes=(RETURNS_ONLY,))
