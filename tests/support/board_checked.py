"""A board with submissions written by hand, as its layout says, so that the check is tested apart from what writes submissions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from board_cards import files_of, submission_of
from ktdeval.config import RunConfig
from ktdeval.jsonio import file_sha256
from ktdeval.registry import load_plugins
from ktdeval.runner import evaluate
from ktdeval_board.layout import BoardFolder, CardFiles
from run_support import TASK, WINDOW

ON = "2026-03-02"
KEPT = ("manifest.json", "episodes")


def make_run(out: Path, market: Path, model: str = "builtin/chaos", **changes: Any) -> Path:
    """A run of a keyless model over one month of a stored market."""
    config = {"tasks": (TASK,), "data": str(market), "windows": (WINDOW,), "quiet": True, **changes}
    if model == "builtin/chaos":
        config = {"model_args": {"misbehaviour": 0.4}, **config}  # decides enough of its steps to be ranked
    evaluate(RunConfig(model=model, out=str(out), **config), load_plugins())
    return out


def make_board(path: Path, market: Path, run: Path, **changes: Any) -> Path:
    """A board of one division: that of the run's card. `changes` are fields of board.yaml."""
    card = card_of(run)
    windows = [{name: window[name] for name in ("name", "first", "last")} for window in card["windows"]]
    division = {"id": "blinded", "task": card["task"]["name"], "version": card["task"]["version"], "hash": card["task"]["hash"]}
    division |= {"snapshot": "small", "windows": windows, "seeds": card["seeds"]}
    rules = {
        "name": "small",
        "title": "A small board",
        "market": "synthetic",
        "snapshots": [{"name": "small", "id": card["snapshot"]["id"], "data": str(market)}],
        "divisions": [division],
        "baselines": [{"model": "builtin/equal_weight"}],
        **changes,
    }
    path.mkdir(parents=True)
    (path / "board.yaml").write_text(yaml.safe_dump(rules))
    return path


def card_of(run: Path) -> dict[str, Any]:
    """The one card of a run."""
    (path,) = (run / "cards").glob("*.json")
    card: dict[str, Any] = json.loads(path.read_text())
    return card


def submit(board: Path, run: Path, stored: str = "repository", **facts: Any) -> CardFiles:
    """Write the one card of a run as a submission, with its records."""
    (card_path,) = (run / "cards").glob("*.json")
    folder, card = BoardFolder(board), card_of(run)
    files = files_of(folder, card, file_sha256(card_path))
    files.card.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(card_path, files.card)
    files.submission.write_text(json.dumps(submission_of(card, files.card_id, **facts)))
    listed = []
    for name in KEPT:
        found = [run / name] if (run / name).is_file() else sorted((run / name).rglob("*"))
        for source in (path for path in found if path.is_file()):
            relative = source.relative_to(run).as_posix()
            listed.append({"path": relative, "sha256": file_sha256(source), "bytes": source.stat().st_size})
            if stored == "repository":
                target = folder.records(files.card_id) / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
    files.records.write_text(json.dumps({"schema_version": 1, "card": files.card_id, "stored": stored, "files": listed}))
    return files


def change_card(board: Path, files: CardFiles, change: Callable[[dict[str, Any]], None]) -> CardFiles:
    """Replace a submitted card by a changed one with all names and hashes renewed, as a forger would."""
    folder = BoardFolder(board)
    card = json.loads(files.card.read_text())
    change(card)
    from ktdeval.jsonio import dumps_pretty, sha256_hex

    text = dumps_pretty(card)
    renewed = CardFiles(sha256_hex(text), files.card.with_name(f"{sha256_hex(text)}.json"))
    renewed.card.write_text(text)
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
