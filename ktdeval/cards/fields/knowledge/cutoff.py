"""Knowledge cutoff: the end of a model's training data, and which days of a card fall before,
across and after the cutoff.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import structs

from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.card_inputs import CardSources
from ktdeval.cards.fields.knowledge.listed_cutoffs import listed_cutoff, parse_cutoff
from ktdeval.cards.fields.origin.fact_types import (
    LOWER_BOUND,
    SIDES,
    CutoffEntry,
    KnowledgeCutoff,
    NoCutoff,
    Side,
    SideDays,
    WindowPart,
)
from ktdeval.cards.fields.origin.recorded_facts import AnyFacts, Evaluation, TradingFacts
from ktdeval.errors import UsageError
from ktdeval.market.snapshots.snapshot import DayArray, MarketSnapshot

SPANS, SEEN = "spans cutoff", "before cutoff"
"""Labels of a card with windows on both sides of the cutoff, and of a card with all windows before
it.
"""


STATES: Mapping[NoCutoff, str] = {
    "none": "none: nothing was trained",
    "unknown": "unknown: the end of its training data is not known",
}
"""Words for a model without an end of training data."""


# ---- gathered from the models and the market


def latest_cutoff(cutoffs: Sequence[CutoffEntry | NoCutoff]) -> CutoffEntry | NoCutoff:
    """Return the joint cutoff of several models: the latest cutoff, or unknown if any of them is
    unknown. If any cutoff is a lower bound, the result is a lower bound too.
    """
    if "unknown" in cutoffs:
        return "unknown"

    entries = [entry for entry in cutoffs if isinstance(entry, CutoffEntry)]
    if not entries:
        return "none"

    latest = max(entries, key=lambda entry: entry.last)
    bounds = [entry for entry in entries if entry.is_lower_bound]
    if not bounds or latest in bounds:
        return latest

    source = f"{latest.source}; {bounds[0].source}"
    return structs.replace(latest, confidence=LOWER_BOUND, source=source)


def sides(days: DayArray, base: np.datetime64, cutoff: CutoffEntry) -> list[Side]:
    """Return the side [n] of each day's return relative to the cutoff. A return runs from the
    previous day's close (`base` for the first day) to the day's own close.

    - `before`: the return ends by the cutoff
    - `after`: the return begins at or after the cutoff
    - `across`: the return contains or may contain the cutoff, as on every day after a lower bound
    """
    begins = np.concatenate([[base], days[:-1]])
    first = cutoff.first
    last = cutoff.last
    day_sides: list[Side] = []
    for begin, day in zip(begins, days, strict=True):
        if day <= first:
            day_sides.append("before")
        elif begin >= last and not cutoff.is_lower_bound:
            day_sides.append("after")
        else:
            day_sides.append("across")

    return day_sides


def gather_cutoff(sources: CardSources) -> KnowledgeCutoff | NoCutoff:
    """Return a card's cutoff. If the cutoff has a date, also return the number of days on each side
    of it, by window.
    """
    entry = sources.inputs.knowledge_cutoff
    if isinstance(entry, str):
        return entry

    parse_cutoff(entry.date, where="knowledge_cutoff")
    windows = {}
    for window, days in sources.days.items():
        windows[window.name] = _count_sides(days, sources.inputs.snapshot, entry)

    return KnowledgeCutoff(
        date=entry.date, confidence=entry.confidence, source=entry.source, windows=windows
    )


def _count_sides(days: DayArray, snapshot: MarketSnapshot | None, cutoff: CutoffEntry) -> SideDays:
    if not len(days):
        return SideDays(before=0, across=0, after=0)

    base = days[0]
    if snapshot is not None:
        earlier = snapshot.days[snapshot.days < days[0]]
        base = earlier[-1] if len(earlier) else days[0]

    day_sides = sides(days, base, cutoff)
    return SideDays(**{side: day_sides.count(side) for side in SIDES})


# ---- derived


def recorded_cutoff(card: Evaluation) -> KnowledgeCutoff | None:
    """Return the cutoff that a card records; None if the model was not trained or its cutoff is not
    known.
    """
    return card.knowledge_cutoff if isinstance(card.knowledge_cutoff, KnowledgeCutoff) else None


def card_cutoff(card: Evaluation) -> CutoffEntry | NoCutoff:
    """Return the cutoff recorded on a card; if unknown there, the cutoff listed for its model."""
    block = card.knowledge_cutoff
    if block != "unknown" or card.further_models:
        return block

    return listed_cutoff(card.model.name, card.model.args)


def cutoff_labels(block: KnowledgeCutoff | NoCutoff) -> dict[str, bool]:
    """Return the labels that say on which side of the cutoff a card's windows lie, and whether each
    label applies.
    """
    classes: set[Side] = set()
    if isinstance(block, KnowledgeCutoff):
        classes = {days.side for days in block.windows.values()}
    return {SEEN: classes == {"before"}, SPANS: "across" in classes or len(classes) > 1}


# ---- checks


def cutoff_problems(block: KnowledgeCutoff | NoCutoff, facts: AnyFacts) -> Iterator[Problem]:
    """Yield contradictions between a card's cutoff and its windows. Only the market knows the
    trading days.
    """
    if not isinstance(block, KnowledgeCutoff):
        return

    try:
        parse_cutoff(block.date)
    except UsageError as error:
        yield ("knowledge_cutoff", "date"), str(error).removeprefix("--cutoff: ")
        return

    if set(block.windows) != {window.name for window in facts.windows}:
        yield ("knowledge_cutoff", "windows"), "are not the windows of the card"
        return

    limit = None
    if isinstance(facts, TradingFacts):  # a limit truncates samples, not days
        limit = facts.limit

    for window in facts.windows:
        days = block.windows[window.name]
        where = ("knowledge_cutoff", "windows", window.name)
        total = min(window.days, limit or window.days)
        if days.total != total:
            cut = "no limit" if limit is None else f"the limit {limit}"
            yield where, f"do not add up to the {total} days of the window with {cut}"
        elif _is_on_another_side(window, days, block):
            yield where, f"its days lie on other sides of {block.date}"


def _is_on_another_side(window: WindowPart, days: SideDays, cutoff: CutoffEntry) -> bool:
    """Return whether a window lies wholly on one side of the cutoff although its days are counted
    on another side. The first return after the cutoff may begin before the cutoff.
    """
    if window.last <= str(cutoff.first):
        return days.before != days.total
    if cutoff.is_lower_bound:
        return days.after > 0
    return window.first > str(cutoff.last) and days.after < days.total - 1


# ---- wording


def cutoff_words(card: Evaluation) -> str:
    """Return a description of the model's cutoff and on which side of it the days fall. If a card
    has no dated cutoff, say whether the model was not trained or its cutoff is unknown.
    """
    block = card.knowledge_cutoff
    if isinstance(block, KnowledgeCutoff):
        return _block_words(block)

    listed = card_cutoff(card)
    if block == "unknown" and isinstance(listed, CutoffEntry):
        return f"{STATES[block]}; the list has {listed.date} ({_origin(listed)})"

    return STATES[block]


def _block_words(block: KnowledgeCutoff) -> str:
    words = f"{block.date} ({_origin(block)})"
    if not block.windows:
        return words

    counts = []
    for side in SIDES:
        total = sum(getattr(days, side) for days in block.windows.values())
        counts.append(f"{total:,} {side}")

    return f"{words}; days: {', '.join(counts)}; windows {_windows_by_side(block)}"


def _origin(cutoff: CutoffEntry) -> str:
    """Return how the end of a model's training data is known, and the source."""
    confidence: str = cutoff.confidence
    if confidence == LOWER_BOUND:
        confidence = "reported, lower bound"
    return f"{confidence}: {cutoff.source}"


def window_words(card: Evaluation) -> str:
    """Return the windows of a card that records a cutoff, grouped by side: `before W1, W2; across
    W3`.
    """
    block = recorded_cutoff(card)
    return "" if block is None else _windows_by_side(block)


def _windows_by_side(block: KnowledgeCutoff) -> str:
    texts = []
    for side in SIDES:
        names = [name for name, days in block.windows.items() if days.side == side]
        if names:
            texts.append(f"{side} {', '.join(names)}")

    return "; ".join(texts)
