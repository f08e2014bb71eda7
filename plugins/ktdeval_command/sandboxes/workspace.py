"""Folder of a program through an episode: its memory, stored by the hash of its contents.

After each step the plain files and folders are archived. Each file is stored once, under its
SHA-256, and so is the listing (paths, sizes, hashes, execute bits, ordered by path). The next step,
or a resumed run, restores exactly the contents of a listing, so both see the same bytes. Links,
devices, pipes and sockets are refused and not restored; their names are reported. Times and owners
are not stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Literal

from ktdeval.errors import KtdevalError
from ktdeval.harness import KeptFiles
from ktdeval.values import Value, decode_json, encode_canonical, sha256_hex
from ktdeval_command.sandboxes.supervisor import MAX_PATH_BYTES, send_frames

_MAX_HEADER_BYTES = 16 * MAX_PATH_BYTES


class WorkspaceError(KtdevalError):
    """A program's folder can't be archived or restored, because it is too large or its archive is
    damaged.
    """


@dataclass(frozen=True)
class FolderLimits:
    """Size limits for a program's folder."""

    disk_bytes: int = 64 << 20  #: maximum bytes in all files
    disk_files: int = 10_000  #: maximum number of files and folders


class WorkspaceEntry(Value):
    """A file or a folder."""

    path: str  #: relative to the folder, with parts separated by `/`
    kind: Literal["file", "folder"]
    size: int = 0  #: bytes
    executable: bool = False
    sha256: str | None = None  #: SHA-256 of a file


class UnarchivedEntry(Value):
    """Something that is not archived."""

    path: str
    why: str  #: `link`, `pipe`, `socket`, `device`, `name is not UTF-8` or `path too long`


class Archived(Value):
    """An archived folder."""

    listing: str  #: SHA-256 of the listing, by which the folder is restored
    size: int  #: number of bytes in files
    files: int  #: number of files and folders
    refused: tuple[UnarchivedEntry, ...] = ()


class _Frame(Value):
    """Header of a frame, as written by `ktdeval_command.sandboxes.supervisor`, or the end of all frames."""

    path: str = ""
    kind: Literal["file", "folder", "refused", ""] = ""
    size: int = 0
    executable: bool = False
    why: str = ""
    end: bool | None = None


class ProgramWorkspaces:
    """Archived folders in a store, under a prefix of its keys."""

    def __init__(self, store: KeptFiles, prefix: str, limits: FolderLimits) -> None:
        self.store = store
        self.prefix = prefix
        self.limits = limits

    def from_files(self, files: Mapping[str, bytes], listing: str | None = None) -> str:
        """Archive files, keyed by path, replacing files of the same path in a listing. Return the
        new listing. Raises WorkspaceError if a path leaves the folder, or if the limits are
        exceeded.
        """
        entries: dict[str, WorkspaceEntry] = {}
        if listing is not None:
            entries = {entry.path: entry for entry in self.entries(listing)}

        for path, data in files.items():
            _make_room(entries, path)
            entries[path] = self._keep_file(path, data, False)

        return self._keep_listing(entries.values()).listing

    def from_folder(self, folder: Path) -> Archived:
        """Archive a folder on this machine. Raises WorkspaceError if the limits are exceeded.
        Raises OSError if the folder can't be read.
        """
        stream = BytesIO()
        send_frames(stream, folder, self.limits.disk_bytes, self.limits.disk_files)
        stream.seek(0)
        return self.receive(stream)

    def receive(self, stream: BinaryIO) -> Archived:
        """Archive the folder that the frames in a stream describe. Raises WorkspaceError if a frame
        is malformed, or if the limits are exceeded.
        """
        entries: list[WorkspaceEntry] = []
        refused: list[UnarchivedEntry] = []
        total = 0
        while True:
            header = _header(stream)
            if header.end is not None:
                break

            count = len(entries) + len(refused) + 1
            total += header.size
            if header.size < 0 or total > self.limits.disk_bytes or count > self.limits.disk_files:
                raise WorkspaceError(self._too_large())
            if header.kind == "refused":
                refused.append(UnarchivedEntry(path=header.path, why=header.why[:100]))
            elif header.kind == "folder":
                entries.append(WorkspaceEntry(path=header.path, kind="folder"))
            else:
                data = _exactly(stream, header.size)
                entries.append(self._keep_file(header.path, data, header.executable))

        if not header.end:
            raise WorkspaceError(self._too_large())
        return self._keep_listing(entries, tuple(refused))

    def send(self, stream: BinaryIO, listing: str | None) -> None:
        """Write the frames of a listing (None: an empty folder). Raises the errors of `contents`."""
        for entry, data in self.contents(listing) if listing else ():
            header = _Frame(
                path=entry.path, kind=entry.kind, size=entry.size, executable=entry.executable
            )
            stream.write(encode_canonical(header).encode() + b"\n" + data)

        stream.write(b'{"end":true}\n')
        stream.flush()

    def restore(self, listing: str, folder: Path) -> None:
        """Write the folder of a listing; `folder` must be absent or empty. Raises the errors of
        `contents`, and OSError if the folder can't be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for entry, data in self.contents(listing):
            path = folder / entry.path
            if entry.kind == "folder":
                path.mkdir()
                continue

            with path.open("xb") as file:
                file.write(data)
            path.chmod(0o755 if entry.executable else 0o644)

    def contents(self, listing: str) -> Iterator[tuple[WorkspaceEntry, bytes]]:
        """Yield the entries of a listing with their bytes. Raises WorkspaceError if the archive
        lacks an entry, or if its bytes do not match its hash.
        """
        for entry in self.entries(listing):
            data = b""
            if entry.sha256 is not None:
                data = self._read(f"objects/{entry.sha256[:2]}/{entry.sha256}", entry.sha256)
            if len(data) != entry.size:
                raise WorkspaceError(self._explain_damage(entry.path))
            yield entry, data

    def entries(self, listing: str) -> list[WorkspaceEntry]:
        """Return the entries of a listing, ordered by path. Raises the errors of `contents`."""
        if len(listing) != 64 or not set(listing) <= set("0123456789abcdef"):
            raise WorkspaceError(f"workspace {listing[:80]!r}: not a SHA-256; use a listing's hash")

        data = self._read(f"listings/{listing}", listing)
        entries = decode_json(
            data, list[WorkspaceEntry], f"workspace {listing[:12]}", WorkspaceError
        )
        _check(entries)
        return entries

    def _keep_file(self, path: str, data: bytes, executable: bool) -> WorkspaceEntry:
        digest = sha256_hex(data)
        self._create(f"objects/{digest[:2]}/{digest}", data)
        return WorkspaceEntry(
            path=path, kind="file", size=len(data), executable=executable, sha256=digest
        )

    def _keep_listing(
        self, entries: Iterable[WorkspaceEntry], refused: tuple[UnarchivedEntry, ...] = ()
    ) -> Archived:
        ordered = sorted(entries, key=lambda entry: entry.path.split("/"))
        _check(ordered)
        size = sum(entry.size for entry in ordered)
        if size > self.limits.disk_bytes or len(ordered) > self.limits.disk_files:
            raise WorkspaceError(self._too_large())

        data = encode_canonical(ordered).encode()
        listing = sha256_hex(data)
        self._create(f"listings/{listing}", data)
        return Archived(listing=listing, size=size, files=len(ordered), refused=refused)

    def _create(self, key: str, data: bytes) -> None:
        self.store.create(f"{self.prefix}/{key}", data)

    def _read(self, key: str, digest: str) -> bytes:
        data = self.store.read(f"{self.prefix}/{key}")
        if sha256_hex(data) != digest:
            raise WorkspaceError(self._explain_damage(key))
        return data

    def _explain_damage(self, name: str) -> str:
        return f"workspace: {name}: its content does not match its hash; restore it from a copy"

    def _too_large(self) -> str:
        return (
            f"workspace: more than {self.limits.disk_bytes} bytes or {self.limits.disk_files}"
            " files; let the program write less, or raise disk_bytes or disk_files"
        )


def _make_room(entries: dict[str, WorkspaceEntry], path: str) -> None:
    """Create the folders above a path, and drop entries of the program that are in the way."""
    for inside in [each for each in entries if each.startswith(path + "/")]:
        del entries[inside]

    parts = path.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        if above not in entries or entries[above].kind == "file":
            entries[above] = WorkspaceEntry(path=above, kind="folder")


def _header(stream: BinaryIO) -> _Frame:
    line = stream.readline(_MAX_HEADER_BYTES)
    if not line.endswith(b"\n"):
        raise WorkspaceError("workspace: the stream ended early; run the step again")

    header = decode_json(line, _Frame, "workspace frame", WorkspaceError)
    if header.end is None and header.kind == "":
        raise WorkspaceError("workspace frame: kind: is missing; run the step again")
    return header


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise WorkspaceError("workspace: the stream ended early; run the step again")
    return data


def _check(entries: list[WorkspaceEntry]) -> None:
    """Raise WorkspaceError unless the entries describe a folder: they are in order, and each path
    occurs once and is below a folder of the listing.
    """
    folders = {""}
    before: list[str] = []
    for entry in entries:
        parts = entry.path.split("/")
        is_plain = all(part not in ("", ".", "..") and "\0" not in part for part in parts)
        is_short = len(entry.path.encode("utf-8", "surrogatepass")) <= MAX_PATH_BYTES
        above = "/".join(parts[:-1])
        if not is_plain or not is_short or above not in folders or not parts > before:
            raise WorkspaceError(
                f"workspace: {entry.path[:80]!r}: not a path of the folder; run the step again"
            )
        if (entry.kind == "file") != (entry.sha256 is not None):
            raise WorkspaceError(
                f"workspace: {entry.path[:80]!r}: a file needs a hash and a folder must not have "
                "one; run the step again"
            )

        before = parts
        if entry.kind == "folder":
            folders.add(entry.path)
