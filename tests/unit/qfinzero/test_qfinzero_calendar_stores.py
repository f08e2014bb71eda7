"""Stores of events and articles in files: the same answers as the stores in memory, and nothing lost or changed unnoticed."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.rows import EventRow, NewsRow, Release, as_known, known_moments
from ktdeval_qfinzero.data.sqlite_stores import open_calendars, open_news, words, write_calendars, write_news
from ktdeval_qfinzero.data.stores import Page, Span, Tags
from ktdeval_qfinzero.errors import ServiceError
from qfinzero_memory import MemoryCalendars, MemoryNews
from qfinzero_rows import ARTICLE_LISTS, EVENT_LISTS, MOMENTS, PAGES, SPANS, TAGS
from qfinzero_world import events, news

EVER = Span(0, 2**62)
ALL = Page(10**6)
LAST = 2**62


def calendars_of(path: Path) -> Sequence[EventRow]:
    return open_calendars(path).events(EVER, Tags(), ALL, LAST)


def articles_of(path: Path) -> Sequence[NewsRow]:
    return open_news(path).news(EVER, Tags(), ALL, LAST)


# ---- the rule for words


def test_words_are_runs_of_letters_and_digits_case_aside() -> None:
    assert words("AT&T's Q4-Results: +3.5%") == ("at", "t", "s", "q4", "results", "3", "5")
    assert words("STRASSE straße ﬁne snake_case") == ("strasse", "strasse", "fine", "snake", "case")
    assert words("re\u0301sume\u0301 Ｑ４") == words("RÉSUMÉ q4") == ("résumé", "q4")
    assert words("… $ %") == ()


# ---- file store ≡ memory store


@settings(max_examples=25)
@given(rows=EVENT_LISTS, span=SPANS, tags=TAGS, page=PAGES, as_of_ns=MOMENTS)
def test_calendars_in_a_file_answer_as_those_in_memory(
    rows: list[EventRow], span: Span, tags: Tags, page: Page, as_of_ns: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_calendars(path := Path(folder) / "calendars.sqlite", rows)
        file, memory = open_calendars(path), MemoryCalendars(rows)
        assert file.events(span, tags, page, as_of_ns) == memory.events(span, tags, page, as_of_ns)
        assert file.events(EVER, tags, ALL, LAST) == memory.events(EVER, tags, ALL, LAST)
        for row in rows:
            assert file.event(row.event_id, as_of_ns) == memory.event(row.event_id, as_of_ns)
        updates = [
            (known_ns, as_known(row, known_ns))
            for row in memory.events(EVER, tags, ALL, as_of_ns)
            for known_ns in known_moments(row)
            if page.after is None or (known_ns, row.event_id) > page.after
        ]
        updates.sort(key=lambda update: (update[0], update[1].event_id))
        assert file.updates(tags, page, as_of_ns) == updates[: page.limit]


@settings(max_examples=25)
@given(rows=ARTICLE_LISTS, span=SPANS, tags=TAGS, page=PAGES, as_of_ns=MOMENTS)
@example([replace(news()[0], body="AND or 'near'")], EVER, Tags(text="and"), ALL, LAST)
@example([replace(news()[0], body="resume"), replace(news()[0], id="n1", body="résumé")], EVER, Tags(text="résumé"), ALL, LAST)
@example([replace(news()[0], body="word " * 3)], EVER, Tags(text='word" OR "other'), ALL, LAST)
def test_news_in_a_file_answer_as_those_in_memory(rows: list[NewsRow], span: Span, tags: Tags, page: Page, as_of_ns: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_news(path := Path(folder) / "news.sqlite", rows)
        file, memory = open_news(path), MemoryNews(rows)
        assert file.news(span, tags, page, as_of_ns) == memory.news(span, tags, page, as_of_ns)
        assert file.news(EVER, tags, ALL, LAST) == memory.news(EVER, tags, ALL, LAST)
        for row in rows:
            assert file.article(row.id, as_of_ns) == memory.article(row.id, as_of_ns)


# ---- writing


def test_all_rows_of_a_file_are_written_or_none(tmp_path: Path) -> None:
    """A broken row refuses the whole call, and so does an id that stands in the file already."""
    path, calendars = tmp_path / "news.sqlite", tmp_path / "calendars.sqlite"
    write_news(path, news()[:1])
    write_calendars(calendars, events())
    broken = replace(news()[2], published_ns=-1)
    with pytest.raises(DataError, match="news_2"):
        write_news(path, [news()[1], broken])
    with pytest.raises(DataError, match="the news store can't be written"):
        write_news(path, [news()[1], replace(news()[0], title="Another")])
    with pytest.raises(DataError, match="the calendar store can't be written"):
        write_calendars(calendars, [replace(events()[0], event_id="econ_new"), events()[1]])
    assert [row.id for row in articles_of(path)] == ["news_0"]
    assert len(calendars_of(calendars)) == 4


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"event_id": "a/b"}, "an id has 1 to 200 letters"),
        ({"event_id": ""}, "an id has 1 to 200 letters"),
        ({"event_type": "daily_news"}, "its type is none of macro_calendar, earnings"),
        ({"importance": "huge"}, "its importance is none of"),
        ({"time_ns": 2**63}, "not a whole number of nanoseconds"),
        ({"releases": (Release(5, {}), Release(4, {}))}, "not in the order of their moments"),
        ({"expected": {"eps": float("nan")}}, r"can't be written as JSON \(ValueError\)"),
        ({"expected": {1: 2}}, "not plain JSON"),
        ({"title": "half \ud800"}, r"can't be written as JSON \(UnicodeEncodeError\)"),
    ],
)
def test_an_event_that_could_not_be_served_is_not_stored(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        write_calendars(tmp_path / "calendars.sqlite", [replace(events()[0], **changes)])


def test_a_file_of_another_kind_is_not_taken_for_a_store(tmp_path: Path) -> None:
    path = tmp_path / "news.sqlite"
    write_news(path, news())
    with pytest.raises(DataError, match="this is no calendar store of layout 1"):
        write_calendars(path, events())
    with pytest.raises(DataError, match="this is no calendar store"):
        open_calendars(path)
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(DataError, match="this is no news store"):
        write_news(tmp_path / "other.sqlite", news())
    with pytest.raises(DataError, match="there is no such file"):
        open_news(tmp_path / "none.sqlite")


# ---- serving


def test_a_store_that_serves_writes_nothing_beside_or_into_its_file(tmp_path: Path) -> None:
    path = tmp_path / "odd name #1?%.sqlite"
    write_news(path, news())
    before = path.read_bytes()
    path.chmod(0o400)
    assert (len(articles_of(path)), path.read_bytes(), list(tmp_path.iterdir())) == (4, before, [path])


def test_a_file_that_breaks_while_it_is_served_makes_the_store_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "calendars.sqlite"
    write_calendars(path, events())
    store = open_calendars(path)
    path.write_bytes(path.read_bytes()[:4096] + bytes(50_000))
    with pytest.raises(ServiceError, match="the calendar store can't be read") as caught:
        store.events(EVER, Tags(), ALL, LAST)
    assert caught.value.code == "unavailable"
    path.unlink()
    with pytest.raises(ServiceError) as caught:
        store.event("econ_cpi_2025_01", LAST)
    assert caught.value.code == "unavailable"
    assert str(tmp_path) not in str(caught.value)


def test_several_threads_read_one_store(tmp_path: Path) -> None:
    write_news(tmp_path / "news.sqlite", [replace(news()[0], id=f"n{number}") for number in range(50)])
    store = open_news(tmp_path / "news.sqlite")
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: len(store.news(EVER, Tags(text="plant"), ALL, LAST)), range(64)))
    assert counts == [50] * 64


def test_the_indexes_carry_the_usual_queries(tmp_path: Path) -> None:
    path = tmp_path / "calendars.sqlite"
    write_calendars(path, events())
    with sqlite3.connect(path) as connection:
        indexes = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
        (plan,) = connection.execute(
            "EXPLAIN QUERY PLAN SELECT record FROM events WHERE time_ns >= 0 AND time_ns < 9 ORDER BY time_ns, event_id"
        ).fetchall()
    connection.close()
    assert {"events_by_date", "events_by_type", "events_by_country"} <= indexes
    assert "USING INDEX events_by_date" in plan[-1]
