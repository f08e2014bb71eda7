"""Texts that a model wrote in each recorded step, and what it had been sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import StoreError
from ktdeval.harness import TranscriptEntry
from ktdeval.jsonio import loads_strict
from ktdeval.runner import RunFolder
from ktdeval.trading import StepRecord

Source = Literal["reason", "overall_reason", "research", "reasoning"]
SOURCES: Mapping[Source, str] = {
    "reason": "the reason of an order",
    "overall_reason": "the reason of a whole submission",
    "research": "what was written beside tool calls",
    "reasoning": "the separate reasoning channel, where a provider gives it",
}
REASONS: tuple[Source, ...] = ("reason", "overall_reason")
"""Sources that make up the rationale; the others are thinking aloud."""

WITHHELD = "[withheld]"


@dataclass(frozen=True)
class Text:
    """One text of a model."""

    source: Source
    #: as written; reasons as the ledger has them, with what it withholds put back from the submission where that is there
    text: str
    order: int | None = None  #: number of the order, for its reason


@dataclass(frozen=True)
class StepTexts:
    """Texts of one step."""

    step: int
    decided_on: str  #: ISO day
    texts: Sequence[Text]  #: those that are not empty
    messages: Sequence[str]  #: what the model was sent, without its own turns

    @cached_property
    def sent(self) -> str:
        """Everything that the model was sent in this step, in lower case."""
        return "\n".join(self.messages).lower()


def read_steps(folder: RunFolder, spec: EpisodeSpec, redact: Callable[[str], str]) -> Iterator[StepTexts]:
    """Texts of each recorded step of an episode, also of an unfinished one.

    Raises StoreError: a record is not readable, or is of a task without orders.
    """
    steps, talks = folder.load_recorded(spec)
    for step, talk in zip(steps, talks, strict=True):
        if not isinstance(step, StepRecord):
            raise StoreError(f"{folder.episode_path(spec)}: holds no orders, so no reasons for any")
        texts = tuple(replace(text, text=redact(text.text)) for text in _texts(step, talk))
        yield StepTexts(step.step, step.decided_on, texts, tuple(_messages(talk)))


def _texts(step: StepRecord, talk: TranscriptEntry) -> Iterator[Text]:
    reasons, overall = _submitted(talk.submission, len(step.orders))
    for number, order in enumerate(step.orders):
        if order.reason:
            yield Text("reason", _whole(order.reason, reasons[number]), number)
    if step.overall_reason:
        yield Text("overall_reason", _whole(step.overall_reason, overall))
    for exchange in talk.exchanges:
        reply = exchange.get("reply", {})
        if reply.get("content"):
            yield Text("research", reply["content"])
        if reply.get("reasoning"):
            yield Text("reasoning", reply["reasoning"])


def _whole(recorded: str, submitted: str) -> str:
    """A recorded reason; where identities were withheld, as it was submitted, if that is known."""
    return submitted if WITHHELD in recorded and submitted else recorded


def _submitted(text: str | None, orders: int) -> tuple[list[str], str]:
    """Reasons and overall reason of a submission as written; empty texts where they can't be told."""
    nothing = [""] * orders, ""
    try:
        value = loads_strict(text) if text else None
    except (ValueError, RecursionError):
        return nothing
    if not isinstance(value, dict) or not isinstance(value.get("orders"), list) or len(value["orders"]) != orders:
        return nothing
    reasons = [order.get("reason", "") if isinstance(order, dict) else "" for order in value["orders"]]
    overall = value.get("overall_reason", "")
    return [reason if isinstance(reason, str) else "" for reason in reasons], overall if isinstance(overall, str) else ""


def _messages(talk: TranscriptEntry) -> Iterator[str]:
    for exchange in talk.exchanges:
        yield from (message["content"] for message in exchange["sent"] if message["role"] != "assistant")
