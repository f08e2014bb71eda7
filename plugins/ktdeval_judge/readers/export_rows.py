"""Rows of a broker's export in sections, each with a header of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ktdeval.errors import DataError
from ktdeval_judge.readers.cells import CellRow
from ktdeval_judge.readers.frames import FrameFill

_THOUSANDS = re.compile(r"-?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")


@dataclass
class ExportContents:
    """What is gathered from the rows of an export."""

    fills: list[tuple[str, FrameFill]] = field(default_factory=list)  #: with the level of detail
    values: list[tuple[CellRow, int, float]] = field(default_factory=list)
    currencies: set[str] = field(default_factory=set)
    others: int = 0  #: trades in assets other than stocks
    cash: float | None = None


def check_columns(place: str, header: list[str], required: tuple[str, ...]) -> None:
    """Raise DataError where a section lacks a column."""
    for column in required:
        if column not in header:
            raise DataError(f"{place}: lacks the column {column}; include it in the export")


def row_of(place: str, header: list[str], cells: list[str]) -> CellRow:
    """Return a row by the names of its header. Raises DataError: it has more or fewer cells."""
    if not header:
        raise DataError(f"{place}: stands before its header; include column headers")
    if len(cells) != len(header):
        raise DataError(
            f"{place}: has {len(cells)} of {len(header)} cells; export the file again, to its end"
        )

    return CellRow(place, dict(zip(header, map(plain, cells), strict=True)))


def plain(cell: str) -> str:
    """Return a cell without the commas of thousands, and a stamp without the one in it."""
    text = cell.strip()
    if _THOUSANDS.fullmatch(text):
        return text.replace(",", "")
    return text.replace(", ", " ") if text[:4].isdecimal() else text
