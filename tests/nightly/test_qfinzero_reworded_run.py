"""From a run that words instructions anew to a run that asks them in these words."""

from __future__ import annotations

import json
from pathlib import Path

from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder
from ktdeval_qfinzero.suite.samples import embedded_items
from support.runs.run_support import card_of, error_line, ktdeval

VARIANT = """
family: mine
version: "1"
variants:
  in_other_words: {extends: qfinzero_calling, wordings: words.json}
"""


def test_recorded_wordings_are_asked_and_held_to_the_same_gold(tmp_path: Path) -> None:
    load_plugins()  # the embedded dataset is made once
    items = embedded_items(0, "calling", 0)[:3]
    said = [f"Please do this for me. {item.task.instruction}" for item in items]
    said[1] += " Sell 7 ZZTP, too."  # another instruction
    script = {"answers": [{"submit": {"answer": text}} for text in said]}
    (tmp_path / "words-script.json").write_text(json.dumps(script))
    model = ("--model", "builtin/script", "--model-args", "file=words-script.json")
    reword = ("--plugin", "ktdeval_qfinzero.rewording", "--tasks", "qfinzero_reword_calling")
    done = ktdeval("run", *model, *reword, "--limit", 3, "--out", "words", cwd=tmp_path)

    assert done.code == 0, done

    kept = card_of(tmp_path / "words", "qfinzero_reword_calling")["scores"]["kept"]
    assert kept["value"] * 3 == 2

    done = ktdeval("paper", "qfinzero", "wordings", "words", "--out", "words.json", cwd=tmp_path)
    assert done.out == "words.json: 2 wordings by builtin/script; left out: 1\n"

    (tmp_path / "mine.yaml").write_text(VARIANT)
    asked = ("run", "--model", "builtin/chaos", "--tasks", "mine.yaml", "--out", "asked")
    done = ktdeval(*asked, cwd=tmp_path)

    assert done.code == 0, done

    card = card_of(tmp_path / "asked", "in_other_words")
    described = card["task"]["config"]["material"]

    assert described["wordings"]["model"] == "builtin/script"
    assert described["questions"]["count"] == 2

    folder = RunFolder.load(tmp_path / "asked")
    (spec,) = folder.manifest.specs
    original = {item.task.id: item.task for item in items}

    for record in folder.load_answers(spec):
        task = record.facts["task"]
        own = original[record.sample]
        assert task["natural_language_instruction"] == f"Please do this for me. {own.instruction}"
        assert [call["tool_name"] for call in task["expected_tool_calls"]] == [
            call.tool for call in own.calls
        ]

    verified = ktdeval("card", "verify", "asked/cards/in_other_words.json", cwd=tmp_path)

    assert verified.code == 0, verified

    empty = error_line(
        ktdeval("paper", "qfinzero", "wordings", "asked", "--out", "x.json", cwd=tmp_path)
    )

    assert "expected finished episodes of one task qfinzero_reword_calling" in empty
