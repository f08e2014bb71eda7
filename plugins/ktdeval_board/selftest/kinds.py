"""Kinds of forgeries tried by a self-test, one from each family. The package's tests try more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from ktdeval_board.rules import RULES_FILE
from ktdeval_board.selftest.sample_board import (
    Change,
    ForgedBoard,
    Value,
    read_transcript,
    setting,
    write_transcript,
)

Build = Callable[[Any], object]  #: Step that changes a `ForgedBoard`


@dataclass(frozen=True, slots=True)
class ForgeryKind:
    """A kind of forgery."""

    build: Build  #: steps that forge it, starting from an empty board
    rule: str  #: check rule that must refuse the forgery
    #: file reported in the finding: `card`, `submission`, `list`, `records`, or a path on the board
    named: str


def forge(change: Change, renew: bool = True, stored: str = "repository") -> Build:
    """Return the step that adds a card with a change applied."""
    return lambda board: board.forge(change, renew=renew, stored=stored)


def draw_keys(board: ForgedBoard) -> None:
    """Let the board draw the mask keys for its divisions."""
    path = board.folder / RULES_FILE
    rules = yaml.safe_load(path.read_text(encoding="utf-8"))
    for division in rules["divisions"]:
        division["keys"] = "registered"

    path.write_text(yaml.safe_dump(rules, sort_keys=False), encoding="utf-8")


def change_model(card: Value) -> None:
    """Give a card the name of another model. If the card's own model is local, so is the other one,
    since plugins know which models are local.
    """
    own = card["model"]["name"]
    other = "builtin/chaos"
    if own == other:
        other = "builtin/momentum"
    if not own.startswith("builtin/"):
        other = "nobody/another-model"

    card["model"]["name"] = other


def _submit_on_a_future_day(board: ForgedBoard) -> None:
    board.add()
    board.edit(board.files.submission, setting("submitted_on", to="9998-12-31"))


def _replace_record_by_link(board: ForgedBoard) -> None:
    board.add()
    record = board.records_folder / "manifest.json"
    record.unlink()
    record.symlink_to("/etc/passwd")


def _change_reply(board: ForgedBoard) -> None:
    """Change a recorded reply, and keep the marks, the card and the list of records consistent with
    it.
    """
    board.add()
    folder = board.episode()
    entries = read_transcript(folder)
    replies = []
    for entry in entries:
        replies += [exchange["reply"] for exchange in entry["exchanges"] if "reply" in exchange]

    reply = replies[0]
    reply["content"] = f"{reply['content']} Or so."
    write_transcript(folder, entries)
    board.renew_records()


def _name_a_missing_registration(board: ForgedBoard) -> None:
    draw_keys(board)
    board.add({**board.original.card, "registration": "a" * 64})


def _submit_records_twice(board: ForgedBoard) -> None:
    """Submit the records of a card that already has a verdict again, for another model."""
    board.add()
    board.add_verdict()
    board.forge(change_model, stored="elsewhere")


_HEADLINE = setting("metrics", "total_return", "value", to=0.5)
_SNAPSHOT = setting("snapshot", "id", to="0" * 64)
_MARKUP = setting("model", "name", to="m<script>alert(1)</script>")

KINDS: dict[str, ForgeryKind] = {
    "tampered_headline_with_renewed_hash": ForgeryKind(
        forge(_HEADLINE, renew=False), "card", "card"
    ),
    "other_snapshot": ForgeryKind(forge(_SNAPSHOT), "snapshot", "card"),
    "future_day": ForgeryKind(_submit_on_a_future_day, "date", "submission"),
    "model_name_with_markup": ForgeryKind(forge(_MARKUP), "markup", "card"),
    "record_that_is_a_link": ForgeryKind(_replace_record_by_link, "link", "records/manifest.json"),
    "transcript_with_another_reply": ForgeryKind(_change_reply, "ledger", "transcript"),
    "registration_that_is_not_there": ForgeryKind(
        _name_a_missing_registration, "registered", "card"
    ),
    "records_of_another_card": ForgeryKind(_submit_records_twice, "copy", "card"),
}
"""Kinds of forgeries by name, in the order in which they are tried."""
