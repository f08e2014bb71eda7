"""Cards of a forward test hold later on: each rests on the chain as it was when it was made."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ktdeval.registry import Plugins
from ktdeval.values import dumps_pretty, loads_strict
from ktdeval_live.checks.check_cards import CardCheck
from ktdeval_live.checks.checked_folder import CheckedFolder
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.days.clock import of_text
from ktdeval_live.deciding.beginning import begin
from ktdeval_live.deciding.past_replay import SetClock
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.settled_cards import settle_test, write_cards
from support.live.live_plans import plan_of, rehearsed
from support.live.live_week import BEFORE, take_step

CLOSES = tuple(
    f"2024-{day}T20:15:00Z" for day in ("05-31", "06-03", "06-04", "06-05", "06-06", "06-07")
)


@pytest.mark.slow
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


# ---- a card that is not what `settle` wrote


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, plugins: Plugins) -> LiveFolder:
    """A rehearsal of one day of fills, with its card."""
    path = tmp_path_factory.mktemp("live") / "day"
    folder = rehearsed(path, plugins, last="2024-06-03")
    write_cards(folder, settle_test(folder, plugins, of_text("2024-06-10T00:00:00Z")).cards)

    return folder


@pytest.fixture
def folder(kept: LiveFolder, tmp_path: Path) -> LiveFolder:
    return LiveFolder(shutil.copytree(kept.path, tmp_path / "day"))


def problems(folder: LiveFolder, plugins: Plugins) -> list[str]:
    check = CardCheck(CheckedFolder(folder, folder.chain(), plugins))
    return [f"{finding.rule}: {finding}" for finding in check.findings()]


def card_file(folder: LiveFolder) -> Path:
    return folder.path / "cards" / "momentum-us.json"


@pytest.mark.slow
def test_card_that_settle_wrote_has_no_problem(folder: LiveFolder, plugins: Plugins) -> None:
    assert problems(folder, plugins) == []


def test_card_of_no_entrant_is_found(folder: LiveFolder, plugins: Plugins) -> None:
    card_file(folder).rename(folder.path / "cards" / "stranger-us.json")

    assert problems(folder, plugins) == [
        "card: cards/stranger-us.json: is of no entrant and market of this test"
    ]


def test_card_that_is_spaced_otherwise_is_found(folder: LiveFolder, plugins: Plugins) -> None:
    file = card_file(folder)
    file.write_bytes(file.read_bytes() + b"\n")

    assert problems(folder, plugins) == [
        "card: cards/momentum-us.json: is not written as `ktdeval live settle` writes it"
    ]


@pytest.mark.parametrize(
    ("part", "changes", "problem"),
    [
        ("test", {"links": 0}, "rests on another chain than this one"),
        ("test", {"links": 1}, "rests on another chain than this one"),  # its hash is of the last
        ("test", {"links": 1_000}, "rests on another chain than this one"),
        ("test", {"head": "0" * 64}, "rests on another chain than this one"),
        ("evidence", {"pushed": 1}, "evidence.pushed"),
        ("market", {"settled": "0" * 64}, "market.settled"),
    ],
)
def test_card_whose_part_was_changed_is_found(
    folder: LiveFolder, plugins: Plugins, part: str, changes: dict[str, Any], problem: str
) -> None:
    rewrite(folder, {part: changes})

    (found,) = problems(folder, plugins)
    assert found.startswith(f"card: cards/momentum-us.json: {problem}")


def test_card_that_counts_publications_of_later_links_is_found(
    folder: LiveFolder, plugins: Plugins
) -> None:
    """It states the chain as of its first link, and the publications of all of them."""
    first = folder.chain().entries[0]

    rewrite(folder, {"test": {"links": 1, "head": first.hash}})

    assert problems(folder, plugins) == [
        "card: cards/momentum-us.json: counts publications of later links"
    ]


def test_provenance_of_a_card_may_be_any(folder: LiveFolder, plugins: Plugins) -> None:
    rewrite(folder, {"provenance": {"suite_version": "9.9"}})

    assert problems(folder, plugins) == []


def rewrite(folder: LiveFolder, parts: dict[str, dict[str, Any]]) -> None:
    """Write the card with other values in some of its parts, in its form."""
    file = card_file(folder)
    card: Any = loads_strict(file.read_text("utf-8"))

    for part, changes in parts.items():
        card[part].update(changes)

    file.write_text(dumps_pretty(card), "utf-8")
