"""The words of the first screen of help, as the command line writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from ktdeval.cli.main import cli
from ktdeval.first_screen import installed_plugins


class StepRecorder(click.HelpFormatter):
    """Formatter that keeps what it is told to write."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[list[Any]] = []
        self._title = ""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        assert prefix is None
        self.steps.append(["write_usage", prog, args])

    def write_paragraph(self) -> None:
        self.steps.append(["write_paragraph"])

    def write_text(self, text: str) -> None:
        self.steps.append(["write_text", text])

    def write(self, string: str) -> None:
        self.steps.append(["write", string])

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        self._title = name
        yield

    def write_dl(
        self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        assert (col_max, col_spacing) == (24, 2)
        self.steps.append(["section", self._title, [list(row) for row in rows]])


def first_screen_text() -> str:
    """Return the content of `ktdeval/first_screen.json` as it is today."""
    context = click.Context(cli, info_name="ktdeval", help_option_names=["-h", "--help"])
    recorder = StepRecorder()
    cli.format_help(context, recorder)
    screen = {"plugins": installed_plugins(), "steps": recorder.steps}

    return json.dumps(screen, indent=1, ensure_ascii=False) + "\n"
