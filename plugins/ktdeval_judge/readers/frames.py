"""Data frames for `Declared`, from the columns of a table. Their row order does not depend on the
file.
"""

from __future__ import annotations

import pandas as pd

from ktdeval.errors import DataError
from ktdeval_judge.readers.keys import check_moment_keys
from ktdeval_judge.readers.role_table import RoleTable, days_of, minutes_of

SAME_CLOSE = "{program} fills at the close of the day of the decision."
RETURNS_ONLY = "The file gives returns; values start from an account of 1 before its first day."
_ONE_VALUE = (
    "the day {day} appears twice; if these are values of one account within the "
    "day, keep the latest row of each day; if they are several accounts, write one file each"
)
_TRADE_COLUMNS = ["day", "code", "side", "shares", "price"]


def with_lines(frame: pd.DataFrame, table: RoleTable) -> pd.DataFrame:
    """Return a table's rows with their line numbers, if the file has lines."""
    if table.table.unit != "line":
        return frame
    return frame.assign(line=table.table.lines)


def with_minutes(frame: pd.DataFrame, moments: pd.Series) -> pd.DataFrame:
    """Return rows with the times of their timestamps in a column `minute`, if any has a time."""
    minutes = minutes_of(moments)
    if not minutes.any():
        return frame
    return frame.assign(minute=minutes)


def ordered_trades(fills: pd.DataFrame, source: object) -> pd.DataFrame:
    """Return fills as trades, ordered by timestamp. If timestamps are equal, sales come first.
    `fills` has the columns moment, code, side, shares and price, and optionally fee, decided and
    line. Raises DataError if `fills` is empty.
    """
    if fills.empty:
        raise DataError(f"{source}: contains no filled order; export a period with trades")

    keyed = fills.assign(day=days_of(fills["moment"]), is_buy=fills["side"] == "buy")
    keyed = with_minutes(keyed, fills["moment"])
    ordered = keyed.sort_values(
        ["moment", "is_buy", "code", "shares", "price"], kind="stable", ignore_index=True
    )
    others = [name for name in ("fee", "decided", "line", "minute") if name in keyed]
    trades = ordered[[*_TRADE_COLUMNS, *others]]
    if "fee" in trades and trades["fee"].isna().all():
        trades = trades.drop(columns="fee")
    return _with_types(trades)


def ordered_orders(orders: pd.DataFrame, source: object) -> pd.DataFrame:
    """Return decisions to buy and sell, ordered by day, with sales first. `orders` has the columns
    day, code and side, either amount or cash, and optionally line. Raises DataError if there are no
    decisions.
    """
    if orders.empty:
        raise DataError(f"{source}: contains no decision to trade; export a period with decisions")

    size = "amount" if "amount" in orders else "cash"
    keyed = orders.assign(is_buy=orders["side"] == "buy")
    ordered = keyed.sort_values(["day", "is_buy", "code", size], kind="stable", ignore_index=True)
    return _with_types(ordered.drop(columns="is_buy"))


def targets_of(targets: pd.DataFrame, form: str, source: object) -> pd.DataFrame:
    """Return target decisions from complete daily portfolios. `targets` has the columns day, code,
    and weight or shares, as named by `form`. An asset that leaves the portfolio gets a single
    target of zero.
    """
    if targets.empty:
        raise DataError(f"{source}: contains no decision to trade; export a period with decisions")

    books = targets.pivot(index="day", columns="code", values=form).sort_index()
    was_held = books.shift(1).fillna(0.0) != 0.0
    books = books.mask(books.isna() & was_held, 0.0)
    stacked = pd.Series(books.rename_axis(columns="code").stack(), name=form)
    long = stacked.reset_index()
    return _with_types(long.dropna().sort_values(["day", "code"], ignore_index=True))


def values_of(
    table: RoleTable, moments: pd.Series, numbers: pd.Series, role: str = "date"
) -> pd.Series:
    """Return numbers by day (yyyymmdd index, ascending), using the last timestamp of each day.
    Raises DataError if several rows have the same timestamp.
    """
    if moments.empty:
        raise DataError(
            f"{table.place}: contains no account value; export a period with trading days"
        )

    check_moment_keys(table, moments)
    frame = pd.DataFrame({"day": days_of(moments), "moment": moments, "value": numbers})
    table.check_once(frame[["day", "moment"]], table.column(role), _ONE_VALUE)

    frame = frame.sort_values("moment", kind="stable")
    closes = frame.drop_duplicates("day", keep="last")
    if len(closes) < len(frame):
        table.note(
            f"{len(frame):,} values lie within days; the last value of each day is used as its "
            "close."
        )
    index = pd.Index(closes["day"], name="day", dtype="int64")
    return pd.Series(closes["value"].to_numpy(dtype="float64"), index=index, name="value")


def first_value_of(moments: pd.Series, numbers: pd.Series) -> float | None:
    """Return an account's first value if its first day has several, because the day's close is then
    not the start. Return None if the first day has one value.
    """
    is_first_day = moments.dt.normalize() == moments.min().normalize()
    if moments[is_first_day].nunique() < 2:
        return None
    return float(numbers.iloc[int(moments.to_numpy().argmin())])


def _with_types(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the column types that `Declared` requires."""
    kinds = {
        "day": "int64",
        "decided": "int64",
        "minute": "float64",
        "code": "object",
        "side": "object",
    }
    known = {name: kind for name, kind in kinds.items() if name in frame}
    return frame.astype(known).reset_index(drop=True)
