"""Whole runs of the de-anonymization probes: run, card, verify, resume, tamper; what a reader sees and what the mask leaves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.market.storage import save_snapshot
from ktdfin_market import small_market
from paths import SUPPORT

PLUGIN = str(SUPPORT / "deanon_plugin.py")
WINDOWS = "2024-03-01:2024-03-29"
RATES = ("ticker_top1", "ticker_top5", "date_within_5", "joint")


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("market") / "small"
    save_snapshot(small_market(), folder)
    return folder


def attack(market: Path, out: Path, task: str, model: str = "attacker/reader", *more: str) -> int:
    arguments = ["--plugin", PLUGIN, "--model", model, "--tasks", task, "--data", str(market), "--windows", WINDOWS]
    return main([*arguments, "--out", str(out), "--quiet", *more])


def card_of(run: Path, task: str) -> Any:
    return json.loads((run / "cards" / f"{task}.json").read_text())


def test_what_a_reader_recovers_is_what_the_mask_shows(market: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for task, found in (("deanon_probe_bright", 1.0), ("deanon_probe", 0.0)):
        run = tmp_path / task
        assert attack(market, run, task) == 0
        card = card_of(run, task)
        assert card["kind"] == "scoring"
        assert card["coverage"]["steps_decided"] == card["coverage"]["steps"] > 10
        assert [card["scores"][name]["value"] for name in RATES] == [found] * len(RATES)
        assert all(card["scores"][name]["baseline"] < 1 for name in RATES)
        assert main(["card", "verify", str(run), "--plugin", PLUGIN]) == 0
        assert main(["card", "validate", str(run)]) == 0
        assert main(["card", "show", str(run)]) == 0
        assert "ticker_top5" in capsys.readouterr().out


def test_the_same_command_again_asks_nothing_and_gives_the_same_card(market: Path, tmp_path: Path) -> None:
    assert attack(market, tmp_path / "run", "deanon_probe") == 0
    before = card_of(tmp_path / "run", "deanon_probe")
    assert attack(market, tmp_path / "run", "deanon_probe") == 0
    assert attack(market, tmp_path / "other", "deanon_probe") == 0
    for run in ("run", "other"):
        after = card_of(tmp_path / run, "deanon_probe")
        assert {**after, "provenance": None} == {**before, "provenance": None}


def test_an_attacker_without_a_valid_answer_is_counted_and_left_out(market: Path, tmp_path: Path) -> None:
    assert attack(market, tmp_path / "run", "deanon_probe", "attacker/mumbler", "--limit", "3") == 0
    card = card_of(tmp_path / "run", "deanon_probe")
    assert card["decisions"] == {"model": 0, "model_after_retry": 0, "fallback": 3, "error": 0}
    assert card["failures"]["schema"] == 12
    assert card["scores"]["ticker_top1"]["value"] is None
    assert "limited" in card["labels"]
    assert not card["rankable"]["value"]


def test_a_changed_answer_is_found(market: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ktdeval.runner.journal import pack_lines
    from ktdeval.runner.store import ANSWERS, RunFolder

    run = tmp_path / "run"
    assert attack(market, run, "deanon_probe", "attacker/reader", "--limit", "3") == 0
    folder = RunFolder.load(run)
    spec = folder.manifest.specs[0]
    answers = folder.load_answers(spec)
    answers[1].scores["ticker_top1"] = True
    (folder.episode_path(spec) / ANSWERS).write_bytes(pack_lines(answers))
    assert main(["card", "verify", str(run), "--plugin", PLUGIN]) == 1
    assert "do not give line 2 of answers.jsonl.zst: scores.ticker_top1" in capsys.readouterr().err


def test_commands_for_trading_cards_say_that_a_scoring_card_is_none(
    market: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert attack(market, run, "deanon_probe", "attacker/reader", "--limit", "2") == 0
    card = str(run / "cards" / "deanon_probe.json")
    for command in (["compare", card, card], ["luck", card], ["effects", card], ["invariance", card], ["report", card]):
        capsys.readouterr()
        assert main(command) == 2
        assert "is a scoring card; this command takes trading cards" in capsys.readouterr().err
    assert main(["compare", str(run)]) == 2
    assert "has no card of a trading task" in capsys.readouterr().err
