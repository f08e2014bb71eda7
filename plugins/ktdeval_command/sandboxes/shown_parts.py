"""Parts of this machine that a sandbox shows in addition to the system: an allow-list that is
searched before use.

A part is one file, or a folder with everything below it. It is refused if it contains the run's
market, a run, a cache or a key, under any name. These are recognised by path, by inode (a hard
link, a bind mount), by the contents of a copy, or by files that only such a folder has. Sockets are
refused, too, since a read-only mount does not block them. Links are not followed: their targets are
shown only if they are parts themselves.

Folders of installed packages contain keys for tests, and files of any name. There, only contents
that are certainly a market, a run or a cache are refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path

import ktdeval
import ktdeval_command
from ktdeval.errors import KtdevalError, wrap_os_error
from ktdeval.harness import ShownKind, ShownPart
from ktdeval.secrets import REDACTED, secret_forms
from ktdeval.values import content_hash, csv_rows, file_sha256

_NAMES = Path(__file__).with_name("shown_files.csv")
_MANIFEST = "manifest.json"
_MAX_FILES = 2_000_000
_MAX_READ_BYTES = 4 << 20  # maximum size of a file that is read; registrations are smaller
_MAX_KEY_BYTES = 256 << 10  # maximum size of a file that may be a key; larger files are programs
_MAX_MANIFEST_BYTES = 64 << 20
_PACKAGES = ("/site-packages", "/dist-packages", "/node_modules")
_MASK_KEY = re.compile(rb'"mask_key"\s*:\s*"\w')
_CODE = frozenset(
    str(Path(file).resolve().parents[1])
    for file in (ktdeval.__file__, ktdeval_command.__file__)
    if file
)
_PROJECT = (
    ".git",
    ".hg",
    ".svn",
    ".venv",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "ktdeval-runs",
)


_USR = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "share", "include")
_LOCAL = tuple(Path("/usr/local", name) for name in _USR)
SYSTEM = (
    *(Path("/", name) for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32")),
    *(Path("/usr", name) for name in _USR),
    *_LOCAL,
)
"""System folders with programs and libraries, which are shown to every program. /usr is never shown
as a whole, because container images put the applications that they run there (/usr/src/app).
"""


_OF_THE_RUN = "what belongs to the run, such as its market"


class ShownError(KtdevalError):
    """A part can't be shown to a program."""


@dataclass(frozen=True)
class SourcePart:
    """Something to show: a file, a folder, or a link. A link shows nothing by itself."""

    path: Path  #: absolute path; no folder above it is a link
    kind: ShownKind


@dataclass(frozen=True)
class PrivateFiles:
    """Private content: paths, and files of the market, known by inode and by size and hash."""

    places: tuple[Path, ...]  #: resolved
    inodes: frozenset[tuple[int, int]] = frozenset()  #: device and inode of each file
    #: hashes, keyed by file size
    hashes: dict[int, frozenset[str]] = field(default_factory=dict, hash=False)


@lru_cache(maxsize=8)  # each episode has a separate agent
def private_files(places: tuple[Path, ...]) -> PrivateFiles:
    """Return the private files at the given paths. Runs and caches are recognised by path and name."""
    inodes = set()
    hashes: dict[int, frozenset[str]] = {}
    for path in _market_files(places):
        found = path.stat()
        inodes.add((found.st_dev, found.st_ino))
        if found.st_size:
            known = hashes.get(found.st_size, frozenset())
            hashes[found.st_size] = known | {file_sha256(path)}

    return PrivateFiles(places, frozenset(inodes), hashes)


def _market_files(places: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the files of the markets among the given paths, and each path that is itself a file."""
    for place in places:
        if place.is_file():
            yield place
        elif (place / _MANIFEST).is_file() and _manifest_of(place / _MANIFEST) == "a market":
            yield from (path for path in place.rglob("*") if path.is_file())


# ---- parts


def environment_parts(root: Path) -> list[SourcePart]:
    """Return the parts of a virtual environment. The folder that contains it is never a part, since
    it may be a project folder.
    """
    names = ("bin", "lib", "lib64", "include", "pyvenv.cfg")
    return [SourcePart(root / name, "environment") for name in names if (root / name).exists()]


def named_parts(path: Path) -> list[SourcePart]:
    """Return the parts of a folder that the user named. Raises ShownError if the folder is the root
    of a project or a home folder, or is above one.
    """
    if (path / "pyvenv.cfg").is_file():
        return environment_parts(path)

    if Path.home().is_relative_to(path):
        raise ShownError(f"readable={path}: is or holds your home folder; {_SMALLER}")

    marks = [name for name in _PROJECT if (path / name).exists()]
    if marks:
        raise ShownError(
            f"readable={path}: is the root of a project ({marks[0]}), so the program could read "
            f"everything in it; {_SMALLER}"
        )
    return [SourcePart(path, "folder")]


_SMALLER = "name a folder inside that has only what the program needs"


# ---- search


@dataclass(frozen=True)
class Searched:
    """A part that may be shown, and the folders below it that are hidden."""

    shown: ShownPart
    hidden: tuple[Path, ...]  #: packages of ktdeval, which can generate the embedded market


@lru_cache(maxsize=256)  # each episode has a separate agent
def search_part(part: SourcePart, private: PrivateFiles) -> Searched:
    """Search a part. Raises ShownError if it contains something that no program may see."""
    path = part.path
    search = _Search(part, private)
    for place in private.places:
        if place.is_relative_to(path):
            raise search.refusal(_OF_THE_RUN, place)
        if path.is_relative_to(place):
            raise search.refusal(_OF_THE_RUN, path)
    if any(_is_ktdeval(str(above.parent), above.name) for above in (path, *path.parents)):
        raise search.refusal("code of ktdeval", path)

    with wrap_os_error(f"sandbox=bwrap: {path}: can't be searched"):
        if path.is_dir() and not path.is_symlink():
            search.folder(path, is_package=_is_package(path))
        elif path.is_file():
            search.file(path)

    digest = search.digest.hexdigest()
    shown = ShownPart(kind=part.kind, files=search.files, sha256=digest)
    return Searched(shown, tuple(search.hidden))


@lru_cache(maxsize=8)  # each episode has a separate agent
def contents_of(parts: tuple[SourcePart, ...]) -> str:
    """Return the SHA-256 of all that these parts show: relative paths, targets of links, contents of
    files. Where the parts lie on this machine does not matter. Packages of ktdeval are left out,
    since a sandbox hides them.
    """
    lines: list[str] = []
    for number, part in enumerate(parts):
        with wrap_os_error(f"sandbox=bwrap: {part.path}: can't be read"):
            for name, path in _files_of(part.path):
                what = f"link to {path.readlink()}" if path.is_symlink() else file_sha256(path)
                lines.append(f"{number} {part.kind} {name}\0{what}")

    return content_hash(sorted(lines))


def _files_of(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield each file and link of a part that a program can read, with its path within the part."""
    if not path.is_dir() or path.is_symlink():
        if path.is_file():
            yield path.name, path
        return

    for folder, folders, files in os.walk(path):
        own = Path(folder)
        links = [name for name in folders if (own / name).is_symlink()]
        folders[:] = [name for name in folders if not _is_ktdeval(folder, name)]
        for name in (*files, *links):
            if os.access(own / name, os.R_OK) or (own / name).is_symlink():
                yield (own / name).relative_to(path).as_posix(), own / name


def by_kind(parts: Iterable[ShownPart]) -> tuple[ShownPart, ...]:
    """Return one record for all parts of a kind. Kinds are ordered by their first parts."""
    joined: dict[ShownKind, list[ShownPart]] = {}
    for part in parts:
        joined.setdefault(part.kind, []).append(part)

    records = []
    for kind, own in joined.items():
        files = sum(part.files for part in own)
        records.append(
            ShownPart(kind=kind, files=files, sha256=content_hash([part.sha256 for part in own]))
        )
    return tuple(records)


@lru_cache(maxsize=8)  # each episode has a separate agent
def searched_system(private: PrivateFiles) -> tuple[Path, ...]:
    """Search the system folders to which people write. Return the packages of ktdeval in any system
    folder, which are to be hidden. Raises ShownError if a folder contains something that no program
    may see.
    """
    hidden: list[Path] = []
    for folder in SYSTEM:
        part = SourcePart(folder, "programs")
        for place in private.places:
            if place.is_relative_to(folder):
                raise _Search(part, private).refusal(_OF_THE_RUN, place)

        if folder in _LOCAL and folder.is_dir() and not folder.is_symlink():
            search = _Search(part, private)
            search.folder(folder, is_package=True)
            hidden += search.hidden
        elif folder.name == "lib":
            hidden += folder.glob("python3*/*-packages/ktdeval*")

    return tuple(hidden)


def check_copied(path: Path, private: PrivateFiles) -> None:
    """Raise ShownError if this user file must not be copied for a program."""
    search = _Search(SourcePart(path, "folder"), private)
    search.advice = "leave it out of run="
    search.file(path)


class _Search:
    """Search of one part."""

    def __init__(self, part: SourcePart, private: PrivateFiles) -> None:
        self._part = part
        self._private = private
        self.advice = f"move it out of {part.path}, or install the program elsewhere"
        if part.kind == "folder":
            self.advice = f"move it out of {part.path}, or name another folder"
        self.files = 0
        self.digest = sha256()
        self.hidden: list[Path] = []

    def folder(self, path: Path, is_package: bool) -> None:
        """Search a folder and everything below it, ordered by name."""
        waiting = [(str(path), "", is_package)]
        while waiting:
            folder, prefix, is_package = waiting.pop()
            try:
                with os.scandir(folder) as found:
                    entries = sorted(found, key=_name_of)
            except PermissionError:  # if ktdeval can't read it, the program can't, either
                continue

            for entry in entries:
                self._check_name(entry.name, entry.path, is_package)
                if not entry.is_dir(follow_symlinks=False):
                    self._entry(entry, prefix, is_package)
                elif _is_ktdeval(folder, entry.name):
                    self.hidden.append(Path(entry.path))
                else:
                    is_installed = is_package or _is_package(entry.path)
                    waiting.append((entry.path, f"{prefix}{entry.name}/", is_installed))

    def _entry(self, entry: os.DirEntry[str], prefix: str, is_package: bool) -> None:
        """Search a file or a link in a folder. `prefix` is the folder's path within the part."""
        if self.files >= _MAX_FILES:
            raise self.refusal(f"more than {_MAX_FILES:,} files, too many to search", entry.path)

        if entry.is_symlink():
            self._count(f"{prefix}{entry.name}", f"link to {os.readlink(entry.path)}")  # noqa: PTH115 - many
        elif entry.is_file(follow_symlinks=False):
            found = entry.stat(follow_symlinks=False)
            self._count(f"{prefix}{entry.name}", str(found.st_size))
            self._check_content(entry.path, found, is_package)
        else:
            raise self.refusal("a socket, pipe or device", entry.path)

    def file(self, path: Path) -> None:
        """Search one file, which may be reached through a link."""
        found = path.stat()
        self._count(path.name, str(found.st_size))
        self._check_name(path.name, path, is_package=False)
        self._check_content(str(path), found, is_package=False)

    def _check_content(self, path: str, found: os.stat_result, is_package: bool) -> None:
        """Raise ShownError if the contents of a file are private."""
        if (found.st_dev, found.st_ino) in self._private.inodes:
            raise self.refusal("a link to a file of the run's market", path)

        known = self._private.hashes.get(found.st_size)
        if known is not None and file_sha256(Path(path)) in known:
            raise self.refusal("a copy of a file of the run's market", path)

        what = ""
        if path.endswith(f"/{_MANIFEST}") and found.st_size <= _MAX_MANIFEST_BYTES:
            what = _manifest_of(Path(path))
        if not what and not is_package and found.st_size <= _MAX_READ_BYTES:
            what = _small_content(Path(path))
        if what:
            raise self.refusal(what, path)

    def _check_name(self, name: str, path: str | Path, is_package: bool) -> None:
        """Raise ShownError if the name of a file or folder is private."""
        holds, is_sure = _names().get(name, ("", False))
        if holds and (is_sure or not is_package):
            raise self.refusal(holds, path)

    def _count(self, name: str, what: str) -> None:
        self.files += 1
        self.digest.update(f"{name}\0{what}\n".encode("utf-8", "surrogateescape"))

    def refusal(self, what: str, path: str | Path) -> ShownError:
        """Return the error for a private file or folder."""
        return ShownError(
            f"sandbox=bwrap: the program would be shown {what} ({path}); {self.advice}"
        )


@cache
def _names() -> Mapping[str, tuple[str, bool]]:
    """Return what a private file or folder contains, keyed by its name, and whether the rule also
    applies among installed packages.
    """
    return {row["name"]: (row["holds"], row["where"] == "any") for row in csv_rows(_NAMES)}


def _name_of(entry: os.DirEntry[str]) -> str:
    return entry.name


def _is_package(path: str | Path) -> bool:
    """Return whether a folder contains installed code: packages, or the Python standard library."""
    return str(path).endswith(_PACKAGES) or os.path.isfile(f"{path}/os.py")  # noqa: PTH113 - many


def _is_ktdeval(folder: str, name: str) -> bool:
    """Return whether a folder is a package of ktdeval, installed or in this checkout."""
    return name.startswith("ktdeval") and (folder in _CODE or folder.endswith(_PACKAGES))


def _manifest_of(path: Path) -> str:
    """Return what ktdeval's manifest.json in a folder describes; empty if the file is from another
    program.
    """
    try:
        head = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    if not isinstance(head, dict):
        return ""
    if head.get("format") == "ktdeval-snapshot":
        return "a market"
    if {"episodes", "version", "rules"} <= head.keys():
        return "a run"
    if head.keys() == {"title", "sums"}:
        return "a cache of ktdeval"
    return ""


def _small_content(path: Path) -> str:
    """Return a description of the private contents of a small file; empty if nothing in it is
    private.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    if _MASK_KEY.search(data):
        return "a mask key"
    if len(data) > _MAX_KEY_BYTES or b"\0" in data:
        return ""

    text = data.decode("utf-8", "replace")
    for form in secret_forms():
        if form.replacement == REDACTED and form.pattern.search(text):
            return form.kind
    return ""
