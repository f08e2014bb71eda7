"""Signed verdicts of a board: a signer of the rules vouches for exactly these bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ktdeval.cards import PrivateKey, signature_path, write_key_pair
from ktdeval.cli.main import main
from ktdeval.errors import ConfigError, SignatureError
from ktdeval.registry import load_plugins
from ktdeval_board.board_entries import load_board
from ktdeval_board.checking.check import CheckOptions, check_board
from ktdeval_board.rules import load_rules
from ktdeval_board.site.data import card_data
from support.paths import REPOSITORY

PRACTICE = REPOSITORY / "leaderboards" / "practice"
OWN = PrivateKey.from_seed(bytes(range(32)))
OTHER = PrivateKey.from_seed(bytes(range(1, 33)))
ASKED = "verdict_signatures: required\n"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    path = tmp_path / "board"
    shutil.copytree(PRACTICE, path, ignore=shutil.ignore_patterns("records", "series", "decisions"))
    cards = sorted((path / "verdicts").glob("*.json"))

    for verdict in cards[2:]:
        verdict.unlink()

    add_rules(path, f"signers: [{{name: The maintainer, key: '{OWN.public.raw.hex()}'}}]\n{ASKED}")

    return path


def add_rules(board: Path, text: str) -> None:
    rules = board / "board.yaml"
    rules.write_text(rules.read_text() + "\n" + text)


def sign(board: Path, key: PrivateKey) -> int:
    path = board.parent / f"{key.public.id[:8]}.key"
    if not path.exists():
        write_key_pair(path, key)

    return main(["leaderboard", "sign", str(board), "--key", str(path)])


def findings(board: Path) -> list[str]:
    options = CheckOptions(today="2026-12-01", execute=False)
    report = check_board(board, load_plugins(), options)
    return [f"{each.path}: {each.message}" for each in report.findings if each.rule == "signature"]


def verdicts(board: Path) -> list[Path]:
    return sorted((board / "verdicts").glob("*.json"))


@pytest.mark.exhaustive
def test_absent_altered_and_foreign_signatures_are_found(
    board: Path,
) -> None:
    first, second = verdicts(board)
    assert len(findings(board)) == 2
    assert {entry.tier for entry in load_board(board).entries} == {"unchecked"}

    assert sign(board, OTHER) == 2  # no signer of the board
    assert sign(board, OWN) == 0
    assert findings(board) == []

    entries = [entry for entry in load_board(board).entries if entry.verdict is not None]
    assert {entry.signed_by for entry in entries} == {("The maintainer",)}

    data = card_data(load_board(board), entries[0], (True, []), {})
    assert data["signed_by"] == ["The maintainer"]

    good = signature_path(first).read_bytes()
    signature_path(first).write_bytes(signature_path(second).read_bytes())
    (found,) = findings(board)

    assert "signs another file" in found

    with pytest.raises(SignatureError, match="signs another file"):
        load_board(board)

    signature_path(first).write_bytes(good)
    first.write_text(first.read_text().replace('"tier": "', '"tier":  "', 1))
    (found,) = findings(board)

    assert "the signed file was changed afterwards" in found

    assert sign(board, OWN) == 0  # replaces what no longer holds
    assert findings(board) == []


def test_a_board_refuses_signers_that_can_not_sign(board: Path) -> None:
    rules = board / "board.yaml"
    text = rules.read_text()
    rules.write_text(text.replace(OWN.public.raw.hex(), "01" + "00" * 31))

    with pytest.raises(ConfigError, match="The maintainer: the key is a point of small order"):
        load_rules(board)

    rules.write_text(PRACTICE.joinpath("board.yaml").read_text() + "\n" + ASKED)
    with pytest.raises(ConfigError, match="required, but signers names no key"):
        load_rules(board)
