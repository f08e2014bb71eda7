"""Sessions of a forward test: closes and cutoffs by hand, over holidays, early closes and changes of
the clock.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inline_snapshot import snapshot

from ktdeval.errors import ConfigError
from ktdeval.market import Instrument, find_venue
from ktdeval.testing import errors_of, snapshot_of_days
from ktdeval.trading import TradingConfig
from ktdeval_live.days.market_sessions import Schedule, fill_rules, schedule
from ktdeval_live.deciding.consistency_runs import _repeat
from ktdeval_live.page.build_data import _next_due
from ktdeval_live.page.data import NextDue
from ktdeval_live.page.write import write_page
from ktdeval_live.publication.publication_evidence import Level, weakest
from support.live.live_pages import Shape, generated_page

MARGIN = timedelta(minutes=10)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def times(found: Schedule) -> dict[str, tuple[datetime, datetime | None]]:
    return {one.day: (one.complete_at, one.cutoff) for one in found.sessions}


@pytest.mark.exhaustive
def test_us_session_ends_at_the_close_and_is_due_before_the_next_open() -> None:
    found = schedule("us", {"XNYS": "next_open"}, "2026-01-06", "2026-01-07", MARGIN)
    assert times(found) == {
        "2026-01-05": (utc("2026-01-05T21:00"), utc("2026-01-06T14:20")),
        "2026-01-06": (utc("2026-01-06T21:00"), utc("2026-01-07T14:20")),
        "2026-01-07": (utc("2026-01-07T21:00"), None),
    }
    assert [one.day for one in found.deciding] == ["2026-01-05", "2026-01-06"]


@pytest.mark.exhaustive
def test_holidays_and_early_closes_are_those_of_the_exchange() -> None:
    # Thanksgiving 2026 is 26 November; the day after closes at 13:00 in New York
    found = schedule("us", {"XNYS": "next_open"}, "2026-11-27", "2026-11-30", MARGIN)
    assert list(times(found)) == ["2026-11-25", "2026-11-27", "2026-11-30"]
    assert times(found)["2026-11-25"][1] == utc("2026-11-27T14:20")
    assert times(found)["2026-11-27"][0] == utc("2026-11-27T18:00")


@pytest.mark.exhaustive
def test_daylight_saving_time_moves_closes_in_utc() -> None:
    # clocks go forward in New York on 8 March 2026
    found = times(schedule("us", {"XNYS": "next_open"}, "2026-03-06", "2026-03-10", MARGIN))
    assert found["2026-03-06"] == (utc("2026-03-06T21:00"), utc("2026-03-09T13:20"))
    assert found["2026-03-09"][0] == utc("2026-03-09T20:00")


def test_coins_that_fill_at_closes_are_due_before_the_next_midnight() -> None:
    found = schedule("coins", {"24/7": "next_close"}, "2026-01-03", "2026-01-04", MARGIN)
    assert times(found) == {
        "2026-01-02": (utc("2026-01-03T00:00"), utc("2026-01-03T23:50")),
        "2026-01-03": (utc("2026-01-04T00:00"), utc("2026-01-04T23:50")),
        "2026-01-04": (utc("2026-01-05T00:00"), None),
    }


@pytest.mark.exhaustive
def test_mixed_market_ends_at_the_last_close_and_is_due_before_first_fill() -> None:
    rules = {"XNYS": "next_open", "24/7": "next_close"}
    found = times(schedule("both", rules, "2026-01-03", "2026-01-05", MARGIN))  # type: ignore[arg-type]

    # Friday: coins close last; only coins fill on Saturday
    assert found["2026-01-02"] == (utc("2026-01-03T00:00"), utc("2026-01-03T23:50"))
    # Sunday: on Monday stocks fill first, at the open
    assert found["2026-01-04"] == (utc("2026-01-05T00:00"), utc("2026-01-05T14:20"))


def test_market_that_never_closes_can_not_fill_at_its_next_open() -> None:
    with pytest.raises(ConfigError, match="fill: next_close"):
        schedule("coins", {"24/7": "next_open"}, "2026-01-03", "2026-01-04", MARGIN)


@pytest.mark.slow
def test_test_without_a_session_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no session from 2026-01-03 to 2026-01-04"):
        schedule("us", {"XNYS": "next_open"}, "2026-01-03", "2026-01-04", MARGIN)


def test_rules_that_a_forward_test_can_not_fill_by_are_refused() -> None:
    instruments = (Instrument("stock", "USD", "us_equity"),)

    def fill_by(fill: Any) -> None:
        rules = {"us_equity": dataclasses.replace(find_venue("us_equity"), fill=fill)}
        market = snapshot_of_days(["A"], [[10.0]] * 2, instruments=instruments, rules=rules)
        fill_rules(market, TradingConfig())

    assert errors_of(fill_by, "same_close", "vwap_30m", "twap_day") == snapshot("""\
ConfigError: A fills at the close of its decision, which is impossible in a forward test; choose a task whose orders fill later
ConfigError: A fills at vwap_30m, a price of bars within days, which a forward test does not collect; choose a task whose orders fill at opens or closes
ConfigError: A fills at twap_day, a price of bars within days, which a forward test does not collect; choose a task whose orders fill at opens or closes
""")


# ---- what follows from sessions


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2024-06-03T20:14", NextDue(market="us", at="2024-06-03T20:30:00Z")),
        ("2024-06-03T20:15", None),
    ],
)
def test_data_are_next_due_after_the_delay_of_their_market(
    now: str, expected: NextDue | None
) -> None:
    sessions = [SimpleNamespace(complete_at=utc("2024-06-03T20:15"))]
    folder: Any = SimpleNamespace(
        plan=SimpleNamespace(markets={"us": SimpleNamespace(delay_minutes=15)}),
        schedule=lambda market: SimpleNamespace(market=market, sessions=sessions),
    )

    assert _next_due(folder, utc(now)) == expected


def test_a_repeat_without_a_decision_is_given_and_not_stored(tmp_path: Path) -> None:
    again = SimpleNamespace(provenance="failed")
    asker: Any = SimpleNamespace(
        folder=SimpleNamespace(private=tmp_path), ask_question=lambda *_: again
    )
    entry: Any = SimpleNamespace(entrant=SimpleNamespace(name="chance"), market="us")
    record: Any = SimpleNamespace(question=SimpleNamespace(day="2024-06-03"))

    assert _repeat(asker, entry, record, 0) is again
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (["stamped", "claimed (own authority)", "pushed"], "claimed (own authority)"),
        (["stamped", "pushed"], "pushed"),
        ([], "claimed"),
    ],
)
def test_the_weakest_evidence_counts(levels: list[Level], expected: Level) -> None:
    assert weakest(levels) == expected


def test_a_page_is_where_its_writer_says(tmp_path: Path) -> None:
    page = generated_page(Shape(entrants=1, days=30, kind="live"))
    assert write_page(page, tmp_path) == tmp_path / "index.html"
