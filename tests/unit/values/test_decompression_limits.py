"""Parquet files that contradict themselves are errors, not ends of the process."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ktdeval.values import open_parquet

"""Repetition `optional` and name `x` of a column in the schema, in Thrift's compact protocol."""


def packed(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="none")
    return stream.getvalue()


OPTIONAL_X = b"\x25\x02\x18\x01x"


def test_a_column_with_a_histogram_of_other_levels_is_refused(tmp_path: Path) -> None:
    """Arrow 26 ends the process where such a chunk of a column is described."""
    data = packed(pa.table({"x": [1, None, 3]}))
    assert data.count(OPTIONAL_X) == 1

    path = tmp_path / "bad.parquet"
    path.write_bytes(data.replace(OPTIONAL_X, b"\x25\x00\x18\x01x"))  # required, of one level

    with pytest.raises(OSError, match="histogram size mismatch"), open_parquet(path) as file:
        file.read()


def test_a_name_that_is_not_text_is_refused() -> None:
    data = packed(pa.table({"x": [1, None, 3]})).replace(b"\x18\x01x", b"\x18\x01\xff")
    with pytest.raises(pa.ArrowInvalid, match="a column name is not text"):
        open_parquet(pa.py_buffer(data))


def test_columns_of_all_kinds_are_read() -> None:
    table = pa.table(
        {
            "text": ["a", None],
            "list": [[1, 2], []],
            "struct": [{"a": 1, "b": ["x"]}, None],
            "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        }
    )
    with open_parquet(pa.py_buffer(packed(table))) as file:
        assert file.read() == table
