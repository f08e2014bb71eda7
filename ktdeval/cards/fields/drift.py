"""Drift: how far the model's answers to fixed questions moved during the run."""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval.cards.fields.fact_types import Drift
from ktdeval.cards.fields.field import SharedField
from ktdeval.cards.fields.recorded_facts import AnyFacts
from ktdeval.cards.fields.words import FieldWords
from ktdeval.cards.table_types import Row, count


def drift_rows(drift: Drift, facts: AnyFacts) -> Iterator[Row]:
    """Yield the row of a drift that is known."""
    if drift.value is None:
        return

    questions = count(drift.prompts or 0, "question")
    words = f"{drift.value:.3f} between start and end over {questions},"
    words += f" {drift.noise:.3f} within one round (0 equal, 1 different)"
    if drift.served_by_changed:
        words += "; the provider named another model at the end"

    yield WORDS["drift"].label, words


WORDS = {
    "drift": FieldWords(
        "drift",
        "",
        "how far the answers to fixed questions moved between the start and the end of the run",
        "cards.md#drift",
    ),
    "drift.value": FieldWords(
        "drift", "distance", "mean distance of an answer at the start from one at the end, 0 to 1"
    ),
    "drift.noise": FieldWords(
        "noise", "distance", "mean distance of two answers of one round, 0 to 1"
    ),
    "drift.excess": FieldWords("excess drift", "distance", "drift less noise"),
    "drift.prompts": FieldWords(
        "questions", "questions", "questions that were answered at both times"
    ),
}

DRIFT = SharedField(
    "drift",
    gather=lambda sources: sources.inputs.drift,
    rows=drift_rows,
    table="activity",
    words=WORDS,
)
