"""Each help page ends with an example that the command itself takes."""

from __future__ import annotations

import shlex
from itertools import takewhile
from pathlib import Path

import click
import pytest

from ktdeval.cli.help.examples import continued_lines
from ktdeval.errors import KtdevalError
from ktdeval.registry import load_plugins
from ktdeval.testing import Terminal
from support.docs.docs_commands import all_commands, context_of
from support.floors import absent

COMMANDS = dict(all_commands())
#: Parameters whose values are names that plugins offer
NAMES = {"tasks": "tasks", "task": "tasks", "metrics": "metrics", "agents": "agents"}
#: Commands of ktdeval itself whose examples name what a package offers
OF_PACKAGES = {"ktdeval data make": "ktdeval_data", "ktdeval plan": "ktdeval_grid"}


def help_of(path: str) -> str:
    """The help page of a command, on a terminal of 80 columns."""
    # click keeps a command's help option, so it must be the one of the command line.
    names = ["-h", "--help"]
    screen = {"terminal_width": 80, "max_content_width": 80}
    context = click.Context(COMMANDS[path], info_name=path, help_option_names=names, **screen)
    return COMMANDS[path].get_help(context)


def examples_in(help_page: str) -> list[str]:
    """The commands of a page's section `Example`, each in one line."""
    whole_lines = help_page.replace(" \\\n", " ")
    _, _, section = whole_lines.partition("\nExample:\n")
    lines = takewhile(lambda line: line.startswith("  "), section.splitlines())
    return [" ".join(line.split()) for line in lines]


def parsed(line: str) -> click.Context:
    """Read a line as the command line would, without running it: the context of its command."""
    command_line, _, _file = line.partition(" > ")
    program, *words = shlex.split(command_line)

    assert program == "ktdeval"

    return context_of(words)


@pytest.mark.slow
def test_each_help_page_has_an_example_that_its_own_command_takes(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    unoffered = tuple(words for words, package in OF_PACKAGES.items() if package in absent())
    wrong = []

    assert len(COMMANDS) > 40

    for path in COMMANDS:
        lines = examples_in(help_of(path))
        if len(lines) != 1:
            wrong.append(f"{path}: {len(lines)} examples")

        for line in lines:
            if line.startswith(unoffered):
                continue

            try:
                context = parsed(line)
            except click.exceptions.Exit:  # it asks for a page of help, which was written
                continue
            except (click.ClickException, KtdevalError) as error:
                wrong.append(f"{line}: {error}")
                continue

            called = context.command_path.replace(" DIR ", " ")  # an argument before a command
            if called != path and not called.startswith(f"{path} "):
                wrong.append(f"{line}: calls {called}, not {path}")

    assert not wrong, "\n".join(wrong)
    assert list(tmp_path.iterdir()) == []
    assert "Example:\n  ktdeval list metrics\n" in terminal.out("list", "--help")


@pytest.mark.slow
def test_each_name_in_an_example_is_offered_by_a_plugin() -> None:
    if absent():
        pytest.skip(f"examples name what every package offers; not here: {', '.join(absent())}")

    plugins = load_plugins()
    wrong = []
    seen = 0

    for path in COMMANDS:
        for line in examples_in(help_of(path)):
            given = parsed(line).params
            if given.get("model"):
                plugins.model_spec_name(given["model"])

            for option, kind in NAMES.items():
                value = given.get(option) or ()
                for name in [value] if isinstance(value, str) else value:
                    seen += 1
                    if name not in plugins.specs(kind):
                        wrong.append(f"{line}: {name} is none of {kind}")

    assert wrong == []
    assert seen > 5


def test_help_pages_fit_80_columns() -> None:
    wide = []
    for path in COMMANDS:
        wide += [f"{path}: {line}" for line in help_of(path).splitlines() if len(line) > 80]

    assert wide == []


def test_a_long_example_is_continued_and_keeps_options_with_their_values() -> None:
    line = (
        "ktdeval leaderboard submit runs/mine --board board --submitter 'My team' --contact a@b.org"
    )
    lines = list(continued_lines(line))

    assert lines == [
        "  ktdeval leaderboard submit runs/mine --board board --submitter 'My team' \\",
        "    --contact a@b.org",
    ]
    joined = "".join(part.removesuffix("\\") for part in lines)
    assert shlex.split(joined) == shlex.split(line)
    assert list(continued_lines("ktdeval list tasks")) == ["  ktdeval list tasks"]
