"""The cards of a run as one printable value, with colours in a notebook."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.show import card_lines, html_text, plain_text, summary_lines


class Cards(tuple[TradingCard | ScoringCard, ...]):
    """Tuple of cards, ordered by task. Its string form is the output of `ktdeval card show`; a
    notebook shows it in colour.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return plain_text(self._lines()).strip("\n")

    def _repr_html_(self) -> str:
        """Return the same text as HTML for a notebook. All text from cards is escaped."""
        return html_text(self._lines())

    def _lines(self) -> Iterable[Text]:
        if len(self) == 1:
            return card_lines(self[0], whole=False)
        return summary_lines(self)
