"""Sweeps over the calls of a command: each in turn fails, and the command is given again."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktdeval.values import JsonValue, content_hash, sha256_hex
from support.faults.failing_calls import ERRORS, KINDS, Ended, FailingCalls, Fault, Kind

#: what SQLite says, which hides the code of an error; a page that can't be read is as one that is
#: damaged
SQLITE_SAYS: dict[Kind, tuple[str, ...]] = {
    "read": ("disk I/O error", "or its disk can't be read"),
    "write": ("database or disk is full", "disk I/O error; free space"),
    "sync": ("disk I/O error",),
}
Choice = Callable[[int], Iterable[int]]  #: which of so many calls of a kind fail in turn


@dataclass(frozen=True)
class Job:
    """A command in a folder, and what it makes there."""

    words: tuple[object, ...]
    #: writes what the command begins with into an empty folder
    prepare: Callable[[Path], object]
    #: what the command has made at its end
    made: Callable[[Path], Any]
    #: names what is broken after a command that failed; empty: nothing
    broken: Callable[[Path], str] = lambda _: ""


@dataclass
class Sweep:
    """What came of the faults of a job, by kind of call."""

    calls: dict[Kind, int]
    refused: Counter[Kind] = field(default_factory=Counter)  #: the command failed, and said why
    #: the command did its work all the same
    endured: Counter[Kind] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add_problem(self, fault: Fault, ended: Ended, problem: str) -> None:
        """Note what is wrong after a fault, unless it is empty."""
        if problem:
            self.problems.append(f"{fault}: {problem}: {ended.done}")

    def __str__(self) -> str:
        lines = [f"{'':8}{'calls':>6}{'refused':>9}{'endured':>9}"]
        for kind in KINDS:
            counts = (self.calls[kind], self.refused[kind], self.endured[kind])
            lines.append("{:8}{:>6}{:>9}{:>9}".format(kind, *counts))
        return "\n".join(lines)


def sweep(calls: FailingCalls, job: Job, root: Path, choice: Choice) -> Sweep:
    """Let calls of a job fail, each in a run of its own, and do the job again after each. `root`:
    folder of the job, which is made anew each time.
    """
    for _ in range(2):  # the first one fills caches beside the folder
        begin(job, root)
        whole = calls.run(job.words, root)
        assert whole.done.code == 0, whole.done

    made = job.made(root)
    found = Sweep(whole.counts)
    resumed: set[str] = set()  # hashes of what commands have left that was resumed
    for kind in KINDS:
        for nth in choice(whole.counts[kind]):
            fault = Fault(kind, nth)
            begin(job, root)
            ended = calls.run(job.words, root, fault)
            if not ended.failed:
                found.problems.append(f"{fault} was not met")
                continue

            if ended.done.code == 0:
                found.endured[kind] += 1
            else:
                found.refused[kind] += 1
                found.add_problem(fault, ended, why_unclear(ended, fault) or job.broken(root))
                left = left_in(root, with_contents=kind not in ("open", "read"))
                if left in resumed:
                    continue

                resumed.add(left)
                again = calls.run(job.words, root)
                if again.done.code != 0:
                    found.add_problem(fault, ended, f"not resumed: {again.done}")
                    continue

            if job.made(root) != made:
                found.add_problem(fault, ended, "its results differ")

    return found


def left_in(root: Path, *, with_contents: bool) -> str:
    """Return a hash of all files below a folder: of their contents, or of their sizes alone."""
    left: list[JsonValue] = []
    for name, data in files_of(root).items():
        left.append([name, sha256_hex(data) if with_contents else len(data)])
    return content_hash(left)


def begin(job: Job, root: Path) -> None:
    """Make the folder of a job anew."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    job.prepare(root)


def why_unclear(ended: Ended, fault: Fault) -> str:
    """Return why a command does not name the cause of its failure in one line; empty if it does."""
    *before, line = ended.done.err.splitlines() or [""]
    is_one = line.startswith("ktdeval: error: ") and ended.done.err.endswith("\n")
    # a worker says how far it has come, and what it goes on without
    if not is_one or not all(each.startswith(("worker ", "ktdeval: warning: ")) for each in before):
        return "not one line of an error"

    reasons = [os.strerror(ERRORS[fault.kind]), *SQLITE_SAYS.get(fault.kind, ())]
    if not any(reason in line for reason in reasons):
        return "the cause is not named"
    if fault.kind == "open" and "ulimit -n" not in line:
        return "the limit of open files is not named"
    return ""


def files_of(folder: Path) -> dict[str, bytes]:
    """The files below a folder, by their paths in it."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
