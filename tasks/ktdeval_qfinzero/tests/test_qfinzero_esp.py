"""The event services: what their calls give for a small market whose answers are worked out by
hand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.testing import not_empty
from ktdeval_qfinzero.catalogue import ESP as OPERATIONS
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import EventRelease, EventRow, row_key
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.esp.event_stream import SNIPPET_CHARACTERS, StoreQuery, event_rows, payload_of
from ktdeval_qfinzero.timestamps import MINUTE
from qfinzero_rows import ARTICLE_LISTS, EVENT_LISTS
from support.qfinzero.qfinzero_calls import DATASET, ask, ids, pages, refused, workspace
from support.qfinzero.qfinzero_memory import MemoryCalendars, MemoryNews
from support.qfinzero.qfinzero_synthetic import ALL_TIME
from support.qfinzero.qfinzero_world import at, events, news

JANUARY = {"mode": "window", "start_utc": "2025-01-01", "end_utc": "2025-02-28"}


def dataset(rows: list[EventRow] | None = None, articles: list[Any] | None = None) -> Dataset:
    return replace(DATASET, calendars=MemoryCalendars(rows or []), news=MemoryNews(articles or []))


# ---- query


@pytest.mark.parametrize(
    ("clock", "mode", "minutes", "expected"),
    [
        ("11:59", "upcoming", 1, True),
        ("11:59", "just_happened", 60, False),
        ("12:00", "upcoming", 60, False),
        ("12:00", "just_happened", 1, True),
    ],
)
def test_upcoming_is_after_the_clock_and_just_happened_is_up_to_it(
    clock: str, mode: str, minutes: int, expected: bool
) -> None:
    """Bracket reports on the 8th at 12:00: a minute before it is to come, at 12:00 it has
    happened.
    """
    answer = ask(
        workspace(f"2025-01-08T{clock}:00Z"),
        "ESP.events.query",
        mode=mode,
        horizon_minutes=minutes,
    )

    assert ids(answer) == ["earn_BRKT_2024Q4"] * expected, (clock, mode)


def test_a_window_has_events_to_come_and_news_published() -> None:
    answer = ask(workspace(), "ESP.events.query", **JANUARY)
    assert ids(answer) == [
        "news_0",
        "news_1",
        "earn_BRKT_2024Q4",
        "econ_claims_2025_01_10",
        "econ_cpi_2025_01",
        "earn_AVLN_2024Q4",
    ]
    assert answer["next_cursor"] is None


def test_a_window_includes_its_start_and_not_its_end_and_all_of_a_last_day() -> None:
    where = workspace("2025-02-28T00:00:00Z")
    due = {"event_types": ["macro_calendar"], "mode": "window", "start_utc": "2025-01-10T13:30:00Z"}

    assert ids(ask(where, "ESP.events.query", **due, end_utc="2025-01-15T13:30:00Z")) == [
        "econ_claims_2025_01_10"
    ]
    assert ids(ask(where, "ESP.events.query", **due, end_utc="2025-01-15T13:30:00.000000001Z"))[
        1:
    ] == ["econ_cpi_2025_01"]
    assert ids(ask(where, "ESP.events.query", **due, end_utc="2025-01-15"))[1:] == [
        "econ_cpi_2025_01"
    ]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"tickers": ["CSTL"]}, ["news_2", "news_3"]),
        ({"tickers": ["CSTL"], "min_importance": "high"}, ["news_3"]),
        (
            {"tickers": ["BRKT"], "event_types": ["breaking_news", "earnings"]},
            ["news_1", "earn_BRKT_2024Q4"],
        ),
        ({"markets": ["crypto"]}, []),
    ],
)
def test_filters_hold_together(filters: Any, expected: Any) -> None:
    where = workspace("2025-02-28T00:00:00Z")
    assert ids(ask(where, "ESP.events.query", **JANUARY, **filters)) == expected, filters


@pytest.mark.parametrize(
    "name",
    [
        "ESP.events.query",
        "ESP.events.stream",
        "ESP.triggers.next",
        "ESP.timeline",
        "ESP.calendar.earnings",
    ],
)
def test_tickers_that_are_not_listed_are_named(name: str) -> None:
    assert ask(workspace(), name, tickers=["NOPE", "AVLN"])["unknown"] == ["NOPE"]


def test_compact_leaves_out_payload_and_releases() -> None:
    asked = (workspace("2025-02-28"), "ESP.events.query")
    compact, full = (ask(*asked, **JANUARY, view=view)["events"] for view in ("compact", "full"))

    assert compact != full

    for event in full:
        event.pop("releases", None)
        event.pop("payload", None)

    assert compact == full


@pytest.mark.exhaustive
@settings(max_examples=20)
@given(rows=EVENT_LISTS, articles=ARTICLE_LISTS, limit=st.integers(1, 4))
def test_query_pages_and_block_reads_give_all_rows_sorted_by_time_and_id(
    rows: list[EventRow], articles: list[Any], limit: int
) -> None:
    where = workspace("2025-01-06T14:15:00Z", dataset(rows, articles))
    now = where.clock.as_of_ns
    visible = [row for row in rows if row.announced_ns <= now] + [
        row for row in articles if row.published_ns <= now
    ]
    expected = [row_key(row)[1] for row in sorted(visible, key=row_key)]
    given_ids = [ids(page) for page in pages(where, "ESP.events.query", **JANUARY, limit=limit)]

    assert sum(given_ids, []) == expected  # noqa: RUF017 - a handful
    assert [
        row_key(row)[1] for row in event_rows(where.view, StoreQuery(ALL_TIME, block=limit))
    ] == expected
    assert all(len(page) == limit for page in given_ids[:-1])


# ---- one event


def test_an_event_goes_from_scheduled_to_occurred_to_updated() -> None:
    def cpi(now: str) -> Any:
        return ask(workspace(now), "ESP.events.get", event_id="econ_cpi_2025_01")

    scheduled = cpi("2025-01-15T13:29:59.999999999Z")

    assert scheduled["payload"] == {
        "consensus": 2.8,
        "previous": 2.7,
        "description": "Year on year, %",
    }
    assert [scheduled[name] for name in ("status", "releases", "snippet")] == [
        "scheduled",
        [],
        "consensus 2.8, previous 2.7",
    ]

    occurred = cpi("2025-01-15T13:30:00Z")
    assert occurred["status"] == "occurred"
    # 2.9 − 2.8 = 0.1, and 0.1 / 2.8 = 3.5714 %.
    assert [occurred["payload"][name] for name in ("actual", "surprise", "surprise_pct")] == [
        2.9,
        0.1,
        3.5714,
    ]

    updated = cpi("2025-02-12T13:30:00Z")
    assert (updated["status"], updated["payload"]["actual"], updated["payload"]["surprise"]) == (
        "updated",
        3.0,
        0.2,
    )
    assert [release["values"] for release in updated["releases"]] == [
        {"actual": 2.9},
        {"actual": 3.0},
    ]


def test_an_event_past_due_is_scheduled_until_its_outcome_is_out() -> None:
    """A delayed release: nobody can know whether it has happened."""
    late = replace(events()[1], releases=(EventRelease(at("2025-01-10T15:00:00Z"), {"actual": 1}),))
    before, after = (
        workspace(f"2025-01-10T{time}Z", dataset([late])) for time in ("14:59:59", "15:00:00")
    )

    assert ask(before, "ESP.events.get", event_id=late.event_id)["status"] == "scheduled"
    assert ask(after, "ESP.events.get", event_id=late.event_id)["status"] == "occurred"


def test_a_new_estimate_before_the_report_is_no_outcome() -> None:
    rows = events()
    estimate = EventRelease(at("2025-01-20T12:00:00Z"), {"eps_estimated": 1.25})
    earnings = replace(rows[2], releases=(estimate, *rows[2].releases))
    expected = {
        "2025-01-20T12:00:00Z": "scheduled",
        "2025-01-30T21:04:59Z": "scheduled",
        "2025-01-30T21:05:00Z": "occurred",
    }

    for now, status in expected.items():
        event = ask(
            workspace(now, dataset([earnings])), "ESP.events.get", event_id=earnings.event_id
        )
        assert (event["status"], event["payload"]["eps_estimated"]) == (status, 1.25)


def test_surprises_of_earnings_concern_eps_and_revenue() -> None:
    payload = ask(workspace("2025-01-30T21:05:00Z"), "ESP.events.get", event_id="earn_AVLN_2024Q4")[
        "payload"
    ]

    # (1.31 − 1.20) / 1.20 = 9.1667 %; (1.05 − 1.00) / 1.00 = 5 %.
    assert payload == {
        "eps_estimated": 1.2,
        "revenue_estimated": 1.0e9,
        "fiscal_period": "Q4",
        "fiscal_year": 2024,
        "eps_actual": 1.31,
        "revenue_actual": 1.05e9,
        "eps_surprise": 0.11,
        "eps_surprise_pct": 9.1667,
        "revenue_surprise": 5e7,
        "revenue_surprise_pct": 5.0,
    }


def test_a_surprise_is_in_percent_of_the_absolute_expectation() -> None:
    loss = replace(
        events()[3],
        expected={"eps_estimated": -0.5},
        releases=(EventRelease(0, {"eps_actual": -0.4}),),
    )

    assert payload_of(loss)["eps_surprise_pct"] == 20.0
    assert "eps_surprise_pct" not in payload_of(replace(loss, expected={"eps_estimated": 0}))
    assert "eps_surprise" not in payload_of(replace(loss, expected={"eps_estimated": "n/a"}))


def test_an_article_is_an_event_by_its_id() -> None:
    event = ask(workspace(), "ESP.events.get", event_id="news_1")
    assert (event["event_type"], event["status"], event["time_utc"]) == (
        "breaking_news",
        "occurred",
        "2025-01-06T15:02:00Z",
    )
    assert event["payload"]["publisher"]["name"] == "Example Wire"
    assert event["payload"]["image_url"] is None


def test_unpublished_events_are_not_found() -> None:
    messages = {
        str(refused(ask, workspace(), "ESP.events.get", event_id=event_id))
        for event_id in ("nothing", "news_2", "é")
    }
    messages |= {
        str(
            refused(
                ask,
                workspace("2025-01-03T11:59:59Z"),
                "ESP.events.get",
                event_id="earn_AVLN_2024Q4",
            )
        )
    }

    assert messages == {"event_id: there is no such event as of the clock"}
    assert refused(ask, workspace(), "ESP.news.body", news_id="news_2").code == "not_found"
    assert refused(ask, workspace(), "ESP.news.body", news_id="\ud800").field == "news_id"


def test_a_long_description_is_shortened_visibly() -> None:
    article = replace(news()[0], description="word " * 100)
    snippet = ask(workspace(dataset=dataset([], [article])), "ESP.events.get", event_id="news_0")[
        "snippet"
    ]

    assert SNIPPET_CHARACTERS - len("word ") < len(snippet) <= SNIPPET_CHARACTERS
    assert snippet.endswith("word …")


# ---- triggers


def test_triggers_give_the_reason() -> None:
    """At 11:45 on the 8th Bracket reports in 15 minutes (medium); claims come on the 10th (medium),
    CPI on the 15th (high).
    """
    answer = ask(
        workspace("2025-01-08T11:45:00Z"),
        "ESP.triggers.next",
        tickers=["BRKT"],
        horizon_minutes=8 * 1440,
    )

    assert [(trigger["event_id"], trigger["reason_codes"]) for trigger in answer["triggers"]] == [
        ("earn_BRKT_2024Q4", ["TIME_IMMINENT", "MATCH_WATCHLIST"]),
        ("econ_claims_2025_01_10", []),
        ("econ_cpi_2025_01", ["HIGH_IMPORTANCE"]),
    ]
    assert answer["triggers"][0]["trigger_time_utc"] == "2025-01-08T12:00:00Z"


@pytest.mark.parametrize(("now", "reasons"), [("11:30:00", []), ("11:30:01", ["TIME_IMMINENT"])])
def test_triggers_are_imminent_below_thirty_minutes(now: str, reasons: list[str]) -> None:
    answer = ask(workspace(f"2025-01-08T{now}Z"), "ESP.triggers.next", horizon_minutes=60)
    assert answer["triggers"][0]["reason_codes"] == reasons


def test_watchlist_triggers_omit_other_companies_and_are_paged() -> None:
    far = {"horizon_minutes": 60 * 1440, "tickers": ["AVLN"]}
    answers = pages(workspace(), "ESP.triggers.next", **far, limit=1)
    listed = [*chain.from_iterable(page["triggers"] for page in answers)]

    assert [trigger["event_id"] for trigger in listed] == [
        "econ_claims_2025_01_10",
        "econ_cpi_2025_01",
        "earn_AVLN_2024Q4",
    ]
    assert (len(answers), ask(workspace(), "ESP.triggers.next", **far)["triggers"]) == (3, listed)


# ---- timeline


def test_a_timeline_counts_by_bucket() -> None:
    answer = ask(
        workspace(),
        "ESP.timeline",
        start_utc="2025-01-06T12:00:00Z",
        end_utc="2025-01-08T13:00:00Z",
        bucket_minutes=1440,
    )
    counted = [
        (each["bucket_start_utc"], each["bucket_end_utc"], each["count"], ids(each))
        for each in answer["buckets"]
    ]

    assert counted == [
        ("2025-01-06T12:00:00Z", "2025-01-07T12:00:00Z", 1, ["news_1"]),
        # the upgrade of the 7th is not out
        ("2025-01-07T12:00:00Z", "2025-01-08T12:00:00Z", 0, []),
        ("2025-01-08T12:00:00Z", "2025-01-08T13:00:00Z", 1, ["earn_BRKT_2024Q4"]),
    ]
    assert answer["total"] == 2


@pytest.mark.slow
def test_a_timeline_lists_in_pages_and_counts_exactly_in_each() -> None:
    articles = [
        replace(news()[0], id=f"n{number:03d}", published_ns=at("2025-01-06T15:00:00Z") + number)
        for number in range(700)
    ]
    where = workspace(dataset=dataset(events(), articles))
    answers = pages(
        where,
        "ESP.timeline",
        start_utc="2025-01-06T14:00:00Z",
        end_utc="2025-01-06T16:00:00Z",
        limit=300,
    )

    assert len(answers) == 3

    listed = []

    for page in answers:
        empty, full = page["buckets"]
        assert (empty["count"], full["count"]) == (0, 700)
        listed += ids(full)

    assert listed == [row.id for row in articles]


# ---- calendars


def test_calendars_have_their_type_and_show_what_is_expected() -> None:
    answer = ask(workspace(), "ESP.calendar.econ", start_date="2025-01-10", end_date="2025-01-15")
    assert ids(answer) == ["econ_claims_2025_01_10", "econ_cpi_2025_01"]
    assert answer["events"][0]["payload"] == {"consensus": 215_000, "previous": 211_000}


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("econ", {"start_date": "2025-01-10", "end_date": "2025-01-14"}, "econ_claims_2025_01_10"),
        ("earnings", {}, "earn_BRKT_2024Q4"),  # the clock's day and seven more
        ("earnings", {"end_date": "2025-01-30", "min_importance": "high"}, "earn_AVLN_2024Q4"),
        ("earnings", {"end_date": "2025-01-30", "tickers": ["AVLN"]}, "earn_AVLN_2024Q4"),
        # Avalon reports on the 30th at 21:05 UTC: a day is one in UTC, of the same moments that are
        # shown; no other zone comes in.
        ("earnings", {"start_date": "2025-01-29", "end_date": "2025-01-29"}, ""),
        ("earnings", {"start_date": "2025-01-30", "end_date": "2025-01-30"}, "earn_AVLN_2024Q4"),
        ("earnings", {"start_date": "2025-01-31", "end_date": "2025-01-31"}, ""),
    ],
)
def test_calendars_include_the_last_day(
    name: str, arguments: dict[str, Any], expected: str
) -> None:
    answer = ask(workspace(), f"ESP.calendar.{name}", **arguments)
    assert ids(answer) == ([expected] if expected else [])


# ---- news


def test_news_are_found_by_words_of_title_description_and_body() -> None:
    def found(now: str = "2025-02-28", **arguments: Any) -> list[str]:
        return ids(ask(workspace(now), "ESP.news.search", start_utc="2025-01-01", **arguments))

    assert (found(keyword="GUIDANCE cut"), found(keyword="rival")) == (["news_1"], ["news_3"])
    assert (found(keyword="upgrade"), found(keyword="ohio"), found(keyword="uplift")) == (
        ["news_2"],
        ["news_0"],
        [],
    )
    assert found(keyword="castle", now="2025-01-08") == ["news_2"]
    assert (found(publisher="example w"), found(publisher="other")) == (
        ["news_0", "news_1", "news_2", "news_3"],
        [],
    )


@pytest.mark.parametrize(
    ("now", "end", "expected"),
    [
        ("2025-01-10T15:00:00Z", {}, ["news_1", "news_2"]),
        ("2025-01-10T14:59:59Z", {}, ["news_0", "news_1", "news_2"]),
        ("2025-01-31", {"end_utc": "2025-01-06"}, ["news_0", "news_1"]),
        ("2025-01-06T15:02:00Z", {}, ["news_0", "news_1"]),  # published at this moment
        ("2025-01-06T15:01:59.999999999Z", {}, ["news_0"]),
    ],
)
def test_a_search_looks_back_seven_days_from_its_end_and_up_to_this_moment(
    now: str, end: Any, expected: Any
) -> None:
    assert ids(ask(workspace(now), "ESP.news.search", **end)) == expected, now


def test_the_body_of_an_article() -> None:
    assert ask(workspace(), "ESP.news.body", news_id="news_1") == {
        "as_of_ts": "2025-01-06T21:00:00Z",
        "id": "news_1",
        "title": "Bracket cuts guidance",
        "tickers": ["BRKT"],
        "published_utc": "2025-01-06T15:02:00Z",
        "article_url": "https://news.example/0",
        "author": "A. Writer",
        "image_url": None,
        "insights": [],
        "description": "Guidance cut.",
        "keywords": ["guidance"],
        "publisher": news()[1].publisher,
        "body": "Bracket Corp cut its guidance.",
    }


# ---- health


def test_coverage_counts_by_status() -> None:
    answer = ask(workspace("2025-01-10T13:30:00Z"), "ESP.calendar.coverage", days=30)
    assert (answer["first_day"], answer["last_day"]) == ("2024-12-11", "2025-02-09")
    assert answer["calendars"] == [
        {
            "event_type": "macro_calendar",
            "count": 2,
            "days": 2,
            "scheduled": 1,
            "occurred": 1,
            "updated": 0,
            "first_time_utc": "2025-01-10T13:30:00Z",
            "last_time_utc": "2025-01-15T13:30:00Z",
        },
        {
            "event_type": "earnings",
            "count": 2,
            "days": 2,
            "scheduled": 1,
            "occurred": 1,
            "updated": 0,
            "first_time_utc": "2025-01-08T12:00:00Z",
            "last_time_utc": "2025-01-30T21:05:00Z",
        },
    ]


def test_freshness_is_the_latest_update_and_the_latest_article() -> None:
    sources = ask(workspace("2025-01-06T21:00:00Z"), "ESP.health.freshness")["sources"]
    assert {row["source"]: (row["latest_utc"], row["age_minutes"]) for row in sources} == {
        "macro_calendar": ("2024-12-20T00:00:00Z", 17 * 1440 + 21 * 60),
        "earnings": ("2025-01-03T12:00:00Z", 3 * 1440 + 9 * 60),
        "news": ("2025-01-06T15:02:00Z", 358),
    }

    empty = ask(workspace(dataset=dataset()), "ESP.health.freshness")["sources"]
    assert all(row["latest_utc"] is None and row["age_minutes"] is None for row in empty)


# ---- defects of the public event service (its specification lists them): ours has none of them

EVER = {"mode": "window", "start_utc": "2024-01-01", "end_utc": "2026-01-01"}
PROPERTIES: list[tuple[str, str, dict[str, Any]]] = []
for _operation in OPERATIONS:
    PROPERTIES += [(_operation.name, *property_) for property_ in _operation.properties.items()]


# ---- moments


@pytest.mark.parametrize("now", ["2025-01-06T15:02:00Z", "2025-02-28"])
def test_breaking_news_keep_their_type_at_any_age(now: str) -> None:
    assert ask(workspace(now), "ESP.events.get", event_id="news_1")["event_type"] == "breaking_news"
    assert ids(
        ask(
            workspace(now),
            "ESP.events.query",
            **EVER,
            event_types=["breaking_news"],
            tickers=["BRKT"],
        )
    ) == ["news_1"]


@pytest.mark.parametrize("name", [operation.name for operation in OPERATIONS])
def test_no_call_takes_a_present_moment_of_its_own(name: str) -> None:
    error = refused(ask, workspace(), name, now_utc="2026-01-01")
    assert error.code == "invalid_argument"


# ---- limits and cursors


def crowd() -> Any:
    """Before the one event that is asked for lie a thousand others, of the same day and of less
    importance.
    """
    base = events()[1]
    others = [
        replace(
            base,
            event_id=f"econ_{number:04d}",
            importance="low",
            time_ns=at("2025-01-15") + number * MINUTE,
        )
        for number in range(1000)
    ]

    return replace(
        DATASET,
        calendars=MemoryCalendars(
            [*others, replace(events()[0], time_ns=at("2025-01-15T23:00:00Z"))]
        ),
    )


def test_limit_applies_after_all_filters_and_earlier_pages_are_marked() -> None:
    where = workspace(dataset=crowd())
    day = {"start_date": "2025-01-15", "end_date": "2025-01-15"}
    for name, extra, first in (
        ("ESP.calendar.econ", day, "econ_cpi_2025_01"),
        ("ESP.events.query", EVER, "news_1"),
    ):
        assert ids(ask(where, name, **extra, min_importance="high", limit=1)) == [first]

    exact = {
        "mode": "window",
        "start_utc": "2025-01-15T22:59:00Z",
        "end_utc": "2025-01-15T23:01:00Z",
    }

    assert ids(ask(where, "ESP.events.query", **exact, limit=1)) == ["econ_cpi_2025_01"]

    answer = ask(where, "ESP.calendar.econ", **day, limit=500)
    assert (len(answer["events"]), answer["next_cursor"] is None) == (500, False)


def test_pages_of_events_at_equal_times_lose_and_repeat_nothing() -> None:
    """Ids run against the order of times; dates, times and ids are compared as they are sorted."""
    base = events()[1]
    rows = [
        replace(
            base,
            event_id=f"econ_{99 - number:02d}",
            time_ns=at("2025-01-15") + (number // 10) * 3600 * 10**9,
        )
        for number in range(50)
    ]
    where = workspace(dataset=dataset(rows))
    day = {"start_date": "2025-01-15", "end_date": "2025-01-15"}

    for name, window in (("ESP.calendar.econ", day), ("ESP.events.query", EVER)):
        listed = [*chain.from_iterable(map(ids, pages(where, name, **window, limit=7)))]
        in_order = sorted(rows, key=lambda row: (row.time_ns, row.event_id))
        assert listed == [row.event_id for row in in_order]


def test_a_malformed_cursor_is_refused_in_every_call() -> None:
    texts = [
        "nonsense",
        "cur-abc123",
        "%%%",
        "W10",
        "WzEsMl0",
        "eyJhIjoxfQ",
        "WyIxIiwiYSJd",
        "Wy0xLCJhIl0",
        "[",
        "é",
    ]
    texts += ["W" * 500, "W" * 501]

    for name, cursor in not_empty(
        product([name for name, argument, _ in PROPERTIES if argument == "cursor"], texts)
    ):
        error = refused(ask, workspace(), name, cursor=cursor)
        assert (error.code, error.field) == ("invalid_argument", "cursor")
        assert cursor not in error.message or len(cursor) < 2


def test_numbers_and_times_out_of_range_are_refused_in_every_call() -> None:
    numbers = [
        (name, argument) for name, argument, schema in PROPERTIES if schema["type"] == "integer"
    ]
    moments = [
        (name, argument) for name, argument, _ in PROPERTIES if argument.endswith(("_utc", "_date"))
    ]
    texts = (
        "2025-13-01",
        "2025-02-30",
        "yesterday",
        "2025-01-06 14:30",
        "2025-01-06T25:00:00Z",
        "",
        "9" * 41,
    )
    cases = [*product(numbers, (0, -1, 10**9, 10**30, 1.5, "5", True, None))]
    cases += product(moments, texts)

    assert len(cases) > 150

    for (name, argument), value in cases:
        window = EVER if name == "ESP.events.query" and isinstance(value, str) else {}
        error = refused(ask, workspace(), name, **{**window, argument: value})
        assert (error.code, error.field) == ("invalid_argument", argument), (name, argument, value)


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        (
            "ESP.events.query",
            {"mode": "window", "start_utc": "2025-01-07", "end_utc": "2025-01-06"},
            "end_utc",
        ),
        ("ESP.events.query", {"mode": "window", "start_utc": "2025-01-07"}, "end_utc"),
        ("ESP.events.query", {"start_utc": "2025-01-07"}, "start_utc"),
        ("ESP.timeline", {"start_utc": "2025-01-09"}, "start_utc"),
        ("ESP.calendar.econ", {"start_date": "2025-01-07", "end_date": "2025-01-06"}, "end_date"),
        ("ESP.news.search", {"start_utc": "2025-01-07"}, "start_utc"),
    ],
)
def test_a_window_that_ends_before_it_starts_is_refused(
    name: str, arguments: Any, field: str
) -> None:
    where = workspace()
    assert ((error := refused(ask, where, name, **arguments)).code, error.field) == (
        "invalid_argument",
        field,
    )


def test_a_keyword_without_a_word_does_not_find_everything() -> None:
    assert ids(ask(workspace(), "ESP.news.search", keyword="* OR *")) == []


@pytest.mark.parametrize("text", ["%", '"', "\ud800", "\x00"], ids=ascii)
def test_a_keyword_of_marks_alone_is_refused(text: str) -> None:
    assert refused(ask, workspace(), "ESP.news.search", keyword=text).field == "keyword"


# ---- timeline


A_DAY = {"start_utc": "2025-01-06T00:00:00Z", "end_utc": "2025-01-07T00:00:00Z"}


@pytest.mark.parametrize("minutes", [0, -60, 1])
def test_a_bucket_that_would_not_end_a_timeline_or_is_too_short_is_refused(minutes: int) -> None:
    error = refused(ask, workspace(), "ESP.timeline", **A_DAY, bucket_minutes=minutes)
    assert error.field == "bucket_minutes"


def test_a_timeline_has_a_bounded_number_of_buckets() -> None:
    assert len(ask(workspace(), "ESP.timeline", **A_DAY, bucket_minutes=2)["buckets"]) == 720
    years = {"start_utc": "2020-01-01", "end_utc": "2025-01-01"}
    error = refused(ask, workspace(), "ESP.timeline", **years, bucket_minutes=527_040)
    assert error.field == "end_utc"


# ---- sources


@dataclass(frozen=True)
class Broken:
    """A store whose files are gone."""

    error: Exception

    def _fail(self, *_arguments: Any) -> Any:
        raise self.error

    events = event = updates = news = article = symbols = _fail


def test_a_failing_source_fails_the_call_and_gives_nothing_in_part() -> None:
    both = ("ESP.events.query", "ESP.events.stream", "ESP.timeline", "ESP.health.freshness")
    error = ServiceError("unavailable", "the store can't be read")
    sources = (
        ("calendars", "ESP.calendar.econ", "ESP.news.search"),
        ("news", "ESP.news.search", "ESP.calendar.econ"),
    )

    for source, own, other in sources:
        where = workspace(dataset=replace(DATASET, **{source: Broken(error)}))
        for name in (*both, own):
            refusal = refused(ask, where, name)
            assert (refusal.code, refusal.status) == ("unavailable", 503)

        ask(where, other)


def test_unknown_tickers_need_the_price_store() -> None:
    where = workspace(
        dataset=replace(
            DATASET, prices=Broken(ServiceError("unavailable", "the store can't be read"))
        )
    )
    ask(where, "ESP.events.query")

    assert refused(ask, where, "ESP.events.query", tickers=["AVLN"]).code == "unavailable"


@pytest.mark.parametrize(
    "text",
    [
        "2025-01-06T15:02:00Z",
        "2025-01-06T10:02:00-05:00",
        "2025-01-06T15:02:00.000Z",
        "2025-01-06T15:02",
    ],
)
def test_moments_are_compared_as_moments_not_as_texts(text: str) -> None:
    """`…T15:02:00Z`, `…T10:02:00-05:00` and a text with a fraction are one moment; as texts they
    would sort otherwise.
    """
    window = {"mode": "window", "start_utc": text, "end_utc": "2025-01-06T15:02:00.5Z"}

    assert ids(ask(workspace(), "ESP.events.query", **window)) == ["news_1"]


@pytest.mark.parametrize(
    "tickers", [["avln"], ["AVLN\n"], [""], ["A" * 17], ["AVLN"] * 101, "AVLN", [1]]
)
def test_invalid_tickers_are_refused(tickers: Any) -> None:
    assert refused(ask, workspace(), "ESP.events.query", tickers=tickers).field.startswith(
        "tickers"
    )
