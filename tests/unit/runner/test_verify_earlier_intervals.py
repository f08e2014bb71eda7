"""Cards of before one day could leave no interval: verified by the rule of their time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cards.assembly import build_card
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig, RunFolder, evaluate, open_recorded_snapshot
from ktdeval.runner.scoring.score import make_inputs
from ktdeval.runner.scoring.verify import verify_card
from ktdeval.stats.resampling import Resampling
from ktdeval.values.documents.strict_json import dumps_pretty

TASK = "blinded_open_research"


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, plugins: Plugins) -> RunFolder:
    """Momentum in W6, of whose excess returns one day carries more than a third of the squares."""
    config = RunConfig(
        model="builtin/momentum",
        tasks=(TASK,),
        windows=("W6",),
        mask_key="0" * 32,
        out=str(tmp_path_factory.mktemp("runs") / "run"),
    )
    return RunFolder.load(evaluate(config, plugins).folder)


def ratio_of(card: dict[str, Any]) -> dict[str, Any]:
    ratio: dict[str, Any] = card["episodes"][0]["metrics"]["information_ratio"]
    return ratio


def earlier(folder: RunFolder, plugins: Plugins) -> tuple[Path, dict[str, Any]]:
    """The card as it was before the rule, and its place."""
    task = plugins.make_task(TASK, None)
    snapshot = open_recorded_snapshot(folder, plugins, {})
    inputs: Any = make_inputs(folder, task, snapshot, plugins)
    made = build_card(replace(inputs, resampling=Resampling(max_day_share=1.0)))
    path = folder.card_path(TASK)
    card = json.loads(dumps_pretty(made.plain))
    card["provenance"] = json.loads(path.read_text())["provenance"]
    return path, card


def test_a_day_that_decides_leaves_no_interval_on_a_card(folder: RunFolder) -> None:
    ratio = ratio_of(json.loads(folder.card_path(TASK).read_text()))
    assert ratio["value"] is not None
    assert ratio["interval"]["low"] is None
    assert ratio["interval"]["reason"].startswith("one day (2024-12-10, ")


def test_an_earlier_card_verifies_and_its_interval_can_not_be_changed(
    folder: RunFolder, plugins: Plugins
) -> None:
    path, card = earlier(folder, plugins)
    assert ratio_of(card)["interval"]["low"] is not None
    path.write_text(dumps_pretty(card))
    assert verify_card(path, plugins, {}).findings == ()

    for metrics in (card["episodes"][0]["metrics"], card["metrics"]):
        metrics["information_ratio"]["interval"]["low"] -= 0.1
    path.write_text(dumps_pretty(card))
    (finding,) = verify_card(path, plugins, {}).findings
    assert "information_ratio.interval.low" in finding.message
