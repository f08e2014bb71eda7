"""Answers of the operations on events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ktdeval_qfinzero.data.rows import EventType, Importance, Market
from ktdeval_qfinzero.schemas import make_description

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
    """Values that came out together.

    available_utc: When the values became known.
    values: The values, by name.
    """

    available_utc: str
    values: Mapping[str, Any]


class EventShown(msgspec.Struct, kw_only=True):
    """An event (table 4 of the QFinZero paper).

    event_id: Id; of an article the id of the article.
    event_type: What kind of event it is.
    title: Title.
    time_utc: When it is due, or was published.
    importance: Importance.
    status: scheduled: no outcome is known yet; occurred: it is; updated: it has been revised since.
    tickers: Whom it is about; empty for what concerns the whole market.
    country: Country that it concerns; null where it is none in particular.
    market: Market that it concerns.
    snippet: The outcome, or the article, in short.
    source: Where it comes from.
    releases: Full view, calendar events: what was released so far, oldest first.
    payload: Full view: values known so far by name. Of a calendar event those expected, overlaid
        with those released, and surprise = actual − expected, surprise_pct in percent of
        |expected|; what is not released has no key. Of an article its author, address, publisher,
        keywords and insights.
    """

    event_id: str
    event_type: EventType
    title: str
    time_utc: str
    importance: Importance
    status: Status
    tickers: list[str]
    country: str | None
    market: Market
    snippet: str
    source: str
    releases: list[ReleaseShown] | UnsetType = UNSET
    payload: Mapping[str, Any] | UnsetType = UNSET


class UpdateShown(EventShown):
    """An event as it stood when something became known of it. Its own fields come before those of
    the event, which are keyword-only.

    known_utc: When this became known; what the stream is sorted by, with the id.
    change: announced: it stands in the calendar; changed: estimate or date, before it is due;
        released, revised: its outcome came out; published: an article.
    """

    known_utc: str
    change: Change


class Trigger(msgspec.Struct):
    """An event to come.

    trigger_time_utc: When the event is due.
    event_id: Its id.
    reason_codes: TIME_IMMINENT: due in less than 30 minutes; MATCH_WATCHLIST: about a ticker asked
        for.
    """

    trigger_time_utc: str
    event_id: str
    reason_codes: list[Reason]
    event: EventShown


class Bucket(msgspec.Struct):
    """Events of a stretch of time.

    bucket_start_utc: First moment of the bucket.
    bucket_end_utc: First moment after it.
    count: Events in it; exact, whichever of them this page lists.
    events: Its events that this page lists, compact.
    """

    bucket_start_utc: str
    bucket_end_utc: str
    count: Count
    events: list[EventShown]


class Found(msgspec.Struct, kw_only=True):
    """A page of what was asked for. Own fields of a subclass come before these."""

    unknown: Unknown
    next_cursor: NextCursor


class EventsPage(Found):
    """A page of events.

    events: By time and id.
    """

    events: list[EventShown]


class StreamPage(msgspec.Struct):
    """A page of the stream.

    events: What became known, oldest first, each event as it stood then.
    more: Whether the next call gives more at once, without the clock going forward.
    next_cursor: Where the stream goes on; never null, for it has no end.
    """

    events: list[UpdateShown]
    unknown: Unknown
    more: bool
    next_cursor: str


class TriggersPage(Found):
    """A page of triggers.

    triggers: Soonest first.
    """

    triggers: list[Trigger]


class Timeline(msgspec.Struct):
    """Buckets of a window.

    total: Events of all buckets.
    buckets: All buckets of the window in order, empty ones too; the last may be shorter.
    next_cursor: Cursor of the page that lists further events; null when all are listed.
    """

    total: Count
    buckets: list[Bucket]
    unknown: Unknown
    next_cursor: str | None


class Article(msgspec.Struct):
    """An article with its whole text.

    id: Id.
    title: Title.
    published_utc: When it was published.
    tickers: Whom it is about.
    article_url: Link to the original.
    author: Author.
    description: Short summary.
    image_url: Image.
    keywords: The publisher's keywords.
    publisher: Name, homepage_url, logo_url.
    insights: Ticker, sentiment and reasoning of each.
    body: The whole text.
    """

    id: str
    title: str
    published_utc: str
    tickers: list[str]
    article_url: str
    author: str
    description: str | None
    image_url: str | None
    keywords: list[str]
    publisher: Mapping[str, Any]
    insights: list[Mapping[str, Any]]
    body: str


class CalendarCovered(msgspec.Struct):
    """Content of a calendar.

    event_type: Type.
    count: Events due on these days.
    days: Days (UTC) with at least one.
    scheduled: Events without an outcome.
    occurred: Events with an outcome that stands.
    updated: Events with a revised outcome.
    first_time_utc: When the first is due; null where there is none.
    last_time_utc: When the last is due; null where there is none.
    """

    event_type: str
    count: Count
    days: Count
    scheduled: Count
    occurred: Count
    updated: Count
    first_time_utc: str | None
    last_time_utc: str | None


class Coverage(msgspec.Struct):
    """Content of the calendars for some days.

    first_day: First day looked at.
    last_day: Last day looked at.
    calendars: One for each type of calendar.
    """

    first_day: str
    last_day: str
    calendars: list[CalendarCovered]


class SourceShown(msgspec.Struct):
    """Newest of a source.

    source: macro_calendar, earnings or news.
    latest_utc: When something last became known, of whatever kind of change.
    age_minutes: Whole minutes from then to the clock.
    """

    source: str
    latest_utc: str | None
    age_minutes: int | None


class Freshness(msgspec.Struct):
    """When each source last had something new.

    sources: One for each source.
    """

    sources: list[SourceShown]
