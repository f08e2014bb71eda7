"""What a card says about the anchors of its run: the chain of hashes that the run kept."""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval.cards.fields.base_types import Count, Sha256, Time
from ktdeval.cards.table_types import Row, count
from ktdeval.values.documents.typed_json import Value


class AnchorFact(Value, frozen=True, kw_only=True):
    """Chain of hashes that a run kept over its records, and the time stamps of its heads."""

    head: Sha256  #: hash of its last link
    links: Count  #: number of its links
    steps: Count  #: number of recorded steps that it covers, over all tasks of the run
    #: number of these steps that were found recorded by a later process
    found: Count
    stamps: Count  #: number of time stamps
    failed: Count  #: number of time stamps that failed
    first: Time | None  #: time of the first stamp; null without stamps
    last: Time | None  #: time of the last stamp
    gap: Count  #: largest number of steps between two stamps
    authorities: list[Sha256]  #: SHA-256 of the root certificate of each authority, in DER


def anchor_rows(anchors: AnchorFact) -> Iterator[Row]:
    """Yield the row on a run's anchors."""
    steps = count(anchors.steps, "step")
    if not anchors.stamps:
        yield "anchors", f"chain over {steps}, without a time stamp: compare it with a board's copy"
        return

    words = (
        f"{count(anchors.stamps, 'time stamp')} over {steps}, {anchors.first} to {anchors.last}, at"
        f" most {count(anchors.gap, 'step')} between two"
    )
    if anchors.failed:
        words += f"; {anchors.failed:,} failed"
    if anchors.found:
        words += f"; {count(anchors.found, 'step')} stamped later"
    yield "anchors", words
