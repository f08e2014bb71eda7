"""The recorder: what it says is on disk is on disk, in cache and book alike, and many threads pay for one."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls import book as book_module
from ktdeval.calls.book import CallBook, CallRecord, read_calls
from ktdeval.calls.cache import CacheEntry, ReplyCache
from ktdeval.calls.recorder import Recorder
from ktdeval.calls.upkeep import CacheUpkeep
from ktdeval.errors import StoreError
from ktdeval.harness.messages import Reply, Usage
from ktdeval.jsonio import sha256_hex

AT = "2026-01-31T23:59:59.123Z"


@dataclasses.dataclass
class Run:
    """The two files of a run; opening them is what a resumed run does."""

    folder: Path

    @property
    def cache_path(self) -> Path:
        return self.folder.parent / "replies.sqlite"

    @property
    def book_path(self) -> Path:
        return self.folder / "calls.jsonl"

    def booked(self) -> list[str]:
        """Who asked, for each line of the book."""
        return [record.episode for record in read_calls(self.book_path)]

    def kept(self) -> set[str]:
        """The contents of all replies in the cache."""
        with CacheUpkeep(self.cache_path) as upkeep:
            return {entry.reply.content for entry in upkeep.entries()}

    def resume(self) -> float:
        """Open and close everything once; what is spent according to the book."""
        with ReplyCache(self.cache_path) as cache, CallBook(self.book_path) as book, Recorder(cache, book):
            return book.spent.cost_usd


@pytest.fixture
def run(tmp_path: Path) -> Run:
    folder = tmp_path / "run"
    folder.mkdir()
    return Run(folder)


@pytest.fixture
def recorder(run: Run) -> Iterator[Recorder]:
    with ReplyCache(run.cache_path) as cache, CallBook(run.book_path) as book, Recorder(cache, book) as opened:
        yield opened


def call_of(word: object, **changes: Any) -> CallRecord:
    record = CallRecord(AT, str(word), sha256_hex(str(word))[:16], "answered", 1, 0.5, Usage(10, 2), 0.25)
    return dataclasses.replace(record, **changes)


def entry_of(word: object) -> CacheEntry:
    return CacheEntry(sha256_hex(str(word)), "openai", "gpt-9", Reply(str(word), usage=Usage(10, 2)), AT)


def in_threads(count: int, work: Any) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ---- durable means in both files


def test_a_record_is_in_both_files_when_the_call_returns(recorder, run):
    recorder.record(call_of("a"), entry_of("a"))
    assert (run.booked(), run.kept()) == (["a"], {"a"})
    recorder.record(call_of("b"))
    assert (run.booked(), run.kept()) == (["a", "b"], {"a"})


def test_a_record_that_nobody_waits_for_goes_with_the_next_group(recorder, run):
    recorder.record(call_of("a"), durable=False)
    recorder.record(call_of("b"))
    assert run.booked() == ["a", "b"]


def test_a_record_that_nobody_waits_for_is_written_before_long(recorder, run):
    recorder.record(call_of("a"), entry_of("a"), durable=False)
    until = time.monotonic() + 20
    while not run.booked():
        assert time.monotonic() < until
        time.sleep(0.02)
    assert run.kept() == {"a"}


def test_flush_and_close_write_what_is_still_in_memory(recorder, run):
    recorder.flush()  # nothing yet
    recorder.record(call_of("a"), entry_of("a"), durable=False)
    recorder.flush()
    assert (run.booked(), run.kept()) == (["a"], {"a"})
    recorder.flush()
    recorder.record(call_of("b"), durable=False)
    recorder.close()
    assert run.booked() == ["a", "b"]
    recorder.close()
    with pytest.raises(StoreError, match=r"calls\.jsonl: the record of calls is closed"):
        recorder.record(call_of("c"))


def test_fifty_threads_lose_nothing_and_share_the_syncs_of_the_disk(run, monkeypatch):
    """On a disk that takes 10 ms for a sync, 500 records one by one would take 5 s."""
    syncs = []

    def slow_sync(descriptor: int) -> None:
        time.sleep(0.01)
        os.fdatasync(descriptor)
        syncs.append(descriptor)

    monkeypatch.setattr(book_module, "_sync_data", slow_sync)
    with ReplyCache(run.cache_path) as cache, CallBook(run.book_path) as book, Recorder(cache, book) as recorder:

        def work(thread: int) -> None:
            for number in range(10):
                recorder.record(call_of((thread, number)), entry_of((thread, number)))
                assert cache.get(sha256_hex(str((thread, number)))) is not None

        in_threads(50, work)
        assert book.spent.input_tokens == 5_000
    words = [str((thread, number)) for thread in range(50) for number in range(10)]
    assert sorted(run.booked()) == sorted(words)
    assert run.kept() == set(words)
    assert len(syncs) < 100


# ---- errors


def test_what_can_not_be_written_harms_nobody_but_its_caller(recorder, run):
    with pytest.raises(ValueError, match="JSON"):
        recorder.record(call_of("a", cost_usd=float("nan")), entry_of("a"))
    recorder.record(call_of("b"), entry_of("b"))
    assert (run.booked(), run.kept()) == (["b"], {"b"})


FULL_DISK = """
import os, resource, signal, sys, time
from pathlib import Path
from ktdeval.calls.book import CallBook
from ktdeval.calls.cache import ReplyCache
from ktdeval.calls.recorder import Recorder
from ktdeval.errors import StoreError
sys.path[:0] = [sys.argv[1]]
from test_calls_recorder import Run, call_of, entry_of, in_threads

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
run = Run(Path(sys.argv[2]))
cache, book = ReplyCache(run.cache_path), CallBook(run.book_path)
recorder = Recorder(cache, book)

def limit(most):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

def fails(action):
    try:
        action()
    except StoreError as error:
        return str(error)
    return ""
"""


def play(run: Run, program: str, *arguments: object) -> str:
    """What a second process prints that has a recorder on the files of `run`."""
    source = textwrap.dedent(FULL_DISK) + textwrap.dedent(program)
    command = [sys.executable, "-c", source, str(Path(__file__).parent), str(run.folder), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    return done.stdout


def test_a_full_disk_fails_every_waiting_thread_and_what_was_told_before_is_there(run):
    out = play(
        run,
        """
        limit(400_000)
        outcomes = {}
        def work(thread):
            for number in range(200):
                word = f"{thread} {number} " + os.urandom(500).hex()
                outcomes[word] = fails(lambda: recorder.record(call_of(word), entry_of(word)))
                if outcomes[word]:
                    return
        in_threads(8, work)
        for word, problem in outcomes.items():
            print(bool(problem), word)
        problems = [problem for problem in outcomes.values() if problem]
        assert len(problems) == 8 and all("free space" in problem and "\\n" not in problem for problem in problems), problems
        print(end="", flush=True)  # what is still in the buffer would be cut off in the middle of a line
        os._exit(0)
        """,
    )
    told = [line.removeprefix("False ") for line in out.splitlines() if line.startswith("False ")]
    assert len(told) > 8
    run.resume()
    booked = Counter(run.booked())
    assert run.kept() >= set(told)
    assert set(booked) >= run.kept()
    assert set(booked.values()) == {1}


def test_a_book_that_can_not_be_written_for_a_while_gets_its_lines_later(run):
    """The cache takes the replies; their calls are booked with the next group, or by the next process."""
    play(
        run,
        """
        recorder.record(call_of("a"), entry_of("a"))
        limit(0)
        cache.put_texts = lambda *arguments: (limit(resource.RLIM_INFINITY), put(*arguments), limit(0))  # the disk of the cache
        put = ReplyCache.put_texts.__get__(cache)
        assert "can't write the record of calls" in fails(lambda: recorder.record(call_of("b"), entry_of("b")))
        assert "can't write the record of calls" in fails(lambda: recorder.record(call_of("c"), entry_of("c")))
        if sys.argv[3] == "mended":
            cache.put_texts = put
            limit(resource.RLIM_INFINITY)
            recorder.record(call_of("d"))
            recorder.close()
        os._exit(0)
        """,
        "mended",
    )
    assert (run.booked(), run.kept()) == (["a", "b", "c", "d"], {"a", "b", "c"})
    assert run.resume() == 1.0


def test_what_nobody_waited_for_and_failed_is_told_to_the_next_who_comes(run):
    out = play(
        run,
        """
        for action in (lambda: recorder.record(call_of("next")), recorder.flush, recorder.close):
            limit(0)
            recorder.record(call_of("late"), durable=False)
            while not recorder._late:
                time.sleep(0.01)
            limit(resource.RLIM_INFINITY)
            print(fails(action), flush=True)
            print(fails(lambda: recorder.record(call_of("more"))))
        """,
    )
    first, more, second, again, third, closed = out.splitlines()
    assert (more, again) == ("", "")
    assert all("can't write the record of calls" in line for line in (first, second, third))
    assert "is closed" in closed
    assert run.booked() == ["late", "more", "late", "more", "late"]


# ---- kill -9

STEADY = """
def work(thread):
    for number in range(100_000):
        word = f"{thread}/{number}"
        recorder.record(call_of(word), entry_of(word))
        os.write(1, (word + "\\n").encode())  # one write, whole lines
in_threads(20, work)
"""


@pytest.mark.parametrize("after", [1, 30, 150, 400])
def test_kill_9_at_any_moment_loses_nothing_that_was_told_and_books_every_reply_once(run, after):
    source = textwrap.dedent(FULL_DISK) + STEADY
    command = [sys.executable, "-c", source, str(Path(__file__).parent), str(run.folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(after)]
    time.sleep(random.random() / 100)
    process.send_signal(signal.SIGKILL)
    told += process.stdout.readlines()
    process.stdout.close()
    assert process.wait(60) == -signal.SIGKILL
    acknowledged = {line.strip() for line in told if line.endswith("\n")}
    assert len(acknowledged) >= after
    for _ in range(2):  # to resume twice changes nothing more
        spent_usd = run.resume()
        booked = Counter(run.booked())
        assert acknowledged <= run.kept() <= set(booked)
        assert set(booked.values()) == {1}
        assert spent_usd == 0.25 * len(booked)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_a_process_killed_between_cache_and_book_is_booked_by_the_next(run, share):
    """The most unlucky moments: the reply is committed, and its line in the book not, half, or wholly written."""
    source = textwrap.dedent(FULL_DISK) + textwrap.dedent(
        """
        recorder.record(call_of("a"), entry_of("a"))
        write = os.pwrite
        def die(descriptor, data, place):
            write(descriptor, data[: round(len(data) * float(sys.argv[3]))], place)
            os.kill(os.getpid(), signal.SIGKILL)
        os.pwrite = die
        recorder.record(call_of("b"), entry_of("b"))
        """
    )
    command = [sys.executable, "-c", source, str(Path(__file__).parent), str(run.folder), str(share)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert run.kept() == {"a", "b"}
    assert run.booked() == ["a", "b"][: 1 + (share == 1)]
    for _ in range(2):
        assert run.resume() == 0.5
        assert run.booked() == ["a", "b"]


def test_what_a_deleted_run_meant_to_book_is_not_booked_by_a_new_one_in_its_place(run):
    source = textwrap.dedent(FULL_DISK) + textwrap.dedent(
        """
        def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)
        os.pwrite = die
        recorder.record(call_of("a"), entry_of("a"))
        """
    )
    command = [sys.executable, "-c", source, str(Path(__file__).parent), str(run.folder)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    shutil.rmtree(run.folder)
    run.folder.mkdir()
    for _ in range(2):
        assert run.resume() == 0.0
        assert run.booked() == []


def test_a_clean_end_leaves_no_intent_behind(run):
    with ReplyCache(run.cache_path) as cache, CallBook(run.book_path) as book:
        with Recorder(cache, book) as recorder:
            recorder.record(call_of("a"), entry_of("a"))
            assert cache.intent(str(run.book_path.resolve())) is not None
        assert cache.intent(str(run.book_path.resolve())) is None


def test_two_runs_share_one_cache_and_keep_books_of_their_own(tmp_path):
    runs = [Run(tmp_path / name) for name in ("one", "two")]
    for run in runs:
        run.folder.mkdir()

    def work(number: int) -> None:
        run = runs[number]
        with ReplyCache(run.cache_path) as cache, CallBook(run.book_path) as book, Recorder(cache, book) as recorder:
            for place in range(20):
                recorder.record(call_of(f"{number} {place}"), entry_of(f"{number} {place}"))

    in_threads(2, work)
    assert [run.booked() for run in runs] == [[f"{number} {place}" for place in range(20)] for number in range(2)]
    assert len(runs[0].kept()) == 40
