"""Examples on help pages: a command line at the end of a command's help."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import click

C = TypeVar("C", bound=click.Command)

_WIDTH = 80  # columns
_INDENT = "  "
#: A shell word, with its quotes
_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^ '"])+""")


def example(line: str) -> Callable[[C], C]:
    """Decorate a command with an example command line that its help shows; place it above
    `@click.command()`. A line of more than 80 columns is continued in shell syntax.
    """

    def decorate(command: C) -> C:
        command.epilog = line
        # click would indent and wrap the text as if it belonged to the options above it.
        command.format_epilog = partial(_write_example, line)  # type: ignore[method-assign]
        return command

    return decorate


def _write_example(line: str, _context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the section `Example`."""
    with formatter.section("Example"):
        formatter.write("".join(f"{part}\n" for part in continued_lines(line)))


def continued_lines(line: str) -> Iterator[str]:
    r"""Yield a command as indented lines of at most 80 columns where possible: each line but the
    last ends with `\`, and an option stays next to its value.
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
    """Yield the words of a command, each option joined with the word after it."""
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
