"""The files of a board, looked at without opening one of a wrong kind and without following a link."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ktdeval.api import StoreError, file_sha256
from ktdeval_board.checking.findings import Finding
from ktdeval_board.layout import CARD_ID, CARDS, DECISIONS, IMPORTED, RECORDS, SCHEMAS, SERIES, VERDICTS, BoardFolder, CardFiles
from ktdeval_board.rules import Rules

MARKETS = "markets"

SUBMITTED = (CARDS, RECORDS, IMPORTED)
"""Folders that submitters add to."""
WRITTEN = (VERDICTS, SERIES, DECISIONS, MARKETS)
"""Folders that the check writes to; a link in one would lead what it writes out of the board."""
_OWN = (*WRITTEN, SCHEMAS, ".github")

_ID, _SEGMENT, _EPISODE = "[0-9a-f]{64}", "[A-Za-z0-9_][A-Za-z0-9._-]{0,100}", "[0-9a-f]{20}"
_FOLDERS = re.compile(f"(?:cards(?:/{_SEGMENT}){{0,3}}|records(?:/{_ID}(?:/episodes(?:/{_EPISODE})?)?)?|imported)", re.ASCII)
RECORD_PATH = re.compile(
    rf"(?:manifest\.json|canary\.json|certificate\.json"
    rf"|episodes/{_EPISODE}/(?:ledger\.parquet|answers\.jsonl\.zst|transcript\.jsonl\.zst|episode\.json))",
    re.ASCII,
)
"""Files that records are made of, relative to their folder."""
_FILES = re.compile(
    rf"(?:cards/{_SEGMENT}/{_SEGMENT}/{_SEGMENT}/{_ID}(?:\.submission|\.records)?\.json"
    rf"|records/{_ID}/{RECORD_PATH.pattern}|imported/[A-Za-z0-9_][A-Za-z0-9._-]{{0,150}}\.json|(?:cards|records|imported)/\.gitkeep)",
    re.ASCII,
)
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9._-]{0,160}", re.ASCII)
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE | re.ASCII)
"""Names that one system can't check out, so that a board that held them could not be had there."""


class _Item(NamedTuple):
    """One entry of a folder: its path relative to the board, where it is, and what it is without following a link."""

    name: str
    relative: str
    path: Path
    state: os.stat_result


def check_tree(folder: Path, rules: Rules) -> list[Finding]:
    """Look at every file of a board: kind, name, place and size, the hash that a card's name says, and what is missing or too much.

    Args:
        folder: the board.
        rules: its rules, for the limits.

    Returns:
        What is refused, in the order of paths.

    Raises:
        StoreError: a folder that the check itself writes to is no folder, so that going on would write elsewhere.
    """
    for name in WRITTEN:
        if os.path.lexists(folder / name) and not is_plain_folder(folder / name):
            raise StoreError(f"{folder / name}: is a link or no folder, so the check would write elsewhere; delete it")
    walk = _Walk(rules)
    for item in _items(folder, "", walk.findings):
        if item.relative in SUBMITTED:
            walk.look(item, is_submitted=True)
        elif item.relative in _OWN:
            walk.look(item, is_submitted=False)
        else:
            walk.refuse_kind(item)
    return sorted({*walk.findings, *_card_findings(folder, rules), *_records_findings(folder, rules)})


def listed_cards(folder: Path) -> Iterator[CardFiles]:
    """The cards that lie where cards may lie, as plain files below plain folders, in the order of their paths."""
    for path, relative in _plain_files(folder, CARDS):
        if _FILES.fullmatch(relative) and CARD_ID.fullmatch(path.stem):
            yield CardFiles(path.stem, path)


def listed_imports(folder: Path) -> Iterator[Path]:
    """The imported results that are plain files, in the order of their paths."""
    yield from (path for path, relative in _plain_files(folder, IMPORTED) if _FILES.fullmatch(relative) and path.suffix == ".json")


def is_plain_folder(path: Path) -> bool:
    """Whether a path is a folder, and no link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


class _Walk:
    """Goes through the folders of a board.

    Attributes:
        findings: what it refused so far.
    """

    def __init__(self, rules: Rules) -> None:
        self.findings: list[Finding] = []
        self._largest = {CARDS: rules.limits.bytes_of("card_mb"), IMPORTED: rules.limits.bytes_of("card_mb")}
        self._largest_record = rules.limits.bytes_of("file_mb")

    def look(self, item: _Item, is_submitted: bool) -> None:
        """Look at one entry of a known folder and at what is below it."""
        waiting = [item]
        while waiting:
            item = waiting.pop()
            if self.refuse_kind(item) or (is_submitted and self._refuse_submitted(item)):
                continue
            if stat.S_ISDIR(item.state.st_mode):
                inner = list(_items(item.path, item.relative, self.findings))
                self.findings += _case_findings(inner)
                waiting += inner

    def refuse_kind(self, item: _Item) -> bool:
        """Whether it is a link or a special file, which is refused."""
        if stat.S_ISLNK(item.state.st_mode):
            return self._refuse(item, "link", "is a symbolic link; put the file itself there")
        if not stat.S_ISDIR(item.state.st_mode) and not stat.S_ISREG(item.state.st_mode):
            return self._refuse(item, "special", "is neither a file nor a folder")
        if item.relative == ".gitmodules":
            return self._refuse(item, "link", "names submodules, of which a board has none")
        return False

    def _refuse_submitted(self, item: _Item) -> bool:
        """Whether what submitters added is refused as a whole; what is wrong with its mode and size is noted beside."""
        is_folder = stat.S_ISDIR(item.state.st_mode)
        if not _SAFE_NAME.fullmatch(item.name) or _RESERVED.fullmatch(item.name):
            return self._refuse(item, "path", "its name is not made of ASCII letters, digits, dots, dashes and underscores alone")
        if item.name.startswith(".git") and item.name != ".gitkeep":
            return self._refuse(item, "foreign-file", "changes how git treats the board; leave it out")
        if not (_FOLDERS if is_folder else _FILES).fullmatch(item.relative):
            what = "folder" if is_folder else "file"
            return self._refuse(item, "foreign-file", f"is no {what} of a submission; leave it out")
        if not is_folder:
            self._note_file(item)
        return False

    def _note_file(self, item: _Item) -> None:
        if item.state.st_mode & 0o111:
            self._refuse(item, "executable", "is executable; take the bit away (chmod -x)")
        largest = 0 if item.name == ".gitkeep" else self._largest.get(item.relative.partition("/")[0], self._largest_record)
        if item.state.st_size > largest:
            self._refuse(item, "size", f"has {item.state.st_size:,} bytes; at most {largest:,} are taken")

    def _refuse(self, item: _Item, rule: str, message: str) -> bool:
        self.findings.append(Finding(item.relative, rule, message))
        return True


def _items(folder: Path, relative: str, findings: list[Finding]) -> Iterator[_Item]:
    """The entries of a folder in the order of their names; one that can't be looked at is a finding."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        for entry in found:
            yield _Item(
                entry.name,
                f"{relative}/{entry.name}" if relative else entry.name,
                Path(entry.path),
                entry.stat(follow_symlinks=False),
            )
    except OSError as error:
        findings.append(Finding(relative or ".", "special", f"can't be looked at: {error.strerror or 'unreadable'}"))


def _plain_files(folder: Path, top: str) -> Iterator[tuple[Path, str]]:
    """Plain files below a folder of the board with their paths relative to the board; nothing behind a link."""
    waiting = [(folder / top, top)] if is_plain_folder(folder / top) else []
    while waiting:
        path, relative = waiting.pop()
        items = list(_items(path, relative, []))
        yield from ((item.path, item.relative) for item in items if stat.S_ISREG(item.state.st_mode))
        folders = (item for item in items if stat.S_ISDIR(item.state.st_mode) and _FOLDERS.fullmatch(item.relative))
        waiting += reversed([(item.path, item.relative) for item in folders])


def _case_findings(items: list[_Item]) -> Iterator[Finding]:
    counts = Counter(item.name.casefold() for item in items)
    for item in items:
        if counts[item.name.casefold()] > 1:
            yield Finding(item.relative, "case", "differs from its neighbour by upper and lower case alone")


def _card_findings(folder: Path, rules: Rules) -> Iterator[Finding]:
    """Cards whose bytes are not those that their names say, and what lies beside no card or not beside one."""
    cards: dict[str, str] = {}
    beside: set[str] = set()
    largest = rules.limits.bytes_of("card_mb")
    for path, relative in _plain_files(folder, CARDS):
        stem, dot, _ = path.name.partition(".")
        if not _FILES.fullmatch(relative) or not dot or path.name == ".gitkeep":
            continue
        if path.name != f"{stem}.json":
            beside.add(relative)
            continue
        if stem in cards:
            yield Finding(relative, "duplicate", f"the same card lies at {cards[stem]}")
        cards.setdefault(stem, relative)
        if path.lstat().st_size <= largest and (found := file_sha256(path)) != stem:
            yield Finding(
                relative, "hash", f"its SHA-256 is {found[:12]}…, its name says {stem[:12]}…; a submitted card is never edited"
            )
    wanted = {f"{relative.removesuffix('.json')}.{kind}.json" for relative in cards.values() for kind in ("submission", "records")}
    for relative in sorted(wanted - beside):
        yield Finding(relative, "missing", "is missing; `ktdeval leaderboard submit` writes it beside the card")
    for relative in sorted(beside - wanted):
        yield Finding(relative, "foreign-file", "stands beside no card of its name")


def _records_findings(folder: Path, rules: Rules) -> Iterator[Finding]:
    """Records without a card, and such as are too many or too large together."""
    known = {files.card_id for files in listed_cards(folder)}
    top = folder / RECORDS
    if not is_plain_folder(top):
        return
    limits = rules.limits
    for item in _items(top, RECORDS, []):
        if not (CARD_ID.fullmatch(item.name) and stat.S_ISDIR(item.state.st_mode)):
            continue
        if item.name not in known:
            yield Finding(item.relative, "records", "are the records of no card on the board")
        episodes = sum(1 for _ in _items(item.path / "episodes", "", [])) if is_plain_folder(item.path / "episodes") else 0
        if episodes > limits.episodes:
            yield Finding(item.relative, "size", f"has {episodes:,} episodes; at most {limits.episodes:,} are taken")
        total = sum(path.lstat().st_size for path, _ in _plain_files(folder, item.relative))
        if total > limits.bytes_of("records_mb"):
            yield Finding(item.relative, "size", f"has {total:,} bytes; at most {limits.bytes_of('records_mb'):,} are taken")


def records_folder(board: BoardFolder, card_id: str) -> Path | None:
    """The folder of a card's records where it is a plain one, reached through plain folders; None where there is none."""
    path = board.records(card_id)
    return path if is_plain_folder(path.parent) and is_plain_folder(path) else None
