"""Terminal recording of the README: commands of a first card and what they print, as an SVG.

    make screenshots

runs the commands, needs no network and no key, and writes docs/images/first-card.svg. It does not move:
a reader sees all lines at once, and longer ones are wrapped.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import textwrap
from html import escape
from pathlib import Path
from typing import NamedTuple

from support.paths import REPOSITORY

IMAGE = REPOSITORY / "docs/images/first-card.svg"
COMMANDS = (
    "ktdeval --model builtin/momentum --tasks blinded_open_research --windows W1 --out run --quiet",
    "ktdeval card verify run",
)
COLUMNS = 96
LINE_HEIGHT, CHARACTER_WIDTH, MARGIN = 18, 8.0, 16


class Line(NamedTuple):
    """Line of the terminal."""

    text: str
    is_command: bool


def record() -> list[Line]:
    """Run the commands in a temporary folder, and return what a terminal would show. Raises
    CalledProcessError: one of them failed.
    """
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            lines.append(Line(f"$ {command}", True))
            for text in output_of(command, Path(folder)).splitlines():
                lines += [Line(part, False) for part in wrap(text)]

    return lines


def wrap(text: str) -> list[str]:
    """Return a line as a terminal of `COLUMNS` columns shows it, broken between words."""
    return textwrap.wrap(text, COLUMNS, subsequent_indent="  ") if len(text) > COLUMNS else [text]


def output_of(command: str, folder: Path) -> str:
    """Return what a command prints in a terminal of `COLUMNS` columns."""
    words = shlex.split(command)
    environment = {**os.environ, "COLUMNS": str(COLUMNS)}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        check=True,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.rstrip("\n")


def drawn(lines: list[Line]) -> str:
    """Return the recording as one SVG without scripts."""
    width = int(2 * MARGIN + COLUMNS * CHARACTER_WIDTH)
    height = 2 * MARGIN + LINE_HEIGHT * (len(lines) + 1)
    rows = [row(number, line) for number, line in enumerate(lines) if line.text]
    title = "A first card: run, show, verify"
    style = (
        "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;"
        "fill:#e6e6e6}.c{fill:#7ee0a1;font-weight:600}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" role="img" aria-labelledby="t">',
            f'<title id="t">{title}</title>',
            f"<style>{style}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#16181d"/>',
            *rows,
            "</svg>\n",
        ]
    )


def row(number: int, line: Line) -> str:
    """Return one line of the terminal."""
    y = MARGIN + LINE_HEIGHT * (number + 1)
    mark = ' class="c"' if line.is_command else ""
    return f'<text x="{MARGIN}" y="{y}"{mark}>{escape(line.text)}</text>'


def main() -> None:
    """Record the commands and write the picture."""
    IMAGE.parent.mkdir(exist_ok=True)
    IMAGE.write_text(drawn(record()), encoding="utf-8")


if __name__ == "__main__":
    main()
