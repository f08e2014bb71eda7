"""Decisions that are made again one after another in one episode, as if each had one of its own."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ktdeval.registry import Plugins
from ktdeval.testing import not_empty
from ktdeval_live.checks.checked_folder import CheckedFolder
from ktdeval_live.checks.decision_replay import KnownMarkets, Retracer
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.days.clock import of_text
from ktdeval_live.deciding.past_replay import SetClock
from ktdeval_live.record.chain import Decided, Frozen, RecordChain
from ktdeval_live.record.decision_records import DecisionRecord
from ktdeval_live.record.entrant_episode import DayAnswer, EntrantMarket, answers
from ktdeval_live.record.folder import LiveFolder
from support.live.live_plans import rehearsed
from support.live.live_week import BEFORE, kept_week

Recorded = tuple[DecisionRecord, int, DayAnswer]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory, plugins: Plugins) -> CheckedFolder:
    path = tmp_path_factory.mktemp("live") / "week"
    folder = kept_week(path, plugins, SetClock(of_text(BEFORE)), None)
    return CheckedFolder(folder, folder.chain(), plugins)


def recorded(checked: CheckedFolder, entry: EntrantMarket) -> list[Recorded]:
    """Return the records of an entry, with the number of links that each was shown."""
    ended = answers(checked.chain, entry)
    found = []

    for link in checked.chain.entries:
        body = link.body
        if not isinstance(body, Decided) or (body.entrant, body.market) != (
            entry.entrant.name,
            entry.market,
        ):
            continue

        record = checked.folder.record(body.key)
        assert record is not None
        found.append((record, checked.frozen[body.data].seq + 1, ended[body.day]))

    return found


@pytest.mark.exhaustive
def test_one_episode_finds_what_an_episode_for_each_decision_finds(checked: CheckedFolder) -> None:
    for entry in not_empty(checked.entries):
        shared = Retracer(entry, checked, KnownMarkets(checked.folder, checked.chain))
        records = recorded(checked, entry)
        assert len(records) >= 4
        for record, before, answer in not_empty(records):
            own = Retracer(entry, checked, known_then(checked, before))
            assert shared.retrace(record, before, answer) is None
            assert own.retrace(record, before, answer) is None

            forged = msgspec.structs.replace(record, overall_reason="foresight")
            alone = Retracer(entry, checked, known_then(checked, before))
            anew = Retracer(entry, checked, KnownMarkets(checked.folder, checked.chain))
            difference = anew.retrace(forged, before, answer)
            assert difference is not None
            assert "overall_reason" in difference
            assert alone.retrace(forged, before, answer) == difference


def known_then(checked: CheckedFolder, before: int) -> KnownMarkets:
    """Return the markets with nothing that was frozen after a decision."""
    return KnownMarkets(checked.folder, checked.chain.first(before))


@pytest.mark.exhaustive
def test_revision_and_late_data_begin_a_new_stretch(checked: CheckedFolder) -> None:
    markets = KnownMarkets(checked.folder, checked.chain)
    stretches = {}
    for link in checked.chain.entries:
        body = link.body
        if isinstance(body, Frozen) and body.market == "us":
            stretches[body.day, body.number] = markets.stretch("us", link.seq + 1)

    assert stretches == {
        ("2024-05-31", 0): 0,
        ("2024-06-03", 0): 0,
        ("2024-06-03", 1): 1,
        ("2024-06-04", 0): 1,
        ("2024-06-05", 0): 1,
        ("2024-06-06", 0): 1,
        ("2024-06-07", 0): 1,
    }
    assert isinstance(checked.folder.chain(), RecordChain)


@pytest.mark.exhaustive
def test_half_day_is_decided_on_though_news_come_after_its_close(
    tmp_path: Path, plugins: Plugins
) -> None:
    folder = rehearsed(tmp_path / "week", plugins, first="2024-07-03", last="2024-07-05")
    entry = EntrantMarket(folder.plan, folder.plan.entrant("momentum"), "us")
    ended = answers(folder.chain(), entry)

    assert {day: answer.counts for day, answer in ended.items()} == {
        "2024-07-02": True,
        "2024-07-03": True,
    }
    assert verify_test(LiveFolder(folder.path), plugins).findings == ()
