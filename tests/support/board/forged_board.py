"""A board with one genuine submission to forge. After any change, all hashes can be recomputed."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.runner import ANCHORS, CANARY, CERTIFICATE, MANIFEST, MARK
from ktdeval.values import dumps_pretty, file_sha256, sha256_hex
from ktdeval_board.layout import BoardFolder, CardFiles
from support.figures.renewed_cards import renewed_card

Value = dict[str, Any]
Change = Callable[[Value], object]
Place = tuple[str | int, ...]


class NotApplicableError(Exception):
    """Raised if a kind of forgery can't be made from the submission; the message says why."""


@dataclass(frozen=True)
class OriginalSubmission:
    """A genuine submission to be forged."""

    run: Path  #: folder with its records, laid out as a run
    card: Value
    submission: Value
    division: str  #: id of its division


class ForgedBoard:
    """A board folder with forged submissions."""

    def __init__(self, folder: Path, original: OriginalSubmission) -> None:
        """Take a board without submissions."""
        self.folder = folder
        self.original = original
        self.card_id = ""
        self.card_folder = folder

    # -- submissions

    def add(self, card: Value | None = None, stored: str = "repository") -> str:
        """Add a submission of a card (by default the genuine one), with the genuine records and
        correct hashes. Return the card id.
        """
        if card is None:
            card = self.original.card

        files = put_card(self.folder, card)
        self.card_id = files.card_id
        self.card_folder = files.card.parent
        put_json(files.submission, self.submission(card, files.card_id))

        sound = [episode["id"] for episode in self.original.card["episodes"]]
        own = [episode["id"] for episode in card["episodes"]]
        names = dict(zip(sound, own, strict=False))
        put_records(self.folder, files, self.original.run, stored, names)

        return self.card_id

    def submission(self, card: Value, card_id: str) -> Value:
        """Return the submission document for a card. It is the original document, changed to refer
        to this card.
        """
        made = copy.deepcopy(self.original.submission)
        made["card"] = card_id
        for part in ("model", "agent"):
            made[part]["name"] = card[part]["name"]

        return made

    def forge(self, change: Change, renew: bool = True, stored: str = "repository") -> str:
        """Add the card with a change applied. `renew` says whether to recompute all dependent
        fields, so that the card is valid in itself.
        """
        card = copy.deepcopy(self.original.card)
        change(card)
        if repr(card) == repr(self.original.card):  # a seed of 0.0 differs from a seed of 0
            raise NotApplicableError("it does not change this card")

        return self.add(renewed_card(card) if renew else card, stored)

    def edit(self, path: Path, change: Change) -> None:
        """Change a document in place without updating any hash."""
        value = json.loads(path.read_text(encoding="utf-8"))
        change(value)
        put_json(path, value)

    def rewrite(self, data: bytes, card_id: str = "") -> None:
        """Replace the bytes of the most recently added card. The new bytes are stored under their
        own id, or under `card_id` if it is given.
        """
        old = self.files.card
        card_id = card_id or sha256_hex(data)
        for path in (self.files.submission, self.files.records):
            self.edit(path, setting("card", to=card_id))
            path.rename(path.with_name(path.name.replace(self.card_id, card_id)))

        if self.records_folder.exists():
            self.records_folder.rename(self.records_folder.with_name(card_id))

        old.unlink()
        old.with_name(f"{card_id}.json").write_bytes(data)
        self.card_id = card_id

    # -- records

    def episode(self, number: int = 0) -> Path:
        """Return the folder of an episode's records."""
        return self.records_folder / "episodes" / str(self.original.card["episodes"][number]["id"])

    def renew_records(self) -> None:
        """Bring the episodes' marks, the card's artefacts and the list of records up to date after
        the records were changed.
        """
        for folder in sorted((self.records_folder / "episodes").iterdir()):
            mark = json.loads((folder / MARK).read_text())
            names = [name for name in mark["sha256"] if (folder / name).is_file()]
            mark["sha256"] = {name: file_sha256(folder / name) for name in names}
            (folder / MARK).write_text(dumps_pretty(mark))

        card = json.loads(self.files.card.read_text())
        card["artefacts"] = {
            path: file_sha256(self.records_folder / path) for path in card["artefacts"]
        }
        self.rewrite(dumps_pretty(card).encode())
        self.edit(self.files.records, self._relist)

    def _relist(self, listed: Value) -> None:
        for entry in listed["files"]:
            path = self.records_folder / entry["path"]
            entry.update(sha256=file_sha256(path), bytes=path.stat().st_size)

    # -- files of the board itself

    def add_verdict(self, tier: str = "re-executed", **fields: Any) -> Path:
        """Write a verdict on the most recently added card, as the board's own check would."""
        path = BoardFolder(self.folder).verdict(self.card_id)
        document = {
            "schema_version": 1,
            "card": self.card_id,
            "division": self.original.division,
            "tier": tier,
            "checked_on": "2026-01-01",
            "suite_version": "0.1.0",
            "episodes": 1,
            "steps": 1,
            "notes": [],
            "rerun": None,
            **fields,
        }
        put_json(path, document)

        return path

    # -- paths

    @property
    def files(self) -> CardFiles:
        """The most recently added card, its submission and its list of records."""
        return CardFiles(self.card_id, self.card_folder / f"{self.card_id}.json")

    @property
    def records_folder(self) -> Path:
        """Folder with the records of the most recently added card."""
        return BoardFolder(self.folder).records(self.card_id)


def setting(*path: str | int, to: Any) -> Change:
    """Return a change that sets a single value."""

    def change(value: Value) -> None:
        inside: Any = value
        for part in path[:-1]:
            inside = inside[part]

        inside[path[-1]] = to

    return change


def put_json(path: Path, value: Any) -> None:
    """Write JSON in the suite's format, including values that the suite never writes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")


def put_card(board: Path, card: Mapping[str, Any]) -> CardFiles:
    """Write a card to its path on a board."""
    text = dumps_pretty(card)
    task, model, agent = (str(card[part]["name"]) for part in ("task", "model", "agent"))
    files = BoardFolder(board).card_files(task, model, agent, sha256_hex(text))
    files.card.parent.mkdir(parents=True, exist_ok=True)
    files.card.write_text(text, encoding="utf-8", errors="surrogatepass")

    return files


def put_records(
    board: Path,
    files: CardFiles,
    run: Path,
    stored: str = "repository",
    names: Mapping[str, str] | None = None,
) -> None:
    """Write the list of a card's records, taken from a run. Also copy the records if they are
    `stored` in the repository.

    `names` maps episode ids in the run to episode ids on the card; other episodes are omitted. By
    default, all episodes keep their ids.
    """
    listed = []
    artefacts = json.loads(files.card.read_bytes().decode("utf-8", "surrogatepass"))["artefacts"]
    for path in record_files(run):
        episode = path.split("/")[1] if "/" in path else ""
        if episode and names is not None and episode not in names:
            continue

        source = run / path
        target = path.replace(episode, names[episode]) if episode and names else path
        digest = file_sha256(source)

        if stored == "repository":
            copied = BoardFolder(board).records(files.card_id) / target
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copied)
        else:
            digest = artefacts.get(target, digest)

        listed.append({"path": target, "sha256": digest, "bytes": source.stat().st_size})

    document = {"schema_version": 1, "card": files.card_id, "stored": stored, "files": listed}
    if stored != "repository":
        document["url"] = "https://example.org/records"

    put_json(files.records, document)


def record_files(run: Path) -> list[str]:
    """Return the paths of the record files in a run, relative to the run."""
    paths = [path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()]
    of_run = (MANIFEST, CANARY, CERTIFICATE, ANCHORS)
    return sorted(path for path in paths if path in of_run or path.startswith("episodes/"))
