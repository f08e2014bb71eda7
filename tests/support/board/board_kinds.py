"""Kinds of forged submissions, each made from a sound one: those of `ktdeval leaderboard selftest`,
and all that the modules `board_*_kinds` register.

Kinds with one changed value or one file too many are rows of the YAML file next to this module. A
new kind is one more call of `bad`, `full`, `forged` or `edited`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ktdeval.values import dumps_pretty
from ktdeval_board.selftest import kinds
from ktdeval_board.selftest.kinds import Build, ForgeryKind, forge
from ktdeval_board.selftest.sample_board import Change, ForgedBoard, NotApplicableError, Value

KINDS: dict[str, ForgeryKind] = dict(kinds.KINDS)
"""Kinds of forgeries by their names, in the order in which they are tried."""


def bad(name: str, rule: str, named: str, *steps: Build) -> None:
    """Register a kind by its steps on an empty board."""

    def build(board: ForgedBoard) -> None:
        for step in steps:
            step(board)

    assert name not in KINDS, name
    KINDS[name] = ForgeryKind(build, rule, named)


def full(name: str, rule: str, named: str, *steps: Build) -> None:
    """Register a kind by its steps on a board with the sound submission."""
    bad(name, rule, named, ForgedBoard.add, *steps)


def forged(name: str, rule: str, change: Change, renew: bool = True) -> None:
    """Register a change of the card after which every hash, id and total is renewed."""
    bad(name, rule, "card", forge(change, renew=renew))


def edited(name: str, rule: str, named: str, change: Change) -> None:
    """Register a change of the submission document or of the list of records."""

    def build(board: ForgedBoard) -> None:
        files = board.files
        board.edit(files.submission if named == "submission" else files.records, change)

    full(name, rule, named, build)


# -- steps


def path_in(board: ForgedBoard, path: str) -> Path:
    """Return a path of the board; below `records/` it is one of the card's records."""
    made = board.folder / path.replace("records/", f"records/{board.card_id}/", 1)
    made.parent.mkdir(parents=True, exist_ok=True)
    return made


def file_with(path: str, text: str) -> Build:
    """Return the step that writes a file."""
    return lambda board: path_in(board, path).write_text(text)


def folder(path: str) -> Build:
    """Return the step that makes a folder."""
    return lambda board: (board.folder / path).mkdir(parents=True)


def linked(path: str, to: str = "/etc/passwd") -> Build:
    """Return the step that replaces a file by a link."""

    def build(board: ForgedBoard) -> None:
        place = path_in(board, path)
        place.unlink(missing_ok=True)
        place.symlink_to(to)

    return build


def moved_out(path: str) -> Build:
    """Return the step that moves a folder out of the board and links to it."""

    def build(board: ForgedBoard) -> None:
        outside = board.folder.parent / "outside"
        path_in(board, path).rename(outside)
        path_in(board, path).symlink_to(outside)

    return build


def rewritten(old: str, new: str) -> Build:
    """Return the step that replaces words in the text of the sound card and renews its name."""

    def build(board: ForgedBoard) -> None:
        text = board.files.card.read_text()
        if old not in text:
            raise NotApplicableError(f"the card does not hold {old!r}")

        board.rewrite(text.replace(old, new, 1).encode("utf-8", "surrogatepass"))

    return build


def verdict(**fields: Any) -> Build:
    """Return the step that writes a verdict on the card that was added last."""
    return lambda board: board.add_verdict(**fields)


def of_task(**fields: Any) -> Change:
    """Return the change of fields of a card's task and of its config."""

    def change(card: Value) -> None:
        card["task"].update(fields)
        card["task"]["config"].update(fields)

    return change


# -- changes of a board


def change_card(board: ForgedBoard, change: Change) -> None:
    """Change the card that was added last, and renew its id."""
    card = json.loads(board.files.card.read_text())
    change(card)
    board.rewrite(dumps_pretty(card).encode())


def withdraw_card(board: ForgedBoard, card_id: str) -> None:
    """Withdraw a card by an erratum."""
    entry = {
        "card": card_id,
        "date": "2026-01-01",
        "effect": "withdrawn",
        "what": "its submitter asked for it",
    }
    (board.folder / "errata.yaml").write_text(json.dumps({"errata": [entry]}))
