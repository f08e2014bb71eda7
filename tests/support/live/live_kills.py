"""Steps of forward tests that are killed while they do something, alone or with all they started."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from ktdeval_live.record.chain import Decided, DecisionKey
from support.live.live_drops import Drops
from support.providers.stub_provider import Stub
from support.runs.run_support import Running

Reached = Callable[[], bool]


def _grows(count: Callable[[], int]) -> Reached:
    """Return whether a count has grown since now."""
    before = count()
    return lambda: count() > before


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _decided(drops: Drops) -> int:
    return sum(isinstance(link.body, Decided) for link in drops.folder.chain().entries)


def stages(drops: Drops, stub: Stub, day: str) -> dict[str, Callable[[], Reached]]:
    """Return what a step does on a day, in its order: for each a function that is called before the
    step starts, and returns a condition that holds once the step is there.
    """
    path = drops.path
    git = path / ".git"
    record = drops.folder.record_path(DecisionKey("asked", "us", day), private=True)

    return {
        "freeze": lambda: _grows(lambda: _lines(path / "chain.jsonl")),
        "commit of data": lambda: lambda: (git / "index.lock").exists(),
        "publish of data": lambda: _grows(lambda: _lines(path / "published.jsonl")),
        "ask": lambda: _grows(lambda: len(stub.requests)),
        "reply": lambda: _grows(lambda: stub.answers),
        "second reply": lambda: _grows(lambda: stub.answers),
        "record": lambda: record.exists,
        "commit": lambda: _grows(lambda: _decided(drops)),
        "publish": lambda: _grows(lambda: _lines(path / "published.jsonl")),
        "reveal": lambda: _grows(lambda: len(list((path / "records").rglob("*.json")))),
    }


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes below a process."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text("utf-8", "replace").rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])

    above = {pid}
    while above:
        above = {child for child, parent in parents.items() if parent in above}
        yield from above


def kill(process: Running, with_children: bool) -> bool:
    """Kill a step without a warning, alone or with what it started, and wait for its end; False
    where it had ended before.
    """
    pids = [process.pid]

    if with_children:
        pids += descendants(process.pid)

    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    return process.wait().code == -signal.SIGKILL


def asking_processes(drops: Drops) -> list[int]:
    """Return the processes that ask for a test now."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"ask" in words and str(drops.path).encode() in words:
                found.append(int(path.parent.name))

    return found
