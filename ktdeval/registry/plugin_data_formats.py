"""Forms of stored data beside market snapshots, which plugins bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.values.findings import Finding


@dataclass(frozen=True)
class DataForm:
    """A form of stored data that is no market snapshot: `extra["form"]` of a data provider.

    Such a provider's `make(params, folder)` writes the folder and yields lines that say what it
    wrote; `ktdeval data check` and `info` find the form of a folder, and ask that.

    Attributes:
        name: what messages call it, such as `QFinZero dataset`.
        holds: `holds(folder)`: whether a folder has this form, whatever else is wrong with it.
        check: `check(folder)` returns findings, the most severe first, each with the file or table
            as its path.
        facts: `facts(folder)` returns what the folder holds, by name, in JSON's types. Raises
            DataError: it can't be read.
    """

    name: str
    holds: Callable[[Path], bool]
    check: Callable[[Path], Sequence[Finding]]
    facts: Callable[[Path], Mapping[str, Any]]
