"""Paths in a board's repository.

board.yaml                                      the rules
errata.yaml                                     withdrawn and corrected cards
cards/<task>/<model>/<agent>/<card id>.json     a card; its id is the SHA-256 of the file
cards/…/<card id>.submission.json               who submitted it
cards/…/<card id>.records.json                  its records: path, SHA-256 and size of each file
cards/…/<card id>.json.sig                      signature of its submitter on the card
records/<card id>/…                             the records themselves, laid out as a run folder
verdicts/<card id>.json                         results of the check, written only by the board
verdicts/<card id>.json.sig                     signature of a maintainer on that verdict
series/<card id>.json, decisions/<card id>.json derived from the records by the check
imported/<name>.json                            results of other harnesses
registrations/<id>.json                         a system, registered before its key is drawn
keys/<id>.json                                  the key that the board drew for it
anchors/<id>/<head>.json                        heads of its run's anchors, while the run goes on
certificates/<SHA-256>/…                        a mask's certificate, runs of attacks, verdict
schemas/…                                       JSON Schemas of all of them
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ktdeval.cards import signature_path

CARDS = "cards"
RECORDS = "records"
IMPORTED = "imported"
VERDICTS = "verdicts"
SERIES = "series"
DECISIONS = "decisions"
SCHEMAS = "schemas"
MARKETS = "markets"
CERTIFICATES = "certificates"
REGISTRATIONS = "registrations"
KEYS = "keys"
ANCHORS = "anchors"
CARD_ID = re.compile(r"[0-9a-f]{64}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_SEGMENT = 100


def path_segment(name: str) -> str:
    """Return a task's, model's or agent's name as one folder name: `openai--gpt-4.1` for
    `openai/gpt-4.1`.

    Characters other than letters, digits, `.`, `_` and `-` become dashes; the result is never `.`,
    `..`, hidden or empty.
    """
    safe = _UNSAFE.sub("-", name.replace("/", "--"))[:_LONGEST_SEGMENT].rstrip(".")
    if not safe or safe.startswith((".", "-")):
        return f"x{safe}"

    return safe


@dataclass(frozen=True)
class CardFiles:
    """Files that belong to one submitted card."""

    card_id: str
    card: Path

    @property
    def submission(self) -> Path:
        """The card's submission document."""
        return self.card.with_name(f"{self.card_id}.submission.json")

    @property
    def signature(self) -> Path:
        """Signature file of the card's submitter, if there is one."""
        return signature_path(self.card)

    @property
    def records(self) -> Path:
        """List of the card's records."""
        return self.card.with_name(f"{self.card_id}.records.json")


@dataclass(frozen=True)
class BoardFolder:
    """Paths in a board's repository. Methods neither read nor create files."""

    path: Path

    def card_files(self, task: str, model: str, agent: str, card_id: str) -> CardFiles:
        """Return the files of a card, in the folder that matches its names."""
        folder = self.path / CARDS / path_segment(task) / path_segment(model) / path_segment(agent)
        return CardFiles(card_id, folder / f"{card_id}.json")

    def records(self, card_id: str) -> Path:
        """Return the folder of a card's records, laid out as a run folder."""
        return self.path / RECORDS / card_id

    def verdict(self, card_id: str) -> Path:
        """Return the file with the check's verdict on a card."""
        return self.path / VERDICTS / f"{card_id}.json"

    def series(self, card_id: str) -> Path:
        """Return the file with the daily series derived from a card's records."""
        return self.path / SERIES / f"{card_id}.json"

    def decisions(self, card_id: str) -> Path:
        """Return the file with orders and holdings by day, derived from a card's records."""
        return self.path / DECISIONS / f"{card_id}.json"

    def market(self, name: str) -> Path:
        """Return the file for one of the board's markets, by the board's name for it."""
        return self.path / MARKETS / f"{path_segment(name)}.json"

    def certificate(self, sha256: str) -> Path:
        """Return the folder of a verified certificate, which also contains the runs of its
        attacks.
        """
        return self.path / CERTIFICATES / sha256

    def registration(self, registration_id: str) -> Path:
        """Return the file of a registration."""
        return self.path / REGISTRATIONS / f"{registration_id}.json"

    def key(self, registration_id: str) -> Path:
        """Return the file with the key that the board drew for a registration."""
        return self.path / KEYS / f"{registration_id}.json"

    def anchor(self, registration_id: str, head: str) -> Path:
        """Return the file with a head of a registered run's anchors."""
        return self.path / ANCHORS / registration_id / f"{head}.json"

    def list_anchors(self, registration_id: str) -> list[Path]:
        """Return the files with heads of a registered run's anchors, sorted by name."""
        paths = sorted((self.path / ANCHORS / registration_id).glob("*.json"))
        return [path for path in paths if CARD_ID.fullmatch(path.stem) and not path.is_symlink()]

    def list_registrations(self) -> list[Path]:
        """Return the registration files, sorted by name; other files are ignored."""
        paths = sorted((self.path / REGISTRATIONS).glob("*.json"))
        return [path for path in paths if CARD_ID.fullmatch(path.stem) and not path.is_symlink()]

    def list_imports(self) -> list[Path]:
        """Return the files with imported results, sorted by name."""
        return sorted((self.path / IMPORTED).glob("*.json"))

    def relative(self, path: Path) -> str:
        """Return a path relative to the board, as in findings and on pages."""
        return path.relative_to(self.path).as_posix()

    def list_cards(self) -> Iterator[CardFiles]:
        """Yield the files of each card, sorted by path; other files are ignored here and are
        reported by `check`.
        """
        for path in sorted((self.path / CARDS).glob("*/*/*/*.json")):
            if CARD_ID.fullmatch(path.stem):
                yield CardFiles(path.stem, path)
