"""Known texts of programs that have a profile (`ktdeval.harness.external.known_texts`), by version."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ktdeval.harness import KnownTexts
from ktdeval.values import csv_rows

_LIST = Path(__file__).parent / "profiles" / "known_texts.csv"


@cache
def known_program_texts() -> KnownTexts:
    """Return the known texts of all programs, since one program may start another, such as the SDK
    of Claude Code. The list ships with the suite, so that no run can add to it.
    """
    kinds: dict[str, set[str]] = {"tool": set(), "line": set()}
    for row in csv_rows(_LIST):
        kinds[row["kind"]].add(row["sha256"])
    return KnownTexts(frozenset(kinds["tool"]), frozenset(kinds["line"]))
