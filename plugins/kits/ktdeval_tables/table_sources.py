"""Files that contain tables: their kind, their text, their JSON values. A file is opened once."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import pyarrow as pa

from ktdeval.errors import DataError, os_reason
from ktdeval.values import (
    PARQUET,
    SIGNATURE_BYTES,
    JsonValue,
    open_unpacked,
    other_kind,
    refuse_half_pairs,
)
from ktdeval_tables.readers.file_kinds import is_workbook
from ktdeval_tables.readers.rows import LARGEST_JSON, read_exact_json
from ktdeval_tables.readers.text_encoding import UnreadableError, encodings_of

Kind = Literal["text", "json", "parquet", "workbook", "xml"]

MAX_BYTES = 256 << 20  #: maximum size of a file
PICKLE_ADVICE = (
    "is a pickle, which can run code when it is opened, and is never read; open it where it was"
    " written and save it by .to_csv(...) or .to_parquet(...)"
)
INDEX = "__index_level_0__"  #: name of a frame's unnamed index in Parquet
UNREADABLE = (OSError, EOFError, ValueError, zlib.error, pa.ArrowException, OverflowError)
"""Errors raised for a file that can't be read."""

_PICKLE_STARTS = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
_PICKLE_SUFFIXES = (".pkl", ".pickle", ".joblib")
_XML_STARTS = (b"<?xml", b"<Flex")
_JSON_STARTS = (b"{", b"[")


@dataclass(frozen=True, eq=False)
class TableSource:
    """A file that was read."""

    path: Path
    kind: Kind
    data: bytes  #: unpacked bytes; empty for Parquet and workbooks, which have separate readers

    @cached_property
    def text(self) -> str:
        """File as text, with uniform line ends. Raises DataError if it is not text."""
        for encoding in encodings_of(self.data):
            try:
                text = self.data.decode(encoding)
            except UnicodeDecodeError:
                continue
            return text.replace("\r\n", "\n").replace("\r", "\n")

        raise DataError(
            f"{self.path}: not text in any of UTF-8, UTF-16, GB 18030; save it as UTF-8"
        )

    @cached_property
    def documents(self) -> Sequence[tuple[int, JsonValue]]:
        """JSON values with their line numbers: a single value, or one per line. Numbers are kept as
        written. Raises DataError if the file is not JSON.
        """
        if len(self.text) > LARGEST_JSON:
            raise DataError(f"{self.path}: has more than {LARGEST_JSON} bytes of JSON; write parts")
        try:
            return ((1, _exact_json(self.text)),)
        except ValueError as error:
            lines = [pair for pair in enumerate(self.text.split("\n"), 1) if pair[1].strip()]
            first_error = error

        if len(lines) < 2 or _is_broken(lines[0][1]):
            words = " ".join(str(first_error).split())[:120]
            raise DataError(
                f"{self.path}: is not valid JSON: {words}; write the file again, to its end"
            )
        return [(number, _json_of_line(self.path, number, line)) for number, line in lines]


def open_source(path: Path) -> TableSource:
    """Read a file. Raises DataError if it is missing, empty, too large, a folder, a pickle, or of a
    kind that has no tables.
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name the file in it")

    try:
        with open_unpacked(path) as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise DataError(f"{path}: can't read: {os_reason(error)}") from error
    except UNREADABLE as error:
        raise unreadable(path, error) from error

    if data.startswith(_PICKLE_STARTS) or path.suffix.lower() in _PICKLE_SUFFIXES:
        raise DataError(f"{path}: {PICKLE_ADVICE}")
    if not data:
        raise DataError(f"{path}: is empty; write a header and one row a decision")
    if len(data) > MAX_BYTES:
        raise DataError(
            f"{path}: at most {MAX_BYTES:,} bytes are read: write it as Parquet, or in parts"
        )

    kind = kind_of(path, data[:SIGNATURE_BYTES])
    has_reader = kind in ("parquet", "workbook")
    return TableSource(path, kind, b"" if has_reader else data)


def source_kind(path: Path) -> Kind:
    """Return the kind of a file, compressed or not, from its first bytes. Raises DataError if it
    contains no table; OSError, EOFError or zlib.error if it can't be read.
    """
    with open_unpacked(path) as stream:
        return kind_of(path, stream.read(SIGNATURE_BYTES))


def refuse_bytes(column: str, kind: pa.DataType) -> None:
    """Raise ValueError if a Parquet column that is to be read as text holds bytes."""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise ValueError(f"column {column!r} holds bytes ({kind}); write texts")


def kind_of(path: Path, head: bytes) -> Kind:
    """Return the kind of a file from its first bytes. Raises DataError if it contains no table."""
    if head.startswith(PARQUET):
        return "parquet"
    if is_workbook(path, head):
        return "workbook"

    start = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if start.startswith(_XML_STARTS):
        return "xml"

    other = other_kind(head)
    if other.startswith("JSON") or start.startswith(_JSON_STARTS):
        return "json"
    if other:
        raise DataError(f"{path}: can't read: by its first bytes it is {other}")

    is_damaged_parquet = path.suffix.lower() == ".parquet" and b"\0" in head
    return "parquet" if is_damaged_parquet else "text"


def unreadable(path: Path, error: Exception) -> DataError:
    """Return the DataError for a file that can't be read. `error`: one of `UNREADABLE`."""
    if isinstance(error, UnreadableError) and error.line:
        return DataError(f"{path}: {error}")
    if isinstance(error, OSError) and error.strerror:
        return DataError(f"{path}: can't read: {os_reason(error)}")
    return DataError(f"{path}: can't read: {' '.join(str(error).split())[:300]}")


def _exact_json(text: str) -> JsonValue:
    value = read_exact_json(text)
    if "\\u" in text:
        refuse_half_pairs(value)
    return value


def _is_broken(line: str) -> bool:
    """Return whether the first line of a text is not a complete JSON value."""
    try:
        _exact_json(line)
    except ValueError:
        return True
    return False


def _json_of_line(path: Path, number: int, line: str) -> JsonValue:
    try:
        return _exact_json(line)
    except ValueError as error:
        words = f"not valid JSON: {str(error)[:80]}; write one object a line"
        raise DataError(f"{path}: line {number}: {words}") from error
