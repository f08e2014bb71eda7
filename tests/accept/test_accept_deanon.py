"""Whole runs of the de-anonymization probes: run, card, verify, resume, tamper; what a reader sees
and what the mask leaves it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.runner.records.episode_journal import pack_lines
from ktdeval.runner.records.run_folder import ANSWERS, RunFolder
from support.paths import SUPPORT
from support.runs.run_support import SAME_MASK, card_of

PLUGIN = str(SUPPORT / "masking" / "deanon_plugin.py")
RATES = ("ticker_top1", "ticker_top5", "date_within_5", "joint")


def attack(
    market: Path, out: Path, *more: str, task: str = "deanon_probe", model: str = "reader"
) -> Any:
    """The card of a run."""
    words = (
        f"--plugin {PLUGIN} --model attacker/{model} --tasks {task} --data {market} --out {out}"
        " --quiet".split()
    )

    assert main([*words, *SAME_MASK, "--windows", "2024-03-01:2024-03-29", *more]) == 0

    return card_of(out, task)


def test_what_a_reader_recovers_is_what_the_mask_shows(
    market: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for task, found in (("deanon_probe_bright", 1.0), ("deanon_probe", 0.0)):
        run = str(tmp_path / task)
        card = attack(market, tmp_path / task, task=task)
        assert card["kind"] == "scoring"
        assert card["coverage"]["steps_decided"] == card["coverage"]["steps"] > 10
        assert [card["scores"][name]["value"] for name in RATES] == [found] * len(RATES)
        assert all(card["scores"][name]["baseline"] < 1 for name in RATES)
        for words in (
            ["verify", run, "--plugin", PLUGIN],
            ["verify", "--card-only", run],
            ["show", run],
        ):
            assert main(["card", *words]) == 0

        assert "ticker_top5" in capsys.readouterr().out
        # The same command again asks nothing and gives the same card; so does another folder.
        for out in (tmp_path / task, tmp_path / f"{task}_again"):
            assert attack(market, out, task=task) | {"provenance": None} == card | {
                "provenance": None
            }


def test_an_attacker_without_a_valid_answer_is_counted_and_left_out(
    market: Path, tmp_path: Path
) -> None:
    card = attack(market, tmp_path / "run", "--limit", "3", model="mumbler")
    assert card["decisions"] == {"model": 0, "model_after_retry": 0, "fallback": 3, "error": 0}
    assert card["failures"]["schema"] == 12
    assert card["scores"]["ticker_top1"]["value"] is None
    assert "limited" in card["labels"]
    assert not card["rankable"]["value"]


def test_a_changed_answer_is_found_and_commands_for_trading_cards_refuse_a_scoring_card(
    market: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    attack(market, run, "--limit", "3")
    card = str(run / "cards" / "deanon_probe.json")

    for command in ("luck", "masks", "labels", "cohorts"):
        capsys.readouterr()
        assert main(["compare", command, card]) == 2
        assert "is a scoring card; this command takes trading cards" in capsys.readouterr().err

    assert main(["compare", str(run)]) == 2
    assert "a comparison needs at least two cards" in capsys.readouterr().err

    folder = RunFolder.load(run)
    spec = folder.manifest.specs[0]
    answers = folder.load_answers(spec)
    answers[1].scores["ticker_top1"] = True
    (folder.episode_path(spec) / ANSWERS).write_bytes(pack_lines(answers))

    assert main(["card", "verify", str(run), "--plugin", PLUGIN]) == 1
    assert (
        "line 2 of answers.jsonl.zst does not follow from its replies: scores.ticker_top1"
        in capsys.readouterr().out
    )
