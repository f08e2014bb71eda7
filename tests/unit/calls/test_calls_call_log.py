"""Record of a run's calls: what it says is on disk is on disk, a call and its reply are one, and
sums are over all of them.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktdeval.calls.costs.prices import Price
from ktdeval.calls.records.call_log import LOG_FILE, CallLog, read_calls
from ktdeval.calls.records.database import CallDatabase
from ktdeval.calls.records.record import CACHED, CallRecord, Spent
from ktdeval.errors import StoreError
from ktdeval.harness.chat_messages import Reply, ToolCall, Usage
from ktdeval.values import sha256_hex
from support.paths import TESTS
from support.providers.call_runs import AT, Run, call_of, entry_of
from support.threads import in_threads

PAID = CallRecord(
    AT, "e1", "0123456789abcdef", "answered", 1, 2.5, Usage(100, 20, 5, 60, 7), 0.25, 0.0, "m"
)
FAILED = CallRecord(AT, "e1", "0123456789abcdef", "timeout", 2, 120.0, held_usd=0.5)
UNPRICED = msgspec.structs.replace(PAID, attempt=3, cost_usd=None)
FROM_CACHE = msgspec.structs.replace(PAID, outcome=CACHED, cost_usd=0.0)
CUT = msgspec.structs.replace(
    PAID, reply=Reply("ha", (ToolCall("1", "f", "{\ud800"),), "length", Usage(100, 20, 5, 60, 7))
)
RECORDS = [PAID, FAILED, UNPRICED, FROM_CACHE, CUT]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


@pytest.fixture
def log(run: Run) -> Iterator[CallLog]:
    with CallDatabase(run.cache_path) as cache, CallLog(run.folder, cache) as opened:
        yield opened


# ---- what goes in comes out


def test_records_return_in_order_and_unchanged_with_sums_over_all_sessions(run):
    for records in (RECORDS[:2], RECORDS[2:]):
        with CallLog(run.folder) as log:
            for record in records:
                log.record(record)

    assert list(read_calls(run.folder)) == RECORDS

    with CallLog(run.folder) as log:
        resumed = log.resume(None)
        assert resumed.spent == Spent(0.5, 0.5, 300, 60)
        assert (resumed.was_answered, resumed.kept) == (True, {("e1", CUT.key): CUT.reply})
        # what was paid without a known price counts at today's
        assert log.resume(Price(1e6, 0.0)).spent.cost_usd == 100.5


def test_unwritable_name_text_is_replaced_and_non_finite_numbers_raise(log, run):
    for wrong in (
        {"cost_usd": float("nan")},
        {"latency_s": float("inf")},
        {"held_usd": float("nan")},
    ):
        with pytest.raises(ValueError, match="not finite"):
            log.record(call_of("a", **wrong), entry_of("a"))

    log.record(call_of("b", served_by="m\ud800\n模型"), entry_of("b"))

    assert (run.recorded(), run.stored_replies(), run.shared()) == (["b"], {"b"}, {"b"})
    assert [record.served_by for record in read_calls(run.folder)] == ["m?\n模型"]


# ---- durable means on disk


def test_flush_and_close_write_pending_records(log, run):
    log.flush()  # nothing yet
    log.record(call_of("a"), entry_of("a"), durable=False)
    log.flush()

    assert (run.recorded(), run.stored_replies()) == (["a"], {"a"})

    log.flush()
    log.record(call_of("b"), durable=False)
    log.close()

    assert run.recorded() == ["a", "b"]

    log.close()

    for action in (lambda: log.record(call_of("c")), log.flush):
        with pytest.raises(StoreError, match=r"calls\.sqlite: the record of calls is closed"):
            action()


def test_an_episode_settles_with_its_own_calls_on_disk(log, run):
    log.settle("a")  # nothing yet
    log.record(call_of("a"), entry_of("a"), durable=False)
    log.settle("a")

    assert (run.recorded(), run.stored_replies()) == (["a"], {"a"})

    log.record(call_of("a"), durable=False)
    log.record(call_of("b"), durable=False)
    log.settle("a")

    assert run.recorded() == ["a", "a", "b"]


def test_an_episode_whose_calls_could_not_be_written_fails_until_they_are(run, monkeypatch):
    with CallLog(run.folder) as log:
        with monkeypatch.context() as full:
            full.setattr(
                CallDatabase, "write", lambda *_: (_ for _ in ()).throw(StoreError("full"))
            )
            log.record(call_of("a"), durable=False)
            for _ in range(2):
                with pytest.raises(StoreError, match="full"):
                    log.settle("a")

        log.record(call_of("b"))
        log.settle("a")

        assert run.recorded() == ["a", "b"]


@pytest.mark.exhaustive
def test_fifty_threads_lose_nothing_and_share_the_syncs_of_the_disk(run, monkeypatch):
    """On a disk that takes 10 ms for a transaction, 500 records one by one would take 5 s."""
    writes = []
    write = CallDatabase.write

    def slow_write(database: CallDatabase, *rows: Any) -> None:
        time.sleep(0.01)
        write(database, *rows)
        writes.append(database.path)

    monkeypatch.setattr(CallDatabase, "write", slow_write)
    with CallLog(run.folder) as log:

        def work(thread: int) -> None:
            for number in range(10):
                log.record(call_of((thread, number)), entry_of((thread, number)))
                assert log.reply(sha256_hex(str((thread, number)))) is not None

        assert in_threads(50, work) == [None] * 50
        assert log.resume(None).spent.input_tokens == 5_000

    words = [str((thread, number)) for thread in range(50) for number in range(10)]

    assert sorted(run.recorded()) == sorted(words)
    assert run.stored_replies() == set(words)
    assert len(writes) < 250


# ---- errors

SECOND_PROCESS = """
import os, resource, signal, sys, time
from pathlib import Path
from ktdeval.calls.records.call_log import CallLog
from ktdeval.calls.records.database import CallDatabase
from ktdeval.errors import StoreError
sys.path[:0] = sys.argv[2].split(os.pathsep)
from support.providers.call_runs import Run, call_of, entry_of
from support.threads import in_threads

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
run = Run(Path(sys.argv[1]))
cache = CallDatabase(run.cache_path)
log = CallLog(run.folder, cache)

def limit(most):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

def fails(action):
    try:
        action()
    except StoreError as error:
        return str(error)
    return ""
"""


def second_process(run: Run, program: str) -> subprocess.Popen[str]:
    """A second process that has the log of `run` open."""
    source = SECOND_PROCESS + textwrap.dedent(program)
    command = [
        sys.executable,
        "-c",
        source,
        str(run.folder),
        str(TESTS),
    ]

    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def play(run: Run, program: str) -> str:
    """What the second process prints."""
    out, err = second_process(run, program).communicate(timeout=240)
    assert err == ""
    return out


@pytest.mark.exhaustive
def test_full_disk_fails_waiting_threads_and_keeps_acknowledged_records(run):
    out = play(
        run,
        """
        limit(400_000)
        outcomes = {}
        def work(thread):
            for number in range(200):
                word = f"{thread} {number} " + os.urandom(500).hex()
                outcomes[word] = fails(lambda: log.record(call_of(word), entry_of(word)))
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
    acknowledged = [
        line.removeprefix("False ") for line in out.splitlines() if line.startswith("False ")
    ]

    assert len(acknowledged) > 8

    recorded = Counter(run.recorded())
    assert set(recorded) >= run.stored_replies() >= set(acknowledged)
    assert set(recorded.values()) == {1}


@pytest.mark.exhaustive
def test_a_record_that_can_not_be_written_for_a_while_gets_its_calls_later(run):
    play(
        run,
        """
        log.record(call_of("a"), entry_of("a"))
        limit(0)
        for word in "bc":
            assert "calls.sqlite: record of calls: " in fails(lambda: log.record(call_of(word), entry_of(word)))
        limit(resource.RLIM_INFINITY)
        log.record(call_of("d"))
        log.close()
        """,
    )

    assert (run.recorded(), run.stored_replies(), run.shared()) == (
        ["a", "b", "c", "d"],
        {"a", "b", "c"},
        {"a", "b", "c"},
    )


def test_a_shared_cache_that_fails_is_an_error_and_the_run_has_its_reply(run, monkeypatch):
    with (
        CallDatabase(run.cache_path) as cache,
        CallLog(run.folder, cache) as log,
        monkeypatch.context() as patched,
    ):
        patched.setattr(
            cache, "write", lambda *_: (_ for _ in ()).throw(StoreError("replies.sqlite: full"))
        )
        with pytest.raises(StoreError, match="full"):
            log.record(call_of("a"), entry_of("a"))

    assert (run.recorded(), run.stored_replies(), run.shared()) == (["a"], {"a"}, set())


@pytest.mark.exhaustive
def test_unwritten_background_record_is_written_with_the_next_or_at_close(
    run,
):
    out = play(
        run,
        """
        for number, action in enumerate((lambda: log.record(call_of("next")), log.flush, log.close)):
            limit(0)
            log.record(call_of("late"), durable=False)
            print(fails(log.flush), flush=True)
            limit(resource.RLIM_INFINITY)
            print(fails(action), flush=True)
            print(fails(lambda: log.record(call_of("more"))))
        """,
    )
    report, following, more, *others = out.splitlines()

    assert "record of calls: " in report
    assert (following, more) == ("", "")
    # `flush` tries again, and so does `close`
    assert others[:5] == [report, "", "", report, ""]
    assert "is closed" in others[5]
    assert run.recorded() == ["late", "next", "more", "late", "more", "late"]


def test_a_place_that_can_not_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "taken" / LOG_FILE).mkdir(parents=True)
    for folder in (tmp_path / "file", tmp_path / "taken"):
        with pytest.raises(
            StoreError,
            match=r"calls\.sqlite: record of calls: .* choose another run folder with --out",
        ) as caught:
            CallLog(folder)

        assert "\n" not in str(caught.value)


# ---- records that are damaged, and those of older runs


@pytest.mark.parametrize(
    "change",
    [
        "attempt = 'many'",
        "held_usd = 'much'",
        "input_tokens = 1.5",
        "outcome = X'00'",
        "reply = X'7B7D'",
        "reply = X'FF'",
        "reply = 1",
    ],
)
def test_a_row_that_is_not_a_call_is_an_error_that_names_it(run, change):
    with CallLog(run.folder) as log:
        for record in RECORDS[:2]:
            log.record(record)

    with sqlite3.connect(run.folder / LOG_FILE) as file:
        file.execute(f"UPDATE calls SET {change} WHERE number = 2")

    file.close()
    with pytest.raises(
        StoreError, match=r"calls\.sqlite: call 2: not a valid record of a call: "
    ) as caught:
        list(read_calls(run.folder))

    assert "\n" not in str(caught.value)

    with CallLog(run.folder) as log, pytest.raises(StoreError, match="call 2"):
        log.resume(None)


# ---- kill -9


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 200])
def test_kill_9_loses_no_acknowledged_record_and_repeats_no_reply(run, after):
    steady = """
    def work(thread):
        for number in range(100_000):
            word = f"{thread}/{number}"
            log.record(call_of(word), entry_of(word))
            os.write(1, (word + "\\n").encode())  # one write, whole lines
    in_threads(20, work)
    """
    process = second_process(run, steady)

    assert process.stdout is not None

    lines = [process.stdout.readline() for _ in range(after)]
    time.sleep(random.random() / 100)
    process.send_signal(signal.SIGKILL)
    lines += process.communicate(timeout=240)[0].splitlines(keepends=True)

    assert process.returncode == -signal.SIGKILL

    acknowledged = {line.strip() for line in lines if line.endswith("\n")}
    assert len(acknowledged) >= after

    for _ in range(2):  # to resume twice changes nothing more
        with CallDatabase(run.cache_path) as cache, CallLog(run.folder, cache) as log:
            recorded = Counter(run.recorded())
            # a call and its reply: both or neither
            assert acknowledged <= run.stored_replies() == set(recorded)
            assert set(recorded.values()) == {1}
            assert log.resume(None).spent.cost_usd == 0.25 * len(recorded)
            assert all(log.reply(sha256_hex(word)) is not None for word in recorded)

    assert run.shared() == run.stored_replies()


@pytest.mark.slow
def test_reply_unshared_at_a_kill_is_kept_and_shared_on_resume(
    run,
):
    process = second_process(
        run,
        """
        cache.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        log.record(call_of("a"), entry_of("a"))
        """,
    )
    process.communicate(timeout=240)

    assert process.returncode == -signal.SIGKILL
    assert (run.recorded(), run.stored_replies(), run.shared()) == (["a"], {"a"}, set())

    with CallDatabase(run.cache_path) as cache, CallLog(run.folder, cache) as log:
        assert log.resume(None).spent.cost_usd == 0.25
        assert log.reply(sha256_hex("a")) == entry_of("a").reply

    assert run.shared() == {"a"}
