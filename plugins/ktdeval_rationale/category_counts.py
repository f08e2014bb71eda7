"""Texts that a model wrote in each recorded step, and counts of the categories mentioned in each
reason and each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Literal

from msgspec import UNSET

from ktdeval.errors import StoreError
from ktdeval.harness import TranscriptEntry, as_object, submission_object, without_transport
from ktdeval.masking import WITHHELD, beginning
from ktdeval.runner import RecordedExchange, RunFolder, read_exchanges
from ktdeval.task_api import EpisodeSpec
from ktdeval.trading import StepRecord
from ktdeval.values import JsonValue, dumps_canonical
from ktdeval_rationale.leak_linter import (
    LEAK_CATEGORIES,
    LEAKS_REMOVED_BY,
    Mention,
    RationaleLinter,
)

#: `reason` of an order or of a decision on an asset; `overall_reason` of a submission; `research`:
#: text next to tool calls; `reasoning`: the separate channel, if a provider has it
Source = Literal["reason", "overall_reason", "research", "reasoning"]
#: Sources that form the rationale; the other sources are the model's thinking
REASONS: tuple[Source, ...] = ("reason", "overall_reason")

GROUPS: Mapping[str, frozenset[str]] = {
    "stock": frozenset(LEAKS_REMOVED_BY["stock"]),
    "calendar": frozenset(LEAKS_REMOVED_BY["date"]),
    "any": frozenset(LEAK_CATEGORIES),
}
"""Rows that combine several categories: those that hiding the stock should remove, those that
hiding the date should remove, and all of them.
"""

ROWS: tuple[str, ...] = (*LEAK_CATEGORIES, *GROUPS)  #: Rows of every table, in order

_REMEMBERED = 1 << 14


@dataclass(frozen=True)
class ModelText:
    """A text written by a model."""

    source: Source
    #: the text as written; a reason is as in the ledger, but withheld parts are restored from the
    #: submission if there is one
    text: str
    #: for a reason, the number of its order or of its decision on an asset
    order: int | None = None


@dataclass(frozen=True)
class StepTexts:
    """Texts from one step."""

    step: int
    decided_on: str  #: ISO day of the decision
    texts: Sequence[ModelText]  #: non-empty texts
    messages: Sequence[str]  #: messages sent to the model, without its own turns

    @cached_property
    def sent(self) -> str:
        """All text sent to the model in this step, in lower case."""
        return "\n".join(self.messages).lower()


def read_steps(
    folder: RunFolder, spec: EpisodeSpec, redact: Callable[[str], str]
) -> Iterator[StepTexts]:
    """Yield the texts of each recorded step of an episode, whether finished or not. `redact`
    removes secrets.

    Raises StoreError if a record can't be read, or if it belongs to a task without orders.
    """
    steps, entries = folder.load_recorded(spec)
    for step, entry in zip(steps, entries, strict=True):
        if not isinstance(step, StepRecord):
            raise StoreError(f"{folder.episode_path(spec)}: contains no orders, and so no reasons")

        exchanges = read_exchanges(entry, str(folder.episode_path(spec)))
        texts = [
            replace(text, text=redact(text.text)) for text in _step_texts(step, entry, exchanges)
        ]
        sent: list[str] = []
        for exchange in exchanges:
            for message in exchange.sent:
                if message.role != "assistant":
                    sent.append(message.content)

        yield StepTexts(step.step, step.decided_on, texts, sent)


def _step_texts(
    step: StepRecord, entry: TranscriptEntry, exchanges: Sequence[RecordedExchange]
) -> Iterator[ModelText]:
    """Yield a step's non-empty texts."""
    submitted = submission_object(entry.submission or "{}")
    for number, reason in enumerate(_step_reasons(step, submitted)):
        if reason:
            yield ModelText("reason", reason, number)

    if step.overall_reason:
        written = _text_or_empty(submitted.get("overall_reason"))
        yield ModelText("overall_reason", _restore_text(step.overall_reason, written))

    for exchange in exchanges:
        if exchange.reply is UNSET:
            continue
        if exchange.reply.content:
            yield ModelText("research", exchange.reply.content)
        if exchange.reply.reasoning:
            yield ModelText("reasoning", exchange.reply.reasoning)


def _step_reasons(step: StepRecord, submitted: Mapping[str, JsonValue]) -> list[str]:
    """Return the reasons for a step's decisions, or for its orders."""
    # A decision without a trade has a reason but no order.
    decisions = _reasons(submitted.get("decisions"))
    if decisions:
        return decisions

    written = _reasons(submitted.get("orders"))
    if len(written) != len(step.orders):
        return [order.reason for order in step.orders]
    return [
        _restore_text(order.reason, reason)
        for order, reason in zip(step.orders, written, strict=True)
    ]


def _restore_text(recorded: str, written: str) -> str:
    """Return the submitted text if part of the recorded text was withheld."""
    return written if WITHHELD in recorded and written else recorded


def _reasons(items: JsonValue) -> list[str]:
    """Return the reasons of submitted orders or decisions, as written and in order."""
    if not isinstance(items, list):
        return []
    return [_text_or_empty(as_object(item).get("reason")) for item in items]


def _text_or_empty(value: JsonValue) -> str:
    if not isinstance(value, str):
        return ""
    return value.encode(errors="replace").decode()  # JSON may contain lone surrogates


@dataclass(frozen=True, kw_only=True)
class ExampleRow:
    """A mention, with the text around it."""

    mask: str
    category: str
    text: str
    span: tuple[int, int]
    before: str
    after: str
    where: str  #: episode, step and kind of text
    decided_on: str  #: ISO day of the decision
    was_sent: bool  #: whether this text had been sent to the model in that step


def _no_rows() -> dict[str, int]:
    return dict.fromkeys(ROWS, 0)


@dataclass
class EpisodeCounts:
    """Mentions in one episode."""

    spec: EpisodeSpec
    span: tuple[str, str] = ("", "")  #: first and last day on which decisions were made
    reasons: int = 0  #: reasons that are not empty
    steps: int = 0  #: steps with a text of any source
    #: number of reasons that mention something in a row, keyed by row
    reasons_with: dict[str, int] = field(default_factory=_no_rows)
    #: number of steps that mention something in a row, in any text, keyed by row
    steps_with: dict[str, int] = field(default_factory=_no_rows)
    #: number of steps that mention something in a row that the step's messages to the model did not
    #: contain, keyed by row
    unsent_with: dict[str, int] = field(default_factory=_no_rows)
    #: for each source, the number of texts that mention something in a row, keyed by row; the key
    #: `texts` has the number of all texts
    by_source: dict[str, dict[str, int]] = field(default_factory=dict)
    #: first mentions of each category
    examples: dict[str, list[ExampleRow]] = field(default_factory=dict)


class CategoryCounter:
    """Counts mentions in episodes with one linter. It caches texts, since models repeat them, and
    records the first `examples` of each category.
    """

    def __init__(self, linter: RationaleLinter, examples: int = 0) -> None:
        self._find = lru_cache(maxsize=_REMEMBERED)(linter.find)
        self._examples = examples

    def count(self, spec: EpisodeSpec, steps: Iterable[StepTexts]) -> EpisodeCounts:
        """Return the counts for an episode."""
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
            categories: set[str] = {mention.category for mention in mentions}
            for mention in mentions:
                was_sent = mention.text.lower() in step.sent
                if not was_sent:
                    unsent.add(mention.category)

                self._add_example(counts, mention, (step, text), was_sent)

            by_source = counts.by_source.setdefault(text.source, {"texts": 0, **_no_rows()})
            by_source["texts"] += 1
            _add(by_source, categories)

            if text.source in REASONS:
                counts.reasons += 1
                _add(counts.reasons_with, categories)

            named |= categories

        _add(counts.steps_with, named)
        _add(counts.unsent_with, unsent)

    def _add_example(
        self,
        counts: EpisodeCounts,
        mention: Mention,
        at: tuple[StepTexts, ModelText],
        was_sent: bool,
    ) -> None:
        examples = counts.examples.setdefault(mention.category, [])
        known = {example.text for example in examples}
        if len(examples) >= self._examples or mention.text in known:
            return

        step, text = at
        order = "" if text.order is None else f" of order {text.order}"
        where = f"{counts.spec.label} step {step.step}, {text.source}{order}"
        before, after = _around(text.text, *mention.span)
        examples.append(
            ExampleRow(
                mask=str(counts.spec.mask),
                category=mention.category,
                text=mention.text,
                span=mention.span,
                before=before,
                after=after,
                where=where,
                decided_on=step.decided_on,
                was_sent=was_sent,
            )
        )


def _add(counts: dict[str, int], categories: set[str]) -> None:
    """Count a text or step once in the row of each of its categories, and once in each group that
    contains one of the categories.
    """
    for category in categories:
        counts[category] += 1
    for group, members in GROUPS.items():
        if members & categories:
            counts[group] += 1


def _around(text: str, start: int, end: int, reach: int = 60) -> tuple[str, str]:
    """Return the text before and after a span, up to about `reach` characters each, cut at a word
    boundary.
    """
    before = text[max(0, start - reach) : start]
    if start > reach:
        before = f"… {before.partition(' ')[2]}"
    return before, beginning(text[end:], reach)


def subject_key(spec: EpisodeSpec) -> str:
    """Return a key that is the same for episodes that differ only in mask, window and seed."""
    return dumps_canonical(
        [
            spec.model,
            spec.model_args,
            spec.agent,
            spec.agent_args,
            without_transport(spec.call),
            spec.mode,
            spec.snapshot,
            spec.limit,
        ]
    )


def subject_label(spec: EpisodeSpec, others: Sequence[EpisodeSpec]) -> str:
    """Return model, agent and mode, plus the arguments if subjects differ only in these."""
    label = _short_label(spec)
    alike = {subject_key(other) for other in others if _short_label(other) == label}
    if len(alike) < 2:
        return label

    rest = dumps_canonical(
        {
            "model": spec.model_args,
            "agent": spec.agent_args,
            "call": without_transport(spec.call),
            "limit": spec.limit,
        }
    )
    return f"{label} {rest} on {str(spec.snapshot)[:8]}"


def _short_label(spec: EpisodeSpec) -> str:
    return f"{spec.model}, {spec.agent}, {spec.mode}"
