"""Examples on help pages: lines to type, at the end of a command's help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import click

C = TypeVar("C", bound=click.Command)


def example(*lines: str) -> Callable[[C], C]:
    """Decorate a command with lines that call it, which its help shows as they are.

    Write it above `@click.command()`. Lines are not wrapped, so that they can be copied.
    """

    def decorate(command: C) -> C:
        command.epilog = "\n".join(lines)
        # click would indent and wrap the text as if it belonged to the options above it.
        command.format_epilog = partial(_write_examples, lines)  # type: ignore[method-assign]
        return command

    return decorate


def _write_examples(
    lines: Sequence[str],
    _context: click.Context,
    formatter: click.HelpFormatter,
) -> None:
    """Write the section `Example`."""
    heading = "Examples" if len(lines) > 1 else "Example"
    with formatter.section(heading):
        for line in lines:
            formatter.write(f"  {line}\n")
