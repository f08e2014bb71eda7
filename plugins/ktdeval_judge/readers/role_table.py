"""A table whose columns have roles. Cells are read as numbers, days, codes and sides, and errors
name the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval_judge.readers.advice import code_columns, without_codes, without_days
from ktdeval_judge.readers.roles import fact, is_kind, side_words, word_kinds, words_of
from ktdeval_tables.cell_tables import CellTable
from ktdeval_tables.codes import plain_code
from ktdeval_tables.moments import CellFault, StampClock, parse_moments
from ktdeval_tables.numbers import parse_figures
from ktdeval_tables.row_keys import quoted

ONE_ROW_A_DAY = "the day {day} appears twice; keep one row per day"
_SHOWN = 40  # maximum number of characters that an error shows from a cell
_MAX_CODE = 40
_COMMA_NUMBER = r"[-+]?[0-9]+,[0-9]+"


@dataclass(frozen=True, eq=False)
class RoleTable:
    """A table in a file, with the roles of its columns."""

    path: Path
    table: CellTable
    roles: Mapping[str, tuple[str, ...]]  #: role -> column names
    clock: StampClock
    code: str = ""  #: code of the asset, for a table without a code column
    sessions: tuple[int, ...] = ()  #: the market's trading days (yyyymmdd), ascending
    #: minutes after local midnight at which each session opens; if empty, at midnight
    opens: tuple[int, ...] = ()
    decided: frozenset[str] = frozenset()  #: columns in which the user chooses rows
    no_roles: frozenset[str] = frozenset()  #: roles that no column has, as the user says
    keeps_others: bool = False  #: whether a day of targets may leave out holdings that are kept
    notes: list[str] = field(default_factory=list)  #: what was omitted or assumed

    def __len__(self) -> int:
        return len(self.table.cells)

    def has(self, *roles: str) -> bool:
        """Return whether the table has a non-empty column for each of the roles."""
        return all(role in self.roles and (self.texts(role) != "").any() for role in roles)

    def column(self, role: str) -> str:
        """Return the name of the column that has a role, as in the file. Raises DataError if
        no column has it.
        """
        if role not in self.roles:
            raise self.lacks(role)
        return self.roles[role][0]

    def texts(self, role: str) -> pd.Series:
        """Return the cells in the column with this role, [n]."""
        return self.table.cells[self.column(role)]

    def words(self, role: str) -> pd.Series:
        """Return the cells in the column with this role as normalised lower-case words, [n]; sides
        without their reasons.
        """
        if role == "side":
            is_trip = "exit price" in self.roles or "exit date" in self.roles
            return side_words(self.texts(role), of_trips=is_trip)
        return words_of(self.texts(role))

    def numbers(self, role: str, *, may_lack: bool = False) -> pd.Series:
        """Return the cells in the column with this role as finite numbers, [n] float64. If
        `may_lack`, empty cells are allowed and become NaN.
        """
        return self.numbers_in(self.column(role), may_lack=may_lack)

    def numbers_in(self, column: str, *, may_lack: bool = False) -> pd.Series:
        """Return the cells in a column as finite numbers, as `numbers` does. Raises DataError if
        the column is missing.
        """
        if column not in self.table.cells:
            raise DataError(f"{self.place}: lacks the column {column}; {self.shown}")
        cells = self.table.cells[column]
        numbers, bad = parse_figures(cells, self.table.decimal)
        bad |= np.isinf(numbers)
        if not may_lack:
            bad |= numbers.isna()
        has_comma = bad & cells.str.fullmatch(_COMMA_NUMBER)
        if has_comma.any():
            row = int(has_comma.to_numpy().argmax())
            words = f"expected a number, was {cells.iloc[row][:_SHOWN]!r}"
            self.refuse(
                row, column, f"{words}; if the comma is the decimal mark, give --decimal comma"
            )
        self.check(~bad, column, "expected a number, was")
        return numbers

    def positive(self, role: str) -> pd.Series:
        """Return the cells in the column with this role as numbers above zero, [n]."""
        numbers = self.numbers(role)
        self.check(numbers > 0, self.column(role), "expected a number above zero, was")
        return numbers

    def sum_of(self, role: str) -> pd.Series:
        """Return the sums over all columns with this role, [n]. A sum is NaN if no column has a
        number.
        """
        columns = [self.numbers_in(name, may_lack=True) for name in self.roles[role]]
        return pd.concat(columns, axis=1).sum(axis=1, min_count=1)

    def moments(self, role: str = "date", *, may_lack: bool = False) -> pd.Series:
        """Return the cells in the column with this role as timestamps in the market's time zone,
        [n] datetime64.
        """
        column = self.column(role)
        try:
            moments = parse_moments(self.table.cells[column], self.clock)
        except CellFault as error:
            self.refuse(error.row, column, str(error))
        if not may_lack:
            self.check(moments.notna(), column, "expected a day such as 2024-01-31, was")
        return moments

    def codes(self) -> pd.Series:
        """Return the code of each row, [n]."""
        if "code" not in self.roles:
            if not self.code:
                advice = without_codes(self.table)
                raise DataError(
                    f"{self.place}: has no column of codes (symbol, ticker, instrument); {advice}; "
                    f"{self.shown}"
                )
            self._check_one_asset()
            return pd.Series(self.code, index=self.table.cells.index)

        column = self.column("code")
        texts, uniques = pd.factorize(self.texts("code"))
        plain = pd.Series([plain_code(text) for text in uniques], dtype="str")
        codes = pd.Series(plain.to_numpy()[texts], index=self.table.cells.index)
        is_short = codes.str.len() <= _MAX_CODE
        self.check((codes != "") & is_short, column, "expected a code, was")
        return codes

    def _check_one_asset(self) -> None:
        """Raise DataError if the user gives one code, but a column contains several codes."""
        read = {column for columns in self.roles.values() for column in columns}
        for column in code_columns(self.table):
            codes = self.table.cells[column].unique()
            if column not in read and len(codes) > 1 and self.code in codes:
                option = f"--map {quoted(f'code={column}')}"
                raise DataError(
                    f"{self.place}: --code {self.code}: column {column!r} has {len(codes)} codes; "
                    f"read it: {option}; or keep one: --keep {quoted(f'{column}={self.code}')}"
                )

    def sides(self) -> pd.Series:
        """Return `buy`, `sell` or `hold` for each row, [n]. Raises DataError if a cell has another
        meaning.
        """
        role = "side" if "side" in self.roles else "is buy"
        words = self.words(role)
        if role == "is buy":
            words = words.replace({"true": "buy", "false": "sell", "1": "buy", "0": "sell"})

        sides = pd.Series("", index=words.index, dtype="str")
        sides = sides.mask(is_kind(words, "buy", "long"), "buy").mask(
            is_kind(words, "sell"), "sell"
        )
        sides = sides.mask(is_kind(words, "hold") | (words == ""), "hold")
        if (sides == "").any():
            row = int((sides == "").to_numpy().argmax())
            cell = self.texts(role).iloc[row][:_SHOWN]
            fault = f"expected buy or sell, was {cell!r}; drop rows without a trade"
            self.refuse(row, self.column(role), fault)
        return sides

    def where(self, mask: pd.Series) -> RoleTable:
        """Return the table with only the rows where the mask is True."""
        if mask.all():
            return self
        cells = self.table.cells[mask].reset_index(drop=True)
        lines = self.table.lines[mask.to_numpy()]
        return replace(self, table=replace(self.table, cells=cells, lines=lines))

    def fact(self, role: str) -> float | None:
        """Return the positive number outside the table that has this role, or None if it is
        missing.
        """
        text = fact(self.table, role)
        numbers, bad = parse_figures(pd.Series([text], dtype="str"), self.table.decimal)
        number = float(numbers[0])
        return number if not bad[0] and number > 0 and np.isfinite(number) else None

    # ---- faults

    @property
    def place(self) -> str:
        """Text that identifies the file and, if it has a name, the table."""
        return f"{self.path}: {self.table.name}" if self.table.name else str(self.path)

    @property
    def shown(self) -> str:
        """Text that lists the table's columns. If none has a known name, the file may be no table,
        such as one of passwords, and its first line is not repeated.
        """
        if not self.roles:
            return "no name in its first line is known"
        return f"its columns: {', '.join(name[:40] for name in self.table.header)[:400]}"

    def lacks(self, role: str) -> DataError:
        """Return an error that says that the table lacks a role."""
        if role == "date":
            words = "has no column of days (date, datetime, timestamp)"
            advice = without_days(self.table, "date", has_exit="exit price" in self.roles)
            return DataError(
                f"{self.place}: {words}; {advice}; {self.shown}; for a file of a known program, "
                "give --from"
            )

        option = f"--map {role.replace(' ', '_')}=COLUMN"
        return DataError(
            f"{self.place}: lacks the column {role}; {self.shown}; add it, or name it: {option}; "
            "for a file of a known program, give --from"
        )

    def check(self, is_right: pd.Series, column: str, words: str) -> None:
        """Raise DataError at the first row for which `is_right` is False. In the message, `words`
        precede the cell.
        """
        if is_right.all():
            return
        row = int((~is_right).to_numpy().argmax())
        cell = str(self.table.cells[column].iloc[row])
        self.refuse(row, column, f"{words} {repr(cell[:_SHOWN]) if cell else 'empty'}")

    def check_once(self, keys: pd.DataFrame, column: str, words: str) -> None:
        """Raise DataError at the first row that repeats an earlier row's keys. `words` can contain
        key names in braces, such as `{day}`.
        """
        is_repeated = keys.duplicated()
        if is_repeated.any():
            row = int(is_repeated.to_numpy().argmax())
            own = {str(name): value for name, value in keys.iloc[row].items()}
            self.refuse(row, column, words.format(**own))

    def refuse(self, row: int, column: str, words: str) -> NoReturn:
        """Raise DataError, which names the place of a cell."""
        shown = column or "(first)"
        raise DataError(f"{self.line_of(row)}: column {shown}: {words}")

    def line_of(self, row: int) -> str:
        """Return text that identifies a row."""
        return f"{self.place}: {self.table.unit} {self.table.lines[row]}"

    def note(self, words: str) -> None:
        """Record a note, unless it is already recorded."""
        if words not in self.notes:
            self.notes.append(words)


def days_of(moments: pd.Series) -> pd.Series:
    """Return the days of timestamps as yyyymmdd, [n] int64."""
    days: pd.Series = moments.dt.year * 10_000 + moments.dt.month * 100 + moments.dt.day
    return days


def minutes_of(moments: pd.Series) -> pd.Series:
    """Return the times of timestamps in minutes after midnight, [n] float64."""
    minutes: pd.Series = (moments - moments.dt.normalize()) / pd.Timedelta(minutes=1)
    return minutes


def kinds_in(words: pd.Series) -> frozenset[str]:
    """Return all kinds of the known words among `words`."""
    found: set[str] = set()
    for word in words.unique():
        found |= word_kinds().get(str(word), frozenset())
    return frozenset(found)
