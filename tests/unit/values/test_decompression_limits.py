"""Parquet files that contradict themselves are errors, not ends of the process."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ktdeval.values import open_parquet

"""Repetition `optional` and name `x` of a column in the schema, in Thrift's compact protocol."""


def packed(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="none")
    return stream.getvalue()


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
