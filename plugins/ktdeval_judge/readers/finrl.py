"""Files of FinRL's environments: actions, and account values.

An action is decided on the close of its `date` and filled at that same close: shares bought (positive)
or sold, after the environment's own limits. The account value of a `date` is that at its close before
the actions of the date, whose cost falls into the next value.
"""

from __future__ import annotations

import re
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import Row, day_of, read_table, read_wide
from ktdeval_judge.readers.frames import SAME_CLOSE, Order, by_day, orders_of, values_of
from ktdeval_judge.readers.sample import ReadOptions, Sample, sample_of

name = "finrl"
_VALUES = ("date", "account_value")
_SINGLE = "actions"
_ARRAY = re.compile(r"\[\s*(-?[0-9.]+)\s*\]")  # of one asset, as pandas writes an array


def recognises(sample: Sample) -> bool:
    """Whether a file holds account values, or actions on one asset; actions on several have no names
    of their own.
    """
    return sample.has_columns(*_VALUES) or sample.names == {"date", _SINGLE}


def read(path: Path, _options: ReadOptions) -> Declared:
    """Return what a file declares. Raises DataError: the first fault, with its place."""
    sample = sample_of(path)
    if sample.has_columns("account_value") or sample.has_columns("daily_return"):
        return _of_values(path)

    return _of_actions(path)


def _of_values(path: Path) -> Declared:
    rows = read_table(path, _VALUES)
    pairs = [(row, day_of(row.moment("date")), row.number("account_value")) for row in rows]
    values = values_of(by_day(pairs, "date"), path)
    notes = ("The first value is the account before its first action.",)
    return Declared(
        program=name, source=path.name, values=values, cash=float(values.iloc[0]), notes=notes
    )


def _of_actions(path: Path) -> Declared:
    rows, codes = read_wide(path)
    if _SINGLE in codes:
        raise DataError(f"{path}: column {_SINGLE!r} names no asset; rename it to the asset's code")

    orders = []
    seen: set[int] = set()
    for row in rows:
        day = day_of(row.moment("day"))
        if day in seen:
            row.refuse("day", f"the day {day} stands twice; keep one row a day")
        seen.add(day)
        for code in codes:
            shares = _action(row, code)
            if shares:
                side = "buy" if shares > 0 else "sell"
                orders.append(Order(day=day, code=code, side=side, amount=abs(shares)))

    notes = (
        SAME_CLOSE.format(program="FinRL"),
        "Actions are those that FinRL filled, after its own limits of cash and shares.",
    )
    return Declared(program=name, source=path.name, decisions=orders_of(orders, path), notes=notes)


def _action(row: Row, code: str) -> float:
    text = row.cells.get(code)
    array = _ARRAY.fullmatch(text) if isinstance(text, str) else None
    if array is None:
        return row.number(code)

    return Row(row.place, {code: array[1]}).number(code)
