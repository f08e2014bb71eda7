"""Text files with several tables one below the other: statements of Interactive Brokers, tables
between two lines of `====`, and tables separated by empty lines.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, MutableMapping
from dataclasses import dataclass, field

from ktdeval_tables.names import squeeze_name
from ktdeval_tables.readers.text_encoding import UnreadableError

_RULE = "==="
_ROW_KINDS = ("Header", "Data")
_FLEX_MARKS = ("HEADER", "DATA", "BOF", "BOA", "BOS", "EOS", "EOA", "EOF", "MSG")
_FLEX_FIRST = "ClientAccountID"
_FACTS = ["Field Name", "Field Value"]
_HEAD = 40  # number of lines examined to detect sections
# matches the first line of a paragraph
_PARAGRAPH = re.compile(r"(?:\A\s*|\n[ \t,]*\n)([^\n]*[A-Za-z][^\n]*)")
_MIN_NAMES = 3  # if a file has several tables, minimum number of known columns in a header
_NUMBER = re.compile(r"[-+]?[0-9][0-9.]*")


@dataclass
class Section:
    """Rows below one header."""

    name: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def closed_by_rule(text: str) -> str:
    """Return the table between two lines of `====`, or the whole text if it has no such line.
    Raises UnreadableError if the second line is missing.
    """
    if not text.startswith(_RULE):
        return text

    end = text.find(f"\n{_RULE}", len(_RULE))
    if end < 0:
        raise UnreadableError(
            "its table has no closing line of =====; write the file whole", text.count("\n")
        )
    return f"\n{text[:end].partition(chr(10))[2]}\n"


def stacked_tables(text: str, known: Collection[str]) -> list[str]:
    """Return the tables stacked in a text, each at its original line numbers.

    A header is a line of names, at least three of them known, at the start or below an empty line,
    and different from the other headers. With fewer than two headers, the text is one table.
    """
    starts: list[int] = []
    seen: list[list[str]] = []
    for found in _PARAGRAPH.finditer(text):
        names = [cell.strip('" ') for cell in found[1].split(",")]
        count = sum(squeeze_name(name) in known for name in names)
        if count >= _MIN_NAMES and names not in seen and not any(map(_NUMBER.fullmatch, names)):
            starts.append(found.start(1))
            seen.append(names)

    if len(starts) < 2:
        return [text]
    starts[0] = 0
    ends = [*starts[1:], len(text)]
    tables = []
    for start, end in zip(starts, ends, strict=True):
        above = text.count("\n", 0, start)
        tables.append("\n" * above + text[start:end])
    return tables


def is_sectioned(text: str) -> bool:
    """Return whether a text has several headers, each followed by its rows."""
    for line in text.split("\n", _HEAD)[:_HEAD]:
        cells = [cell.strip('" ') for cell in line.split(",", 3)]
        if cells[0] == _FLEX_FIRST or cells[0] in _FLEX_MARKS or "TradePrice" in line.split(","):
            return True
        if len(cells) > 2 and cells[1] in _ROW_KINDS:
            return True
    return False


def split_sections(
    rows: Iterator[tuple[int, list[str]]], facts: MutableMapping[str, str]
) -> list[Section]:
    """Return the sections formed by rows. `facts` receives the contents of sections that hold names
    and values.

    Raises UnreadableError if a row has no header, or a different number of cells than its header.
    """
    sections: list[Section] = []
    current: dict[str, Section] = {}
    for line, cells in rows:
        name, kind, own = _row_kind(cells)
        if kind == "Header":
            current[name] = Section(name, own)
            sections.append(current[name])
        elif kind == "Data":
            _add_row(current.get(name), own, line, facts)

    return [section for section in sections if section.rows]


def _row_kind(cells: list[str]) -> tuple[str, str, list[str]]:
    """Return a row's section, its kind (Header, Data or another) and its remaining cells."""
    if cells[0] in _FLEX_MARKS:
        kind = cells[0].capitalize()
        own = cells[2:]
        if kind in _ROW_KINDS and _is_flex_header(own):
            kind = "Header"
        return "", kind, own
    if len(cells) > 1 and cells[1] in (*_ROW_KINDS, "SubTotal", "Total", "Notes"):
        return cells[0], cells[1], cells[2:]
    return "", "Header" if _is_flex_header(cells) else "Data", cells


def _is_flex_header(cells: list[str]) -> bool:
    return not {_FLEX_FIRST, "TradeDate", "ReportDate"}.isdisjoint(cells)


def _add_row(
    section: Section | None, cells: list[str], line: int, facts: MutableMapping[str, str]
) -> None:
    if section is None:
        raise UnreadableError("stands before its header; include column headers", line)
    if section.header == _FACTS:
        facts[cells[0]] = cells[-1]
        return

    width = len(section.header)
    if len(cells) > width and not any(cells[width:]):
        cells = cells[:width]
    if len(cells) != width:
        words = f"has {len(cells)} of {width} cells; export the file again, to its end"
        raise UnreadableError(words, line)

    section.rows.append(cells)
    section.lines.append(line)
