"""The account's initial cash, from a column with the cash after or before each trade."""

from __future__ import annotations

import pandas as pd

from ktdeval_judge.readers.role_table import RoleTable
from ktdeval_tables.numbers import parse_figures

_COLUMNS = ("balance", "cash", "nav")  # roles of columns that may contain the cash
_FITS = 0.7  # minimum share of rows in which the cash changes by what was traded
_SLACK = 0.01  # tolerance, as a share of what was traded, for fees
_CENT = 0.02
_MIN_ROWS = 2


def initial_cash(table: RoleTable, paid: pd.Series, moments: pd.Series) -> float | None:
    """Return the initial cash: the file's own figure, or the cash before the first trade if a
    column contains the cash after, or before, each trade. Return None if neither is known.

    `paid`: cash that each row pays, negative if the row receives cash, [n]. `moments`: [n].
    """
    stated = table.fact("initial cash")
    if stated is not None:
        return stated

    order = moments.argsort(kind="stable")
    for role in _COLUMNS:
        for column in table.roles.get(role, ()):
            cells = table.table.cells[column]
            cash, bad = parse_figures(cells, table.table.decimal)
            if bad.any() or cash.isna().any() or len(cash) < _MIN_ROWS or cash.nunique() == 1:
                continue
            for rows in (order, pd.Series(range(len(cash)))):
                start = _start(cash.iloc[rows], paid.iloc[rows])
                if start is not None and start > 0:
                    table.note(f"The initial cash, {start:,.2f}, is computed from {column!r}.")
                    return start
    return None


def _start(cash: pd.Series, paid: pd.Series) -> float | None:
    """Return the cash before the first row, or None if changes in cash do not match payments."""
    changes = -cash.diff().iloc[1:].to_numpy()
    for payments, start in (
        (paid.iloc[1:], float(cash.iloc[0] + paid.iloc[0])),
        (paid.iloc[:-1], float(cash.iloc[0])),
    ):
        gaps = pd.Series(changes - payments.to_numpy()).abs()
        slack = (_SLACK * payments.abs()).clip(lower=_CENT).to_numpy()
        if (gaps <= slack).mean() >= _FITS:
            return start
    return None
