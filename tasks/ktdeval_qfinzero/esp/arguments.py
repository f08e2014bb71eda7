"""Arguments of the event calls."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from ktdeval_qfinzero.data.rows import EventType, Importance, Market
from ktdeval_qfinzero.instruments import TICKER
from ktdeval_qfinzero.schemas import Arguments, described_last

EventView = Literal["compact", "full"]

_LISTED: Final = (
    "Tickers in capitals, such as AVLN; those that are not listed are named under `unknown`."
)
_MOMENT: Final = "A moment such as 2025-01-06T14:30:00Z (UTC without an offset), or a day."
_PAGE: Final = "of one answer at most; `next_cursor` leads to the rest."

Mode = Literal["upcoming", "just_happened", "window"]
MomentText = Annotated[str, Meta(max_length=40)]
Minutes = Annotated[int, Meta(ge=1, le=366 * 1440)]
PageLength = Annotated[int, Meta(ge=1, le=500)]
Identifier = Annotated[str, Meta(min_length=1, max_length=200)]
ManyTypes = Annotated[list[EventType], Meta(max_length=6)]
EventTypes = Annotated[
    ManyTypes, described_last("Only events of these types; all when absent or empty.")
]
ManyMarkets = Annotated[list[Market], Meta(max_length=3)]
Markets = Annotated[
    ManyMarkets, described_last("Only events of these markets; all when absent or empty.")
]
Least = Annotated[Importance, described_last("The least importance that events are to have.")]
View = Annotated[
    EventView, described_last("compact: without payload and releases; full: with them.")
]
CursorText = Annotated[str, Meta(max_length=500)]
Cursor = Annotated[
    CursorText,
    described_last(
        "The `next_cursor` of the answer before, with the other arguments "
        "unchanged; absent for the first page."
    ),
]
StreamCursor = Annotated[
    CursorText,
    described_last(
        "The `next_cursor` of the answer before: gives what is known since. HEAD or "
        "absent: the last five minutes."
    ),
]
OneTicker = Annotated[str, Meta(pattern=f"^{TICKER.pattern}$")]
ManyTickers = Annotated[list[OneTicker], Meta(max_length=100)]
Tickers = Annotated[ManyTickers, described_last(f"Only events about one of these. {_LISTED}")]
Events = Annotated[PageLength, described_last(f"Events {_PAGE}")]
StartDate = Annotated[
    MomentText, described_last(f"First day (UTC); the clock's day when absent. {_MOMENT}")
]
EndDate = Annotated[
    MomentText,
    described_last(
        f"Last day (UTC), which is included; seven days after the first when absent. {_MOMENT}"
    ),
]


class EventsQuery(Arguments, kw_only=True):
    """Events by time and filters."""

    mode: Annotated[
        Mode,
        described_last(
            "upcoming: after the clock, at most horizon_minutes; just_happened: up to "
            "the clock, as far back; window: from start_utc to end_utc."
        ),
    ] = "upcoming"
    start_utc: (
        Annotated[MomentText, described_last(f"Mode window: the window's first moment. {_MOMENT}")]
        | None
    ) = None
    end_utc: (
        Annotated[
            MomentText,
            described_last(
                f"Mode window: the first moment after the window; a day is included whole. {_MOMENT}"
            ),
        ]
        | None
    ) = None
    horizon_minutes: Annotated[
        Minutes, described_last("Modes upcoming and just_happened: how far to look from the clock.")
    ] = 60
    event_types: EventTypes | None = None
    tickers: Tickers | None = None
    markets: Markets | None = None
    min_importance: Least = "low"
    limit: Events = 50
    cursor: Cursor | None = None
    view: View = "compact"


class OneEvent(Arguments, kw_only=True):
    """An event by id."""

    event_id: Annotated[Identifier, described_last("Id of the event, as other calls give it.")]


class StreamQuery(Arguments, kw_only=True):
    """Updates since a cursor."""

    cursor: StreamCursor | None = None
    event_types: EventTypes | None = None
    tickers: Tickers | None = None
    markets: Markets | None = None
    min_importance: Least = "low"
    limit: Events = 50
    view: View = "full"


class TriggersQuery(Arguments, kw_only=True):
    """Events to come."""

    tickers: (
        Annotated[
            ManyTickers,
            described_last(
                "The watchlist: only events about one of these, and those about the whole "
                f"market. {_LISTED}"
            ),
        ]
        | None
    ) = None
    markets: Markets | None = None
    min_importance: Least = "medium"
    horizon_minutes: Annotated[Minutes, described_last("How far to look ahead of the clock.")] = (
        1440
    )
    limit: Annotated[PageLength, described_last(f"Triggers {_PAGE}")] = 5
    cursor: Cursor | None = None


class TimelineQuery(Arguments, kw_only=True):
    """Buckets of events."""

    tickers: Tickers | None = None
    event_types: EventTypes | None = None
    markets: Markets | None = None
    min_importance: Least = "low"
    start_utc: (
        Annotated[
            MomentText,
            described_last(f"First moment; six hours before the clock when absent. {_MOMENT}"),
        ]
        | None
    ) = None
    end_utc: (
        Annotated[
            MomentText,
            described_last(
                "First moment after the window (a day is whole); six hours after the clock "
                f"when absent. {_MOMENT}"
            ),
        ]
        | None
    ) = None
    bucket_minutes: Annotated[
        Minutes,
        described_last("Width of a bucket; a timeline has at most 1000 of them and 366 days."),
    ] = 60
    limit: Annotated[
        PageLength, described_last(f"Events listed (counts are exact whatever it is) {_PAGE}")
    ] = 200
    cursor: Cursor | None = None


class CalendarQuery(Arguments, kw_only=True):
    """Pages of a calendar. Own arguments of a subclass come before these."""

    markets: Markets | None = None
    min_importance: Least = "low"
    limit: Events = 100
    cursor: Cursor | None = None
    view: View = "full"


class EconomicCalendar(CalendarQuery):
    """Macroeconomic releases of some days."""

    start_date: StartDate | None = None
    end_date: EndDate | None = None


class EarningsCalendar(CalendarQuery):
    """Earnings reports of some days."""

    start_date: StartDate | None = None
    end_date: EndDate | None = None
    tickers: Tickers | None = None


Reach = Annotated[int, Meta(ge=1, le=366)]


class CoverageQuery(Arguments, kw_only=True):
    """Days around the clock."""

    days: Annotated[
        Reach,
        described_last(
            "Days to look at on each side of the clock's day (UTC), which is looked at too."
        ),
    ] = 30


class NewsQuery(Arguments, kw_only=True):
    """Articles by words."""

    tickers: (
        Annotated[ManyTickers, described_last(f"Only articles about one of these. {_LISTED}")]
        | None
    ) = None
    markets: Markets | None = None
    start_utc: (
        Annotated[
            MomentText,
            described_last(
                f"First moment of publication; seven days before the end when absent. {_MOMENT}"
            ),
        ]
        | None
    ) = None
    end_utc: (
        Annotated[
            MomentText,
            described_last(
                "First moment after the window (a day is included whole); up to the clock "
                f"when absent. {_MOMENT}"
            ),
        ]
        | None
    ) = None
    keyword: (
        Annotated[
            Identifier,
            described_last(
                "Words that must all be in title, description or body; whole words, case aside."
            ),
        ]
        | None
    ) = None
    publisher: (
        Annotated[Identifier, described_last("Part of the publisher's name, case aside.")] | None
    ) = None
    limit: Annotated[PageLength, described_last(f"Articles {_PAGE}")] = 50
    cursor: Cursor | None = None
    view: View = "compact"


class OneArticle(Arguments, kw_only=True):
    """An article by id."""

    news_id: Annotated[Identifier, described_last("Id of the article.")]


class Nothing(Arguments, kw_only=True):
    """No arguments."""
