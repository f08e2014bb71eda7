"""Kinds of forged submissions, each made from a sound one: one of each family here, and all that
the modules `board_*_kinds` register.

Kinds with one changed value or one file too many are rows of the YAML file next to this module. A
new kind is one more call of `bad`, `full`, `forged` or `edited`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ktdeval.values import dumps_pretty
from ktdeval_board.rules import RULES_FILE
from support.board.forged_board import Change, ForgedBoard, NotApplicableError, Value, setting
from support.runs.transcripts import read_transcript, write_transcript

Build = Callable[[Any], object]  #: step that changes a `ForgedBoard`


@dataclass(frozen=True, slots=True)
class ForgeryKind:
    """A kind of forgery."""

    build: Build  #: steps that forge it, starting from an empty board
    rule: str  #: rule of the check that must refuse the forgery
    #: file reported in the finding: `card`, `submission`, `list`, `records`, or a path on the board
    named: str


KINDS: dict[str, ForgeryKind] = {}
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


def forge(change: Change, renew: bool = True, stored: str = "repository") -> Build:
    """Return the step that adds a card with a change applied."""
    return lambda board: board.forge(change, renew=renew, stored=stored)


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


def of_task(**fields: Any) -> Change:
    """Return the change of fields of a card's task and of its config."""

    def change(card: Value) -> None:
        card["task"].update(fields)
        card["task"]["config"].update(fields)

    return change


# -- changes of a board


def draw_keys(board: ForgedBoard) -> None:
    """Let the board draw the mask keys for its divisions."""
    path = board.folder / RULES_FILE
    rules = yaml.safe_load(path.read_text(encoding="utf-8"))
    for division in rules["divisions"]:
        division["keys"] = "registered"

    path.write_text(yaml.safe_dump(rules, sort_keys=False), encoding="utf-8")


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


def _change_reply(board: ForgedBoard) -> None:
    """Change a recorded reply, and keep the marks, the card and the list of records consistent with
    it.
    """
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
    board.add({**board.original.card, "registration": "a" * 64})


# -- one kind of each family


bad(
    "tampered_headline_with_renewed_hash",
    "card",
    "card",
    forge(setting("metrics", "total_return", "value", to=0.5), renew=False),
)
forged("other_snapshot", "snapshot", setting("snapshot", "id", to="0" * 64))
edited("future_day", "date", "submission", setting("submitted_on", to="9998-12-31"))
forged(
    "model_name_with_markup", "markup", setting("model", "name", to="m<script>alert(1)</script>")
)
full("record_that_is_a_link", "link", "records/manifest.json", linked("records/manifest.json"))
full("transcript_with_another_reply", "ledger", "transcript", _change_reply)
bad(
    "registration_that_is_not_there",
    "registered",
    "card",
    draw_keys,
    _name_a_missing_registration,
)
full("records_of_another_card", "copy", "card", verdict(), forge(change_model, stored="elsewhere"))

FAMILIES = tuple(KINDS)  #: names of one kind of each family
