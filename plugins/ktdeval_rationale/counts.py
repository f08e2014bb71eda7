"""Counting mentions: which categories each reason and each step of an episode names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ktdeval.contracts import EpisodeSpec
from ktdeval.jsonio import dumps_canonical
from ktdeval_rationale.linter import LEAK_CATEGORIES, LEAKS_REMOVED_BY, Mention, RationaleLinter
from ktdeval_rationale.texts import REASONS, StepTexts, Text

ANY = "any"
GROUPS: Mapping[str, frozenset[str]] = {
    "stock": frozenset(LEAKS_REMOVED_BY["stock"]),
    "calendar": frozenset(LEAKS_REMOVED_BY["date"]),
    ANY: frozenset(LEAK_CATEGORIES),
}
"""Rows that stand for several categories: what hiding the stock should remove, what hiding the date should, and everything."""

ROWS: tuple[str, ...] = (*LEAK_CATEGORIES, *GROUPS)
"""Rows of every table, in order."""

_REMEMBERED = 1 << 14


@dataclass(frozen=True)
class Example:
    """A mention with its surroundings."""

    mention: Mention
    context: tuple[str, str]
    source: str
    step: int
    decided_on: str  #: ISO day of the decision
    was_sent: bool  #: whether its characters stand in what the model had been sent in that step


@dataclass
class EpisodeCounts:
    """Mentions in one episode."""

    spec: EpisodeSpec
    span: tuple[str, str] = ("", "")  #: first and last day decided on
    reasons: int = 0  #: reasons that are not empty
    steps: int = 0  #: steps with a text of any source
    reasons_with: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROWS, 0))  #: row -> reasons that name it
    steps_with: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROWS, 0))  #: row -> steps that name it, in any text
    #: row -> steps that name something of it whose characters the model had not been sent in that step
    unsent_with: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROWS, 0))
    #: source -> row -> texts that name it; row `texts` counts the texts
    by_source: dict[str, dict[str, int]] = field(default_factory=dict)
    examples: dict[str, list[Example]] = field(default_factory=dict)  #: the first mentions of each category


class Counter:
    """Counts episodes with one linter, and remembers texts, which models repeat."""

    def __init__(self, linter: RationaleLinter, examples: int = 0) -> None:
        self._find = lru_cache(maxsize=_REMEMBERED)(linter.find)
        self._examples = examples

    def count(self, spec: EpisodeSpec, steps: Iterable[StepTexts]) -> EpisodeCounts:
        """Counts of one episode."""
        counts = EpisodeCounts(spec)
        for step in steps:
            counts.span = (counts.span[0] or step.decided_on, step.decided_on)
            if step.texts:
                counts.steps += 1
                self._count_step(counts, step)
        return counts

    def _count_step(self, counts: EpisodeCounts, step: StepTexts) -> None:
        named: set[str] = set()
        unsent: set[str] = set()
        for text in step.texts:
            mentions = self._find(text.text)
            categories = {mention.category for mention in mentions}
            for mention in mentions:
                was_sent = mention.text.lower() in step.sent
                if not was_sent:
                    unsent.add(mention.category)
                self._keep(counts, mention, (step, text), was_sent)
            _add(counts.by_source.setdefault(text.source, {"texts": 0, **dict.fromkeys(ROWS, 0)}), categories)
            counts.by_source[text.source]["texts"] += 1
            if text.source in REASONS:
                counts.reasons += 1
                _add(counts.reasons_with, categories)
            named |= categories
        _add(counts.steps_with, named)
        _add(counts.unsent_with, unsent)

    def _keep(self, counts: EpisodeCounts, mention: Mention, at: tuple[StepTexts, Text], was_sent: bool) -> None:
        kept = counts.examples.setdefault(mention.category, [])
        if len(kept) < self._examples and all(mention.text != example.mention.text for example in kept):
            step, text = at
            where = place_of(counts.spec, step, text)
            context = _around(text.text, *mention.span)
            kept.append(Example(mention._replace(where=where), context, text.source, step.step, step.decided_on, was_sent))


def place_of(spec: EpisodeSpec, step: StepTexts, text: Text) -> str:
    """Where a text stands, in words."""
    order = "" if text.order is None else f" of order {text.order}"
    return f"{spec.task} {spec.window.name} seed {spec.seed} step {step.step}, {text.source}{order}"


def rows_of(categories: Iterable[str]) -> set[str]:
    """Rows that mentions of these categories count in."""
    named = set(categories)
    return named | {group for group, members in GROUPS.items() if members & named}


def subject_key(spec: EpisodeSpec) -> str:
    """Facts that are equal where two episodes differ in nothing but mask, window and seed."""
    return dumps_canonical(
        [spec.model, spec.model_args, spec.agent, spec.agent_args, spec.call, spec.mode, spec.snapshot, spec.limit]
    )


def subject_label(spec: EpisodeSpec, others: Sequence[EpisodeSpec]) -> str:
    """Model, agent and mode, with their arguments where these alone tell subjects apart."""
    label = f"{spec.model}, {spec.agent}, {spec.mode}"
    alike = {subject_key(other) for other in others if f"{other.model}, {other.agent}, {other.mode}" == label}
    if len(alike) < 2:
        return label
    rest = dumps_canonical({"model": spec.model_args, "agent": spec.agent_args, "call": spec.call, "limit": spec.limit})
    return f"{label} {rest} on {spec.snapshot[:8]}"


def _add(counts: dict[str, int], categories: Iterable[str]) -> None:
    for row in rows_of(categories):
        counts[row] += 1


def _around(text: str, start: int, end: int, reach: int = 60) -> tuple[str, str]:
    """Text before and after a span, as far as `reach` characters."""
    before, after = text[max(0, start - reach) : start], text[end : end + reach]
    return ("…" if start > reach else "") + before, after + ("…" if end + reach < len(text) else "")
