"""`ktdeval --help` and `ktdeval list tasks` start within their limits, in processor time."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

ROUNDS = 3  # the least counts: the first one may compile modules


@pytest.mark.slow
@pytest.mark.parametrize(("words", "limit_s"), [("--help", 0.4), ("list tasks", 0.8)])
def test_the_command_line_starts_within_its_limit(words: str, limit_s: float) -> None:
    assert min(cpu_s(words) for _ in range(ROUNDS)) <= limit_s


def cpu_s(words: str) -> float:
    """Processor time of a command, in seconds."""
    before = waited_s()
    subprocess.run(
        [sys.executable, "-m", "ktdeval", *words.split()], capture_output=True, check=True
    )
    return waited_s() - before


def waited_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
