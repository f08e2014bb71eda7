"""Read the words that reveal assets in documents from tables as vendors write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from ktdeval.errors import UsageError
from ktdeval.market import Entity
from ktdeval_raw_markets.sources.document_files import entity_of, read_entities
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.readers.text_encoding import first_bytes
from ktdeval_tables.row_places import place
from ktdeval_tables.vendor_tables import read_table

_FIELDS = Entity._fields
_LINES = (".jsonl", ".jsonl.gz")  #: suffixes of files with one JSON object per line


def read_entity_table(
    path: Path,
    mapping: Mapping[str, str],
    form: Callable[[pd.Series], pd.Series],
    reading: ReadingOptions,
) -> list[Entity]:
    """Read entities from a file. `form` normalises codes.

    The file has JSON lines with our field names, or a table with a vendor's column names. Other
    columns are ignored.

    Raises DataError if the file can't be read or lacks a column, or if a row is wrong; UsageError
    if a mapping is given for JSON lines.
    """
    if _has_objects(path):
        if mapping:
            fields = ", ".join(_FIELDS)
            raise UsageError(
                f"--map entities.{min(mapping)} is of tables, and {path} has an object a line; name"
                f" their fields {fields}"
            )

        return read_entities(path)

    how = reading.beside("entities")
    table = read_table(path, _FIELDS, [], mapping, reading=how)
    for field in _FIELDS:
        table[field] = table[field].fillna("").astype(str)

    table["code"] = form(table["code"])
    entities = []
    rows = zip(*(table[field] for field in _FIELDS), strict=True)
    for index, cells in enumerate(rows):
        row = dict(zip(_FIELDS, cells, strict=True))
        entities.append(entity_of(row, f"{path}: {place(table, index)}"))

    return entities


def _has_objects(path: Path) -> bool:
    """Return whether a file has a JSON object on each line, judging by its name or first bytes."""
    if path.name.lower().endswith(_LINES):
        return True
    return path.is_file() and first_bytes(path).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
