"""Files of FinRL's environments: actions, and account values.

An action of the trading environment is decided on the close of its `date` and filled at that same
close: shares bought (positive) or sold, after the environment's own limits. The account value of a
`date` is that at its close before the actions of the date, whose cost falls into the next value.

An action of the portfolio environment is the weights that earned the return of its `date`: they were
decided on the row before. Its first row, equal weights, was held by nobody.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import CellRow, day_of, read_table, read_wide
from ktdeval_judge.readers.frames import (
    RETURNS_ONLY,
    SAME_CLOSE,
    FrameOrder,
    by_day,
    compound_returns,
    orders_of,
    targets_of,
    values_of,
)
from ktdeval_judge.readers.sample import FileSample, ReadOptions, sample_of
from ktdeval_judge.readers.unread_columns import flow_names

name = "finrl"
_VALUES = ("date", "account_value")
_RETURNS = ("date", "daily_return")
_SINGLE = "actions"
_ROUNDING = 1e-3  # of the sum of weights
_ARRAY = re.compile(r"\[\s*(-?[0-9.]+)\s*\]")  # of one asset, as pandas writes an array


def recognises(sample: FileSample) -> bool:
    """Whether a file holds account values, returns, or actions on one asset; actions on several have
    no names of their own.
    """
    # FinRL writes no deposits: a value beside them is another program's
    if sample.has_columns(*_VALUES) and not sample.names & flow_names():
        return True
    if sample.names == {"date", _SINGLE}:
        return True
    return sample.has_columns(*_RETURNS) and len(sample.columns) == len(_RETURNS)


def read(path: Path, _options: ReadOptions) -> Declared:
    """Return what a file declares. Raises DataError: the first fault, with its place."""
    sample = sample_of(path)
    if sample.has_columns(*_RETURNS) and len(sample.columns) == len(_RETURNS):
        return _of_returns(path)
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


def _of_returns(path: Path) -> Declared:
    rows = read_table(path, _RETURNS)
    pairs = [(row, day_of(row.moment("date")), row.number("daily_return")) for row in rows]
    values = compound_returns(by_day(pairs, "date"), path)
    return Declared(program=name, source=path.name, values=values, cash=1.0, notes=(RETURNS_ONLY,))


def _of_actions(path: Path) -> Declared:
    rows, codes = read_wide(path)
    if _SINGLE in codes:
        raise DataError(
            f"{path}: column {_SINGLE!r} names no asset; rename it to the asset's code, with"
            " --from finrl"
        )

    actions: dict[int, dict[str, float]] = {}
    for row in rows:
        day = day_of(row.moment("day"))
        if day in actions:
            row.refuse("day", f"the day {day} appears twice; keep one row a day")
        actions[day] = {code: _action(row, code) for code in codes}

    if all(_are_weights(action.values()) for action in actions.values()):
        return _of_weights(path, actions)

    orders = []
    for day, action in actions.items():
        for code, shares in action.items():
            if shares:
                side = "buy" if shares > 0 else "sell"
                orders.append(FrameOrder(day=day, code=code, side=side, amount=abs(shares)))

    notes = (
        SAME_CLOSE.format(program="FinRL"),
        "Actions are those that FinRL filled, after its own limits of cash and shares.",
    )
    return Declared(program=name, source=path.name, decisions=orders_of(orders, path), notes=notes)


def _are_weights(action: Collection[float]) -> bool:
    """Whether the action of a day is that of the portfolio environment: shares are whole numbers."""
    are_shares = all(number.is_integer() for number in action)
    is_whole = abs(math.fsum(action) - 1.0) <= _ROUNDING
    return is_whole and min(action) >= 0.0 and not are_shares


def _of_weights(path: Path, actions: dict[int, dict[str, float]]) -> Declared:
    days = sorted(actions)
    books = {before: actions[day] for before, day in pairwise(days)}
    notes = (
        SAME_CLOSE.format(program="FinRL"),
        "Weights stand on the day after the one on which they were decided; the first row was held by"
        " nobody.",
    )
    return Declared(
        program=name, source=path.name, decisions=targets_of(books, "weight", path), notes=notes
    )


def _action(row: CellRow, code: str) -> float:
    text = row.cells.get(code)
    array = _ARRAY.fullmatch(text) if isinstance(text, str) else None
    if array is None:
        return row.number(code)

    return CellRow(row.place, {code: array[1]}).number(code)
