"""Answers of the event calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ktdeval_qfinzero.data.rows import EventType, Importance, Market
from ktdeval_qfinzero.schemas import Answer, AsOf, make_description

Status = Literal["scheduled", "occurred", "updated"]
Change = Literal["announced", "changed", "released", "revised", "published"]
Reason = Literal["HIGH_IMPORTANCE", "TIME_IMMINENT", "MATCH_WATCHLIST"]

Count = Annotated[int, Meta(ge=0)]
Unknown = Annotated[
    list[str], make_description("Tickers asked for that are not listed as of the clock.")
]
NextCursor = Annotated[
    str | None, make_description("Cursor of the next page; null when this is the last.")
]


class ReleaseShown(msgspec.Struct):
    """Values that came out together."""

    available_utc: Annotated[str, make_description("When the values became known.")]
    values: Annotated[Mapping[str, Any], make_description("The values, by name.")]


class EventShown(msgspec.Struct, kw_only=True):
    """An event (table 4 of the QFinZero paper)."""

    event_id: Annotated[str, make_description("Id; of an article the id of the article.")]
    event_type: Annotated[EventType, make_description("What kind of event it is.")]
    title: Annotated[str, make_description("Title.")]
    time_utc: Annotated[str, make_description("When it is due, or was published.")]
    importance: Annotated[Importance, make_description("Importance.")]
    status: Annotated[
        Status,
        make_description(
            "scheduled: no outcome is known yet; occurred: it is; updated: it has been "
            "revised since."
        ),
    ]
    tickers: Annotated[
        list[str], make_description("Whom it is about; empty for what concerns the whole market.")
    ]
    country: Annotated[
        str | None,
        make_description("Country that it concerns; null where it is none in particular."),
    ]
    market: Annotated[Market, make_description("Market that it concerns.")]
    snippet: Annotated[str, make_description("The outcome, or the article, in short.")]
    source: Annotated[str, make_description("Where it comes from.")]
    releases: (
        Annotated[
            list[ReleaseShown],
            make_description("Full view, calendar events: what was released so far, oldest first."),
        ]
        | UnsetType
    ) = UNSET
    payload: (
        Annotated[
            Mapping[str, Any],
            make_description(
                "Full view: values known so far by name. Of a calendar event those "
                "expected, overlaid with those released, and surprise = actual − expected, "
                "surprise_pct in percent of |expected|; what is not released has no key. Of "
                "an article its author, address, publisher, keywords and insights."
            ),
        ]
        | UnsetType
    ) = UNSET


class UpdateShown(EventShown):
    """An event as it stood when something became known of it. Its own fields come before those of
    the event, which are keyword-only.
    """

    known_utc: Annotated[
        str, make_description("When this became known; what the stream is sorted by, with the id.")
    ]
    change: Annotated[
        Change,
        make_description(
            "announced: it stands in the calendar; changed: estimate or date, before it "
            "is due; released, revised: its outcome came out; published: an article."
        ),
    ]


class Trigger(msgspec.Struct):
    """An event to come."""

    trigger_time_utc: Annotated[str, make_description("When the event is due.")]
    event_id: Annotated[str, make_description("Its id.")]
    reason_codes: Annotated[
        list[Reason],
        make_description(
            "TIME_IMMINENT: due in less than 30 minutes; MATCH_WATCHLIST: about a ticker asked for."
        ),
    ]
    event: EventShown


class Bucket(msgspec.Struct):
    """Events of a stretch of time."""

    bucket_start_utc: Annotated[str, make_description("First moment of the bucket.")]
    bucket_end_utc: Annotated[str, make_description("First moment after it.")]
    count: Annotated[
        Count, make_description("Events in it; exact, whichever of them this page lists.")
    ]
    events: Annotated[
        list[EventShown], make_description("Its events that this page lists, compact.")
    ]


class Found(Answer, kw_only=True):
    """A page of what was asked for. Own fields of a subclass come before these."""

    unknown: Unknown
    next_cursor: NextCursor


class EventsPage(Found):
    """A page of events."""

    events: Annotated[list[EventShown], make_description("By time and id.")]


class EventAnswer(EventShown):
    """One event in full. The clock comes before the event's fields, which are keyword-only."""

    as_of_ts: AsOf


class StreamPage(Answer):
    """A page of the stream."""

    events: Annotated[
        list[UpdateShown],
        make_description("What became known, oldest first, each event as it stood then."),
    ]
    unknown: Unknown
    more: Annotated[
        bool,
        make_description(
            "Whether the next call gives more at once, without the clock going forward."
        ),
    ]
    next_cursor: Annotated[
        str, make_description("Where the stream goes on; never null, for it has no end.")
    ]


class TriggersPage(Found):
    """A page of triggers."""

    triggers: Annotated[list[Trigger], make_description("Soonest first.")]


class Timeline(Answer):
    """Buckets of a window."""

    total: Annotated[Count, make_description("Events of all buckets.")]
    buckets: Annotated[
        list[Bucket],
        make_description(
            "All buckets of the window in order, empty ones too; the last may be shorter."
        ),
    ]
    unknown: Unknown
    next_cursor: Annotated[
        str | None,
        make_description("Cursor of the page that lists further events; null when all are listed."),
    ]


class Article(Answer):
    """An article with its whole text."""

    id: Annotated[str, make_description("Id.")]
    title: Annotated[str, make_description("Title.")]
    published_utc: Annotated[str, make_description("When it was published.")]
    tickers: Annotated[list[str], make_description("Whom it is about.")]
    article_url: Annotated[str, make_description("Link to the original.")]
    author: Annotated[str, make_description("Author.")]
    description: Annotated[str | None, make_description("Short summary.")]
    image_url: Annotated[str | None, make_description("Image.")]
    keywords: Annotated[list[str], make_description("The publisher's keywords.")]
    publisher: Annotated[Mapping[str, Any], make_description("Name, homepage_url, logo_url.")]
    insights: Annotated[
        list[Mapping[str, Any]], make_description("Ticker, sentiment and reasoning of each.")
    ]
    body: Annotated[str, make_description("The whole text.")]


class CalendarCovered(msgspec.Struct):
    """Content of a calendar."""

    event_type: Annotated[str, make_description("Type.")]
    count: Annotated[Count, make_description("Events due on these days.")]
    days: Annotated[Count, make_description("Days (UTC) with at least one.")]
    scheduled: Annotated[Count, make_description("Events without an outcome.")]
    occurred: Annotated[Count, make_description("Events with an outcome that stands.")]
    updated: Annotated[Count, make_description("Events with a revised outcome.")]
    first_time_utc: Annotated[
        str | None, make_description("When the first is due; null where there is none.")
    ]
    last_time_utc: Annotated[
        str | None, make_description("When the last is due; null where there is none.")
    ]


class Coverage(Answer):
    """Content of the calendars for some days."""

    first_day: Annotated[str, make_description("First day looked at.")]
    last_day: Annotated[str, make_description("Last day looked at.")]
    calendars: Annotated[list[CalendarCovered], make_description("One for each type of calendar.")]


class SourceShown(msgspec.Struct):
    """Newest of a source."""

    source: Annotated[str, make_description("macro_calendar, earnings or news.")]
    latest_utc: Annotated[
        str | None,
        make_description("When something last became known, of whatever kind of change."),
    ]
    age_minutes: Annotated[int | None, make_description("Whole minutes from then to the clock.")]


class Freshness(Answer):
    """When each source last had something new."""

    sources: Annotated[list[SourceShown], make_description("One for each source.")]
