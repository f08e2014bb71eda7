"""`--json`: what commands on runs print for programs, also where the result is negative."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ktdeval.testing import Terminal
from support.runs.run_support import TASK, WINDOW

MODEL = "builtin/momentum"


@pytest.fixture
def run(market: Path, tmp_path: Path, terminal: Terminal) -> Path:
    words = ("--model", MODEL, "--tasks", TASK, "--windows", WINDOW, "--limit", 2)
    out = tmp_path / "run"
    printed = terminal.out(*words, "--data", market, "--out", out, "--quiet", "--json")

    assert json.loads(printed) == {
        "run": str(out),
        "state": "finished",
        "cards": [str(out / "cards" / f"{TASK}.json")],
        "episodes": 1,
        "unfinished": [],
        "stopped": None,
        "resume": None,
    }

    return out


@pytest.mark.exhaustive
def test_scoring_names_its_cards(run: Path, terminal: Terminal) -> None:
    cards = [str(run / "cards" / f"{TASK}.json")]
    assert terminal.report("score", run) == {"run": str(run), "cards": cards}


@pytest.mark.exhaustive
def test_cards_are_shown_as_they_are_stored(run: Path, terminal: Terminal) -> None:
    stored = json.loads((run / "cards" / f"{TASK}.json").read_text())
    assert terminal.report("card", "show", run) == [stored]


@pytest.mark.slow
def test_a_card_that_verifies_has_no_findings(run: Path, terminal: Terminal) -> None:
    (verdict,) = terminal.report("card", "verify", run)
    assert verdict == {
        "card": str(run / "cards" / f"{TASK}.json"),
        "verified": True,
        "errors": 0,
        "warnings": 0,
        "findings": [],
        "notes": [],
        "episodes": 1,
        "steps": 2,
        "traced_steps": 2,
    }


@pytest.mark.slow
def test_a_card_that_differs_names_where_and_the_command_fails(
    run: Path, terminal: Terminal
) -> None:
    path = run / "cards" / f"{TASK}.json"
    card = json.loads(path.read_text())
    card["provenance"]["suite_version"] = "9"
    card["episodes"][0]["final_nav_minor"] += 1
    path.write_text(json.dumps(card))

    code, out, _ = terminal.call("card", "verify", run, "--json")

    assert code == 1

    (verdict,) = json.loads(out)
    assert verdict["verified"] is False
    assert verdict["errors"] == len(verdict["findings"]) > 0


@pytest.mark.slow
def test_a_run_that_is_damaged_is_an_error_of_its_card(run: Path, terminal: Terminal) -> None:
    shutil.rmtree(run / "episodes")
    code, out, _ = terminal.call("card", "verify", run, "--json")

    assert code != 0

    (verdict,) = json.loads(out)
    assert verdict["verified"] is False


@pytest.mark.slow
def test_a_view_names_its_pages_and_the_figures_of_each_episode(
    run: Path, terminal: Terminal
) -> None:
    shown = terminal.report("view", run)
    pages = [*shown["pages"], *shown["tear_sheets"], shown["index"]]

    assert sorted(pages) == sorted(map(str, (run / "view").iterdir()))
    assert shown["bytes"] == sum(Path(page).stat().st_size for page in pages)

    (episode,) = shown["episodes"]
    assert (episode["state"], episode["steps"]) == ("finished", 2)

    stored = json.loads((run / "cards" / f"{TASK}.json").read_text())
    assert episode["return"] == pytest.approx(stored["metrics"]["total_return"]["value"])
