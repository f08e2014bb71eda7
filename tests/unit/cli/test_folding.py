"""Tables and texts that are folded to a terminal: no line is too long, no figure is divided."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from ktdeval.cli.terminal_tables import grid_lines

HEADS = ("model", "n", "mean", "", "verdict")
ROWS = (("builtin/momentum", "10", "-1.25", "%", "tied"), ("openai/m", "10", "+0.50", "%", "tied"))
LEFT = ("model", "verdict")


def test_a_table_that_fits_is_one_table() -> None:
    whole = grid_lines(HEADS, ROWS, LEFT)
    assert grid_lines(HEADS, ROWS, LEFT, width=max(map(len, whole))) == whole


def test_columns_that_do_not_fit_form_a_further_table_with_the_names() -> None:
    assert grid_lines(HEADS, ROWS, LEFT, width=32) == [
        "model              n   mean",
        "builtin/momentum  10  -1.25  %",
        "openai/m          10  +0.50  %",
        "",
        "model             verdict",
        "builtin/momentum  tied",
        "openai/m          tied",
    ]


def test_names_that_leave_no_room_for_a_figure_make_each_row_a_list() -> None:
    assert grid_lines(HEADS, ROWS[:1], LEFT, width=25) == [
        "model    builtin/momentum",
        "n        10",
        "mean     -1.25 %",
        "verdict  tied",
    ]


words = st.text(st.sampled_from("abc中/ "), min_size=1, max_size=30)
figures = st.integers(-(10**9), 10**9).map(str)


@pytest.mark.exhaustive
@given(
    st.lists(st.tuples(words, words, figures, figures, words), min_size=1, max_size=4),
    st.integers(24, 90),
)
def test_at_any_width_no_line_is_longer_and_every_figure_is_whole(
    rows: list[tuple[str, str, str, str, str]], width: int
) -> None:
    heads = ("model", "metric", "shift", "95 % interval", "verdict")
    lines = grid_lines(heads, rows, ("model", "metric", "verdict"), width)

    assert max(map(cell_len, lines)) <= width

    shown = " ".join(lines).split()

    for _, _, shift, interval, _ in rows:
        assert shift in shown
        assert interval in shown
