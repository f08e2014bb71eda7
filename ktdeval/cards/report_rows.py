"""Report of a card: its rows come from its fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktdeval.cards.assembly import AnyCard, card_rows
from ktdeval.cards.fields.cost import uncounted_tokens as unpaid_words
from ktdeval.cards.fields.episodes import missing_notes
from ktdeval.cards.fields.words import label_word
from ktdeval.cards.table_types import Grid, Report, clean, word_grid


def assemble_report(card: AnyCard, grids: tuple[Grid, ...], notes: Iterable[str]) -> Report:
    """Return the report of a card, with these tables of figures."""
    return Report(
        title=clean(f"{card.task.name} · {card.model.name}"),
        labels=tuple(map(label_word, card.labels)),
        ranking=clean(card.rankable.words),
        facts=word_grid("", card_rows(card, "run")),
        grids=grids,
        activity=word_grid("Activity", card_rows(card, "activity")),
        notes=tuple(map(clean, notes)),
    )


def uncounted_tokens(card: AnyCard) -> str:
    """Return why a card's cost is less than what was paid: the price is known, the amount is not;
    empty if all tokens were counted.
    """
    return unpaid_words(card, card.cost)


def absence_notes(card: AnyCard, *fields: str) -> Iterator[str]:
    """Yield a line for each planned episode that did not finish, and for each of these fields that
    the card does not have.
    """
    yield from missing_notes(card.missing_episodes)

    # A model of this machine has no provider that could change it.
    asked = () if card.provenance.calls is None else ("drift",)
    for name in (*fields, *asked):
        part = getattr(card, name)
        if part.value is None:
            yield f"no {name}: {part.reason}"
