"""Formats of stored data other than market snapshots, added by plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.values.findings import Finding


@dataclass(frozen=True)
class DataForm:
    """A format of stored data other than a market snapshot: `extra["form"]` of a data provider.

    The provider's `make(params, folder)` writes the folder and yields lines that describe the data
    written; `ktdeval data check` and `info` detect the form of a folder and use it.

    Attributes:
        name: name in messages, such as `QFinZero dataset`.
        holds: `holds(folder)` returns whether a folder has this form, even if it has other faults.
        check: `check(folder)` returns findings, the most severe first, each with the file or table
            as its path.
        facts: `facts(folder)` returns facts about the content, by name, in JSON types. Raises
            DataError if it can't be read.
    """

    name: str
    holds: Callable[[Path], bool]
    check: Callable[[Path], Sequence[Finding]]
    facts: Callable[[Path], Mapping[str, Any]]
