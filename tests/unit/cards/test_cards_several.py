"""Cards of a run print as a table, in a notebook as HTML in which a stranger's words stay words."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from ktdeval.cards.card_list import Cards
from support.figures.card_cases import typed
from support.figures.compare_cards import make_card

EVIL = "<img src=x onerror=alert(1)>\"'&"
FIGURES = {("A1", 0): 0.10, ("A2", 0): 0.20}


class Elements(HTMLParser):
    """Names of all elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.depth = 0
        self.feed(text)

        assert self.depth == 0, "each element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1


def words(html: str) -> list[str]:
    return re.sub(r"<[^>]*>", "", html).split()


def test_several_cards_are_a_row_each_with_what_they_say_of_ranking() -> None:
    bright = typed(make_card(FIGURES, mask="bright"))
    blinded = typed(make_card({("A1", 0): 0.02, ("A2", 0): 0.04}))
    cards = Cards([bright, blinded])

    assert cards == (bright, blinded), "a tuple as before"

    first, *_ = (line for line in repr(cards).splitlines() if "bright_open_research" in line)
    assert "+15.00" in first

    html = cards._repr_html_()
    assert words(html) == repr(cards).split()
    assert Elements(html).names == {"pre", "span"}


def test_one_card_is_its_panel_and_its_words_are_escaped() -> None:
    card = make_card(FIGURES, model=EVIL)
    card["task"]["name"] = EVIL
    cards = Cards([typed(card)])

    assert "total_return" in repr(cards)

    html = cards._repr_html_()
    assert "+15.00" in words(html)
    assert "onerror" in html
    assert "img" not in Elements(html).names
    assert repr(Cards()) == ""
