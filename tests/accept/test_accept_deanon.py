"""Whole runs of the de-anonymization probes: run, card, verify, resume, tamper; what a reader sees
and what the mask leaves it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ktdeval.cli.main import main
from ktdeval.runner.records.episode_journal import pack_lines
from ktdeval.runner.records.run_file_names import ANSWERS
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.testing import Terminal
from support.paths import SUPPORT
from support.runs.run_support import SAME_MASK, WINDOW, card_of

PLUGIN = str(SUPPORT / "masking" / "deanon_plugin.py")
RATES = ("ticker_top1", "ticker_top5", "date_within_5", "joint")


def attack(
    market: Path, out: Path, *more: str, task: str = "deanon_probe", model: str = "reader"
) -> Any:
    """The card of a run."""
    text = (
        f"--plugin {PLUGIN} --model attacker/{model} --tasks {task} --data {market} --out {out}"
        f" --quiet --windows {WINDOW}"
    )

    assert main([*text.split(), *SAME_MASK, *more]) == 0

    return card_of(out, task)


def test_what_a_reader_recovers_is_what_the_mask_shows(
    market: Path, tmp_path: Path, terminal: Terminal
) -> None:
    for task, found in (("deanon_probe_bright", 1.0), ("deanon_probe", 0.0)):
        run = tmp_path / task
        card = attack(market, run, task=task)
        assert card["kind"] == "scoring"
        assert card["coverage"]["steps_decided"] == card["coverage"]["steps"] > 10
        assert [card["scores"][name]["value"] for name in RATES] == [found] * len(RATES)
        assert all(card["scores"][name]["baseline"] < 1 for name in RATES)
        terminal.out("card", "verify", run, "--plugin", PLUGIN)
        terminal.out("card", "verify", "--card-only", run)
        assert "ticker_top5" in terminal.out("card", "show", run)

        del card["provenance"]
        # The same command again asks nothing and gives the same card; so does another folder.
        for out in (run, tmp_path / f"{task}_again"):
            again = attack(market, out, task=task)
            del again["provenance"]
            assert again == card


def test_an_attacker_without_a_valid_answer_is_counted_and_left_out(
    market: Path, tmp_path: Path
) -> None:
    card = attack(market, tmp_path / "run", "--limit", "3", model="mumbler")
    assert card["decisions"] == {"model": 0, "model_after_retry": 0, "fallback": 3, "error": 0}
    assert card["failures"]["schema"] == 12
    assert card["scores"]["ticker_top1"]["value"] is None
    assert "limited" in card["labels"]
    assert not card["rankable"]["value"]


def test_a_changed_answer_is_found_and_a_scoring_card_is_no_trading_card(
    market: Path, tmp_path: Path, terminal: Terminal
) -> None:
    run = tmp_path / "run"
    attack(market, run, "--limit", "3")

    for command in ("luck", "masks", "labels", "cohorts"):
        refused = terminal.error("compare", command, run / "cards" / "deanon_probe.json")
        assert "is a scoring card; this command takes trading cards" in refused

    assert "a comparison needs at least two cards" in terminal.error("compare", run)

    folder = RunFolder.load(run)
    spec = folder.manifest.specs[0]
    answers = folder.load_answers(spec)
    answers[1].scores["ticker_top1"] = True
    (folder.episode_path(spec) / ANSWERS).write_bytes(pack_lines(answers))

    code, out, _ = terminal.call("card", "verify", run, "--plugin", PLUGIN)
    found = "line 2 of answers.jsonl.zst does not follow from its replies: scores.ticker_top1"
    assert (code, found in out) == (1, True)
