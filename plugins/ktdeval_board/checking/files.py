"""Rules for a board's files, and functions that list the files without opening any of the wrong
kind or following links.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ktdeval.cards import signature_path
from ktdeval.errors import StoreError, os_reason
from ktdeval.values import file_sha256
from ktdeval_board import layout
from ktdeval_board.checking.findings import FileMessage, Stage, rule
from ktdeval_board.document_types import RECORD_FORM
from ktdeval_board.layout import (
    ANCHORS,
    CARD_ID,
    CARDS,
    IMPORTED,
    KEYS,
    RECORDS,
    REGISTRATIONS,
    BoardFolder,
    CardFiles,
)
from ktdeval_board.rules import Limits

SUBMITTED = (CARDS, RECORDS, IMPORTED, REGISTRATIONS, ANCHORS)  #: Folders that submitters add to
WRITTEN = (layout.VERDICTS, layout.SERIES, layout.DECISIONS, layout.MARKETS)
"""Folders that the check writes to. If one were a link, the check would write outside the board."""
_OWN = (*WRITTEN, layout.SCHEMAS, layout.CERTIFICATES, KEYS, ".github")
WALKED = (*SUBMITTED, *_OWN)  #: Folders of a board that the check walks

_ID = "[0-9a-f]{64}"
_SEGMENT = "[A-Za-z0-9_][A-Za-z0-9._-]{0,100}"
_EPISODE = "[0-9a-f]{20}"
_FOLDERS = re.compile(
    f"(?:cards(?:/{_SEGMENT}){{0,3}}|records(?:/{_ID}(?:/episodes(?:/{_EPISODE})?)?)?|imported|registrations|anchors(?:/{_ID})?)",
    re.ASCII,
)
_FILES = re.compile(
    rf"(?:cards/{_SEGMENT}/{_SEGMENT}/{_SEGMENT}/{_ID}(?:(?:\.submission|\.records)?\.json|\.json\.sig)"
    rf"|records/{_ID}/(?:{RECORD_FORM})|imported/[A-Za-z0-9_][A-Za-z0-9._-]{{0,150}}\.json|registrations/{_ID}\.json(?:\.sig)?"
    rf"|anchors/{_ID}/{_ID}\.json"
    r"|(?:cards|records|imported|registrations|anchors)/\.gitkeep)",
    re.ASCII,
)
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9._-]{0,160}", re.ASCII)
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE | re.ASCII)
"""Names that can't be checked out on Windows. A board with such a name could not be cloned there.
"""


@dataclass(frozen=True)
class FolderItem:
    """An entry of a folder."""

    name: str
    where: str  #: path of the entry, relative to the board
    path: Path
    mode: int  #: mode of the entry, without following a link; 0 if it can't be read
    size: int = 0
    problem: str = ""  #: why the entry can't be read
    #: number of entries in the same folder, including this one, whose names differ only in case
    twins: int = 1
    limits: Limits | None = None

    @property
    def is_folder(self) -> bool:
        """Return whether the entry is a folder, not a link to one."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_plain_file(self) -> bool:
        """Return whether the entry is a regular file, not a link to one."""
        return stat.S_ISREG(self.mode)

    @property
    def top(self) -> str:
        """Top-level folder of the board in which the entry lies."""
        return self.where.partition("/")[0]

    @property
    def is_submitted(self) -> bool:
        """Return whether submitters may add files to the entry's top-level folder."""
        return self.top in SUBMITTED

    @property
    def is_sound(self) -> bool:
        """Return whether the entry's kind and path are valid. Only valid folders are walked."""
        checks = (_link, _special, _path, _foreign_file)
        return not any(next(check(self), None) for check in checks)


def walk(folder: Path, limits: Limits) -> Iterator[FolderItem]:
    """Yield a board's checked entries, sorted by name within each folder. Raises StoreError if a
    folder that the check writes to is a link or not a folder.
    """
    for name in WRITTEN:
        if os.path.lexists(folder / name) and not is_plain_folder(folder / name):
            raise StoreError(
                f"{folder / name}: is a link or not a folder, so the check would write elsewhere; "
                "delete it"
            )

    waiting = list(_items(folder, "", limits))
    while waiting:
        item = waiting.pop()
        yield item
        if item.top in WALKED and item.is_folder and item.is_sound:
            waiting += _items(item.path, item.where, limits)


def _items(folder: Path, where: str, limits: Limits | None = None) -> list[FolderItem]:
    """List a folder, sorted by name. A folder that can't be listed yields a single entry with the
    reason.
    """
    twins = Counter[str]()
    items = []
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: os.fsencode(entry.name))

        if where:
            twins.update(entry.name.casefold() for entry in ordered)

        for entry in ordered:
            state = entry.stat(follow_symlinks=False)
            item = FolderItem(
                name=entry.name,
                where=f"{where}/{entry.name}" if where else entry.name,
                path=Path(entry.path),
                mode=state.st_mode,
                size=state.st_size,
                twins=max(twins[entry.name.casefold()], 1),
                limits=limits,
            )
            items.append(item)
    except OSError as error:
        problem = f"can't be read: {os_reason(error)}"
        return [FolderItem(folder.name, where or ".", folder, mode=0, problem=problem)]

    return items


def is_plain_folder(path: Path) -> bool:
    """Return whether a path is a folder, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _plain_files(folder: Path, top: str) -> Iterator[FolderItem]:
    """Yield regular files below a folder of the board, without following links."""
    if not is_plain_folder(folder / top):
        return

    waiting = [(folder / top, top)]
    while waiting:
        inner = []
        for item in _items(*waiting.pop()):
            if item.is_plain_file:
                yield item
            elif item.is_folder and _FOLDERS.fullmatch(item.where):
                inner.append((item.path, item.where))

        waiting += reversed(inner)


def listed_cards(folder: Path) -> Iterator[CardFiles]:
    """Yield the cards at valid card paths that are regular files below real folders, sorted by
    path.
    """
    for item in _plain_files(folder, CARDS):
        if _FILES.fullmatch(item.where) and CARD_ID.fullmatch(item.path.stem):
            yield CardFiles(item.path.stem, item.path)


def listed_imports(folder: Path) -> Iterator[Path]:
    """Yield the imported results that are regular files, sorted by path."""
    yield from _listed_json(folder, IMPORTED)


def listed_anchors(folder: Path) -> Iterator[Path]:
    """Yield the published heads of anchors that are regular files, sorted by path."""
    yield from _listed_json(folder, ANCHORS)


def listed_registrations(folder: Path) -> Iterator[Path]:
    """Yield the registrations that are regular files, sorted by path."""
    yield from _listed_json(folder, REGISTRATIONS)


def _listed_json(folder: Path, top: str) -> Iterator[Path]:
    for item in _plain_files(folder, top):
        if _FILES.fullmatch(item.where) and item.path.suffix == ".json":
            yield item.path


def listed_keys(folder: Path) -> Iterator[Path]:
    """Yield the files in the folder of drawn keys, whatever their names, sorted by path."""
    for item in _plain_files(folder, KEYS):
        if item.name != ".gitkeep":
            yield item.path


def records_folder(board: BoardFolder, card_id: str) -> Path | None:
    """Return the folder of a card's records if it and its parents are real folders, else None."""
    path = board.records(card_id)
    if is_plain_folder(path.parent) and is_plain_folder(path):
        return path

    return None


# -- rules for an entry; the first four concern its kind and path


@rule("link", Stage.FILES)
def _link(item: FolderItem) -> Iterator[str]:
    if stat.S_ISLNK(item.mode):
        yield "is a symbolic link; replace it with the file itself"
    elif item.where == ".gitmodules":
        yield "declares submodules, but a board has none"


@rule("special", Stage.FILES)
def _special(item: FolderItem) -> Iterator[str]:
    if item.problem:
        yield item.problem
    elif not (item.is_folder or item.is_plain_file or stat.S_ISLNK(item.mode)):
        yield "is neither a file nor a folder"


@rule("path", Stage.FILES)
def _path(item: FolderItem) -> Iterator[str]:
    is_safe = _SAFE_NAME.fullmatch(item.name) and not _RESERVED.fullmatch(item.name)
    if item.is_submitted and not is_safe:
        yield (
            "its name contains characters other than ASCII letters, digits, dots, dashes and "
            "underscores"
        )


@rule("foreign-file", Stage.FILES)
def _foreign_file(item: FolderItem) -> Iterator[str]:
    if not item.is_submitted or next(_path(item), None):
        return

    if not item.is_folder and not item.is_plain_file:
        return

    if item.name.startswith(".git") and item.name != ".gitkeep":
        yield "changes how git treats the board; remove it"
    elif item.is_folder and not _FOLDERS.fullmatch(item.where):
        yield "is not a folder of a submission; remove it"
    elif item.is_plain_file and not _FILES.fullmatch(item.where):
        yield "is not a file of a submission; remove it"


@rule("case", Stage.FILES)
def _case(item: FolderItem) -> Iterator[str]:
    if item.twins > 1:
        yield "differs from its neighbour only in upper and lower case"


@rule("executable", Stage.FILES)
def _executable(item: FolderItem) -> Iterator[str]:
    if item.is_submitted and item.is_plain_file and item.mode & 0o111:
        yield "is executable; remove the permission (chmod -x)"


@rule("size", Stage.FILES)
def _size(item: FolderItem) -> Iterator[str]:
    if not item.is_submitted or not item.is_plain_file or item.limits is None:
        return

    most = item.limits.bytes_of("file_mb" if item.top == RECORDS else "card_mb")
    if item.name == ".gitkeep":
        most = 0

    if item.size > most:
        yield f"has {item.size:,} bytes; at most {most:,} are allowed"


# -- rules for all files together


@dataclass(frozen=True)
class BoardTree:
    """A board's files in its folders of cards and records."""

    folder: Path
    limits: Limits
    where: str = "."

    @cached_property
    def cards(self) -> Mapping[str, list[str]]:
        """Paths of each card, keyed by card id."""
        cards: dict[str, list[str]] = {}
        for item in self._named:
            if _is_card(item):
                cards.setdefault(item.path.stem, []).append(item.where)

        return cards

    @cached_property
    def _named(self) -> list[FolderItem]:
        return [
            item
            for item in _plain_files(self.folder, CARDS)
            if _FILES.fullmatch(item.where) and item.name != ".gitkeep"
        ]

    @cached_property
    def companions(self) -> set[str]:
        """Submissions, lists of records and signatures."""
        return {item.where for item in self._named if not _is_card(item)}

    @cached_property
    def expected(self) -> set[str]:
        """Submissions and lists of records that the cards require."""
        expected = set()
        for paths in self.cards.values():
            stem = paths[0].removesuffix(".json")
            expected.add(f"{stem}.submission.json")
            expected.add(f"{stem}.records.json")

        return expected

    @cached_property
    def allowed(self) -> set[str]:
        """Files allowed next to the cards: the required files, and signatures."""
        allowed = set(self.expected)
        for paths in self.cards.values():
            allowed.add(signature_path(Path(paths[0])).as_posix())

        return allowed

    @cached_property
    def records(self) -> list[FolderItem]:
        """Folders of records."""
        top = self.folder / RECORDS
        if not is_plain_folder(top):
            return []

        items = _items(top, RECORDS)
        return [item for item in items if CARD_ID.fullmatch(item.name) and item.is_folder]


def _is_card(item: FolderItem) -> bool:
    """Return whether a file in the cards folder is a card, rather than its submission or list of
    records.
    """
    return item.name.count(".") == 1


@rule("foreign-file", Stage.TREE)
def _alone(tree: BoardTree) -> Iterator[FileMessage]:
    for where in sorted(tree.companions - tree.allowed):
        yield FileMessage(where, "has no card with the same name next to it")

    registered = {item.where for item in _plain_files(tree.folder, REGISTRATIONS)}
    signatures = {where for where in registered if not where.endswith((".json", ".gitkeep"))}
    expected = {signature_path(Path(where)).as_posix() for where in registered - signatures}
    for where in sorted(signatures - expected):
        yield FileMessage(where, "has no registration with the same name next to it")


@rule("missing", Stage.TREE)
def _missing(tree: BoardTree) -> Iterator[FileMessage]:
    for where in sorted(tree.expected - tree.companions):
        yield FileMessage(
            where, "is missing; `ktdeval leaderboard submit` writes it next to the card"
        )


@rule("hash", Stage.TREE)
def _hash_of_name(tree: BoardTree) -> Iterator[FileMessage]:
    most = tree.limits.bytes_of("card_mb")
    for stem, paths in tree.cards.items():
        for where in paths:
            file = tree.folder / where
            if file.lstat().st_size > most:
                continue  # reported as `size`, without being read

            digest = file_sha256(file)
            if digest != stem:
                yield FileMessage(
                    where,
                    f"its SHA-256 is {digest[:12]}…, but its name says {stem[:12]}…; a submitted "
                    "card is never edited",
                )


@rule("duplicate", Stage.TREE)
def _card_twice(tree: BoardTree) -> Iterator[FileMessage]:
    for paths in tree.cards.values():
        for where in paths[1:]:
            yield FileMessage(where, f"the same card is also at {paths[0]}")


@rule("records", Stage.TREE)
def _records_of_no_card(tree: BoardTree) -> Iterator[FileMessage]:
    for item in tree.records:
        if item.name not in tree.cards:
            yield FileMessage(item.where, "do not belong to any card on the board")


@rule("size", Stage.TREE)
def _total_size(tree: BoardTree) -> Iterator[FileMessage]:
    for item in tree.records:
        inner = item.path / "episodes"
        episodes = len(_items(inner, "")) if is_plain_folder(inner) else 0
        if episodes > tree.limits.episodes:
            yield FileMessage(
                item.where,
                f"has {episodes:,} episodes; at most {tree.limits.episodes:,} are allowed",
            )

        total = sum(file.size for file in _plain_files(tree.folder, item.where))
        most = tree.limits.bytes_of("records_mb")
        if total > most:
            yield FileMessage(item.where, f"has {total:,} bytes; at most {most:,} are allowed")
