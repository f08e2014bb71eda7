"""Calls of a run at a URL: what was paid is at the store before anyone sees it, whoever is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.calls.records import remote_call_log
from ktdeval.calls.records.database import RECORD, CallDatabase, LogIdentity, read_records
from ktdeval.calls.records.record import CallRecord, pack
from ktdeval.calls.records.remote_call_log import LOG_FILE, CallParts
from ktdeval.errors import StoreError
from ktdeval.stores import LocalStore
from ktdeval.stores.mirror import Mirror
from support.providers.call_runs import call_of, entry_of

IDENTITY = LogIdentity("ab" * 16, "2026-01-31T23:59:59Z")
NAMES = ("a", "b", "c", "d", "e")


class Site:
    """A store, and machines that have nothing but it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = LocalStore(folder / "store")
        self._machines = 0

    def machine(self) -> Machine:
        """A machine with an empty disk."""
        self._machines += 1
        return Machine(self.store, self.folder / f"machine-{self._machines}")

    def list_keys(self) -> list[str]:
        return [stat.key.removeprefix("calls/") for stat in self.store.list("calls")]


class Machine:
    """A disk, and the calls that it restores and puts."""

    def __init__(self, store: LocalStore, disk: Path) -> None:
        self.disk = disk / "run"
        self.parts = CallParts(Mirror("memory://run", self.disk, store), "")

    def put(self, *names: str) -> None:
        """One group of calls with their replies."""
        replies, rows = rows_of(*names)
        self.parts.add(replies, rows)

    def record(self) -> tuple[list[CallRecord], set[str]]:
        """The calls of the local record, and the keys of its replies."""
        with CallDatabase(self.disk / LOG_FILE, RECORD) as database:
            return list(read_records(self.disk / LOG_FILE)), database.keys()

    def restored(self) -> tuple[list[CallRecord], set[str]]:
        self.parts.restore()
        return self.record()


def rows_of(*names: str):
    replies = [pack(entry_of(name)) for name in names]
    return replies, [call_of(name).to_row() for name in names]


def expected(*names: str) -> tuple[list[CallRecord], set[str]]:
    return [call_of(name) for name in names], {entry_of(name).key for name in names}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def asked(site: Site) -> Site:
    """Four groups of calls."""
    first = site.machine()
    first.parts.identify(IDENTITY)

    for names in (("a",), ("b", "c"), ("d",), ("e",)):
        first.put(*names)

    return site


def test_a_compacted_record_is_the_same_and_its_groups_are_one_file(asked):
    assert asked.machine().parts.compact() == 3
    assert asked.list_keys() == ["000001-000004.bin", "log.json"]
    assert asked.machine().restored() == expected(*NAMES)

    second = asked.machine()
    second.put("f")
    second.parts.compact()

    assert asked.list_keys() == ["000001-000005.bin", "log.json"]
    assert asked.machine().restored() == expected(*NAMES, "f")


@pytest.mark.parametrize("deleted", range(4))
def test_compaction_killed_while_deleting_loses_and_repeats_nothing(asked, deleted):
    before = {key: asked.store.read(f"calls/{key}") for key in asked.list_keys()}
    asked.machine().parts.compact()
    for key in sorted(before)[deleted:-1]:
        asked.store.create(f"calls/{key}", before[key])

    second = asked.machine()

    assert second.restored() == expected(*NAMES)
    assert len(second.parts.leftovers()) == 4 - deleted

    second.parts.compact()
    assert asked.list_keys() == ["000001-000004.bin", "log.json"]


def test_large_groups_stay_files_of_their_own(asked, monkeypatch):
    monkeypatch.setattr(remote_call_log, "_PACK_BYTES", 1)
    assert asked.machine().parts.compact() == 0
    assert len(asked.list_keys()) == 5


def test_a_missing_group_is_an_error_that_names_it(asked):
    asked.store.delete("calls/000002.bin")
    with pytest.raises(StoreError, match=r"group 000002 .* is missing"):
        asked.machine().restored()


@pytest.mark.parametrize("harm", [lambda data: data[:-1], lambda data: data[:-1] + b"x", bytes])
def test_a_damaged_group_is_an_error_that_names_it(asked, harm):
    data = asked.store.read("calls/000003.bin")
    asked.store.replace("calls/000003.bin", harm(data) if harm is not bytes else b"")
    with pytest.raises(StoreError, match=r"000003.bin: is damaged"):
        asked.machine().restored()

    assert len(list(asked.machine().parts.check())) == 1


def test_a_group_that_the_store_refused_is_put_before_the_next_one(asked, monkeypatch):
    second = asked.machine()
    create = LocalStore.create
    answers = [StoreError("down"), StoreError("down")]

    def flaky(store: LocalStore, key: str, data: bytes) -> bool:
        if answers:
            raise answers.pop()

        return create(store, key, data)

    monkeypatch.setattr(LocalStore, "create", flaky)
    for name in ("f", "g"):
        with pytest.raises(StoreError, match="down"):
            second.put(name)

    second.parts.flush()

    assert asked.machine().restored() == expected(*NAMES, "f", "g")


def test_a_group_of_another_process_is_a_conflict_but_the_own_one_is_not(asked):
    """A request whose answer was lost is repeated, and finds what it wrote itself."""
    second = asked.machine()
    second.parts.identify(IDENTITY)
    asked.machine().put("g")

    with pytest.raises(StoreError, match="another process has continued"):
        second.put("f")

    third = asked.machine()
    third.put("f")
    asked.store.replace("calls/000005.bin", asked.store.read("calls/000006.bin"))
    second.parts.flush()


def test_unsent_records_of_a_killed_process_are_sent_at_the_next_start(asked):
    first = asked.machine()
    first.restored()
    replies, rows = rows_of("f", "g")

    with CallDatabase(first.disk / LOG_FILE, RECORD) as database:
        database.write(replies, rows)

    first.parts.restore_working()

    assert first.record() == expected(*NAMES, "f", "g")
    assert asked.machine().restored() == expected(*NAMES, "f", "g")
    assert not list(first.disk.glob("left-*"))


def test_local_unsent_records_are_dropped_if_another_machine_continued(asked):
    first = asked.machine()
    second = asked.machine()
    first.restored()
    replies, rows = rows_of("f")

    with CallDatabase(first.disk / LOG_FILE, RECORD) as database:
        database.write(replies, rows)

    second.put("g")
    first.parts.restore_working()

    assert first.record() == expected(*NAMES, "g")


def test_a_local_record_that_nothing_changed_is_not_made_anew(asked):
    second = asked.machine()
    second.restored()
    inode = (second.disk / LOG_FILE).stat().st_ino
    second.parts.restore()

    assert (second.disk / LOG_FILE).stat().st_ino == inode

    asked.machine().put("f")
    assert second.restored() == expected(*NAMES, "f")
