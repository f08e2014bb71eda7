"""Formats of stored data, other than market snapshots, that plugins add."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.values.findings import Finding


@dataclass(frozen=True)
class DataForm:
    """Format of stored data other than a market snapshot, given as `extra["form"]` of a data
    provider.

    The provider's `make(params, folder)` writes the folder and yields lines that describe the
    written data. `ktdeval data check` and `ktdeval data info` detect which format a folder has, and
    use it.

    Attributes:
        name: name in messages, such as `QFinZero dataset`.
        holds: `holds(folder)` returns whether a folder has this format, even if it has other faults.
        check: `check(folder)` returns findings, most severe first. The path of each finding is a file
            or table.
        facts: `facts(folder)` returns facts about the contents, keyed by name, in JSON types. Raises
            DataError if the folder can't be read.
    """

    name: str
    holds: Callable[[Path], bool]
    check: Callable[[Path], Sequence[Finding]]
    facts: Callable[[Path], Mapping[str, Any]]
