"""Texts use the new words of commands; only the table of what moved names the old ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ktdeval.cli.moved import moved_words
from support.paths import REPOSITORY

#: What names old words on purpose
TABLES = (
    "CHANGELOG.md",
    "docs/packages/changelog.md",
    "docs/reference/commands.md",
    "tests/support/docs/docs_reference.py",
    "ktdeval/cli/moved.csv",
)
#: Data cards of tasks, which enter cards: they change with the next version of their task
DATA_CARDS = re.compile(r"tasks/ktdeval_\w+/\w+\.yaml\Z")
RECORDED = ("tests/oracle/", "leaderboards/practice/")
OF_THIS_TEST = "tests/contract/test_moved_words.py"
SUFFIXES = {".cfg", ".css", ".csv", ".html", ".j2", ".js", ".json", ".md", ".py", ".sh", ".toml"}
SUFFIXES |= {".txt", ".yaml", ".yml"}


def old_words() -> re.Pattern[str]:
    longest_first = sorted((" ".join(words) for words in moved_words()), key=len, reverse=True)
    return re.compile(rf"ktdeval (?:{'|'.join(map(re.escape, longest_first))})(?![\w./-])")


def texts() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )

    if listed.returncode:
        pytest.skip("this is no git checkout")

    found = []
    for name in listed.stdout.splitlines():
        is_text = Path(name).suffix in SUFFIXES and (REPOSITORY / name).is_file()
        is_exempt = (
            name in (*TABLES, OF_THIS_TEST) or name.startswith(RECORDED) or DATA_CARDS.match(name)
        )
        if is_text and not is_exempt:
            found.append(name)

    return found


@pytest.mark.slow
def test_no_text_uses_words_that_moved() -> None:
    pattern = old_words()
    found = {}
    for name in texts():
        used = pattern.search((REPOSITORY / name).read_text(encoding="utf-8"))
        if used is not None:
            found[name] = used[0]

    assert found == {}, "write the new words (ktdeval/cli/moved.csv)"
