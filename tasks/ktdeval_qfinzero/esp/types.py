"""Arguments and answers of the event calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from ktdeval_qfinzero.data.rows import EventType, Importance, Market
from ktdeval_qfinzero.instruments import TICKER
from ktdeval_qfinzero.schemas import Answer, Arguments, Row, Shown, joined, said

Mode = Literal["upcoming", "just_happened", "window"]
EventView = Literal["compact", "full"]
Status = Literal["scheduled", "occurred", "updated"]
Change = Literal["announced", "changed", "released", "revised", "published"]
Reason = Literal["HIGH_IMPORTANCE", "TIME_IMMINENT", "MATCH_WATCHLIST"]

# ---- arguments

MomentText = Annotated[str, Meta(max_length=40)]
Minutes = Annotated[int, Meta(ge=1, le=527_040)]
PageLength = Annotated[int, Meta(ge=1, le=500)]
Identifier = Annotated[str, Meta(min_length=1, max_length=200)]  #: An id in a path, or words to look for
EventTypes = Annotated[list[EventType], Meta(max_length=6), said("Only events of these types; all when absent or empty.")]
Markets = Annotated[list[Market], Meta(max_length=3), said("Only events of these markets; all when absent or empty.")]
Least = Annotated[Importance, Meta(), said("The least importance that events are to have.")]
View = Annotated[EventView, Meta(), said("compact: without payload and releases; full: with them.")]
Cursor = Annotated[
    str,
    Meta(max_length=500),
    said("The `next_cursor` of the answer before, with the other arguments unchanged; absent for the first page."),
]
StreamCursor = Annotated[
    str,
    Meta(max_length=500),
    said("The `next_cursor` of the answer before: gives what is known since. HEAD or absent: the last five minutes."),
]
_TICKERS = Annotated[list[Annotated[str, Meta(pattern=f"^{TICKER.pattern}$")]], Meta(max_length=100)]


def _listed(meaning: str) -> Meta:
    return said(f"{meaning} Tickers in capitals, such as AVLN; those that are not listed are named under `unknown`.")


def _moment(meaning: str) -> Meta:
    return said(f"{meaning} A moment such as 2025-01-06T14:30:00Z (UTC without an offset), or a day.")


def _at_most(what: str) -> Meta:
    return said(f"{what} of one answer at most; `next_cursor` leads to the rest.")


Tickers = Annotated[_TICKERS, _listed("Only events about one of these.")]
Events = Annotated[PageLength, _at_most("Events")]
StartDate = Annotated[MomentText, _moment("First day (UTC); the clock's day when absent.")]
EndDate = Annotated[MomentText, _moment("Last day (UTC), which is included; seven days after the first when absent.")]


class EventsQuery(Arguments):
    """Events by time and filters."""

    mode: Annotated[
        Mode,
        Meta(),
        said(
            "upcoming: after the clock, at most horizon_minutes; just_happened: up to the clock, as far back; "
            "window: from start_utc to end_utc."
        ),
    ] = "upcoming"
    start_utc: Annotated[MomentText, _moment("Mode window: the window's first moment.")] | None = None
    end_utc: Annotated[MomentText, _moment("Mode window: the first moment after the window; a day is included whole.")] | None = (
        None
    )
    horizon_minutes: Annotated[Minutes, said("Modes upcoming and just_happened: how far to look from the clock.")] = 60
    event_types: EventTypes | None = None
    tickers: Tickers | None = None
    markets: Markets | None = None
    min_importance: Least = "low"
    limit: Events = 50
    cursor: Cursor | None = None
    view: View = "compact"


class OneEvent(Arguments):
    """An event by id."""

    event_id: Annotated[Identifier, said("Id of the event, as other calls give it.")]


class StreamQuery(Arguments):
    """Updates since a cursor."""

    cursor: StreamCursor | None = None
    event_types: EventTypes | None = None
    tickers: Tickers | None = None
    markets: Markets | None = None
    min_importance: Least = "low"
    limit: Events = 50
    view: View = "full"


class TriggersQuery(Arguments):
    """Events to come."""

    tickers: (
        Annotated[_TICKERS, _listed("The watchlist: only events about one of these, and those about the whole market.")] | None
    ) = None
    markets: Markets | None = None
    min_importance: Least = "medium"
    horizon_minutes: Annotated[Minutes, said("How far to look ahead of the clock.")] = 1440
    limit: Annotated[PageLength, _at_most("Triggers")] = 5
    cursor: Cursor | None = None


class TimelineQuery(Arguments):
    """Buckets of events."""

    tickers: Tickers | None = None
    event_types: EventTypes | None = None
    markets: Markets | None = None
    min_importance: Least = "low"
    start_utc: Annotated[MomentText, _moment("First moment; six hours before the clock when absent.")] | None = None
    end_utc: (
        Annotated[MomentText, _moment("First moment after the window (a day is whole); six hours after the clock when absent.")]
        | None
    ) = None
    bucket_minutes: Annotated[Minutes, said("Width of a bucket; a timeline has at most 1000 of them and 366 days.")] = 60
    limit: Annotated[PageLength, _at_most("Events listed (counts are exact whatever it is)")] = 200
    cursor: Cursor | None = None


class EconomicCalendar(Arguments):
    """Macroeconomic releases of some days."""

    start_date: StartDate | None = None
    end_date: EndDate | None = None
    markets: Markets | None = None
    min_importance: Least = "low"
    limit: Events = 100
    cursor: Cursor | None = None
    view: View = "full"


class EarningsCalendar(Arguments):
    """Earnings reports of some days."""

    start_date: StartDate | None = None
    end_date: EndDate | None = None
    tickers: Tickers | None = None
    markets: Markets | None = None
    min_importance: Least = "low"
    limit: Events = 100
    cursor: Cursor | None = None
    view: View = "full"


class CoverageQuery(Arguments):
    """Days around the clock."""

    days: Annotated[
        Annotated[int, Meta(ge=1, le=366)], said("Days to look at on each side of the clock's day (UTC), which is looked at too.")
    ] = 30


class NewsQuery(Arguments):
    """Articles by words."""

    tickers: Annotated[_TICKERS, _listed("Only articles about one of these.")] | None = None
    markets: Markets | None = None
    start_utc: Annotated[MomentText, _moment("First moment of publication; seven days before the end when absent.")] | None = None
    end_utc: (
        Annotated[MomentText, _moment("First moment after the window (a day is included whole); up to the clock when absent.")]
        | None
    ) = None
    keyword: (
        Annotated[Identifier, said("Words that must all be in title, description or body; whole words, case aside.")] | None
    ) = None
    publisher: Annotated[Identifier, said("Part of the publisher's name, case aside.")] | None = None
    limit: Annotated[PageLength, _at_most("Articles")] = 50
    cursor: Cursor | None = None
    view: View = "compact"


class OneArticle(Arguments):
    """An article by id."""

    news_id: Annotated[Identifier, said("Id of the article.")]


class Nothing(Arguments):
    """No arguments."""


Filters = EventsQuery | StreamQuery | TriggersQuery | TimelineQuery | EconomicCalendar | EarningsCalendar | NewsQuery
"""Calls that choose among events."""

# ---- answers

Count = Annotated[int, Meta(ge=0)]
Unknown = Annotated[list[str], said("Tickers asked for that are not listed as of the clock.")]
NextCursor = Annotated[str | None, said("Cursor of the next page; null when this is the last.")]


class ReleaseShown(Row):
    """Values that came out together."""

    available_utc: Annotated[str, said("When the values became known.")]
    values: Annotated[dict[str, Any], said("The values, by name.")]


class EventShown(Row):
    """An event (table 4 of the QFinZero paper)."""

    event_id: Annotated[str, said("Id; of an article the id of the article.")]
    event_type: Annotated[EventType, said("What kind of event it is.")]
    title: Annotated[str, said("Title.")]
    time_utc: Annotated[str, said("When it is due, or was published.")]
    importance: Annotated[Importance, said("Importance.")]
    status: Annotated[Status, said("scheduled: no outcome is known yet; occurred: it is; updated: it has been revised since.")]
    tickers: Annotated[list[str], said("Whom it is about; empty for what concerns the whole market.")]
    country: Annotated[str | None, said("Country that it concerns; null where it is none in particular.")]
    market: Annotated[Market, said("Market that it concerns.")]
    snippet: Annotated[str, said("The outcome, or the article, in short.")]
    source: Annotated[str, said("Where it comes from.")]
    releases: (
        Annotated[list[ReleaseShown], said("Full view, calendar events: what was released so far, oldest first.")] | UnsetType
    ) = UNSET
    payload: (
        Annotated[
            dict[str, Any],
            said(
                "Full view: values known so far by name. Of a calendar event those expected, overlaid with those released, "
                "and surprise = actual − expected, surprise_pct in percent of |expected|; what is not released has no key. "
                "Of an article its author, address, publisher, keywords and insights."
            ),
        ]
        | UnsetType
    ) = UNSET


class _Known(Row):
    known_utc: Annotated[str, said("When this became known; what the stream is sorted by, with the id.")]
    change: Annotated[
        Change,
        said(
            "announced: it stands in the calendar; changed: estimate or date, before it is due; released, "
            "revised: its outcome came out; published: an article."
        ),
    ]


UpdateShown = joined("UpdateShown", _Known, EventShown)  #: An event as it stood when something became known of it


class Trigger(Row):
    """An event to come."""

    trigger_time_utc: Annotated[str, said("When the event is due.")]
    event_id: Annotated[str, said("Its id.")]
    reason_codes: Annotated[
        list[Reason], said("TIME_IMMINENT: due in less than 30 minutes; MATCH_WATCHLIST: about a ticker asked for.")
    ]
    event: EventShown


class Bucket(Row):
    """Events of a stretch of time."""

    bucket_start_utc: Annotated[str, said("First moment of the bucket.")]
    bucket_end_utc: Annotated[str, said("First moment after it.")]
    count: Annotated[Count, said("Events in it; exact, whichever of them this page lists.")]
    events: Annotated[list[EventShown], said("Its events that this page lists, compact.")]


class EventsPage(Answer):
    """A page of events."""

    events: Annotated[list[EventShown], said("By time and id.")]
    unknown: Unknown
    next_cursor: NextCursor


EventAnswer = joined("EventAnswer", Answer, EventShown)  #: One event in full


class StreamPage(Answer):
    """A page of the stream."""

    events: Annotated[list[Any], said("What became known, oldest first, each event as it stood then."), Shown(UpdateShown)]
    unknown: Unknown
    more: Annotated[bool, said("Whether the next call gives more at once, without the clock going forward.")]
    next_cursor: Annotated[str, said("Where the stream goes on; never null, for it has no end.")]


class TriggersPage(Answer):
    """A page of triggers."""

    triggers: Annotated[list[Trigger], said("Soonest first.")]
    unknown: Unknown
    next_cursor: NextCursor


class Timeline(Answer):
    """Buckets of a window."""

    total: Annotated[Count, said("Events of all buckets.")]
    buckets: Annotated[list[Bucket], said("All buckets of the window in order, empty ones too; the last may be shorter.")]
    unknown: Unknown
    next_cursor: Annotated[str | None, said("Cursor of the page that lists further events; null when all are listed.")]


class Article(Answer):
    """An article with its whole text."""

    id: Annotated[str, said("Id.")]
    title: Annotated[str, said("Title.")]
    published_utc: Annotated[str, said("When it was published.")]
    tickers: Annotated[list[str], said("Whom it is about.")]
    article_url: Annotated[str, said("Link to the original.")]
    author: Annotated[str, said("Author.")]
    description: Annotated[str | None, said("Short summary.")]
    image_url: Annotated[str | None, said("Image.")]
    keywords: Annotated[list[str], said("The publisher's keywords.")]
    publisher: Annotated[dict[str, Any], said("Name, homepage_url, logo_url.")]
    insights: Annotated[list[dict[str, Any]], said("Ticker, sentiment and reasoning of each.")]
    body: Annotated[str, said("The whole text.")]


class CalendarCovered(Row):
    """Content of a calendar."""

    event_type: Annotated[str, said("Type.")]
    count: Annotated[Count, said("Events due on these days.")]
    days: Annotated[Count, said("Days (UTC) with at least one.")]
    scheduled: Annotated[Count, said("Events without an outcome.")]
    occurred: Annotated[Count, said("Events with an outcome that stands.")]
    updated: Annotated[Count, said("Events with a revised outcome.")]
    first_time_utc: Annotated[str | None, said("When the first is due; null where there is none.")]
    last_time_utc: Annotated[str | None, said("When the last is due; null where there is none.")]


class Coverage(Answer):
    """Content of the calendars for some days."""

    first_day: Annotated[str, said("First day looked at.")]
    last_day: Annotated[str, said("Last day looked at.")]
    calendars: Annotated[list[CalendarCovered], said("One for each type of calendar.")]


class SourceShown(Row):
    """Newest of a source."""

    source: Annotated[str, said("macro_calendar, earnings or news.")]
    latest_utc: Annotated[str | None, said("When something last became known, of whatever kind of change.")]
    age_minutes: Annotated[int | None, said("Whole minutes from then to the clock.")]


class Freshness(Answer):
    """When each source last had something new."""

    sources: Annotated[list[SourceShown], said("One for each source.")]
