"""Who decided each step, and what failed on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import asdict

from ktdeval.cards.fields.base_types import add_up
from ktdeval.cards.fields.episode_parts import Decisions
from ktdeval.cards.fields.field import SharedField
from ktdeval.cards.fields.recorded_facts import AnyFacts, DerivationBasis
from ktdeval.cards.fields.words import FieldWords
from ktdeval.cards.table_types import Row, tally
from ktdeval.trading.types import PROVENANCES, Provenance


def gather_decisions(provenances: Iterable[Provenance]) -> Decisions:
    """Count the steps of an episode by who decided them."""
    counts = Counter(provenances)
    return Decisions(**{provenance: counts[provenance] for provenance in PROVENANCES})


def derive_decisions(basis: DerivationBasis[AnyFacts]) -> Decisions:
    """Return the sums over the finished episodes."""
    return add_up(Decisions, [episode.decisions for episode in basis.facts.episodes])


def decision_rows(decisions: Decisions, facts: AnyFacts) -> Iterator[Row]:
    """Yield the row of steps by who decided them."""
    yield WORDS["decisions"].label, tally(asdict(decisions))


WORDS = {"decisions": FieldWords("decisions", "steps", "steps by who decided them")}

DECISIONS = SharedField(
    "decisions", derive=derive_decisions, rows=decision_rows, table="activity", words=WORDS
)

PROVENANCE_WORDS: Mapping[Provenance, FieldWords] = {
    "model": FieldWords("decided by the model", "steps", "Valid at the first submission."),
    "model_after_retry": FieldWords(
        "decided by the model after a retry", "steps", "An earlier submission was not valid."
    ),
    "elected": FieldWords(
        "decided by a vote",
        "steps",
        "What more than half of several voters submitted; no model wrote it as a whole.",
    ),
    "fallback": FieldWords(
        "held: no valid submission",
        "steps",
        "The engine held because no submission was valid; not a decision of the model.",
    ),
    "error": FieldWords(
        "held: the model call failed",
        "steps",
        "The engine held because the model call failed; not a decision of the model.",
    ),
}
