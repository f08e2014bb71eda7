"""`ktdeval --help` prints its first screen from a file, where that is what it would say anyway."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ktdeval import first_screen
from ktdeval.first_screen import FILE, print_first_screen
from terminal import Terminal

MOST_MODULES = 20
"""Modules that the first screen may import beyond those of click: three of ktdeval's, and what the
standard library needs to read JSON and to wrap lines.
"""
COUNT_MODULES = """
import contextlib, io, sys
import click
# What click itself imports for its first help depends on its version.
command = click.Command("x")
command.get_help(click.Context(command))
before = set(sys.modules)
sys.argv = ["ktdeval", "--help"]
from ktdeval.__main__ import main
with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):
    assert main() == 0
print(*sorted(set(sys.modules) - before))
"""


def test_the_first_screen_imports_few_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT_MODULES], capture_output=True, text=True, check=True
    )
    imported = done.stdout.split()
    own = {name for name in imported if name.startswith("ktdeval")}

    assert {"ktdeval.first_screen", "ktdeval.registry.discovery"} <= own
    assert not {name for name in own if name.startswith(("ktdeval_", "ktdeval.cli"))}
    assert len(imported) <= MOST_MODULES, imported


def test_it_is_what_the_command_line_prints_at_every_width(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for width in ("20", "60", "75", "100", "120", "300"):
        monkeypatch.setenv("COLUMNS", width)
        assert print_first_screen(["--help"])
        assert capsys.readouterr().out == terminal.out("--help")


def test_other_words_and_other_plugins_are_left_to_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert not print_first_screen(["run", "--help"])
    assert not print_first_screen(["--version"])

    screen = json.loads(Path(FILE).read_text("utf-8"))
    screen["plugins"].append("theirs their_plugin")
    other = tmp_path / "first_screen.json"
    other.write_text(json.dumps(screen))
    monkeypatch.setattr(first_screen, "FILE", str(other))

    assert not print_first_screen(["--help"])
