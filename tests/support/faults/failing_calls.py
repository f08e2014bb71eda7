"""Commands in which the n-th open, read, write, sync or rename below a folder fails, as the calls of
the system that SQLite and Arrow make, too (`failing_calls.c`); or which may open few files.

A command is a fork of a server that has imported what commands need, as in `run_support`.
"""

from __future__ import annotations

import errno
import gc
import importlib
import json
import mmap
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from support.paths import TESTS
from support.runs.run_support import PRELOADED, Done

Kind = Literal["open", "read", "write", "sync", "rename"]
KINDS: tuple[Kind, ...] = ("open", "read", "write", "sync", "rename")
ERRORS: dict[Kind, int] = {
    "open": errno.EMFILE,
    "read": errno.EIO,
    "write": errno.ENOSPC,
    "sync": errno.EIO,
    "rename": errno.EACCES,
}
#: a process at its limit of open files, or a disk that is full, stays so for a while
LASTING: frozenset[Kind] = frozenset({"open", "write"})

MAX_SECONDS = 60
_FIELDS = struct.Struct("=5q5q1024s")  # those of `struct shared`


@dataclass(frozen=True)
class Fault:
    """A call that fails: the `nth` of a kind, from 1, and all later ones of a lasting kind."""

    kind: Kind
    nth: int


@dataclass(frozen=True)
class Ended:
    """How a command ended, its calls by kind, and how many of them failed."""

    done: Done
    counts: dict[Kind, int]
    failed: int


def why_not() -> str:
    """Return why no call can be made to fail here; empty if it can."""
    if not sys.platform.startswith("linux"):
        return "calls of the system are made to fail on Linux alone"
    if shutil.which("cc") is None:
        return "needs a C compiler (cc), which is not here"
    return ""


class FailingCalls:
    """A server of commands, whose files of its own are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        library = folder / "failing_calls.so"
        source = Path(__file__).with_suffix(".c")
        words = ["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]
        subprocess.run(words, check=True)

        shared = folder / "shared"
        shared.write_bytes(bytes(_FIELDS.size))
        with shared.open("r+b") as stream:
            self._shared = mmap.mmap(stream.fileno(), _FIELDS.size)

        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
            "LD_PRELOAD": str(library),
            "FAILING_CALLS": str(shared),
        }
        self._server = subprocess.Popen(
            [sys.executable, "-m", "support.faults.failing_calls"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()
        self._shared.close()

    def run(
        self,
        words: Sequence[object],
        root: Path,
        fault: Fault | None = None,
        max_open_files: int | None = None,
    ) -> Ended:
        """Run `ktdeval WORDS` in the folder `root`, on whose files calls are counted and fail."""
        fields = [-1, 0, 0, 0, 0]
        if fault is not None:
            is_lasting = fault.kind in LASTING
            fields = [KINDS.index(fault.kind), fault.nth, ERRORS[fault.kind], is_lasting, 0]
        self._shared[:] = _FIELDS.pack(*fields, *[0] * len(KINDS), str(root).encode())

        code = self._ask(
            words=list(map(str, words)),
            cwd=str(root),
            out=str(self._folder / "out"),
            err=str(self._folder / "err"),
            modules=str(self._folder / "modules"),
            max_open_files=max_open_files,
        )
        out, err = ((self._folder / name).read_text() for name in ("out", "err"))
        found = _FIELDS.unpack(self._shared[:])
        counts = dict(zip(KINDS, found[5:10], strict=True))
        return Ended(Done(code, out, err), counts, found[4])

    def _ask(self, **values: object) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(values) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


def _serve() -> None:
    """Run commands, one a line, each in a fork; print how each has ended."""
    for name in PRELOADED:
        importlib.import_module(name)

    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _command(asked)
        _, status = os.waitpid(pid, 0)
        _import_what_it_did(Path(asked["modules"]))
        print(os.waitstatus_to_exitcode(status), flush=True)


def _import_what_it_did(names: Path) -> None:
    """Import the modules that a command has imported, for those that follow."""
    if not names.exists():
        return

    for name in names.read_text().splitlines():
        with suppress(ImportError):
            importlib.import_module(name)
    names.unlink()
    gc.freeze()  # a collection in a child would copy the pages of all that it looks at


def _command(asked: dict[str, Any]) -> None:
    """The life of a command, in its process."""
    from ktdeval.cli.main import main

    signal.alarm(MAX_SECONDS)
    os.environ["COLUMNS"] = "120"
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    os.chdir(asked["cwd"])
    if asked["max_open_files"] is not None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (asked["max_open_files"], most))

    before = set(sys.modules)
    code = main(asked["words"])
    if code == 0:
        Path(asked["modules"]).write_text("\n".join(sorted(set(sys.modules) - before)))
    sys.exit(code)


if __name__ == "__main__":
    _serve()
