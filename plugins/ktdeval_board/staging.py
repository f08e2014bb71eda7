"""Staging for submissions. A submission is added to a copy of the board, which is then checked like
the board itself.

The copy lies in a private folder inside the board, so that accepted files only need to be renamed.
It consists of hard links, so the board's files are not read, and the check writes to none of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.errors import StoreError, wrap_os_error
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder
from ktdeval.values import JsonValue, dumps_pretty, temporary_folder, to_plain, write_atomic
from ktdeval_board.atomic_moves import Placement
from ktdeval_board.board_entries import Card, names_of
from ktdeval_board.checking.files import WALKED, is_plain_folder
from ktdeval_board.document_types import RecordFile, Records, Stored
from ktdeval_board.layout import BoardFolder, CardFiles
from ktdeval_board.redacted_records import Bundle, BundleSource, Redactor, make_bundle
from ktdeval_board.rules import Division, Rules

_PREFIX = ".submission-"


@dataclass(frozen=True)
class ChosenCard:
    """A card to be submitted."""

    path: Path  #: the card's file in the run
    card: Card
    division: Division  #: division of the card's task from which the card differs least


@dataclass(frozen=True)
class RecordsStorage:
    """Storage location of a submission's records."""

    stored: Stored
    url: str = ""  #: address of records that are stored elsewhere
    #: folder to which records stored elsewhere are written, with a run folder for each task; None
    #: to leave them unwritten
    out: Path | None = None


@dataclass(frozen=True)
class StagedCard:
    """A card whose files are in the staged copy of the board."""

    chosen: ChosenCard
    bundle: Bundle
    files: CardFiles
    records: tuple[RecordFile, ...]
    signature: bytes | None = None  #: contents of the card's signature file; None if unsigned

    @property
    def card_id(self) -> str:
        """Id of the card in the form in which it is submitted."""
        return self.files.card_id

    @property
    def size(self) -> int:
        """Total size of the records in bytes."""
        return sum(record.bytes for record in self.records)


class StagedBoard:
    """A copy of a board in a private folder, to which cards are added.

    `folder` is the copy, which is checked instead of the board.
    """

    def __init__(self, board: BoardFolder, rules: Rules, private: Path) -> None:
        self.folder = BoardFolder(private / "board")
        self._board = board
        self._rules = rules
        self._private = private
        self._cards: list[StagedCard] = []

    def bundle(
        self,
        chosen: ChosenCard,
        run: RunFolder,
        changes: Mapping[str, Any],
        redactor: Redactor,
        plugins: Plugins,
    ) -> Bundle:
        """Copy a card's records from its run to the private folder, without secrets."""
        market = dict(changes)
        if "data" not in market:
            market = dict(run.manifest.data or {})

        source = BundleSource(
            run, chosen.path, chosen.card, market, self._rules.snapshot_of(chosen.division)
        )
        return make_bundle(source, self._private / chosen.path.stem, redactor, plugins)

    def files_of(self, chosen: ChosenCard, bundle: Bundle) -> CardFiles:
        """Return a card's paths in the copy."""
        return self.folder.card_files(*names_of(chosen.card), bundle.card_id)

    def add(
        self,
        chosen: ChosenCard,
        bundle: Bundle,
        submission: JsonValue,
        storage: RecordsStorage,
        signature: bytes | None = None,
    ) -> StagedCard:
        """Write a card, its signature, its submission, its list of records and the records
        themselves to their paths.

        Raises StoreError if one of these files already exists on the board.
        """
        card_id = bundle.card_id
        files = self.files_of(chosen, bundle)
        staged = StagedCard(chosen, bundle, files, tuple(bundle.files()), signature)
        for path in self.paths(staged, storage):
            if os.path.lexists(path):
                place = self._board.path / self.folder.relative(path)
                raise StoreError(f"{place}: already exists; nothing was written")

        records = Records(
            schema_version=1,
            card=card_id,
            files=staged.records,
            stored=storage.stored,
            url=storage.url,
        )
        with wrap_os_error(f"{self._board.path}: can't write here"):
            files.card.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(files.submission, dumps_pretty(submission))
            write_atomic(files.records, dumps_pretty(to_plain(records)))
            shutil.copyfile(bundle.card_path, files.card)
            if signature is not None:
                write_atomic(files.signature, signature)

            if storage.stored == "repository":
                _link_tree(bundle.folder, self.folder.records(card_id), excluded={"cards"})

        self._cards.append(staged)
        return staged

    def paths(self, staged: StagedCard, storage: RecordsStorage) -> list[Path]:
        """Return the files that a card's submission adds to the copy. The card comes last, since
        the other files form a submission only together with it.
        """
        files = staged.files
        paths = [files.records, files.submission, files.card]
        if staged.signature is not None:
            paths.insert(0, files.signature)
        if storage.stored == "repository":
            paths.insert(0, self.folder.records(staged.card_id))

        return paths

    def named_as_board(self, message: str) -> str:
        """Return a message about the copy, with the copy's paths replaced by the board's."""
        return message.replace(str(self.folder.path), str(self._board.path))

    def place(self, storage: RecordsStorage) -> None:
        """Move all added files to their paths on the board, or none of them. Raises StoreError if
        that fails.
        """
        with Placement() as placement:
            for staged in self._cards:
                if storage.out is not None:
                    placement.put(staged.bundle.folder, storage.out / staged.chosen.path.stem)

                for path in self.paths(staged, storage):
                    placement.put(path, self._board.path / self.folder.relative(path))


@contextmanager
def staged_board(board: BoardFolder, rules: Rules) -> Iterator[StagedBoard]:
    """Yield a copy of a board, which is removed when the block ends. Raises StoreError if it can't
    be created.
    """
    with ExitStack() as stack:
        with wrap_os_error(f"{board.path}: can't write here"):
            private = stack.enter_context(temporary_folder(_PREFIX, board.path))

        staged = StagedBoard(board, rules, private)
        with wrap_os_error(f"{board.path}: can't be copied for the check"):
            _link_tree(board.path, staged.folder.path, excluded=_not_walked(board.path))

        yield staged


def _not_walked(board: Path) -> set[str]:
    """Return the folders of a board that no rule examines, such as `.git` or a built site."""
    with os.scandir(board) as entries:
        return {
            entry.name
            for entry in entries
            if entry.name not in WALKED and is_plain_folder(Path(entry.path))
        }


def _link_tree(source: Path, target: Path, excluded: Collection[str]) -> None:
    """Create a folder with hard links to the files in another folder. `excluded` contains names to
    skip at the top level.
    """

    def ignore(folder: str, _names: list[str]) -> Collection[str]:
        return excluded if Path(folder) == source else ()

    shutil.copytree(source, target, symlinks=True, ignore=ignore, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> None:
    try:
        Path(target).hardlink_to(source)
    except OSError:  # hard links are not supported, or not allowed for other users' files
        shutil.copy2(source, target)
