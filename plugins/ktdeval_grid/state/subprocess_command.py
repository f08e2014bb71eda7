"""Commands of this ktdeval installation, for processes started by a grid."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

from ktdeval.cli import CommandStreams, ForkedCommand


def own_command(*words: str) -> list[str]:
    """Return a ktdeval command as a list of program and arguments.

    -P ensures that modules in the working folder are not imported.
    """
    return [sys.executable, "-P", "-m", "ktdeval", *words]


def run_forked(words: Sequence[str], content: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a forked child process with the given standard input, and wait for it to
    end.
    """
    # Files are used, since a pipe that nobody reads could fill up.
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(content)
        given.seek(0)
        streams = CommandStreams(given.fileno(), out.fileno(), err.fileno())
        code = ForkedCommand(words, streams).wait()
        return subprocess.CompletedProcess(words, code, _read_output(out), _read_output(err))


def _read_output(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()
