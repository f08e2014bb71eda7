"""`ktdeval leaderboard selftest` tries one forgery of each family on a copy of a board. Here all
kinds are tried, and a weakened check is found out.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ktdeval.registry import load_plugins
from ktdeval_board.checking import rules
from ktdeval_board.checking.check import CheckOptions
from ktdeval_board.checking.rules import RULES
from ktdeval_board.selftest import kinds as own_kinds
from ktdeval_board.selftest.run import SelfTest, selftest
from support.board.board_bad import TODAY, BadBoard, make_good
from support.board.board_bad_cases import KINDS
from support.board.board_keys import submit
from support.board.board_runs import tree
from support.runs.run_support import Done, ktdeval

EXECUTED = (
    "transcript_with_another_reply",
    "episodes_in_the_place_of_each_other",
    "better_episodes_with_all_that_follows",
)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board with one sound submission of two windows and two seeds."""
    folder = tmp_path_factory.mktemp("selftest")
    made = BadBoard(folder / "board", make_good(folder / "run"))
    made.add()

    return made.folder


def command(board: Path, *kinds: str, as_json: bool = False) -> Done:
    """Run the command on its own kinds."""
    words = list(chain.from_iterable(("--kind", kind) for kind in kinds))
    if as_json:
        words.append("--json")

    return ktdeval("leaderboard", "--on", TODAY, "selftest", board, *words, cwd=board.parent)


def run(board: Path, *kinds: str) -> SelfTest:
    """Try these kinds of all, or all."""
    options = CheckOptions(today=TODAY, record=False)
    return selftest(board, load_plugins(()), options, kinds, kinds=KINDS)


def outcomes(done: SelfTest) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {tried.kind: (tried.outcome, tried.by) for tried in done.tried}


def weaken(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the check look for nothing that breaks these rules."""
    monkeypatch.setattr(
        rules,
        "RULES",
        tuple(replace(each, checks={}) if each.id in names else each for each in RULES),
    )


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


def test_a_submission_under_a_drawn_key_is_forged_as_well(governed: Path, tmp_path: Path) -> None:
    board = tmp_path / "board"
    shutil.copytree(governed / "board", board)
    assert submit(board, governed / "runs" / "run").missing == ()

    done = run(board, *KEYS, "tampered_headline_with_renewed_hash")
    assert {outcome for outcome, _ in outcomes(done).values()} == {"refused"}


def test_the_command_tries_one_kind_of_each_family(board: Path) -> None:
    done = command(board, as_json=True)
    assert done.code == 0, done.out + done.err

    tried: list[dict[str, Any]] = json.loads(done.out)["tried"]
    assert [each["kind"] for each in tried] == list(own_kinds.KINDS)
    assert {each["outcome"] for each in tried} == {"refused"}


def test_the_table_names_the_rule_that_refused_each_forgery(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "no_certificate_where_one_is_asked_for"
    monkeypatch.setitem(own_kinds.KINDS, asked, KINDS[asked])
    done = command(board, "future_day", asked)
    assert done.code == 0, done.err

    assert re.sub("[0-9a-f]{64}", "CARD", done.out) == snapshot("""\
forged: cards/blinded_open_research/builtin--momentum/react/CARD.json

kind                                   refused  by
future day                             yes      date
no certificate where one is asked for  -        the division asks for no certificate

refused by their rule: 1 of 1 kind; not applicable here: 1
""")


def test_a_rule_that_looks_for_nothing_is_found_out(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch, "date")
    tried = outcomes(run(board, "future_day", "limited_run"))
    assert tried["future_day"] == ("passed", ())
    assert tried["limited_run"][0] == "refused"

    printed = command(board, "future_day")
    assert printed.code == 1
    assert "future_day: rule date does not refuse it" in printed.out.splitlines()


def test_a_rule_covered_by_another_one_is_detected(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch, "limit")
    monkeypatch.setitem(own_kinds.KINDS, "limited_run", KINDS["limited_run"])
    done = command(board, "limited_run")
    assert done.code == 1
    assert "limited_run: rule limit does not refuse it; only " in done.out


@pytest.mark.exhaustive
def test_a_check_that_executes_nothing_is_found_out(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch, "ledger")
    done = run(board, *EXECUTED)
    assert {outcome for outcome, _ in outcomes(done).values()} == {"passed"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--kind", "futur_day"),
            "--kind futur_day: no such kind; did you mean 'future_day'",
        ),
        (("--data", "synthetic_arena"), "which the board does not use"),
    ],
    ids=["an unknown kind", "a market of no snapshot"],
)
def test_what_can_not_be_tried_is_refused(
    board: Path, words: tuple[str, str], message: str
) -> None:
    done = ktdeval("leaderboard", "--on", TODAY, "selftest", board, *words, cwd=board.parent)
    assert done.code == 2
    assert message in done.err


@pytest.mark.exhaustive
def test_a_board_without_submissions_forges_a_small_run_of_its_own(tmp_path: Path) -> None:
    words = (
        "--name",
        "new",
        "--title",
        "New",
        "--tasks",
        "bright_open_research",
        "--windows",
        "W1",
    )

    assert (
        ktdeval(
            "leaderboard", "init", "board", *words, "--contact", "a@example.org", cwd=tmp_path
        ).code
        == 0
    )

    before = tree(tmp_path / "board")
    kinds = ("--kind", "other_snapshot", "--kind", "transcript_with_another_reply")
    done = ktdeval("leaderboard", "selftest", "board", *kinds, cwd=tmp_path)

    assert done.code == 0, done.err
    assert done.out.startswith("forged: a run of builtin/momentum on the embedded market")
    assert tree(tmp_path / "board") == before


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
    done = run(folder)
    tried = outcomes(done)

    assert {
        kind: state
        for kind, state in tried.items()
        if state[0] not in ("refused", "not applicable")
    } == {}
    assert done.failures == ()
    assert list(tried) == list(KINDS)
    assert tree(folder) == before  # it is only read
    assert sum(outcome == "refused" for outcome, _ in tried.values()) > 140
