"""Who decided each step, and what failed on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ktdeval.cards.fields.base_types import add_up
from ktdeval.cards.fields.episode_parts import Decisions
from ktdeval.cards.fields.recorded_facts import AnyFacts, DerivationBasis
from ktdeval.trading.types import PROVENANCES, Provenance


def gather_decisions(provenances: Iterable[Provenance]) -> Decisions:
    """Count the steps of an episode by who decided them."""
    counts = Counter(provenances)
    return Decisions(**{provenance: counts[provenance] for provenance in PROVENANCES})


def derive_decisions(basis: DerivationBasis[AnyFacts]) -> Decisions:
    """Return the sums over the finished episodes."""
    return add_up(Decisions, [episode.decisions for episode in basis.facts.episodes])
