"""Tests that are played in a forked process, one mutant at a time.

The parent has collected tests and run none: no fixture, cache or thread is shared between mutants.
"""

from __future__ import annotations

import json
import math
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

from mutant_hook import Switch

MAX_SECONDS = 300.0  # of a test without a limit of its own


@dataclass(frozen=True)
class Played:
    """What a test did in a forked process."""

    test: str
    is_passed: bool
    seconds: float
    reached: tuple[int, ...]  # mutants


def play(
    items: Sequence[pytest.Item],
    switch: Switch,
    active: int | None,
    limits: Mapping[str, float],
) -> Generator[Played, None, None]:
    """Yield what tests do while a mutant is active, in their order.

    A test that takes longer than its limit, in seconds, or ends the process, is the last one and
    does not pass.
    """
    folder = Path(tempfile.mkdtemp(prefix="ktdeval-mutant-"))
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _serve(items, switch, active, folder, writer)

    os.close(writer)
    with suppress(OSError):
        os.setpgid(pid, pid)
    try:
        yield from _read(reader, limits)
    finally:
        os.close(reader)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        shutil.rmtree(folder, ignore_errors=True)


def _serve(
    items: Sequence[pytest.Item], switch: Switch, active: int | None, folder: Path, writer: int
) -> None:
    try:
        os.setpgid(0, 0)
        _use(folder)
        switch.set(active, folder)
        for index, item in enumerate(items):
            _say(writer, test=item.nodeid)
            following = items[index + 1] if index + 1 < len(items) else None
            reports = runtestprotocol(item, nextitem=following, log=False)
            _say(
                writer,
                test=item.nodeid,
                is_passed=not any(report.failed for report in reports),
                seconds=math.fsum(report.duration for report in reports),
                reached=switch.take(),
            )
    finally:
        os._exit(0)


def _use(folder: Path) -> None:
    """Keep all files of this process in a folder of its own, and find no smaller examples."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    os.environ["KTDEVAL_CACHE_DIR"] = str(folder / "cache")
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", hypothesis.settings.default, phases=phases)
    hypothesis.settings.load_profile("mutants")


def _say(writer: int, **values: object) -> None:
    line = json.dumps(values).encode() + b"\n"
    while line:
        line = line[os.write(writer, line) :]


def _read(reader: int, limits: Mapping[str, float]) -> Iterator[Played]:
    running = None
    begun = time.monotonic()
    messages = _Messages(reader, begun + MAX_SECONDS)
    for values in messages:
        if "is_passed" in values:
            running = None
            yield Played(**{**values, "reached": tuple(values["reached"])})
        else:
            running = values["test"]
            begun = time.monotonic()
            messages.until = begun + limits.get(running, MAX_SECONDS)

    if running is not None:
        yield Played(running, False, time.monotonic() - begun, ())


@dataclass
class _Messages:
    """Messages of a process, until it ends or a moment is past."""

    reader: int
    until: float

    def __iter__(self) -> Iterator[dict[str, Any]]:
        rest = b""
        while chunk := self._chunk():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)

    def _chunk(self) -> bytes:
        seconds = max(0.0, self.until - time.monotonic())
        ready, _, _ = select.select([self.reader], [], [], seconds)
        return os.read(self.reader, 65536) if ready else b""
