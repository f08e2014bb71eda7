"""Published checklists, filled from what a run recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ktdeval.cards.checklist import FilledItem, fill_checklist, load_checklist
from ktdeval.errors import UsageError
from ktdeval.testing import Terminal
from ktdeval.values import JsonValue

FIGURE = {"value": 1.25, "low": -0.5, "high": 3.0, "reason": None}
CARD: JsonValue = {
    "task": {"mask": "bright", "config": {"data_card": {"universe": "all members"}}},
    "certificate": {"reason": "no certificate was given", "value": None},
    "knowledge_cutoff": "unknown",
    "windows": [{"name": "a", "first": "2024-01-01"}, {"name": "b", "first": "2024-07-01"}],
    "deciders": [{"kind": "file", "name": "declared/decisions"}],
    "metrics": {
        "ece": {"value": 0.125, "unit": "probability", "n": 3},
        "turnover": {"value": None, "reason": "no steps", "unit": "per year"},
    },
    "orders": {"submitted": 3, "rules": {"lot": 1}},
    "artefacts": {f"file-{number}": f"{number:064}" for number in range(9)},
}


def items_of(name: str, record: JsonValue) -> dict[str, FilledItem]:
    return {each.item: each for each in fill_checklist(load_checklist(name), record)}


def test_each_item_has_the_recorded_facts_or_none() -> None:
    items = items_of("execution-realism", {"card": CARD, "judge": None})

    assert next(iter(items)) == "Point-in-time controls"
    assert len(items) == 7
    # a bright mask hides nothing, a certificate was not given, no cutoff is known
    assert items["Point-in-time controls"].facts == {}
    assert items["Held-out evaluation"].facts == {}
    assert items["Split transparency"].facts == {
        "windows": "name a, first 2024-01-01, name b, first 2024-07-01"
    }
    assert items["Cost and turnover treatment"].facts == {}
    assert items["Execution semantics"].facts == {"orders": "submitted 3"}
    assert items["Universe definition"].facts == {"universe": "all members"}
    hashes = items["Artifact release"].facts["hashes of the records"]
    assert hashes.startswith(f"file-0 {0:064}, ")
    assert hashes.endswith("… 3 more")


def test_a_judgement_without_a_card_fills_items_too() -> None:
    judgement: JsonValue = {"sharpe": FIGURE, "nav": {"looks_ahead": False}}
    record: JsonValue = {"judge": judgement}

    controls = items_of("execution-realism", record)["Point-in-time controls"]
    assert controls.facts == {"claimed values need look-ahead fills": "no"}
    outcomes = items_of("sr-11-7", record)["V. Model Validation: Outcomes Analysis"]
    assert outcomes.facts == {"Sharpe ratio of the judged file": "1.25 (-0.5 … 3)"}


@pytest.mark.parametrize(
    ("kind", "facts"), [("file", {}), ("program", {"ECE": "0.125 probability"})]
)
def test_calibration_is_not_shown_of_decisions_from_a_file(
    kind: str, facts: dict[str, str]
) -> None:
    card = {**CARD, "deciders": [{"kind": kind, "name": "x"}]}  # type: ignore[dict-item]

    assert items_of("validity-tests", {"card": card})["Predictive calibration"].facts == facts


def test_values_of_other_types_are_printed_as_they_are() -> None:
    odd: JsonValue = {"sharpe": {"value": 1, "unit": 2, "interval": [3]}, "claimed_return": [[{}]]}

    outcomes = items_of("sr-11-7", {"judge": odd})["V. Model Validation: Outcomes Analysis"]
    assert outcomes.facts == {"Sharpe ratio of the judged file": "1 2"}
    assert all(not each.facts for each in items_of("sr-11-7", {"judge": {"nav": 3}}).values())


def test_a_checklist_that_does_not_ship_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown checklist 'sr-117'; did you mean 'sr-11-7'"):
        load_checklist("sr-117")
    with pytest.raises(UsageError, match="known: execution-realism, sr-11-7, validity-tests"):
        load_checklist("xyz")


def test_the_command_prints_a_judgement_as_text_and_json(
    tmp_path: Path, terminal: Terminal
) -> None:
    document = tmp_path / "judge.json"
    document.write_text(json.dumps({"sharpe": FIGURE}), encoding="utf-8")

    text = terminal.text("card", "checklist", tmp_path, "--as", "sr-11-7")
    assert text.replace(str(tmp_path), "FOLDER") == snapshot("""\
Headings of the guidance on model risk management: 1 of 5 items are shown by FOLDER/judge.json
  Federal Reserve SR 11-7, OCC Bulletin 2011-12: Supervisory Guidance on Model Risk Management (2011)
  Replaced on 2026-04-17 by SR 26-2, which leaves generative and agentic AI out of its scope. A record shows nothing of an organisation's governance.

 1  IV. Model Development, Implementation, and Use
      not shown

 2  V. Model Validation: Evaluation of Conceptual Soundness
      not shown
      next    ktdeval fork RUN, ktdeval compare masks RUN…

 3  V. Model Validation: Ongoing Monitoring
      not shown
      next    ktdeval live init

 4  V. Model Validation: Outcomes Analysis
      Sharpe ratio of the judged file: 1.25 (-0.5 … 3)

 5  VI. Governance, Policies, and Controls
      not shown
""")

    [report] = terminal.report("card", "checklist", tmp_path, "--as", "sr-11-7")
    assert report["record"] == str(document)
    assert [row["is_shown"] for row in report["items"]] == [False, False, False, True, False]

    document.write_text("{", encoding="utf-8")
    assert "is not JSON" in terminal.refusal("card", "checklist", tmp_path, "--as", "sr-11-7")
