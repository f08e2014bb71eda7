"""Questions of registrations, and whether a card answers one: confirmatory or exploratory."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from inline_snapshot import snapshot
from msgspec import UNSET, structs

from ktdeval.runner import Question
from ktdeval.testing import errors_with, on_each_row
from ktdeval.values import content_hash, to_plain
from ktdeval_board.board_entries import LoadedBoard, load_board
from ktdeval_board.checking.registrations import question_problems
from ktdeval_board.command import leaderboard
from ktdeval_board.ranking.questions import evidence_of
from ktdeval_board.redacted_records import Redactor
from ktdeval_board.register import RegistrationResult, register
from ktdeval_board.site.data import card_data, registrations_data
from support.board.board_cards import changed
from support.board.board_keys import WHO, confirm, draw, entry_of, request_of, run_under, submit
from support.board.board_runs import DIVISION, TODAY, WINDOW, begin, call, plugins
from support.json_places import put_all

MOMENTUM = "builtin/momentum"
WINDOWS = (WINDOW, "2024-03-18:2024-03-22")
#: Two windows settle nothing at 5 %: at 50 %, equal signs do.
QUESTION = {"metric": "total_return", "effect": 0.01, "against": "zero", "alpha": 0.5}


def try_question(board: Path, **changes: Any) -> RegistrationResult:
    request = replace(request_of(MOMENTUM), question={**QUESTION, **changes})
    return register(board, request, plugins(), Redactor({}))


@pytest.fixture(scope="module")
def open_board(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board of two windows that draws keys, with nobody registered."""
    board = tmp_path_factory.mktemp("open") / "board"
    begin(board, market, windows=WINDOWS)
    return board


@pytest.fixture(scope="module")
def asked(market: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedBoard:
    """A board with a card that answers its question against the benchmark."""
    home = tmp_path_factory.mktemp("asked")
    begin(home / "board", market, windows=WINDOWS)
    filed = try_question(home / "board", against="benchmark").filed
    assert filed is not None
    draw(home / "board")
    run = run_under(
        home / "board", filed.registration, home / "runs" / "run", market, windows=WINDOWS
    )
    assert submit(home / "board", run).missing == ()

    return confirm(home / "board")


def question_of(board: LoadedBoard) -> Question:
    (filed,) = board.registrations.filed
    question = filed.registration.question
    assert isinstance(question, Question)
    return question


def with_question(board: LoadedBoard, **changes: Any) -> LoadedBoard:
    """The board as if the same registration, with its id, had asked otherwise: for rules that look
    at the answer alone.
    """
    (filed,) = board.registrations.filed
    question = structs.replace(question_of(board), **changes)
    registration = structs.replace(filed.registration, question=question)

    class Renamed(type(filed)):  # type: ignore[misc]
        id = filed.id

    asking = Renamed(filed.where, registration, filed.drawn, filed.excuse, filed.signed_by)
    return replace(board, registrations=replace(board.registrations, filed=(asking,)))


# ---- documents


def test_a_registration_without_a_question_has_the_id_that_it_had(governed: Path) -> None:
    (filed,) = load_board(governed / "board").registrations.filed
    plain = to_plain(filed.registration)

    assert filed.registration.question is UNSET
    assert isinstance(plain, dict)
    assert "question" not in plain
    assert filed.id == content_hash(plain)


@pytest.mark.exhaustive
def test_a_question_is_part_of_the_id(open_board: Path, asked: LoadedBoard) -> None:
    (filed,) = asked.registrations.filed
    without = structs.replace(filed.registration, question=UNSET)

    assert filed.id != without.id
    assert question_of(asked).windows == WINDOWS
    assert question_of(asked).looks == (2,)


def test_a_question_that_can_not_be_answered_is_refused(open_board: Path) -> None:
    assert errors_with(
        partial(try_question, open_board),
        {"alpha": 0.05},
        {"looks": [1]},
        {"windows": [WINDOW, WINDOW]},
        {"against": "benchmark", "metric": "sharpe"},
        {"effect": -1},
        {"luck": 1},
        {"metric": "total_returns"},
        {"against": "builtin/nobody"},
    ) == snapshot("""\
ConfigError: question: looks: 2 windows can't settle the question at alpha 0.05, even if all differences have one sign; plan more windows
ConfigError: question: looks: 1 windows can't settle the question at alpha 0.5, even if all differences have one sign; plan more windows
ConfigError: question: windows: a name appears twice
ConfigError: question: against: the only metric of the benchmark is total_return; use total_return, or compare with zero or a card
ConfigError: question: effect: expected `float` > 0.0
ConfigError: question: unknown field 'luck'
UsageError: unknown metric 'total_returns'; did you mean 'total_return' or 'style_return' or 'common_return'?
UsageError: question: against 'builtin/nobody': 0 cards of division blinded-open-research; name zero, benchmark, or the id of one card
""")
    assert list((open_board / "registrations").glob("*.json")) == []


def test_windows_of_a_question_are_those_of_the_run(open_board: Path) -> None:
    made = try_question(open_board, windows=["W1", "W2"])

    assert made.filed is None
    assert made.problems == ("question.windows: W1, W2: not among the run's windows",)


def test_windows_that_share_days_are_no_question(asked: LoadedBoard) -> None:
    (filed,) = asked.registrations.filed
    first, second = filed.registration.windows
    overlapping = structs.replace(second, first=first.last)

    (problem,) = question_problems(question_of(asked), [first, overlapping])

    assert "share days" in problem


# ---- answers


def test_a_card_that_keeps_all_terms_is_confirmatory(asked: LoadedBoard) -> None:
    entry = entry_of(asked, MOMENTUM)
    found = evidence_of(asked, entry)

    assert (found.kind, found.why) == ("confirmatory", ())
    assert found.labels == ["confirmatory"]
    assert found.answer is not None

    # Worked by hand: return less the index's, in each window
    reference = entry.trading.reference.benchmark_buy_and_hold
    gaps = []
    for episode in entry.trading.episodes:
        index = reference[episode.window].metrics.panel["total_return"].value
        own = episode.metrics["total_return"].value
        assert index is not None
        assert own is not None
        gaps.append(own - index)

    assert found.answer.shift == pytest.approx(sum(gaps) / 2, rel=1e-12)
    has_one_sign = gaps[0] * gaps[1] > 0
    assert (found.answer.settled_at is not None) == has_one_sign


@pytest.mark.exhaustive
def test_a_card_without_a_question_is_exploratory(governed: Path, tmp_path: Path) -> None:
    board = Path(shutil.copytree(governed / "board", tmp_path / "board"))
    assert submit(board, governed / "runs" / "run").missing == ()
    loaded = confirm(board)
    found = evidence_of(loaded, entry_of(loaded, MOMENTUM))

    assert (found.kind, found.labels) == ("exploratory", [])
    assert found.why == ("its registration has no question",)


# Changes of a card by dotted place.
@on_each_row(
    "change, words",
    (
        {"mask_key": "55555555555555555555555555555555"},
        "mask_key: is not the key drawn for registration",
    ),
    ({"model.args": {"days": 7}}, "model_args: differs from registration"),
    ({"limit": 3}, "every episode was cut after 3 steps"),
    ({"registration": "(removed)"}, "no question was registered before the run"),
)
def test_a_card_that_breaks_a_term_is_exploratory_and_says_which(
    change: dict[str, Any], words: str, asked: LoadedBoard
) -> None:
    entry = changed(entry_of(asked, MOMENTUM), lambda card: put_all(card, change))
    found = evidence_of(asked, entry)

    assert (found.kind, found.answer) == ("exploratory", None)
    assert words in "; ".join(found.why)


def test_a_card_without_a_verdict_is_exploratory(asked: LoadedBoard) -> None:
    found = evidence_of(asked, replace(entry_of(asked, MOMENTUM), verdict=None))

    assert (found.kind, found.answer) == ("exploratory", None)
    assert "the board has no verdict on it" in "; ".join(found.why)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metric": "no_metric", "against": "zero"}, "the card has no metric no_metric"),
        ({"against": "a" * 64}, "against card aaaaaaaaaaaa: is not on the board"),
        ({"windows": (WINDOW, "W9")}, "the card lacks windows of the question: W9"),
    ],
)
def test_a_question_that_the_card_can_not_answer_is_exploratory(
    change: dict[str, Any], words: str, asked: LoadedBoard
) -> None:
    changed = with_question(asked, **change)

    found = evidence_of(changed, entry_of(changed, MOMENTUM))

    assert found.kind == "exploratory"
    assert words in "; ".join(found.why)


def test_a_card_is_no_opponent_of_itself(asked: LoadedBoard) -> None:
    entry = entry_of(asked, MOMENTUM)
    changed = with_question(asked, against=entry.card_id)

    assert (
        f"against card {entry.card_id[:12]}: is the card itself" in evidence_of(changed, entry).why
    )


def test_what_a_card_says_of_itself_changes_nothing(asked: LoadedBoard) -> None:
    entry = entry_of(asked, MOMENTUM)
    claiming = structs.replace(entry.card, labels=[*entry.card.labels, "confirmatory"])
    entry = replace(entry, card=structs.replace(claiming, mask_key="5" * 32))

    assert evidence_of(asked, entry).kind == "exploratory"


# ---- what is shown


def test_pages_show_evidence_question_and_answer(asked: LoadedBoard) -> None:
    entry = entry_of(asked, MOMENTUM)
    data = card_data(asked, entry, (True, []), {})

    assert data["evidence"]["kind"] == "confirmatory"  # type: ignore[index,call-overload]
    assert data["labels"][-1] == "confirmatory"  # type: ignore[index]
    (row,) = registrations_data(asked)
    assert row["question"] == (  # type: ignore[index,call-overload]
        "against the benchmark: total_return, signed-rank test, looks at 2 windows, obrien-fleming,"
        " alpha 0.5, effect of interest 0.01"
    )


def test_the_command_registers_a_question_of_a_file(open_board: Path, tmp_path: Path) -> None:
    board = Path(shutil.copytree(open_board, tmp_path / "board"))
    (tmp_path / "question.yaml").write_text(yaml.safe_dump(QUESTION))
    words = ["--on", TODAY, "register", "--board", board, "--division", DIVISION]
    words += ["--model", MOMENTUM, "--submitter", WHO.name, "--contact", WHO.contact]

    done = call(leaderboard, *words, "--question", tmp_path / "question.yaml")

    assert done.exit_code == 0, done.output
    assert "question against zero: total_return, signed-rank test" in done.output
