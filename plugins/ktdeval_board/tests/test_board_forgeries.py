"""The check of a board refuses each kind of forgery, and a weakened check is found out."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ktdeval_board.checking import rules
from ktdeval_board.checking.rules import RULES
from support.board.board_bad import BadBoard, make_good
from support.board.board_bad_cases import KINDS
from support.board.board_keys import submit
from support.board.board_kinds import FAMILIES
from support.board.board_runs import tree
from support.board.board_trials import Trial, try_forgeries

EXECUTED = (
    "transcript_with_another_reply",
    "episodes_in_the_place_of_each_other",
    "better_episodes_with_all_that_follows",
)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board with one sound submission of two windows and two seeds."""
    folder = tmp_path_factory.mktemp("forgeries")
    made = BadBoard(folder / "board", make_good(folder / "run"))
    made.add()

    return made.folder


def weaken(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the check look for nothing that breaks this rule."""
    weakened = [replace(each, checks={}) if each.id == name else each for each in RULES]
    monkeypatch.setattr(rules, "RULES", tuple(weakened))


KEYS = (
    "key_that_was_not_drawn",
    "drawn_key_without_its_registration",
    "registration_that_was_edited",
    "parameter_that_was_not_registered",
    "system_registered_twice",
    "registration_that_was_deleted",
    "question_that_was_edited",
    "question_exchanged_after_the_draw",
    "second_question_of_a_system",
    "question_in_the_key_alone",
    "question_over_other_windows",
)


def test_one_kind_of_each_family_is_refused_by_its_rule(board: Path) -> None:
    tried = try_forgeries(board, FAMILIES)
    assert {each.outcome for each in tried.values()} == {"refused"}


def test_a_submission_under_a_drawn_key_is_forged_as_well(governed: Path, tmp_path: Path) -> None:
    board = tmp_path / "board"
    shutil.copytree(governed / "board", board)
    assert submit(board, governed / "runs" / "run").missing == ()

    tried = try_forgeries(board, (*KEYS, "tampered_headline_with_renewed_hash"))
    assert {each.outcome for each in tried.values()} == {"refused"}


def test_a_rule_that_looks_for_nothing_is_found_out(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch, "date")
    tried = try_forgeries(board, ("future_day", "limited_run"))
    assert tried["future_day"] == Trial("passed")
    assert tried["limited_run"].outcome == "refused"


def test_a_rule_covered_by_another_one_is_detected(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch, "limit")
    tried = try_forgeries(board, ("limited_run",))
    assert tried["limited_run"].outcome == "refused by another rule"


@pytest.mark.exhaustive
def test_a_check_that_executes_nothing_is_found_out(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch, "ledger")
    tried = try_forgeries(board, EXECUTED)
    assert {each.outcome for each in tried.values()} == {"passed"}


@pytest.fixture(scope="module")
def one_window(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board with one sound submission of a single episode."""
    folder = tmp_path_factory.mktemp("one-window")
    good = make_good(folder / "run", windows=("2024-03-01:2024-03-08",), seeds=1)
    made = BadBoard(folder / "board", good)
    made.add()

    return made.folder


# Each of 181 kinds is a check of a board: minutes where others use the machine.
@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["board", "one_window"])
def test_every_kind_is_refused_by_its_rule(name: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(name)
    before = tree(folder)
    tried = try_forgeries(folder)
    accepted = {}
    for kind, trial in tried.items():
        if trial.outcome in ("passed", "refused by another rule"):
            accepted[kind] = trial

    assert accepted == {}
    assert list(tried) == list(KINDS)
    assert tree(folder) == before  # it is only read
    assert sum(trial.outcome == "refused" for trial in tried.values()) > 140
