"""The stream: everything in the order in which it became known, each thing once, however the clock goes forward."""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING, Final

from ktdeval.api import JsonValue
from ktdeval_qfinzero.data.stores import Span
from ktdeval_qfinzero.esp.arguments import read_after, read_tags, unknown_tickers
from ktdeval_qfinzero.esp.reading import Key, Wanted, news_rows
from ktdeval_qfinzero.esp.rendering import EventView, event_json
from ktdeval_qfinzero.esp.updates import Update, calendar_updates
from ktdeval_qfinzero.moments import MINUTE, moment_text
from ktdeval_qfinzero.operations import Arguments
from ktdeval_qfinzero.paging import write_cursor

if TYPE_CHECKING:
    from ktdeval_qfinzero.workspace import Workspace

HEAD: Final = "HEAD"
_BEGINNING_NS: Final = 5 * MINUTE
"""How far back a stream without a cursor begins."""


def stream_events(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """What became known after the cursor and by now.

    A cursor is a key: the next one is that of the last update given, or where all are given the end of the present moment.
    """
    view, limit = workspace.view, arguments["limit"]
    tags = read_tags(arguments)
    after = _read_position(arguments, view.as_of_ns)
    wanted = Wanted(Span(after[0], view.as_of_ns + 1), tags, after, block=limit + 1)
    articles = (Update(row.published_ns, row) for row in news_rows(view, wanted))
    updates = heapq.merge(calendar_updates(view, tags, after, limit + 1), articles, key=lambda update: update.key)
    found = list(islice(updates, limit + 1))
    more, given = len(found) > limit, found[:limit]
    position = given[-1].key if more else max(after, (view.as_of_ns + 1, ""))
    return {
        "as_of_ts": moment_text(view.as_of_ns),
        "events": [_update_json(update, arguments["view"]) for update in given],
        "unknown": unknown_tickers(view, tags.tickers),
        "more": more,
        "next_cursor": write_cursor(*position),
    }


def _read_position(arguments: Arguments, now_ns: int) -> Key:
    """The key to go on after; (moment, "") comes before everything of that moment, for no id is empty."""
    after = None if arguments.get("cursor") == HEAD else read_after(arguments)
    return (max(0, now_ns - _BEGINNING_NS + 1), "") if after is None else after


def _update_json(update: Update, view: EventView) -> dict[str, JsonValue]:
    return {"known_utc": moment_text(update.known_ns), "change": update.change, **event_json(update.row, view)}
