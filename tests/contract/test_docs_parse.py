"""Every command of a page parses: options exist, required ones are given, values fit. That holds for
those that no test runs, too, whatever language their block is marked with.

Chinese pages have the blocks of the English ones (`test_two_languages`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import click
import pytest

from ktdeval.cli.options import config_of
from ktdeval.errors import KtdevalError
from ktdeval.testing import not_empty
from support.docs.docs_commands import context_of
from support.docs.docs_packages import FOLDER
from support.docs.docs_prose import code_blocks, commands_in_tables, without_code
from support.paths import REPOSITORY

PAGES = [
    page
    for page in sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
    if FOLDER not in page.parents
    and not {"zh", "reference"} & set(page.parts)
    and page.name not in ("CHANGELOG.md", "README.zh-CN.md")
]
COMMAND = re.compile(r"(?:\$ )?ktdeval (.*)")
INDENTED = re.compile(r"^ {4}(.*)$", re.MULTILINE)
#: What stands for words of the reader's
PLACEHOLDER = re.compile(r"…|\.\.\.|\[|\bOPTIONS\b|s3://|--attempts N|'\{[^']*$")
#: Files and folders that a page takes as given
ABSENT = re.compile(r"does not exist|can't read: No such file")


def commands(text: str) -> Iterator[list[str]]:
    """Words of the commands of a page, without comments and pipes."""
    blocks = [block.text for block in code_blocks(text)]
    blocks += commands_in_tables(text)
    blocks += INDENTED.findall(re.sub(r" *\\\n *", " ", without_code(text)))
    for line in re.sub(r" *\\\n *", " ", "\n".join(blocks)).splitlines():
        found = COMMAND.fullmatch(line)
        if found is None or PLACEHOLDER.search(found[1]):
            continue

        command = re.split(r"\s{3,}", found[1])[0]
        if command.count("'") % 2 or command.count('"') % 2:
            command = found[1]

        reader = shlex.shlex(command, posix=True, punctuation_chars="|>&")
        reader.whitespace_split = True
        yield list(takewhile(lambda word: word not in ("|", ">", "&&", "&"), reader))


def problem_of(words: list[str]) -> str:
    """What is wrong with a command; empty if it parses."""
    try:
        context = context_of(words)
        if context.command.name == "run":
            config_of(dict(context.params))
    except click.exceptions.Exit:  # of --help
        return ""
    except (click.ClickException, KtdevalError) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        return "" if ABSENT.search(text) else text

    return ""


@pytest.mark.slow
def test_every_command_of_the_pages_parses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = {}
    seen: set[str] = set()
    for page in not_empty(PAGES):
        for words in commands(page.read_text(encoding="utf-8")):
            command = shlex.join(words)
            if command in seen:
                continue

            seen.add(command)
            problem = problem_of(words)
            if problem:
                wrong[f"{page.relative_to(REPOSITORY)}: {command}"] = problem

    assert wrong == {}
    assert len(seen) > 200
