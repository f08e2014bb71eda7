"""Arguments of the operations on events."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from ktdeval_qfinzero.data.rows import EventType, Importance, Market
from ktdeval_qfinzero.instruments import TICKER
from ktdeval_qfinzero.schemas import DESCRIBED_LAST, Arguments, make_description

EventView = Annotated[Literal["compact", "full"], DESCRIBED_LAST]
Mode = Annotated[Literal["upcoming", "just_happened", "window"], DESCRIBED_LAST]
MomentText = Annotated[str, Meta(max_length=40), DESCRIBED_LAST]
Minutes = Annotated[int, Meta(ge=1, le=366 * 1440), DESCRIBED_LAST]
Days = Annotated[int, Meta(ge=1, le=366), DESCRIBED_LAST]
PageLength = Annotated[int, Meta(ge=1, le=500), DESCRIBED_LAST]
Identifier = Annotated[str, Meta(min_length=1, max_length=200), DESCRIBED_LAST]
CursorText = Annotated[str, Meta(max_length=500), DESCRIBED_LAST]
OneTicker = Annotated[str, Meta(pattern=f"^{TICKER.pattern}$")]
ManyTickers = Annotated[list[OneTicker], Meta(max_length=100), DESCRIBED_LAST]
EventTypes = Annotated[
    list[EventType],
    Meta(max_length=6),
    DESCRIBED_LAST,
    make_description("Only events of these types; all when absent or empty."),
]
Markets = Annotated[
    list[Market],
    Meta(max_length=3),
    DESCRIBED_LAST,
    make_description("Only events of these markets; all when absent or empty."),
]
Least = Annotated[
    Importance, DESCRIBED_LAST, make_description("The least importance that events are to have.")
]
View = Annotated[
    EventView, make_description("compact: without payload and releases; full: with them.")
]
Cursor = Annotated[
    CursorText,
    make_description(
        "The `next_cursor` of the answer before, with the other arguments unchanged; absent for"
        " the first page."
    ),
]
Tickers = Annotated[
    ManyTickers,
    make_description(
        "Only events about one of these. Tickers in capitals; those that are not"
        " listed are named under `unknown`."
    ),
]
Events = Annotated[
    PageLength, make_description("Events of one answer at most; `next_cursor` leads to the rest.")
]


class EventsQuery(Arguments, kw_only=True):
    """Events by time and filters.

    mode: upcoming: after the clock, at most horizon_minutes; just_happened: up to the clock, as far
        back; window: from start_utc to end_utc.
    start_utc: Mode window: the window's first moment. A moment YYYY-MM-DDTHH:MM:SSZ (UTC without an
        offset), or a day.
    end_utc: Mode window: the first moment after the window; a day is included whole. A moment YYYY-
        MM-DDTHH:MM:SSZ (UTC without an offset), or a day.
    horizon_minutes: Modes upcoming and just_happened: how far to look from the clock.
    """

    mode: Mode = "upcoming"
    start_utc: MomentText | None = None
    end_utc: MomentText | None = None
    horizon_minutes: Minutes = 60
    event_types: EventTypes | None = None
    tickers: Tickers | None = None
    markets: Markets | None = None
    min_importance: Least = "low"
    limit: Events = 50
    cursor: Cursor | None = None
    view: View = "compact"


class OneEvent(Arguments, kw_only=True):
    """An event by id.

    event_id: Id of the event, as other calls give it.
    """

    event_id: Identifier


class StreamQuery(Arguments, kw_only=True):
    """Updates since a cursor.

    cursor: The `next_cursor` of the answer before: gives what is known since. HEAD or absent: the
        last five minutes.
    """

    cursor: CursorText | None = None
    event_types: EventTypes | None = None
    tickers: Tickers | None = None
    markets: Markets | None = None
    min_importance: Least = "low"
    limit: Events = 50
    view: View = "full"


class TriggersQuery(Arguments, kw_only=True):
    """Events to come.

    tickers: The watchlist: only events about one of these, and those about the whole market.
        Tickers in capitals; those that are not listed are named under `unknown`.
    horizon_minutes: How far to look ahead of the clock.
    limit: Triggers of one answer at most; `next_cursor` leads to the rest.
    """

    tickers: ManyTickers | None = None
    markets: Markets | None = None
    min_importance: Least = "medium"
    horizon_minutes: Minutes = 1440
    limit: PageLength = 5
    cursor: Cursor | None = None


class TimelineQuery(Arguments, kw_only=True):
    """Buckets of events.

    start_utc: First moment; six hours before the clock when absent. A moment YYYY-MM-DDTHH:MM:SSZ
        (UTC without an offset), or a day.
    end_utc: First moment after the window (a day is whole); six hours after the clock when absent.
        A moment YYYY-MM-DDTHH:MM:SSZ (UTC without an offset), or a day.
    bucket_minutes: Width of a bucket; a timeline has at most 1000 of them and 366 days.
    limit: Events listed (counts are exact whatever it is) of one answer at most; `next_cursor`
        leads to the rest.
    """

    tickers: Tickers | None = None
    event_types: EventTypes | None = None
    markets: Markets | None = None
    min_importance: Least = "low"
    start_utc: MomentText | None = None
    end_utc: MomentText | None = None
    bucket_minutes: Minutes = 60
    limit: PageLength = 200
    cursor: Cursor | None = None


class CalendarQuery(Arguments, kw_only=True):
    """Pages of a calendar. Own arguments of a subclass come before these."""

    markets: Markets | None = None
    min_importance: Least = "low"
    limit: Events = 100
    cursor: Cursor | None = None
    view: View = "full"


class CalendarDays(CalendarQuery):
    """Days of a calendar.

    start_date: First day (UTC); the clock's day when absent. A moment YYYY-MM-DDTHH:MM:SSZ (UTC
        without an offset), or a day.
    end_date: Last day (UTC), which is included; seven days after the first when absent. A moment
        YYYY-MM-DDTHH:MM:SSZ (UTC without an offset), or a day.
    """

    start_date: MomentText | None = None
    end_date: MomentText | None = None


class EconomicCalendar(CalendarDays):
    """Macroeconomic releases of some days."""


class EarningsCalendar(CalendarDays):
    """Earnings reports of some days."""

    tickers: Tickers | None = None


class CoverageQuery(Arguments, kw_only=True):
    """Days around the clock.

    days: Days to look at on each side of the clock's day (UTC), which is looked at too.
    """

    days: Days = 30


class NewsQuery(Arguments, kw_only=True):
    """Articles by words.

    tickers: Only articles about one of these. Tickers in capitals; those that are not
        listed are named under `unknown`.
    start_utc: First moment of publication; seven days before the end when absent. A moment YYYY-MM-
        DDTHH:MM:SSZ (UTC without an offset), or a day.
    end_utc: First moment after the window (a day is included whole); up to the clock when absent. A
        moment YYYY-MM-DDTHH:MM:SSZ (UTC without an offset), or a day.
    keyword: Words that must all be in title, description or body; whole words, case aside.
    publisher: Part of the publisher's name, case aside.
    limit: Articles of one answer at most; `next_cursor` leads to the rest.
    """

    tickers: ManyTickers | None = None
    markets: Markets | None = None
    start_utc: MomentText | None = None
    end_utc: MomentText | None = None
    keyword: Identifier | None = None
    publisher: Identifier | None = None
    limit: PageLength = 50
    cursor: Cursor | None = None
    view: View = "compact"


class OneArticle(Arguments, kw_only=True):
    """An article by id.

    news_id: Id of the article.
    """

    news_id: Identifier
