"""The command line: help of each command, what usual commands print, and how bad input is refused.

Each file of `command_line` is a session: a line `$ WORDS` for each command, below it the exit code
and what it prints. Commands of one file run in one folder, one after the other. `python
tests/boundary/test_command_line.py [NAME…]` runs them again and writes what they print now.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from outside import command

FOLDER = Path(__file__).with_name("command_line")
PROMPT = "$ ktdeval "
MAX_LINES = 12  #: of what a usual command prints
#: what differs from one machine or day to the next
VARIABLE = [
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "MOMENT"),
    (r"\b\d+(\.\d+)? ?(s|ms|kB|MB|GB)\b", "AMOUNT"),
    (r"\b[0-9a-f]{40,}\b", "HASH"),
    (r"(?<=-)[0-9a-f]{8}\b", "ID"),
    (r"Python 3\.\d+(\.\d+)?", "PYTHON"),
    (r"(?<=, )[\d,]+ bytes\b", "AMOUNT"),
    # at the end of a row of `files list`: compressed records hold times of calls
    (r"(?m)(?<= )\d+,\d{3}$", "AMOUNT"),
]
QUICK = ("help", "refused")
SLOW = ("usual",)


def words_of(name: str) -> list[str]:
    """Return the commands of a session."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    return [line.removeprefix(PROMPT) for line in text.splitlines() if line.startswith(PROMPT)]


def played(name: str, folder: Path) -> Iterator[str]:
    """Run the commands of a session in a folder; yield what stands in its file for each."""
    for words in words_of(name):
        done = command(*shlex.split(words), cwd=folder)
        lines = done.out.splitlines()
        if name == "usual":
            lines = lines[:MAX_LINES]

        printed = "\n".join([f"{PROMPT}{words}", f"exit code {done.code}", *lines])
        told = "".join(f"! {line}\n" for line in done.err.splitlines())
        yield _constant(f"{printed}\n{told}\n", folder)


def _constant(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "HERE")
    for pattern, word in VARIABLE:
        text = re.sub(pattern, word, text)

    return "\n".join(line.rstrip() for line in text.split("\n"))


def compare(name: str, folder: Path) -> None:
    """Compare a session with its file."""
    expected = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    found = list(played(name, folder))
    assert "".join(found) == expected


@pytest.mark.parametrize("name", QUICK)
def test_a_command_answers_as_recorded(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_usual_commands_print_what_is_recorded(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path)


if __name__ == "__main__":
    for each in sys.argv[1:] or [*QUICK, *SLOW]:
        with TemporaryDirectory() as place:
            text = "".join(played(each, Path(place).resolve()))
            (FOLDER / f"{each}.txt").write_text(text, encoding="utf-8")
