"""Stored sessions against a calendar that was corrected since: only what helps an entrant is found."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from ktdeval_live.checks.check_beginning import calendar_findings
from ktdeval_live.days.market_sessions import Schedule, Session
from ktdeval_live.record.chain import Entry, Frozen, RecordChain


def session(day: int, close: str = "21:00", next_open: str | None = "14:20") -> Session:
    cutoff = None
    if next_open is not None:
        cutoff = utc(f"2026-01-{day + 1:02}T{next_open}")

    return Session(
        day=f"2026-01-{day:02}", complete_at=utc(f"2026-01-{day:02}T{close}"), cutoff=cutoff
    )


def utc(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}+00:00")


def found(stored: list[Session], expected: list[Session], *frozen: str) -> list[tuple[str, str]]:
    links = []
    for seq, day in enumerate(frozen):
        body = Frozen(market="us", day=day, increment="0" * 64, number=0)
        links.append(Entry(seq=seq, previous="0" * 64, at="2026-01-10T00:00:00Z", body=body))

    findings = calendar_findings(
        RecordChain(Path("chain.jsonl"), links),
        Schedule(market="us", sessions=tuple(stored)),
        Schedule(market="us", sessions=tuple(expected)),
    )

    return [(finding.rule, finding.day) for finding in findings]


WEEK = [session(5), session(6), session(7, next_open=None)]


def test_sessions_of_the_calendar_hold() -> None:
    assert found(WEEK, WEEK, "2026-01-05", "2026-01-06") == []


def test_day_that_turned_out_to_be_a_holiday_holds_without_data() -> None:
    corrected = [session(5), session(7, next_open=None)]
    assert found(WEEK, corrected, "2026-01-05") == []
    assert found(WEEK, corrected, "2026-01-05", "2026-01-06") == [("schedule", "2026-01-06")]


def test_close_that_turned_out_to_be_early_holds_and_a_later_one_does_not() -> None:
    early = [session(5, close="18:00"), *WEEK[1:]]
    assert found(WEEK, early) == []
    assert found(early, WEEK) == [("schedule", "2026-01-05")]


def test_cutoff_may_be_earlier_than_the_calendar_has_it_and_not_later() -> None:
    strict = [session(5, next_open="13:00"), *WEEK[1:]]
    assert found(strict, WEEK) == []
    assert found(WEEK, strict) == [("schedule", "2026-01-05")]


def test_session_that_the_test_lacks_is_found() -> None:
    assert found([WEEK[0], WEEK[2]], WEEK) == [("schedule", "2026-01-06")]
