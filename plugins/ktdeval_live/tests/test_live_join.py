"""Entrants that join a test that has begun: from the next day on, and nothing is filled in."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktdeval.errors import ConfigError
from ktdeval.registry import Plugins
from ktdeval_live.checks.check_beginning import _joined_findings
from ktdeval_live.checks.check_decisions import _late_or_early
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.days.clock import of_text
from ktdeval_live.deciding.beginning import begin, join
from ktdeval_live.deciding.past_replay import InlineAsker, SetClock
from ktdeval_live.deciding.step import LiveStep
from ktdeval_live.plan import Entrant
from ktdeval_live.record.entrant_episode import EntrantMarket, answers
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.settled_cards import settle_test
from support.live.live_plans import plan_of

NEW = Entrant(name="chance", model="builtin/random")


def steps(folder: LiveFolder, plugins: Plugins, clock: SetClock, *times: str) -> None:
    for time in times:
        clock.time = of_text(time)
        test = LiveFolder(folder.path)
        with test.lock():
            LiveStep(test, plugins, clock, InlineAsker(test, plugins, clock)).run()


@pytest.mark.exhaustive
def test_joiner_decides_from_the_next_day_on(tmp_path: Path, plugins: Plugins) -> None:
    clock = SetClock(of_text("2024-05-30T00:00:00Z"))
    folder = begin(plan_of(), tmp_path / "week", plugins, clock)
    steps(folder, plugins, clock, "2024-05-31T20:15:00Z", "2024-06-03T20:15:00Z")

    clock.time = of_text("2024-06-04T14:00:00Z")  # the decision on 3 June was due at 13:20
    joined = join(LiveFolder(folder.path), NEW, plugins, clock)

    assert joined.first == "2024-06-05"

    steps(folder, plugins, clock, "2024-06-04T20:15:00Z", "2024-06-05T20:15:00Z")

    test = LiveFolder(folder.path)
    entry = EntrantMarket(test.plan, test.plan.entrant("chance"), "us")

    assert list(answers(test.chain(), entry)) == ["2024-06-04", "2024-06-05"]
    assert verify_test(test, plugins).findings == ()

    cards = {card.entrant: card for card in settle_test(test, plugins, clock.now()).cards}
    assert cards["momentum"].days.counted == 3
    assert (cards["chance"].days.counted, cards["chance"].days.shadow) == (1, 2)

    results = cards["chance"].results  # the days before are no gaps, so that nothing is uncertain
    assert results.low.value == results.held.value == results.high.value


def test_nobody_joins_in_the_past(tmp_path: Path, plugins: Plugins) -> None:
    clock = SetClock(of_text("2024-05-30T00:00:00Z"))
    folder = begin(plan_of(), tmp_path / "week", plugins, clock)
    clock.time = of_text("2024-06-04T14:00:00Z")
    early = Entrant(name="early", model="builtin/random", first="2024-06-04")

    with pytest.raises(ConfigError, match="has its fills on 2024-06-05"):
        join(folder, early, plugins, clock)


def test_name_that_is_taken_is_refused(tmp_path: Path, plugins: Plugins) -> None:
    clock = SetClock(of_text("2024-05-30T00:00:00Z"))
    folder = begin(plan_of(), tmp_path / "week", plugins, clock)
    taken = Entrant(name="momentum", model="builtin/random")

    with pytest.raises(ConfigError, match="momentum is taken"):
        join(folder, taken, plugins, clock)


# ---- times of the chain, to the second

SESSION: Any = SimpleNamespace(
    day="2024-06-03",
    complete_at=of_text("2024-06-03T20:15:00Z"),
    cutoff=of_text("2024-06-04T13:20:00Z"),
)
FILL: Any = SimpleNamespace(day="2024-06-04", cutoff=None)


@pytest.mark.parametrize(
    ("first", "at", "rules"),
    [
        ("2024-06-04", "2024-06-04T13:20:00Z", ["joined"]),
        ("2024-06-04", "2024-06-04T13:19:59Z", []),
        ("2024-06-05", "2024-06-04T13:20:00Z", []),
    ],
)
def test_who_joins_at_the_cutoff_of_its_first_fill_is_late(
    first: str, at: str, rules: list[str]
) -> None:
    schedule = SimpleNamespace(sessions=(SESSION, FILL))
    checked: Any = SimpleNamespace(folder=SimpleNamespace(schedule=lambda market: schedule))
    link: Any = SimpleNamespace(at=at)
    entrant = Entrant(name="chance", model="builtin/random", markets=("us",), first=first)
    body: Any = SimpleNamespace(entrant=entrant)

    assert [finding.rule for finding in _joined_findings(checked, link, body)] == rules


@pytest.mark.parametrize(
    ("at", "rules"),
    [
        ("2024-06-03T20:14:59Z", ["early"]),
        ("2024-06-03T20:15:00Z", []),
        ("2024-06-04T13:19:59Z", []),
        ("2024-06-04T13:20:00Z", ["late"]),
    ],
)
def test_a_decision_is_in_time_from_its_day_end_to_before_its_cutoff(
    at: str, rules: list[str]
) -> None:
    entry: Any = SimpleNamespace(name="chance/us")
    link: Any = SimpleNamespace(at=at)

    assert [finding.rule for finding in _late_or_early(entry, SESSION, link)] == rules
