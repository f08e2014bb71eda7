"""Events as callers see them: one schema for calendars and articles, as of a moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.data.rows import EventRow, NewsRow
from ktdeval_qfinzero.esp.types import EventShown, EventView, ReleaseShown, Status
from ktdeval_qfinzero.moments import moment_text

SNIPPET_CHARACTERS: Final = 280

_OUTCOMES: Final = (
    ("actual", "consensus", "surprise"),
    ("eps_actual", "eps_estimated", "eps_surprise"),
    ("revenue_actual", "revenue_estimated", "revenue_surprise"),
)  #: A released value, what was expected, and the name of the difference

_SAID: Final = (
    ("actual", "actual"),
    ("consensus", "consensus"),
    ("previous", "previous"),
    ("surprise_pct", "surprise %"),
    ("eps_actual", "EPS"),
    ("eps_estimated", "EPS estimated"),
    ("eps_surprise_pct", "EPS surprise %"),
    ("revenue_actual", "revenue"),
    ("revenue_estimated", "revenue estimated"),
    ("revenue_surprise_pct", "revenue surprise %"),
)  #: Values that a snippet names, and how

_LARGEST: Final = 1e15


def status_of(row: EventRow | NewsRow) -> Status:
    """Where an event stands, judged by the releases that the row still has: those of the moment it was read as of. What comes out
    before the event is due is no outcome: a new estimate, another date. `scheduled` until the first outcome, `occurred` from then
    on, `updated` after one of a later moment. An article has occurred.
    """
    if isinstance(row, NewsRow):
        return "occurred"
    released = {release.available_ns for release in row.releases if release.available_ns >= row.time_ns}
    if not released:
        return "scheduled"
    return "occurred" if len(released) == 1 else "updated"


def payload_of(row: EventRow) -> dict[str, JsonValue]:
    """Expected values, overlaid with what is released, and the differences of the two; nothing else has a key."""
    payload: dict[str, JsonValue] = dict(row.expected)
    for release in row.releases:
        payload |= release.values
    for actual, expected, name in _OUTCOMES:
        payload |= _surprise(payload.get(actual), payload.get(expected), name)
    return payload


def event_shown(row: EventRow | NewsRow, view: EventView = "full") -> EventShown:
    """An event; `full` adds the payload, and to calendar events their releases one by one."""
    payload = payload_of(row) if isinstance(row, EventRow) else article_payload(row)
    full, scheduled = view == "full", isinstance(row, EventRow)
    releases = [
        ReleaseShown(available_utc=moment_text(release.available_ns), values=dict(release.values))
        for release in (row.releases if isinstance(row, EventRow) else ())
    ]
    return EventShown(
        event_id=row.event_id if isinstance(row, EventRow) else row.id,
        event_type=row.event_type,
        title=row.title,
        time_utc=moment_text(row.time_ns if isinstance(row, EventRow) else row.published_ns),
        importance=row.importance,
        status=status_of(row),
        tickers=list(row.tickers),
        country=row.country if isinstance(row, EventRow) else ("US" if row.market == "us" else None),
        market=row.market,
        snippet=_shortened(_outcome_text(payload) if isinstance(row, EventRow) else row.description),
        source=row.source,
        releases=releases if full and scheduled else UNSET,
        payload=payload if full else UNSET,
    )


def article_payload(row: NewsRow) -> dict[str, JsonValue]:
    """Fields of an article that its event has as payload."""
    return {
        "article_url": row.article_url,
        "author": row.author,
        "description": row.description or None,
        "image_url": row.image_url or None,
        "keywords": list(row.keywords),
        "publisher": dict(row.publisher),
        "insights": [dict(insight) for insight in row.insights],
    }


def _surprise(actual: JsonValue, expected: JsonValue, name: str) -> dict[str, JsonValue]:
    """Actual − expected, and the same in percent of what was expected; empty where one of them is no number."""
    if not (_is_number(actual) and _is_number(expected)):
        return {}
    difference = round(actual - expected, 6)
    return {name: difference} | ({f"{name}_pct": round(100 * (actual - expected) / abs(expected), 4)} if expected else {})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def _outcome_text(payload: Mapping[str, JsonValue]) -> str:
    said = [
        f"{label} {value if isinstance(value, str) else json.dumps(value)}"
        for name, label in _SAID
        if isinstance(value := payload.get(name), str | int | float)
    ]
    return ", ".join(said)


def _shortened(text: str) -> str:
    """At most `SNIPPET_CHARACTERS`; an ellipsis says that there is more."""
    return text if len(text) <= SNIPPET_CHARACTERS else f"{text[: SNIPPET_CHARACTERS - 1]}…"
