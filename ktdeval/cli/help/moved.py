"""Command-line words that have moved. The old words work for one more release, and a message gives
the new ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import click

from ktdeval.values.disk.files import csv_rows


@cache
def moved_words() -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """Return the new words of each command that has moved, keyed by its old words (`moved.csv`)."""
    words = {}
    for row in csv_rows(Path(__file__).with_name("moved.csv")):
        words[tuple(row["old"].split())] = tuple(row["new"].split())

    return words


def with_new_words(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of `ktdeval` with old words replaced, and report the replacement in one
    line on stderr.

    Only leading words are compared. If several entries match, the longest one applies.
    """
    table = moved_words()
    longest = max((len(old) for old in table), default=0)
    for length in range(longest, 0, -1):
        new = table.get(tuple(arguments[:length]))
        if new is not None:
            click.echo(f"ktdeval: moved: ktdeval {' '.join(new)} …", err=True)
            return [*new, *arguments[length:]]

    return list(arguments)
