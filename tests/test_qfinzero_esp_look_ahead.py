"""Look-ahead: whatever the future holds, every answer of the event services as of a moment is the same to the byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from qfinzero_esp_play import CATALOGUE, DATASET, workspace
from qfinzero_poison import poison
from qfinzero_world import at

from ktdeval.api import dumps_canonical
from ktdeval_qfinzero.data.memory import MemoryCalendars, MemoryNews
from ktdeval_qfinzero.data.sqlite_calendars import open_calendars, write_calendars
from ktdeval_qfinzero.data.sqlite_news import open_news, write_news
from ktdeval_qfinzero.data.stores import Dataset
from ktdeval_qfinzero.esp.operations import OPERATIONS

MOMENTS = (
    "2024-11-01T00:00:00Z",
    "2025-01-03T12:00:00Z",
    "2025-01-06T15:01:59.999999999Z",
    "2025-01-08T12:00:00Z",
    "2025-01-15T13:29:59.999999999Z",
    "2025-01-15T13:30:00Z",
    "2025-02-12T13:29:00Z",
)
"""Just before and just at announcements, publications, releases and a revision."""

EVER = {"mode": "window", "start_utc": "2024-01-01", "end_utc": "2026-01-01"}
FROM_THE_BEGINNING = "WzAsIiJd"  # [0, ""]
FILTERS: list[dict[str, Any]] = [{}, {"tickers": ["AVLN", "ZNEW"]}, {"min_importance": "high"}, {"limit": 1}, {"markets": ["us"]}]
CALLS: list[tuple[str, dict[str, Any]]] = [
    *[("ESP.events.query", {**EVER, "view": "full", **more}) for more in FILTERS],
    *[("ESP.events.query", {"mode": mode, "horizon_minutes": 50_000, "view": "full"}) for mode in ("upcoming", "just_happened")],
    *[("ESP.events.stream", {"cursor": FROM_THE_BEGINNING, **more}) for more in FILTERS],
    ("ESP.events.stream", {}),
    *[("ESP.triggers.next", {"min_importance": "low", "horizon_minutes": 90 * 1440, **more}) for more in FILTERS],
    *[("ESP.timeline", {"start_utc": "2024-11-01", "end_utc": "2025-03-01", "bucket_minutes": 1440, **more}) for more in FILTERS],
    ("ESP.timeline", {}),
    *[
        (name, {"start_date": "2024-01-01", "end_date": "2026-01-01", **more})
        for name in ("ESP.calendar.econ", "ESP.calendar.earnings")
        for more in ({}, {"limit": 1}, {"min_importance": "high"})
    ],
    ("ESP.calendar.econ", {}),
    ("ESP.calendar.earnings", {"tickers": ["AVLN", "ZNEW"], "end_date": "2026-01-01"}),
    *[
        ("ESP.news.search", {"start_utc": "2024-01-01", "end_utc": "2026-01-01", "view": "full", **more})
        for more in ({}, {"limit": 1}, {"keyword": "avalon"}, {"keyword": "poisoned"}, {"tickers": ["BRKT", "ZNEW"]})
    ],
    *[
        ("ESP.events.get", {"event_id": event_id})
        for event_id in (
            "econ_cpi_2025_01",
            "earn_AVLN_2024Q4",
            "earn_BRKT_2024Q4",
            "earn_AVLN_soon",
            "news_1",
            "news_3",
            "news_poison_1",
        )
    ],
    *[("ESP.news.body", {"news_id": news_id}) for news_id in ("news_1", "news_2", "news_3", "news_poison_1", "none")],
    *[("ESP.calendar.coverage", {"days": days}) for days in (1, 366)],
    ("ESP.health.freshness", {}),
]


def answers(dataset: Dataset, now: str) -> list[str]:
    where = workspace(now, dataset)
    return [dumps_canonical(CATALOGUE.answer(where, name, dict(arguments))) for name, arguments in CALLS]


def in_files(dataset: Dataset, folder: Path) -> Dataset:
    assert isinstance(dataset.calendars, MemoryCalendars)
    assert isinstance(dataset.news, MemoryNews)
    folder.mkdir()
    write_calendars(folder / "calendars.sqlite", dataset.calendars.rows)
    write_news(folder / "news.sqlite", dataset.news.rows)
    return replace(dataset, calendars=open_calendars(folder / "calendars.sqlite"), news=open_news(folder / "news.sqlite"))


def test_every_call_is_tried() -> None:
    assert {name for name, _ in CALLS} == {operation.name for operation in OPERATIONS}


@pytest.mark.parametrize("now", MOMENTS)
def test_a_poisoned_future_changes_no_answer(now: str, tmp_path: Path) -> None:
    clean, poisoned = DATASET, poison(DATASET, at(now))
    expected = answers(clean, now)
    for dataset in (poisoned, in_files(clean, tmp_path / "clean"), in_files(poisoned, tmp_path / "poisoned")):
        for call, before, after in zip(CALLS, expected, answers(dataset, now), strict=True):
            assert after == before, call


def test_the_poison_would_be_seen() -> None:
    """The test has teeth: a clock one nanosecond further gives other answers to every call that lists anything."""
    now = "2025-01-15T13:29:59.999999999Z"
    clean, poisoned = (
        answers(DATASET, "2025-01-15T13:30:00Z"),
        answers(poison(DATASET, at(now)), "2025-01-15T13:30:00Z"),
    )
    differing = {name for (name, _), one, other in zip(CALLS, clean, poisoned, strict=True) if one != other}
    assert differing >= {operation.name for operation in OPERATIONS}
