"""Files of bt: transactions, and the values or prices of one strategy.

Algos run after the close of a day and are filled at that same close. The first row of values stands
on the calendar day before the data and has the initial capital.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import day_of, read_table, read_wide
from ktdeval_judge.readers.frames import (
    SAME_CLOSE,
    FrameOrder,
    by_day,
    orders_of,
    signed_fill,
    trades_of,
    values_of,
)
from ktdeval_judge.readers.sample import FileSample, ReadOptions, sample_of

name = "bt"
_TRANSACTIONS = ("Date", "Security", "price", "quantity")


def recognises(sample: FileSample) -> bool:
    """Whether a file holds transactions of bt; those of values have no names of their own."""
    return sample.has_columns(*_TRANSACTIONS)


def read(path: Path, _options: ReadOptions) -> Declared:
    """Return what a file declares. Raises DataError: the first fault, with its place."""
    if sample_of(path).has_columns("Security"):
        return _of_transactions(path)

    return _of_values(path)


def _of_transactions(path: Path) -> Declared:
    fills = []
    orders = []
    for row in read_table(path, _TRANSACTIONS):
        moment = row.moment("Date")
        fill = signed_fill(row, moment, row.text("Security"), "quantity", "price")
        fills.append(fill)
        orders.append(
            FrameOrder(day=day_of(moment), code=fill.code, side=fill.side, amount=fill.shares)
        )

    notes = (SAME_CLOSE.format(program=name), "Transactions of bt say nothing of fees.")
    return Declared(
        program=name,
        source=path.name,
        decisions=orders_of(orders, path),
        trades=trades_of(fills, path),
        notes=notes,
    )


def _of_values(path: Path) -> Declared:
    rows, strategies = read_wide(path)
    if len(strategies) != 1:
        shown = ", ".join(strategies)[:200] or "none"
        raise DataError(
            f"{path}: expected the values of one strategy, found columns: {shown}; keep one"
        )

    strategy = strategies[0]
    pairs = [(row, day_of(row.moment("day")), row.number(strategy)) for row in rows]
    values = by_day(pairs, "day")
    first = min(values)
    cash = values.pop(first)

    notes = ("The first row of bt is the account before its first day.",)
    return Declared(
        program=name, source=path.name, values=values_of(values, path), cash=cash, notes=notes
    )
