"""Python programs that are killed at a point that they choose: they say so, and then wait for what
never comes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAUSE = "print('here', flush=True); import sys; sys.stdin.read()"
"""Statement at which a program waits: until it is killed, or its input ends."""


@contextmanager
def paused(program: str, cwd: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program to its first `PAUSE`, where it is for the length of the block; then let it
    end.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=cwd,
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    assert process.stdout is not None

    try:
        line = process.stdout.readline()
        assert line == "here\n", f"the program ended before its pause: {line}"
        yield process
    finally:
        process.communicate()


def killed(program: str, cwd: Path, **environment: str) -> None:
    """Run a program to its first `PAUSE`, and kill it there without a warning."""
    with paused(program, cwd, **environment) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()

    assert process.returncode == -signal.SIGKILL
