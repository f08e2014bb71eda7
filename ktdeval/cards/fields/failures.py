"""Failures on the way to decisions, by kind."""

from __future__ import annotations

from ktdeval.cards.fields.base_types import add_counts
from ktdeval.cards.fields.recorded_facts import AnyFacts, DerivationBasis


def derive_failures(basis: DerivationBasis[AnyFacts]) -> dict[str, int]:
    """Return the sums over the finished episodes."""
    return add_counts(episode.failures for episode in basis.facts.episodes)
