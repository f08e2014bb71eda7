"""Read the records in a log: JSON lines, a single JSON value, rows of a CSV or Parquet file, or the
members of a zip archive.

Nothing is executed or unpickled. Sizes are checked before any data are decoded.
"""

from __future__ import annotations

import csv
import io
import json
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import zstandard

from ktdeval.errors import DataError, os_reason
from ktdeval.values import (
    PARQUET,
    JsonValue,
    loads_untrusted,
    max_bytes,
    open_parquet,
    open_plain,
    read_plain,
)

LARGEST_FILE = 512 << 20  #: maximum size of a log file in bytes
LARGEST_MEMBER = 64 << 20  #: maximum unpacked size of an archive member in bytes
LONGEST_LINE = 32 << 20  #: maximum length of a line, in bytes
MAX_LEVELS = 100  #: maximum nesting depth of lists and objects
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ZIP = b"PK\x03\x04"
_ZSTANDARD = 93  # number of the Zstandard compression method in zip files
# the local header ends with the lengths of the name and the extra field
_LOCAL_HEADER = struct.Struct("<26xHH")
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_ZST = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class LogRecord:
    """A JSON value in a log."""

    value: JsonValue
    line: int | None = None  #: line of the file; None if the whole file is one JSON value
    member: str = ""  #: name of the member, if the file is an archive


def objects_in(value: JsonValue) -> Iterator[Mapping[str, JsonValue]]:
    """Yield the objects in a list, or a value that is itself an object."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        if isinstance(item, Mapping):
            yield item


def read_records(path: Path) -> list[LogRecord]:
    """Return the JSON values in a file: one per line, the whole file, or one per member of a zip
    archive.

    Raises DataError, which names the file and the line, if the file is not readable, too large, or
    not JSON.
    """
    try:
        data = read_plain(path, LARGEST_FILE)
    except OSError as error:
        reason = os_reason(error, "name a file of at most 512 MiB")
        raise DataError(f"{path}: can't read: {reason}") from error

    if data.startswith(_ZIP):
        return list(_archive_records(path))
    if data.startswith(_PICKLES):
        raise DataError(
            f"{path}: is a pickle file, which can run code; write the log as JSON lines"
        )
    if data.startswith(_ZST):
        raise DataError(
            f"{path}: is compressed with zstandard; decompress it, or name the run's folder"
        )

    if data.startswith(PARQUET):
        return _table_records(path)

    records = _parse_text(path, data.removeprefix(_BYTE_ORDER_MARK))
    if not records:
        raise DataError(f"{path}: is empty; write one JSON object per line")
    return records


def _parse_text(path: Path, data: bytes) -> list[LogRecord]:
    lines = data.split(b"\n")
    filled = [line for line in lines if line.strip()]
    is_lines = len(filled) > 1 and _is_whole(filled[0])
    if is_lines or len(filled) == 1:
        return list(_line_records(path, lines))

    if not filled:
        return []
    if not filled[0].lstrip().startswith((b"{", b"[")) and b"," in filled[0]:
        return list(_csv_records(path, data))
    return [LogRecord(_parse(path, data, str(path)))]


def _is_whole(line: bytes) -> bool:
    """Return whether a line looks like a complete JSON object, as in JSON lines."""
    text = line.strip()
    return text.startswith(b"{") and text.endswith(b"}")


def _line_records(path: Path, lines: list[bytes]) -> Iterator[LogRecord]:
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue

        where = f"{path}:{number}"
        if len(text) > LONGEST_LINE:
            raise DataError(f"{where}: the line has {len(text):,} bytes; at most 32 MiB are read")
        yield LogRecord(_parse(path, text, where), number)


def _parse(path: Path, data: bytes, where: str) -> JsonValue:
    text = _decode(data, where)
    try:
        return loads_untrusted(text, MAX_LEVELS)
    except ValueError as error:
        advice = "write one JSON object per line"
        if where == str(path):
            advice = "write it as one JSON value, or as JSON lines"
        raise DataError(f"{where}: is not JSON: {str(error)[:120]}; {advice}") from error


def _decode(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: is not UTF-8; save it as UTF-8") from error


# ---- tables


def _csv_records(path: Path, data: bytes) -> Iterator[LogRecord]:
    """Yield the rows of a CSV file as objects with column names as keys. A row can span several
    lines.
    """
    text = _decode(data, str(path))
    csv.field_size_limit(LONGEST_LINE)
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    line = 2
    try:
        for row in rows:
            cells = {name: cell for name, cell in row.items() if isinstance(name, str) and cell}
            yield LogRecord(cells, line)
            line = rows.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}:{line}: is not a valid CSV row: {error}; save the file again"
        ) from error


def _table_records(path: Path) -> list[LogRecord]:
    """Return the rows of a Parquet file as objects with column names as keys. Dates and times
    become strings.
    """
    import pyarrow as pa  # noqa: PLC0415 - takes a moment to import

    try:
        with open_parquet(path) as file:
            rows = file.read(use_threads=False).to_pylist()
        return [LogRecord(json.loads(json.dumps(row, default=str))) for row in rows]
    except (OSError, pa.ArrowException, ValueError, TypeError) as error:
        raise DataError(
            f"{path}: can't be read as Parquet: {str(error)[:120]}; save it again"
        ) from error


# ---- archives


def _archive_records(path: Path) -> Iterator[LogRecord]:
    """Yield the JSON members of a zip archive, in order of name."""
    size = path.stat().st_size
    total = 0
    try:
        with open_plain(path) as stream, zipfile.ZipFile(stream) as archive:
            members = sorted(archive.infolist(), key=lambda member: member.filename)
            for member in members:
                if not member.filename.endswith(".json"):
                    continue

                total += member.file_size
                if member.file_size > LARGEST_MEMBER or total > max_bytes(size):
                    raise DataError(
                        f"{path}: {member.filename!r} unpacks to more than the size limit; audit "
                        "a part of the log"
                    )

                data = _unpack_member(archive, member)
                where = f"{path}: {member.filename[:120]!r}"
                yield LogRecord(_parse(path, data, where), None, member.filename)
    except (OSError, zipfile.BadZipFile, zstandard.ZstdError, struct.error, EOFError) as error:
        raise DataError(f"{path}: is a damaged zip archive: {str(error)[:120]}") from error
    except (NotImplementedError, RuntimeError) as error:
        raise DataError(
            f"{path}: a member can't be unpacked ({str(error)[:80]}); save the log as .json"
        ) from error


def _unpack_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the contents of a member, up to its declared size. Members compressed with Zstandard
    are unpacked here, because Python's `zipfile` can't read them before 3.14.
    """
    if member.compress_type != _ZSTANDARD:
        with archive.open(member) as stream:
            return stream.read(LARGEST_MEMBER)

    raw = archive.fp
    if raw is None:
        raise zipfile.BadZipFile("the archive is closed")

    raw.seek(member.header_offset)
    name, extra = _LOCAL_HEADER.unpack(raw.read(_LOCAL_HEADER.size))
    raw.seek(name + extra, 1)
    packed = raw.read(member.compress_size)
    with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
        return reader.read(member.file_size)
