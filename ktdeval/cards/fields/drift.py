"""Drift: how far the model's answers to fixed questions moved during the run."""

from __future__ import annotations

from ktdeval.cards.fields.fact_types import Drift
from ktdeval.cards.fields.recorded_facts import AnyFacts
from ktdeval.cards.table_types import count


def drift_text(drift: Drift, facts: AnyFacts) -> str:
    """Return words on a drift that is known; empty for another."""
    if drift.value is None:
        return ""

    questions = count(drift.prompts or 0, "question")
    words = f"{drift.value:.3f} between start and end over {questions},"
    words += f" {drift.noise:.3f} within one round (0 equal, 1 different)"
    if drift.served_by_changed:
        words += "; the provider named another model at the end"

    return words
