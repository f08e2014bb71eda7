"""Maintainers' later statements on a board's cards and registrations, kept in the file
`errata.yaml`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ktdeval.values import Value
from ktdeval_board.document_types import Day, Sha256
from ktdeval_board.rules import read_yaml_file

ERRATA_FILE = "errata.yaml"


class Erratum(Value, frozen=True, kw_only=False):
    """Entry of the errata.

    `withdrawn` removes a card from tables (it stays in the history, and its model may submit
    again); `unranked` keeps its row without a rank; `note` only adds a remark.
    """

    card: Sha256  #: Id of the card
    date: Day  #: Day of the entry
    effect: Literal["note", "unranked", "withdrawn"]
    what: str  #: What is wrong, in one sentence
    by: str = ""  #: Author of the statement


class Excuse(Value, frozen=True, kw_only=False):
    """Statement of maintainers that a registration's key may stay unused, for a reason unrelated to
    the key.

    It no longer prevents its submitter from being ranked, and its system may be registered again;
    it stays public and counts as an attempt permanently.
    """

    registration: Sha256  #: Id of the registration
    date: Day  #: Day of the entry
    what: str  #: Reason, in one sentence
    by: str = ""  #: Author of the statement


class Errata(Value, frozen=True):
    """Errata of a ktdeval leaderboard, version 1, oldest first."""

    errata: tuple[Erratum, ...] = ()
    registrations: tuple[Excuse, ...] = ()  #: Registrations whose keys may stay unused


def load_errata(folder: Path) -> Errata:
    """Read the errata of the board in a folder; empty if the board has no such file.

    Raises ConfigError, with the entry, if the file is not valid.
    """
    path = folder / ERRATA_FILE
    return read_yaml_file(path, Errata) if path.is_file() else Errata()
