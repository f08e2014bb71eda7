"""Format of a table file, detected from its first bytes, or from its name if the bytes are
ambiguous.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Literal

from ktdeval.values import PARQUET, SIGNATURE_BYTES, ZIP, open_plain, open_unpacked, other_kind

Kind = Literal["csv", "lines", "json", "parquet", "workbook"]
"""Text with a row a line, JSON objects in lines, a JSON list, Parquet, a spreadsheet."""

WORKBOOK = ".xlsx"
_SHEETS = "xl/workbook.xml"


def table_kind(path: Path) -> Kind:
    """Return the format of a file, compressed or not.

    Raises OSError, EOFError or zlib.error if the file can't be read. Raises ValueError, with
    advice, if it is not a table.
    """
    if is_workbook(path, first_bytes(path)):
        return "workbook"

    with open_unpacked(path) as stream:
        head = stream.read(SIGNATURE_BYTES)

    if head.startswith(PARQUET):
        return "parquet"

    other = other_kind(head, table=False)
    if other:
        raise ValueError(f"by its first bytes it is {other}")

    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix == ".parquet" and b"\0" in head:
        return "parquet"  # the reader of this format reports the damage

    text = head.decode("utf-8-sig", "replace").lstrip()
    if suffix == ".jsonl" or text.startswith("{"):
        return "lines"
    if suffix == ".json" or text.startswith("["):
        return "json"
    return "csv"


def first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file, without decompressing it."""
    with open_plain(path) as stream:
        return stream.read(SIGNATURE_BYTES)


def is_workbook(path: Path, head: bytes) -> bool:
    """Return whether a file is a workbook, judging by its first bytes. If these fit any archive,
    the name or contents of the file decide.
    """
    if not head.startswith(ZIP[:2]):
        return False
    if path.name.lower().endswith(WORKBOOK):
        return True

    try:
        with zipfile.ZipFile(path) as archive:
            return _SHEETS in archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError):
        return False
