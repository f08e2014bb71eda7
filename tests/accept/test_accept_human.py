"""A person plays a blinded task at a terminal: the same records, checks and figures as of a model."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ktdeval.cli.main import main
from ktdeval.runner import RunFolder
from support.terminal import Terminal

pytestmark = pytest.mark.slow

TASK = ("--tasks", "blinded_memory_only", "--windows", "W5", "--limit", "2")
KEY = ("--mask-key", "0" * 32)
REASON = "it rises, I believe"


class Typed(io.StringIO):
    """Text as a terminal gives and takes it."""

    def isatty(self) -> bool:
        return True


def play(
    monkeypatch: pytest.MonkeyPatch, out: Path, *lines: str, words: Any = ()
) -> tuple[int, str]:
    """Run at a terminal where lines are typed: exit code, and what the terminal showed."""
    screen = Typed()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", Typed("".join(f"{line}\n" for line in lines)))
        patch.setattr(sys, "stderr", screen)
        code = main(["--model", "human/terminal", *TASK, *KEY, "--out", str(out), *words])

    return code, screen.getvalue()


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two handles of the first day, by a model that buys the first names listed."""
    out = tmp_path_factory.mktemp("names") / "run"
    words = ["--model", "builtin/first_listed", "--model-args", "positions=2", "--quiet"]
    assert main([*words, *TASK, *KEY, "--out", str(out)]) == 0
    folder = RunFolder.load(out)
    (spec,) = folder.manifest.specs
    submitted = json.loads(str(folder.load_transcript(spec)[0].submission))
    return [str(order["stock_id"]) for order in submitted["orders"]]


def buying(name: str) -> list[str]:
    """Lines that buy a name."""
    return ["order", name, "BUY", "0.6", REASON, "0.05", "submit", REASON, "y"]


HOLDING = ["hold", REASON, "y"]


def scripted(tmp_path: Path, names: list[str]) -> dict[str, Any]:
    """Card of a model with the same decisions."""
    order = {
        "stock_id": names[0],
        "side": "BUY",
        "target_weight": 0.05,
        "confidence": 0.6,
        "reason": REASON,
    }
    answers = [
        {"submit": {"orders": [order], "overall_reason": REASON}},
        {"submit": {"orders": [], "overall_reason": REASON}},
    ]
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump({"answers": answers}))
    out = tmp_path / "scripted"
    words = ["--model", "builtin/script", "--model-args", f"file={script}", "--quiet"]
    assert main([*words, *TASK, *KEY, "--out", str(out)]) == 0
    return card_of(out)


def card_of(out: Path) -> dict[str, Any]:
    (path,) = (out / "cards").glob("*.json")
    card: dict[str, Any] = json.loads(path.read_text())
    return card


def test_a_person_has_the_figures_of_a_model_with_the_same_decisions(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"

    code, _ = play(monkeypatch, out, *buying(names[0]), *HOLDING)

    card = card_of(out)
    model = scripted(tmp_path, names)
    assert code == 0
    assert "human" in card["labels"]
    assert "human" not in model["labels"]
    assert "knowledge_cutoff" not in card  # it is not known
    assert card["metrics"] == model["metrics"]
    assert card["decisions"] == model["decisions"]
    assert Terminal(capsys).call("card", "verify", str(out))[0] == 0


@pytest.mark.exhaustive
def test_who_leaves_goes_on_at_the_next_undecided_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    play(monkeypatch, whole, *buying(names[0]), *HOLDING)

    left, shown = play(monkeypatch, parts, *buying(names[0]), "order", names[1], "q", "..", "q")
    code, again = play(monkeypatch, parts, *HOLDING)

    assert (left, code) == (130, 0)
    assert "stopped; finished steps are kept" in shown
    assert "Step 1 of" not in again
    assert "Step 2 of" in again
    assert card_of(parts)["metrics"] == card_of(whole)["metrics"]
    assert card_of(parts)["decisions"] == card_of(whole)["decisions"]
    assert card_of(parts)["failures"] == card_of(whole)["failures"]


def test_a_refused_submission_is_told_and_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """A handle of no name follows the form, and breaks a rule."""
    nobody = "asset_0000"
    assert nobody not in names

    code, shown = play(monkeypatch, tmp_path / "run", *buying(nobody), "drop 1", *HOLDING, *HOLDING)

    card = card_of(tmp_path / "run")
    assert code == 0
    assert "! orders[0]: universe: no stock has this label" in shown
    assert card["decisions"]["model_after_retry"] == 1


def test_nothing_that_names_a_day_is_shown_while_a_person_plays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """Bars of progress name the day that a step fills on."""
    out = tmp_path / "run"
    _, shown = play(monkeypatch, out, *buying(names[0]), *HOLDING)

    folder = RunFolder.load(out)
    days = [step.filled_on for step in folder.load_ledger(folder.manifest.specs[0]).steps]
    assert days
    assert not [day for day in days if day in shown or day[:7] in shown]


def test_seconds_of_each_answer_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    play(monkeypatch, out, *HOLDING, *HOLDING)

    folder = RunFolder.load(out)
    (spec,) = folder.manifest.specs
    replies = [
        exchange["reply"]["reasoning"]
        for entry in folder.load_transcript(spec)
        for exchange in entry.exchanges
    ]
    assert replies
    assert all(text.startswith("answered in ") for text in replies)


def test_a_run_without_a_terminal_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = Terminal(capsys).call(
        "--model", "human/terminal", *TASK, "--out", tmp_path / "r"
    )

    assert code == 2
    assert "human/terminal: a person is asked in a terminal, and there is none here" in err
    assert "--model human/page" in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--concurrency", "2"), "--concurrency 2: human/terminal is a person"),
        (("--runner", "ray"), "--runner ray: human/terminal is a person at this machine"),
        (("--max-cost", "1"), None),
    ],
)
def test_what_a_person_can_not_do_is_refused_before_the_run(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, str],
    problem: str | None,
) -> None:
    out = tmp_path / "run"
    code, _, err = Terminal(capsys).call("--model", "human/terminal", *TASK, *words, "--out", out)

    assert code == 2
    assert (problem or "a person is asked in a terminal") in err
    assert out.exists() is (problem is None)
