"""Reader of a wide table of weights: a day in the first column, a code at the head of each other one,
as `DataFrame.to_csv` writes a matrix of weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.values import TableFault, TableFile, TableRow, TableShape, read_rows
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.sample import refuse

_NOTHING = frozenset({"", "nan", "none", "null", "na", "n/a"})
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\- ]{0,39}")


def is_wide(columns: Sequence[str], plain: TableShape) -> bool:
    """Whether columns are a day and codes: the first is a day or has no name, and no other one is a
    field of a plain table.
    """
    if len(columns) < 2:
        return False

    first, *others = columns
    begins = first.strip() == "" or plain.field_of(first) == "day"
    is_field = any(plain.field_of(column) for column in others)
    return begins and not is_field and all(_CODE.fullmatch(column.strip()) for column in others)


def read_wide(path: Path, columns: Sequence[str], day_of: Any, number_of: Any) -> Declared:
    """Return the weights of a wide table; an empty cell is no position. Raises DataError: a cell is
    no number, with line and column.
    """
    import pandas as pd  # noqa: PLC0415 - readers are listed without it

    first, *codes = columns
    # a code may be spelt as the field `day`, so that fields are numbered
    renamed = {first: "#0"}
    for number, code in enumerate(codes, start=1):
        renamed[code] = f"#{number}"

    shape = TableShape(fields=tuple(renamed.values()), required=("#0",), renamed=renamed)

    def fail(fault: TableFault) -> None:
        raise refuse(path, fault.line, fault.words)

    cells = _Cells(path, codes, day_of, number_of)
    rows: list[tuple[int, str, float, int]] = []
    seen: set[int] = set()
    for row in read_rows(TableFile(path, shape), fail):
        day = cells.day(row, first)
        if day in seen:
            raise refuse(path, row.line, "the same day a second time; keep one row")

        seen.add(day)
        for code, weight in cells.weights(row):
            rows.append((day, code, weight, row.line))

    if not rows:
        raise refuse(path, 0, "has no weight in any cell")

    frame = pd.DataFrame(rows, columns=["day", "code", "weight", "line"])
    frame = frame.sort_values(["day"], kind="stable", ignore_index=True)
    notes = (
        "a table of days and codes is read as weights, an empty cell as no position",
        "its days are taken for those of the decisions; else say --dated fill, or the program by"
        " --from",
    )
    return Declared(program="plain", source=path.name, decisions=frame, notes=notes)


@dataclass(frozen=True)
class _Cells:
    """Typed cells of a row."""

    path: Path
    codes: Sequence[str]
    day_of: Any
    number_of: Any

    def day(self, row: TableRow, column: str) -> int:
        try:
            return int(self.day_of(row.cells.get("#0", "")))
        except ValueError as error:
            raise refuse(self.path, row.line, f"column {column or 1}: {error}") from error

    def weights(self, row: TableRow) -> Iterator[tuple[str, float]]:
        """Yield code and weight of each cell that is not empty."""
        for number, code in enumerate(self.codes, start=1):
            cell = row.cells.get(f"#{number}", "")
            if str(cell).strip().lower() in _NOTHING:
                continue
            try:
                weight = self.number_of(cell)
            except ValueError as error:
                raise refuse(self.path, row.line, f"column {code}: {error}") from error
            if abs(weight) > 1.001:
                words = (
                    f"column {code}: {weight:g} is more than the whole account; a table of codes"
                )
                advice = "holds weights, as 0.05 for 5 %; a file of a program is named by --from"
                raise refuse(self.path, row.line, f"{words} {advice}")
            yield code.strip(), weight
