"""The board's errata: what maintainers say of cards afterwards. Nothing is deleted; it is said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ktdeval.api import ConfigError, build, load_yaml, option
from ktdeval_board.layout import CARD_ID, ERRATA_FILE

Effect = Literal["note", "unranked", "withdrawn"]

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Erratum:
    """One entry.

    `withdrawn` takes a card out of tables (it stays in the history, and its model may submit again); `unranked` keeps its row
    without a rank; `note` only says something.
    """

    card: str = option(help="id of the card")
    date: str = option(help="day of the entry, YYYY-MM-DD")
    effect: Effect = option(help="note, unranked or withdrawn")
    what: str = option(help="what is wrong, in a sentence")
    by: str = option("", help="who says so")


@dataclass(frozen=True)
class _File:
    errata: tuple[Erratum, ...] = option((), help="entries, oldest first")


def load_errata(folder: Path) -> tuple[Erratum, ...]:
    """The errata of the board in a folder; none where it has no file of them.

    Raises:
        ConfigError: the file is not valid; names the entry.
    """
    path = folder / ERRATA_FILE
    if not path.is_file():
        return ()
    found = build(_File, load_yaml(path), str(path)).errata
    for place, entry in enumerate(found):
        if not CARD_ID.fullmatch(entry.card):
            raise ConfigError(f"{path}: errata[{place}].card: is no card id (64 hexadecimal digits)")
        if not _DAY.fullmatch(entry.date):
            raise ConfigError(f"{path}: errata[{place}].date: expected YYYY-MM-DD, was {entry.date!r}")
    return found
