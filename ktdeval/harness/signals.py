"""Signals of a team's analysts on the assets shown: how a role is asked for them, and how they are read from a transcript."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ktdeval.harness.reading import as_object, json_object, label_key, rows_by_asset, shown_state
from ktdeval.harness.session import TranscriptEntry

Signal = Literal["Bullish", "Bearish", "Neutral"]
SIGNALS: tuple[Signal, ...] = ("Bullish", "Bearish", "Neutral")
OTHERS = "OTHERS"  #: Label that stands for all assets that an answer does not name
SIGNAL_FORM = f'{{"LABEL": "Bullish", "{OTHERS}": "Neutral"}}'
"""Example of the form of an answer. A role whose instructions hold it is asked for signals: it is an analyst."""
_OBJECT = re.compile(r"\{[^{}]*\}")


def last_object(text: str) -> Mapping[str, Any]:
    """Return the last flat JSON object in a text by `label_key` of its fields; empty where there is none, or it is malformed."""
    objects = _OBJECT.findall(text)
    return {label_key(name): value for name, value in json_object(objects[-1]).items()} if objects else {}


def read_signals(text: str, assets: Iterable[str]) -> dict[str, Signal]:
    """Return the signal of each asset (label) that the last JSON object of an answer gives one, by its label or as one of `OTHERS`.

    Spelling and case do not matter; an asset named with anything else than one of `SIGNALS` has none.
    """
    answer = last_object(text)
    by_name = {name.lower(): name for name in SIGNALS}
    others = answer.get(label_key(OTHERS))
    signals = {asset: by_name.get(str(answer.get(label_key(asset), others)).strip().lower()) for asset in assets}
    return {asset: signal for asset, signal in signals.items() if signal is not None}


@dataclass(frozen=True)
class StepSignals:
    """Signals of one step. Each analyst that was asked owes one on each asset shown."""

    held: Mapping[str, float]  #: shares before the step by label, of every asset shown (candidates and positions)
    answers: Mapping[str, Mapping[str, Signal]]  #: analyst that was asked -> label -> signal, where it could be read

    @property
    def assets(self) -> tuple[str, ...]:
        """Labels of the assets shown."""
        return tuple(self.held)


def step_signals(talk: TranscriptEntry) -> StepSignals:
    """Return the signals in the transcript of a step: of an analyst's calls, the last one is its answer; a failed call has none.

    A transcript may be damaged: anything in it that is no exchange or message is skipped.
    """
    held: dict[str, float] = {}
    replies: dict[str, str] = {}
    messages: list[tuple[str, str]] = []
    for exchange in talk.exchanges:
        kept, sent = exchange.get("kept"), exchange.get("sent")
        sent = [as_object(message) for message in sent] if isinstance(sent, list) else []
        new = [(str(message.get("role")), str(message.get("content"))) for message in sent]
        messages = [*messages[: kept if isinstance(kept, int) else 0], *new]
        held = held or _held(messages)
        if "role" in exchange and messages and SIGNAL_FORM in messages[0][1]:
            replies[str(exchange["role"])] = str(as_object(exchange.get("reply")).get("content", ""))
    return StepSignals(held, {role: read_signals(text, held) for role, text in replies.items()})


def _held(messages: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Return shares by label of the assets that messages (role, content) show; 0 where nothing is held."""
    for role, content in messages:
        state = shown_state(content) if role == "user" else {}
        try:
            positions, candidates = rows_by_asset(state.get("positions")), rows_by_asset(state.get("candidates"))
        except (ValueError, TypeError):  # no table as tasks write them
            continue
        if positions or candidates:
            shares = {asset: row.get("shares") for asset, row in positions.items()}  # held all the same without a number
            holdings = {asset: float(value) if isinstance(value, int | float) else 1.0 for asset, value in shares.items()}
            return dict.fromkeys(candidates, 0.0) | holdings
    return {}
