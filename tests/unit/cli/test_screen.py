"""What a stranger wrote can't reach the terminal's controls."""

from __future__ import annotations

import io
import sys

import click
import pytest

from ktdeval.cli.main import CleanStream, main

HOSTILE = {
    "clear": "\x1b[2J", "title": "\x1b]0;mine\x07", "cursor": "\x1b[1A", "hidden": "\x1b[8m", "c1": "\x9b31m", "bell": "\x07",
    "back": "\b\b", "return": "\r", "bidi": "\u202e", "isolate": "\u2066", "mark": "\u200f", "zero": "\u200b", "line": "\u2028",
    "bom": "\ufeff",
}  # fmt: skip


class Screen(io.StringIO):
    """A terminal, or a file."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("terminal", [True, False])
def test_controls_and_invisible_characters_become_spaces(sent: str, terminal: bool) -> None:
    screen = Screen(terminal)
    click.echo(f"a{sent}b\n\tc 中文", file=CleanStream(screen))
    shown = screen.getvalue()
    assert not set(shown) & (set(sent) - set("[]0123456789;mJAine"))
    assert shown.endswith("b\n\tc 中文\n")


@pytest.mark.parametrize(("terminal", "shown"), [(True, "\x1b[1;31mred\x1b[0m"), (False, "red")])
def test_colours_pass_to_a_terminal_and_nowhere_else(terminal: bool, shown: str) -> None:
    screen = Screen(terminal)
    stream = CleanStream(screen)
    click.echo("\x1b[1;31mred\x1b[0m", file=stream)
    assert screen.getvalue() == f"{shown}\n"


def test_an_error_line_holds_no_controls_and_the_streams_are_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    streams = sys.stdout, sys.stderr
    assert main(["compare", "".join(HOSTILE.values())]) == 2
    line = capsys.readouterr().err
    assert line.endswith("\n")
    assert line.rstrip("\n").isprintable()
    assert (sys.stdout, sys.stderr) == streams
