"""Packed tables: what reads them finds the rows that were packed, to three digits and without the
bars' other prices.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.observation.compact import compact_sections, unpack_section
from support.searching import examples

TABLE = {
    "columns": ["stock_id", "status", "open", "high_cny", "close", "volume"],
    "rows": [
        ["600519", "trading", 12.1, 12.4, 12.3456, 1_234_567],
        ["asset_0042", "closed", 1, 2, None, 0],
    ],
}


def packed(value: Any) -> Any:
    return json.loads(compact_sections({"candidates": json.dumps(value)})["candidates"])


def test_a_row_is_a_line_of_three_digits_without_open_high_and_low() -> None:
    assert packed(TABLE) == {
        "columns": "stock_id,status,close,volume",
        "rows": ["600519,trading,12.3,1.23e6", "asset_0042,closed,,0"],
    }


def test_the_price_of_a_cheap_coin_has_three_digits_too() -> None:
    table = {"columns": ["stock_id", "close"], "rows": [["PEPE", 5.12345e-06], ["SHIB", 0.00123]]}
    assert packed(table)["rows"] == ["PEPE,5.12e-6", "SHIB,0.00123"]
    assert [row[1] for row in unpack_section(packed(table))["rows"]] == [5.12e-06, 0.00123]


def test_a_packed_table_reads_as_rows_with_labels_as_text() -> None:
    assert unpack_section(packed(TABLE)) == {
        "columns": ["stock_id", "status", "close", "volume"],
        "rows": [["600519", "trading", 12.3, 1_230_000], ["asset_0042", "closed", None, 0]],
    }


@pytest.mark.exhaustive
@given(
    st.lists(
        st.tuples(
            st.text(min_size=1),
            st.one_of(
                st.none(),
                st.booleans(),
                st.text(),
                st.floats(-1e9, 1e9, allow_nan=False),
                st.integers(-(10**6), 10**6),
            ),
        )
    )
)
@examples(150)
def test_every_cell_is_read_as_it_was_to_three_digits(rows: list[tuple[str, Any]]) -> None:
    table = {"columns": ["stock_id", "cell"], "rows": [list(row) for row in rows]}
    read = unpack_section(packed(table))["rows"]

    assert [label for label, _ in read] == [label for label, _ in rows]

    for (_, cell), (_, was) in zip(read, rows, strict=True):
        if isinstance(was, int | float) and not isinstance(was, bool):
            # render_number writes five decimals at most
            assert cell == pytest.approx(was, rel=0.0051, abs=1e-5)
        else:
            assert cell == was
            assert type(cell) is type(was)


def test_what_counts_stays_exact_and_what_is_no_table_stays_as_it_is() -> None:
    positions = json.dumps({"columns": ["stock_id", "shares"], "rows": [["a", 123456]]})
    sections = {"positions": positions, "candidates": "null", "day": '"day_+1"'}
    assert compact_sections(sections) == sections
