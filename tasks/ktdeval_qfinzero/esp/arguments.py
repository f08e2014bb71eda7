"""Arguments of the event calls."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from ktdeval_qfinzero.data.rows import EventType, Importance, Market
from ktdeval_qfinzero.instruments import TICKER
from ktdeval_qfinzero.schemas import Arguments, said

Mode = Literal["upcoming", "just_happened", "window"]
EventView = Literal["compact", "full"]
Status = Literal["scheduled", "occurred", "updated"]
Change = Literal["announced", "changed", "released", "revised", "published"]
Reason = Literal["HIGH_IMPORTANCE", "TIME_IMMINENT", "MATCH_WATCHLIST"]

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
