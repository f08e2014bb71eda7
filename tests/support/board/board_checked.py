"""A board with submissions written by hand, as its layout says, so that the check is tested apart
from what writes submissions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, evaluate
from ktdeval.values import file_sha256
from ktdeval_board.checking.records import RecordedCard
from ktdeval_board.document_types import Records
from ktdeval_board.layout import BoardFolder, CardFiles
from ktdeval_board.read_documents import read_own
from ktdeval_board.rules import Limits, load_rules
from support.board.board_cards import (
    card_of,
    made_on,
    put_card,
    put_json,
    put_records,
    rules_of,
    submission_of,
)
from support.figures.card_cases import typed
from support.runs.run_support import TASK, WINDOW

ON = "2026-03-02"


def make_run(out: Path, market: Path, model: str = "builtin/chaos", **changes: Any) -> Path:
    """A run of a keyless model over one month of a stored market."""
    config = {"tasks": (TASK,), "data": str(market), "windows": (WINDOW,), "quiet": True, **changes}
    if model == "builtin/chaos":
        # decides enough of its steps to be ranked
        config = {"model_args": {"misbehaviour": 0.4}, **config}

    evaluate(RunConfig(model=model, out=str(out), **config), load_plugins())

    return made_on(out, ON)


def make_board(path: Path, market: Path, run: Path, **changes: Any) -> Path:
    """A board of one division: that of the run's card. `changes` are fields of board.yaml."""
    path.mkdir(parents=True)
    (path / "board.yaml").write_text(
        yaml.safe_dump({**rules_of(card_of(run), str(market)), **changes})
    )

    return path


def submit(board: Path, run: Path, stored: str = "repository", **facts: Any) -> CardFiles:
    """Write the one card of a run as a submission, with its records."""
    card = card_of(run)
    files = put_card(board, card)
    put_json(files.submission, submission_of(card, files.card_id, **facts))
    put_records(board, files, run, stored)

    return files


def recorded_card(board: Path, files: CardFiles, **limits: int) -> RecordedCard:
    """The case of a submitted card, with other limits where they are given."""
    rules = load_rules(board)
    rules = msgspec.structs.replace(rules, limits=Limits(**limits))
    card = typed(json.loads(files.card.read_text()))
    records = read_own(files.records, Records)

    return RecordedCard(BoardFolder(board), rules, rules.divisions[0], files, card, records)


def change_card(
    board: Path, files: CardFiles, change: Callable[[dict[str, Any]], None]
) -> CardFiles:
    """Replace a submitted card by a changed one with all names and hashes renewed, as a forger
    would.
    """
    folder = BoardFolder(board)
    card = json.loads(files.card.read_text())
    change(card)
    renewed = put_card(board, card)

    for old, new in ((files.submission, renewed.submission), (files.records, renewed.records)):
        new.write_text(old.read_text().replace(files.card_id, renewed.card_id))
        old.unlink()

    files.card.unlink()
    if folder.records(files.card_id).exists():
        folder.records(files.card_id).rename(folder.records(renewed.card_id))

    return renewed


def renew(board: Path, files: CardFiles, name: str, data: bytes) -> None:
    """Replace one of the records and renew its entry in the list; the card is left as it is."""
    path = BoardFolder(board).records(files.card_id) / name
    path.write_bytes(data)
    listed = json.loads(files.records.read_text())

    for entry in listed["files"]:
        if entry["path"] == name:
            entry |= {"sha256": file_sha256(path), "bytes": len(data)}

    files.records.write_text(json.dumps(listed))
