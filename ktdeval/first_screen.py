"""First screen of help, printed without loading a plugin: it is what people call first and most.

`first_screen.json` holds its words; `make docs` writes it, and a test holds it equal to what the
command line itself would print.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from ktdeval.registry.discovery import find_entry_points

FILE = os.path.join(os.path.dirname(__file__), "first_screen.json")  # noqa: PTH118, PTH120 - pathlib costs an import here
COMPLETION = "_KTDEVAL_COMPLETE"  #: environment variable by which a shell's script asks for words
_WORDS: tuple[list[str], ...] = ([], ["--help"], ["-h"])


def print_first_screen(arguments: list[str]) -> bool:
    """Print the screen where it is asked for and known; return whether it was printed.

    It is not where the installed plugins are others than those of the file, and not where stdout
    can't take its characters.
    """
    if arguments not in _WORDS or COMPLETION in os.environ:
        return False

    encoding = getattr(sys.stdout, "encoding", None) or ""
    if not encoding.lower().startswith("utf"):
        return False

    with open(FILE, encoding="utf-8") as stream:
        screen: dict[str, Any] = json.load(stream)

    if installed_plugins() != screen["plugins"]:
        return False

    try:
        sys.stdout.write(screen_text(screen["steps"], help_width()))
        sys.stdout.flush()
    except OSError:
        # The reader has gone (`| head`). Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return True


def installed_plugins() -> list[str]:
    """Return what advertises plugins, each as `distribution module`, sorted."""
    return sorted(f"{entry.distribution} {entry.value}" for entry in find_entry_points())


def screen_text(steps: list[list[Any]], width: int) -> str:
    """Return the screen, laid out by click; `steps`: calls of its formatter with their arguments, a
    `section` with its title and rows.
    """
    import click  # noqa: PLC0415 - see above

    formatter = click.HelpFormatter(width=width)
    for name, *arguments in steps:
        if name == "section":
            title, rows = arguments
            with formatter.section(title):
                formatter.write_dl([tuple(row) for row in rows], col_max=24)
        else:
            getattr(formatter, name)(*arguments)

    return formatter.getvalue().rstrip("\n") + "\n"


def help_width() -> int:
    """Return the columns that help takes: those of the terminal, but 60 to 120. To find them itself,
    click would import shutil with all compression formats.
    """
    return max(60, min(terminal_width(), 120))


def terminal_width() -> int:
    """Return the columns of the terminal, or 100 if there is none."""
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(sys.stdout.fileno()).columns)
    except (ValueError, OSError):  # no number, not a terminal, or stdout is replaced
        return 100
