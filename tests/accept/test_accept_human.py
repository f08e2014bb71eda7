"""A person plays a blinded task at a terminal: the same records, checks and figures as of a model."""

from __future__ import annotations

import io
import json
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from ktdeval.cli.main import main
from ktdeval.runner import RunFolder
from ktdeval.testing import Terminal
from support.runs.run_support import card_of

TASK = "blinded_memory_only"
PLAN = f"--tasks {TASK} --windows W5 --limit 2 --mask-key {'0' * 32}".split()
REASON = "it rises, I believe"


class Typed(io.StringIO):
    """Text as a terminal gives and takes it."""

    def isatty(self) -> bool:
        return True


def play(out: Path, *lines: str) -> tuple[int, str]:
    """Run at a terminal where lines are typed: exit code, and what the terminal showed."""
    screen = Typed()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", Typed("".join(f"{line}\n" for line in lines)))
        patch.setattr(sys, "stderr", screen)
        code = main(["--model", "human/terminal", *PLAN, "--out", str(out)])

    return code, screen.getvalue()


def played_by(model: str, arguments: str, out: Path) -> Path:
    words = ["--model", model, "--model-args", arguments, *PLAN, "--quiet", "--out", str(out)]
    assert main(words) == 0
    return out


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two handles of the first day, by a model that buys the first names listed."""
    out = tmp_path_factory.mktemp("names") / "run"
    folder = RunFolder.load(played_by("builtin/first_listed", "positions=2", out))
    (spec,) = folder.manifest.specs
    submitted = json.loads(str(folder.load_transcript(spec)[0].submission))
    return [str(order["stock_id"]) for order in submitted["orders"]]


@pytest.fixture(scope="module")
def whole(names: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run in which a person buys a name and then holds, and what the terminal showed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    code, shown = play(out, *buying(names[0]), *HOLDING)
    assert code == 0
    return out, shown


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
    return card_of(played_by("builtin/script", f"file={script}", tmp_path / "scripted"), TASK)


def test_a_person_has_the_figures_of_a_model_with_the_same_decisions(
    whole: tuple[Path, str], names: list[str], tmp_path: Path, terminal: Terminal
) -> None:
    card = card_of(whole[0], TASK)
    model = scripted(tmp_path, names)
    assert "human" in card["labels"]
    assert "human" not in model["labels"]
    assert "knowledge_cutoff" not in card  # it is not known
    assert card["metrics"] == model["metrics"]
    assert card["decisions"] == model["decisions"]
    terminal.out("card", "verify", whole[0])


@pytest.mark.exhaustive
def test_who_leaves_goes_on_at_the_next_undecided_step(
    whole: tuple[Path, str], names: list[str], tmp_path: Path
) -> None:
    parts = tmp_path / "parts"
    left, shown = play(parts, *buying(names[0]), "order", names[1], "q", "..", "q")
    code, again = play(parts, *HOLDING)

    assert (left, code) == (130, 0)
    assert "stopped; finished steps are kept" in shown
    assert "Step 1 of" not in again
    assert "Step 2 of" in again
    for part in ("metrics", "decisions", "failures"):
        assert card_of(parts, TASK)[part] == card_of(whole[0], TASK)[part]


def test_a_refused_submission_is_told_and_asked_for_again(tmp_path: Path, names: list[str]) -> None:
    """A handle of no name follows the form, and breaks a rule."""
    nobody = "asset_0000"
    assert nobody not in names

    code, shown = play(tmp_path / "run", *buying(nobody), "drop 1", *HOLDING, *HOLDING)

    assert code == 0
    assert "! orders[0]: universe: no stock has this label" in shown
    assert card_of(tmp_path / "run", TASK)["decisions"]["model_after_retry"] == 1


def test_no_day_is_shown_to_a_person_and_the_seconds_of_answers_are_kept(
    whole: tuple[Path, str],
) -> None:
    """Bars of progress name the day that a step fills on."""
    out, shown = whole
    folder = RunFolder.load(out)
    (spec,) = folder.manifest.specs
    days = [step.filled_on for step in folder.load_ledger(spec).steps]
    assert days
    assert not [day for day in days if day in shown or day[:7] in shown]

    exchanges = chain.from_iterable(entry.exchanges for entry in folder.load_transcript(spec))
    replies: list[Any] = [exchange["reply"] for exchange in exchanges]
    assert replies
    assert all(reply["reasoning"].startswith("answered in ") for reply in replies)


NO_TERMINAL = "human/terminal: a person is asked in a terminal, and there is none here"


@pytest.mark.parametrize(
    ("words", "problem", "is_begun"),
    [
        ("--quiet", NO_TERMINAL, True),
        ("--quiet", "--model human/page", True),
        ("--concurrency 2", "--concurrency 2: human/terminal is a person", False),
        ("--runner ray", "--runner ray: human/terminal is a person at this machine", False),
        ("--max-cost 1", NO_TERMINAL, True),
    ],
)
def test_what_a_person_can_not_do_is_refused(
    words: str, problem: str, is_begun: bool, tmp_path: Path, terminal: Terminal
) -> None:
    out = tmp_path / "run"
    given = ("--model", "human/terminal", *PLAN, *words.split(), "--out", out)
    assert problem in terminal.error(*given)
    assert out.exists() is is_begun
