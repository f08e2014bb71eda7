"""Reader of plain tables: a day, a code and what was decided, under any usual name; or trades with
prices, or a NAV.

Which form it is follows from the columns. `weight`: share of the account. A holding (`position`,
`target_shares`), or `shares` without side and price: the shares to hold. `side` with `cash` or
`shares`: an order. `shares` with `price`: a trade, whose side may be its sign. `value` without
code: a NAV.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ktdeval.errors import DataError
from ktdeval.values import TableFault, TableFile, TableRow, TableShape, read_rows
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import day_of as number_of_day
from ktdeval_judge.readers.sample import FileSample, ReadOptions, refuse, sample_of
from ktdeval_judge.readers.unread_columns import (
    MAX_WORDS,
    Unread,
    act_in,
    is_unfilled,
    unread_names,
)
from ktdeval_judge.readers.wide import is_wide, read_wide

name = "plain"

ALIASES: Mapping[str, tuple[str, ...]] = {
    "day": ("date", "datetime", "timestamp", "time", "trade_date", "trading_day", "index", "dt"),
    "code": ("symbol", "ticker", "instrument", "asset", "stock", "stock_id", "sid", "tic", "name"),
    "weight": ("w", "target_weight", "weights", "allocation", "target_percent"),
    "holding": ("position", "target_shares", "target_position", "positions", "holdings"),
    "side": ("action", "direction", "type", "buy_sell", "order_side"),
    "cash": ("notional", "dollars", "order_value", "target_cash"),
    "shares": (
        "qty", "quantity", "amount", "size", "units", "volume", "filled_shares", "filled_qty",
        "filled_quantity", "executed_qty", "executed_quantity",
    ),
    "price": (
        "fill_price", "trade_price", "avg_price", "exec_price", "execution_price", "unit_price",
        "price_per_share", "price per share", "pricepershare",
    ),
    "fee": ("commission", "cost", "fees", "commissions"),
    "decided": ("signal_day", "signal_date", "decision_day", "decision_date", "decided_on"),
    "value": ("nav", "equity", "account_value", "portfolio_value", "total_value", "net_value"),
}  # fmt: skip
"""Field -> other names of its column, in lower case."""
FORMS = (
    "weight; position (the shares to hold); side with cash or shares; shares with price (a trade);"
    " or a day with nav"
)
SIDES: Mapping[str, str] = {
    "buy": "buy", "b": "buy", "long": "buy", "bot": "buy", "bought": "buy", "1": "buy",
    "sell": "sell", "s": "sell", "sld": "sell", "sold": "sell", "-1": "sell",
}  # fmt: skip
MAX_ROWS = 2_000_000
_FORM_COLUMNS = ("weight", "holding", "cash", "shares")

_DAY = re.compile(r"([0-9]{4})[-/.]?([0-9]{2})[-/.]?([0-9]{2})(?:[T ]+(.+))?")
_MIDNIGHT = re.compile(r"00:00(?::00(?:\.0+)?)?")
_ZONED = re.compile(r".*(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2})")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_COMMA_DECIMAL = re.compile(r"[+-]?[0-9.]*,[0-9]+")


def _aliases() -> dict[str, str]:
    columns: dict[str, str] = {}
    for column, others in ALIASES.items():
        columns.update(dict.fromkeys(others, column))

    return {**unread_names(), **columns}


SHAPE = TableShape(
    fields=tuple(dict.fromkeys((*ALIASES, *unread_names().values()))),
    required=("day",),
    aliases=_aliases(),
    ignored=("*",),
)


def recognises(sample: FileSample) -> bool:
    """Whether a file has a day and one of the usual columns."""
    fields = {SHAPE.field_of(column) for column in (*sample.columns, *sample.keys)}
    return "day" in fields and bool(fields & {"weight", "holding", "shares", "cash", "value"})


def read(path: Path, options: ReadOptions) -> Declared:  # noqa: ARG001 - the same for all readers
    """Return what a plain table declares. Raises DataError: with file, line, column and the fix."""
    import pandas as pd  # noqa: PLC0415 - readers are listed without it

    sample = sample_of(path)
    if sample.shape == "table" and is_wide(sample.columns, SHAPE):
        return read_wide(path, sample.columns, day_of, number_of)

    rows = _Rows(path, sample)
    for row in read_rows(TableFile(path, rows.shape), rows.fault):
        rows.take(row)

    if not rows.cells and rows.left_out:
        raise DataError(f"{path}: has no order that was filled; write one row a fill")
    if not rows.cells:
        raise DataError(f"{path}: has no row below its header; write one row a decision")

    form, notes = rows.form()
    frame = pd.DataFrame(rows.cells)
    frame["line"] = rows.lines
    if form == "value":
        _refuse_repeats(path, frame, ["day"])
        values = pd.Series(frame["value"].to_numpy(), index=frame["day"].to_numpy()).sort_index()
        return Declared(program=name, source=path.name, values=values)

    if form == "trade":
        trades = _trades(path, frame)
        return Declared(program=name, source=path.name, trades=trades, notes=notes)

    if form in ("weight", "holding"):
        _refuse_repeats(path, frame, ["day", "code"])

    decisions = _decisions(frame, form)
    return Declared(program=name, source=path.name, decisions=decisions, notes=notes)


@dataclass
class _Rows:
    """Rows read so far, as typed cells."""

    path: Path
    sample: FileSample
    cells: list[dict[str, Any]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    columns: set[str] = field(default_factory=set)
    sides: set[str] = field(default_factory=set)  #: as they are written
    left_out: int = 0  #: orders that were canceled or rejected

    @cached_property
    def written(self) -> Mapping[str, str]:
        """Field -> name of its column in the file, of those that are read."""
        return {
            SHAPE.field_of(column): column for column in (*self.sample.columns, *self.sample.keys)
        }

    @cached_property
    def others(self) -> Mapping[str, set[str]]:
        """Columns that are passed over, with the first of their words."""
        columns = [*self.sample.columns, *self.sample.keys]
        return {
            column: set()
            for column in columns
            if column.strip() and not SHAPE.field_of(column) and columns.count(column) == 1
        }

    @property
    def shape(self) -> TableShape:
        """Columns of the file, those that are passed over among them."""
        return replace(SHAPE, fields=(*SHAPE.fields, *self.others))

    def fault(self, fault: TableFault) -> None:
        words = fault.words
        if words.startswith("lacks the column day"):
            others = words.partition("; ")[2]
            words = (
                f"has no column of days (date, datetime, timestamp); {others}; a file of a program"
                " is named by --from"
            )
        raise refuse(self.path, fault.line, words)

    def take(self, row: TableRow) -> None:
        """Add a row. Raises DataError: a cell is not what its column holds."""
        if len(self.cells) >= MAX_ROWS:
            raise refuse(self.path, row.line, f"more than {MAX_ROWS:,} rows; write it in parts")

        if is_unfilled(row.cells):
            self.left_out += 1
            return

        typed: dict[str, Any] = {}
        for column, cell in row.cells.items():
            if column == "side":
                self.sides.add(str(cell).strip().lower())
            if column not in self.others:
                typed[column] = self._convert_cell(column, cell, row.line)
            elif len(self.others[column]) < MAX_WORDS:
                self.others[column].add(str(cell).strip().lower())

        if "day" not in typed:
            raise refuse(self.path, row.line, "has no day; write it as 2024-01-02")

        self.columns |= typed.keys()
        self.cells.append(typed)
        self.lines.append(row.line)

    def _convert_cell(self, column: str, cell: Any, line: int) -> Any:
        try:
            if column in ("day", "decided"):
                return day_of(cell)
            if column == "code":
                return _code_of(cell)
            if column == "side":
                return _side_of(cell)
            return number_of(cell) if column in ALIASES else cell
        except ValueError as error:
            raise refuse(self.path, line, f"column {column}: {error}") from error

    def form(self) -> tuple[str, tuple[str, ...]]:
        """Return what the rows declare: `weight`, `holding`, `cash`, `shares`, `trade`, `value`; and
        notes on rows that were left out. Raises DataError: nothing, several forms at once, or a
        column that says something else.
        """
        form = self._form()
        Unread(self.path, self.cells, self.lines, self.columns, self.written).check(form)
        self._check_others(form)
        if not self.left_out:
            return form, ()
        return form, (f"Left out: {self.left_out} orders that were canceled or rejected.",)

    def _check_others(self, form: str) -> None:
        """Raise DataError where a column that is passed over says what the rows are."""
        if form == "value":
            return

        for column, words in self.others.items():
            act = act_in(column, words)
            if act and (act.endswith("position") or "side" not in self.columns):
                raise DataError(
                    f"{self.path}: column {column} says {act}, and is not read; write buy or sell in"
                    " a column side, and drop it"
                )

        codes = [row["code"] for row in self.cells]
        is_repeated = len(set(codes)) < len(codes)
        if form in ("cash", "shares", "trade") and self.sides == {"long"} and is_repeated:
            raise DataError(
                f"{self.path}: column side: long in all rows names positions, of which some rows may"
                " be the end; write buy or sell"
            )

        names = {column.strip().lower() for column in self.others}
        if form == "holding" and {"high", "low"} <= names:
            raise DataError(
                f"{self.path}: columns high and low: holds the bars of a market, and no decisions;"
                " give it to `ktdeval data make`"
            )

        name = self.written.get("holding", "").strip().lower()
        holdings = [abs(row["holding"]) for row in self.cells if "holding" in row]
        if name in ("position", "positions") and 0 < max(holdings, default=0.0) <= 1:
            raise DataError(
                f"{self.path}: column {name}: no number is beyond 1, so that these may be weights or"
                " signals; call it weight, or target_shares where it is shares"
            )

    def _form(self) -> str:
        found = self.columns
        if "code" not in found and "value" in found:
            return self._check_form("value", ("day", "value"))
        if "code" not in found:
            raise DataError(
                f"{self.path}: has no column of codes (symbol, ticker, instrument); write one row a"
                " day and code"
            )

        form = self._only_form()
        if form == "cash" and "side" not in found:
            raise DataError(f"{self.path}: cash without a side; add a column side of buy and sell")
        if form == "shares" and "side" not in found:
            # shares without side and price are what is to be held
            for row in self.cells:
                if "shares" in row:
                    row["holding"] = row.pop("shares")
            form = "holding"

        needed = ["day", "code", "shares" if form == "trade" else form]
        if form == "trade":
            needed.append("price")
        if form in ("cash", "shares") or "side" in found:
            needed.append("side")
        return self._check_form(form, tuple(needed))

    def _only_form(self) -> str:
        """Return the one form that the columns have."""
        forms: list[str] = []
        for column in _FORM_COLUMNS:
            if column in self.columns:
                is_trade = column == "shares" and "price" in self.columns
                forms.append("trade" if is_trade else column)

        if len(forms) > 1:
            raise DataError(
                f"{self.path}: mixes {' and '.join(forms)}; one file declares in one form: keep one"
                " of these columns"
            )
        if not forms:
            raise DataError(f"{self.path}: says nothing to do; write one of: {FORMS}")
        return forms[0]

    def _check_form(self, form: str, needed: tuple[str, ...]) -> str:
        """Return the form. Raises DataError: a row lacks a cell, or has a number out of range."""
        for row, line in zip(self.cells, self.lines, strict=True):
            for column in needed:
                if column not in row:
                    raise refuse(self.path, line, f"has no {column}; fill it in, or drop the row")

            self._check_range(form, row, line)

        return form

    def _check_range(self, form: str, row: Mapping[str, Any], line: int) -> None:
        if form in ("value", "trade"):
            column = "value" if form == "value" else "price"
            if not row[column] > 0:
                words = f"column {column}: {row[column]:g} is not above 0"
                raise refuse(self.path, line, words)

        if form in ("cash", "shares") and not row[form] > 0:
            raise refuse(
                self.path, line, f"column {form}: {row[form]:g} is not above 0; the side says which"
            )
        if form == "trade" and row["shares"] == 0:
            raise refuse(self.path, line, "column shares: a trade of 0 shares; drop the row")
        if form == "trade" and "side" in row and row["shares"] < 0:
            raise refuse(
                self.path, line, "column shares: below 0 beside a side; write sizes above 0"
            )
        if form == "weight" and abs(row["weight"]) > 1.001:
            raise refuse(
                self.path,
                line,
                f"column weight: {row['weight']:g} is more than the whole account; write shares of"
                " it, as 0.05 for 5 %",
            )


# ---- tables


def _decisions(frame: Any, form: str) -> Any:
    renamed = frame.rename(columns={"holding": "shares"} if form == "holding" else {})
    if form == "shares":
        renamed = renamed.rename(columns={"shares": "amount"})

    own = {"weight": ["weight"], "holding": ["shares"], "cash": ["side", "cash"]}
    columns = ["day", "code", *own.get(form, ["side", "amount"]), "line"]
    return renamed[columns].sort_values(["day"], kind="stable", ignore_index=True)


def _trades(path: Path, frame: Any) -> Any:
    if "side" not in frame:
        frame["side"] = ["buy" if each > 0 else "sell" for each in frame["shares"]]
        frame["shares"] = frame["shares"].abs()

    columns = ["day", "code", "side", "shares", "price"]
    columns += [each for each in ("fee", "decided") if each in frame]
    if "fee" in frame and frame["fee"].min() < 0 and not frame["fee"].max() > 0:
        line = int(frame["line"][frame["fee"].idxmin()])
        raise refuse(path, line, "column fee: is below 0; write what was paid as a number above 0")

    repeated = frame.duplicated(columns)
    if repeated.any():
        line = int(frame["line"][repeated].iloc[0])
        raise refuse(path, line, "the same trade a second time; drop it, or sum both in one row")

    return frame[[*columns, "line"]].sort_values(["day"], kind="stable", ignore_index=True)


def _refuse_repeats(path: Path, frame: Any, columns: list[str]) -> None:
    repeated = frame.duplicated(columns)
    if repeated.any():
        row = frame[repeated].iloc[0]
        named = " and ".join(columns)
        raise refuse(path, int(row["line"]), f"the same {named} a second time; keep one row")


# ---- cells


def day_of(cell: Any) -> int:
    """Return a day as yyyymmdd. Raises ValueError: no day, an ambiguous one, or a moment of a zone
    whose day at the market is not known.
    """
    if isinstance(cell, datetime) and cell.tzinfo is not None and (cell.hour or cell.minute):
        raise ValueError(f"{cell.isoformat()} has a time zone; write the market's own day")
    if isinstance(cell, date):
        return number_of_day(cell)

    text = str(cell).strip()
    match = _DAY.fullmatch(text)
    if match is None:
        raise ValueError(_no_day(text))

    time = match[4] or ""
    bare = re.sub(r"\s*(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2})$", "", time)
    if time and _ZONED.fullmatch(time) and not _MIDNIGHT.fullmatch(bare):
        raise ValueError(f"{text[:40]} has a time zone; write the market's own day, as 2024-01-02")

    year, month, day = (int(match[part]) for part in (1, 2, 3))
    try:
        found = date(year, month, day)
    except ValueError:
        raise ValueError(f"{text[:40]} is not a date; write it as 2024-01-02") from None
    if not 1900 <= year < 2200:
        raise ValueError(f"{text[:40]} is not of this time; write it as 2024-01-02")

    return number_of_day(found)


def _no_day(text: str) -> str:
    if re.fullmatch(r"[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4}.*", text):
        return f"{text[:40]} can mean two days; write it as 2024-01-02"
    return f"{text[:40]!r} is not a date; write it as 2024-01-02"


def number_of(cell: Any) -> float:
    """Return a finite number. Raises ValueError: it is none."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        # a cell of a file, not an argument of the wrong type
        raise ValueError(f"{str(cell)[:40]!r} is not a number")  # noqa: TRY004

    text = str(cell).strip()
    if isinstance(cell, str) and not _NUMBER.fullmatch(text):
        if not text:
            raise ValueError("is empty; fill it in, or drop the row")
        if _COMMA_DECIMAL.fullmatch(text):
            raise ValueError(f"{text[:40]!r} has a comma; write decimals with a point")
        raise ValueError(f"{text[:40]!r} is not a number such as 0.05")

    try:
        number = float(text)
    except (ValueError, OverflowError):
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number; drop the row, or fill it in")
    return number


def _code_of(cell: Any) -> str:
    if isinstance(cell, float | bool):
        raise ValueError(f"{cell!r} is not a code; write codes as text, as 600519.SH")  # noqa: TRY004 - as above

    text = str(cell).strip()
    if not text:
        raise ValueError("is empty; write a code")
    if len(text) > 40 or not text.isprintable():
        raise ValueError(f"{text[:40]!r} is not a code")
    return text


def _side_of(cell: Any) -> str:
    text = str(cell).strip().lower()
    if text not in SIDES:
        raise ValueError(f"{text[:40]!r} is neither buy nor sell")
    return SIDES[text]
