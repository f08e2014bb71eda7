"""Live cards as a card kind: how they are displayed, and which of their values contradict each
other.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ktdeval.cards import UNDEFINED, CardKind, Grid, Problem, Report, clean, points, word_grid
from ktdeval_live.publication.publication_evidence import PROVES
from ktdeval_live.results.card_labels import labels_of, wide_words
from ktdeval_live.results.card_types import KIND, SCHEMA_FILE, LiveCard, LiveInterval
from ktdeval_live.results.interval_assumptions import doubts
from ktdeval_live.results.shown_excess import card_excess


def derive_live(card: LiveCard) -> LiveCard:
    """Return a card with its labels recomputed."""
    return msgspec.structs.replace(card, labels=labels_of(card))


def live_problems(card: LiveCard) -> Iterator[Problem]:
    """Yield contradictions in a card that its type does not rule out."""
    days = card.days
    if days.counted + days.shadow != days.settled:
        yield ("days", "settled"), "is not the sum of shadow and counted days"
    if days.decided + sum(days.gaps.values()) != days.counted:
        yield ("days", "counted"), "is not the sum of decided days and gaps"

    results = card.results
    low = results.low.value
    held = results.held.value
    high = results.high.value
    if low is not None and held is not None and high is not None and not low <= held <= high:
        yield ("results", "held"), "lies outside of its bounds"


def _card_report(card: LiveCard) -> Report:
    test = card.test
    return Report(
        title=clean(f"{card.entrant} on {card.market.name} · {test.kind} test {test.name}"),
        labels=tuple(card.labels),
        ranking=clean(_ranking(card)),
        facts=word_grid("", list(_card_facts(card))),
        grids=(_returns_grid(card), _intervals(card)),
        activity=word_grid("Days", list(_day_facts(card))),
        notes=tuple(_card_notes(card)),
    )


def _ranking(card: LiveCard) -> str:
    if can_be_ranked(card):
        return "can be ranked"
    return f"is not ranked: {', '.join(card.labels)}"


def can_be_ranked(card: LiveCard) -> bool:
    """Return whether a board may rank the card."""
    return not {"rehearsal", "inactive", "few days"}.intersection(card.labels)


def _card_facts(card: LiveCard) -> Iterator[tuple[str, str]]:
    yield "model", card.model.name
    yield "agent", card.agent.name
    yield "task", card.task
    yield "days", f"{card.test.first} to {card.test.last}, {card.days.settled} settled so far"
    yield "chain", f"{card.test.links} links, head {card.test.head[:12]}"
    evidence = card.evidence
    words = (
        f"{evidence.publications} publications, {evidence.pushed} pushed, {evidence.stamped} "
        "stamped"
    )
    yield "evidence", f"{evidence.level}: {words}"
    if evidence.authority is not None:
        authority = evidence.authority
        yield "time authority", clean(f"{authority.subject}, SHA-256 {authority.sha256}")
        yield "evidence to who trusts it", evidence.level_if_trusted


def _day_facts(card: LiveCard) -> Iterator[tuple[str, str]]:
    days = card.days
    yield "counted", f"{days.counted}, of which {days.decided} with a decision"
    yield "not counted", f"{days.shadow} at the start"
    gaps = ", ".join(f"{cause} {count}" for cause, count in days.gaps.items())
    yield "gaps", gaps or "none"
    yield "revisions", f"{days.revisions} of the market's data"


def _returns_grid(card: LiveCard) -> Grid:
    results = card.results
    rows = (
        ("held: positions stay on days without a decision", points(results.held.value, "+.2f")),
        ("flat: 0 on days without a decision", points(results.flat.value, "+.2f")),
        ("least that decisions could have had", points(results.low.value, "+.2f")),
        ("greatest", points(results.high.value, "+.2f")),
        ("index", points(results.index.value, "+.2f")),
        ("equal parts of all assets, held", points(results.buy_and_hold.value, "+.2f")),
    )
    return Grid("Total return", ("", "%"), rows)


def _intervals(card: LiveCard) -> Grid:
    results = card.results
    rows = (
        _interval_row(card, "over the index", results.over_index.symmetric),
        _interval_row(card, "over the index, asymptotic", results.over_index.asymptotic),
        _interval_row(card, "over equal parts", results.over_buy_and_hold.symmetric),
        _interval_row(card, "over equal parts, asymptotic", results.over_buy_and_hold.asymptotic),
    )
    columns = ("", "%", "per", "95 % at all times", "days")
    return Grid("Mean excess return", columns, rows)


def _interval_row(card: LiveCard, name: str, interval: LiveInterval) -> tuple[str, ...]:
    shown = card_excess(card, interval)
    days = UNDEFINED if interval.mean is None else str(interval.n)
    return name, shown.mean_text, shown.per, shown.ends_text, days


def _card_notes(card: LiveCard) -> Iterator[str]:
    yield "Intervals are valid at all days together: you may look daily and stop at any time."
    no_year = card_excess(card, card.results.over_buy_and_hold.symmetric).no_year
    if no_year:
        yield f"Excess returns are sums over their days: {no_year}."
    yield from doubts("Over the index", card.results.over_index)
    yield from doubts("Over equal parts", card.results.over_buy_and_hold)
    if card.days.gaps:
        yield "The bounds exclude costs, and extend until the next decision's orders could fill."
    if "wide bounds" in card.labels:
        yield f"{wide_words(card.results)}."
    meaning = PROVES[card.evidence.level]
    yield f"{card.evidence.level}: {meaning}."


LIVE = CardKind(
    name=KIND,
    type=LiveCard,
    schema=SCHEMA_FILE,
    problems=live_problems,
    derive=derive_live,
    report=_card_report,
    content=lambda card: f"days: {card.days.counted}, gaps: {sum(card.days.gaps.values())}",
)
