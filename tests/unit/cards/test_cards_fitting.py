"""Cards on a narrow terminal: wide tables become several, and no word or figure is lost."""

from __future__ import annotations

from collections import Counter

import pytest
from rich.cells import cell_len

from ktdeval.cards.narrow_tables import column_widths, fit_grid
from ktdeval.cards.show import card_lines, plain_text, side_by_side, summary_lines
from ktdeval.cards.table_types import Grid
from support.figures.card_cases import card, typed
from support.figures.compare_cards import make_card

WIDE = Grid(
    "title",
    ("name", "first of three", "second", "third"),
    (("heading",), ("a", "1.0", "22.0", "333.0"), ("b", "-", "4.0", "5.0")),
)
TEXT = "one two three four five six seven"
WORDS = Grid("facts", ("", ""), (("task", TEXT), ("", "eight"), ("mask", "six")), left=2)

#: The head of a column that has no figure on this card
EMPTY_HEAD = Counter(["95", "%", "interval"])


def test_columns_that_do_not_fit_are_a_table_below_with_the_names_again() -> None:
    assert fit_grid(WIDE, 80) == [WIDE]

    first, second = fit_grid(WIDE, 24)
    assert (first.title, second.title) == ("title", "")
    assert first.columns == ("name", "first\nof\nthree", "second")
    assert first.rows == (("heading",), ("a", "1.0", "22.0"), ("b", "-", "4.0"))
    assert (second.columns, second.rows[1]) == (("name", "third"), ("a", "333.0"))
    assert column_widths(first) == [4, 5, 6]

    empty = Grid("", ("name", "value", "no figure at all"), (("a", "1", ""), ("b", "2", "")))
    assert [grid.columns for grid in fit_grid(empty, 12)] == [("name", "value")]
    # One column stays beside its name, however narrow the terminal is.
    assert [len(grid.columns) for grid in fit_grid(WIDE, 1)] == [2, 2, 2]


def test_texts_are_wrapped_anew() -> None:
    (narrow,) = fit_grid(WORDS, 28)
    assert narrow.rows == (
        ("task", "one two three four"),
        ("", "five six seven eight"),
        ("mask", "six"),
    )


def test_wide_characters_take_two_columns_of_a_text() -> None:
    wide = Grid("facts", ("", ""), (("index", "日経 平均 株価 指数 東京 証券"),), left=2)
    (narrow,) = fit_grid(wide, 28)
    assert narrow.rows == (("index", "日経 平均 株価 指数"), ("", "東京 証券"))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_line_of_cards_fits_and_no_word_is_lost(width: int) -> None:
    one = typed(card())
    several = [typed(make_card({("A1", 0): 0.1}, f"house/{name}")) for name in ("one", "two")]
    made = (
        (plain_text(card_lines(one)), plain_text(card_lines(one, width=width))),
        (plain_text(side_by_side(several)), plain_text(side_by_side(several, width))),
        (plain_text(summary_lines(several)), plain_text(summary_lines(several, width))),
    )

    for whole, narrow in made:
        assert max(map(cell_len, narrow.splitlines())) <= width
        lost = Counter(whole.split()) - Counter(narrow.split())
        assert set(lost) <= set(EMPTY_HEAD)
