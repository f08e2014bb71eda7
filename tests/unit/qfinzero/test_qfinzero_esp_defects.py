"""Defects of the public event service (its specification lists them): each has a test that shows that this one is without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from ktdeval.errors import DataError
from ktdeval.jsonio import dumps_canonical
from ktdeval_qfinzero.catalogue import ESP as OPERATIONS
from ktdeval_qfinzero.moments import MINUTE
from qfinzero_esp_play import DATASET, ask, ids, pages, refused, workspace
from qfinzero_memory import MemoryCalendars, MemoryNews
from qfinzero_world import at, events

EVER = {"mode": "window", "start_utc": "2024-01-01", "end_utc": "2026-01-01"}
PAGED = [operation.name for operation in OPERATIONS if "cursor" in operation.properties]
NUMBERED = [
    (operation.name, name)
    for operation in OPERATIONS
    for name, schema in operation.properties.items()
    if schema["type"] == "integer"
]


# ---- look-ahead


def test_no_news_of_the_future_in_windows_that_reach_there_nor_by_id() -> None:
    for name, arguments in (
        ("events.query", EVER),
        ("news.search", {"start_utc": "2024-01-01", "end_utc": "2026-01-01"}),
        ("timeline", {"start_utc": "2025-01-01", "end_utc": "2025-03-01", "bucket_minutes": 1440}),
        ("triggers.next", {"min_importance": "low", "horizon_minutes": 90 * 1440, "limit": 500}),
        ("events.stream", {}),
    ):
        text = dumps_canonical(ask(workspace(), f"ESP.{name}", **arguments))
        assert ("news_2" in text, "news_3" in text) == (False, False), name
    assert refused(workspace(), "ESP.events.get", event_id="news_3").code == "not_found"
    assert refused(workspace(), "ESP.news.body", news_id="news_3").code == "not_found"


def test_whether_an_event_has_occurred_is_told_by_the_clock_and_values_not_yet_released_are_absent() -> None:
    """The row has its outcome; before its release it is scheduled and shows nothing of it, not even null."""
    (event,) = ask(workspace(), "ESP.calendar.econ", start_date="2025-01-15", end_date="2025-01-15")["events"]
    assert (event["status"], event["releases"]) == ("scheduled", [])
    assert not {"actual", "surprise", "surprise_pct"} & set(event["payload"])
    assert ask(workspace(), "ESP.events.get", event_id="earn_BRKT_2024Q4")["payload"] == {"eps_estimated": 0.40}


def test_breaking_news_are_what_the_article_says_whatever_their_age() -> None:
    for now in ("2025-01-06T15:02:00Z", "2025-02-28"):
        assert ask(workspace(now), "ESP.events.get", event_id="news_1")["event_type"] == "breaking_news"
        assert ids(ask(workspace(now), "ESP.events.query", **EVER, event_types=["breaking_news"], tickers=["BRKT"])) == ["news_1"]


def test_no_call_takes_a_present_moment_of_its_own() -> None:
    for operation in OPERATIONS:
        assert refused(workspace(), operation.name, now_utc="2026-01-01").code == "invalid_argument"


def test_the_moment_of_an_answer_is_the_clock_and_answers_are_repeated_to_the_byte() -> None:
    for operation in OPERATIONS:
        given = {"event_id": "news_1", "news_id": "news_1"}
        arguments = {name: value for name, value in given.items() if name in operation.properties}
        first, second = (ask(workspace(), operation.name, **arguments) for _ in range(2))
        assert (first["as_of_ts"], dumps_canonical(first)) == ("2025-01-06T21:00:00Z", dumps_canonical(second))


# ---- limits and cursors


def crowd() -> Any:
    """Before the one event that is asked for lie a thousand others, of the same day and of less importance."""
    base = events()[1]
    others = [
        replace(base, event_id=f"econ_{number:04d}", importance="low", time_ns=at("2025-01-15") + number * MINUTE)
        for number in range(1000)
    ]
    return replace(DATASET, calendars=MemoryCalendars([*others, replace(events()[0], time_ns=at("2025-01-15T23:00:00Z"))]))


def test_the_limit_counts_after_all_filters_and_a_page_that_is_not_the_last_says_so() -> None:
    where, day = workspace(dataset=crowd()), {"start_date": "2025-01-15", "end_date": "2025-01-15"}
    for name, extra, first in (("ESP.calendar.econ", day, "econ_cpi_2025_01"), ("ESP.events.query", EVER, "news_1")):
        assert ids(ask(where, name, **extra, min_importance="high", limit=1)) == [first]
    exact = {"mode": "window", "start_utc": "2025-01-15T22:59:00Z", "end_utc": "2025-01-15T23:01:00Z"}
    assert ids(ask(where, "ESP.events.query", **exact, limit=1)) == ["econ_cpi_2025_01"]
    answer = ask(where, "ESP.calendar.econ", **day, limit=500)
    assert (len(answer["events"]), answer["next_cursor"] is None) == (500, False)


def test_pages_of_events_at_equal_times_lose_and_repeat_nothing() -> None:
    """Ids run against the order of times; dates, times and ids are compared as they are sorted."""
    base = events()[1]
    rows = [
        replace(base, event_id=f"econ_{99 - number:02d}", time_ns=at("2025-01-15") + (number // 10) * 3600 * 10**9)
        for number in range(50)
    ]
    where = workspace(dataset=replace(DATASET, calendars=MemoryCalendars(rows), news=MemoryNews()))
    for name, window in (
        ("ESP.calendar.econ", {"start_date": "2025-01-15", "end_date": "2025-01-15"}),
        ("ESP.events.query", EVER),
    ):
        found = [event_id for page in pages(where, name, **window, limit=7) for event_id in ids(page)]
        assert found == [row.event_id for row in sorted(rows, key=lambda row: (row.time_ns, row.event_id))]


def test_a_calendar_day_is_a_day_in_utc_of_the_same_moments_that_are_shown() -> None:
    """Avalon reports on the 30th at 21:05 UTC; no other zone comes in."""
    for day, found in (("2025-01-29", []), ("2025-01-30", ["earn_AVLN_2024Q4"]), ("2025-01-31", [])):
        assert ids(ask(workspace(), "ESP.calendar.earnings", start_date=day, end_date=day)) == found


def test_a_malformed_cursor_is_refused_in_every_call() -> None:
    texts = ["nonsense", "cur-abc123", "%%%", "W10", "WzEsMl0", "eyJhIjoxfQ", "WyIxIiwiYSJd", "Wy0xLCJhIl0", "[", "é"]
    texts += ["W" * 500, "W" * 501]
    for name, cursor in product(PAGED, texts):
        error = refused(workspace(), name, cursor=cursor)
        assert (error.code, error.field) == ("invalid_argument", "cursor")
        assert cursor not in error.message or len(cursor) < 2


def test_numbers_out_of_bounds_and_malformed_moments_are_refused_in_every_call() -> None:
    properties = [(operation.name, name) for operation in OPERATIONS for name in operation.properties]
    moments = [pair for pair in properties if pair[1].endswith(("_utc", "_date"))]
    texts = ("2025-13-01", "2025-02-30", "yesterday", "2025-01-06 14:30", "2025-01-06T25:00:00Z", "", "9" * 41)
    cases = [(*pair, value) for pair in NUMBERED for value in (0, -1, 10**9, 10**30, 1.5, "5", True, None)]
    cases += [(*pair, text) for pair in moments for text in texts]
    assert len(cases) > 150
    for name, argument, value in cases:
        error = refused(
            workspace(), name, **(EVER if name == "ESP.events.query" and isinstance(value, str) else {}) | {argument: value}
        )
        assert (error.code, error.field) == ("invalid_argument", argument), (name, argument, value)


def test_a_window_that_ends_before_it_starts_is_refused() -> None:
    where = workspace()
    for name, arguments, field in (
        ("ESP.events.query", {"mode": "window", "start_utc": "2025-01-07", "end_utc": "2025-01-06"}, "end_utc"),
        ("ESP.events.query", {"mode": "window", "start_utc": "2025-01-07"}, "end_utc"),
        ("ESP.events.query", {"start_utc": "2025-01-07"}, "start_utc"),
        ("ESP.timeline", {"start_utc": "2025-01-09"}, "start_utc"),
        ("ESP.calendar.econ", {"start_date": "2025-01-07", "end_date": "2025-01-06"}, "end_date"),
        ("ESP.news.search", {"start_utc": "2025-01-07"}, "start_utc"),
    ):
        assert ((error := refused(where, name, **arguments)).code, error.field) == ("invalid_argument", field)


def test_a_keyword_without_a_word_does_not_find_everything() -> None:
    assert ids(ask(workspace(), "ESP.news.search", keyword="* OR *")) == []
    for text in ("%", '"', "\ud800", "\x00"):
        assert refused(workspace(), "ESP.news.search", keyword=text).field == "keyword"


# ---- timeline


def test_a_timeline_ends_for_any_bucket_and_has_a_bounded_number_of_them() -> None:
    where, day = workspace(), {"start_utc": "2025-01-06T00:00:00Z", "end_utc": "2025-01-07T00:00:00Z"}
    for minutes in (0, -60, 1):
        assert refused(where, "ESP.timeline", **day, bucket_minutes=minutes).field == "bucket_minutes"
    assert len(ask(where, "ESP.timeline", **day, bucket_minutes=2)["buckets"]) == 720
    assert refused(where, "ESP.timeline", start_utc="2020-01-01", end_utc="2025-01-01", bucket_minutes=527_040).field == "end_utc"


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
    errors = (OSError("/data/news.sqlite: no such file"), DataError("damaged"))
    sources = (("calendars", "ESP.calendar.econ", "ESP.news.search"), ("news", "ESP.news.search", "ESP.calendar.econ"))
    for error, (source, own, other) in product(errors, sources):
        where = workspace(dataset=replace(DATASET, **{source: Broken(error)}))
        for name in (*both, own):
            refusal = refused(where, name)
            assert (refusal.code, refusal.status) == ("unavailable", 503)
            assert "/data" not in str(refusal)
        ask(where, other)


def test_unknown_tickers_need_the_price_store() -> None:
    where = workspace(dataset=replace(DATASET, prices=Broken(OSError())))
    ask(where, "ESP.events.query")
    assert refused(where, "ESP.events.query", tickers=["AVLN"]).code == "unavailable"


def test_moments_are_compared_as_moments_not_as_texts() -> None:
    """`…T15:02:00Z`, `…T10:02:00-05:00` and a text with a fraction are one moment; as texts they would sort otherwise."""
    for text in ("2025-01-06T15:02:00Z", "2025-01-06T10:02:00-05:00", "2025-01-06T15:02:00.000Z", "2025-01-06T15:02"):
        window = {"mode": "window", "start_utc": text, "end_utc": "2025-01-06T15:02:00.5Z"}
        assert ids(ask(workspace(), "ESP.events.query", **window)) == ["news_1"]


def test_tickers_that_are_none_are_refused() -> None:
    for tickers in (["avln"], ["AVLN\n"], [""], ["A" * 17], ["AVLN"] * 101, "AVLN", [1]):
        assert refused(workspace(), "ESP.events.query", tickers=tickers).field.startswith("tickers")
