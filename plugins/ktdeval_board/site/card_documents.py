"""Documents about cards as stored on a site. The documents of a division are stored as deltas
against one of them if that saves enough space.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktdeval.errors import CardError
from ktdeval.values import dumps_canonical
from ktdeval_board.board_entries import BoardEntry, LoadedBoard
from ktdeval_board.site.files import SiteWriter
from ktdeval_pages.text_deltas import BaseText

_WORTH = 0.8
"""Packed size of a delta, relative to the packed size of the whole text, above which a base is not
worth loading. Orders and levels of real runs have little in common.
"""

Kind = str
"""Kind of document, as used in names of data files: `card`, `series` or `decisions`."""


@dataclass(frozen=True)
class CardDocument:
    """A document about a card. It is read only when its text is requested."""

    size: int  #: size of the file in bytes
    card_id: str
    read: Callable[[], str]


def file_document(path: Path, card_id: str) -> CardDocument:
    """Return a document that is stored as a file on the board."""
    return CardDocument(
        path.stat().st_size, card_id, lambda: decode_document(path.read_bytes(), path)
    )


def decode_document(data: bytes, path: Path) -> str:
    """Return the text of a document. Raises CardError if it is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CardError(
            f"{path}: is not UTF-8 text at byte {error.start}; run `ktdeval leaderboard check"
            " --all` to write it again"
        ) from error


class CardDocuments:
    """Writes documents of a single kind to a site.

    An instance is created before the build forks its processes, which then share the base texts.
    """

    def __init__(self, site: SiteWriter, kind: Kind, bases: Mapping[str, BaseText]) -> None:
        """Write the base text of each division."""
        self._site = site
        self._kind = kind
        self._bases = bases
        for division, base in bases.items():
            site.put(self._base_name(division), base.text)

    def put(self, entry: BoardEntry, text: str) -> None:
        """Write a card's document."""
        name = f"{self._kind}/{entry.card_id}"
        division = None if entry.division is None else entry.division.id
        base = self._bases.get(division or "")
        if division is None or base is None:
            self._site.put_json(name, text.encode(), is_packed=True)
        else:
            self._site.put_delta(name, self._base_name(division), base.delta(text))

    def _base_name(self, division: str) -> str:
        return f"base/{division}/{self._kind}"


def card_documents(
    board: LoadedBoard,
    site: SiteWriter,
    kind: Kind,
    document: Callable[[BoardEntry], CardDocument | None],
) -> CardDocuments:
    """Return the writer for a kind of document. `document` returns an entry's document, or None."""
    bases = {}
    for division in board.rules.divisions:
        found = [document(entry) for entry in board.of_division(division)]
        base = chosen_base([each for each in found if each is not None])
        if base is not None:
            bases[division.id] = base

    return CardDocuments(site, kind, bases)


def chosen_base(documents: Sequence[CardDocument]) -> BaseText | None:
    """Return the longest document if storing the next longest as a delta against it saves enough
    space. Otherwise, or if there is only one document, return None.
    """
    ordered = sorted(documents, key=lambda each: (-each.size, each.card_id))
    if len(ordered) < 2:
        return None

    base = BaseText(ordered[0].read())
    text = ordered[1].read()
    whole = _packed_size(text)
    differences = _packed_size(dumps_canonical(base.delta(text)))
    return base if differences <= _WORTH * whole else None


def _packed_size(text: str) -> int:
    return len(zlib.compress(text.encode(), 6))
