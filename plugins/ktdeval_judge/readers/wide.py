"""Wide tables. The first column contains days, and the headers of all other columns are codes, as
when `DataFrame.to_csv` writes a matrix of weights.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval_judge.readers.frames import with_minutes
from ktdeval_judge.readers.role_table import ONE_ROW_A_DAY, RoleTable, days_of
from ktdeval_judge.readers.roles import is_kind
from ktdeval_judge.readers.units import weights_as_shares

_CODE = re.compile(r"[A-Za-z0-9^=][A-Za-z0-9._\-/^= ]{0,39}")
_SYMBOL = re.compile(r"(?=.*[A-Z])[A-Z0-9][A-Z0-9._\-/]{0,14}|[0-9]{4,6}(?:\.[A-Z]{2})?")
#: if a day's absolute weights sum to at most this value, signed numbers look like returns
_SMALL = 0.2
_LARGEST_SUM = 101.0  #: largest possible sum of a day's weights in per cent
_NOTES = (
    "a table of days and codes is read as weights, an empty cell as no position",
    "its days are read as decision days; if they are not, give --dated fill, or the program with "
    "--from",
)


def is_wide(table: RoleTable) -> bool:
    """Return whether the first column contains days and the headers of the other columns are codes.
    This requires that no other column has a role, or that most headers look like symbols.
    """
    header = table.table.header
    if len(header) < 2 or table.roles.get("date", ("?",))[0] != header[0]:
        return False

    others = [name for name in header[1:] if not _is_cash(name)]
    in_role = {column for columns in table.roles.values() for column in columns}
    named = [name for name in others if name in in_role]
    free = [name for name in others if name not in in_role]
    if not free or not all(map(_CODE.fullmatch, others)):
        return False
    if len(others) == 1:
        return bool(_SYMBOL.fullmatch(others[0]))
    are_symbols = all(map(_SYMBOL.fullmatch, others))
    return not named or (are_symbols and len(free) > 2 * len(named))


def read_wide(table: RoleTable) -> dict[str, object]:
    """Return the weights in a wide table as decisions. Raises DataError, which names the line, if a
    cell is not a weight.
    """
    codes = [name for name in table.table.header[1:] if not _is_cash(name)]
    days = days_of(table.moments())
    words = "the same day appears twice; keep one row"
    table.check_once(days.to_frame("day"), table.column("date"), words)

    numbers = {code: table.numbers_in(code, may_lack=True) for code in codes}
    weights = pd.DataFrame(numbers)
    gross = weights.abs().sum(axis=1)
    _check_are_weights(table, weights, gross)
    largest = float(gross.max())
    signs = any(table.table.cells[code].str.contains("%").any() for code in codes)
    if not signs:
        weights = weights.apply(
            lambda column: weights_as_shares(table, column, str(column.name), lambda *_: gross)
        )

    is_empty = weights.isna().all(axis=1)
    has_begun = (~is_empty).cummax()
    weights[is_empty & has_begun] = 0.0
    if weights.isna().all(axis=None):
        raise DataError(f"{table.place}: has no weight in any cell")

    dated = with_minutes(weights.assign(day=days, line=table.table.lines), table.moments())
    labels = [name for name in ("day", "line", "minute") if name not in codes and name in dated]
    long = dated.melt(labels, var_name="code", value_name="weight")
    long = long.dropna().sort_values(["day", "code"], kind="stable", ignore_index=True)
    for words in _NOTES:
        table.note(words)
    if len(codes) < len(table.table.header) - 1:
        table.note(
            "the cash column is not read as an asset; the largest sum of a day's weights is "
            f"{largest:.4g}"
        )

    columns = [*(name for name in labels if name != "line"), "code", "weight"]
    if table.table.unit == "line":
        columns.append("line")
    return {"decisions": long[columns].astype({"day": "int64", "code": "object"})}


def wide_numbers(table: RoleTable, codes: Sequence[str]) -> pd.DataFrame:
    """Return the numbers in columns by day, [days, codes]. A number is NaN if the cell is empty.
    Raises DataError if a day appears twice.
    """
    days = days_of(table.moments())
    table.check_once(days.to_frame("day"), table.column("date"), ONE_ROW_A_DAY)

    numbers = {code: table.numbers_in(code, may_lack=True) for code in codes}
    return pd.DataFrame(numbers).set_axis(days).sort_index()


def _is_cash(name: str) -> bool:
    return bool(is_kind(pd.Series([name.strip().lower()]), "cash")[0])


def _check_are_weights(table: RoleTable, weights: pd.DataFrame, gross: pd.Series) -> None:
    """Raise DataError if numbers look like returns (small, with both signs) or like account
    values.
    """
    numbers = weights.to_numpy(dtype=float, na_value=np.nan)
    if (numbers < 0).any() and 0 < gross.max() < _SMALL:
        first = table.table.header[1]
        raise DataError(
            f"{table.place}: a table of codes must contain weights, but these look like returns; "
            f"for returns of an account, give --map return={first!r}"
        )
    if np.nanmin(numbers) > _SMALL and gross.max() > _LARGEST_SUM:
        first = table.table.header[1]
        raise DataError(
            f"{table.place}: a table of codes must contain weights, but these look like account "
            f"values; for one account, give --map nav={first!r}"
        )
