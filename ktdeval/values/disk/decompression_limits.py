"""Size limits for files that are small on disk but large in memory, checked before the files are
read.

Run-length encoding, dictionaries and compression can expand 33 kB to gigabytes. Real market data
expand to a few times the file size, rarely to fifty times. `max_bytes` allows 200 times, or 30
times for compressed text, and 256 MiB in any case.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktdeval.values.disk.file_signatures import GZIP
from ktdeval.values.disk.files import open_plain
from ktdeval.values.disk.rollback import undone_on_error

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ALWAYS_ALLOWED = 256 << 20
MAX_TIMES = 200
MAX_TIMES_OF_TEXT = 30
MAX_COLUMNS = 20_000

# Bytes per value in Arrow's memory, by type in the file. For text, only the offset is counted.
_WIDTHS = {
    "BOOLEAN": 1,
    "INT32": 4,
    "INT64": 8,
    "INT96": 8,  # a timestamp, which Arrow keeps in 64 bits
    "FLOAT": 4,
    "DOUBLE": 8,
    "BYTE_ARRAY": 4,
}
_WIDEST = 16  # other types are fixed-length bytes, such as decimals
_TEXT = "BYTE_ARRAY"


def max_bytes(size: int, times: int = MAX_TIMES) -> int:
    """Return the maximum size in bytes, when decompressed or decoded, of a file of `size` bytes."""
    return ALWAYS_ALLOWED + times * size


def too_large(found: int, size: int, times: int = MAX_TIMES) -> str:
    """Return the message that a file of `size` bytes exceeds its limit when decompressed."""
    return (
        f"{size:,} bytes decode to at least {found:,}, and {max_bytes(size, times):,} at most are"
        " read; write the table without repeated or empty rows and columns, or in several files"
    )


# ---- Parquet


def open_parquet(
    source: Path | pa.Buffer, columns: Collection[str] | None = None, **options: Any
) -> pq.ParquetFile:
    """Open a Parquet file in order to read all or some of its columns. `options` are passed to
    `pyarrow`. Raises OSError. Raises pa.ArrowException if the file is not Parquet or expands too
    much.
    """
    import pyarrow as pa  # noqa: PLC0415 - takes a moment to import
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    if isinstance(source, Path):
        with open_plain(source) as stream:
            size = stream.seek(0, io.SEEK_END)
    else:
        size = source.size
        source = pa.BufferReader(source)

    try:
        file = pq.ParquetFile(source, **options)
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"a column name is not text: {error}") from error

    with undone_on_error(lambda _: file.close()):
        check_parquet(file.metadata, size, columns)
        coded = options.get("read_dictionary", ())
        _check_texts(source, file.metadata, size, _text_columns(file.metadata, columns, coded))

    return file


def check_parquet(metadata: pq.FileMetaData, size: int, columns: Collection[str] | None) -> None:
    """Raise pa.ArrowInvalid if the columns take up more memory than a file of `size` bytes may.
    Repeated strings and long lists are not counted: the footer reports them per column chunk, and
    Arrow aborts the process if that metadata is damaged.
    """
    import pyarrow as pa  # noqa: PLC0415 - as above

    if metadata.num_columns > MAX_COLUMNS:
        raise pa.ArrowInvalid(f"{metadata.num_columns:,} columns; at most {MAX_COLUMNS:,} are read")

    kinds = _chosen_columns(metadata, columns).values()
    row_bytes = sum(_WIDTHS.get(kind, _WIDEST) for kind in kinds)
    decoded = sum(rows * row_bytes + unpacked for rows, unpacked in _groups(metadata))
    if decoded > max_bytes(size):
        raise pa.ArrowInvalid(too_large(decoded, size))


def _chosen_columns(metadata: pq.FileMetaData, columns: Collection[str] | None) -> dict[str, str]:
    """Return the file type of each column that is read, keyed by the column's path."""
    found = {}
    for number in range(metadata.num_columns):
        column = metadata.schema.column(number)
        path = column.path
        if columns is None or path in columns or path.split(".")[0] in columns:
            found[path] = column.physical_type

    return found


def _text_columns(
    metadata: pq.FileMetaData, columns: Collection[str] | None, coded: Collection[str]
) -> list[str]:
    """Return the paths of the text columns that are read, without the columns in `coded`, which
    stay dictionaries.
    """
    kinds = _chosen_columns(metadata, columns)
    return [path for path, kind in kinds.items() if kind == _TEXT and path not in coded]


def _groups(metadata: pq.FileMetaData) -> Iterator[tuple[int, int]]:
    """Yield the number of rows and the uncompressed bytes of all columns for each row group. A
    forged footer may report negative sizes, which would offset the sizes of other groups.
    """
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        yield max(group.num_rows, 0), max(group.total_byte_size, 0)


def _check_texts(source: Any, metadata: pq.FileMetaData, size: int, texts: Sequence[str]) -> None:
    """Raise pa.ArrowInvalid if strings that are stored once in a dictionary would take up too much
    memory when copied for each row. When read as dictionaries, each string is in memory only once.
    """
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    if not texts:
        return

    decoded = 0
    with pq.ParquetFile(source, metadata=metadata, read_dictionary=texts) as file:
        for group in range(metadata.num_row_groups):
            table = file.read_row_group(group, columns=texts, use_threads=False)
            for column in table.columns:
                decoded += sum(map(_text_bytes, column.chunks))

            if decoded > max_bytes(size):
                raise pa.ArrowInvalid(too_large(decoded, size))


def _text_bytes(array: Any) -> int:
    """Return the total bytes of the strings in an array, counting repeated strings each time."""
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary)
        return pc.sum(lengths.take(array.indices)).as_py() or 0
    if pa.types.is_struct(array.type):
        return sum(map(_text_bytes, array.flatten()))
    if pa.types.is_nested(array.type):
        return _text_bytes(array.flatten())
    return 0


# ---- compressed text


def open_unpacked(path: Path) -> io.BufferedReader:
    """Open a file for reading. It is decompressed if its name ends in .bz2, .xz or .zip, or if its
    first bytes are those of gzip (browsers decompress such files but keep their names). Raises
    OSError if the file can't be read. Reading raises OSError if more data come out than a file of
    its size may contain.
    """
    plain = open_plain(path)
    is_packed = plain.read(len(GZIP)) == GZIP
    plain.seek(0)
    opener = _OPENERS.get(path.suffix.lower())
    if is_packed:
        opener = _open_gzip
    if opener is None:
        return plain

    size = plain.seek(0, io.SEEK_END)
    plain.seek(0)
    return io.BufferedReader(_BoundedStream(opener(plain, path), size), 1 << 16)


def _open_gzip(plain: Any, _path: Path) -> Any:
    return gzip.GzipFile(fileobj=plain)


def _open_zip(plain: Any, path: Path) -> Any:
    try:
        archive = zipfile.ZipFile(plain)
    except zipfile.BadZipFile as error:
        raise OSError(None, "is not a zip archive", str(path)) from error

    names = [name for name in archive.namelist() if not name.endswith("/")]
    if len(names) != 1:
        raise OSError(None, f"holds {len(names)} files; unpack it, and name one", str(path))

    return archive.open(names[0])


_OPENERS = {
    ".bz2": lambda plain, _path: bz2.BZ2File(plain),
    ".xz": lambda plain, _path: lzma.LZMAFile(plain),  # noqa: SIM115 - closed by the stream around it
    ".zip": _open_zip,
}


class _BoundedStream(io.RawIOBase):
    """Stream that raises an error if the decompressed data exceed the limit for a file of `size`
    bytes.
    """

    def __init__(self, inner: Any, size: int) -> None:
        self._inner = inner
        self._size = size
        self._read = 0

    def readable(self) -> bool:
        """Return True, since the stream is always readable."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer. Raises OSError if the file contains too much data or is damaged."""
        try:
            data = self._inner.read(len(buffer))
        except (EOFError, lzma.LZMAError, zipfile.BadZipFile) as error:
            raise OSError(f"is damaged: {error}") from error

        self._read += len(data)
        if self._read > max_bytes(self._size, MAX_TIMES_OF_TEXT):
            raise OSError(too_large(self._read, self._size, MAX_TIMES_OF_TEXT))

        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._inner.close()
        super().close()
