"""Examples on help pages: a command line at the end of each command's help."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import click

C = TypeVar("C", bound=click.Command)

_WIDTH = 80  # columns
_INDENT = "  "
#: shell word, including any quotes
_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^ '"])+""")


def example(line: str) -> Callable[[C], C]:
    """Decorate a command with an example command line, which its help shows. Must be placed above
    `@click.command()`.

    Lines of more than 80 columns are continued in shell syntax.
    """

    def decorate(command: C) -> C:
        command.epilog = line
        # click would indent and wrap the text as if it belonged to the options above it
        command.format_epilog = partial(_write_example, line)  # type: ignore[method-assign]
        return command

    return decorate


def _write_example(line: str, _context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the section `Example`."""
    with formatter.section("Example"):
        formatter.write("".join(f"{part}\n" for part in continued_lines(line)))


def continued_lines(line: str) -> Iterator[str]:
    r"""Yield a command as indented lines, of at most 80 columns where possible. All lines except
    the last end with `\`, and options stay next to their values.
    """
    room = _WIDTH - len(" \\")
    shown = _INDENT
    for words in _options_with_values(line):
        longer = f"{shown}{words}" if shown.isspace() else f"{shown} {words}"
        if len(longer) > room and not shown.isspace() and len(_INDENT + line) > _WIDTH:
            yield f"{shown} \\"
            longer = f"{_INDENT * 2}{words}"

        shown = longer

    yield shown


def _options_with_values(line: str) -> Iterator[str]:
    """Yield the words of a command, with each option joined to the word after it."""
    option = ""
    for word in _WORD.findall(line):
        if word.startswith("--") and not option:
            option = word
        elif option and not word.startswith("--"):
            yield f"{option} {word}"
            option = ""
        elif option:
            yield option
            option = word
        else:
            yield word

    if option:
        yield option
