"""The stream of events: everything that becomes known is given once and in order, whatever steps
the clock takes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval_qfinzero.data.dataset import Dataset, open_dataset
from ktdeval_qfinzero.data.rows import EventRelease, EventRow, NewsRow
from ktdeval_qfinzero.data.writing import save_dataset
from ktdeval_qfinzero.timestamps import DAY, MINUTE
from qfinzero_rows import ARTICLE_LISTS, EVENT_LISTS, storable
from qfinzero_store_play import INFO, tiny_prices
from support.qfinzero.qfinzero_calls import DATASET, ask, workspace
from support.qfinzero.qfinzero_memory import MemoryCalendars, MemoryNews
from support.qfinzero.qfinzero_poison import in_memory
from support.qfinzero.qfinzero_world import at, events, news

FIRST = at("2025-01-01")
DAYS = 31


def month(seed: int) -> Dataset:
    """Random events and articles of a month, many of them at the same moments."""
    rng = np.random.default_rng(seed)

    def moment(spread_days: int = DAYS) -> int:
        return FIRST + int(rng.integers(0, spread_days * 24)) * 60 * MINUTE

    rows = []
    for number in range(60):
        announced = moment()
        due = moment()
        released = sorted(
            {due + int(rng.integers(-2, 40)) * 60 * MINUTE for _ in range(int(rng.integers(0, 4)))}
        )
        releases = tuple(
            EventRelease(max(0, when), {"actual": float(index)})
            for index, when in enumerate(released)
        )
        rows.append(
            replace(
                events()[number % 4],
                event_id=f"e{number}",
                announced_ns=announced,
                time_ns=due,
                releases=releases,
            )
        )

    articles = [
        replace(news()[number % 4], id=f"n{number}", published_ns=moment()) for number in range(60)
    ]

    return replace(DATASET, calendars=MemoryCalendars(rows), news=MemoryNews(articles))


def everything(dataset: Dataset, until_ns: int) -> list[tuple[int, str, int]]:
    """(moment, id, values released by then) of all that becomes known in the month, from the rows
    themselves.
    """
    _, calendars, articles = in_memory(dataset)
    keys = {(row.published_ns, row.id, 0) for row in articles.rows}

    for row in calendars.rows:
        for known in (row.announced_ns, *(release.available_ns for release in row.releases)):
            when = max(known, row.announced_ns)
            keys.add(
                (when, row.event_id, sum(release.available_ns <= when for release in row.releases))
            )

    return sorted(item for item in keys if FIRST - 5 * MINUTE < item[0] <= until_ns)


def follow(dataset: Dataset, steps_ns: list[int], limit: int) -> list[tuple[int, str, int]]:
    """What a client sees that asks once after each step of the clock, and then until nothing is
    left.
    """
    where = workspace(FIRST, dataset)
    cursor = "HEAD"
    seen: list[tuple[int, str, int]] = []

    def poll() -> bool:
        nonlocal cursor
        answer = ask(where, "ESP.events.stream", cursor=cursor, limit=limit)
        cursor = answer["next_cursor"]
        seen.extend(
            (at(event["known_utc"]), event["event_id"], len(event.get("releases", ())))
            for event in answer["events"]
        )

        return bool(answer["more"])

    poll()
    for step_ns in steps_ns:
        where.clock.advance(where.clock.as_of_ns + step_ns)
        poll()

    while poll():
        pass

    assert not ask(where, "ESP.events.stream", cursor=cursor)["events"]

    return seen


@pytest.mark.exhaustive
@pytest.mark.parametrize(("seed", "in_files"), [(1, False), (2, False), (3, True)])
def test_a_month_in_random_steps_is_everything_once_and_in_order(
    seed: int, in_files: bool, tmp_path: Path
) -> None:
    dataset = month(seed)
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, DAYS * DAY // MINUTE, 40)) * MINUTE
    steps = [int(step) for step in np.diff(np.concatenate(([0], cuts, [DAYS * DAY])))]
    served = dataset

    if in_files:
        _, held, news_store = in_memory(dataset)
        held = MemoryCalendars(list(map(storable, held.rows)))
        news_store = MemoryNews(list(map(storable, news_store.rows)))
        dataset = replace(dataset, calendars=held, news=news_store)
        save_dataset(tmp_path / "file", tiny_prices(), held.rows, news_store.rows, INFO)
        file = open_dataset(tmp_path / "file")
        served = replace(dataset, calendars=file.calendars, news=file.news)

    expected = everything(dataset, FIRST + DAYS * DAY)

    assert follow(served, steps, limit=int(rng.integers(1, 20))) == expected
    assert len(expected) > 150


@pytest.mark.exhaustive
@settings(max_examples=12)
@given(
    rows=EVENT_LISTS,
    articles=ARTICLE_LISTS,
    steps=st.lists(st.integers(0, 10).map(lambda minutes: minutes * MINUTE), max_size=6),
    limit=st.integers(1, 3),
)
def test_steps_and_limits_do_not_matter(
    rows: list[EventRow], articles: list[NewsRow], steps: list[int], limit: int
) -> None:
    dataset = replace(DATASET, calendars=MemoryCalendars(rows), news=MemoryNews(articles))
    to_the_end = at("2025-01-07") - FIRST
    first = 5 * DAY + 14 * 60 * MINUTE

    assert follow(dataset, [first, *steps, to_the_end], limit) == follow(
        dataset, [first + sum(steps) + to_the_end], 500
    )


def changes(
    now: str, cursor_from: str, dataset: Dataset = DATASET, **arguments: Any
) -> list[tuple[str, str, str, Any]]:
    """(moment, change, status, actual) of what becomes known between two moments."""
    where = workspace(cursor_from, dataset)
    cursor = ask(where, "ESP.events.stream")["next_cursor"]
    where.clock.advance(at(now))
    answer = ask(where, "ESP.events.stream", cursor=cursor, **arguments)

    return [
        (event["known_utc"], event["change"], event["status"], event["payload"].get("actual"))
        for event in answer["events"]
    ]


def test_an_event_is_streamed_as_it_stood_when_it_became_known() -> None:
    assert changes(
        "2025-02-28", "2024-11-30", event_types=["macro_calendar"], min_importance="high"
    ) == [
        ("2024-12-01T00:00:00Z", "announced", "scheduled", None),
        ("2025-01-15T13:30:00Z", "released", "occurred", 2.9),
        ("2025-02-12T13:30:00Z", "revised", "updated", 3.0),
    ]


def test_a_new_estimate_is_streamed_as_a_change_and_not_as_the_outcome() -> None:
    estimate = EventRelease(at("2025-01-20T12:00:00Z"), {"eps_estimated": 1.25})
    row = events()[2]
    dataset = replace(
        DATASET, calendars=MemoryCalendars([replace(row, releases=(estimate, *row.releases))])
    )
    known = changes("2025-02-01", "2025-01-02", dataset, event_types=["earnings"])

    assert [change for _, change, *_ in known] == ["announced", "changed", "released"]


def test_what_came_out_before_its_announcement_becomes_known_with_it() -> None:
    late = replace(events()[1], announced_ns=at("2025-01-11"))
    where = workspace("2025-01-11T00:04:00Z", replace(DATASET, calendars=MemoryCalendars([late])))
    (event,) = ask(where, "ESP.events.stream")["events"]

    assert (event["known_utc"], event["change"], event["payload"]["actual"]) == (
        "2025-01-11T00:00:00Z",
        "released",
        201_000,
    )


@pytest.mark.parametrize("cursor", [{}, {"cursor": "HEAD"}], ids=["no cursor", "HEAD"])
def test_a_stream_without_a_cursor_begins_five_minutes_ago(cursor: dict[str, str]) -> None:
    just_before = workspace("2025-01-06T15:06:59.999999999Z")
    assert len(ask(just_before, "ESP.events.stream", **cursor)["events"]) == 1
    assert ask(workspace("2025-01-06T15:07:00Z"), "ESP.events.stream", **cursor)["events"] == []


def test_a_cursor_from_a_later_clock_waits() -> None:
    later = ask(workspace("2025-02-01"), "ESP.events.stream")["next_cursor"]
    answer = ask(workspace(), "ESP.events.stream", cursor=later)
    assert (answer["events"], answer["next_cursor"]) == ([], later)
