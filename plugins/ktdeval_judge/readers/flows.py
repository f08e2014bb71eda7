"""Deposits and withdrawals in columns whose names are not known: found by words and by the changes
of the account's value.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval_judge.readers.role_table import RoleTable, days_of
from ktdeval_tables.numbers import parse_figures
from ktdeval_tables.row_keys import quoted, words_in

_WORDS = frozenset({
    "capitalcall", "contributed", "contribution", "deposit", "deposited", "funding", "inflow",
    "injection", "outflow", "topup", "transfer", "withdraw", "withdrawal", "withdrawn",
    "einzahlung", "auszahlung", "入金", "出金", "充值", "提现",
})  # fmt: skip
_OTHERS = frozenset({"benchmark", "bench", "spy", "index"})
_SAME = 0.5  # largest gap between a flow and the change in value, as a share of the flow


def check_flows(table: RoleTable, values: pd.Series, flows: str) -> None:
    """Raise DataError if a column contains deposits or withdrawals that are not read. `values`:
    account values by day; `flows`: column or file that the user names.
    """
    if flows or "flow" in table.roles:
        return
    read = {column for columns in table.roles.values() for column in columns}
    for column in table.table.header:
        words = words_in(column)
        if column in read or words.isdisjoint(_WORDS) or not words.isdisjoint(_OTHERS):
            continue
        paid, is_total = _paid(table, column)
        if paid is None or not _explains(paid, values):
            continue
        day = int(paid[paid != 0].index[0])
        what = f"{paid[day]:,.6g} on {day} are deposits or withdrawals, not returns"
        option = f"give --flows {quoted(column)}"
        if is_total:
            option = "give a column with the deposits of each day, and name it with --flows"
        raise DataError(f"{table.place}: column {column}: {what}; {option}")


def _paid(table: RoleTable, column: str) -> tuple[pd.Series | None, bool]:
    """Return the payments in a column by day, and whether the column has their total since the
    start. Return None if it has no payments.
    """
    numbers, bad = parse_figures(table.table.cells[column], table.table.decimal)
    if bad.any():
        return None, False
    by_day = numbers.fillna(0.0).groupby(days_of(table.moments())).last().sort_index()
    steps = by_day.diff().iloc[1:]
    is_total = bool((by_day > 0).all() and (steps >= 0).all())
    paid = steps if is_total else by_day.iloc[1:]
    return (paid if (paid != 0).any() else None), is_total


def _explains(paid: pd.Series, values: pd.Series) -> bool:
    """Return whether the value changes by about what is paid, on most days with a payment."""
    changes = values.diff().reindex(paid.index)
    on_days = paid != 0
    gaps = (changes - paid).abs()[on_days] / paid.abs()[on_days]
    return bool(np.nanmedian(gaps.to_numpy()) <= _SAME) if gaps.notna().any() else False
