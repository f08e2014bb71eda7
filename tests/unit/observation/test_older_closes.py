"""Older bars set apart from a history read as the rows that they were, and take fewer characters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.observation.compact import unpack_section
from ktdeval.observation.older_closes import older_apart, with_older_apart
from ktdeval.observation.state import ObservedState
from support.searching import examples

COLUMNS = ["stock_id", "day", "open", "close", "volume"]
ROWS = [
    ["a", "day_-2", None, 9.5, None],
    ["a", "day_-1", None, 9.75, None],
    ["a", "day_+0", 9.7, 10, 2.25e6],
    ["b", "day_-2", None, 4, None],
    ["b", "day_-1", None, 4.5, None],
    ["b", "day_+0", 4.4, 5, 1200],
]
HISTORY = {"columns": COLUMNS, "rows": ROWS}


def test_assets_that_traded_on_the_same_days_share_their_list() -> None:
    assert older_apart(HISTORY) == {
        "columns": COLUMNS,
        "rows": [ROWS[2], ROWS[5]],
        "earlier": [
            {"days": ["day_-2", "day_-1"], "closes": {"a": [9.5, 9.75], "b": [4, 4.5]}},
        ],
    }


def test_a_state_shows_them_apart_and_reads_them_as_bars() -> None:
    state = ObservedState(with_older_apart({"history": json.dumps(HISTORY), "day": '"day_+0"'}))
    assert '"volume"],"rows":[["a","day_+0",9.7,10,2.25e6]' in state.text
    assert [bar.close for bar in state.history["b"]] == [4, 4.5, 5]
    assert [bar.high for bar in state.history["b"]] == [None, None, None]
    assert state.values["history"] == HISTORY


@pytest.mark.parametrize(
    "history",
    [
        {"columns": ["stock_id", "day", "close"], "rows": [["a", "d1", 1.0], ["a", "d2", 2.0]]},
        {"columns": COLUMNS, "rows": []},
        {"columns": COLUMNS, "rows": [["a", "d1", None, 1.0, None]]},
        {"columns": COLUMNS, "rows": [["a", "d1", 1, 1, 1], ["a", "d2", None, 2, None]]},
    ],
)
def test_a_market_of_closes_and_the_last_row_of_an_asset_stay_rows(history: Any) -> None:
    assert older_apart(history) is history


CELL = st.none() | st.integers(0, 9)
DAYS = st.lists(st.tuples(CELL, CELL, CELL), max_size=5)


@given(st.lists(DAYS, max_size=4))
@examples(60)
def test_every_history_reads_as_its_rows(assets: list[list[tuple[Any, ...]]]) -> None:
    rows = [
        [f"asset_{asset}", f"day_+{day}", *cells]
        for asset, days in enumerate(assets)
        for day, cells in enumerate(days)
    ]
    history = {"columns": COLUMNS, "rows": rows}
    assert unpack_section(older_apart(history)) == history


@pytest.mark.parametrize(
    "value",
    [
        {"columns": COLUMNS, "rows": [], "earlier": 3},
        {"columns": COLUMNS, "rows": [], "earlier": [3]},
        {"columns": COLUMNS, "rows": [], "earlier": [{"days": ["d"], "closes": {"a": []}}]},
        {"columns": COLUMNS, "rows": [], "earlier": [{"days": None, "closes": {"a": [1]}}]},
        {"columns": ["day"], "rows": [], "earlier": []},
        {"earlier": [{"days": ["d"], "closes": {"a": [1]}}]},
    ],
)
def test_a_strangers_value_that_only_has_the_word_stays_as_it_is(value: Any) -> None:
    assert unpack_section(value) == value
