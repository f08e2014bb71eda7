"""Files of a board, looked at without opening one of a wrong kind and without following a link; and the rules on them."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ktdeval.errors import StoreError
from ktdeval.jsonio import file_sha256
from ktdeval_board import layout
from ktdeval_board.checking.findings import At, Stage, rule
from ktdeval_board.documents import RECORD_FORM
from ktdeval_board.layout import CARD_ID, CARDS, IMPORTED, KEYS, RECORDS, REGISTRATIONS, BoardFolder, CardFiles
from ktdeval_board.rules import Limits

SUBMITTED = (CARDS, RECORDS, IMPORTED, REGISTRATIONS)  #: Folders that submitters add to
WRITTEN = (layout.VERDICTS, layout.SERIES, layout.DECISIONS, layout.MARKETS)
"""Folders that the check writes to; a link in one would lead what it writes out of the board."""
_OWN = (*WRITTEN, layout.SCHEMAS, layout.CERTIFICATES, KEYS, ".github")

_ID, _SEGMENT, _EPISODE = "[0-9a-f]{64}", "[A-Za-z0-9_][A-Za-z0-9._-]{0,100}", "[0-9a-f]{20}"
_FOLDERS = re.compile(
    f"(?:cards(?:/{_SEGMENT}){{0,3}}|records(?:/{_ID}(?:/episodes(?:/{_EPISODE})?)?)?|imported|registrations)", re.ASCII
)
_FILES = re.compile(
    rf"(?:cards/{_SEGMENT}/{_SEGMENT}/{_SEGMENT}/{_ID}(?:\.submission|\.records)?\.json"
    rf"|records/{_ID}/(?:{RECORD_FORM})|imported/[A-Za-z0-9_][A-Za-z0-9._-]{{0,150}}\.json|registrations/{_ID}\.json"
    r"|(?:cards|records|imported|registrations)/\.gitkeep)",
    re.ASCII,
)
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9._-]{0,160}", re.ASCII)
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE | re.ASCII)
"""Names that one system can't check out, so that a board that held them could not be had there."""


@dataclass(frozen=True)
class Item:
    """An entry of a folder."""

    name: str
    where: str  #: its path relative to the board
    path: Path
    mode: int  #: what it is, without following a link; a mode of 0 is an entry that can't be looked at (mode, size)
    size: int = 0
    problem: str = ""  #: why it can't be looked at
    twins: int = 1  #: entries of its folder, itself included, whose names are equal but for case
    limits: Limits | None = None

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, and no link to one."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_plain_file(self) -> bool:
        """Whether it is a regular file, and no link to one."""
        return stat.S_ISREG(self.mode)

    @property
    def top(self) -> str:
        """Folder of the board that it lies in."""
        return self.where.partition("/")[0]

    @property
    def is_submitted(self) -> bool:
        """Whether submitters add to the folder that it lies in."""
        return self.top in SUBMITTED

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with what it is and where it lies, so that what is below it is looked at, too."""
        return not any(next(check(self), None) for check in (_link, _special, _path, _foreign_file))


def walk(folder: Path, limits: Limits) -> Iterator[Item]:
    """Yield the entries of a board that are looked at, those of each folder in the order of their names."""
    for name in WRITTEN:
        if os.path.lexists(folder / name) and not is_plain_folder(folder / name):
            raise StoreError(f"{folder / name}: is a link or no folder, so the check would write elsewhere; delete it")
    waiting = list(_items(folder, "", limits))
    while waiting:
        item = waiting.pop()
        yield item
        if item.top in (*SUBMITTED, *_OWN) and item.is_folder and item.is_sound:
            waiting += _items(item.path, item.where, limits)


def _items(folder: Path, where: str, limits: Limits | None = None) -> list[Item]:
    """List a folder in the order of names; a folder that can't be listed holds one entry that says why."""
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        twins = Counter(entry.name.casefold() for entry in ordered) if where else Counter[str]()
        prefix = f"{where}/" if where else ""
        items = []
        for entry in ordered:
            state = entry.stat(follow_symlinks=False)
            count = max(twins[entry.name.casefold()], 1)
            items.append(Item(entry.name, prefix + entry.name, Path(entry.path), state.st_mode, state.st_size, "", count, limits))
    except OSError as error:
        return [Item(folder.name, where or ".", folder, 0, problem=f"can't be looked at: {error.strerror or 'unreadable'}")]
    return items


def is_plain_folder(path: Path) -> bool:
    """Return whether a path is a folder, and no link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _plain_files(folder: Path, top: str) -> Iterator[Item]:
    """Yield plain files below a folder of the board; nothing behind a link."""
    waiting = [(folder / top, top)] if is_plain_folder(folder / top) else []
    while waiting:
        items = _items(*waiting.pop())
        yield from (item for item in items if item.is_plain_file)
        waiting += reversed([(item.path, item.where) for item in items if item.is_folder and _FOLDERS.fullmatch(item.where)])


def listed_cards(folder: Path) -> Iterator[CardFiles]:
    """Yield the cards that lie where cards may lie, as plain files below plain folders, in the order of their paths."""
    for item in _plain_files(folder, CARDS):
        if _FILES.fullmatch(item.where) and CARD_ID.fullmatch(item.path.stem):
            yield CardFiles(item.path.stem, item.path)


def listed_imports(folder: Path) -> Iterator[Path]:
    """Yield the imported results that are plain files, in the order of their paths."""
    files = (item for item in _plain_files(folder, IMPORTED) if _FILES.fullmatch(item.where))
    yield from (item.path for item in files if item.path.suffix == ".json")


def listed_registrations(folder: Path) -> Iterator[Path]:
    """Yield the registrations that are plain files, in the order of their paths."""
    files = (item for item in _plain_files(folder, REGISTRATIONS) if _FILES.fullmatch(item.where))
    yield from (item.path for item in files if item.path.suffix == ".json")


def listed_keys(folder: Path) -> Iterator[Path]:
    """Yield the files in the folder of drawn keys, whatever their names, in the order of their paths."""
    yield from (item.path for item in _plain_files(folder, KEYS) if item.name != ".gitkeep")


def records_folder(board: BoardFolder, card_id: str) -> Path | None:
    """Return the folder of a card's records where it is a plain one, reached through plain folders; else None."""
    path = board.records(card_id)
    return path if is_plain_folder(path.parent) and is_plain_folder(path) else None


# -- rules on an entry; the first four are about what it is and where it lies


@rule("link", Stage.FILES)
def _link(item: Item) -> Iterator[str]:
    if stat.S_ISLNK(item.mode):
        yield "is a symbolic link; put the file itself there"
    elif item.where == ".gitmodules":
        yield "names submodules, of which a board has none"


@rule("special", Stage.FILES)
def _special(item: Item) -> Iterator[str]:
    if item.problem:
        yield item.problem
    elif not (item.is_folder or item.is_plain_file or stat.S_ISLNK(item.mode)):
        yield "is neither a file nor a folder"


@rule("path", Stage.FILES)
def _path(item: Item) -> Iterator[str]:
    if item.is_submitted and (not _SAFE_NAME.fullmatch(item.name) or _RESERVED.fullmatch(item.name)):
        yield "its name is not made of ASCII letters, digits, dots, dashes and underscores alone"


@rule("foreign-file", Stage.FILES)
def _foreign_file(item: Item) -> Iterator[str]:
    if not item.is_submitted or next(_path(item), None) or not (item.is_folder or item.is_plain_file):
        return
    if item.name.startswith(".git") and item.name != ".gitkeep":
        yield "changes how git treats the board; leave it out"
    elif not (_FOLDERS if item.is_folder else _FILES).fullmatch(item.where):
        yield f"is no {'folder' if item.is_folder else 'file'} of a submission; leave it out"


@rule("case", Stage.FILES)
def _case(item: Item) -> Iterator[str]:
    if item.twins > 1:
        yield "differs from its neighbour by upper and lower case alone"


@rule("executable", Stage.FILES)
def _executable(item: Item) -> Iterator[str]:
    if item.is_submitted and item.is_plain_file and item.mode & 0o111:
        yield "is executable; take the bit away (chmod -x)"


@rule("size", Stage.FILES)
def _size(item: Item) -> Iterator[str]:
    if item.is_submitted and item.is_plain_file and item.limits is not None:
        most = item.limits.bytes_of("file_mb" if item.top == RECORDS else "card_mb") if item.name != ".gitkeep" else 0
        if item.size > most:
            yield f"has {item.size:,} bytes; at most {most:,} are taken"


# -- rules on all files together


@dataclass(frozen=True)
class Tree:
    """Files of a board that lie where cards and records may lie."""

    folder: Path
    limits: Limits
    where: str = "."

    @cached_property
    def cards(self) -> Mapping[str, list[str]]:
        """Id of each card to where it lies."""
        cards: dict[str, list[str]] = {}
        for item in self._named:
            if item.name == f"{item.name.partition('.')[0]}.json":
                cards.setdefault(item.path.stem, []).append(item.where)
        return cards

    @cached_property
    def _named(self) -> list[Item]:
        return [item for item in _plain_files(self.folder, CARDS) if _FILES.fullmatch(item.where) and item.name != ".gitkeep"]

    @cached_property
    def companions(self) -> set[str]:
        """Submissions and lists of records."""
        return {item.where for item in self._named if item.name != f"{item.name.partition('.')[0]}.json"}

    @cached_property
    def expected(self) -> set[str]:
        """Submissions and lists of records that the cards need."""
        stems = (where[0].removesuffix(".json") for where in self.cards.values())
        return {f"{stem}.{kind}.json" for stem in stems for kind in ("submission", "records")}

    @cached_property
    def records(self) -> list[Item]:
        """Folders of records."""
        top = self.folder / RECORDS
        items = _items(top, RECORDS) if is_plain_folder(top) else []
        return [item for item in items if CARD_ID.fullmatch(item.name) and item.is_folder]


@rule("foreign-file", Stage.TREE)
def _without_card(tree: Tree) -> Iterator[At]:
    yield from (At(where, "stands beside no card of its name") for where in sorted(tree.companions - tree.expected))


@rule("missing", Stage.TREE)
def _missing(tree: Tree) -> Iterator[At]:
    for where in sorted(tree.expected - tree.companions):
        yield At(where, "is missing; `ktdeval leaderboard submit` writes it beside the card")


@rule("hash", Stage.TREE)
def _hash_of_name(tree: Tree) -> Iterator[At]:
    for stem, paths in tree.cards.items():
        for where in paths:
            file = tree.folder / where
            if file.lstat().st_size <= tree.limits.bytes_of("card_mb") and (digest := file_sha256(file)) != stem:
                yield At(where, f"its SHA-256 is {digest[:12]}…, its name says {stem[:12]}…; a submitted card is never edited")


@rule("duplicate", Stage.TREE)
def _card_twice(tree: Tree) -> Iterator[At]:
    yield from (At(where, f"the same card lies at {paths[0]}") for paths in tree.cards.values() for where in paths[1:])


@rule("records", Stage.TREE)
def _records_of_no_card(tree: Tree) -> Iterator[At]:
    yield from (At(item.where, "are the records of no card on the board") for item in tree.records if item.name not in tree.cards)


@rule("size", Stage.TREE)
def _total_size(tree: Tree) -> Iterator[At]:
    for item in tree.records:
        inner = item.path / "episodes"
        episodes = len(_items(inner, "")) if is_plain_folder(inner) else 0
        if episodes > tree.limits.episodes:
            yield At(item.where, f"has {episodes:,} episodes; at most {tree.limits.episodes:,} are taken")
        total, most = sum(file.size for file in _plain_files(tree.folder, item.where)), tree.limits.bytes_of("records_mb")
        if total > most:
            yield At(item.where, f"has {total:,} bytes; at most {most:,} are taken")
