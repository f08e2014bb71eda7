"""Tables of scoring tasks: the scores of each card, and what makes them up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ktdeval.cards import ScoreLine, ScoringCard, tally
from ktdeval_report.render import UNDEFINED, Table, figure, span, unbroken, unit_name


def score_views(cards: Sequence[ScoringCard]) -> list[dict[str, Any]]:
    """Tables of each task, as the page's template takes them."""
    tasks: dict[str, list[ScoringCard]] = {}
    for card in cards:
        tasks.setdefault(card.task.name, []).append(card)
    return [{"task": task, "tables": list(_tables(task, found))} for task, found in tasks.items()]


def _tables(task: str, cards: Sequence[ScoringCard]) -> Iterator[Table]:
    first, names = cards[0], [name for name in cards[0].score_order if cards[0].scores[name].headline]
    rows = [[_name(card), *(_cell(card.scores.get(name)) for name in names), _answered(card)] for card in cards]
    heads = ["card", *(_head(first, name) for name in names), "answered"]
    yield Table(f"{task}: scores of each card, with 95 % interval", heads, rows)
    details = [card.scores[names[0]].detail if names else {} for card in cards]
    for key in (key for key in details[0] if key.startswith("by_")):
        groups = sorted({group for detail in details for group in detail.get(key, {})})
        rows = [[group, *(_group(names[0], card, key, group) for card in cards)] for group in groups]
        kind = key.removeprefix("by_")
        yield Table(f"{task}: {_head(first, names[0])} by {kind}, and how many samples", [kind, *map(_name, cards)], rows)
    modes = [[_name(card), tally(detail["failure_modes"])] for card, detail in zip(cards, details) if "failure_modes" in detail]
    if modes:
        yield Table(f"{task}: how answers fail", ["card", "failures, most frequent first"], modes, words=2)


def _name(card: ScoringCard) -> str:
    return f"{card.model.name} · {card.agent.name}"


def _head(card: ScoringCard, name: str) -> str:
    unit = unit_name(card.scores[name].unit)
    return f"{name}, {unit}" if unit else name


def _cell(line: ScoreLine | None) -> object:
    if line is None or line.value is None:
        return UNDEFINED
    interval = "" if line.interval is None else f" [{span(line.interval.low, line.interval.high, line.unit)}]"
    return unbroken(f"{figure(line.value, line.unit)}{interval}")


def _group(name: str, card: ScoringCard, key: str, group: str) -> str:
    found = card.scores[name].detail.get(key, {}).get(group)
    return UNDEFINED if found is None else f"{figure(found.get(name, found.get('value')), card.scores[name].unit)} ({found['n']})"


def _answered(card: ScoringCard) -> str:
    return f"{sum(one.answered for one in card.episodes):,} of {sum(one.steps for one in card.episodes):,}"
