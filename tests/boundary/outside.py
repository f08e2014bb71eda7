"""ktdeval as somebody outside sees it: words on a command line, what they print, and the exit
code.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import zstandard

WIDTH = "120"  #: of the terminal


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str


def command(*words: object, cwd: Path) -> Done:
    """Run `ktdeval WORDS` in a folder, in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n") for _ in range(2))
    with _as_process_of(cwd, words), redirect_stdout(out), redirect_stderr(err):
        code = _run()

    return Done(code, _text(out), _text(err))


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read a compressed file of a run that holds a record of JSON a line."""
    with zstandard.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        return list(map(json.loads, lines))


def _run() -> int:
    (script,) = entry_points(group="console_scripts", name="ktdeval")
    try:
        return int(script.load()())
    except SystemExit as end:
        return int(end.code or 0)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    data = stream.buffer.getvalue()  # type: ignore[attr-defined]
    return str(data.decode("utf-8"))


@contextmanager
def _as_process_of(cwd: Path, words: tuple[object, ...]) -> Iterator[None]:
    """Folder, arguments and variables of a process for the while."""
    environment = dict(os.environ)
    arguments, sys.argv = sys.argv, ["ktdeval", *map(str, words)]
    hook = sys.excepthook
    os.environ["COLUMNS"] = WIDTH

    try:
        with chdir(cwd):
            yield
    finally:
        sys.argv = arguments
        sys.excepthook = hook
        os.environ.clear()
        os.environ.update(environment)
