"""Workbooks of spreadsheets, as the text of their first sheet."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
import zlib
from datetime import date, datetime, time
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from ktdeval.errors import DataError
from ktdeval.values.first_bytes import ZIP
from ktdeval_data.reading.options import Reading

WORKBOOK = ".xlsx"
# What zipfile, XML and openpyxl raise for a damaged file
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


def is_workbook(file: Path, head: bytes) -> bool:
    """Whether a file is a workbook by its first bytes and, where these are those of any archive, by
    its name or by what it holds.
    """
    if not head.startswith(ZIP[:2]):
        return False
    if file.name.lower().endswith(WORKBOOK):
        return True

    try:
        with zipfile.ZipFile(file) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (OSError, *_DAMAGED):
        return False


def sheet_as_text(file: Path, reading: Reading) -> str:
    """Return the first sheet of a workbook as CSV. Raises DataError: `openpyxl` is not installed,
    or it is no workbook.
    """
    if importlib.util.find_spec("openpyxl") is None:
        need = "workbooks are read with openpyxl, which is not installed"
        raise DataError(f"{file}: {need}: pip install 'ktdeval[xlsx]'")

    import openpyxl  # noqa: PLC0415 - an extra

    try:
        # By the open file: openpyxl refuses names of other suffixes.
        with file.open("rb") as stream:
            book = openpyxl.load_workbook(stream, read_only=True, data_only=True)
            return _first_sheet(book, file.name, reading)
    except _DAMAGED as error:
        raise DataError(
            f"{file}: no workbook that can be read; save it again as .xlsx, or as .csv",
        ) from error


def _first_sheet(book: Any, name: str, reading: Reading) -> str:
    """Return the cells of a workbook's first sheet as CSV."""
    if not book.worksheets:
        raise ValueError("no sheet")

    sheet = book.worksheets[0]
    if len(book.worksheets) > 1:
        left_out = ", ".join(other.title for other in book.worksheets[1:])
        reading.note(f"{name}: its first sheet, {sheet.title}, is read; not read: {left_out}")

    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for row in sheet.iter_rows(values_only=True):
        rows.writerow([_cell(value) for value in row])

    book.close()
    return text.getvalue()


def _cell(value: object) -> str:
    """Return a cell as text: dates as ISO days, whole numbers without a point."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(" ") if value.time() != time() else value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))

    return str(value).replace("\n", " ")
