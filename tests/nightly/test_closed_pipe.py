"""Commands whose reader has gone, as of `ktdeval … | head`: they end quietly."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COMMANDS = [["list", "models"], ["--help"], ["list", "commands"], ["list", "tasks", "--json"]]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words))
def test_a_command_whose_reader_has_gone_ends_quietly_with_status_0(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # every write fails, at whatever speed
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ktdeval", *words],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (0, b"")
