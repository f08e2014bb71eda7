"""Signatures of submitters: a submission carries one, and the check holds it to the submitter's key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from ktdeval.cards import SIGNED_CARD, PrivateKey, sign_file, signature_path, write_key_pair
from ktdeval.errors import ConfigError, SignatureError
from ktdeval_board.board_entries import load_board
from ktdeval_board.checking.check import CheckOptions, check_board
from ktdeval_board.command import leaderboard
from ktdeval_board.rules import load_rules
from ktdeval_board.site.data import card_data
from support.board.board_runs import CLAIMS, TASK, TODAY, plugins, submit, tree

OWN = PrivateKey.from_seed(bytes(range(32)))
OTHER = PrivateKey.from_seed(bytes(range(1, 33)))
UNKNOWN = PrivateKey.from_seed(bytes(range(2, 34)))


@pytest.fixture
def board(board: Path) -> Path:
    """A board that has keys of two submitters."""
    register(board, **{"a-TEAM": OWN, "Others": OTHER})
    return board


def register(board: Path, **keys: PrivateKey) -> None:
    rules = board / "board.yaml"
    lines = [f"- {{name: {name}, key: '{key.public.raw.hex()}'}}" for name, key in keys.items()]
    rules.write_text(rules.read_text() + "\nsubmitter_keys:\n" + "\n".join(lines) + "\n")


def findings(board: Path) -> list[str]:
    report = check_board(board, plugins(), CheckOptions(today=TODAY, execute=False))
    assert {each.rule for each in report.findings} <= {"signature"}
    return [each.message for each in report.findings]


def card_of(board: Path) -> Path:
    (path,) = (path for path in (board / "cards").rglob("*.json") if path.name.count(".") == 1)
    return path


@pytest.mark.slow
def test_a_submission_is_signed_and_shows_by_whom(board: Path, run: Path) -> None:
    (submitted,) = submit(board, run, key=OWN).submitted
    assert [path for path in submitted.paths if path.endswith(".sig")] == [
        signature_path(card_of(board)).relative_to(board).as_posix()
    ]
    assert findings(board) == []

    loaded = load_board(board)
    assert card_data(loaded, loaded.entries[0], (True, []), {})["card_signed_by"] == ["a-TEAM"]


@pytest.mark.exhaustive
def test_signature_beside_a_card_is_kept_if_the_board_can_check_it(
    board: Path, empty_board: Path, run: Path, tmp_path: Path
) -> None:
    signed = tmp_path / "signed"
    shutil.copytree(run, signed)
    made = sign_file(signed / "cards" / f"{TASK}.json", SIGNED_CARD, OWN).read_bytes()

    assert submit(board, signed).missing == ()
    assert signature_path(card_of(board)).read_bytes() == made

    plain = tmp_path / "plain"
    shutil.copytree(empty_board, plain)
    outcome = submit(plain, signed)

    assert "its signature is omitted" in " ".join(outcome.notes)
    assert not signature_path(card_of(plain)).exists()


@pytest.mark.exhaustive
def test_a_submission_without_the_submitters_own_signature_is_refused(
    board: Path, run: Path
) -> None:
    before = tree(board)
    (unsigned,) = submit(board, run).missing

    assert "the board has a key of A team, who did not sign this card" in unsigned

    (stolen,) = submit(board, run, key=OTHER).missing
    assert "was made by Others, but A team submits" in stolen

    (unknown,) = submit(board, run, key=UNKNOWN).missing
    assert "none of which is trusted here" in unknown

    disguised = replace(CLAIMS, submitter="\u0410 t\u0435\u0430m", contact="d@example.org")
    (looks_alike,) = submit(board, run, claims=disguised).missing

    assert "who did not sign this card" in looks_alike

    nobody = replace(CLAIMS, submitter="Nobody", contact="n@example.org")
    (unregistered,) = submit(board, run, claims=nobody, key=OWN).missing

    assert f"to add it to submitter_keys in board.yaml: {OWN.public.raw.hex()}" in unregistered
    assert tree(board) == before


@pytest.mark.exhaustive
def test_check_refuses_a_removed_swapped_or_altered_signature(board: Path, run: Path) -> None:
    assert submit(board, run, key=OWN).missing == ()

    signature = signature_path(card_of(board))
    good = signature.read_bytes()

    signature.unlink()
    (stripped,) = findings(board)

    assert "who did not sign this card" in stripped

    other = board.parent / "other.json"
    other.write_text("{}")
    signature.write_bytes(sign_file(other, SIGNED_CARD, OWN).read_bytes())
    (swapped,) = findings(board)

    assert "signs another file" in swapped

    with pytest.raises(SignatureError, match="signs another file"):
        load_board(board)

    signature.write_bytes(good.replace(b'"sig":"', b'"sig":"A', 1))
    (altered,) = findings(board)

    assert "the file was changed" in altered

    signature.unlink()
    signature.symlink_to(other)
    report = check_board(board, plugins(), CheckOptions(today=TODAY, execute=False))

    assert {each.rule for each in report.findings} == {"link", "signature"}


def test_a_card_without_its_signature_file_is_no_place_for_others(board: Path, run: Path) -> None:
    assert submit(board, run, key=OWN).missing == ()

    signature = signature_path(card_of(board))
    stray = signature.with_name(f"{'0' * 64}.json.sig")
    shutil.copyfile(signature, stray)
    report = check_board(board, plugins(), CheckOptions(today=TODAY, execute=False))

    assert [(each.rule, each.message) for each in report.findings] == [
        ("foreign-file", "has no card with the same name next to it")
    ]


def test_rules_refuse_keys_that_verify_what_nobody_signed(board: Path) -> None:
    rules = board / "board.yaml"
    text = rules.read_text()
    rules.write_text(text.replace(OWN.public.raw.hex(), "01" + "00" * 31))

    with pytest.raises(ConfigError, match="a-TEAM: the key is a point of small order"):
        load_rules(board)

    rules.write_text(text.replace(OTHER.public.raw.hex(), OWN.public.raw.hex()))
    with pytest.raises(ConfigError, match="the key of Others appears twice"):
        load_rules(board)


def test_the_command_signs_by_a_key_file(board: Path, run: Path, tmp_path: Path) -> None:
    from click.testing import CliRunner

    write_key_pair(tmp_path / "me.key", OTHER)
    words = [str(run), "--board", str(board), "--submitter", "A team", "--contact", "t@example.org"]
    words += ["--cutoff", "none", "--cutoff-source", "x", "--attempts", "1"]
    result = CliRunner().invoke(
        leaderboard, ["--on", TODAY, "submit", *words, "--key", str(tmp_path / "me.key")]
    )

    assert result.exit_code == 1
    assert "was made by Others, but A team submits" in result.output
