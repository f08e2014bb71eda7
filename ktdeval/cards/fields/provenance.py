"""Provenance of a card: when, where and from which calls it was made. Two equal runs may differ in
it.
"""

from __future__ import annotations

from typing import Any

from ktdeval.cards.fields.basics import Name, NonNegative, Time
from ktdeval.cards.fields.calls import Calls
from ktdeval.cards.fields.words import Words
from ktdeval.values.typed import Value


class Provenance(Value, frozen=True):
    """Only part that may differ between two runs of the same plan."""

    created_at: Time
    suite_version: Name
    source_revision: str | None  #: revision of the source; null where it is not known
    wall_time_s: NonNegative | None  #: null where it was not measured
    environment: dict[str, Any]
    calls: Calls | None  #: what was asked of the provider, and paid; null where nothing was


WORDS = {
    "artefacts": Words(
        "artefacts", "", "path in the run folder and SHA-256 of each ledger and transcript"
    ),
    "provenance": Words(
        "provenance",
        "",
        "time, suite version, source revision, wall time, environment, `calls`: the only part in"
        " which two equal runs may differ",
    ),
    "provenance.wall_time_s": Words("wall time", "s", "seconds that the episodes took together"),
}
