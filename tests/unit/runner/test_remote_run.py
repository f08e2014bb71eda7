"""Run folders at URLs: the same run as in a folder, resumed by any machine, read as far as it is
asked for.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import StoreError
from ktdeval.runner import RunFolder, local_run_path
from ktdeval.runner.records.run_claim import RunClaim, claim_url
from ktdeval.runner.records.run_file_names import JOURNAL, LEDGER, MARK, TRANSCRIPT
from ktdeval.stores import Stat, open_store
from ktdeval.stores.mirror import is_url, open_mirror
from ktdeval.stores.remote import FsspecStore
from support.runs.run_support import (
    PLUGIN,
    SAME_MASK,
    TASK,
    WINDOW,
    Done,
    assert_same,
    error_line,
    ktdeval,
    local_copy,
)
from support.stores.forgotten_mirrors import mirrors_forgotten

pytestmark = pytest.mark.slow

STEPS = 3
SEEDS = 2
WHOLE = (
    *("--plugin", PLUGIN, "--model", "test/mixed", "--agent", "remembering", "--tasks", TASK),
    *("--windows", WINDOW, "--limit", STEPS, "--seeds", SEEDS, "--quiet", *SAME_MASK),
    *("--max-failures", 1000),
)


class Site:
    """A store in memory, and machines whose disks are empty at first."""

    def __init__(self, folder: Path, market: Path, url: str) -> None:
        self.folder = folder
        self.market = market
        self.url = url
        self.store = open_store(url)

    def run(self, machine: str = "one", **environment: str) -> Done:
        """Begin or resume the run."""
        return self.call(machine, *WHOLE, "--data", self.market, "--out", self.url, **environment)

    def call(self, machine: str, *words: object, **environment: str) -> Done:
        """A command on a machine."""
        variables = {"KTDEVAL_CACHE_DIR": str(self.folder / machine), **environment}
        with mirrors_forgotten():
            return ktdeval(*words, cwd=self.folder, environment=variables)

    def list_keys(self) -> list[str]:
        """What there is, less who ran it."""
        every = [stat.key for stat in self.store.list()]
        return [key for key in every if not key.startswith("lock/")]

    def fetched(self, machine: str) -> list[str]:
        """Names of the files that a machine has read."""
        return [path.name for path in (self.folder / machine).glob("remote/*/read/**/*.*")]


@pytest.fixture
def site(
    market: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    monkeypatch.setenv("KTDEVAL_CACHE_DIR", str(tmp_path / "tests"))
    with mirrors_forgotten():
        yield Site(tmp_path, market, f"memory://bucket/{abs(hash(request.node.nodeid))}")


@pytest.fixture
def ran(site: Site) -> Site:
    """A finished run."""
    done = site.run()
    assert done.code == 0, done
    return site


def episode_key(site: Site, name: str, number: int = 0) -> str:
    return [key for key in site.list_keys() if key.endswith(f"/{name}")][number]


class Outage:
    """A store that fails for good at its n-th write of a run's files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, write: int) -> None:
        self.left = write
        for method in ("create", "replace"):
            monkeypatch.setattr(FsspecStore, method, self._failing(getattr(FsspecStore, method)))

    def _failing(self, method):
        def write(store: FsspecStore, key: str, data: bytes):
            if not key.startswith("lock/"):
                self.left -= 1
                if self.left <= 0:
                    raise StoreError("the store is down")

            return method(store, key, data)

        return write


# ---- the same run


@pytest.mark.exhaustive
def test_a_run_at_a_url_leaves_what_a_run_in_a_folder_leaves(ran: Site, whole: Path) -> None:
    assert_same(local_copy(ran.url), whole)
    names = {key.rpartition("/")[2] for key in ran.list_keys()}
    assert names == {"manifest.json", f"{TASK}.json", LEDGER, TRANSCRIPT, MARK}


@pytest.mark.exhaustive
@pytest.mark.parametrize("write", range(2, 15, 3))
def test_run_whose_store_fails_at_any_write_resumes_from_an_empty_disk(
    site: Site, whole: Path, write: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Outage(patch, write)
        failed = site.run("first")
        assert "the store is down" in error_line(failed)

    done = site.run("second")

    assert done.code == 0, done

    assert_same(local_copy(site.url), whole)
    assert not [key for key in site.list_keys() if "/journal/" in key]


@pytest.mark.exhaustive
def test_the_same_command_again_runs_no_step_and_writes_no_record(ran: Site) -> None:
    before = {stat.key: stat.version for stat in ran.store.list("episodes")}
    done = ran.run("two", RUN_PLUGIN_SLEEP_MS="100000")
    assert done.code == 0, done
    assert {stat.key: stat.version for stat in ran.store.list("episodes")} == before


def test_another_run_is_refused_and_so_is_a_url_with_other_files(ran: Site) -> None:
    other = ran.call("one", *WHOLE, "--limit", 2, "--data", ran.market, "--out", ran.url)
    assert "contains another run (limit: 3; now 2)" in error_line(other)

    open_store(f"{ran.url}-notes").replace("notes.txt", b"")
    words = (*WHOLE, "--data", ran.market, "--out", f"{ran.url}-notes")

    assert "is not empty and is not a run (notes.txt)" in error_line(ran.call("one", *words))


@pytest.mark.exhaustive
def test_a_run_is_claimed_by_one_process_and_free_when_that_has_ended(ran: Site) -> None:
    with mirrors_forgotten():
        claim = claim_url(ran.url)
        assert "is running this" in error_line(ran.run("two"))
        claim.release()

    assert ran.run("two").code == 0


def test_a_killed_process_leaves_a_marker_that_only_its_own_machine_replaces(
    ran: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTDEVAL_CACHE_DIR", str(ran.folder / "killed"))
    with mirrors_forgotten():
        RunClaim.release(claim_url(ran.url))  # a lock on a folder ends with its process

    refused = error_line(ran.run("two"))
    assert f"{ran.url}: machine {socket.gethostname()} is running this run" in refused
    assert f"was killed, delete {ran.url}/lock/owner.json to take the run over" in refused

    assert ran.run("killed").code == 0
    assert not ran.store.exists("lock/owner.json")

    with mirrors_forgotten():
        RunClaim.release(claim_url(ran.url))

    ran.store.delete("lock/owner.json")
    assert ran.run("two").code == 0


def test_a_process_whose_run_was_taken_over_finishes_no_episode(ran: Site) -> None:
    with mirrors_forgotten():
        # Not checked before: an answer of the store counts for half a second.
        claim = claim_url(ran.url)
        marker = json.loads(ran.store.read("lock/owner.json"))
        other = json.dumps(marker | {"session": "other"}).encode()
        ran.store.replace("lock/owner.json", other)
        with pytest.raises(StoreError, match="has taken this run over"):
            claim.check()

        claim.release()
        assert ran.store.read("lock/owner.json") == other


# ---- reading


def test_showing_a_card_brings_no_record_and_verifying_it_brings_them(ran: Site) -> None:
    shown = ran.call("reader", "card", "show", ran.url)
    assert shown.code == 0, shown
    assert sorted(ran.fetched("reader")) == [f"{TASK}.json", "manifest.json"]

    verified = ran.call("reader", "card", "verify", ran.url, "--plugin", PLUGIN)
    assert f"{ran.url}/cards/{TASK}.json: verified" in verified.out, verified
    assert ran.fetched("reader").count(LEDGER) == SEEDS


def test_files_that_have_not_changed_are_not_read_again(
    ran: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_copy(ran.url)
    reads: list[str] = []
    read = FsspecStore.read
    monkeypatch.setattr(FsspecStore, "read", lambda self, key: reads.append(key) or read(self, key))

    with mirrors_forgotten():
        local_copy(ran.url)

    assert not [key for key in reads if key.startswith(("episodes/", "cards/"))]


def test_changed_remote_card_is_read_again_and_a_deleted_one_vanishes(
    ran: Site,
) -> None:
    folder = local_copy(ran.url)
    key = f"cards/{TASK}.json"
    ran.store.replace(key, b"{}")

    assert (local_run_path(ran.url) / key).read_bytes() == b"{}"

    ran.store.delete(key)
    local_run_path(ran.url)

    assert not (folder / key).exists()


def test_an_unfinished_run_is_read_as_far_as_it_has_come(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Outage(patch, 4)  # the manifest and two steps are there
        site.run()

    folder = RunFolder.load(local_run_path(site.url))
    counts = [len(folder.load_recorded(spec)[0]) for spec in folder.manifest.specs]

    assert sorted(counts) == [0, 2]


@pytest.mark.exhaustive
def test_a_score_at_a_url_is_written_there(ran: Site) -> None:
    done = ran.call("scorer", "score", ran.url, "--rules", "paper", "--plugin", PLUGIN)
    assert done.code == 0, done
    assert f"cards/paper/{TASK}.json" in ran.list_keys()
    assert f"{ran.url}/cards/paper/{TASK}.json" in done.out


@pytest.mark.exhaustive
def test_cards_and_folders_of_runs_are_named_by_url_too(ran: Site) -> None:
    above, _, name = ran.url.rpartition("/")
    card = ran.call("reader", "card", "verify", "--card-only", f"{ran.url}/cards/{TASK}.json")

    assert card.out.startswith(f"{ran.url}/cards/{TASK}.json: valid")

    listed = ran.call("reader", "files", "list", above, "--json")
    assert ran.url in {row["run"] for row in json.loads(listed.out)}

    missing = ran.call("reader", "card", "show", f"{above}/none-{name}")
    assert f"{above}/none-{name}: no run here" in error_line(missing)


def test_a_path_that_is_no_run_takes_no_url(site: Site) -> None:
    done = site.call("one", "data", "check", "memory://bucket/market")
    assert "is a URL, and this takes a path of this machine" in done.err


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/x", "s3://bucket/x?token=secret"])
def test_a_url_with_a_secret_is_refused_and_not_repeated(site: Site, url: str) -> None:
    done = site.call("one", *WHOLE, "--data", site.market, "--out", url)
    assert "since it is recorded" in error_line(done)
    assert "secret" not in done.err


def test_a_name_in_a_listing_never_leaves_the_local_copy(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = open_mirror(site.url, "read")
    monkeypatch.setattr(FsspecStore, "read", lambda *_: b"planted")
    for key in ("../../planted", "/planted", "episodes/../../../planted", "a/./b"):
        with pytest.raises(StoreError):
            mirror.fetch([Stat(key, 7, "1")])

    assert not list(tmp_path.rglob("planted"))


def test_only_texts_with_a_scheme_are_urls() -> None:
    assert [is_url(text) for text in ("s3://b/x", "GS://b/x", "az://b/x")] == [True] * 3
    assert [is_url(text) for text in ("runs/x", "/s3:/x", "c:/x", "file:///x")] == [False] * 4


# ---- administration


def test_episodes_are_listed_and_filtered_by_the_plan_and_their_state(ran: Site) -> None:
    def listed(*words: object) -> list[Any]:
        rows: list[Any] = json.loads(
            ran.call("admin", "files", "list", ran.url, "--json", *words).out
        )
        return rows

    rows = listed()

    assert [row["state"] for row in rows] == ["complete"] * SEEDS
    assert {row["run"] for row in rows} == {ran.url}
    assert len(listed("--seed", 1)) == 1
    assert len(listed("--model", "test/*")) == SEEDS
    assert listed("--model", "openai/*") == []
    assert listed("--state", "planned") == []
    assert len(listed("--task", TASK, "--window", WINDOW)) == SEEDS


def test_a_whole_run_checks_and_nothing_is_fetched_from_a_local_copy(ran: Site) -> None:
    done = ran.call("admin", "files", "check", ran.url)
    assert (done.code, done.out) == (0, f"{ran.url}: every file agrees with the records\n")


def test_each_kind_of_damage_is_found_and_told_from_stray_files(ran: Site) -> None:
    ledger = episode_key(ran, LEDGER)
    transcript = episode_key(ran, TRANSCRIPT, 1)
    ran.store.replace(ledger, ran.store.read(ledger) + b"x")
    ran.store.delete(transcript)
    left = episode_key(ran, MARK).replace(MARK, "journal/000001.jsonl")
    ran.store.replace(left, b"{}\n")
    ran.store.replace("episodes/feed/ledger.parquet", b"")
    ran.store.replace("notes.txt", b"")
    done = ran.call("admin", "files", "check", ran.url, "--json")
    report = json.loads(done.out)
    found = {entry["path"].removeprefix(f"{ran.url}/"): entry for entry in report["findings"]}

    assert done.code == 1
    assert (report["errors"], report["warnings"]) == (2, 3)
    assert {key: entry["rule"] for key, entry in found.items()} == {
        ledger: "damaged",
        transcript: "missing",
        left.rpartition("/")[0]: "half-written",
        "episodes/feed/ledger.parquet": "orphan",
        "notes.txt": "orphan",
    }


def test_compaction_deletes_duplicates_remotely_and_locally_alike(
    ran: Site, whole: Path, tmp_path: Path
) -> None:
    left = episode_key(ran, MARK).replace(MARK, "journal/000001.jsonl")
    ran.store.replace(left, b"{}\n")

    assert ran.call("admin", "files", "compact", ran.url).code == 0
    assert left not in ran.list_keys()

    folder = local_copy(ran.url)
    copy = tmp_path / "copy"
    copy.mkdir()

    for path in folder.rglob("*.*"):
        target = copy / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())

    journal = next(copy.glob("episodes/*")) / JOURNAL
    journal.write_bytes(b"")

    assert "half-written" in ran.call("admin", "files", "check", copy).out
    assert ran.call("admin", "files", "compact", copy).code == 0
    assert not journal.exists()
    assert ran.call("admin", "files", "check", copy).code == 0
