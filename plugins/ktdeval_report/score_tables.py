"""Tables for scoring cards on the page: scores of each card, scores by group, and failure modes of
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypedDict

from ktdeval.cards import ScoreLine, ScoringCard, System, is_fraction, system_labels, tally
from ktdeval.values import JsonValue
from ktdeval_report.canvas import PageFigure, Plot
from ktdeval_report.forest_plot import ForestPoint, forest_plot
from ktdeval_report.value_formatting import UNDEFINED, PageTable, figure, span, unbroken, unit_name


class ScoreView(TypedDict):
    """Tables for a task, as read by the page's template."""

    task: str
    figures: list[PageFigure]  #: plot of the first headline score, if several cards have it
    tables: list[PageTable]


AddPlots = Callable[[str, Sequence[Plot], Sequence[ScoringCard]], list[PageFigure]]
"""Adds plots of some cards to a page, `(folder, plots, cards)`, and returns them as figures of the
page.
"""


def score_views(cards: Sequence[ScoringCard], add: AddPlots) -> list[ScoreView]:
    """Return the plot and the tables for each task."""
    tasks: dict[str, list[ScoringCard]] = {}
    for card in cards:
        tasks.setdefault(card.task.name, []).append(card)

    return [
        ScoreView(
            task=task,
            figures=add(f"scores-{task}", _plots(own), own),
            tables=list(_task_tables(task, own)),
        )
        for task, own in tasks.items()
    ]


def _plots(cards: Sequence[ScoringCard]) -> list[Plot]:
    """Return a plot of the first headline score, best card first; empty for a single card."""
    first = cards[0]
    names = [name for name in first.score_order if first.scores[name].headline]
    if len(cards) == 1 or not names:
        return []

    name = names[0]
    points = []
    for label, card in zip(_labels(cards), cards, strict=True):
        line = card.scores.get(name)
        if line is not None and line.value is not None:
            interval = line.interval
            low = None if interval is None else interval.low
            high = None if interval is None else interval.high
            points.append(ForestPoint(label, line.value, low, high))

    if not points:
        return []

    best_first = first.scores[name].better != "lower"
    points.sort(key=lambda point: point.value or 0.0, reverse=best_first)
    scale = 100.0 if is_fraction(first.scores[name].unit) else 1.0
    title = f"{first.task.name}: {name} of each card, with 95 % interval"
    return [forest_plot(name, title, _head(first, name), points, scale, signed=False)]


def _task_tables(task: str, cards: Sequence[ScoringCard]) -> Iterator[PageTable]:
    first = cards[0]
    labels = _labels(cards)
    names = [name for name in first.score_order if first.scores[name].headline]
    yield _score_table(task, names, labels, cards)

    if names:
        yield from _by_group(task, names[0], labels, cards)
        yield from _failure_table(task, names[0], labels, cards)


def _score_table(
    task: str, names: Sequence[str], labels: Sequence[str], cards: Sequence[ScoringCard]
) -> PageTable:
    rows: list[list[object]] = []
    for label, card in zip(labels, cards, strict=True):
        cells = [_score_cell(card.scores.get(name)) for name in names]
        rows.append([label, *cells, _describe_answered(card), card.what_failed])

    score_heads = [_head(cards[0], name) for name in names]
    heads = ["card", *score_heads, "answered", "failures and repairs"]
    return PageTable(f"{task}: scores of each card, with 95 % interval", heads, rows)


def _by_group(
    task: str, name: str, labels: Sequence[str], cards: Sequence[ScoringCard]
) -> Iterator[PageTable]:
    """Yield a table for each grouping of the samples."""
    for key in cards[0].scores[name].detail:
        if not key.startswith("by_"):
            continue

        groups: set[str] = set()
        for card in cards:
            groups |= _object_or_empty(card.scores[name].detail.get(key)).keys()

        rows: list[list[object]] = []
        for group in sorted(groups):
            cells = [_group(name, card, key, group) for card in cards]
            rows.append([group, *cells])

        kind = key.removeprefix("by_")
        caption = f"{task}: {_head(cards[0], name)} by {kind}, and how many samples"
        yield PageTable(caption, [kind, *labels], rows)


def _failure_table(
    task: str, name: str, labels: Sequence[str], cards: Sequence[ScoringCard]
) -> Iterator[PageTable]:
    """Yield a table of failure modes, if any card has failures."""
    rows: list[list[object]] = []
    for label, card in zip(labels, cards, strict=True):
        modes = card.scores[name].detail.get("failure_modes")
        if modes is not None:
            rows.append([label, tally(modes)])

    if rows:
        heads = ["card", "failures, most frequent first"]
        yield PageTable(f"{task}: how answers fail", heads, rows, words=2)


def _labels(cards: Sequence[ScoringCard]) -> list[str]:
    """Return names for the cards of a task, based on their systems. Several cards of the same
    system are numbered. If only some cards have a synthetic market, their names say so.
    """
    systems = system_labels(map(System.of, cards))
    has_both_kinds = len({"synthetic" in card.labels for card in cards}) > 1
    names = []
    for card in cards:
        name = systems[System.of(card)]
        if has_both_kinds and "synthetic" in card.labels:
            name += ", synthetic"
        names.append(name)

    labels = []
    for index, name in enumerate(names):
        if names.count(name) == 1:
            labels.append(name)
            continue

        number = names[:index].count(name) + 1
        labels.append(f"{name} ({number})")

    return labels


def _head(card: ScoringCard, name: str) -> str:
    unit = unit_name(card.scores[name].unit)
    return f"{name}, {unit}" if unit else name


def _score_cell(line: ScoreLine | None) -> object:
    if line is None or line.value is None:
        return UNDEFINED

    text = figure(line.value, line.unit)
    if line.interval is not None:
        text += f" [{span(line.interval.low, line.interval.high, line.unit)}]"

    return unbroken(text)


def _group(name: str, card: ScoringCard, key: str, group: str) -> str:
    """Return a card's figure for a group of samples, with the size of the group."""
    groups = _object_or_empty(card.scores[name].detail.get(key))
    if group not in groups:
        return UNDEFINED

    entry = _object_or_empty(groups[group])
    value = entry.get(name, entry.get("value"))
    assert value is None or isinstance(value, int | float)  # figure of the group
    return f"{figure(value, card.scores[name].unit)} ({entry['n']})"


def _object_or_empty(value: JsonValue) -> Mapping[str, JsonValue]:
    """Return a JSON object; empty if the value is absent."""
    return value if isinstance(value, Mapping) else {}


def _describe_answered(card: ScoringCard) -> str:
    answered = sum(episode.answered for episode in card.episodes)
    asked = sum(episode.steps for episode in card.episodes)
    return f"{answered:,} of {asked:,}"
