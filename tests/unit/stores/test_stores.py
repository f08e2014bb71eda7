"""Keys, folders, and which store a place opens."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import fsspec
import pytest

from ktdeval.errors import KtdevalError, StoreError, UsageError
from ktdeval.stores import (
    BadKey,
    LocalStore,
    MissingKey,
    NoConditionalWrites,
    Store,
    StoreUnavailable,
    open_store,
)
from ktdeval.stores.drivers import StoreDriver
from ktdeval.stores.remote import FsspecStore, RequestRetries
from ktdeval.values import install_command
from support.stores.store_places import memory_store

BAD_KEYS = [
    "",
    "/etc/passwd",
    "../a",
    "a/../../b",
    "a/./b",
    "a//b",
    "a/",
    ".hidden",
    "a/.hidden",
    "a\\b",
    "a\x00b",
    "a\nb",
    "a?versionId=1",
    "a#b",
    "a*",
    "a[1]",
    " a",
    "a /b",
    "a.",
    "\ud800",
    "x" * 201,
    "/".join(["x" * 100] * 10),
]


@pytest.mark.parametrize("key", BAD_KEYS)
@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_a_key_that_is_no_relative_path_of_plain_names_is_refused(
    tmp_path: Path, kind: str, key: str
) -> None:
    store = LocalStore(tmp_path / "store") if kind == "folder" else memory_store()
    for method in (store.read, store.exists, store.delete, store.local_path):
        with pytest.raises(BadKey):
            method(key)

    for write in (store.create, store.replace):
        with pytest.raises(BadKey):
            write(key, b"")

    assert not (tmp_path / "store").exists()
    assert not list(tmp_path.iterdir())


# ---- folders


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def test_temporary_and_foreign_files_are_not_listed(store: LocalStore) -> None:
    store.replace("a/b", b"1")
    (store.root / "a" / ".b.0123.new").write_bytes(b"half")
    (store.root / "a" / "what?").write_bytes(b"")
    (store.root / "link").symlink_to(store.root / "a")
    (store.root / "a" / "link").symlink_to("/etc/passwd")
    os.mkfifo(store.root / "a" / "pipe")

    assert [found.key for found in store.list()] == ["a/b"]


def test_links_out_of_the_store_are_neither_read_nor_written(
    store: LocalStore, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    store.root.mkdir()
    (store.root / "a").symlink_to(outside)

    with pytest.raises(StoreError):
        store.read("a")

    assert not store.exists("a")
    assert not store.create("a", b"new")

    store.replace("a", b"new")
    assert outside.read_bytes() == b"secret"
    assert store.read("a") == b"new"


def test_a_key_that_is_a_folder_of_other_keys_is_an_error(store: LocalStore) -> None:
    store.replace("a/b", b"")
    assert not store.exists("a")

    with pytest.raises(MissingKey):
        store.read("a")

    with pytest.raises(StoreError, match="is a folder of other keys"):
        store.create("a", b"")

    with pytest.raises(StoreError):
        store.replace("a", b"")

    with pytest.raises(StoreError):
        store.create("a/b/c", b"")


def test_a_link_whose_answer_was_lost_is_known_by_its_count(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system sends a link again when its answer was lost."""
    link = os.link

    def link_twice(*paths: Path) -> None:
        link(*paths)
        link(*paths)

    monkeypatch.setattr(os, "link", link_twice)

    assert store.create("a", b"1")
    assert not store.create("a", b"2")
    assert store.read("a") == b"1"


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_links_is_refused_for_coordination(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(NoConditionalWrites, match="has no hard links"):
        store.create("a", b"1")

    store.replace("a", b"1")

    assert list(store.root.iterdir()) == [store.root / "a"]


def test_a_full_disk_is_one_clear_line(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store.replace("a", b"old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreError, match=r"a: can't write: No space left on device; free space"):
        store.replace("a", b"new")

    assert store.read("a") == b"old"


# ---- places


def test_a_path_and_a_file_url_open_a_folder(tmp_path: Path) -> None:
    for place in (tmp_path, str(tmp_path), f"file://{tmp_path}"):
        store = open_store(place)
        assert isinstance(store, LocalStore)
        assert store.root == tmp_path
        assert store.place == str(tmp_path)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s4://bucket", "Protocol not known: s4; known schemes: abfs"),
        ("s3://key:word@bucket/x", "must not hold a user or password"),
        ("ftp://me@host/x", "must not hold a user or password"),
        ("dir://host/x", "dir://host/x: can't be opened: .*; known schemes: abfs"),
        ("ftp://127.0.0.1:1/x", "ftp://127.0.0.1:1/x: can't be opened: .*refused; known"),
    ],
)
def test_a_url_that_opens_nothing_is_one_clear_line(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        open_store(url)

    assert "word" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize(
    ("url", "extra"), [("gs://b/x", "gcs"), ("az://b/x", "azure"), ("s3://b/x", "s3")]
)
def test_a_driver_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, url: str, extra: str
) -> None:
    for module in ("gcsfs", "adlfs", "s3fs"):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(UsageError, match=re.escape(install_command(extra))):
        open_store(url)


def test_importing_stores_imports_no_driver() -> None:
    script = (
        "import sys, ktdeval.stores as stores\n"
        "for name in stores.__all__: getattr(stores, name)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    imported = set(done.stdout.split())

    assert "ktdeval.stores.local" in imported
    assert not imported & {"fsspec", "aiohttp", "s3fs", "tenacity", "pandas"}


# ---- drivers without conditional writes, and servers that only seem to have them


class Plain(StoreDriver):
    """fsspec's own look-then-write, as most drivers have it."""


def store_of(driver: type[StoreDriver]) -> FsspecStore:
    url = f"memory://{uuid.uuid4().hex}"
    return FsspecStore(url, driver(url, {}), RequestRetries(attempts=2, first_s=0, max_s=0))


def test_driver_without_conditional_writes_is_refused_for_coordination() -> None:
    store = store_of(Plain)
    with pytest.raises(NoConditionalWrites, match="its driver has no conditional writes"):
        store.create("a", b"1")

    store.replace("a/b", b"1")
    store.replace("a-b", b"22")

    assert store.read("a/b") == b"1"
    assert [(found.key, found.size) for found in store.list()] == [("a-b", 2), ("a/b", 1)]
    assert [found.key for found in store.list("a")] == ["a/b"]

    store.delete("a/b")
    assert list(store.list("a")) == []


class Overwriting(StoreDriver):
    """A server that ignores the condition."""

    refusal = ""

    def create(self, path: str, data: bytes, mark: str) -> None:
        self.fs.pipe_file(path, data)


class Unmarking(StoreDriver):
    """A server that keeps no metadata."""

    refusal = ""


@pytest.mark.parametrize(
    ("driver", "reason"),
    [(Overwriting, "ignores the condition"), (Unmarking, "does not store object metadata")],
)
def test_a_server_that_only_seems_to_have_conditional_writes_is_found_out(
    driver: type[StoreDriver], reason: str
) -> None:
    store = store_of(driver)
    for _ in range(2):
        with pytest.raises(NoConditionalWrites, match=reason):
            store.create("a", b"1")

    assert list(store.list()) == []
    assert fsspec.filesystem("memory").find(store.place) == []


class Failing(StoreDriver):
    """A server that fails in one way."""

    error: Exception = OSError()
    calls = 0

    def read(self, path: str) -> bytes:
        Failing.calls += 1
        raise self.error


class Answered(Exception):
    """What a driver raises for an answer of the server."""

    def __init__(self, status: int) -> None:
        super().__init__("no\n  luck")
        self.status_code = status


@pytest.mark.parametrize(
    ("error", "attempts", "kind"),
    [
        (TimeoutError("late"), 2, StoreUnavailable),
        (ConnectionResetError("gone"), 2, StoreUnavailable),
        (Answered(503), 2, StoreUnavailable),
        (Answered(429), 2, StoreUnavailable),
        (Answered(403), 1, StoreError),
        (PermissionError(errno.EACCES, "not yours"), 1, StoreError),
        (ValueError("odd"), 1, StoreError),
        (FileNotFoundError("a"), 1, MissingKey),
    ],
)
def test_what_may_pass_is_tried_again_and_everything_is_one_typed_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, attempts: int, kind: type[KtdevalError]
) -> None:
    monkeypatch.setattr(Failing, "error", error)
    monkeypatch.setattr(Failing, "calls", 0)
    store: Store = store_of(Failing)

    with pytest.raises(StoreError) as caught:
        store.read("a")

    assert type(caught.value) is kind
    assert Failing.calls == attempts
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{store.place}: a: ")


def test_a_long_wait_says_what_the_store_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ktdeval.stores.remote._SHOWN_WAIT_S", 0.0)
    monkeypatch.setattr(Failing, "error", Answered(503))
    store: Store = store_of(Failing)
    with pytest.raises(StoreUnavailable):
        store.read("a")

    assert caplog.messages == [f"{store.place}: a: waiting 0 s, attempt 1 of 2 (no luck)"]


def test_a_secret_of_the_environment_is_not_shown_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMIK7MDENGbPxRfiCYzzz")
    monkeypatch.setattr(Failing, "error", OSError("bad key wJalrXUtnFEMIK7MDENGbPxRfiCYzzz"))
    with pytest.raises(StoreError) as caught:
        store_of(Failing).read("a")

    assert "wJalr" not in str(caught.value)
