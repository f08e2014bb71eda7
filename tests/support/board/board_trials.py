"""Trials of forgeries: each kind is made on a board of its own, which is checked as its CI does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import yaml

from ktdeval.errors import KtdevalError
from ktdeval.registry import load_plugins
from ktdeval_board.board_entries import load_board
from ktdeval_board.checking.check import CheckOptions, CheckReport, check_board
from ktdeval_board.rules import RULES_FILE
from support.board.board_bad import TODAY
from support.board.board_bad_cases import KINDS
from support.board.board_kinds import ForgeryKind
from support.board.forged_board import ForgedBoard, NotApplicableError, OriginalSubmission

Outcome = Literal["refused", "refused by another rule", "passed", "not applicable"]


@dataclass(frozen=True)
class Trial:
    """Result of a forgery."""

    outcome: Outcome
    rules: tuple[str, ...] = ()  #: rules by which the check refused it


def try_forgeries(board: Path, names: Iterable[str] = KINDS) -> dict[str, Trial]:
    """Forge the submission of a board in each of these kinds; return the trials by kind.

    The board itself is only read. The check must accept the sound submission and execute its
    records, since refusals would otherwise prove nothing.
    """
    original = _original(board)
    with TemporaryDirectory() as place:
        sound = _board_without_submissions(board, Path(place), original)
        sound.add()
        report = _checked(sound)

    assert report.findings == ()
    assert [each.tier for each in report.checked] == ["re-executed"]
    return {name: _trial(board, original, KINDS[name]) for name in names}


def _original(board: Path) -> OriginalSubmission:
    """Return the only entrant of a board."""
    loaded = load_board(board)
    (entry,) = [each for each in loaded.entries if each.baseline is None]
    assert entry.division is not None

    return OriginalSubmission(
        run=loaded.folder.records(entry.card_id),
        card=json.loads(entry.files.card.read_text(encoding="utf-8")),
        submission=json.loads(entry.files.submission.read_text(encoding="utf-8")),
        division=entry.division.id,
    )


def _trial(board: Path, original: OriginalSubmission, kind: ForgeryKind) -> Trial:
    with TemporaryDirectory() as place:
        forged = _board_without_submissions(board, Path(place), original)
        try:
            kind.build(forged)
        except (NotApplicableError, LookupError, StopIteration, KtdevalError):
            return Trial("not applicable")

        report = _checked(forged)

    rules = tuple(dict.fromkeys(finding.rule for finding in report.findings))
    if kind.rule in rules:
        return Trial("refused", rules)
    if rules:
        return Trial("refused by another rule", rules)

    return Trial("passed")


def _checked(board: ForgedBoard) -> CheckReport:
    options = CheckOptions(today=TODAY, record=False)
    return check_board(board.folder, load_plugins(()), options)


def _board_without_submissions(
    board: Path, place: Path, original: OriginalSubmission
) -> ForgedBoard:
    """Return a board with the rules of another one. Submitters choose its keys, since each forgery
    would otherwise also break the rule on registrations. Kinds that concern keys let their board
    draw them.
    """
    folder = place / "board"
    folder.mkdir()
    content = yaml.safe_load((board / RULES_FILE).read_text(encoding="utf-8"))
    for division in content["divisions"]:
        division["keys"] = "own"

    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    (folder / RULES_FILE).write_text(text, encoding="utf-8")
    (folder / "errata.yaml").write_text("errata: []\n")
    if (board / "certificates").is_dir():
        shutil.copytree(board / "certificates", folder / "certificates")

    return ForgedBoard(folder, original)
