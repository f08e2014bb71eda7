"""Folders that are archived by their content, and restored byte for byte."""

from __future__ import annotations

import json
import os
import socket
import stat
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import StoreError
from ktdeval.stores import LocalStore
from ktdeval.values import sha256_hex
from ktdeval_command.sandboxes.workspace import (
    FolderLimits,
    ProgramWorkspaces,
    UnarchivedEntry,
    WorkspaceError,
)

FILES = {"notes.md": b"buy low\n", "data/a.bin": bytes(range(256)), "data/b/empty": b""}


def tree(folder: Path) -> dict[str, tuple[bytes | None, bool]]:
    """Bytes (None: a folder) and execute bit of all below a folder."""
    found: dict[str, tuple[bytes | None, bool]] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            found[name] = (None, False)
        else:
            found[name] = (path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    for name, data in FILES.items():
        path = made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return made


def test_a_folder_comes_back_byte_for_byte(
    folder: Path, tmp_path: Path, workspaces: ProgramWorkspaces
) -> None:
    (folder / "tool").write_bytes(b"#!/bin/sh\n")
    (folder / "tool").chmod(0o755)
    (folder / "none/inside").mkdir(parents=True)

    archived = workspaces.from_folder(folder)
    workspaces.restore(archived.listing, tmp_path / "back")

    assert tree(tmp_path / "back") == tree(folder)
    assert (archived.size, archived.files, archived.refused) == (274, 8, ())


def test_a_listing_has_its_own_hash_and_that_of_each_file(
    tmp_path: Path, workspaces: ProgramWorkspaces
) -> None:
    """Worked by hand: the canonical JSON of a folder with one file."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one/a").write_bytes(b"x")
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    text = f'[{{"executable":false,"kind":"file","path":"a","sha256":"{digest}","size":1}}]'

    archived = workspaces.from_folder(tmp_path / "one")

    assert sha256_hex(b"x") == digest
    assert archived.listing == sha256_hex(text)


def test_the_same_content_has_the_same_hash(
    folder: Path, tmp_path: Path, workspaces: ProgramWorkspaces
) -> None:
    """Whatever the order, the times and the modes."""
    other = tmp_path / "other"
    for name in sorted(FILES, reverse=True):
        path = other / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FILES[name])
        path.chmod(0o400)
        os.utime(path, (1, 1))

    first = workspaces.from_folder(folder)

    assert workspaces.from_folder(other) == first
    assert workspaces.from_files(FILES) == first.listing


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "notes.md").write_bytes(b"buy high\n"),
        lambda folder: (folder / "notes.md").chmod(0o700),
        lambda folder: (folder / "notes.md").rename(folder / "other.md"),
        lambda folder: (folder / "more").mkdir(),
        lambda folder: (folder / "data/b/empty").unlink(),
    ],
    ids=["bytes", "mode", "name", "folder", "absence"],
)
def test_each_change_changes_the_hash(change, folder: Path, workspaces: ProgramWorkspaces) -> None:
    before = workspaces.from_folder(folder).listing
    change(folder)

    assert workspaces.from_folder(folder).listing != before


def test_files_replace_those_of_a_listing(tmp_path: Path, workspaces: ProgramWorkspaces) -> None:
    first = workspaces.from_files(FILES)
    second = workspaces.from_files({"notes.md": b"new", "state/state.json": b"{}"}, first)
    workspaces.restore(second, tmp_path / "back")

    assert (tmp_path / "back/notes.md").read_bytes() == b"new"
    assert (tmp_path / "back/state/state.json").read_bytes() == b"{}"
    assert (tmp_path / "back/data/a.bin").read_bytes() == FILES["data/a.bin"]


def test_a_file_of_ours_replaces_what_a_program_made_in_its_place(
    tmp_path: Path, workspaces: ProgramWorkspaces
) -> None:
    """A program may make a folder `state.json`, or a file where ours needs a folder."""
    hostile = workspaces.from_files({"state.json/deep/file": b"x", "rules": b"x"})

    listing = workspaces.from_files({"state.json": b"{}", "rules/task.md": b"task"}, hostile)
    workspaces.restore(listing, tmp_path / "back")

    assert tree(tmp_path / "back") == {
        "state.json": (b"{}", False),
        "rules": (None, False),
        "rules/task.md": (b"task", False),
    }


def test_each_content_is_stored_once(
    folder: Path, tmp_path: Path, workspaces: ProgramWorkspaces
) -> None:
    for number in range(5):
        (folder / f"copy-{number}").write_bytes(FILES["data/a.bin"])

    workspaces.from_folder(folder)

    objects = [path for path in tmp_path.rglob("objects/*/*") if path.is_file()]
    assert len(objects) == 3


# ---- what is refused


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.symlink_to("/etc/passwd"), "link"),
        (lambda path: path.symlink_to("notes.md"), "link"),
        (lambda path: path.symlink_to("absent"), "link"),
        (lambda path: path.symlink_to(path.parent), "link"),
        (os.mkfifo, "pipe"),
        (make_socket, "socket"),
    ],
    ids=["outside", "inside", "dangling", "folder", "pipe", "socket"],
)
def test_what_is_no_plain_file_is_refused_by_name(
    make, why: str, folder: Path, workspaces: ProgramWorkspaces
) -> None:
    without = workspaces.from_folder(folder)
    make(folder / "data/odd")

    archived = workspaces.from_folder(folder)

    assert archived.refused == (UnarchivedEntry(path="data/odd", why=why),)
    assert archived.listing == without.listing


def test_a_device_is_refused(folder: Path, workspaces: ProgramWorkspaces) -> None:
    try:
        os.mknod(folder / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("making a device needs root")

    assert workspaces.from_folder(folder).refused == (UnarchivedEntry(path="null", why="device"),)


def test_names_that_are_not_utf8_are_refused(folder: Path, workspaces: ProgramWorkspaces) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe")).write_bytes(b"x")

    archived = workspaces.from_folder(folder)

    assert archived.refused == (UnarchivedEntry(path="\\xff\\xfe", why="name is not UTF-8"),)


def test_a_path_that_is_too_long_is_refused(folder: Path, workspaces: ProgramWorkspaces) -> None:
    deep = folder
    for _ in range(8):
        deep = deep / ("d" * 200)
    deep.mkdir(parents=True)

    archived = workspaces.from_folder(folder)

    assert [each.why for each in archived.refused] == ["path too long"]


@pytest.mark.parametrize(
    ("name", "size"), [("large", (4 << 20) - 263), ("holes", 1 << 40)], ids=["bytes", "holes"]
)
def test_too_many_bytes_are_refused(
    name: str, size: int, folder: Path, workspaces: ProgramWorkspaces
) -> None:
    """The other files have 264 bytes: the limit of 4 MiB is passed by one."""
    with (folder / name).open("wb") as file:
        file.truncate(size)

    with pytest.raises(WorkspaceError, match="more than 4194304 bytes or 200 files"):
        workspaces.from_folder(folder)


@pytest.mark.parametrize(("count", "fits"), [(195, True), (196, False)])
def test_files_and_folders_are_counted(
    count: int, fits: bool, folder: Path, workspaces: ProgramWorkspaces
) -> None:
    for number in range(count):
        (folder / f"empty-{number}").touch()

    if fits:
        assert workspaces.from_folder(folder).files == 200
    else:
        with pytest.raises(WorkspaceError, match="200 files"):
            workspaces.from_folder(folder)


@pytest.mark.parametrize(
    "path", ["../out", "/etc/x", "a//b", "./a", "a/../b", "", "a\0b", "x" * 1025]
)
def test_files_of_ours_stay_in_the_folder(path: str, workspaces: ProgramWorkspaces) -> None:
    with pytest.raises(WorkspaceError, match="not a path of the folder"):
        workspaces.from_files({path: b"x"})


# ---- damaged archives


def stored(tmp_path: Path, digest: str) -> Path:
    [path] = [path for path in tmp_path.rglob(digest) if path.is_file()]
    return path


@pytest.mark.parametrize("data", [b"", b"changed", b"buy low"])
def test_a_changed_object_is_found(
    data: bytes, tmp_path: Path, workspaces: ProgramWorkspaces
) -> None:
    listing = workspaces.from_files(FILES)
    stored(tmp_path, sha256_hex(FILES["notes.md"])).write_bytes(data)

    with pytest.raises(WorkspaceError, match="does not match its hash"):
        workspaces.restore(listing, tmp_path / "back")


def test_a_changed_listing_is_found(tmp_path: Path, workspaces: ProgramWorkspaces) -> None:
    listing = workspaces.from_files(FILES)
    stored(tmp_path, listing).write_bytes(b"[]")

    with pytest.raises(WorkspaceError, match="does not match its hash"):
        workspaces.entries(listing)


def test_a_missing_object_is_found(tmp_path: Path, workspaces: ProgramWorkspaces) -> None:
    listing = workspaces.from_files(FILES)
    stored(tmp_path, sha256_hex(FILES["notes.md"])).unlink()

    with pytest.raises(StoreError, match=sha256_hex(FILES["notes.md"])):
        workspaces.restore(listing, tmp_path / "back")


@pytest.mark.parametrize("listing", ["", "../x", "a" * 63, "A" * 64, "g" * 64])
def test_a_listing_is_named_by_a_hash(listing: str, workspaces: ProgramWorkspaces) -> None:
    with pytest.raises(WorkspaceError, match="not a SHA-256"):
        workspaces.entries(listing)


# ---- streams


def frames(*headers: object, end: object = None) -> bytes:
    last = {"end": True} if end is None else end
    return b"".join(json.dumps(header).encode() + b"\n" for header in (*headers, last))


def file(path: str, size: int = 0, **more: object) -> dict[str, object]:
    return {"path": path, "kind": "file", "size": size, **more}


def in_folder(path: str) -> dict[str, object]:
    return {"path": path, "kind": "folder"}


def test_a_stream_is_what_was_sent(workspaces: ProgramWorkspaces) -> None:
    listing = workspaces.from_files(FILES)
    stream = BytesIO()
    workspaces.send(stream, listing)
    stream.seek(0)

    assert workspaces.receive(stream).listing == listing


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}\n",
        b"[]\n",
        b"not json\n",
        b"\xff\n",
        b"{" * 100_000,
        b'{"end":true}',
        frames(file("a", 3)),
        frames(file("a", -1)),
        frames(file("a", 1 << 62)),
        frames(file("../a")),
        frames(file("/a")),
        frames(file("a/b")),
        frames(file("a"), file("a")),
        frames(in_folder("a"), file("a")),
        frames(file("a"), file("a/b")),
        frames(in_folder(".")),
        frames(in_folder("a/")),
        frames(in_folder("")),
        frames(file("a\0")),
        frames(file("\ud800")),
        frames(file("x" * 2000)),
        frames(file("a", other=1)),
        frames(file("a", executable="yes")),
        frames({"path": "a", "kind": "link"}),
        frames({"path": "a"}),
        frames(file("a"), end={"end": False, "why": "full"}),
        frames(*[in_folder(str(number)) for number in range(201)]),
        frames(*[{"path": "a", "kind": "refused", "why": "link"}] * 201),
    ],
)
def test_a_hostile_stream_is_an_error(data: bytes, workspaces: ProgramWorkspaces) -> None:
    with pytest.raises(WorkspaceError):
        workspaces.receive(BytesIO(data))


@pytest.mark.slow
@given(data=st.binary(max_size=300))
def test_any_bytes_are_a_folder_or_an_error(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = LocalStore(tmp_path_factory.getbasetemp() / "any")
    workspaces = ProgramWorkspaces(store, "w", FolderLimits())
    for stream in (data, frames(file("a", len(data)))[:-13] + data + b'{"end":true}\n'):
        try:
            archived = workspaces.receive(BytesIO(stream))
        except WorkspaceError:
            continue
        assert archived.files <= 1


@pytest.mark.exhaustive
@given(
    files=st.dictionaries(
        st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters="/\0"),
            min_size=1,
            max_size=20,
        ).filter(lambda name: name not in (".", "..")),
        st.binary(max_size=50),
        max_size=5,
    )
)
def test_any_files_come_back(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = LocalStore(tmp_path_factory.getbasetemp() / "any")
    workspaces = ProgramWorkspaces(store, "w", FolderLimits())

    listing = workspaces.from_files(files)

    assert {entry.path: data for entry, data in workspaces.contents(listing)} == files
