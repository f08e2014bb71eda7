"""Updates: what became known about calendar events, in the order in which it did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ktdeval_qfinzero.data.known import as_known, known_moments
from ktdeval_qfinzero.data.rows import EventRow, NewsRow
from ktdeval_qfinzero.data.stores import Page, Tags
from ktdeval_qfinzero.esp.reading import BLOCK, Key, available, calendar_tags
from ktdeval_qfinzero.esp.rendering import status_of
from ktdeval_qfinzero.view import View

Change = Literal["announced", "changed", "released", "revised", "published"]


@dataclass(frozen=True, slots=True)
class Update:
    """Something that became known.

    Attributes:
        known_ns: when.
        row: the event as it stood then, with no later release; or the article.
    """

    known_ns: int
    row: EventRow | NewsRow

    @property
    def key(self) -> Key:
        """What updates are sorted by; no two have the same."""
        return self.known_ns, self.row.event_id if isinstance(self.row, EventRow) else self.row.id

    @property
    def change(self) -> Change:
        """What is new."""
        row = self.row
        if isinstance(row, NewsRow):
            return "published"
        earlier = known_moments(row)[:-1]
        if status_of(row) == "scheduled":
            return "changed" if earlier else "announced"
        had_outcome = bool(earlier) and status_of(as_known(row, earlier[-1])) != "scheduled"
        return "revised" if had_outcome else "released"


def calendar_updates(view: View, tags: Tags, after: Key, block: int = BLOCK) -> Iterator[Update]:
    """Updates of calendar events that became known after a key and by now, by key.

    Args:
        view: the data as of the clock.
        tags: filters.
        after: key of an update, or (moment, "") for everything from a moment on.
        block: updates that are read at once.

    Raises:
        ServiceError: `unavailable`.
    """
    chosen = calendar_tags(tags)
    if chosen is None:
        return
    while True:
        with available("calendar"):
            found = [Update(*pair) for pair in view.updates(chosen, Page(block, after))]
        yield from found
        if len(found) < block:
            return
        after = found[-1].key
