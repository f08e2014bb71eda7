"""Spreadsheet workbooks, read as the text of their first sheet. Formulas are never evaluated: a
cell has the value that was stored with it.
"""

from __future__ import annotations

import csv
import importlib
import io
import zipfile
import zlib
from collections.abc import Callable
from datetime import date, datetime, time
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from ktdeval.errors import DataError
from ktdeval.values import MAX_TIMES_OF_TEXT, import_problem, install_command, max_bytes, too_large

Note = Callable[[str], None]
"""Called with a text on the parts of a file that are not read."""

# Errors that zipfile, XML and openpyxl raise for a damaged file
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    ParseError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def sheet_as_text(file: Path, note: Note) -> str:
    """Return the first sheet of a workbook as CSV. Raises DataError if `openpyxl` can't be
    imported, or if the file is not a workbook, is too large, or has a formula without a stored
    value.
    """
    try:
        importlib.import_module("openpyxl")
    except ImportError as error:
        problem = import_problem(error, "openpyxl")
        raise DataError(
            f"{file}: workbooks are read with openpyxl; {problem}: {install_command('xlsx')}"
        ) from error

    try:
        _check_size(file)
        sheet = _first_sheet(file, note)
    except _DAMAGED as error:
        raise DataError(
            f"{file}: not a readable workbook; save it again as .xlsx, or as .csv",
        ) from error

    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for row in sheet:
        rows.writerow([_cell_text(value) for value in row])

    return text.getvalue()


def _check_size(file: Path) -> None:
    """Raise DataError if a workbook decompresses to more bytes than its file size allows."""
    with zipfile.ZipFile(file) as archive:
        held = sum(part.file_size for part in archive.infolist())

    size = file.stat().st_size
    if held > max_bytes(size, MAX_TIMES_OF_TEXT):
        raise DataError(f"{file}: {too_large(held, size, MAX_TIMES_OF_TEXT)}")


def _first_sheet(file: Path, note: Note) -> list[tuple[Any, ...]]:
    """Return the stored values of a workbook's first sheet."""
    rows, others = _read_sheet(file, data_only=True)
    if others:
        title, *left_out = others
        note(f"{file.name}: its first sheet, {title}, is read; not read: {', '.join(left_out)}")

    if any(None in row for row in rows):
        _check_formulas(file, rows)

    return rows


def _check_formulas(file: Path, rows: list[tuple[Any, ...]]) -> None:
    """Raise DataError if a formula has no stored value, since it would be read as an empty cell."""
    written, _ = _read_sheet(file, data_only=False)
    for number, (values, cells) in enumerate(zip(rows, written, strict=True), start=1):
        for place, (value, cell) in enumerate(zip(values, cells, strict=True)):
            if value is None and cell is not None:
                raise DataError(
                    f"{file}: line {number}: cell {place + 1} is the formula {str(cell)[:40]!r}"
                    " without a value; open the workbook, save it again, or save it as .csv"
                )


def _read_sheet(file: Path, *, data_only: bool) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return the rows of the first sheet and, if there are several sheets, the titles of all
    sheets.
    """
    import openpyxl  # noqa: PLC0415 - an extra

    # Passed as an open file, since openpyxl rejects other suffixes of file names.
    with file.open("rb") as stream:
        book = openpyxl.load_workbook(stream, read_only=True, data_only=data_only)
        if not book.worksheets:
            raise ValueError("no sheet")

        first = book.worksheets[0]
        first.reset_dimensions()  # some programs write wrong dimensions (a single cell)
        found = list(first.iter_rows(values_only=True))
        width = max(map(len, found), default=0)
        rows = [(*row, *(None,) * (width - len(row))) for row in found]
        titles = [sheet.title for sheet in book.worksheets]
        book.close()

    return rows, titles if len(titles) > 1 else []


def _cell_text(value: object) -> str:
    """Return a cell as text, with dates as ISO dates and whole numbers without a decimal point."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(" ") if value.time() != time() else value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))

    return str(value).replace("\n", " ")
