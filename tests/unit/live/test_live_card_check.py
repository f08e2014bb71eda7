"""Cards of a forward test hold later on: each rests on the chain as it was when it was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.registry.plugin_registry import Plugins
from ktdeval_live.clock import of_text
from ktdeval_live.folder import LiveFolder
from ktdeval_live.init_test import begin
from ktdeval_live.past_replay import SetClock
from ktdeval_live.settled_cards import settle_test, write_cards
from ktdeval_live.verify_test import verify_test
from live_plans import plan_of
from live_week import BEFORE, take_step

CLOSES = tuple(
    f"2024-{day}T20:15:00Z" for day in ("05-31", "06-03", "06-04", "06-05", "06-06", "06-07")
)


@pytest.mark.parametrize("settled_after", [1, 3, 6])
def test_card_of_an_earlier_day_verifies(
    tmp_path: Path, plugins: Plugins, settled_after: int
) -> None:
    clock = SetClock(of_text(BEFORE))
    path = tmp_path / "week"
    begin(plan_of(), path, plugins, clock)
    for number, time in enumerate(CLOSES, 1):
        clock.time = of_text(time)
        take_step(path, plugins, clock)
        if number == settled_after:
            folder = LiveFolder(path)
            cards = settle_test(folder, plugins, clock.now()).cards
            (file,) = write_cards(folder, cards)
            assert cards[0].days.settled == settled_after - 1

    assert verify_test(LiveFolder(path), plugins).findings == ()
    text = file.read_text("utf-8")
    file.write_text(text.replace('"revisions": 0', '"revisions": 1'), "utf-8")
    findings = verify_test(LiveFolder(path), plugins).findings
    assert [finding.rule for finding in findings] == ["card"]
