"""Files that are small on disk and large in memory: how large they may be, found out before they
are read.

Run lengths, dictionaries and compression let 33 kB stand for gigabytes. Real data of a market take
a few times their file, seldom fifty times: `most_bytes` allows 200 times, of packed text 30 times,
and 256 MiB in any case.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktdeval.values.file_signatures import GZIP
from ktdeval.values.files import open_plain
from ktdeval.values.parquet_footer import read_footer
from ktdeval.values.rollback import undone_on_error

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ALWAYS_ALLOWED = 256 << 20
MOST_TIMES = 200
MOST_TIMES_OF_TEXT = 30
MOST_COLUMNS = 20_000

# Bytes of a value in Arrow's memory, by the type in the file. Of a text: of its place alone.
_WIDTHS = {
    "BOOLEAN": 1,
    "INT32": 4,
    "INT64": 8,
    "INT96": 8,  # a time, which Arrow keeps in 64 bits
    "FLOAT": 4,
    "DOUBLE": 8,
    "BYTE_ARRAY": 4,
}
_WIDEST = 16  # of other types: bytes of a fixed length, such as decimals
_TEXT = "BYTE_ARRAY"


def most_bytes(size: int, times: int = MOST_TIMES) -> int:
    """Return how many bytes a file of so many may hold when it is unpacked or decoded."""
    return ALWAYS_ALLOWED + times * size


def too_large(found: int, size: int, times: int = MOST_TIMES) -> str:
    """Say that a file of `size` bytes holds more than it may."""
    return (
        f"{size:,} bytes hold at least {found:,} when they are decoded, and"
        f" {most_bytes(size, times):,} at most are read; write the table without repeated or empty"
        " rows and columns, or in several files"
    )


# ---- Parquet


def open_parquet(
    path: Path, columns: Collection[str] | None = None, **options: Any
) -> pq.ParquetFile:
    """Open a Parquet file of which all columns, or some, are going to be read; `options` are those
    of `pyarrow`. Raises OSError; pa.ArrowException: it is no Parquet, or holds too much.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes a moment to import

    with open_plain(path) as stream:
        size = stream.seek(0, io.SEEK_END)

    metadata = options.pop("metadata", None) or read_footer(path)
    check_parquet(metadata, size, columns)
    coded = options.get("read_dictionary", ())
    file = pq.ParquetFile(path, metadata=metadata, **options)

    with undone_on_error(lambda _: file.close()):
        _check_texts(path, metadata, size, columns, coded)

    return file


def parquet_of(data: pa.Buffer) -> pq.ParquetFile:
    """Open a Parquet file in memory of Arrow's own. Errors as of `open_parquet`."""
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    metadata = read_footer(data)
    check_parquet(metadata, data.size, None)
    _check_texts(pa.BufferReader(data), metadata, data.size, None, ())

    return pq.ParquetFile(pa.BufferReader(data), metadata=metadata)


def check_parquet(metadata: pq.FileMetaData, size: int, columns: Collection[str] | None) -> None:
    """Raise pa.ArrowInvalid where the columns take more memory than a file of `size` bytes may,
    repeated texts left aside.
    """
    import pyarrow as pa  # noqa: PLC0415 - as above

    if metadata.num_columns > MOST_COLUMNS:
        raise pa.ArrowInvalid(
            f"{metadata.num_columns:,} columns; at most {MOST_COLUMNS:,} are read"
        )

    decoded = sum(_fixed_bytes(chunk) for chunk in _chunks(metadata, columns))
    if decoded > most_bytes(size):
        raise pa.ArrowInvalid(too_large(decoded, size))


def _chunks(metadata: pq.FileMetaData, columns: Collection[str] | None) -> Iterator[Any]:
    """Yield the description of each chunk of the columns that are read."""
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        for number in range(rows.num_columns):
            chunk = rows.column(number)
            path = chunk.path_in_schema
            if columns is None or path in columns or path.split(".")[0] in columns:
                yield chunk


def _fixed_bytes(chunk: Any) -> int:
    """Return the bytes of a chunk's numbers, or of its texts' places and different texts."""
    width = _WIDTHS.get(chunk.physical_type, _WIDEST)
    values, unpacked = _stated(chunk)
    return values * width + unpacked


def _stated(chunk: Any) -> tuple[int, int]:
    """Return how many values a chunk states, and of how many bytes in the file, unpacked. A false
    footer may state less than none, which would make up for another chunk.
    """
    return max(int(chunk.num_values), 0), max(int(chunk.total_uncompressed_size), 0)


def _check_texts(
    source: Any,
    metadata: pq.FileMetaData,
    size: int,
    columns: Collection[str] | None,
    coded: Collection[str],
) -> None:
    """Raise pa.ArrowInvalid where texts that stand once in a dictionary take too much memory when
    each row has its own.
    """
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    found: set[str] = set()
    most = 0
    for chunk in _chunks(metadata, columns):
        path = chunk.path_in_schema
        if chunk.physical_type == _TEXT and path not in coded:
            found.add(path)
            values, unpacked = _stated(chunk)
            most += values * unpacked

    # No text is longer than all of a chunk's: with few rows, nothing has to be read to know enough.
    if most <= ALWAYS_ALLOWED:
        return

    # Read as dictionaries, each text is in memory once.
    paths = sorted(found)
    decoded = 0
    with pq.ParquetFile(source, metadata=metadata, read_dictionary=paths) as file:
        for group in range(metadata.num_row_groups):
            for path in paths:
                table = file.read_row_group(group, columns=[path], use_threads=False)
                for column in table.columns:
                    decoded += sum(map(_text_bytes, column.chunks))

                if decoded > most_bytes(size):
                    raise pa.ArrowInvalid(too_large(decoded, size))


def _text_bytes(array: Any) -> int:
    """Return the bytes of the texts in an array, each as often as it stands there."""
    import numpy as np  # noqa: PLC0415 - as above
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    kind = array.type
    if pa.types.is_struct(kind):
        return sum(_text_bytes(array.field(number)) for number in range(kind.num_fields))
    if pa.types.is_map(kind):
        return _text_bytes(array.keys) + _text_bytes(array.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _text_bytes(array.values)
    if not pa.types.is_dictionary(kind):
        return 0

    lengths = pc.binary_length(array.dictionary).to_numpy(zero_copy_only=False)
    if not len(lengths):  # all rows are null
        return 0

    places = array.indices.drop_null().to_numpy()
    counts = np.bincount(places, minlength=len(lengths))
    return int(counts @ lengths.astype(np.int64))


# ---- packed text


def open_unpacked(path: Path) -> io.BufferedReader:
    """Open a file for reading, unpacked where its name ends in .bz2, .xz or .zip, or where its
    first bytes are those of gzip: browsers unpack such files and keep their names. Raises OSError:
    it can't be read; reading raises it where more comes out than a file of its size may hold.
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
    """Stream that ends with an error where more comes out of a file than one of `size` bytes may
    hold.
    """

    def __init__(self, inner: Any, size: int) -> None:
        self._inner = inner
        self._size = size
        self._read = 0

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer. Raises OSError: it holds too much, or is damaged."""
        try:
            data = self._inner.read(len(buffer))
        except (EOFError, lzma.LZMAError, zipfile.BadZipFile) as error:
            raise OSError(f"is damaged: {error}") from error

        self._read += len(data)
        if self._read > most_bytes(self._size, MOST_TIMES_OF_TEXT):
            raise OSError(too_large(self._read, self._size, MOST_TIMES_OF_TEXT))

        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Release the file."""
        self._inner.close()
        super().close()
