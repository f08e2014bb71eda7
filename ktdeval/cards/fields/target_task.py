"""Trading task that a scoring task asks about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktdeval.cards.fields.base_types import Name, Sha256
from ktdeval.cards.fields.recorded_facts import DerivationBasis, ScoringFacts
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row
from ktdeval.values.hashes import content_hash
from ktdeval.values.typed_json import Value

#: Field of a scoring task's config that holds the config of its target task
TARGET_CONFIG = "subject_config"


class TargetTaskPart(Value, frozen=True):
    """Trading task that is asked about; its config stands in that of the task."""

    name: Name
    hash: Sha256  #: SHA-256 of the canonical JSON of its config


def derive_target(basis: DerivationBasis[ScoringFacts]) -> TargetTaskPart | None:
    """Return the trading task that a scoring task's config asks about; None without one."""
    target = basis.facts.task.config.get(TARGET_CONFIG)
    if not isinstance(target, Mapping):
        return None
    return TargetTaskPart(name=str(target.get("name")), hash=content_hash(target))


def target_rows(target: TargetTaskPart | None, facts: ScoringFacts) -> Iterator[Row]:
    """Yield the row of the task that a scoring task asks about."""
    if target is not None:
        yield field_label("subject"), f"{target.name} ({target.hash[:12]})"
