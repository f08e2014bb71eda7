"""Windows of a card, with their trading days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.card_inputs import CardSources, days_of
from ktdeval.cards.fields.fact_types import WindowPart
from ktdeval.cards.fields.recorded_facts import AnyFacts
from ktdeval.cards.table_types import Row, count


def gather_windows(sources: CardSources) -> list[WindowPart]:
    """Return the windows of a plan with all their trading days."""
    return [
        WindowPart(
            name=window.name,
            first=window.first,
            last=window.last,
            days=len(days_of(window, sources.inputs.snapshot)),
        )
        for window in sources.days
    ]


def window_problems(windows: Sequence[WindowPart], facts: AnyFacts) -> Iterator[Problem]:
    """Yield windows without a market, a market without windows, and one that appears twice."""
    if (facts.snapshot is None) == bool(windows):
        yield ("windows",), "stand without a market" if windows else "are missing"

    if len({window.name for window in windows}) < len(windows):
        yield ("windows",), "one appears twice"


def window_rows(windows: Sequence[WindowPart], facts: AnyFacts) -> Iterator[Row]:
    """Yield the row of windows and of the limit; none without either."""
    texts = [f"{window.name} {window.first}…{window.last}" for window in windows]
    spans = ", ".join(texts[:2])
    if len(texts) > 2:
        spans += f" and {len(texts) - 2} more"

    limited = ""
    if facts.limit is not None:
        limited = f"the first {count(facts.limit, facts.STEP)} of each"

    if spans or limited:
        name = "windows" if spans else "episodes"
        yield name, ", ".join(filter(None, (spans, limited)))
