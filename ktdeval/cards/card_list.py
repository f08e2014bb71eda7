"""A run's cards as a value that prints itself, in colour in a notebook."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.show import card_lines, html_text, plain_text, summary_lines


class Cards(tuple[TradingCard | ScoringCard, ...]):
    """Cards in the order of their tasks: a tuple whose text form is the output of `ktdeval card
    show`, in colour in a notebook.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return plain_text(self._lines()).strip("\n")

    def _repr_html_(self) -> str:
        """Return the same text as HTML for a notebook; all text from cards is escaped."""
        return html_text(self._lines())

    def _lines(self) -> Iterable[Text]:
        if len(self) == 1:
            return card_lines(self[0], whole=False)
        return summary_lines(self)
