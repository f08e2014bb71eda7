"""Server-sent events of a running turn: what it has shown, and the reply that is being received."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import anyio
from anyio import to_thread

from ktdeval.values import dumps_compact, to_plain
from ktdeval_qfinzero.access.pages.playground.conversation_view import TalkPart
from ktdeval_qfinzero.access.pages.playground.partial_reply import Growth, growth, shown_parts
from ktdeval_qfinzero.access.pages.playground.runs import ChatRuns

_LOOKS_S: Final = 0.05  #: between two looks at what a run has shown
_BEAT_S: Final = 15.0  #: between two comments in a silent stream, so that no proxy cuts it off


async def run_events(runs: ChatRuns, chat_id: str, seen: int) -> AsyncIterator[str]:
    """Yield the events of a run as server-sent events, until it has ended; each has its number."""
    silent_s = 0.0
    coming: tuple[TalkPart, ...] = ()  # parts of the coming reply, as received
    told: tuple[TalkPart, ...] = ()  # the same as the client was told of them
    while True:
        running = runs.running(chat_id)
        if running is None:
            yield _event(seen, {"kind": "ended", "message": ""})
            return

        is_over = running.is_over  # before the look: what is shown before the end is not missed
        latest = running.coming.parts
        for number, shown in enumerate(running.events[seen:], seen):
            yield _event(number, to_plain(shown))
            seen = number + 1
            silent_s = 0.0

        if is_over:
            return

        if latest is not coming:
            coming = latest
            shown_now = await to_thread.run_sync(shown_parts, latest)
            if shown_now != told:
                yield _coming_event(growth(told, shown_now))
                told = shown_now
                silent_s = 0.0

        await anyio.sleep(_LOOKS_S)
        silent_s += _LOOKS_S
        if silent_s >= _BEAT_S:
            silent_s = 0.0
            yield ": still at work\n\n"


def _event(number: int, value: Any) -> str:
    return f"id: {number}\ndata: {_json_line(value)}\n\n"


def _coming_event(parts: list[Growth]) -> str:
    """Return an event without a number: a client that comes back is told all of a coming reply."""
    return (
        f"data: {_json_line({'kind': 'coming', 'parts': [to_plain(part) for part in parts]})}\n\n"
    )


def _json_line(value: Any) -> str:
    # ASCII alone: a text with other line ends would end the field
    return json.dumps(json.loads(dumps_compact(value)), separators=(",", ":"))
