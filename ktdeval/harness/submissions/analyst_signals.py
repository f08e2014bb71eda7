"""Signals that the analysts in a team give on the assets shown: how a role is asked for signals,
and how they are read from a transcript.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.harness.tools.reading import json_object, label_key
from ktdeval.observation.state_reading import recorded_state
from ktdeval.observation.state_rows import as_object

Signal = Literal["Bullish", "Bearish", "Neutral"]
SIGNALS: tuple[Signal, ...] = ("Bullish", "Bearish", "Neutral")
OTHERS = "OTHERS"  #: label for all assets that an answer does not mention
_ANY_SIGNAL = '"<Bullish, Bearish or Neutral>"'
SIGNAL_FORM = f'{{"<label>": {_ANY_SIGNAL}, "{OTHERS}": {_ANY_SIGNAL}}}'
"""Form of an answer, without a signal that a model could copy. A role whose instructions contain it
is an analyst and is asked for signals.
"""
# the second one is in earlier records and in teams of others
_SIGNAL_FORMS = (SIGNAL_FORM, f'{{"LABEL": "Bullish", "{OTHERS}": "Neutral"}}')
ROLE_HEADING = "# Your role"
"""Heading of a role's own part of its prompt. Parts that roles share, also reports of others,
precede it.
"""
_OBJECT = re.compile(r"\{[^{}]*\}")


def last_object(text: str) -> Mapping[str, Any]:
    """Return the last flat JSON object in a text, with its fields keyed by `label_key`; empty if
    the text contains no such object, or if the object is malformed.
    """
    objects = _OBJECT.findall(text)
    if not objects:
        return {}

    fields = json_object(objects[-1])
    return {label_key(name): value for name, value in fields.items()}


def read_signals(text: str, assets: Iterable[str]) -> dict[str, Signal]:
    """Return the signal for each asset (label) in the last JSON object of an answer. A signal is
    given under the asset's label or under `OTHERS`. Spelling and case do not matter. An asset is
    omitted if its signal is not one of `SIGNALS`.
    """
    answer = last_object(text)
    of_others = answer.get(label_key(OTHERS))
    by_name = {name.lower(): name for name in SIGNALS}
    signals: dict[str, Signal] = {}

    for asset in assets:
        word = answer.get(label_key(asset), of_others)
        signal = by_name.get(str(word).strip().lower())
        if signal is not None:
            signals[asset] = signal

    return signals


@dataclass(frozen=True)
class StepSignals:
    """Signals of one step. Each analyst that was asked should give one for each asset shown."""

    #: shares held before the step, by label of each asset shown (candidates and positions)
    held: Mapping[str, float]
    #: signals that could be read: analyst that was asked -> label -> signal
    answers: Mapping[str, Mapping[str, Signal]]

    @property
    def assets(self) -> tuple[str, ...]:
        """Labels of the assets shown."""
        return tuple(self.held)


@dataclass(frozen=True, slots=True)
class _RecordedMessage:
    """A recorded message."""

    role: str
    content: str


def step_signals(talk: TranscriptEntry) -> StepSignals:
    """Return the signals in the transcript of a step. An analyst's last call is taken as its
    answer; a failed call gives no answer.

    A transcript may be damaged, so anything that is not an exchange or a message is skipped.
    """
    held: dict[str, float] = {}
    replies: dict[str, str] = {}
    messages: list[_RecordedMessage] = []

    for exchange in talk.exchanges:
        messages = _conversation(messages, exchange)
        held = held or _shares(messages)
        if _asks_signals(messages) and "role" in exchange:
            reply = as_object(exchange.get("reply"))
            replies[str(exchange["role"])] = str(reply.get("content", ""))

    answers = {role: read_signals(text, held) for role, text in replies.items()}
    return StepSignals(held, answers)


def _asks_signals(messages: Sequence[_RecordedMessage]) -> bool:
    """Return whether the instructions in a conversation ask for signals. The instructions are the
    system message, or the role's own part of the first user message. Reports before that part may
    quote the signal form.
    """
    for message in messages[:2]:
        instructions = message.content
        if message.role == "user":
            instructions = instructions.rpartition(ROLE_HEADING)[2]
        if any(form in instructions for form in _SIGNAL_FORMS):
            return True

    return False


def _conversation(
    before: Sequence[_RecordedMessage], exchange: Mapping[str, Any]
) -> list[_RecordedMessage]:
    """Return the messages of a recorded call: first the messages shared with the previous call,
    then the new ones.
    """
    number_before = exchange.get("kept")
    if not isinstance(number_before, int):
        number_before = 0

    sent = exchange.get("sent")
    if not isinstance(sent, list):
        sent = []

    messages = list(before[:number_before])
    for message in map(as_object, sent):
        messages.append(_RecordedMessage(str(message.get("role")), str(message.get("content"))))

    return messages


def _shares(messages: Iterable[_RecordedMessage]) -> dict[str, float]:
    """Return the shares held, by label of the assets in recorded messages; 0 for an asset that is
    not held.
    """
    for message in messages:
        if message.role != "user":
            continue

        try:
            state = recorded_state(message.content)
            candidates = state.candidates
            positions = state.positions
        except (ValueError, TypeError):  # not a table in the tasks' format
            continue

        if not candidates and not positions:
            continue

        shares = dict.fromkeys(candidates, 0.0)
        for label, position in positions.items():
            # a position is held even if the number of shares is missing
            shares[label] = 1.0 if position.shares is None else position.shares

        return shares

    return {}
