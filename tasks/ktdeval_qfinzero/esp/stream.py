"""Stream: everything in the order in which it became known, each thing once, however the clock goes forward."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from msgspec.structs import asdict

from ktdeval_qfinzero.data.rows import EventRow, NewsRow, as_known, known_moments
from ktdeval_qfinzero.data.stores import Page, Span, Tags
from ktdeval_qfinzero.esp.arguments import read_after, read_tags, unknown_tickers
from ktdeval_qfinzero.esp.reading import BLOCK, Key, Wanted, available, calendar_tags, news_rows
from ktdeval_qfinzero.esp.rendering import event_shown, status_of
from ktdeval_qfinzero.esp.types import Change, StreamPage, StreamQuery, UpdateShown
from ktdeval_qfinzero.moments import MINUTE, moment_text
from ktdeval_qfinzero.paging import write_cursor
from ktdeval_qfinzero.view import View

HEAD: Final = "HEAD"
_BEGINNING_NS: Final = 5 * MINUTE  #: How far back a stream without a cursor begins


@dataclass(frozen=True, slots=True)
class Update:
    """Something that became known."""

    known_ns: int  #: when
    row: EventRow | NewsRow  #: the event as it stood then, with no later release; or the article

    @property
    def key(self) -> Key:
        """Key that updates are sorted by; no two have the same."""
        return self.known_ns, self.row.event_id if isinstance(self.row, EventRow) else self.row.id

    @property
    def change(self) -> Change:
        """Kind of news."""
        row = self.row
        if isinstance(row, NewsRow):
            return "published"
        earlier = known_moments(row)[:-1]
        if status_of(row) == "scheduled":
            return "changed" if earlier else "announced"
        had_outcome = bool(earlier) and status_of(as_known(row, earlier[-1])) != "scheduled"
        return "revised" if had_outcome else "released"


def calendar_updates(view: View, tags: Tags, after: Key, block: int = BLOCK) -> Iterator[Update]:
    """Updates of calendar events that became known after a key and by now, by key. `view`: the data as of the clock; `tags`:
    filters; `after`: key of an update, or (moment, "") for everything from a moment on; `block`: updates that are read at once.
    Raises ServiceError: `unavailable`.
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


def stream_events(view: View, given: StreamQuery) -> StreamPage:
    """Follow what becomes known: announcements, releases, revisions and news, each once, in the order they became known."""
    tags, after = read_tags(given), _read_position(given.cursor, view.as_of_ns)
    wanted = Wanted(Span(after[0], view.as_of_ns + 1), tags, after, block=given.limit + 1)
    articles = (Update(row.published_ns, row) for row in news_rows(view, wanted))
    updates = heapq.merge(calendar_updates(view, tags, after, given.limit + 1), articles, key=lambda update: update.key)
    found = list(islice(updates, given.limit + 1))
    more, page = len(found) > given.limit, found[: given.limit]
    position = page[-1].key if more else max(after, (view.as_of_ns + 1, ""))
    return StreamPage(
        as_of_ts=moment_text(view.as_of_ns),
        events=[
            UpdateShown(known_utc=moment_text(each.known_ns), change=each.change, **asdict(event_shown(each.row, given.view)))
            for each in page
        ],
        unknown=unknown_tickers(view, tags.tickers),
        more=more,
        next_cursor=write_cursor(*position),
    )


def _read_position(cursor: str | None, now_ns: int) -> Key:
    """Key to go on after; (moment, "") comes before everything of that moment, for no id is empty."""
    after = None if cursor == HEAD else read_after(cursor)
    return (max(0, now_ns - _BEGINNING_NS + 1), "") if after is None else after
