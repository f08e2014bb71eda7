"""Commands and calls in forks of this process: what they print, how they end, and what is kept apart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ktdeval.cli import (
    CommandStreams,
    ForkedCall,
    ForkedCommand,
    can_fork,
    cores,
    forked_command,
)

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="forks are used on Linux alone"),
    pytest.mark.usefixtures("alone"),
]


def forked(folder: Path, *words: str, **fields: object) -> tuple[int, str, str]:
    """Exit code and output of a command in a fork."""
    out = folder / "out"
    err = folder / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr, open(os.devnull, "rb") as nothing:
        streams = CommandStreams(nothing.fileno(), stdout.fileno(), stderr.fileno(), **fields)
        code = ForkedCommand(words, streams).wait()

    return code, out.read_text(), err.read_text()


@pytest.mark.slow
def test_a_forked_command_prints_what_a_new_process_prints(tmp_path: Path) -> None:
    new = subprocess.run(
        [sys.executable, "-m", "ktdeval", "--version"], capture_output=True, text=True, check=True
    )

    assert forked(tmp_path, "--version") == (0, new.stdout, new.stderr)


def test_a_forked_command_that_fails_ends_with_its_code_and_one_line(tmp_path: Path) -> None:
    code, out, err = forked(tmp_path, "list", "nothing-of-that-name")

    assert (code, out) == (2, "")
    assert err.startswith("ktdeval: error: ")
    assert err.count("\n") == 1


def test_a_command_that_waits_begins_after_a_byte_and_never_without_one(tmp_path: Path) -> None:
    for byte, printed in ((b"1", True), (b"", False)):
        reading, writing = os.pipe()
        os.write(writing, byte)
        os.close(writing)

        code, out, _ = forked(tmp_path, "--version", begins_after=reading)
        os.close(reading)

        assert code == 0
        assert bool(out) is printed


def test_a_killed_command_has_the_signal_as_its_code(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with (tmp_path / "log").open("wb") as log:
        number = log.fileno()
        streams = CommandStreams(number, number, number, (writing,), begins_after=reading)
        command = ForkedCommand(["--version"], streams)

    assert command.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        command.wait(0.0)

    command.kill()

    assert command.wait() == -signal.SIGKILL
    os.close(reading)
    os.close(writing)


def test_a_process_with_a_second_thread_does_not_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_fork()

    monkeypatch.setattr(forked_command.threading, "active_count", lambda: 2)

    assert not can_fork()
    assert threading.main_thread().is_alive()


def test_forked_call_returns_its_result_and_leaves_this_process_unchanged() -> None:
    seen: list[int] = []

    def call() -> int:
        seen.append(os.getpid())
        return os.getpid()

    assert ForkedCall(call).result() != os.getpid()
    assert seen == []


def test_a_call_that_fails_in_a_fork_is_made_here_and_raises_there_too() -> None:
    def fail() -> int:
        raise ValueError("no")

    call = ForkedCall(fail)

    with pytest.raises(ValueError, match=r"^no$"):
        call.result()


def test_this_process_has_at_least_one_core() -> None:
    assert cores() >= 1
