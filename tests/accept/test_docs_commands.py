"""Every command in docs/*.md and the README, as it stands there but for placeholders and length, on the embedded
market; or the reason why not.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from ktdeval.cli.main import main
from support.docs.docs_prose import AUTHOR_PAGES, commands_in_tables
from support.paths import REPOSITORY
from support.tables import beside

#: Without the pages for authors, which tests/contract/test_author_path.py runs
PAGES = [
    page
    for page in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    if page not in {REPOSITORY / author_page for author_page in AUTHOR_PAGES}
]
COMMAND = re.compile(r"(?:    |\$ )?(ktdeval .*)")
PLACEHOLDERS = beside(__file__)["placeholders"]
REASONS = dict(beside(__file__)["reasons"])


def commands(page: Path) -> list[str]:
    """Commands of a page without `ktdeval` and comments, with placeholders filled in."""
    found = []
    text = re.sub(r" *\\\n *", " ", page.read_text(encoding="utf-8"))
    for line in [*text.splitlines(), *commands_in_tables(text)]:
        if match := COMMAND.fullmatch(line):
            command = re.split(r"\s+#|\s{3,}", match[1])[0].removeprefix("ktdeval ").strip()
            for pattern, instead in PLACEHOLDERS:
                command = re.sub(pattern, instead, command)

            found.append(command)

    return found


def reason(command: str) -> str:
    return next((why for pattern, why in REASONS.items() if re.search(pattern, command)), "")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three short runs, of two models and two masks."""
    folder = tmp_path_factory.mktemp("runs")
    for name, words in {
        "run-a": "--model builtin/momentum --tasks blinded_open_research",
        "run-b": "--model builtin/reversal --tasks blinded_open_research",
        "run-c": "--model builtin/momentum --tasks bright_open_research",
    }.items():
        briefly = f"--windows W1,W2 --limit 3 --quiet --out {folder}/{name}"
        assert main([*words.split(), *briefly.split()]) == 0

    return folder


def runnable() -> Iterator[tuple[Path, list[str]]]:
    """Pages with the commands that stand on none before."""
    seen: set[str] = set()
    for page in PAGES:
        new = [
            each for each in dict.fromkeys(commands(page)) if not reason(each) and each not in seen
        ]
        seen.update(new)
        if new:
            yield page, new


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("page", "new"), [pytest.param(*each, id=each[0].stem) for each in runnable()]
)
def test_the_commands_of_a_page_run(
    page: Path,
    new: list[str],
    runs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)

    for command in new:
        words = shlex.split(command.partition(" > ")[0])
        if words[0].startswith("--model") or words[0] == "run":
            words += [] if "--limit" in words else ["--limit", "2"]
            words += (
                ["--windows", "W1"]
                if any("open_research" in word for word in words) and "--windows" not in words
                else []
            )

        assert main(words) == 0, f"{page.name}: ktdeval {command}: {capsys.readouterr().err[-300:]}"


def test_each_reason_is_that_of_a_command() -> None:
    every = list(chain.from_iterable(commands(page) for page in PAGES))
    assert len(every) > 80
    for pattern in REASONS:
        assert any(re.search(pattern, each) for each in every), pattern
