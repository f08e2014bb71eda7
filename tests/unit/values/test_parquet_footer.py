"""A Parquet file whose footer contradicts itself is an error, where Arrow would end the process."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ktdeval.values import open_parquet, read_footer

OPTIONAL_X = b"\x25\x02\x18\x01x"
"""Repetition `optional` and name `x` of a column in the schema, in Thrift's compact protocol."""


def packed(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="none")
    return stream.getvalue()


def test_a_column_with_a_histogram_of_other_levels_than_its_own_is_refused(tmp_path: Path) -> None:
    data = packed(pa.table({"x": [1, None, 3]}))
    assert data.count(OPTIONAL_X) == 1

    path = tmp_path / "bad.parquet"
    path.write_bytes(data.replace(OPTIONAL_X, b"\x25\x00\x18\x01x"))  # required, of one level

    with pytest.raises(pa.ArrowInvalid, match="histogram of 2 definition levels, expected 1"):
        open_parquet(path)


def test_a_name_that_is_not_text_is_refused() -> None:
    data = packed(pa.table({"x": [1, None, 3]})).replace(b"\x18\x01x", b"\x18\x01\xff")
    with pytest.raises(pa.ArrowInvalid, match="footer that can't be read"):
        read_footer(pa.py_buffer(data))


def test_a_footer_of_all_kinds_of_columns_is_read() -> None:
    table = pa.table(
        {
            "text": ["a", None],
            "list": [[1, 2], []],
            "struct": [{"a": 1, "b": ["x"]}, None],
            "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        }
    )
    metadata = read_footer(pa.py_buffer(packed(table)))

    assert metadata.num_columns == 6
    assert metadata.row_group(0).column(0).num_values == 2


def test_a_field_of_later_versions_is_passed_over() -> None:
    data = packed(pa.table({"x": [1, None, 3]}))
    place = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[place:-8]
    truths = b"\x0b\x90\x03\x02\x51\x02\x01\x04\x02"  # field 200: a map {1: true, 2: false}
    later = footer[:-1] + truths + footer[-1:]
    changed = data[:place] + later + len(later).to_bytes(4, "little") + b"PAR1"

    assert read_footer(pa.py_buffer(changed)).num_rows == 3
