"""Footers of Parquet files from outside, read so that a damaged one is an error.

Arrow ends the whole process where it describes a column whose histograms of levels have another
length than its levels ask for (seen with 26.0). Reading the data refuses such a file in order; the
description does not. So the footer is walked here first, in Thrift's compact protocol.

Sources: the compact protocol of Apache Thrift; `parquet.thrift` of Apache Parquet 2.11.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktdeval.values.files import open_plain

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_TAIL = 8  # bytes at the end: the length of the footer, and the mark of the format
_MARK = b"PAR1"
_DEEPEST = 32  # of structures; a footer has 8
_MOST_NUMBER_BYTES = 10  # of 64 bits, 7 a byte
_TRUTH_VALUES = (1, 2)  # kinds: true, false

# Fields of the structures that are looked at, by their numbers.
_ROW_GROUPS = 4  # of FileMetaData
_COLUMNS = 1  # of RowGroup
_COLUMN_METADATA = 3  # of ColumnChunk
_ENCRYPTION = 8  # of ColumnChunk
_PATH = 3  # of ColumnMetaData
_SIZE_STATISTICS = 16  # of ColumnMetaData
_TEXT_BYTES = 1  # of SizeStatistics
_REPETITION = 2
_DEFINITION = 3


class _DamagedFooter(Exception):
    """Raised where bytes are no structure of the compact protocol."""


@dataclass(frozen=True, slots=True)
class _LevelHistogram:
    """Histogram of the levels of a column: its length, and the highest level."""

    name: str
    length: int
    highest: int


def read_footer(source: Path | pa.Buffer) -> pq.FileMetaData:
    """Return the description of a Parquet file, all of which can be looked at.

    Raises OSError; pa.ArrowException: it is no Parquet, or its footer contradicts itself.
    """
    import pyarrow as pa  # noqa: PLC0415 - takes a moment to import
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    try:
        if isinstance(source, Path):
            with open_plain(source) as stream:
                metadata = pq.read_metadata(stream)
                footer = _footer_of(stream)
        else:
            metadata = pq.read_metadata(pa.BufferReader(source))
            footer = _footer_of(pa.BufferReader(source))

        described = _CompactReader(footer).structure()
        problem = next(_column_problems(described, metadata), None)
    except (_DamagedFooter, UnicodeDecodeError) as error:
        raise pa.ArrowInvalid(f"a footer that can't be read: {error}") from error

    if problem is not None:
        raise pa.ArrowInvalid(problem)

    return metadata


def _footer_of(stream: Any) -> bytes:
    """Return the bytes of the footer; none where they can't be found."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(size - _TAIL, 0))
    tail = stream.read(_TAIL)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MARK or length > size - _TAIL:
        return b""

    stream.seek(size - _TAIL - length)
    data: bytes = stream.read(length)
    return data


def _column_problems(footer: Mapping[int, Any], metadata: pq.FileMetaData) -> Iterator[str]:
    """Yield what is wrong with the descriptions of columns."""
    for group in _structures(footer.get(_ROW_GROUPS)):
        for number, chunk in enumerate(_structures(group.get(_COLUMNS))):
            if number >= metadata.num_columns:
                yield "a row group with more columns than the table"
                return

            yield from _chunk_problems(chunk, metadata.schema.column(number))


def _chunk_problems(chunk: Mapping[int, Any], column: Any) -> Iterator[str]:
    if _ENCRYPTION in chunk:
        yield f"column {column.name} is encrypted"

    described = chunk.get(_COLUMN_METADATA)
    if not isinstance(described, dict):
        return

    for name in _texts_in_list(described.get(_PATH)):
        name.decode()  # as Arrow will, whose error would come from wherever the column is looked at

    sizes = described.get(_SIZE_STATISTICS)
    if not isinstance(sizes, dict):
        return

    if _TEXT_BYTES in sizes and column.physical_type != "BYTE_ARRAY":
        yield f"column {column.name} has no texts, but states their size"

    repetition = _length(sizes.get(_REPETITION))
    definition = _length(sizes.get(_DEFINITION))
    for levels in (
        _LevelHistogram("repetition", repetition, column.max_repetition_level),
        _LevelHistogram("definition", definition, column.max_definition_level),
    ):
        if levels.length not in (0, levels.highest + 1):
            yield (
                f"column {column.name} has a histogram of {levels.length} {levels.name} levels,"
                f" expected {levels.highest + 1}"
            )


def _structures(value: Any) -> list[Mapping[int, Any]]:
    """Return the structures of a list; none where a field is another thing."""
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, dict)]


def _texts_in_list(value: Any) -> list[bytes]:
    """Return the texts of a list; none where a field is another thing."""
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, bytes)]


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


class _CompactReader:
    """Reads structures of the compact protocol: numbers, texts, lists, and maps of field numbers."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0
        self._depth = 0
        self._readers: Mapping[int, Callable[[], Any]] = {
            1: lambda: True,
            2: lambda: False,
            3: self._byte,
            4: self._number,  # of 16 bits
            5: self._number,  # of 32 bits
            6: self._number,  # of 64 bits
            7: lambda: self._bytes(8),  # a fraction
            8: lambda: self._bytes(self._unsigned()),  # a text
            9: self._list,
            10: self._list,  # a set
            11: self._map,
            12: self.structure,
            13: lambda: self._bytes(16),  # a UUID
        }

    def structure(self) -> dict[int, Any]:
        """Read a structure. Raises _Damaged."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _DamagedFooter(f"more than {_DEEPEST} levels")

        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():  # until a byte of 0
            step = head >> 4  # from the last field's number; 0: the number itself follows
            number = number + step if step else self._number()
            fields[number] = self._value(head & 15)

        self._depth -= 1
        return fields

    def _value(self, kind: int) -> Any:
        if kind not in self._readers:
            raise _DamagedFooter(f"a value of kind {kind}")
        return self._readers[kind]()

    def _element(self, kind: int) -> Any:
        """Read a value of a list or map, where also a truth value takes a byte."""
        return self._byte() if kind in _TRUTH_VALUES else self._value(kind)

    def _byte(self) -> int:
        place = self._place
        if place >= len(self._data):
            raise _DamagedFooter("it ends early")

        self._place = place + 1
        return self._data[place]

    def _bytes(self, count: int) -> bytes:
        end = self._place + count
        if end > len(self._data):
            raise _DamagedFooter("it ends early")

        data = self._data[self._place : end]
        self._place = end
        return data

    def _unsigned(self) -> int:
        value = self._byte()
        if value < 128:  # as most are
            return value

        value &= 127
        for place in range(1, _MOST_NUMBER_BYTES):
            byte = self._byte()
            value |= (byte & 127) << (7 * place)
            if byte < 128:
                return value

        raise _DamagedFooter("a number without end")

    def _number(self) -> int:
        """Read a number with a sign, which is its last bit ("zigzag")."""
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)

    def _list(self) -> list[Any]:
        head = self._byte()
        count = head >> 4
        kind = head & 15
        if count == 15:  # or more, which follows
            count = self._unsigned()

        self._check_count(count)
        return [self._element(kind) for _ in range(count)]

    def _map(self) -> list[Any]:
        count = self._unsigned()
        if not count:
            return []

        self._check_count(count)
        kinds = self._byte()
        pairs = []
        for _ in range(count):
            key = self._element(kinds >> 4)
            value = self._element(kinds & 15)
            pairs.append((key, value))

        return pairs

    def _check_count(self, count: int) -> None:
        """Raise _Damaged where more values are announced than there are bytes."""
        if count > len(self._data) - self._place:
            raise _DamagedFooter("it ends early")
