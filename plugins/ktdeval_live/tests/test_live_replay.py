"""A rehearsed forward test: the same as an ordinary run, verified, settled, and its changes found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ktdeval.cards import load_card
from ktdeval.registry import Plugins
from ktdeval.runner import RunConfig, RunFolder, evaluate
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.days.clock import of_text
from ktdeval_live.record.entrant_episode import EntrantMarket, EntryEpisode
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.settled_cards import settle_test, write_cards
from support.live.live_plans import entrants, rehearsed

pytestmark = pytest.mark.slow

MODELS = {"momentum": "builtin/momentum", "chance": "builtin/random"}


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory, plugins: Plugins) -> LiveFolder:
    path = tmp_path_factory.mktemp("live") / "week"
    return rehearsed(path, plugins, entrants=entrants(MODELS))


def test_days_one_by_one_give_the_ledger_of_an_ordinary_run(
    week: LiveFolder, plugins: Plugins, tmp_path: Path
) -> None:
    config = RunConfig(
        model="builtin/momentum",
        tasks=("market_bright",),
        data="synthetic_us",
        windows=("2024-06-03:2024-06-07",),
        out=str(tmp_path / "run"),
    )
    evaluate(config, plugins)
    run = RunFolder.load(tmp_path / "run")
    ordinary = run.load_ledger(run.manifest.specs[0])

    entry = EntrantMarket(week.plan, week.plan.entrant("momentum"), "us")
    episode = EntryEpisode(entry, week, plugins, week.market("us"))
    episode.settle(week.chain(), 5)

    assert len(episode.records) == 5
    assert tuple(episode.records) == ordinary.steps


def test_rehearsal_verifies(week: LiveFolder, plugins: Plugins) -> None:
    result = verify_test(week, plugins)
    assert result.findings == ()
    assert (result.decisions, result.sealed) == (10, 0)


def test_cards_are_valid_and_say_what_they_are(week: LiveFolder, plugins: Plugins) -> None:
    cards = settle_test(week, plugins, of_text("2024-06-08T00:00:00Z")).cards
    assert len(cards) == 2

    for path, card in zip(write_cards(week, cards), cards, strict=True):
        assert load_card(path) == card
        assert card.days.counted == card.days.decided == 5
        assert {"rehearsal", "synthetic", "not stamped", "few days"} <= set(card.labels)
        held = card.results.held.value
        assert (card.results.flat.value, card.results.low.value, card.results.high.value) == (
            held,
            held,
            held,
        )


def _edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        file = path / name
        text = file.read_text("utf-8")
        assert old in text
        file.write_text(text.replace(old, new, 1), "utf-8")

    return change


def _remove(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).unlink()


RECORD = "records/momentum/us/2024-05-31.json"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("change", "rule", "day"),
    [
        (_edit("plan.json", '"seed": 0', '"seed": 1'), "plan", ""),
        (_edit("schedules/us.json", "2024-06-03T20:00", "2024-06-03T19:00"), "schedule", ""),
        (_edit("data/us/2024-06-04-0.json", '"volume":', '"volume":1'), "data", "2024-06-04"),
        (_edit(RECORD, '"confidence":0.', '"confidence":0.9'), "record", "2024-05-31"),
        (_edit(RECORD, '"provenance":"model"', '"provenance":"fallback"'), "record", "2024-05-31"),
        (_remove(RECORD), "record", "2024-05-31"),
        (_edit("chain.jsonl", '"day":"2024-06-04"', '"day":"2024-06-05"'), "chain", ""),
        (_edit("published.jsonl", '"seq":3', '"seq":4'), "published", ""),
        (_edit("published.jsonl", "2024-05-31T20:15", "2024-06-03T20:15"), "published", ""),
    ],
    ids=[
        "plan", "session", "price", "order", "provenance", "missing", "chain", "evidence", "time",
    ],
)  # fmt: skip
def test_change_is_found_with_its_rule_and_day(
    week: LiveFolder,
    plugins: Plugins,
    tmp_path: Path,
    change: Callable[[Path], None],
    rule: str,
    day: str,
) -> None:
    shutil.copytree(week.path, tmp_path / "copy")
    change(tmp_path / "copy")
    findings = verify_test(LiveFolder(tmp_path / "copy"), plugins).findings

    assert findings
    assert (findings[0].rule, findings[0].day) == (rule, day)
